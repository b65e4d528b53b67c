"""Claims about trials side by side: none lost, none doubled, none disturbed, all stopped at once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from small_suite import CULPRITS, SCENARIO_IDS, write_small_suite

from diagnose_bench.agents.base import AgentKind, AgentResult, TrialFailed, TrialSession
from diagnose_bench.agents.factory import make_agent
from diagnose_bench.errors import RunError, SandboxError, UsageError
from diagnose_bench.grading import score_run
from diagnose_bench.records import AgentInfo, Usage
from diagnose_bench.run import RunOptions, run_suite
from diagnose_bench.scorecard import SCORECARD
from diagnose_bench.store import RunStore
from diagnose_bench.suite import Suite

TESTS = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.sandbox


class Scripted:
    """What it does depends on the trial alone: right, wrong, silent, malformed, crashed, flooding."""

    kind: AgentKind = "builtin"
    info = AgentInfo(name="scripted")

    def __init__(self) -> None:
        self.attended: Counter[tuple[str, int]] = Counter()
        self.n_at_once = self.most_at_once = 0
        self._lock = threading.Lock()

    def diagnose(self, session: TrialSession) -> AgentResult:
        with self._lock:
            self.attended[session.scenario_id, session.repeat] += 1
            self.n_at_once += 1
            self.most_at_once = max(self.most_at_once, self.n_at_once)
        try:
            return self._diagnose(session)
        finally:
            with self._lock:
                self.n_at_once -= 1

    def _diagnose(self, session: TrialSession) -> AgentResult:
        what = session.repeat % 10
        usage = Usage(input_tokens=100 + session.repeat, output_tokens=10)
        if what == 7:
            raise ZeroDivisionError("scripted crash")
        if what == 8:
            return AgentResult(final_output=b"no idea", usage=usage)
        if what in (1, 2):
            command = "cat /snapshot/events.jsonl" if what == 1 else "yes | head -c 3000000"
            session.run_command(command)
        name = CULPRITS[session.scenario_id] if what % 2 else f"shop/Deployment/wrong-{session.repeat}"
        session.submit(json.dumps({"root_causes": [{"entity": name}]}).encode())
        return AgentResult(usage=usage)


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return write_small_suite(tmp_path)


def _without_times(run: Path) -> bytes:
    """A scorecard without what can differ between two runs: their ids and their seconds."""
    value = json.loads((run / SCORECARD).read_bytes())
    del value["run_id"], value["cost"]["seconds"]
    for scenario in value["scenarios"]:
        for trial in scenario["trials"]:
            del trial["seconds"]
            for event in trial["boundary_events"]:
                del event["time"]
    return json.dumps(value, sort_keys=True).encode()


def test_200_trials_16_at_a_time_are_those_of_one_at_a_time(suite: Suite, tmp_path: Path) -> None:
    agents = {jobs: Scripted() for jobs in (1, 16)}
    for jobs, agent in agents.items():
        run = tmp_path / f"run-{jobs}"
        options = RunOptions(repeats=100, jobs=jobs, baselines=False)
        summary = run_suite(suite, agent, options, run)
        assert summary.manifest.jobs == jobs
        # None lost, none doubled.
        assert agent.attended == {(name, repeat): 1 for name in SCENARIO_IDS for repeat in range(1, 101)}
        # Of each ten trials one crashes and one prints no diagnosis.
        assert summary.outcomes == {"diagnosed": 160, "agent_error": 20, "malformed_diagnosis": 20}
        score_run(run)
    assert agents[1].most_at_once == 1
    assert 2 <= agents[16].most_at_once <= 16
    assert _without_times(tmp_path / "run-1") == _without_times(tmp_path / "run-16")
    # Finished in any order, the same records give the same bytes.
    turned = tmp_path / "turned"
    shutil.copytree(tmp_path / "run-16", turned, ignore=shutil.ignore_patterns("trials", SCORECARD))
    for name in reversed(SCENARIO_IDS):
        for repeat in reversed(range(1, 101)):
            shutil.copytree(*(run / "trials" / name / str(repeat) for run in (tmp_path / "run-16", turned)))
    score_run(turned)
    assert (turned / SCORECARD).read_bytes() == (tmp_path / "run-16" / SCORECARD).read_bytes()


def test_programs_side_by_side_have_each_their_own_folder_shell_and_answer(
    suite: Suite, tmp_path: Path
) -> None:
    script = tmp_path / "agent.sh"
    script.write_text(
        textwrap.dedent(
            """\
            #!/bin/bash
            ls -A; ls -A "$(dirname "$(dirname "$DIAGNOSE_BENCH_TASK")")" | wc -l
            "$DIAGNOSE_BENCH_SHELL" -c "ls -A /scratch; echo $$ >/scratch/mine"
            "$DIAGNOSE_BENCH_SHELL" -c "cat /scratch/mine /snapshot/events.jsonl"
            head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2
            echo '[]' | "$DIAGNOSE_BENCH_SUBMIT"
            """
        )
    )
    script.chmod(0o755)
    options = RunOptions(repeats=4, jobs=8, baselines=True)
    summary = run_suite(suite, make_agent(str(script)), options, tmp_path / "run")
    assert summary.outcomes == {"diagnosed": 8}
    assert [beside.is_complete for beside in summary.baselines] == [True] * 4
    store = RunStore.open(tmp_path / "run")
    for trial, record in store.trials():
        assert record is not None
        first, second = store.commands(trial)
        assert first.output == ""
        assert CULPRITS[trial.scenario_id].rpartition("/")[2] in second.output
        assert second.output.split()[0] == first.command.split()[-2]


def test_a_fault_of_ours_is_tried_again_so_often_and_each_try_is_on_record(
    suite: Suite, tmp_path: Path
) -> None:
    class Unlucky(Scripted):
        kind: AgentKind = "model"

        def diagnose(self, session: TrialSession) -> AgentResult:
            with self._lock:
                self.attended[session.scenario_id, session.repeat] += 1
                nth = self.attended[session.scenario_id, session.repeat]
            fails = 2 if session.scenario_id == "scenario-001" else 9
            if session.repeat == 2 and nth <= fails:
                raise SandboxError(f"the server is away for the {nth}. time")
            session.submit(b"[]")
            return AgentResult()

    agent = Unlucky()
    options = RunOptions(repeats=3, jobs=4, retries=2, baselines=False)
    summary = run_suite(suite, agent, options, tmp_path / "run")
    assert summary.outcomes == {"diagnosed": 5, "harness_error": 1}
    assert summary.manifest.retries == 2
    assert {trial: n for trial, n in agent.attended.items() if n > 1} == {
        ("scenario-001", 2): 3,
        ("scenario-002", 2): 3,
    }
    for scenario_id, last in (("scenario-001", "diagnosed"), ("scenario-002", "harness_error")):
        folder = tmp_path / "run" / "trials" / scenario_id / "2"
        records = [json.loads((folder / f"trial{n}.json").read_text()) for n in (".1", ".2", "")]
        assert [one["outcome"] for one in records] == ["harness_error", "harness_error", last]
        assert records[1]["reason"] == "the server is away for the 2. time"
    # Nothing is scored as the agent's failure.
    assert score_run(tmp_path / "run").outcomes["harness_error"] == 1


def test_a_failure_of_ours_keeps_what_was_spent_and_a_diagnosis_that_is_in(
    suite: Suite, tmp_path: Path
) -> None:
    class Cut(Scripted):
        kind: AgentKind = "model"

        def diagnose(self, session: TrialSession) -> AgentResult:
            if session.repeat == 1:
                session.submit(b"[]")
            raise TrialFailed("the server is away", usage=Usage(input_tokens=70))

    options = RunOptions(repeats=2, retries=0, scenarios=("1",), baselines=False)
    run_suite(suite, Cut(), options, tmp_path / "run")
    records = [record for _, record in RunStore.open(tmp_path / "run").trials()]
    assert [record and (record.outcome, record.usage.input_tokens) for record in records] == [
        ("diagnosed", 70),
        ("harness_error", 70),
    ]


def test_other_jobs_may_go_on_with_a_run(suite: Suite, tmp_path: Path) -> None:
    options = {"repeats": 2, "baselines": False}
    first = run_suite(suite, Scripted(), RunOptions(jobs=1, **options), tmp_path / "run")  # type: ignore[arg-type]
    again = RunOptions(jobs=3, resume=True, **options)  # type: ignore[arg-type]
    assert run_suite(suite, Scripted(), again, tmp_path / "run").n_resumed == len(first.manifest.plan)


def test_an_agent_that_cannot_work_is_refused_before_the_first_trial(suite: Suite, tmp_path: Path) -> None:
    class Keyless(Scripted):
        def check(self) -> None:
            raise UsageError("the key is wrong")

    agent = Keyless()
    with pytest.raises(UsageError, match="the key is wrong"):
        run_suite(suite, agent, RunOptions(repeats=2, jobs=2), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert not agent.attended


@pytest.mark.parametrize("jobs", [1, 3])
def test_an_agent_that_can_work_no_more_ends_the_run_and_keeps_what_is_finished(
    suite: Suite, tmp_path: Path, jobs: int
) -> None:
    class Locked(Scripted):
        kind: AgentKind = "model"

        def diagnose(self, session: TrialSession) -> AgentResult:
            with self._lock:
                self.attended[session.scenario_id, session.repeat] += 1
                if self.attended.total() > 3:
                    raise UsageError("the key was taken back")
                session.submit(b"[]")
            return AgentResult()

    agent = Locked()
    options = RunOptions(repeats=10, jobs=jobs, baselines=False)
    with pytest.raises(UsageError, match="the key was taken back"):
        run_suite(suite, agent, options, tmp_path / "run")
    finished = [record for _, record in RunStore.open(tmp_path / "run").trials() if record is not None]
    # A trial that had just handed in when the run was stopped is run again later.
    assert [record.outcome for record in finished] == ["diagnosed"] * len(finished)
    assert 1 <= len(finished) <= 3
    assert agent.attended.total() <= 3 + jobs


def test_a_run_folder_that_takes_no_more_ends_all_trials_and_the_run(suite: Suite, tmp_path: Path) -> None:
    waiting = threading.Semaphore(0)

    class Spoiler(Scripted):
        def diagnose(self, session: TrialSession) -> AgentResult:
            if (session.scenario_id, session.repeat) == ("scenario-001", 1):
                waiting.acquire()
                # In the place of the file that is about to be written.
                (session.log_folder / "diagnosis.json").mkdir()
                session.submit(b"[]")
            else:
                waiting.release()
                session.wait_over(600.0)
            return AgentResult()

    with pytest.raises(RunError, match="diagnosis"):
        run_suite(suite, Spoiler(), RunOptions(repeats=2, jobs=2, baselines=False), tmp_path / "run")
    assert [record for _, record in RunStore.open(tmp_path / "run").trials()] == [None] * 4


def test_a_person_works_on_one_trial_at_a_time(suite: Suite, tmp_path: Path) -> None:
    class Person(Scripted):
        kind: AgentKind = "person"

    with pytest.raises(UsageError, match="--jobs 2"):
        run_suite(suite, Person(), RunOptions(jobs=2), tmp_path / "run")
    summary = run_suite(suite, Person(), RunOptions(repeats=1, baselines=False), tmp_path / "run")
    assert summary.manifest.sandbox.agent_process == "person"


@pytest.mark.parametrize("jobs", [0, 65, -1])
def test_jobs_that_cannot_be_are_refused(jobs: int) -> None:
    with pytest.raises(UsageError, match="--jobs"):
        RunOptions(jobs=jobs)


RUN = """
    import sys
    from pathlib import Path
    from diagnose_bench.agents.factory import make_agent
    from diagnose_bench.errors import DiagnoseBenchError
    from diagnose_bench.run import RunOptions, run_suite
    from diagnose_bench.suite import load_suite
    folder = Path(sys.argv[1])
    out = folder / "run"
    options = RunOptions(repeats=4, jobs=6, baselines=False, resume=out.exists())
    try:
        agent = make_agent(str(folder / "agent.sh"))
        print(run_suite(load_suite(str(folder / "snapshots" / "small")), agent, options, out).outcomes)
    except DiagnoseBenchError as error:
        print(error.exit_code, error)
