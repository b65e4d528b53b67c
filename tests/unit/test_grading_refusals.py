"""Claims about runs and suites that cannot be scored as they are: one message, and nothing written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from unit.grading_cases import all_right
from unit.sample_runs import Trial, truth_of, write_run, write_suite

from diagnose_bench.errors import (
    DigestMismatchError,
    GroundTruthError,
    RunError,
    RunFormatError,
    SuiteError,
    UsageError,
)
from diagnose_bench.grading import score_run

CART, CHECKOUT, FRONTEND, VALKEY = (
    f"shop/Deployment/{name}" for name in ("cart", "checkout", "frontend", "valkey")
)
ONE, TWO, CALM = "scenario-001", "scenario-002", "scenario-003"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return write_suite(
        tmp_path,
        {
            ONE: truth_of(ONE, ["cart"], ["frontend"]),
            TWO: truth_of(TWO, ["cart", "valkey"], ["frontend"]),
            CALM: truth_of(CALM, []),
        },
    )


def test_suite_that_has_changed_since_the_run_is_refused(tmp_path: Path, suite: Path) -> None:
    run = write_run(tmp_path / "run", suite, all_right())
    file = suite / "suite.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "version": "2"}))
    with pytest.raises(DigestMismatchError, match="--suite"):
        score_run(run)
    assert not (run / "scorecard.json").exists()


def test_snapshot_that_has_changed_since_the_run_is_refused(tmp_path: Path, suite: Path) -> None:
    run = write_run(tmp_path / "run", suite, all_right())
    with (suite / ONE / "objects.jsonl").open("a") as file:
        file.write("\n")
    with pytest.raises(DigestMismatchError, match=r"objects\.jsonl"):
        score_run(run)


def test_moved_suite_is_found_where_the_option_says(tmp_path: Path, suite: Path) -> None:
    run = write_run(tmp_path / "run", suite, all_right())
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    (tmp_path / "snapshots").rename(moved / "snapshots")
    with pytest.raises(SuiteError, match="--suite"):
        score_run(run)
    with pytest.raises(GroundTruthError, match="--truth"):
        score_run(run, suite=str(moved / "snapshots" / "small"))
    truth = tmp_path / "ground_truth" / "small"
    assert score_run(run, suite=str(moved / "snapshots" / "small"), truth=truth).number == 1.0


def damage_plan(change: Callable[[list[Any]], list[Any]]) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        manifest = json.loads((run / "run.json").read_text())
        manifest["plan"] = change(manifest["plan"])
        (run / "run.json").write_text(json.dumps(manifest))

    return damage


def damage_trial(name: str, text: str | None) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        file = run / "trials" / ONE / "1" / name
        if text is None:
            file.unlink()
        else:
            file.write_text(text)

    return damage


STRANGE = {"scenario_id": "scenario-999", "repeat": 1}


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (lambda run: (run / "run.json").unlink(), RunError, "not a run"),
        (damage_trial("diagnosis.json", None), RunFormatError, "is missing"),
        (damage_trial("diagnosis.json", "prose"), RunFormatError, "holds no diagnosis"),
        (damage_trial("trial.json", "{"), RunFormatError, r"trial\.json"),
        (damage_plan(lambda plan: [*plan[:-1], STRANGE]), RunFormatError, "scenario-999"),
        (damage_plan(lambda plan: [*plan, plan[0]]), RunFormatError, "each once"),
        (damage_plan(lambda plan: [*plan, {**plan[0], "repeat": 2}]), RunFormatError, "each once"),
        (damage_plan(lambda _: []), RunFormatError, "each once"),
    ],
)
def test_damaged_run_gives_one_message_and_writes_nothing(
    tmp_path: Path, suite: Path, damage: Callable[[Path], Any], error: type[Exception], message: str
) -> None:
    run = write_run(tmp_path / "run", suite, all_right())
    damage(run)
    with pytest.raises(error, match=message):
        score_run(run)
    assert not (run / "scorecard.json").exists()


@pytest.mark.parametrize(
    ("exclude", "error", "message"),
    [
        (["scenario-017"], SuiteError, "scenario-017"),
        ([ONE, TWO, CALM], UsageError, "no number is left"),
    ],
)
def test_exclusions_that_make_no_sense_are_refused(
    tmp_path: Path, suite: Path, exclude: list[str], error: type[Exception], message: str
) -> None:
    run = write_run(tmp_path / "run", suite, all_right())
    with pytest.raises(error, match=message):
        score_run(run, exclude=exclude)


def test_scenario_outside_a_subset_cannot_be_excluded(tmp_path: Path, suite: Path) -> None:
    run = write_run(tmp_path / "run", suite, {(ONE, 1): Trial([CART])}, plan=[ONE])
    with pytest.raises(UsageError, match="no trial of it"):
        score_run(run, exclude=[TWO])


def test_dropped_parts_of_a_truth_and_patches_are_listed(tmp_path: Path) -> None:
    truth = truth_of(ONE, ["cart"])
    truth["propagation"] = [{"source": "cart", "target": "nobody", "effect": "errors"}]
    suite = write_suite(tmp_path, {ONE: truth})
    (tmp_path / "ground_truth" / "small" / "patches.yaml").write_text(
        "format_version: 1\npatches:\n- scenario_id: scenario-001\n  who: a reviewer\n  why: a better title\n"
        "  patch:\n  - {op: replace, path: /title, value: Better}\n"
    )
    scorecard = score_run(write_run(tmp_path / "run", suite, {(ONE, 1): Trial([CART])}))
    assert any("nobody" in text for text in scorecard.warnings[ONE])
    assert [(patch.who, patch.operations) for patch in scorecard.patches] == [
        ("a reviewer", ("replace /title",))
    ]
    assert scorecard.patches_digest is not None
    assert f"|patches:{scorecard.patches_digest[:12]}|" in scorecard.signature


def test_baseline_run_on_another_suite_is_left_out(tmp_path: Path, suite: Path) -> None:
    run = write_run(tmp_path / "run", suite, all_right())
    other = write_suite(tmp_path / "other", {ONE: truth_of(ONE, ["cart"])})
    write_run(run / "baselines" / "empty", other, {(ONE, 1): Trial([])}, agent="baseline:empty")
    (run / "baselines" / "notes.txt").write_text("not a run")
    assert ["another version of the suite" in note for note in score_run(run).notes] == [True]


@pytest.mark.parametrize("name", ["snapshot.json", "objects.jsonl"])
def test_snapshot_that_lost_a_file_is_refused(tmp_path: Path, suite: Path, name: str) -> None:
    run = write_run(tmp_path / "run", suite, all_right())
    (suite / ONE / name).unlink()
    with pytest.raises(SuiteError, match=name):
        score_run(run)


def test_manifest_that_differs_from_the_suite_is_refused(tmp_path: Path, suite: Path) -> None:
    run = write_run(tmp_path / "run", suite, all_right())
    file = suite / ONE / "snapshot.json"
    file.write_text(file.read_text().replace("00:30:00", "00:31:00"))
    with pytest.raises(DigestMismatchError, match=r"snapshot\.json"):
        score_run(run)


def test_truths_that_give_patterns_feed_the_constant_baseline(tmp_path: Path) -> None:
    def published(number: int) -> str:
        groups = [
            {
                "id": "flag",
                "kind": "ConfigMap",
                "filter": ["flagd-config\\b"],
                "namespace": "shop",
                "root_cause": True,
            }
        ]
        return json.dumps(
            {
                "id": str(number),
                "fault": [],
                "alerts": [],
                "groups": groups,
                "aliases": [],
                "propagations": [],
            }
        )

    suite = write_suite(tmp_path, {ONE: published(1), TWO: published(2)}, with_snapshots=False)
    scorecard = score_run(write_run(tmp_path / "run", suite, {}, imported=True))
    assert scorecard.complete
    assert scorecard.baselines.constant.entities == dict.fromkeys((ONE, TWO), "shop/ConfigMap/flagd-config")
    assert (scorecard.baselines.constant.score, scorecard.number, scorecard.baselines.lift) == (
        1.0,
        0.0,
        -1.0,
    )
