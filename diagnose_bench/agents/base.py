"""What an agent is and what it is given: the protocol between one trial and whoever diagnoses.

Holds no logic of a trial and knows no particular agent. An agent sees a session: never the truth, the
suite or the run folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from diagnose_bench.errors import DiagnoseBenchError
from diagnose_bench.inventory import Inventory
from diagnose_bench.records import AgentInfo, Usage
from diagnose_bench.redaction import Redactor

GRACE_S = 5.0
"""What an agent gets, once a diagnosis is accepted, to end by itself or to hand in a better one."""
AgentKind = Literal["builtin", "process", "replay", "model", "hosted", "person"]


@dataclass(frozen=True)
class CommandReply:
    """What one shell call answers.

    Attributes
    ----------
    output : bytes
        Output of the command, head and tail where it was cut; nothing of ours is in it.
    exit_code : int
        Exit code of the command; 124 at its time limit, 125 where it was not run.
    notice : str
        What the harness has to say beside the output ("12 turns are left"), or empty.
    """

    output: bytes
    exit_code: int
    notice: str = ""


@dataclass(frozen=True)
class SubmitReply:
    """What one submission answers: accepted, or the schema errors. Never anything about correctness."""

    accepted: bool
    message: str


@dataclass(frozen=True)
class ToolCall:
    """One tool call of a model: what it asked for, and the number of the command that it became, if any."""

    id: str
    name: str
    arguments: str
    answer: str = ""
    command: int | None = None


@dataclass(frozen=True)
class AgentStep:
    """One message of an agent's own loop, where we can see it.

    Attributes
    ----------
    source : {"system", "user", "agent"}
        Who speaks.
    at : str
        RFC 3339, UTC.
    message, reasoning : str
        The text, and the reasoning where the model's server shows it.
    tool_calls : tuple of ToolCall
        With their answers.
    usage : Usage
        Tokens and cost of this one model call.
    """

    source: Literal["system", "user", "agent"]
    at: str
    message: str
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True)
class AgentResult:
    """What is left when an agent has ended.

    Attributes
    ----------
    final_output : bytes or None
        What the agent printed, for the tolerant reader; None if it prints nothing by its nature.
    error : str or None
        One sentence on how the agent failed, or None.
    usage : Usage
        Tokens and cost, where the agent reports them.
    steps : tuple of AgentStep
        Its own loop where we make it; empty for programs.
    """

    final_output: bytes | None = None
    error: str | None = None
    usage: Usage = field(default_factory=Usage)
    steps: tuple[AgentStep, ...] = ()


class TrialFailed(DiagnoseBenchError):
    """An agent cannot go on through no fault of its own, such as a model's server that stays away.

    The trial ends as ``harness_error``, which is no zero and is tried again; unless a diagnosis is in, which
    then counts.

    Parameters
    ----------
    message : str
        What, where, what next.
    usage : Usage, optional
        What was spent by then.
    steps : sequence of AgentStep
        Its own loop so far.
    """

    def __init__(self, message: str, *, usage: Usage | None = None, steps: Sequence[AgentStep] = ()) -> None:
        super().__init__(message)
        self.usage = usage or Usage()
        self.steps = tuple(steps)


class TrialOver(Exception):
    """The trial has ended (submitted, or a limit); a builtin agent lets it pass through."""


class TrialSession(Protocol):
    """One trial as its agent sees it."""

    scenario_id: str
    repeat: int
    task: str
    """The text of task.md with this scenario's times filled in."""
    log_folder: Path
    """Where a process agent's standard error is kept; out of the agent's own reach."""
    hidden: tuple[Path, ...]
    """Paths that a process agent must not see."""
    redactor: Redactor
    """What is written into ``log_folder`` goes through it first."""

    def time_left_s(self) -> float:
        """Seconds until the trial's time limit; never negative."""
        ...

    def is_over(self) -> bool:
        """Whether nothing more is taken from the agent."""
        ...

    def wait_over(self, timeout_s: float) -> bool:
        """Wait until the trial is over, at most so long; return ``is_over()``."""
        ...

    def has_submission(self) -> bool:
        """Whether a submission was accepted."""
        ...

    def grace_left_s(self) -> float:
        """Seconds in which the agent may still end by itself once the trial is over; 0 to stop it now."""
        ...

    def stop_command(self) -> None:
        """End the command that runs, called from another thread; the trial goes on."""
        ...

    def inventory(self) -> Inventory:
        """The objects that the snapshot knows, to complete names with; empty where there is no snapshot.

        Raises
        ------
        SuiteError
            A file of the snapshot cannot be read.
        """
        ...

    def close(self) -> None:
        """Take nothing more and end a command that still runs; the agent has ended."""
        ...

    def begin_turn(self) -> int:
        """Count one model call as a turn, for agents whose model calls we make; commands then count no more.

        Returns
        -------
        n_left : int
            Turns left after this one. In the last one commands are not run any more.

        Raises
        ------
        TrialOver
            No turn or no time is left, or the diagnosis is in.
        """
        ...

    def paused(self) -> AbstractContextManager[None]:
        """Stop the trial's clock inside: for our own waiting for a server, never for an agent's work."""
        ...

    def run_command(self, command: str, timeout_s: float | None = None) -> CommandReply:
        """Run one command in the sandbox; a turn, unless model calls are counted.

        Raises
        ------
        TrialOver
            A limit was hit, or the diagnosis is in.
        """
        ...

    def submit(self, data: bytes) -> SubmitReply:
        """Hand in the diagnosis.

        Notes
        -----
        The first accepted one ends the shell and begins the ``GRACE_S`` seconds in which a further accepted
        one replaces it; of all, the last one accepted counts. Each is kept, also one that is refused.
        """
        ...


@runtime_checkable
class CheckedAgent(Protocol):
    """An agent that can tell before the first trial that it cannot work."""

    def check(self) -> None:
        """Look once, before a run's first trial.

        Raises
        ------
        UsageError
            It cannot work as it was named: a wrong key, an unknown model. The run does not start.
        """
        ...


@runtime_checkable
class ProgramAgent(Protocol):
    """An agent with a process of its own on this machine, to be kept from truths and runs."""

    argv: tuple[str, ...]
    """Its command line; what it names has to stay visible."""
    cover: str
    """``landlock`` where that covers its process, once it is settled."""

    def try_to_confine(self, hidden: Sequence[Path]) -> bool:
        """Find out whether its process can be confined on this machine, and settle it."""
        ...


class Agent(Protocol):
    """Whoever diagnoses."""

    @property
    def info(self) -> AgentInfo:
        """Name, version, model, configuration digest, for run.json."""
        ...

    @property
    def kind(self) -> AgentKind:
        """What it is.

        ``builtin`` runs in the harness, ``process`` is a program, ``replay`` needs no sandbox, ``model`` is
        our loop around a model's server, ``hosted`` runs elsewhere and calls us, ``person`` sits at the
        terminal.
        """
        ...

    def diagnose(self, session: TrialSession) -> AgentResult:
        """Work on one scenario until done or until the session is over.

        Raises
        ------
        TrialFailed
            It cannot go on through no fault of its own: the trial is no zero and is tried again.
        UsageError
            No trial can go on as the agent was named (its key was taken back): the run ends, and what is
            finished is kept.
        """
        ...
