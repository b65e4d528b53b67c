"""From resolved trials to the numbers of a scorecard, through ``scoring``. Knows no files and no truths."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import scoring
from diagnose_bench.grading_trials import GradedTrial
from diagnose_bench.outcome import Profile

MEASURES = ("precision_at_full_recall", "ranked_precision_at_full_recall", "precision", "recall", "f1")


@dataclass(frozen=True)
class Grid:
    """Scores of one profile; arrays have shape (n_scenarios, n_repeats)."""

    measures: Mapping[str, NDArray[np.float64]]
    n_correct: NDArray[np.int64]
    n_wrong: NDArray[np.int64]
    is_scored: NDArray[np.bool_]
    split_of: NDArray[np.int64] | None

    @property
    def complete(self) -> bool:
        """Whether every planned trial has a score."""
        return bool(self.is_scored.all())

    @property
    def scores(self) -> NDArray[np.float64]:
        """The headline measure of each trial; 0 where it is unscored."""
        return self.measures["precision_at_full_recall"]

    def suite(self) -> scoring.SuiteMean:
        """Mean over scenarios, or of the split means."""
        return scoring.suite_mean(scoring.scenario_means(self.scores), self.split_of)

    def number(self) -> float | None:
        """The suite's number, or None while a trial is unscored."""
        return self.suite().mean if self.complete else None

    def bounds(self) -> tuple[float, float] | None:
        """The suite's number with unscored trials as 0 and as 1, or None where all are scored."""
        return None if self.complete else scoring.suite_bounds(self.scores, self.is_scored, self.split_of)

    def scenario_score(self, index: int) -> float | None:
        """Mean over the repeats of one scenario, or None while one is unscored."""
        return self._means[index] if self._is_complete[index] else None

    @cached_property
    def _is_complete(self) -> list[bool]:
        return [bool(row.all()) for row in self.is_scored]

    @cached_property
    def _means(self) -> list[float]:
        return [float(one) for one in scoring.scenario_means(self.scores).tolist()]

    @cached_property
    def _spreads(self) -> list[float | None]:
        return [number_or_none(one) for one in scoring.repeat_spread(self.scores).tolist()]

    def scenario_bounds(self, index: int) -> tuple[float, float] | None:
        """Bounds of one scenario's score, or None where all its trials are scored."""
        rows = slice(index, index + 1)
        if self._is_complete[index]:
            return None
        return scoring.suite_bounds(self.scores[rows], self.is_scored[rows])

    def spread(self, index: int) -> float | None:
        """Sample standard deviation over the repeats of one scenario, or None where there is none."""
        return self._spreads[index] if self._is_complete[index] else None

    @property
    def has_full_recall(self) -> NDArray[np.bool_]:
        """Whether each trial named every root cause."""
        return np.asarray(self.scores > 0)

    @property
    def is_exact(self) -> NDArray[np.bool_]:
        """Whether each trial named every root cause and nothing else."""
        return np.asarray(self.scores == 1)

    def metric_tables(self) -> dict[str, NDArray[np.float64]]:
        """The measures that stand beside the headline, trial by trial."""
        rates = {"full_recall_rate": self.has_full_recall, "exact_rate": self.is_exact}
        plain = {name: self.measures[name] for name in MEASURES[1:]}
        return {name: np.asarray(array, dtype=np.float64) for name, array in (rates | plain).items()}

    def metrics(self) -> dict[str, float | None]:
        """Their plain means over all trials."""
        tables = self.metric_tables()
        if not self.complete:
            return dict.fromkeys(tables)
        return {name: float(np.mean(table)) for name, table in tables.items()}


def score_grid(
    rows: Sequence[Sequence[GradedTrial]],
    n_root_causes: Sequence[int],
    split_of: Sequence[int] | None,
    profile: Profile,
) -> Grid:
    """Score every trial of a run under one profile.

    Parameters
    ----------
    rows : sequence of sequences of GradedTrial
        One row per scenario, one entry per repeat.
    n_root_causes : sequence of int
        Per scenario; anything where the truth is refused, since its trials are unscored.
    split_of : sequence of int, optional
        Label of each scenario's split.
    profile : Profile
        Which resolution counts.
    """
    trials = [trial for row in rows for trial in row]
    codes = [trial.resolved[profile].codes if profile in trial.resolved else () for trial in trials]
    n_repeats = len(rows[0])
    scores = scoring.score_trials(
        scoring.TrialBatch(
            codes=np.fromiter((code for one in codes for code in one), dtype=np.int64),
            offsets=np.cumsum([0, *map(len, codes)], dtype=np.int64),
            n_root_causes=np.repeat(np.asarray(n_root_causes, dtype=np.int64), n_repeats),
            has_diagnosis=np.fromiter((profile in trial.resolved for trial in trials), dtype=np.bool_),
        )
    )
    shape = (len(rows), n_repeats)
    return Grid(
        measures={name: getattr(scores, name).reshape(shape) for name in MEASURES},
        n_correct=scores.counts.n_correct.reshape(shape),
        n_wrong=scores.counts.n_wrong.reshape(shape),
        is_scored=np.array([trial.is_scored for trial in trials], dtype=np.bool_).reshape(shape),
        split_of=None if split_of is None else np.asarray(split_of, dtype=np.int64),
    )


def number_or_none(value: Any) -> float | None:
    """A float for JSON: null where there is no number."""
    number = float(value)
    return number if math.isfinite(number) else None
