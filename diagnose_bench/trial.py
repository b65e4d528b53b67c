"""One trial: hand over the task, let the agent work, take the diagnosis, say how it ended. Opens no truth.

What the agent does wrong becomes an outcome; what we do wrong becomes ``harness_error`` with its reason, and
the run goes on. Only a run folder that cannot be written ends the run.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from diagnose_bench.agents.base import Agent, AgentResult, AgentStep, TrialFailed, TrialOver
from diagnose_bench.diagnosis_reader import read_diagnosis
from diagnose_bench.errors import DiagnoseBenchError, RunError, UsageError
from diagnose_bench.exhaustion import is_exhaustion
from diagnose_bench.outcome import Limit, Outcome
from diagnose_bench.records import PlannedTrial, TrialRecord, Usage
from diagnose_bench.redacted_answer import redacted_answer
from diagnose_bench.redaction import Redactor
from diagnose_bench.sandbox.base import Sandbox
from diagnose_bench.sandbox.runs_folder import beside_run
from diagnose_bench.store import RunStore
from diagnose_bench.trajectory import write_trajectory
from diagnose_bench.trial_session import Session, TrialLimits, now

_KEPT_BYTES = 1 << 20


@dataclass(frozen=True)
class TrialSetting:
    """What the trials of one scenario have in common.

    Attributes
    ----------
    task : str
        The text of task.md.
    limits : TrialLimits
        Turns and time.
    repair : bool
        Whether the syntax of a printed answer may be repaired.
    open_sandbox : callable or None
        Opens a sandbox on the scenario's snapshot; None for a replay.
    hidden : tuple of Path
        What the agent's own process must not see.
    """

    task: str
    limits: TrialLimits
    repair: bool
    open_sandbox: Callable[[], AbstractContextManager[Sandbox]] | None
    hidden: tuple[Path, ...] = ()


class TrialStopped(Exception):
    """The run was stopped while the trial went on; nothing is written about it."""


class StopSwitch:
    """Ends all trials of a run from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: set[Session] = set()
        self.is_set = False

    def set(self) -> None:
        """End the trials that go on, and those that are about to."""
        with self._lock:
            self.is_set = True
            sessions = list(self._sessions)
        for session in sessions:
            session.cancel()

    @contextmanager
    def over(self, session: Session) -> Iterator[None]:
        """Keep a session within reach.

        Raises
        ------
        TrialStopped
            At the start or at the end, if the run is stopped.
        """
        with self._lock:
            self._sessions.add(session)
        try:
            if self.is_set:
                raise TrialStopped
            yield
        finally:
            with self._lock:
                self._sessions.discard(session)
        if self.is_set:
            raise TrialStopped


@dataclass(frozen=True)
class _Ending:
    outcome: Outcome
    reason: str
    diagnosis: bytes | None = None
    repairs: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    steps: tuple[AgentStep, ...] = ()


def run_trial(
    trial: PlannedTrial,
    agent: Agent,
    setting: TrialSetting,
    store: RunStore,
    stop: StopSwitch | None = None,
) -> TrialRecord:
    """Run one trial and write it down.

    Raises
    ------
    RunError
        The run folder cannot be written.
    UsageError
        The agent says that it cannot work as it was named, so that every further trial would fail.
    TrialStopped
        `stop` was set meanwhile.
    """
    folder = store.begin_trial(trial)
    started_at = now()
    observed = setting.open_sandbox is not None
    redactor = Redactor.of_environment(os.environ)
    with ExitStack() as stack:
        log = stack.enter_context(store.command_log(trial, redactor)) if observed else None
        submissions = stack.enter_context(store.submission_log(trial, redactor))
        session = Session(
            trial,
            task=setting.task,
            limits=setting.limits,
            log=log,
            log_folder=folder,
            # Asked anew for each trial, as another run may have begun meanwhile.
            hidden=(*setting.hidden, *beside_run(store.path)),
            submissions=submissions,
            redactor=redactor,
        )
        if stop is not None:
            stack.enter_context(stop.over(session))
        try:
            ending = _attend(agent, session, setting)
        except (RunError, UsageError):
            raise
        except Exception as error:
            known = isinstance(error, DiagnoseBenchError)
            failed = error if isinstance(error, TrialFailed) else None
            ending = _Ending(
                Outcome.HARNESS_ERROR,
                str(error) if known else f"{type(error).__name__}: {error}",
                usage=failed.usage if failed else Usage(),
                steps=failed.steps if failed else (),
            )
    record = TrialRecord(
        scenario_id=trial.scenario_id,
        repeat=trial.repeat,
        outcome=ending.outcome,
        reason=ending.reason,
        limit_hit=session.limit_hit,
        repairs=ending.repairs,
        n_turns=session.n_turns,
        n_commands=session.n_commands,
        observed=observed,
        started_at=started_at,
        seconds=session.seconds,
        usage=ending.usage,
        boundary_events=session.boundary_events(ending.diagnosis),
        n_submissions=submissions.n_seen,
        counted_submission=None if ending.diagnosis is None else submissions.counted,
    )
    return _write(store, trial, agent, setting, record, ending, redactor, session.has_submission())


