"""Claims about recorded diagnoses as an agent, and about what ``--agent`` may name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from small_suite import write_small_suite

from diagnose_bench.agents.command import CommandAgent
from diagnose_bench.agents.factory import make_agent
from diagnose_bench.agents.replay import ReplayAgent
from diagnose_bench.errors import UsageError
from diagnose_bench.outcome import Outcome
from diagnose_bench.records import PlannedTrial, TrialRecord
from diagnose_bench.run import RunOptions, run_suite
from diagnose_bench.store import RunStore


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    folder = tmp_path / "answers" / "scenario-001"
    folder.mkdir(parents=True)
    return folder


def replay(tmp_path: Path, *, repair: bool = True, snapshots: bool = True) -> dict[int, TrialRecord]:
    suite = write_small_suite(tmp_path, snapshots=snapshots)
    options = RunOptions(scenarios=("scenario-001",), repeats=3, repair=repair)
    run_suite(suite, ReplayAgent(tmp_path / "answers"), options, tmp_path / "run")
    return {trial.repeat: record for trial, record in RunStore.open(tmp_path / "run").trials() if record}


def test_a_recorded_answer_is_kept_byte_for_byte(tmp_path: Path, answers: Path) -> None:
    text = b'```json\n{"root_causes": [{"entity": "shop/Deployment/cart"},]}\n```'
    (answers / "1.json").write_bytes(text)
    record = replay(tmp_path)[1]
    assert record.outcome is Outcome.DIAGNOSED
    assert record.repairs
    assert not record.observed
    trial = PlannedTrial(scenario_id="scenario-001", repeat=1)
    assert RunStore.open(tmp_path / "run").diagnosis_bytes(trial) == text


def test_without_repair_an_answer_that_needs_it_is_malformed(tmp_path: Path, answers: Path) -> None:
    (answers / "1.json").write_text('{"root_causes": [],}')
    assert replay(tmp_path, repair=False)[1].outcome is Outcome.MALFORMED_DIAGNOSIS


def test_a_missing_file_is_no_diagnosis_and_says_so(tmp_path: Path, answers: Path) -> None:
    (answers / "1.json").write_text('{"root_causes": []}')
    record = replay(tmp_path)[2]
    assert (record.outcome, record.reason) == (Outcome.NO_DIAGNOSIS, "There is no recorded answer.")


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (b"", Outcome.NO_DIAGNOSIS),
        (b" \n\t", Outcome.NO_DIAGNOSIS),
        (b"I would rather not say.", Outcome.MALFORMED_DIAGNOSIS),
        (b'{"refused": true}', Outcome.REFUSED),
        (b"x" * (2 << 20), Outcome.MALFORMED_DIAGNOSIS),
        (b"[" * 100_000, Outcome.MALFORMED_DIAGNOSIS),
        (b"\xff\xfe\x00", Outcome.MALFORMED_DIAGNOSIS),
    ],
)
def test_what_is_no_diagnosis_has_its_outcome(
    tmp_path: Path, answers: Path, text: bytes, outcome: Outcome
) -> None:
    (answers / "1.json").write_bytes(text)
    assert replay(tmp_path)[1].outcome is outcome


def test_a_pipe_in_the_place_of_an_answer_holds_up_nothing(tmp_path: Path, answers: Path) -> None:
    os.mkfifo(answers / "1.json")
    assert replay(tmp_path)[1].outcome is Outcome.NO_DIAGNOSIS


def test_a_replay_has_no_shell_no_limits_and_no_task(tmp_path: Path, answers: Path) -> None:
    replay(tmp_path)
    manifest = RunStore.open(tmp_path / "run").manifest
    assert manifest.sandbox.backend is None
    assert manifest.sandbox.agent_process is None
    assert (manifest.policy.max_turns, manifest.policy.time_limit_s) == (None, None)
    assert manifest.policy.task_digest is None


def test_a_replay_needs_no_snapshots(tmp_path: Path, answers: Path) -> None:
    (answers / "1.json").write_text('["shop/Deployment/cart"]')
    assert replay(tmp_path, snapshots=False)[1].outcome is Outcome.DIAGNOSED


def test_a_folder_that_does_not_exist_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        make_agent(f"replay:{tmp_path / 'nowhere'}")


@dataclass(frozen=True)
class Refusal:
    spec: str
    named: str


@pytest.mark.parametrize(
    "refusal",
    [
        Refusal("baseline:constant", "needs the truth"),
        Refusal("baseline:nonsense", "nonsense"),
        Refusal("gemini:some-model", "no kind of agent 'gemini'"),
        Refusal("no-such-program --fast", "no program no-such-program on PATH"),
        Refusal("./nowhere.sh", "does not exist"),
        Refusal("'unclosed", "quotes"),
        Refusal("", "names no program"),
        Refusal("/tmp", "is a folder"),
    ],
)
def test_an_agent_that_cannot_be_is_refused_with_a_reason(refusal: Refusal) -> None:
    with pytest.raises(UsageError, match=refusal.named):
        make_agent(refusal.spec)


def test_a_script_without_the_right_to_run_says_how_to_mend_it(tmp_path: Path) -> None:
    script = tmp_path / "agent.sh"
    script.write_text("#!/bin/sh\n")
    with pytest.raises(UsageError, match="chmod"):
        make_agent(str(script))


def test_paths_of_a_command_line_become_absolute_and_words_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent.py").write_text("")
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path)
    agent = make_agent("sh agent.py run --fast 'two words' nowhere/file")
    assert isinstance(agent, CommandAgent)
    assert agent.argv[0].startswith("/")
    assert agent.argv[1:] == (str(tmp_path / "agent.py"), "run", "--fast", "two words", "nowhere/file")
    assert agent.info.name == "sh agent.py run --fast 'two words' nowhere/file"


def test_another_version_of_the_program_has_another_digest(tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    digests = set()
    for text in ("print(1)", "print(2)", "print(2)"):
        script.write_text(text)
        digests.add(make_agent(f"sh {script}").info.config_digest)
    assert len(digests) == 2


@pytest.mark.parametrize(
    "spec",
    [
        "sh nope.sh",
        "env A=1 sh -e2 nope.sh",
        "sh -x ./nope.py --deep",
        "sh there.sh lib/nope.js",
        "sh /nope/a.RB",
    ],
)
def test_a_missing_script_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.sh").touch()
    with pytest.raises(UsageError, match=r"/(nope/)?(nope\.\w+|a\.RB) does not exist\. Check the path\."):
        make_agent(spec)


@pytest.mark.parametrize(
    "spec",
    [
        "sh there.sh",
        "sh -c nope.sh",
        "sh -c 'exec nope.sh'",
        "sh there.sh --out=nope.py",
        "sh there.sh https://example.org/nope.js",
        "sh there.sh '*.py' .py notes.txt",
    ],
)
def test_what_only_ends_like_a_script_is_an_argument_like_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.sh").touch()
    assert make_agent(spec).kind == "process"
