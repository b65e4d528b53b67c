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
from scoring._anova import LeftOut, Parts, f_ends, jackknife_error, log_jackknife
from scoring._checks import BoolArray, FloatArray
from scoring._special import t_quantile
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
    ``ICC(1) = (MSB - MSW) / (MSB + (n0 - 1) MSW)`` and ``ICC(k) = 1 - MSW / MSB``. Their interval is that of
    Shrout and Fleiss (1979) by the F law, widened to the jackknife of log F over scenarios: scores are not
    normal, and F alone covers far too rarely. ``between`` has the jackknife interval, widened to MOVER of
    both mean squares. ``within`` and ``rerun`` have half-atom intervals between 0 and the largest variance
    that scores in [0, 1] can have.
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
    parts = Parts(counts.astype(np.float64), means, squares)

    def interval(ends: tuple[float, float, float], method: str, estimand: str, n_units: int = n) -> Interval:
        return Interval(*ends, level, method, estimand, "scenario", n_units)

    within = _within(parts, counts, level)
    weights = plan.shares
    spread = LeftOut.of(parts)
    repeated = int((counts > 1).sum())
    return RepeatVariance(
        between=interval(
            _between(parts, spread, within, level),
            "ANOVA, jackknife widened to MOVER",
            "variance of expected scenario scores",
        ),
        within=interval(
            within, "ANOVA, half-atom interval of bounded variances", "variance between repeats", repeated
        ),
        icc_1=interval(
            _icc(parts, spread, within, level, of_mean=False),
            "ANOVA, F interval widened to the jackknife",
            "ICC(1): share of one trial",
        ),
        icc_k=interval(
            _icc(parts, spread, within, level, of_mean=True),
            "ANOVA, F interval widened to the jackknife",
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


def _within(parts: Parts, counts: Any, level: float) -> tuple[float, float, float]:
    repeated = counts > 1
    if not bool(repeated.any()):
        return math.nan, math.nan, math.nan
    df = parts.counts[repeated] - 1.0
    bound = max(largest_variance(int(count)) for count in np.unique(counts[repeated]))
    law = half_atom_law(parts.squares[repeated] / df, df / df.mean(), 0.0, bound)
    tail = 0.5 * (1.0 - level)
    # An agent whose repeats never differ may be deterministic: 0 is not ruled out.
    low = law.quantile(tail) if parts.within > 0.0 else 0.0
    return parts.within, low, law.quantile(1.0 - tail)


def _between(
    parts: Parts, spread: LeftOut | None, within: tuple[float, float, float], level: float
) -> tuple[float, float, float]:
    """Estimate and ends; no ends where the scenario means do not differ, or nothing can be left out."""
    estimate = parts.between
    square = parts.mean_square_between
    if spread is None or math.isnan(estimate) or square == 0.0:
        return estimate, math.nan, math.nan
    left_out = (spread.mean_squares - spread.within) / spread.counts
    reach = t_quantile(0.5 + 0.5 * level, parts.n - 1) * jackknife_error(left_out)
    low, high = log_jackknife(square, spread.mean_squares, level)
    if high - low <= SAME:
        # Every scenario weighs the same (half of them 0, half of them 1): the jackknife is blind, F is not.
        low, high = f_ends(square, parts.n - 1, parts.df_within, level)
    below = math.hypot(square - low, within[2] - within[0]) / parts.typical_count
    above = math.hypot(high - square, within[0] - within[1]) / parts.typical_count
    # No variance of numbers in [0, 1] is beyond 1/4.
    return estimate, estimate - max(reach, below), min(max(estimate, 0.25), estimate + max(reach, above))


def _icc(
    parts: Parts,
    spread: LeftOut | None,
    within: tuple[float, float, float],
    level: float,
    *,
    of_mean: bool,
) -> tuple[float, float, float]:
    """Estimate and ends of an ICC; 0/0 and one repeat are NaN.

    Notes
    -----
    When no repeat ever differed, F is infinite and its interval would be the point 1: the low end then takes
    the largest repeat variance that the data allow. When all scenario means are equal there is no interval.
    """
    between, k = parts.mean_square_between, parts.typical_count

    def icc(ratio: float) -> float:
        return 1.0 - 1.0 / ratio if of_mean else (ratio - 1.0) / (ratio + k - 1.0)

    if math.isnan(between) or math.isnan(within[0]) or (between == 0.0 and within[0] == 0.0):
        return math.nan, math.nan, math.nan
    if within[0] == 0.0:
        return 1.0, icc(between / within[2]), 1.0
    ratio = between / within[0]
    if ratio == 0.0:
        return (math.nan if of_mean else icc(ratio)), math.nan, math.nan
    low, high = f_ends(ratio, parts.n - 1, parts.df_within, level)
    if spread is not None and bool(np.all(spread.within > 0.0)) and bool(np.all(spread.mean_squares > 0.0)):
        wide = log_jackknife(ratio, spread.mean_squares / spread.within, level)
        low, high = min(low, wide[0]), max(high, wide[1])
    return icc(ratio), icc(low), icc(high)


def _rerun(
    parts: Parts, within: tuple[float, float, float], shares: FloatArray
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
