"""Claims about files that an ordinary user may not read or write: named, never destroyed or half-written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cli_helpers import Called, call, replayed, small_suite, tree
from sandbox_helpers import as_ordinary_user

pytestmark = pytest.mark.sandbox

SUITE = Path("snapshots") / "small"
TRIAL = Path("run") / "trials" / "scenario-001" / "1"


@pytest.fixture(scope="module", autouse=True)
def _loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Load what is imported late: once the rights are given up, the installation may be out of reach."""
    home = tmp_path_factory.mktemp("loaded")
    suite = small_suite(home)
    replayed(home, suite)
    call("score", home / "run")
    call("report", home / "run", "--html", home / "x.html", "--markdown", home / "x.md")
    call("run", "--agent", "baseline:empty", "--suite", suite, "--out", home / "other")
    call("shell", "1", "--suite", suite, "-c", "true")
    call("import", "diagnoses", home / "nope", "--agent", "a", "--suite", suite)
    call("import", "itbench", home / "nope", "--name", "a")
    call("report", home / "nope", "--nonsense")


def without_rights(home: Path, place: Path | None, mode: int, *calls: list[str]) -> list[Called]:
    """Make a suite and a scored run, take rights away from a place, call, and give them back."""
    replayed(home, small_suite(home))
    call("score", home / "run")
    before = tree(home)
    target = None if place is None else home / place
    if target is not None:
        usual = target.stat().st_mode
        target.chmod(mode)
    try:
        found = [call(*(word.replace("~", str(home)) for word in words)) for words in calls]
    finally:
        if target is not None:
            target.chmod(usual)
    assert tree(home) == before
    return found


def called(place: Path | None, mode: int, *calls: list[str]) -> list[Called]:
    def child(home: Path) -> Any:
        return without_rights(home, place, mode, *calls)

    return as_ordinary_user(child)


RUN = ["run", "--agent", "baseline:empty", "--suite", "~/snapshots/small", "--out", "~/new"]
RESUME = ["run", "--agent", "replay:~/answers", "--suite", "~/snapshots/small", "--repeats", "1"]
RESUME += ["--out", "~/run", "--resume"]
SCORE = ["score", "~/run"]


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (SUITE, "snapshots/small: cannot look into the folder: Permission denied."),
        (
            SUITE / "suite.json",
            "suite.json: cannot read the suite: Permission denied. Check its permissions.",
        ),
        (SUITE / "scenario-001", "scenario-001"),
        (SUITE / "scenario-001" / "snapshot.json", "cannot read the snapshot manifest: Permission denied."),
        (SUITE / "scenario-001" / "events.jsonl", "events.jsonl: cannot read the file: Permission denied."),
    ],
)
def test_a_suite_that_cannot_be_read_starts_nothing(place: Path, said: str) -> None:
    (done,) = called(place, 0, RUN)
    assert said in done.refused()


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (Path("run"), "is not readable"),
        (Path("run") / "run.json", "run.json: cannot read the run manifest: Permission denied."),
        (TRIAL, "trial.json: cannot be read: Permission denied. Check the permissions."),
        (TRIAL / "trial.json", "trial.json: cannot read the trial record: Permission denied."),
    ],
)
def test_a_run_that_cannot_be_read_is_neither_scored_nor_run_again(place: Path, said: str) -> None:
    for done in called(place, 0, SCORE, RESUME):
        assert said in done.refused()
        # What is only unreadable may be whole: nothing that would lose it is advised.
        assert "Delete" not in done.err
        assert "run again" not in done.err


def test_a_diagnosis_that_cannot_be_read_is_no_missing_one() -> None:
    (done,) = called(TRIAL / "diagnosis.json", 0, SCORE)
    assert "diagnosis.json: cannot read the diagnosis: Permission denied." in done.refused()


def test_truths_that_cannot_be_looked_for_are_an_error() -> None:
    (done,) = called(Path("ground_truth") / "small", 0, SCORE)
    assert "Permission denied" in done.refused()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["score", "~/run", "--profile", "strict"], "run/scorecard.json: cannot write: Permission denied."),
        (["report", "~/run", "--html", "~/run/x.html"], "run/x.html: cannot write: Permission denied."),
        (RESUME, "cannot write: Permission denied."),
    ],
)
def test_a_run_that_cannot_be_written_stays_as_it_is(words: list[str], said: str) -> None:
    def locked(home: Path) -> Any:
        replayed(home, small_suite(home))
        call("score", home / "run")
        (home / "run" / ".lock").unlink()
        before = tree(home)
        (home / "run").chmod(0o555)
        try:
            found = call(*(word.replace("~", str(home)) for word in words))
        finally:
            (home / "run").chmod(0o755)
        assert tree(home) == before
        return found

    assert said in as_ordinary_user(locked).refused()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            [*RUN[:-1], "/nope"],
            "/nope: the run's folder cannot be made: Permission denied. Nothing was started",
        ),
        (["score", "/proc/1/fd/x"], "Permission denied"),
        (["report", "~/run", "--html", "/nope.html"], "/nope.html: cannot write: Permission denied."),
        (
            ["import", "diagnoses", "/proc/1/fd/x", "--agent", "a", "--suite", "~/snapshots/small"],
            "ermission",
        ),
        (["import", "itbench", "/proc/1/fd/x", "--name", "a"], "Permission denied"),
        (["run", "--agent", "/proc/1/fd/x", "--suite", "~/snapshots/small"], "/proc/1/fd/x"),
        (["run", "--agent", "replay:/proc/1/fd/x", "--suite", "~/snapshots/small"], "Permission denied"),
    ],
)
def test_what_belongs_to_others_is_named(words: list[str], said: str) -> None:
    (done,) = called(None, 0, words)
    assert said in done.refused()


def test_the_shell_of_an_ordinary_user_works_and_says_what_it_cannot_read() -> None:
    command = ["shell", "1", "--suite", "~/snapshots/small", "-c"]
    fine, no_right, scratch = called(
        SUITE / "scenario-002" / "events.jsonl",
        0,
        [*command, "wc -l </snapshot/events.jsonl; exit 9"],
        ["shell", "2", "--suite", "~/snapshots/small", "-c", "true"],
        [*command, "true", "--scratch", "/nope/x"],
    )
    assert (fine.code, fine.out) == (9, "1\n")
    assert "events.jsonl: cannot read the file: Permission denied." in no_right.refused(125)
    assert "/nope" in scratch.refused(125)
