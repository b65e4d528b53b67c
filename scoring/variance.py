"""Variance between scenarios and between repeats of a scenario, and what share of a score is luck.

Two standard errors are kept apart: `generalise` (other scenarios like these) and `rerun` (these scenarios
again). NaN where there is no number, never 0 for unknown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from scoring import _checks
from scoring._checks import BoolArray, FloatArray
from scoring._special import f_quantile, t_quantile
from scoring._units import SAME, check_level, design
from scoring.errors import ScoringError
from scoring.half_atom import half_atom_law
from scoring.intervals import Interval, has_spread, mean_error


@dataclass(frozen=True)
class RepeatVariance:
    """Where the spread of trial scores comes from."""

    between: Interval
    """Variance of the scenarios' expected scores, untruncated: below 0 where repeats explain everything."""
    within: Interval
    """Variance of a score between repeats of one scenario, pooled over scenarios."""
    icc_1: Interval
    """Share of the variance of one trial that the choice of the scenario explains, untruncated."""
    icc_k: Interval
    """The same for the mean over the repeats."""
    generalise: float
    """Standard error of the suite mean for other scenarios like these; NaN without spread to estimate it."""
    rerun: Interval
    """Standard error of the suite mean for these scenarios run again; NaN for one repeat."""
    n_scenarios: int
    n_trials: int
    n_repeats: float
    """Repeats per scenario; n0 = (N - sum r^2 / N) / (n - 1) where they differ."""


def repeat_variance(
    scores: Any,
    is_planned: Any = None,
    *,
    split_of: Any = None,
    family_of: Any = None,
    level: float = 0.95,
) -> RepeatVariance:
    """Variance components of a run by one-way analysis of variance.

    Parameters
    ----------
    scores : array_like, shape (n_scenarios, n_repeats)
        Fractions in [0, 1].
    is_planned : array_like of bool, shape (n_scenarios, n_repeats), optional
        False where no trial was planned (repeats may differ by scenario); a failed trial is a score of 0, not
        an unplanned one. Every scenario has a trial.
    split_of, family_of
        As for `mean_interval`; they concern only the two standard errors.
    level : float
        Of each interval.

    Notes
    -----
    ``ICC(1) = (MSB - MSW) / (MSB + (n0 - 1) MSW)`` and ``ICC(k) = 1 - MSW / MSB`` with the F intervals of
    Shrout and Fleiss (1979). ``within`` and ``rerun`` have half-atom intervals between 0 and the largest
    variance that scores in [0, 1] can have; ``between`` has a jackknife interval over scenarios.
    The ICC depends on how much scenarios differ in difficulty: never compare it across suites.
    """
    table, planned = _table(scores, is_planned)
    check_level(level)
    n = table.shape[0]
    plan = design(n, split_of, family_of)
    counts = planned.sum(axis=1)
    means = table.sum(axis=1) / counts
    squares = np.where(planned, (table - means[:, None]) ** 2, 0.0).sum(axis=1)
    # Equal repeats have no variance at all: no rounding error of their mean may say otherwise.
    spans = np.where(planned, table, -np.inf).max(axis=1) - np.where(planned, table, np.inf).min(axis=1)
    squares[spans == 0.0] = 0.0
    parts = _Parts(counts.astype(np.float64), means, squares)

    def interval(ends: tuple[float, float, float], method: str, estimand: str, n_units: int = n) -> Interval:
        return Interval(*ends, level, method, estimand, "scenario", n_units)

    within = _within(parts, counts, level)
    weights = plan.shares
    repeated = int((counts > 1).sum())
    return RepeatVariance(
        between=interval(
            _between(parts, level), "ANOVA, jackknife over scenarios", "variance of expected scenario scores"
        ),
        within=interval(
            within, "ANOVA, half-atom interval of bounded variances", "variance between repeats", repeated
        ),
        icc_1=interval(
            _icc(parts, within[2], level, of_mean=False), "ANOVA, F interval", "ICC(1): share of one trial"
        ),
        icc_k=interval(
            _icc(parts, within[2], level, of_mean=True),
            "ANOVA, F interval",
            "ICC(k): share of a scenario mean",
        ),
        generalise=mean_error(means, plan)[1] if has_spread(means, plan) else math.nan,
        rerun=interval(
            _rerun(parts, within, weights),
            "root of the mean variance of scenario means",
            "standard error of the mean of these scenarios run again",
            repeated,
        ),
        n_scenarios=n,
        n_trials=int(counts.sum()),
        n_repeats=parts.typical_count,
    )


@dataclass(frozen=True, eq=False)
class _Parts:
    """Sufficient statistics of the analysis of variance, each of shape (n_scenarios,)."""

    counts: FloatArray
    means: FloatArray
    squares: FloatArray
    """Sum of squares within each scenario."""

    @property
    def n(self) -> int:
        return self.counts.size

    @property
    def df_within(self) -> float:
        return float(self.counts.sum()) - self.n

    @property
    def typical_count(self) -> float:
        if self.n == 1:
            return float(self.counts[0])
        total = float(self.counts.sum())
        return (total - float((self.counts**2).sum()) / total) / (self.n - 1)

    @property
    def within(self) -> float:
        return float(self.squares.sum()) / self.df_within if self.df_within else math.nan

    @property
    def mean_square_between(self) -> float:
        if self.n == 1:
            return math.nan
        if float(np.ptp(self.means)) <= SAME:
            return 0.0
        centre = float(self.counts @ self.means) / float(self.counts.sum())
        return float(self.counts @ (self.means - centre) ** 2) / (self.n - 1)

    @property
    def between(self) -> float:
        return (self.mean_square_between - self.within) / self.typical_count

    def between_without_each(self) -> FloatArray:
        """Shape (n_scenarios,): `between` with one scenario left out; needs three scenarios."""
        n, counts = self.n - 1, self.counts
        total = counts.sum() - counts
        # Around the common mean, so that the differences of squares keep their digits.
        shifted = self.means - float(counts @ self.means) / float(counts.sum())
        sums = float(counts @ shifted) - counts * shifted
        squares = float(counts @ shifted**2) - counts * shifted**2
        between = (squares - sums**2 / total) / (n - 1)
        within = (self.squares.sum() - self.squares) / (total - n)
        typical = (total - ((counts**2).sum() - counts**2) / total) / (n - 1)
        return np.asarray((between - within) / typical)


