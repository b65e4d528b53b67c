"""One live trial without an agent: a real session on a real sandbox, for tests of servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from small_suite import write_small_suite

from diagnose_bench.agents.base import Agent
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
from diagnose_bench.run_shells import RunShells
from diagnose_bench.sandbox.limits import Limits
from diagnose_bench.store import CommandLog, RunStore
from diagnose_bench.trial import TrialSetting, run_trial
from diagnose_bench.trial_session import Session, TrialLimits

TRIAL = PlannedTrial(scenario_id="scenario-001", repeat=1)
ANSWER = {"root_causes": [{"entity": "shop/Deployment/cart"}]}
TASK = "# The task\n\nFind it.\n"


class LiveTrial:
    """A session that is open, and what was recorded of it."""

    def __init__(self, session: Session, log: Path) -> None:
        self.session = session
        self._log = log

    def commands(self) -> list[CommandRecord]:
        """What the harness wrote down, as it stands on disk."""
        return [CommandRecord.model_validate_json(line) for line in self._log.read_bytes().splitlines()]


@contextmanager
def live_trials(root: Path) -> Iterator[LiveTrials]:
    """Stage the first scenario of the small suite once."""
    suite = write_small_suite(root)
    with RunShells("bwrap", Limits(), ()) as shells, shells.staged(suite.scenarios[0]) as copy:
        yield LiveTrials(root, shells, copy)


class LiveTrials:
    """Opens one trial after another on the same snapshot."""

    def __init__(self, root: Path, shells: RunShells, copy: Path) -> None:
        self._root, self._shells, self._copy = root, shells, copy
        self._n = 0

    @contextmanager
    def opened(self, *, max_turns: int = 100, time_limit_s: float = 300.0) -> Iterator[LiveTrial]:
        """One trial with a sandbox of its own."""
        self._n += 1
        folder = self._root / f"trial-{self._n}"
        folder.mkdir()
        log = folder / "commands.jsonl"
        with self._shells.opened(self._copy) as sandbox, CommandLog(log, Redactor()) as command_log:
            session = Session(
                TRIAL,
                task=TASK,
                limits=TrialLimits(max_turns, time_limit_s),
                log=command_log,
                log_folder=folder,
            )
            session.attach(sandbox)
            session.start_clock()
            try:
                yield LiveTrial(session, log)
            finally:
                session.close()

    def run(
        self, agent: Agent, *, max_turns: int = 100, time_limit_s: float = 300.0
    ) -> tuple[TrialRecord, Path]:
        """A whole trial of an agent: its record, and its folder."""
        self._n += 1
        store = RunStore.create(self._root / f"run-{self._n}", _manifest())
        setting = TrialSetting(
            task=TASK,
            limits=TrialLimits(max_turns, time_limit_s),
            repair=True,
            open_sandbox=lambda: self._shells.opened(self._copy),
        )
        with store:
            return run_trial(TRIAL, agent, setting, store), store.trial_folder(TRIAL)


def _manifest() -> RunManifest:
    return RunManifest(
        run_id="0",
        agent=AgentInfo(name="agent"),
        suite=SuiteInfo(name="small", version="1", digest="d", path="p"),
        policy=Policy(repeats=1, max_turns=100, time_limit_s=300.0, task_digest="t"),
        sandbox=SandboxInfo(backend="bwrap"),
        plan=(TRIAL,),
        version="0",
        started_at="t",
    )
