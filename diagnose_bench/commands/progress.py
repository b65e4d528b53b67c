"""How a run goes, on stderr: a progress bar on a terminal, nothing but notes elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Self

from diagnose_bench.commands.common import say
from diagnose_bench.outcome import Outcome
from diagnose_bench.records import PlannedTrial, TrialRecord
from diagnose_bench.text import visible

_TOLD_ONCE = (
    Outcome.AGENT_ERROR,
    Outcome.MALFORMED_DIAGNOSIS,
    Outcome.NO_DIAGNOSIS,
    Outcome.TIME_LIMIT,
    Outcome.TURN_LIMIT,
)
"""What a person would want to mend while the run still goes."""


class TerminalProgress:
    """Trials done and time left; a context manager, since a bar has to be closed.

    Parameters
    ----------
    bar : bool
        Whether to draw a bar at all: not while a person works on the same terminal.
    """

    def __init__(self, *, bar: bool = True) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._label = ""
        self._running: dict[PlannedTrial, None] = {}
        self._told: set[tuple[str, Outcome]] = set()
        if bar and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("trials, left"),
                TimeRemainingColumn(),
                TextColumn("{task.fields[trial]}", markup=False),
                console=Console(stderr=True, markup=False, highlight=False),
                transient=True,
            )

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, label: str, n_trials: int, n_done: int) -> None:
        """A run starts; so many of its trials are finished already."""
        self._label = label
        self._running.clear()
        if self._bar is not None:
            self._task = self._bar.add_task(
                visible(label, keep_lines=False)[:40], total=n_trials, completed=n_done, trial=""
            )

    def trial_started(self, trial: PlannedTrial) -> None:
        """Name the trial that is running, or say how many are."""
        self._running[trial] = None
        self._show(advance=0)

    def trial_ended(self, record: TrialRecord) -> None:
        """Count a trial, and tell the first one that ended in a way of its own without a diagnosis."""
        self._running.pop(PlannedTrial(scenario_id=record.scenario_id, repeat=record.repeat), None)
        self._show(advance=1)
        if record.outcome in _TOLD_ONCE and (self._label, record.outcome) not in self._told:
            self._told.add((self._label, record.outcome))
            self.note(
                f"{self._label}: {record.scenario_id}, repeat {record.repeat}: {record.outcome}: "
                f"{record.reason} (Told once; trial.json has the reason of each trial.)"
            )

    def _show(self, *, advance: int) -> None:
        if self._bar is None:
            return
        trials = list(self._running)
        text = f"{len(trials)} at the same time" if trials else ""
        if len(trials) == 1:
            text = f"{trials[0].scenario_id} repeat {trials[0].repeat}"
        self._bar.update(self._task, advance=advance, trial=text)

    def note(self, message: str) -> None:
        """Print something a person should know, above the bar."""
        if self._bar is None:
            say(message)
        else:
            self._bar.console.print(visible(message))
