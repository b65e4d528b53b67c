"""Claims about runs: planned, checked before they start, interrupted, resumed; nothing lost or run twice."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from pathlib import Path

import pytest
from run_process import in_another_process
from small_suite import CULPRITS, SCENARIO_IDS, write_small_suite

from diagnose_bench.agents.base import AgentKind, AgentResult, TrialOver, TrialSession
from diagnose_bench.agents.factory import make_agent
from diagnose_bench.errors import DigestMismatchError, RunError, SuiteError, UsageError
from diagnose_bench.outcome import Outcome
from diagnose_bench.records import AgentInfo, PlannedTrial, TrialRecord
from diagnose_bench.run import BASELINES, RunOptions, default_out, run_suite
from diagnose_bench.store import RunStore
from diagnose_bench.suite import Suite
from diagnose_bench.task import task_digest

pytestmark = pytest.mark.sandbox


class Careful:
    """A builtin agent that reads the event and names its object; its faults can be chosen."""

    kind: AgentKind = "builtin"
    info = AgentInfo(name="careful")

    def __init__(
        self, *, breaks_sandbox: frozenset[PlannedTrial] = frozenset(), raises: bool = False
    ) -> None:
        self.breaks_sandbox = breaks_sandbox
        self.raises = raises
        self.attended: list[tuple[str, int]] = []
        self.tasks: list[str] = []

    def diagnose(self, session: TrialSession) -> AgentResult:
        self.attended.append((session.scenario_id, session.repeat))
        self.tasks.append(session.task)
        if self.raises:
            raise ZeroDivisionError("counted nothing")
        if PlannedTrial(scenario_id=session.scenario_id, repeat=session.repeat) in self.breaks_sandbox:
            session._sandbox.close()  # type: ignore[attr-defined]
        reply = session.run_command("cat /snapshot/events.jsonl")
        item = json.loads(reply.output)["involvedObject"]
        entity = f"{item['namespace']}/{item['kind']}/{item['name']}"
        session.submit(json.dumps({"root_causes": [{"entity": entity}]}).encode())
        return AgentResult()


class Told:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, int, int]] = []
        self.ended: list[Outcome] = []
        self.notes: list[str] = []

    def begin(self, label: str, n_trials: int, n_done: int) -> None:
        self.begun.append((label, n_trials, n_done))

    def trial_started(self, trial: PlannedTrial) -> None: ...

    def trial_ended(self, record: TrialRecord) -> None:
        self.ended.append(record.outcome)

    def note(self, message: str) -> None:
        self.notes.append(message)


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return write_small_suite(tmp_path)


def options(**changes: object) -> RunOptions:
    return RunOptions(**({"repeats": 2, "baselines": False} | changes))  # type: ignore[arg-type]


def test_a_run_leaves_every_planned_trial_with_its_diagnosis_and_commands(
    suite: Suite, tmp_path: Path
) -> None:
    agent, told = Careful(), Told()
    summary = run_suite(suite, agent, options(), tmp_path / "run", told)
    assert summary.is_complete
    assert summary.outcomes == {"diagnosed": 4}
    assert told.begun == [("careful", 4, 0)]
    store = RunStore.open(tmp_path / "run")
    assert [(t.scenario_id, t.repeat) for t, _ in store.trials()] == [
        (s, r) for s in SCENARIO_IDS for r in (1, 2)
    ]
    for trial, record in store.trials():
        assert record is not None
        assert (record.outcome, record.observed, record.n_turns, record.n_commands) == (
            "diagnosed",
            True,
            1,
            1,
        )
        assert CULPRITS[trial.scenario_id].encode() in (store.diagnosis_bytes(trial) or b"")
        (command,) = store.commands(trial)
        assert command.command == "cat /snapshot/events.jsonl"
        assert "OOMKilled" in command.output


def test_the_manifest_says_under_what_the_run_was_made(suite: Suite, tmp_path: Path) -> None:
    manifest = run_suite(suite, Careful(), options(max_turns=7), tmp_path / "run").manifest
    assert manifest.suite.digest == suite.digest
    assert (manifest.policy.repeats, manifest.policy.max_turns, manifest.policy.time_limit_s) == (
        2,
        7,
        1800.0,
    )
    assert manifest.policy.task_digest == task_digest()
    assert (manifest.sandbox.backend, manifest.sandbox.agent_process) == ("bwrap", "builtin")
    assert manifest.sandbox.limits["command_s"] == 30.0
    assert manifest.host["tools"]["bash"]
    assert not manifest.subset
    assert json.loads((tmp_path / "run" / "run.json").read_text()) == manifest.model_dump(mode="json")


def test_the_task_has_the_scenarios_times_and_nothing_else_of_it(suite: Suite, tmp_path: Path) -> None:
    agent = Careful()
    run_suite(suite, agent, options(repeats=1), tmp_path / "run")
    assert "detected at 2025-03-01T10:30:00Z" in agent.tasks[0]
    # Both scenarios have the same times, so their texts are the same.
    assert agent.tasks[0] == agent.tasks[1]


def test_a_subset_is_marked_and_takes_numbers(suite: Suite, tmp_path: Path) -> None:
    summary = run_suite(suite, Careful(), options(scenarios=("2",), repeats=1), tmp_path / "run")
    assert summary.manifest.subset
    assert [trial.scenario_id for trial in summary.manifest.plan] == ["scenario-002"]


def test_a_builtin_agents_own_mistake_is_its_own(suite: Suite, tmp_path: Path) -> None:
    summary = run_suite(suite, Careful(raises=True), options(repeats=1), tmp_path / "run")
    assert summary.outcomes == {"agent_error": 2}
    assert summary.is_complete
    record = RunStore.open(tmp_path / "run").record(summary.manifest.plan[0])
    assert record is not None
    assert record.reason == "The agent failed: ZeroDivisionError: counted nothing"


def test_our_own_fault_is_unscored_the_run_goes_on_and_resume_mends_it(suite: Suite, tmp_path: Path) -> None:
    broken = PlannedTrial(scenario_id="scenario-001", repeat=2)
    told = Told()
    summary = run_suite(suite, Careful(breaks_sandbox=frozenset({broken})), options(), tmp_path / "run", told)
    assert summary.outcomes == {"diagnosed": 3, "harness_error": 1}
    assert not summary.is_complete
    assert any("scenario-001, repeat 2: harness_error" in note for note in told.notes)
    agent = Careful()
    summary = run_suite(suite, agent, options(resume=True), tmp_path / "run")
    assert agent.attended == [("scenario-001", 2)]
    assert (summary.is_complete, summary.n_resumed) == (True, 3)
    folder = tmp_path / "run" / "trials" / "scenario-001" / "2"
    assert json.loads((folder / "trial.1.json").read_text())["outcome"] == "harness_error"
    assert json.loads((folder / "trial.json").read_text())["outcome"] == "diagnosed"


def test_an_output_that_comes_after_the_submission_is_marked_as_never_given(
    suite: Suite, tmp_path: Path
) -> None:
    class Hasty(Careful):
        def diagnose(self, session: TrialSession) -> AgentResult:
            scratch = session._sandbox.scratch  # type: ignore[attr-defined]
            session.run_command("echo before")
            script = "touch /scratch/on; while [ ! -e /scratch/off ]; do sleep 0.05; done; echo after"
            told: list[str] = []

            def run_another() -> None:
                try:
                    session.run_command(script)
                except TrialOver as over:
                    told.append(str(over))

            thread = threading.Thread(target=run_another)
            thread.start()
            while not (scratch / "on").exists():
                time.sleep(0.02)
            session.submit(b"[]")
            (scratch / "off").touch()
            thread.join()
            assert told == ["A diagnosis was submitted; no more commands are run."]
            return AgentResult()

    chosen = options(repeats=1, scenarios=("1",))
    trial = run_suite(suite, Hasty(), chosen, tmp_path / "run").manifest.plan[0]
    assert [(one.output, one.answered) for one in RunStore.open(tmp_path / "run").commands(trial)] == [
        ("before\n", True),
        ("after\n", False),
    ]


def test_a_complete_run_resumed_runs_nothing(suite: Suite, tmp_path: Path) -> None:
    run_suite(suite, Careful(), options(), tmp_path / "run")
    agent = Careful()
    assert run_suite(suite, agent, options(resume=True), tmp_path / "run").is_complete
    assert agent.attended == []


def test_resume_with_other_settings_is_refused(suite: Suite, tmp_path: Path) -> None:
    run_suite(suite, Careful(), options(), tmp_path / "run")
    with pytest.raises(RunError, match="max_turns"):
        run_suite(suite, Careful(), options(resume=True, max_turns=5), tmp_path / "run")
    with pytest.raises(RunError, match=r"policy\.repeats"):
        run_suite(suite, Careful(), options(resume=True, repeats=3), tmp_path / "run")


def test_a_snapshot_that_was_changed_is_refused_before_anything_starts(suite: Suite, tmp_path: Path) -> None:
    (suite.path / "scenario-002" / "events.jsonl").write_text("{}\n")
    agent = Careful()
    with pytest.raises(DigestMismatchError, match="scenario-002"):
        run_suite(suite, agent, options(), tmp_path / "run")
    assert agent.attended == []
    assert not (tmp_path / "run").exists()


def test_a_suite_of_truths_alone_cannot_be_run(tmp_path: Path) -> None:
    suite = write_small_suite(tmp_path, snapshots=False)
    with pytest.raises(SuiteError, match="no snapshot"):
        run_suite(suite, Careful(), options(), tmp_path / "run")


def test_a_dry_run_writes_and_runs_nothing(suite: Suite, tmp_path: Path) -> None:
    agent = Careful()
    summary = run_suite(suite, agent, options(dry_run=True), tmp_path / "run")
    assert len(summary.manifest.plan) == 4
    assert agent.attended == []
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_taken_is_refused(suite: Suite, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        run_suite(suite, Careful(), options(), tmp_path / "run")


@pytest.mark.parametrize(
    "changes",
    [
        {"repeats": 0},
        {"max_turns": 0},
        {"time_limit_s": 0.0},
        {"time_limit_s": float("nan")},
        {"repeats": 10**9},
    ],
)
def test_options_that_cannot_be_are_refused(changes: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="--"):
        options(**changes)


def test_an_unknown_scenario_and_an_unknown_sandbox_are_refused(suite: Suite, tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="scenario-009"):
        run_suite(suite, Careful(), options(scenarios=("scenario-009",)), tmp_path / "run")
    with pytest.raises(UsageError, match="unknown"):
        run_suite(suite, Careful(), options(sandbox="firejail"), tmp_path / "run")


def test_the_default_folder_is_named_after_suite_and_agent(suite: Suite) -> None:
    name = default_out(suite, "sh -c 'exit 0'").name
    assert name.startswith("small-sh-c-exit-0-")


def test_a_program_is_run_beside_the_baselines_once_each(suite: Suite, tmp_path: Path) -> None:
    agent = make_agent("""sh -c 'echo "{\\"root_causes\\": []}" | "$DIAGNOSE_BENCH_SUBMIT"'""")
    summary = run_suite(suite, agent, options(baselines=True), tmp_path / "run")
    assert summary.outcomes == {"diagnosed": 4}
    assert summary.manifest.sandbox.agent_process == "confined"
    assert [beside.path.name for beside in summary.baselines] == list(BASELINES)
    for name in BASELINES:
        store = RunStore.open(tmp_path / "run" / "baselines" / name)
        assert store.manifest.agent.name == f"baseline:{name}"
        assert [record and record.outcome.is_scored for _, record in store.trials()] == [True, True]
    again = run_suite(suite, agent, options(baselines=True, resume=True), tmp_path / "run")
    assert [beside.n_resumed for beside in again.baselines] == [2, 2, 2, 2]


def test_without_the_sandbox_it_has_to_be_asked_for_and_is_on_record(suite: Suite, tmp_path: Path) -> None:
    agent = make_agent('sh -c \'"$DIAGNOSE_BENCH_SHELL" -c "cat \\$SNAPSHOT/events.jsonl"\'')
    manifest = run_suite(suite, agent, options(sandbox="none", repeats=1), tmp_path / "run").manifest
    assert manifest.sandbox.backend == "none"
    (command,) = RunStore.open(tmp_path / "run").commands(manifest.plan[0])
    assert "OOMKilled" in command.output


def test_a_run_opens_nothing_of_the_truth_and_loads_no_module_that_could(
    suite: Suite, tmp_path: Path
) -> None:
    body = """
        opened = []
        def hook(event, arguments):
            if event in ("open", "os.listdir", "os.scandir") and "ground_truth" in str(arguments[0]):
                opened.append(str(arguments[0]))
        sys.addaudithook(hook)
        run_suite(suite, make_agent("baseline:loudest"), RunOptions(repeats=1), out)
        words = ("ground_truth", "resolver", "grading", "lint")
        ours = [name for name in sys.modules if name.startswith("diagnose_bench.")]
        print(opened, [name for name in ours if any(word in name for word in words)])
    """
    said, complaint = in_another_process(tmp_path, body).communicate()
    assert said == "[] []\n", complaint


def test_nothing_is_left_in_the_folders_for_temporary_files(suite: Suite, tmp_path: Path) -> None:
    place = tmp_path / "temporary"
    place.mkdir(mode=0o755)
    for folder in (tmp_path, *tmp_path.parents):
        # The shell of a run as root is another user's, who has to get through.
        if os.geteuid() == 0 and str(folder).startswith("/tmp/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    body = """
        agent = make_agent("sh -c 'touch left; exit 1'")
        run_suite(suite, agent, RunOptions(repeats=1, baselines=False), out)
    """
    environment = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(place)
    try:
        _, complaint = in_another_process(tmp_path, body).communicate()
    finally:
        del os.environ["TMPDIR"]
        if environment is not None:
            os.environ["TMPDIR"] = environment
    assert complaint == ""
    assert os.listdir(place) == []
    assert (tmp_path / "run" / "run.json").exists()
    shutil.rmtree(place)
