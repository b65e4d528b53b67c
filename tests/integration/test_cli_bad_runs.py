"""Claims about run folders of another version, damaged or taken: one message, the right code, no change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cli_helpers import (
    call,
    edited,
    replayed,
    small_suite,
    start,
    tree,
)

pytestmark = pytest.mark.sandbox


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return small_suite(tmp_path)


@pytest.fixture
def run(suite: Path, tmp_path: Path) -> Path:
    return replayed(tmp_path, suite)


def broken_runs() -> dict[str, tuple[Callable[[Path], object], str]]:
    trial = Path("trials") / "scenario-001" / "1"
    return {
        "newer run.json": (
            lambda run: edited(run / "run.json", format_version=2, version="9.0"),
            "run.json: the run manifest has format version 2, written by another diagnose-bench 9.0; "
            "this one (0.1.0) reads format version 1. Upgrade diagnose-bench",
        ),
        "older run.json": (
            lambda run: edited(run / "run.json", format_version=0),
            "Read it with that version, or run again.",
        ),
        "run.json without a version": (
            lambda run: edited(run / "run.json", format_version=None),
            "Give the folder of a run.",
        ),
        "run.json cut off": (
            lambda run: (run / "run.json").write_text('{"format_version": 1,'),
            "the run manifest is not JSON",
        ),
        "run.json without an agent": (
            lambda run: edited(run / "run.json", agent=None),
            "the run manifest is damaged: $.agent: ",
        ),
        "run.json with a path for an id": (
            lambda run: edited(run / "run.json", plan=[{"scenario_id": "../../x", "repeat": 1}]),
            "$.plan[0]: '../../x', repeat 1, cannot name a trial",
        ),
        "newer trial.json": (
            lambda run: edited(run / trial / "trial.json", format_version=2),
            "trial.json: the trial record has format version 2",
        ),
        "trial.json cut off": (
            lambda run: (run / trial / "trial.json").write_text("{"),
            "trial.json: the trial record is not JSON",
        ),
        "trial.json of another outcome": (
            lambda run: edited(run / trial / "trial.json", outcome="won"),
            "the trial record is damaged: $.outcome: ",
        ),
        "trial.json of another trial": (
            lambda run: edited(run / trial / "trial.json", repeat=2),
            "is in the wrong place. Put it back into trials/scenario-001/2/.",
        ),
    }


@pytest.mark.parametrize("case", broken_runs())
def test_a_broken_run_is_neither_scored_nor_resumed_nor_changed(
    suite: Path, run: Path, tmp_path: Path, case: str
) -> None:
    break_it, said = broken_runs()[case]
    break_it(run)
    before = tree(run)
    assert said in call("score", run).refused()
    assert said in call("explain", run, "1", "1").refused()
    agent = f"replay:{tmp_path / 'answers'}"
    assert said in start(suite, run, "--resume", agent=agent).refused()
    assert "a run is here already" in start(suite, run, agent=agent).refused()
    assert tree(run) == before


def test_a_diagnosis_that_has_gone_is_missed(run: Path) -> None:
    (run / "trials" / "scenario-001" / "1" / "diagnosis.json").unlink()
    message = call("score", run).refused()
    assert "diagnosis.json: is missing, but trial.json says that a diagnosis arrived." in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"format_version": 2}', "format_version is 2; this diagnose-bench (0.1.0) reads 1"),
        ("{}", "format_version is null"),
        ("{", "the scorecard is not JSON"),
        (None, "this run has no scorecard.json"),
    ],
)
def test_a_scorecard_that_cannot_be_read_is_made_again(run: Path, text: str | None, said: str) -> None:
    if text is not None:
        (run / "scorecard.json").write_text(text)
    message = call("report", run).refused()
    assert said in message
    assert f"diagnose-bench score {run}" in message
    assert call("score", run).code == 0
    assert call("report", run).code == 0


def test_a_scorecard_of_a_run_that_went_on_is_stale(run: Path) -> None:
    call("score", run)
    (run / "trials" / "scenario-001" / "1" / "trial.json").unlink()
    assert "has changed since it was scored. Score it again" in call("report", run).refused()


def test_a_run_that_is_given_twice_is_refused(run: Path) -> None:
    call("score", run)
    assert "this run is given twice" in call("report", run, run).refused()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--repeats", "2"], "policy.repeats was 1 and is now 2"),
        (["--no-repair"], "policy.repair was true and is now false"),
        (["--scenario", "1"], "the plan (scenarios and repeats) differs"),
    ],
)
def test_a_run_is_not_resumed_with_other_settings(
    suite: Path, run: Path, tmp_path: Path, more: list[str], said: str
) -> None:
    before = tree(run)
    agent = f"replay:{tmp_path / 'answers'}"
    assert said in start(suite, run, "--resume", *more, agent=agent).refused()
    assert tree(run) == before


def test_a_run_is_not_resumed_with_another_agent(suite: Path, run: Path) -> None:
    message = start(suite, run, "--resume").refused()
    assert 'is now "baseline:empty"' in message
    assert "choose another --out" in message


def test_what_is_in_the_way_stays(suite: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "mine").write_text("mine")
    assert "is a file, not a folder" in start(suite, file).refused()
    assert "not empty and holds no run" in start(suite, folder).refused()
    assert "is a file, not a folder" in start(suite, file / "below").refused()
    assert "the run's folder cannot be made" in start(suite, Path("/proc/nope")).refused()
    assert "Nothing was started" in start(suite, Path("/proc/nope")).refused()
    assert "it does not exist" in start(suite, tmp_path / "none", "--resume").refused()
    answers = tmp_path / "a.jsonl"
    answers.write_text('{"scenario_id": "1", "repeat": 1, "entities": []}\n')
    words = ["import", "diagnoses", answers, "--agent", "a", "--suite", suite, "--out"]
    assert "not empty" in call(*words, folder).refused()
    assert "Nothing was imported" in call(*words, "/proc/nope").refused()
    assert tree(folder) == {"mine": b"mine"}


def test_a_report_goes_to_a_folder_that_exists(run: Path, tmp_path: Path) -> None:
    call("score", run)
    for option in ("--html", "--markdown"):
        message = call("report", run, option, tmp_path / "nope" / "x").refused()
        assert f"{tmp_path / 'nope' / 'x'}: cannot write: No such file or directory." in message
        assert "its folder must exist" in message
    (tmp_path / "folder").mkdir()
    assert "cannot write: Is a directory" in call("report", run, "--html", tmp_path / "folder").refused()