def _write(
    store: RunStore,
    trial: PlannedTrial,
    agent: Agent,
    setting: TrialSetting,
    record: TrialRecord,
    ending: _Ending,
    redactor: Redactor,
    was_submitted: bool,
) -> TrialRecord:
    """Write what is left of a trial, without secrets; the record last, since it counts them."""
    answer = None if ending.diagnosis is None else redacted_answer(ending.diagnosis, redactor)
    events = tuple(
        event.model_copy(update={"detail": redactor.text(event.detail)}) for event in record.boundary_events
    )
    record = record.model_copy(update={"reason": redactor.text(record.reason), "boundary_events": events})
    write_trajectory(
        store,
        trial,
        record,
        agent=agent.info,
        task=setting.task,
        steps=ending.steps,
        answer=answer,
        was_submitted=was_submitted,
        redactor=redactor,
    )
    record = record.model_copy(update={"n_redactions": redactor.n_redactions})
    store.write_trial(record, answer)
    return record


def _attend(agent: Agent, session: Session, setting: TrialSetting) -> _Ending:
    with ExitStack() as stack:
        if setting.open_sandbox is not None:
            session.attach(stack.enter_context(setting.open_sandbox()))
        session.start_clock()
        try:
            result = _work(agent, session)
        finally:
            session.close()
    if session.fault is not None:
        # Commands of a program come from its own process, which shares processes and descriptors with us.
        if agent.kind != "process" or not is_exhaustion(session.fault):
            raise session.fault
        session.broken = f"The agent left its user nothing to run a command with: {session.fault}"
    return replace(_conclude(session, result, setting), steps=result.steps)


def _work(agent: Agent, session: Session) -> AgentResult:
    try:
        return agent.diagnose(session)
    except TrialOver:
        return AgentResult()
    except TrialFailed as error:
        if not session.has_submission():
            raise
        return AgentResult(usage=error.usage, steps=error.steps)
    except Exception as error:
        # A builtin agent's own mistake is the agent's; in the others only our code can fail here.
        if agent.kind != "builtin":
            raise
        return AgentResult(error=f"The agent failed: {type(error).__name__}: {error}")


def _conclude(session: Session, result: AgentResult, setting: TrialSetting) -> _Ending:
    if session.submission is not None:
        if session.refused:
            return _Ending(
                Outcome.REFUSED, "The agent refused to answer.", session.submission, (), result.usage
            )
        reason = "The diagnosis was submitted."
        return _Ending(Outcome.DIAGNOSED, reason, session.submission, (), result.usage)
    printed = result.final_output
    read = None if printed is None else read_diagnosis(printed, repair=setting.repair)
    if read is not None and read.outcome is Outcome.DIAGNOSED:
        reason = "The diagnosis was read from what the agent printed."
        return _Ending(Outcome.DIAGNOSED, reason, printed, read.repairs, result.usage)
    outcome, reason = Outcome.NO_DIAGNOSIS, _nothing(session)
    if read is not None:
        outcome = read.outcome
        reason = reason if outcome is Outcome.NO_DIAGNOSIS else read.reason
    left = printed if printed and outcome is not Outcome.NO_DIAGNOSIS else None
    if outcome in (Outcome.NO_DIAGNOSIS, Outcome.MALFORMED_DIAGNOSIS) and session.rejected is not None:
        outcome, left = Outcome.MALFORMED_DIAGNOSIS, session.rejected
        reason = f"No submission was accepted; the last one was wrong: {session.rejected_reason}"
    if session.limit_hit is Limit.TIME:
        time_limit_s = setting.limits.time_limit_s
        outcome, reason = (
            Outcome.TIME_LIMIT,
            f"No diagnosis within the time limit of {time_limit_s:g} seconds.",
        )
    elif session.limit_hit is Limit.TURNS and (session.was_cut_off or outcome is Outcome.NO_DIAGNOSIS):
        outcome, reason = Outcome.TURN_LIMIT, f"No diagnosis within {setting.limits.max_turns} turns."
    elif session.broken or result.error is not None:
        outcome, reason = Outcome.AGENT_ERROR, session.broken or result.error or ""
    if left is not None and len(left) > _KEPT_BYTES:
        left = None
    return _Ending(outcome, reason, left, (), result.usage)


def _nothing(session: Session) -> str:
    commands = "1 command" if session.n_commands == 1 else f"{session.n_commands} commands"
    if session.is_replay:
        return "There is no recorded answer."
    return f"The agent ended after {commands} without handing in or printing anything."
