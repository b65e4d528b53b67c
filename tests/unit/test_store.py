"""Claims about the run folder: what is finished stays, what is damaged is named, two writers never meet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from diagnose_bench.errors import RunError, RunFormatError, UsageError
from diagnose_bench.outcome import Outcome
from diagnose_bench.records import (
    AgentInfo,
    CommandRecord,
    PlannedTrial,
    Policy,
    RunManifest,
    SandboxInfo,
    SuiteInfo,
    TrialRecord,
)
from diagnose_bench.redaction import Redactor
from diagnose_bench.store import RunStore

FIRST = PlannedTrial(scenario_id="scenario-001", repeat=1)
SECOND = PlannedTrial(scenario_id="scenario-001", repeat=2)


def manifest(**changes: Any) -> RunManifest:
    values: dict[str, Any] = {
        "run_id": "0001",
        "agent": AgentInfo(name="some-agent", config_digest="aa"),
        "suite": SuiteInfo(name="small", version="1", digest="d1", path="snapshots/small"),
        "policy": Policy(repeats=2, max_turns=100, time_limit_s=1800.0, task_digest="t1"),
        "sandbox": SandboxInfo(backend="bwrap", limits={"command_s": 30.0}, agent_process="confined"),
        "plan": (FIRST, SECOND),
        "version": "0.1.0",
        "started_at": "2025-03-01T10:00:00Z",
    }
    return RunManifest(**(values | changes))


def record(outcome: Outcome = Outcome.DIAGNOSED, trial: PlannedTrial = FIRST, **changes: Any) -> TrialRecord:
    return TrialRecord(scenario_id=trial.scenario_id, repeat=trial.repeat, outcome=outcome, **changes)


def command(n: int, output: str = "ok") -> CommandRecord:
    return CommandRecord(
        n=n, started_at="t", seconds=0.5, command="ls", exit_code=0, n_bytes=2, output=output, sha256="00"
    )


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "run"


def test_what_was_written_is_read_back(out: Path) -> None:
    with RunStore.create(out, manifest()) as store:
        store.begin_trial(FIRST)
        with store.command_log(FIRST) as log:
            log.append(command(1, "caf\u00e9 \x1b[31m\n"))
            log.append(command(2))
        store.write_trial(record(n_commands=2, observed=True), b'{"root_causes": []}')
    read = RunStore.open(out)
    assert read.manifest == manifest()
    assert list(read.trials()) == [(FIRST, record(n_commands=2, observed=True)), (SECOND, None)]
    assert read.diagnosis_bytes(FIRST) == b'{"root_causes": []}'
    assert list(read.commands(FIRST)) == [command(1, "caf\u00e9 \x1b[31m\n"), command(2)]
    assert read.diagnosis_bytes(SECOND) is None
    assert list(read.commands(SECOND)) == []


def test_a_folder_that_holds_a_run_is_refused_without_resume(out: Path) -> None:
    RunStore.create(out, manifest()).close()
    with pytest.raises(UsageError, match="--resume"):
        RunStore.create(out, manifest())


def test_a_folder_that_holds_something_else_is_refused_and_left_alone(out: Path) -> None:
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        RunStore.create(out, manifest())
    assert [entry.name for entry in out.iterdir()] == ["thesis.txt"]


def test_a_file_in_the_place_of_the_folder_is_refused(out: Path) -> None:
    out.write_text("a file")
    with pytest.raises(UsageError, match="not a folder"):
        RunStore.create(out, manifest())


def test_two_processes_on_one_run_are_refused(out: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from diagnose_bench.store import RunStore, load_run_manifest\n"
        "path = Path(sys.argv[1])\n"
        "try: RunStore.resume(path, load_run_manifest(path))\n"
        "except Exception as error: print(type(error).__name__, error)\n"
        "else: print('taken')"
    )

    def other() -> str:
        done = subprocess.run(
            [sys.executable, "-c", code, str(out)], capture_output=True, text=True, check=True
        )
        return done.stdout

    with RunStore.create(out, manifest()):
        assert "RunError" in other()
        assert "another process" in other()
    assert other() == "taken\n"


def test_a_reader_needs_no_lock(out: Path) -> None:
    with RunStore.create(out, manifest()):
        assert RunStore.open(out).manifest == manifest()


def test_an_unfinished_trial_is_moved_aside_and_nothing_of_it_is_lost(out: Path) -> None:
    with RunStore.create(out, manifest()) as store:
        for text in ("first attempt", "second attempt"):
            folder = store.begin_trial(FIRST)
            (folder / "commands.jsonl").write_text(text)
        store.begin_trial(FIRST)
        store.write_trial(record(), None)
    aside = out / "trials" / "scenario-001"
    assert (aside / "1.unfinished-1" / "commands.jsonl").read_text() == "first attempt"
    assert (aside / "1.unfinished-2" / "commands.jsonl").read_text() == "second attempt"
    assert os.listdir(aside / "1") == ["trial.json"]


def test_a_trial_that_failed_through_us_is_kept_under_a_number_and_run_again(out: Path) -> None:
    with RunStore.create(out, manifest()) as store:
        for number in (1, 2):
            folder = store.begin_trial(FIRST)
            (folder / "commands.jsonl").write_text(f"attempt {number}")
            store.write_trial(record(Outcome.HARNESS_ERROR, reason=f"fault {number}"), None)
        store.begin_trial(FIRST)
        store.write_trial(record(), b"[]")
    folder = out / "trials" / "scenario-001" / "1"
    assert json.loads((folder / "trial.1.json").read_text())["reason"] == "fault 1"
    assert json.loads((folder / "trial.2.json").read_text())["reason"] == "fault 2"
    assert (folder / "commands.1.jsonl").read_text() == "attempt 1"
    assert (folder / "commands.2.jsonl").read_text() == "attempt 2"
    assert RunStore.open(out).record(FIRST) == record()


def test_records_kept_under_a_number_survive_a_crash_of_the_next_attempt(out: Path) -> None:
    with RunStore.create(out, manifest()) as store:
        store.begin_trial(FIRST)
        store.write_trial(record(Outcome.HARNESS_ERROR, reason="fault"), None)
        (store.begin_trial(FIRST) / "commands.jsonl").write_text("interrupted here")
        folder = store.begin_trial(FIRST)
    assert sorted(os.listdir(folder)) == ["trial.1.json"]
    assert (folder.with_name("1.unfinished-1") / "commands.jsonl").read_text() == "interrupted here"


def test_a_finished_trial_is_never_begun_again(out: Path) -> None:
    with RunStore.create(out, manifest()) as store:
        store.begin_trial(FIRST)
        store.write_trial(record(Outcome.NO_DIAGNOSIS), None)
        with pytest.raises(RunError, match="finished already"):
            store.begin_trial(FIRST)


def test_resume_of_the_same_run_is_allowed(out: Path) -> None:
    RunStore.create(out, manifest()).close()
    again = manifest(run_id="0002", started_at="later", version="9.9", host={"kernel": "other"})
    with RunStore.resume(out, again) as store:
        assert store.manifest.run_id == "0001"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"agent": AgentInfo(name="other-agent", config_digest="aa")}, "agent.name"),
        ({"agent": AgentInfo(name="some-agent", config_digest="bb")}, "agent.config_digest"),
        ({"suite": SuiteInfo(name="small", version="1", digest="d2", path="x")}, "suite.digest"),
        (
            {"policy": Policy(repeats=2, max_turns=50, time_limit_s=1800.0, task_digest="t1")},
            "policy.max_turns was 100 and is now 50",
        ),
        (
            {"policy": Policy(repeats=2, max_turns=100, time_limit_s=1800.0, task_digest="t2")},
            "policy.task_digest",
        ),
        ({"sandbox": SandboxInfo(backend="none", agent_process="confined")}, "sandbox.backend"),
        ({"sandbox": SandboxInfo(backend="bwrap", agent_process="unconfined")}, "sandbox.agent_process"),
        ({"plan": (FIRST,)}, "plan"),
    ],
)
def test_resume_with_another_setting_is_refused_and_names_it(
    out: Path, changes: dict[str, Any], named: str
) -> None:
    RunStore.create(out, manifest()).close()
    with pytest.raises(RunError, match=named):
        RunStore.resume(out, manifest(**changes))


def test_a_folder_that_is_no_run_cannot_be_resumed(out: Path) -> None:
    with pytest.raises(RunError, match="does not exist"):
        RunStore.resume(out, manifest())


@pytest.mark.parametrize(("version", "word"), [(2, "Upgrade"), (0, "Read it with that version")])
def test_a_run_of_another_format_version_says_what_to_do(out: Path, version: int, word: str) -> None:
    RunStore.create(out, manifest()).close()
    document = json.loads((out / "run.json").read_text()) | {"format_version": version, "version": "7.0"}
    (out / "run.json").write_text(json.dumps(document))
    with pytest.raises(RunFormatError, match=rf"format version {version}.*7\.0.*{word}"):
        RunStore.open(out)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"format_version": 1,\n "agent": ', "line 2"),
        ("[" * 100_000, "nested too deeply|not JSON"),
        ("[]", "format_version"),
        ('{"format_version": 1}', "run_id"),
        ('{"format_version": true}', "format_version"),
    ],
)
def test_a_damaged_run_manifest_is_named_with_its_place(out: Path, text: str, named: str) -> None:
    RunStore.create(out, manifest()).close()
    (out / "run.json").write_text(text)
    with pytest.raises(RunFormatError, match=named):
        RunStore.open(out)


@pytest.mark.parametrize("scenario_id", ["../../etc", "", "a/b", ".hidden", "a\n"])
def test_a_plan_that_leads_out_of_the_run_is_refused(out: Path, scenario_id: str) -> None:
    RunStore.create(out, manifest()).close()
    document = json.loads((out / "run.json").read_text())
    document["plan"][1]["scenario_id"] = scenario_id
    (out / "run.json").write_text(json.dumps(document))
    with pytest.raises(RunFormatError, match=r"\$\.plan\[1\]"):
        RunStore.open(out)


def test_a_damaged_trial_record_is_named_with_its_remedy(out: Path) -> None:
    with RunStore.create(out, manifest()) as store:
        store.begin_trial(FIRST)
        store.write_trial(record(), None)
    (out / "trials" / "scenario-001" / "1" / "trial.json").write_text(
        '{"format_version": 1, "outcome": "won"}'
    )
    with pytest.raises(RunFormatError, match=r"trial\.json.*--resume"):
        list(RunStore.open(out).trials())


def test_a_trial_record_in_the_wrong_place_is_refused(out: Path) -> None:
    with RunStore.create(out, manifest()) as store:
        for trial in (FIRST, SECOND):
            store.begin_trial(trial)
            store.write_trial(record(trial=trial), None)
    folder = out / "trials" / "scenario-001"
    (folder / "2" / "trial.json").write_bytes((folder / "1" / "trial.json").read_bytes())
    with pytest.raises(RunFormatError, match="wrong place"):
        RunStore.open(out).record(SECOND)


def test_a_damaged_command_line_is_named_by_its_number(out: Path) -> None:
    with RunStore.create(out, manifest()) as store:
        store.begin_trial(FIRST)
        with store.command_log(FIRST) as log:
            log.append(command(1))
        store.write_trial(record(), None)
    with (out / "trials" / "scenario-001" / "1" / "commands.jsonl").open("a") as file:
        file.write('{"n": 2, "cut')
    commands = RunStore.open(out).commands(FIRST)
    assert next(commands) == command(1)
    with pytest.raises(RunFormatError, match="line 2"):
        next(commands)


def test_a_disk_that_takes_nothing_is_one_message_that_says_how_to_go_on(out: Path) -> None:
    with RunStore.create(out, manifest()) as store:
        folder = store.begin_trial(FIRST)
        # A folder in the place of the file makes the rename fail for every user, root too.
        (folder / "trial.json").mkdir()
        with pytest.raises(RunError, match=r"cannot write.*--resume"):
            store.write_trial(record(), None)
        assert not [entry for entry in os.listdir(folder) if entry.endswith(".tmp")]


def test_a_full_device_while_a_command_is_recorded_is_a_run_error(out: Path) -> None:
    with RunStore.create(out, manifest()) as store:
        folder = store.begin_trial(FIRST)
        (folder / "commands.jsonl").symlink_to("/dev/full")
        with (
            pytest.raises(RunError, match=r"No space left on device.*--resume"),
            store.command_log(FIRST) as log,
        ):
            log.append(command(1))


def test_what_was_replaced_in_a_command_is_counted_apart_from_its_output(out: Path) -> None:
    key = "ghp_" + "aB3dE6" * 6
    redactor = Redactor()
    with RunStore.create(out, manifest()) as store:
        store.begin_trial(FIRST)
        with store.command_log(FIRST, redactor) as log:
            log.append(command(1, f"{key} {key}"))
            log.append(command(2).model_copy(update={"command": f"echo {key}"}))
        assert [one.n_redactions for one in store.commands(FIRST)] == [0, 1]
    assert redactor.n_redactions == 3
