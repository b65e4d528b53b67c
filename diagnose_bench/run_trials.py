"""The trials of one run, one after another or side by side in threads: counted, tried again, stopped at once.

What a trial is belongs to `trial`, which one comes next to `run_queue`. Opens no truth.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from diagnose_bench.agents.base import Agent
from diagnose_bench.outcome import Outcome
from diagnose_bench.records import PlannedTrial, TrialRecord
from diagnose_bench.run_options import Progress, RunOptions
from diagnose_bench.run_queue import Ticket, TrialQueue
from diagnose_bench.run_shells import RunShells
from diagnose_bench.snapshot import SnapshotManifest
from diagnose_bench.store import RunStore
from diagnose_bench.suite import Scenario
from diagnose_bench.task import render_task
from diagnose_bench.trial import StopSwitch, TrialSetting, TrialStopped, run_trial
from diagnose_bench.trial_session import TrialLimits

_FIRST_TRIALS = 3
"""So many trials in which an agent only failed are a sign that it cannot start."""
_END_S = 10.0
"""What trials get to end once the run is stopped; their programs end sooner."""


@dataclass(frozen=True)
class Work:
    """What the runs of an agent and of the baselines beside it have in common."""

    scenarios: Sequence[Scenario]
    windows: dict[str, SnapshotManifest]
    options: RunOptions
    shells: RunShells | None
    hidden: tuple[Path, ...]


@dataclass
class _Desk:
    """Counts how trials end and tells it on, for one thread at a time."""

    store: RunStore
    label: str
    retries: int
    progress: Progress
    outcomes: Counter[str]
    lock: threading.Lock = field(default_factory=threading.Lock)
    first: list[TrialRecord] = field(default_factory=list)
    n_tries: Counter[PlannedTrial] = field(default_factory=Counter)

    def started(self, trial: PlannedTrial) -> None:
        with self.lock:
            self.progress.trial_started(trial)

    def ended(self, trial: PlannedTrial, record: TrialRecord) -> bool:
        """Take in how a trial ended; return whether it is to be run again."""
        with self.lock:
            self.n_tries[trial] += 1
            is_ours = record.outcome is Outcome.HARNESS_ERROR
            again = is_ours and self.n_tries[trial] <= self.retries
            if is_ours:
                how = f" It is tried again ({self.n_tries[trial]} of {self.retries})." if again else ""
                self.progress.note(
                    f"{trial.scenario_id}, repeat {trial.repeat}: harness_error: {record.reason}{how}"
                )
            if again:
                return True
            self.outcomes[record.outcome.value] += 1
            self.progress.trial_ended(record)
            if len(self.first) < _FIRST_TRIALS:
                self.first.append(record)
                if len(self.first) == _FIRST_TRIALS and all(map(_did_nothing, self.first)):
                    self.progress.note(_never_starts(self.label, record))
            return False


def run_trials(
    store: RunStore, agent: Agent, work: Work, label: str, progress: Progress
) -> tuple[Counter[str], int]:
    """Run what a run still lacks.

    Returns
    -------
    outcomes : Counter
        Of all trials that are on disk now.
    n_resumed : int
        Trials that were finished before.

    Raises
    ------
    RunError, SuiteError, SandboxError
        The run folder cannot be written any more, or a snapshot cannot be shown; other trials are stopped.
    """
    outcomes: Counter[str] = Counter()
    waiting: dict[str, list[PlannedTrial]] = {}
    for trial, record in store.trials():
        if record is not None and record.outcome.is_scored:
            outcomes[record.outcome.value] += 1
        else:
            waiting.setdefault(trial.scenario_id, []).append(trial)
    n_resumed = outcomes.total()
    progress.begin(label, len(store.manifest.plan), n_resumed)
    n_waiting = sum(map(len, waiting.values()))
    n_jobs = max(1, min(work.options.jobs, n_waiting))
    queue = TrialQueue[TrialSetting](
        [
            (partial(_setting, scenario, work), waiting[scenario.id])
            for scenario in work.scenarios
            if scenario.id in waiting
        ],
        most_open=n_jobs,
    )
    desk = _Desk(store, label, work.options.retries, progress, outcomes)
    try:
        if n_jobs == 1:
            # In the caller's thread: a person's terminal and a signal reach it at once.
            _attend(queue, desk, agent, None)
        else:
            _attend_side_by_side(queue, desk, agent, n_jobs)
    finally:
        queue.close()
    return outcomes, n_resumed


def _attend(queue: TrialQueue[TrialSetting], desk: _Desk, agent: Agent, stop: StopSwitch | None) -> None:
    """Run trials until none is left."""
    while (ticket := queue.take()) is not None:
        again = False
        try:
            again = _attend_one(ticket, desk, agent, stop)
        finally:
            queue.give_back(ticket, again=again)


def _attend_one(ticket: Ticket[TrialSetting], desk: _Desk, agent: Agent, stop: StopSwitch | None) -> bool:
    setting = ticket.setting()
    desk.started(ticket.trial)
    return desk.ended(ticket.trial, run_trial(ticket.trial, agent, setting, desk.store, stop))


def _attend_side_by_side(queue: TrialQueue[TrialSetting], desk: _Desk, agent: Agent, n_jobs: int) -> None:
    stop, all_ended = StopSwitch(), threading.Semaphore(0)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            _attend(queue, desk, agent, stop)
        except TrialStopped:
            pass
        except BaseException as error:
            failures.append(error)
            queue.stop()
            stop.set()
        finally:
            all_ended.release()

    # Daemons: one that waits for a server that never answers must not hold the process once it was stopped.
    threads = [threading.Thread(target=work, name=f"job-{n}", daemon=True) for n in range(1, n_jobs + 1)]
    n_ended = 0
    try:
        for thread in threads:
            thread.start()
        for _ in threads:
            all_ended.acquire()
            n_ended += 1
    finally:
        if n_ended < n_jobs:
            queue.stop()
            stop.set()
            _join(threads)
    if failures:
        raise failures[0]


def _join(threads: Sequence[threading.Thread]) -> None:
    deadline = time.monotonic() + _END_S
    for thread in threads:
        if thread.ident is not None:
            thread.join(max(0.0, deadline - time.monotonic()))


@contextmanager
def _setting(scenario: Scenario, work: Work) -> Iterator[TrialSetting]:
    options = work.options
    limits = TrialLimits(options.max_turns, options.time_limit_s, options.forced_final)
    if work.shells is None:
        yield TrialSetting("", limits, options.repair, open_sandbox=None)
        return
    shells, window = work.shells, work.windows[scenario.id].window
    task = render_task(
        detected_at=str(window.detected_at),
        window_start=str(window.start),
        window_end=str(window.end),
        max_turns=options.max_turns,
        time_limit_s=options.time_limit_s,
        command_s=options.limits.command_s,
        max_command_s=options.limits.max_command_s,
    )
    with shells.staged(scenario) as copy:
        yield TrialSetting(task, limits, options.repair, lambda: shells.opened(copy), work.hidden)


def _did_nothing(record: TrialRecord) -> bool:
    return record.outcome is Outcome.AGENT_ERROR and not record.n_commands


def _never_starts(label: str, record: TrialRecord) -> str:
    return (
        f"{label}: the first {_FIRST_TRIALS} trials all ended in agent_error without a single command, as if "
        f"the agent cannot start. The last time: {record.reason} The run goes on; interrupt it to mend that."
    )