def _table(scores: Any, is_planned: Any) -> tuple[FloatArray, BoolArray]:
    if is_planned is None:
        table = _checks.fractions(scores, "scores", 2)
        return table, np.ones(table.shape, dtype=np.bool_)
    planned = np.asarray(is_planned)
    if planned.dtype.kind != "b":
        raise ScoringError(f"is_planned must hold booleans, not {planned.dtype}.")
    array = np.asarray(scores, dtype=np.float64)
    if array.shape != planned.shape:
        raise ScoringError(f"is_planned must have the shape of scores, {array.shape}, not {planned.shape}.")
    table = _checks.fractions(np.where(planned, array, 0.0), "scores", 2)
    if not bool(planned.any(axis=1).all()):
        raise ScoringError(f"scenario {int(np.argmin(planned.any(axis=1)))} has no planned trial.")
    return table, planned


def largest_variance(n_repeats: int) -> float:
    """Largest sample variance of n_repeats scores in [0, 1]: half of them 0, half of them 1."""
    ones = n_repeats // 2
    return ones * (n_repeats - ones) / (n_repeats * (n_repeats - 1))


def _within(parts: _Parts, counts: Any, level: float) -> tuple[float, float, float]:
    repeated = counts > 1
    if not bool(repeated.any()):
        return math.nan, math.nan, math.nan
    df = parts.counts[repeated] - 1.0
    bound = max(largest_variance(int(count)) for count in np.unique(counts[repeated]))
    law = half_atom_law(parts.squares[repeated] / df, df / df.mean(), 0.0, bound)
    tail = 0.5 * (1.0 - level)
    return parts.within, law.quantile(tail), law.quantile(1.0 - tail)


def _between(parts: _Parts, level: float) -> tuple[float, float, float]:
    estimate = parts.between
    # Leaving one out must leave two scenarios, and a repeat.
    if parts.n < 3 or math.isnan(estimate) or bool(np.any(parts.df_within - parts.counts + 1.0 == 0.0)):
        return estimate, math.nan, math.nan
    left_out = parts.between_without_each()
    error = math.sqrt((parts.n - 1) / parts.n * float(((left_out - left_out.mean()) ** 2).sum()))
    if error <= SAME:
        return estimate, math.nan, math.nan
    reach = t_quantile(0.5 + 0.5 * level, parts.n - 1) * error
    return estimate, estimate - reach, estimate + reach


def _icc(parts: _Parts, within_high: float, level: float, *, of_mean: bool) -> tuple[float, float, float]:
    """Estimate and ends of an ICC; 0/0 and one repeat are NaN.

    Notes
    -----
    When no repeat ever differed, F is infinite and its interval would be the point 1: the low end then takes
    the largest repeat variance that the data allow. When all scenario means are equal there is no interval.
    """
    between, within, k = parts.mean_square_between, parts.within, parts.typical_count

    def icc(ratio: float) -> float:
        if of_mean:
            return 1.0 - 1.0 / ratio if ratio > 0.0 else -math.inf
        return (ratio - 1.0) / (ratio + k - 1.0)

    if math.isnan(between) or math.isnan(within) or (between == 0.0 and within == 0.0):
        return math.nan, math.nan, math.nan
    if within == 0.0:
        return 1.0, icc(between / within_high), 1.0
    ratio = between / within
    estimate = icc(ratio)
    if ratio == 0.0:
        return (estimate if math.isfinite(estimate) else math.nan), math.nan, math.nan
    tail = 0.5 * (1.0 - level)
    df_between, df_within = parts.n - 1, parts.df_within
    low = ratio / f_quantile(1.0 - tail, df_between, df_within)
    high = ratio / f_quantile(tail, df_between, df_within)
    return estimate, icc(low), icc(high)


def _rerun(
    parts: _Parts, within: tuple[float, float, float], shares: FloatArray
) -> tuple[float, float, float]:
    """Standard error of the suite mean for the same scenarios; shares are their weights in it.

    Notes
    -----
    Each scenario's own variance is used; a scenario with one repeat has the pooled one.
    """
    if math.isnan(within[0]):
        return math.nan, math.nan, math.nan
    own = np.where(parts.counts > 1, parts.squares / np.maximum(parts.counts - 1.0, 1.0), within[0])
    squared = float(shares**2 @ (own / parts.counts))
    if squared == 0.0:
        scale, value = float(shares**2 @ (1.0 / parts.counts)), math.nan
    else:
        # The interval has the relative width of that of the pooled variance.
        scale, value = squared / within[0], math.sqrt(squared)
    return value, math.sqrt(scale * within[1]), math.sqrt(scale * within[2])