"""
AGENT = """\
#!/bin/bash
trap '' TERM INT
n=$(mkdir {folder}/first 2>/dev/null && echo 1 || {{ mkdir {folder}/second 2>/dev/null && echo 2; }})
if [ -n "$n" ] || [ -e {folder}/stopped ]; then echo '[]' | "$DIAGNOSE_BENCH_SUBMIT"; exit; fi
echo {mark} >>{folder}/waiting
"$DIAGNOSE_BENCH_SHELL" --timeout 100 -c 'sleep 1000 # {mark}'
sleep 1000
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_everything_that_runs_and_keeps_what_is_finished(
    suite: Suite, tmp_path: Path, number: signal.Signals
) -> None:
    mark = f"marked-{os.getpid()}-{time.monotonic_ns()}"
    (tmp_path / "agent.sh").write_text(AGENT.format(folder=tmp_path, mark=mark))
    (tmp_path / "agent.sh").chmod(0o755)
    argv = [sys.executable, "-c", textwrap.dedent(RUN), str(tmp_path)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    waiting = tmp_path / "waiting"
    while process.poll() is None and not (waiting.exists() and waiting.read_text().count(mark) == 6):
        time.sleep(0.02)
    process.send_signal(number)
    said, complaint = process.communicate(timeout=120)
    assert said.startswith("3 "), complaint
    assert "interrupted; 2 of 8 trials are finished and kept" in said
    assert complaint == ""
    assert _running(mark) == []
    (tmp_path / "stopped").touch()
    again = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert again.stdout == "Counter({'diagnosed': 8})\n", again.stderr


def _running(mark: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes()
        except OSError:
            continue
        if mark.encode() in text:
            found.append(text.decode())
    return found
