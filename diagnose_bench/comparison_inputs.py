"""Scorecards to be read together: found, held to one signature, paired by scenario. No statistics."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import scoring
from diagnose_bench.errors import IncompleteRunError, UsageError
from diagnose_bench.grading_traits import family_units
from diagnose_bench.report import load_report
from diagnose_bench.scorecard import ScenarioScore, Scorecard, load_scorecard
from diagnose_bench.signature import parse_signature
from diagnose_bench.store import is_run
from diagnose_bench.text import visible

NEVER_REFUSED = "version"
"""The one field that may differ unasked; it is printed."""


@dataclass(frozen=True)
class ScoredRun:
    """A scorecard and what it is called here."""

    label: str
    path: Path
    scorecard: Scorecard

    def scenario(self, scenario_id: str) -> ScenarioScore | None:
        """Scores of one scenario, or None where this run has none of it."""
        return next((one for one in self.scorecard.scenarios if one.scenario_id == scenario_id), None)

    @property
    def scenario_ids(self) -> tuple[str, ...]:
        """Every scenario that counts in this run."""
        return tuple(one.scenario_id for one in self.scorecard.scenarios)

    @property
    def lists_trials(self) -> bool:
        """Whether the scorecard lists trials: one that came from a large file of rows has scores alone."""
        return all(one.trials for one in self.scorecard.scenarios)

    @property
    def n_repeats(self) -> int:
        """Planned repeats of each scenario."""
        return self.scorecard.headline.n_repeats


@dataclass(frozen=True)
class FieldDifference:
    """A field of the signature in which runs differ."""

    field: str
    values: tuple[str | None, ...]
    """In the order of the runs; None where a run's signature lacks the field."""


@dataclass(frozen=True)
class PairedRuns:
    """Runs with the scenarios that all of them have."""

    runs: tuple[ScoredRun, ...]
    scenario_ids: tuple[str, ...]
    allowed: tuple[FieldDifference, ...]
    """Differences that were allowed by hand."""
    versions: FieldDifference | None
    """Where other versions of diagnose-bench made the scorecards."""

    @property
    def labels(self) -> tuple[str, ...]:
        """What the runs are called."""
        return tuple(run.label for run in self.runs)

    @property
    def all_scenario_ids(self) -> tuple[str, ...]:
        """Scenarios that any of the runs has."""
        return tuple(sorted({one for run in self.runs for one in run.scenario_ids}))

    @property
    def families(self) -> tuple[str | None, ...]:
        """Fault family of each common scenario, as the first run's truths give it."""
        return tuple(one.family for one in self._of(self.runs[0]))

    @property
    def split_of(self) -> list[int] | None:
        """Label of each common scenario's split; None without splits."""
        names = [one.split for one in self._of(self.runs[0])]
        if any(name is None for name in names):
            return None
        return _labels([str(name) for name in names])

    @property
    def family_of(self) -> NDArray[np.int64] | None:
        """Label of each common scenario's family where families are the units, as in the scorecards."""
        return family_units(self.families)

    def scores(self) -> NDArray[np.float64]:
        """Scenario means, shape (n_runs, n_scenarios).

        Raises
        ------
        IncompleteRunError
            A run has trials without a score; the message bounds the difference.
        """
        self._check_complete()
        return np.array([[one.score for one in self._of(run)] for run in self.runs], dtype=np.float64)

    def trial_scores(self, run: ScoredRun) -> NDArray[np.float64]:
        """Scores of one complete run, shape (n_scenarios, n_repeats).

        Raises
        ------
        UsageError
            The scorecard lists no trials.
        """
        if not run.lists_trials:
            raise UsageError(
                f"{run.path}: this scorecard comes from a large file of rows and lists no trials, so how "
                "repeats differ cannot be seen. Make a run of the agent's rows (diagnose-bench import "
                "diagnoses), score it, and take that."
            )
        return np.array(
            [[trial.precision_at_full_recall for trial in one.trials] for one in self._of(run)],
            dtype=np.float64,
        )

    def _of(self, run: ScoredRun) -> list[ScenarioScore]:
        by_id = {one.scenario_id: one for one in run.scorecard.scenarios}
        return [by_id[scenario_id] for scenario_id in self.scenario_ids]

    def _check_complete(self) -> None:
        messages = []
        for run in self.runs:
            unscored = [one for one in self._of(run) if one.score is None]
            if not unscored:
                continue
            n_trials = sum(trial.precision_at_full_recall is None for one in unscored for trial in one.trials)
            low, high = self._bounds(run)
            trials = f"{n_trials} {'trial' if n_trials == 1 else 'trials'} of " if run.lists_trials else ""
            messages.append(
                f"{run.path}: incomplete: {trials}"
                f"{len(unscored)} {'scenario has' if len(unscored) == 1 else 'scenarios have'} no score; "
                f"the mean lies between {low:.3f} and {high:.3f}."
            )
        if messages:
            if len(self.runs) > 1:
                messages += [self._bounds_line(run) for run in self.runs[1:]]
            messages.append('Finish the run ("diagnose-bench run … --resume"), score it, and compare again.')
            raise IncompleteRunError("\n".join(messages))

    def _bounds(self, run: ScoredRun) -> tuple[float, float]:
        ends = [one.bounds if one.bounds is not None else (one.score, one.score) for one in self._of(run)]
        low, high = (scoring.suite_mean([pair[i] for pair in ends], self.split_of).mean for i in (0, 1))
        return low, high

    def _bounds_line(self, run: ScoredRun) -> str:
        before, after = self._bounds(self.runs[0]), self._bounds(run)
        return (
            f"Not decidable yet: {run.label} minus {self.runs[0].label} lies between "
            f"{after[0] - before[1]:+.3f} and {after[1] - before[0]:+.3f}, whatever the open trials give."
        )


