"""What one trial lets its agent do: shell calls, the submission, and when nothing more is taken.

Counts turns and time and records each command. Decides no outcome and starts no agent. Calls may come from
several threads: commands run one at a time, a submission never waits for a command.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from diagnose_bench.agents.base import GRACE_S, CommandReply, SubmitReply, TrialOver
from diagnose_bench.detection.watched import WatchedSandbox
from diagnose_bench.diagnosis import validate_submission
from diagnose_bench.diagnosis_reader import read_diagnosis
from diagnose_bench.errors import DiagnosisError, SandboxEndedError
from diagnose_bench.inventory import Inventory
from diagnose_bench.outcome import Limit, Outcome
from diagnose_bench.records import BoundaryEvent, CommandRecord, PlannedTrial
from diagnose_bench.redaction import Redactor
from diagnose_bench.sandbox.base import ExecResult, Sandbox
from diagnose_bench.store import CommandLog
from diagnose_bench.submissions import KEPT_BYTES, SubmissionLog

TURNS_TOLD = 20
NOT_RUN = 125
TIME_TO_SUBMIT = b"The turns are used up and the command was not run. It is time to submit the diagnosis.\n"


@dataclass(frozen=True)
class TrialLimits:
    """What a trial may take."""

    max_turns: int
    time_limit_s: float
    forced_final: bool = False


class Session:
    """One trial as its agent sees it (`TrialSession`), and as the harness reads it afterwards."""

    def __init__(
        self,
        trial: PlannedTrial,
        *,
        task: str,
        limits: TrialLimits,
        log: CommandLog | None,
        log_folder: Path,
        hidden: tuple[Path, ...] = (),
        submissions: SubmissionLog | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self.scenario_id = trial.scenario_id
        self.repeat = trial.repeat
        self.task = task
        self.log_folder = log_folder
        self.hidden = hidden
        self.redactor = redactor or Redactor()
        self.n_turns = 0
        self.n_commands = 0
        self.limit_hit: Limit | None = None
        self.submission: bytes | None = None
        self.refused = False
        self.was_cut_off = False
        self.rejected: bytes | None = None
        self.rejected_reason = ""
        self.fault: Exception | None = None
        self.broken = ""
        self._limits = limits
        self._sandbox: Sandbox | None = None
        self._log = log
        self._submissions = submissions
        self._replaced_until: float | None = None
        self._is_closed = False
        self._started = time.monotonic()
        self._paused_at: float | None = None
        self._seconds: float | None = None
        self._counts_model_calls = False
        self._over = threading.Event()
        self._turn_lock = threading.Lock()
        self._submit_lock = threading.Lock()

    def attach(self, sandbox: Sandbox) -> None:
        """Give the trial its shell."""
        self._sandbox = sandbox

    def boundary_events(self, answer: bytes | None) -> tuple[BoundaryEvent, ...]:
        """What was seen at the boundary, in commands and in what was handed in."""
        if not isinstance(self._sandbox, WatchedSandbox):
            return ()
        self._sandbox.check_answer(answer)
        return self._sandbox.events()

    @property
    def is_replay(self) -> bool:
        """Whether the trial has no shell."""
        return self._log is None

    def start_clock(self) -> None:
        """Begin the trial's time: the task is handed over now."""
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """From the task handed over to the submission or the end."""
        return self._elapsed() if self._seconds is None else self._seconds

    def time_left_s(self) -> float:
        """Seconds until the trial's time limit; never negative."""
        return max(0.0, self._limits.time_limit_s - self._elapsed())

    def is_over(self) -> bool:
        """Whether nothing more is taken from the agent."""
        if not self._over.is_set() and self.time_left_s() <= 0.0:
            self._end(Limit.TIME)
        return self._over.is_set()

    def wait_over(self, timeout_s: float) -> bool:
        """Wait until the trial is over, at most so long; return ``is_over()``."""
        self._over.wait(min(timeout_s, self.time_left_s()))
        return self.is_over()

    def has_submission(self) -> bool:
        """Whether a submission was accepted."""
        return self.submission is not None

    def grace_left_s(self) -> float:
        """Seconds in which the agent may still end by itself once the trial is over; 0 to stop it now."""
        until = self._replaced_until
        if until is None or self._is_closed:
            return 0.0
        return max(0.0, min(until - time.monotonic(), self.time_left_s()))

    def stop_command(self) -> None:
        """End the command that runs; the trial goes on."""
        if self._sandbox is not None:
            self._sandbox.cancel()

    def inventory(self) -> Inventory:
        """The objects of the snapshot, read anew at each call."""
        return Inventory.none() if self._sandbox is None else Inventory.load(self._sandbox.snapshot)

    def close(self) -> None:
        """Take nothing more and end a command that still runs; the agent has ended."""
        # Waits for a submission that is being read: what it was answered has to hold.
        with self._submit_lock:
            self._is_closed = True
        self._end(None)
        if self._sandbox is not None:
            self._sandbox.stop()

    def cancel(self) -> None:
        """End the trial at once: the run is stopped and the trial will be discarded."""
        self._is_closed = True
        self._end(None)
        if self._sandbox is not None:
            self._sandbox.stop()

    def run_command(self, command: str, timeout_s: float | None = None) -> CommandReply:
        """Run one command in the sandbox; a turn, unless model calls are counted.

        Raises
        ------
        TrialOver
            A limit was hit, the diagnosis is in, or the harness failed.
        """
        with self._turn_lock:
            self._check_open()
            if not self._counts_model_calls:
                self._take_turn()
            left = self._allowed - self.n_turns
            if self.n_turns >= self._limits.max_turns:
                self.limit_hit = self.limit_hit or Limit.TURNS
                return CommandReply(TIME_TO_SUBMIT, NOT_RUN)
            started_at = now()
            result = self._execute(command, timeout_s)
            self._record(command, started_at, result)
        told = left <= TURNS_TOLD and not self._counts_model_calls
        notices = (self._paths_notice(command), _turns_left(left) if told else "")
        return CommandReply(result.shown, result.exit_code, "\n".join(filter(None, notices)))

    def begin_turn(self) -> int:
        """Count one model call as a turn; from the first one on, commands count no more.

        Raises
        ------
        TrialOver
            No turn or no time is left, or the diagnosis is in.
        """
        with self._turn_lock:
            self._check_open()
            self._counts_model_calls = True
            self._take_turn()
            return self._allowed - self.n_turns

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the trial's clock inside."""
        self._paused_at = began = time.monotonic()
        try:
            yield
        finally:
            self._started += time.monotonic() - began
            self._paused_at = None

    def give_back(self, seconds: float) -> None:
        """Take time off the trial's clock; not more than has passed, and not once the trial is over."""
        if not self._over.is_set():
            self._started = min(self._started + max(0.0, seconds), time.monotonic())

    @property
    def _allowed(self) -> int:
        return self._limits.max_turns + int(self._limits.forced_final)

    def _take_turn(self) -> None:
        if self.n_turns >= self._allowed:
            self.was_cut_off = True
            self._end(Limit.TURNS)
            raise TrialOver("The turns are used up; the trial is over.")
        self.n_turns += 1

    def _paths_notice(self, command: str) -> str:
        """Where the snapshot lies if not at /snapshot: at first, and whenever the names are used anyway."""
        notice = "" if self._sandbox is None else self._sandbox.capabilities.notice
        is_due = self.n_commands == 1 or "/snapshot" in command or "/scratch" in command
        return f"[diagnose-bench] {notice}" if notice and is_due else ""

    def _execute(self, command: str, timeout_s: float | None) -> ExecResult:
        if self._sandbox is None or self._log is None:
            raise TrialOver("This trial has no shell.")
        bounded = min(self._sandbox.limits.command_time(timeout_s), max(self.time_left_s(), 0.1))
        try:
            return self._sandbox.run(command, timeout_s=bounded)
        except SandboxEndedError as error:
            # A trial that is unscored is run again: nobody may get one by breaking the shell.
            self.broken = str(error)
            self._end(None)
            raise TrialOver("The shell was ended from inside; the trial is over.") from error
        except Exception as error:
            self._fail(error)
            raise TrialOver("The harness failed; the trial is over.") from error

    def _record(self, command: str, started_at: str, result: ExecResult) -> None:
        """Write down a command and its output; an output that comes after the end is not handed over.

        Raises
        ------
        TrialOver
            The trial is over by now.
        """
        self.n_commands += 1
        is_over = self.is_over()
        record = CommandRecord(
            n=self.n_commands,
            started_at=started_at,
            seconds=result.seconds,
            command=command.encode("utf-8", "replace").decode(),
            exit_code=result.exit_code,
            n_bytes=result.n_bytes,
            output=result.shown.decode("utf-8", "replace"),
            sha256=result.sha256,
            limit_hit=result.limit_hit,
            answered=not is_over,
        )
        try:
            if self._log is not None:
                self._log.append(record)
        except Exception as error:
            self._fail(error)
            raise TrialOver("The harness failed; the trial is over.") from error
        if is_over:
            self._check_open()

    def submit(self, data: bytes) -> SubmitReply:
        """Hand in the diagnosis; the last one that is accepted counts (`TrialSession.submit`)."""
        with self._submit_lock:
            at, seconds = now(), self._elapsed()
            try:
                reply, is_refusal = self._judge(data)
                if self._submissions is not None:
                    self._submissions.add(
                        data, at=at, seconds=seconds, accepted=reply.accepted, message=reply.message
                    )
            except Exception as error:
                self._fail(error)
                return SubmitReply(False, "The harness failed; the trial is over.")
            if reply.accepted:
                self._take(data, seconds, is_refusal=is_refusal)
            elif not self.is_over():
                self.rejected, self.rejected_reason = data[: KEPT_BYTES + 1], reply.message
            return reply

    def _judge(self, data: bytes) -> tuple[SubmitReply, bool]:
        """What is answered to a submission, and whether it is a refusal to answer."""
        if self.is_over() and not self.grace_left_s():
            return SubmitReply(False, "The trial is over; nothing more is taken."), False
        try:
            validate_submission(data)
        except DiagnosisError as error:
            is_refusal = read_diagnosis(data, repair=False).outcome is Outcome.REFUSED
            return SubmitReply(is_refusal, "accepted" if is_refusal else str(error)), is_refusal
        return SubmitReply(True, "accepted"), False

    def _take(self, data: bytes, seconds: float, *, is_refusal: bool) -> None:
        self.submission, self.refused = data, is_refusal
        if self._replaced_until is None:
            self._replaced_until = time.monotonic() + GRACE_S
            self._end(None)
        # The clock stops at the one that counts.
        self._seconds = seconds

    def _fail(self, error: Exception) -> None:
        """Keep our own fault, seen in a thread that serves the agent, for the trial to report."""
        if not self.has_submission():
            self.fault = error
        self._replaced_until = None
        self._end(None)

    def _check_open(self) -> None:
        if not self.is_over():
            return
        if self.has_submission():
            raise TrialOver("A diagnosis was submitted; no more commands are run.")
        raise TrialOver("The time is up." if self.limit_hit is Limit.TIME else "The trial is over.")

    def _elapsed(self) -> float:
        paused_at = self._paused_at
        return (time.monotonic() if paused_at is None else paused_at) - self._started

    def _end(self, limit: Limit | None) -> None:
        """End the trial; the first reason stays."""
        if not self._over.is_set():
            self._seconds = self._elapsed()
            self.limit_hit = limit or self.limit_hit
            self._over.set()


def now() -> str:
    """The time, RFC 3339, UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _turns_left(left: int) -> str:
    if left == 1:
        return "[diagnose-bench] 1 turn is left: it is time to submit the diagnosis."
    return f"[diagnose-bench] {left} turns are left."
