"""What can be chosen about a run, and who is told how it goes. Runs nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from diagnose_bench.errors import UsageError
from diagnose_bench.records import PlannedTrial, TrialRecord
from diagnose_bench.sandbox.limits import Limits
from diagnose_bench.sandbox.opening import BACKENDS, is_known

MOST_JOBS = 64
_MOST_REPEATS = 10_000
_MOST_RETRIES = 20


@dataclass(frozen=True)
class RunOptions:
    """What can be chosen about a run; checked at once.

    Attributes
    ----------
    repeats, max_turns, time_limit_s, forced_final, repair
        The policy: part of the signature.
    scenarios : tuple of str
        Ids or numbers to narrow the plan to; such a run has no suite headline.
    sandbox : str
        One of ``sandbox.BACKENDS``.
    limits : Limits
        Of every command in the sandbox.
    resume : bool
        Go on with the run that is there.
    dry_run : bool
        Check and plan, run nothing, write nothing.
    jobs : int
        How many trials go on at the same time. No part of the signature: each has its own sandbox, clock and
        limits. It stands in run.json, as trials that share a busy machine take longer.
    retries : int
        How often a trial that failed through a fault of ours is run again at once.
    baselines : bool
        Run the baseline agents beside an agent that is none itself.
    hide : tuple of Path
        More folders that neither the agent's own process nor its shell may see, such as other truths.
    audit : bool
        Report system calls that try to leave the sandbox.
    toolbox : Path or None
        A folder of data tools for the shell; part of the signature.
    null_snapshot : bool
        Give the task with an empty snapshot; part of the signature. No baselines run beside.
    """

    repeats: int = 3
    max_turns: int = 100
    time_limit_s: float = 1800.0
    forced_final: bool = False
    repair: bool = True
    scenarios: tuple[str, ...] = ()
    sandbox: str = "auto"
    limits: Limits = field(default_factory=Limits)
    resume: bool = False
    dry_run: bool = False
    jobs: int = 1
    retries: int = 2
    baselines: bool = True
    hide: tuple[Path, ...] = ()
    audit: bool = False
    toolbox: Path | None = None
    null_snapshot: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.repeats <= _MOST_REPEATS:
            raise UsageError(f"--repeats {self.repeats}: give a number from 1 to {_MOST_REPEATS}.")
        if not 1 <= self.jobs <= MOST_JOBS:
            raise UsageError(f"--jobs {self.jobs}: give a number from 1 to {MOST_JOBS}.")
        if not 0 <= self.retries <= _MOST_RETRIES:
            raise UsageError(f"--retries {self.retries}: give a number from 0 to {_MOST_RETRIES}.")
        if self.max_turns < 1:
            raise UsageError(f"--max-turns {self.max_turns}: give a number from 1.")
        if not (math.isfinite(self.time_limit_s) and self.time_limit_s > 0):
            raise UsageError(f"--time-limit {self.time_limit_s}: give a number of seconds above 0.")
        if not is_known(self.sandbox):
            raise UsageError(f"--sandbox {self.sandbox}: unknown. Known are {', '.join(BACKENDS)}.")
        for path in self.hide:
            if not path.exists():
                raise UsageError(f"--hide {path}: does not exist. What is to be hidden must be there.")


class Progress(Protocol):
    """Who is told how a run goes; never by two threads at the same time."""

    def begin(self, label: str, n_trials: int, n_done: int) -> None:
        """A run, or a baseline beside it, starts; so many trials are finished already."""

    def trial_started(self, trial: PlannedTrial) -> None:
        """A trial starts."""

    def trial_ended(self, record: TrialRecord) -> None:
        """A trial has ended and is on disk."""

    def note(self, message: str) -> None:
        """Something a person should know."""


class _Silent:
    def begin(self, label: str, n_trials: int, n_done: int) -> None: ...

    def trial_started(self, trial: PlannedTrial) -> None: ...

    def trial_ended(self, record: TrialRecord) -> None: ...

    def note(self, message: str) -> None: ...


SILENT: Progress = _Silent()