def load_runs(paths: Sequence[Path]) -> tuple[ScoredRun, ...]:
    """Read scorecards.

    Parameters
    ----------
    paths : sequence of Path
        Folders of runs that have been scored, folders with a scorecard.json alone, or such files.

    Raises
    ------
    RunError
        There is no scorecard, or the run has changed since it was scored.
    """
    cards = [_load(path) for path in paths]
    names = [visible(card.agent.name, keep_lines=False) for card in cards]
    full: list[str] = []
    for name, path in zip(names, paths, strict=True):
        label = name if names.count(name) == 1 else f"{name} ({visible(str(path), keep_lines=False)})"
        # A run against itself: results are kept by label, so even then the two must differ.
        again = sum(one == label or one.startswith(f"{label} #") for one in full)
        full.append(f"{label} #{again + 1}" if again else label)
    return tuple(
        ScoredRun(label=label, path=path, scorecard=card)
        for label, path, card in zip(full, paths, cards, strict=True)
    )


def _load(path: Path) -> Scorecard:
    if path.is_dir() and is_run(path):
        return load_report([path]).agents[0].scorecard
    return load_scorecard(path)


def pair_runs(
    runs: Sequence[ScoredRun], *, allow: Collection[str] = (), ignore: Collection[str] = ()
) -> PairedRuns:
    """Hold runs to one signature and pair their scenarios.

    Parameters
    ----------
    runs : sequence of ScoredRun
        At least one.
    allow : collection of str
        Fields of the signature that may differ, because the caller says so.
    ignore : collection of str
        Fields that do not matter for the question.

    Raises
    ------
    UsageError
        The signatures differ, a field is unknown, or no scenario is common.
    """
    differing = signature_differences(runs, allow)
    refused = [one for one in differing if one.field not in {*allow, *ignore, NEVER_REFUSED}]
    if refused:
        raise UsageError(_refusal(runs, refused))
    common = set(runs[0].scenario_ids).intersection(*(run.scenario_ids for run in runs))
    if not common:
        raise UsageError(f"{', '.join(str(run.path) for run in runs)}: no scenario is common to these runs.")
    return PairedRuns(
        runs=tuple(runs),
        scenario_ids=tuple(one for one in runs[0].scenario_ids if one in common),
        allowed=tuple(one for one in differing if one.field in allow),
        versions=next((one for one in differing if one.field == NEVER_REFUSED), None),
    )


def signature_differences(
    runs: Sequence[ScoredRun], allow: Collection[str] = ()
) -> tuple[FieldDifference, ...]:
    """Fields in which the signatures differ, in the order of a signature."""
    parsed = [parse_signature(run.scorecard.signature) for run in runs]
    names = dict.fromkeys(name for one in parsed for name in one)
    for field in allow:
        if field not in names:
            raise UsageError(
                f"--allow {field}: the signatures have no such field. They have: {', '.join(names)}."
            )
    values = {name: tuple(one.get(name) for one in parsed) for name in names}
    return tuple(FieldDifference(name, found) for name, found in values.items() if len(set(found)) > 1)


def _refusal(runs: Sequence[ScoredRun], refused: Sequence[FieldDifference]) -> str:
    lines = [f"These runs cannot be compared: their signatures differ in {_and(refused)}."]
    for one in refused:
        for run, value in zip(runs, one.values, strict=True):
            lines.append(f"  {one.field}: {'(none)' if value is None else value} in {run.path}")
    flags = " ".join(f"--allow {one.field}" for one in refused)
    lines.append(f"Run and score them alike; or, if you know why it does not matter, add {flags}.")
    return "\n".join(lines)


def _and(refused: Sequence[FieldDifference]) -> str:
    names = [one.field for one in refused]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _labels(keys: Sequence[object]) -> list[int]:
    """Numbers from 0 by first appearance."""
    numbers: dict[object, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]
