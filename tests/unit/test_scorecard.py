from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from unit.sample_runs import Trial, truth_of, write_run, write_suite

from diagnose_bench.errors import RunError, RunFormatError
from diagnose_bench.grading import score_run
from diagnose_bench.outcome import Profile
from diagnose_bench.records import RunManifest, SandboxInfo
from diagnose_bench.scorecard import load_scorecard, write_scorecard
from diagnose_bench.signature import IntervalChoice, parse_signature, sandbox_label, signature

ONE = "scenario-001"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    suite = write_suite(tmp_path, {ONE: truth_of(ONE, ["cart"], ["frontend"])})
    return write_run(tmp_path / "run", suite, {(ONE, 1): Trial(["shop/Deployment/frontend"])})


def test_scorecard_survives_the_round_trip(run: Path) -> None:
    scorecard = score_run(run)
    assert load_scorecard(run) == scorecard
    before = (run / "scorecard.json").read_bytes()
    write_scorecard(run, load_scorecard(run))
    assert (run / "scorecard.json").read_bytes() == before


def test_run_that_was_not_scored_says_what_to_do(run: Path) -> None:
    with pytest.raises(RunError, match="diagnose-bench score"):
        load_scorecard(run)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 2}, "format_version is 2"),
        ({"format_version": None}, "format_version is null"),
        ({"profile": "lenient"}, r"\$\.profile"),
        ({"surprise": 1}, r"\$\.surprise"),
    ],
)
def test_damaged_scorecard_is_refused_with_its_place(run: Path, change: dict[str, Any], message: str) -> None:
    score_run(run)
    file = run / "scorecard.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(RunFormatError, match=message):
        load_scorecard(run)


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000])
def test_scorecard_that_is_no_json_object_is_refused(run: Path, text: str) -> None:
    (run / "scorecard.json").write_text(text)
    with pytest.raises(RunFormatError, match="Score the run again"):
        load_scorecard(run)


def sign(run: Path, **changes: Any) -> str:
    manifest = RunManifest.model_validate_json((run / "run.json").read_text())
    policy = manifest.policy.model_copy(update=changes.pop("policy", {}))
    settings: dict[str, Any] = {
        "truth_digest": "b" * 64,
        "patches_digest": None,
        "profile": Profile.STRICT,
        "pass_score": 0.5,
        "scenario_ids": [ONE],
        "subset": False,
        "excluded": [],
        "interval": IntervalChoice(),
        "resolver_version": 1,
        "scoring_version": 1,
    }
    return signature(manifest.model_copy(update={"policy": policy}), **(settings | changes))


def test_settings_that_do_not_apply_are_dashes(run: Path) -> None:
    line = sign(run, policy={"max_turns": None, "time_limit_s": None, "task_digest": None})
    assert "|turns:-|time:-|forced_final:0|task:-|" in line


def test_fractions_of_a_second_are_kept(run: Path) -> None:
    assert "|time:0.1|" in sign(run, policy={"time_limit_s": 0.1})


def test_name_cannot_forge_a_field(run: Path) -> None:
    fields = parse_signature(sign(run, subset=True, scenario_ids=["a|scoring:9\n"]))
    assert fields["scenarios"] == "1(a?scoring:9?)"
    assert fields["scoring"] == "1"


@pytest.mark.parametrize(
    ("backend", "process", "label"),
    [
        ("bwrap", "confined", "bwrap"),
        ("bwrap", "builtin", "bwrap"),
        ("bwrap", "unconfined", "bwrap+unconfined"),
        ("none", "builtin", "none"),
        (None, None, "-"),
    ],
)
def test_sandbox_of_a_signature(backend: str | None, process: str | None, label: str) -> None:
    assert sandbox_label(SandboxInfo(backend=backend, agent_process=process)) == label
