"""Claims about bad input: one message (what, where, what next), the right exit code, and nothing changed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_helpers import (
    ANSWER,
    call,
    call_process,
    edited,
    replayed,
    script,
    small_suite,
    start,
    tree,
    write_answers,
)

pytestmark = pytest.mark.sandbox


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return small_suite(tmp_path)


@pytest.fixture
def run(suite: Path, tmp_path: Path) -> Path:
    return replayed(tmp_path, suite)


# What is asked for does not exist, or makes no sense.


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "--agent", "baseline:empty", "--suite", "nope"], "neither a bundled suite nor a folder"),
        (["run", "--agent", "baseline:emty"], "There are: empty, alerting"),
        (["run", "--agent", "baseline:constant"], "since it needs the truth"),
        (["run", "--agent", "oracle:x"], "Give baseline:NAME, replay:DIR"),
        (["run", "--agent", "./nope.sh"], "nope.sh does not exist. Check the path."),
        (["run", "--agent", "python3 nope.py --fast"], "/nope.py does not exist. Check the path."),
        (["run", "--agent", "env A=1 node src/nope.mjs"], "/src/nope.mjs does not exist. Check the path."),
        (["run", "--agent", "no-such-program"], "no program no-such-program on PATH. Give baseline:NAME"),
        (["run", "--agent", ""], "names no program"),
        (["run", "--agent", "a 'b"], "Check the quotes"),
        (["run", "--agent", "replay:"], "replay:DIR"),
        (["run", "--agent", "replay:/nope"], "/nope/<scenario_id>/<repeat>.json"),
        (["run", "--agent", "baseline:empty", "--repeats", "0"], "--repeats 0: give a number from 1"),
        (["run", "--agent", "baseline:empty", "--max-turns", "0"], "--max-turns 0: give a number from 1"),
        (["run", "--agent", "baseline:empty", "--time-limit", "nan"], "--time-limit nan: give a number"),
        (["run", "--agent", "baseline:empty", "--time-limit", "-1"], "--time-limit -1.0: give a number"),
        (["run", "--agent", "baseline:empty", "--sandbox", "docker"], "Known are auto, bwrap, landlock"),
        (["run", "--agent", "baseline:empty", "--hide", "/nope"], "--hide /nope: does not exist"),
        (["run", "--agent", "baseline:empty", "--resume"], "--resume needs --out"),
        (["score", "/nope"], 'A run is made with "diagnose-bench run --out'),
        (["score", "/usr"], "it has no run.json"),
        (["report", "/nope"], 'A run is made with "diagnose-bench run'),
        (["explain", "/nope", "1", "1"], 'A run is made with "diagnose-bench run'),
        (["schema", "nope"], "There are: "),
        (["suite", "show", "postmortem"], "Did you mean postmortems?"),
        (["suite", "digest", "/usr"], "holds no suite.json"),
        (["suite", "lint", "nope"], "Bundled: postmortems"),
        (["import", "diagnoses", "/nope", "--agent", "a"], "Give a JSONL file or a folder"),
        (["import", "itbench", "/nope", "--name", "a"], "does not exist. Give a folder"),
    ],
)
def test_what_is_not_there_is_named_with_what_to_do(words: list[str], said: str) -> None:
    assert said in call(*words).refused()


def test_an_unknown_scenario_is_named_with_the_known_ones(suite: Path, run: Path, tmp_path: Path) -> None:
    known = "has no scenario '9'. It has scenario-001, scenario-002."
    assert known in start(suite, tmp_path / "x", "--scenario", "9").refused()
    assert known in call("explain", run, "9", "1").refused()
    assert known in call("score", run, "--exclude", "9").refused()
    assert known in call("shell", "9", "--suite", suite, "-c", "true").refused(125)
    assert "repeats 1 to 1" in call("explain", run, "1", "2").refused()
    assert not (tmp_path / "x").exists()


def test_every_scenario_excluded_leaves_no_number(run: Path) -> None:
    assert "no number is left" in call("score", run, "--exclude", "1", "--exclude", "2").refused()


# Suites: missing, damaged, of another version, changed, with a truth inside.


def broken_suites() -> dict[str, tuple[Callable[[Path], object], str]]:
    return {
        "suite.json of a newer version": (
            lambda suite: edited(suite / "suite.json", format_version=2),
            "suite.json: format_version 2 is newer than this diagnose-bench reads (1). Upgrade",
        ),
        "suite.json without a version": (
            lambda suite: edited(suite / "suite.json", format_version=None),
            'begins with "format_version": 1',
        ),
        "suite.json cut off": (
            lambda suite: (suite / "suite.json").write_text("{"),
            "suite.json: the suite is not JSON",
        ),
        "suite.json of another shape": (
            lambda suite: (suite / "suite.json").write_text("[]"),
            "must be a JSON object, not list. Mend it, or fetch the suite again.",
        ),
        "suite.json missing": (lambda suite: (suite / "suite.json").unlink(), "holds no suite.json"),
        "manifest of a newer version": (
            lambda suite: edited(suite / "scenario-001" / "snapshot.json", format_version=2),
            "scenario-001/snapshot.json: format_version 2 is newer",
        ),
        "manifest missing": (
            lambda suite: (suite / "scenario-001" / "snapshot.json").unlink(),
            "snapshot.json: the snapshot manifest does not exist. Fetch the suite again; or, ",
        ),
        "file changed": (
            lambda suite: (suite / "scenario-001" / "events.jsonl").write_text("{}\n"),
            "scenario-001/events.jsonl: has 3 bytes, but ",
        ),
        "file changed to the same length": (
            lambda suite: _flip(suite / "scenario-001" / "events.jsonl"),
            "scenario-001/events.jsonl: has digest ",
        ),
        "file missing": (
            lambda suite: (suite / "scenario-001" / "events.jsonl").unlink(),
            "events.jsonl in the manifest but not there. Fetch the suite again",
        ),
        "file too many": (
            lambda suite: (suite / "scenario-001" / "more.txt").write_text("x"),
            "more.txt there but not in the manifest.",
        ),
        "truth inside": (
            lambda suite: shutil.copy(
                suite.parent.parent / "ground_truth" / "small" / "scenario-001.yaml", suite / "scenario-001"
            ),
            "lies inside the snapshot. Move it to ground_truth/.",
        ),
        "snapshot missing": (
            lambda suite: shutil.rmtree(suite / "scenario-001"),
            "the snapshot of this scenario is missing",
        ),
        "link that leaves": (
            lambda suite: (suite / "scenario-001" / "way").symlink_to("/etc/passwd"),
            "way: is a link to the absolute path '/etc/passwd'.",
        ),
        "pipe": (
            lambda suite: os.mkfifo(suite / "scenario-001" / "pipe"),
            "pipe: a snapshot cannot hold a FIFO. Remove it.",
        ),
    }


def _flip(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(bytes([data[0] ^ 1]) + data[1:])


@pytest.mark.parametrize("case", broken_suites())
def test_a_broken_suite_starts_nothing(suite: Path, tmp_path: Path, case: str) -> None:
    break_it, said = broken_suites()[case]
    break_it(suite)
    assert said in start(suite, tmp_path / "run").refused()
    assert said in call("shell", "1", "--suite", suite, "-c", "true").refused(125)
    assert not (tmp_path / "run").exists()


def test_a_truth_inside_a_snapshot_is_not_taken_into_its_manifest(suite: Path) -> None:
    shutil.copy(suite.parent.parent / "ground_truth" / "small" / "scenario-001.yaml", suite / "scenario-001")
    before = tree(suite)
    assert "Move it to ground_truth/." in call("suite", "digest", suite, "--write").refused()
    assert tree(suite) == before


def test_a_run_is_not_scored_on_a_suite_that_has_changed(suite: Path, run: Path) -> None:
    with (suite / "scenario-001" / "objects.jsonl").open("a") as file:
        file.write("{}\n")
    assert "objects.jsonl: is not the one that the suite has on record" in call("score", run).refused()
    assert call("suite", "digest", suite, "--write").code == 0
    message = call("score", run).refused()
    assert "the run was made on suite small with digest" in message
    assert "Give the suite of the run with --suite" in message
    assert not (run / "scorecard.json").exists()


def test_a_suite_that_has_moved_is_found_with_an_option(suite: Path, run: Path, tmp_path: Path) -> None:
    shutil.move(tmp_path / "snapshots", tmp_path / "elsewhere" / "snapshots")
    assert "say where it is now with --suite" in call("score", run).refused()
    moved = tmp_path / "elsewhere" / "snapshots" / "small"
    message = call("score", run, "--suite", moved).refused()
    assert "Say where the truths are with --truth." in message
    truths = tmp_path / "ground_truth" / "small"
    assert call("score", run, "--suite", moved, "--truth", truths).code == 0


# Truths: a broken one is not scored, and says so.


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("format_version: 2\n", "$.format_version"),
        ("format_version: 1\nscenario_id: scenario-001\ntitle: x\ngroups: []\n", "root cause"),
        ("{", "scenario-001.yaml"),
        (None, "scenario-001.yaml"),
    ],
)
def test_a_refused_truth_makes_the_run_undecided(
    run: Path, tmp_path: Path, text: str | None, said: str
) -> None:
    truth = tmp_path / "ground_truth" / "small" / "scenario-001.yaml"
    truth.unlink() if text is None else truth.write_text(text)
    done = call("score", run)
    assert done.code == 3
    notes = " ".join(done.out.split())
    assert "scenario-001: truth refused: " in notes
    assert said in notes
    assert call("score", run, "--exclude", "1").code == 0


# Imports.


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "It is empty."),
        (b"\n\n", "It is empty."),
        (b"nonsense\n", "line 1: the row is no JSON"),
        (b"\xff\xfe\n", "line 1: "),
        (b'{"scenario_id": "scenario-009", "repeat": 1, "entities": []}\n', "unknown scenario"),
        (b'{"scenario_id": "scenario-001", "repeat": 0, "entities": []}\n', "no whole number from 1"),
        (b'{"scenario_id": "scenario-001", "repeat": 1}\n', "exactly one of diagnosis, entities, text"),
        (b'{"scenario_id": "scenario-001", "repeat": 99999, "entities": []}\n', "--planned-repeats"),
        (b"[" * 1_000_000, "line 1: "),
    ],
)
def test_answers_of_which_none_can_be_taken_make_no_run(
    suite: Path, tmp_path: Path, data: bytes, said: str
) -> None:
    source = tmp_path / "answers.jsonl"
    source.write_bytes(data)
    words = ["import", "diagnoses", source, "--agent", "a", "--suite", suite, "--out", tmp_path / "run"]
    assert said in call(*words).refused()
    assert not [path for path in tmp_path.iterdir() if "run" in path.name]


def test_a_folder_without_answers_says_what_it_looked_for(suite: Path, tmp_path: Path) -> None:
    (tmp_path / "outputs").mkdir()
    words = ["import", "diagnoses", tmp_path / "outputs", "--agent", "a", "--suite", suite]
    assert "<scenario>/<trial>/outputs/agent_output.json" in call(*words).refused()


# Rights.


def test_an_agent_that_is_not_executable_is_told_how(suite: Path, tmp_path: Path) -> None:
    agent = script(tmp_path / "agent.sh", "true\n", mode=0o644)
    assert f'Run "chmod +x {agent}"' in start(suite, tmp_path / "run", agent=agent).refused()
    assert "is a folder, not a program" in start(suite, tmp_path / "run", agent=tmp_path).refused()
    assert not (tmp_path / "run").exists()


# Two runs on one folder, and a fault of ours.


def test_a_fault_of_ours_is_one_message_and_the_trace_only_on_demand(
    monkeypatch: pytest.MonkeyPatch, run: Path
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("counted nothing")

    monkeypatch.setattr("diagnose_bench.grading.score_run", fail)
    done = call("score", run)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("diagnose-bench: unexpected ZeroDivisionError: counted nothing\n")
    assert "This is a fault of diagnose-bench. Finished trials are kept." in done.err
    monkeypatch.setenv("DIAGNOSE_BENCH_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        call("score", run)


def test_a_trial_that_failed_through_our_fault_is_run_again_and_nothing_else(
    suite: Path, tmp_path: Path
) -> None:
    answers = write_answers(tmp_path / "answers", {"scenario-001/1": ANSWER.encode()})
    bad = answers / "scenario-002" / "1.json"
    bad.parent.mkdir()
    bad.symlink_to(bad)  # reading it is an error of the system, and not the agent's
    words = ["run", "--agent", f"replay:{answers}", "--suite", suite, "--repeats", "1", "--retries", "0"]
    done = call(*words, "--out", tmp_path / "run")
    assert done.code == 3
    assert "scenario-002, repeat 1: harness_error: " in done.err
    assert f"Try them again: the same command with --out {tmp_path / 'run'} --resume." in done.err
    assert call("score", tmp_path / "run").code == 3
    kept = tree(tmp_path / "run" / "trials" / "scenario-001")
    failed = json.loads((tmp_path / "run" / "trials" / "scenario-002" / "1" / "trial.json").read_text())

    bad.unlink()
    bad.write_text('{"root_causes": [{"entity": "shop/Deployment/billing"}]}')
    assert call(*words, "--out", tmp_path / "run", "--resume").code == 0
    assert tree(tmp_path / "run" / "trials" / "scenario-001") == kept
    old = tmp_path / "run" / "trials" / "scenario-002" / "1" / "trial.1.json"
    assert json.loads(old.read_text()) == failed
    scored = call("score", tmp_path / "run", "--format", "json").json()
    assert scored["headline"]["average_precision_at_full_recall"] == 1.0


def test_names_that_would_move_the_cursor_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    done = call_process("score", tmp_path / "\x1b[2J\x1b]0;owned\x07")
    assert "\x1b" not in done.err
    assert "\\x1b[2J" in done.err
