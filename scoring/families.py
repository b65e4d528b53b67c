"""Scores by group of scenarios (fault family, subsystem, difficulty): what a pooled number hides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from scoring import _checks
from scoring._checks import FloatArray, IntArray
from scoring._special import t_quantile
from scoring._units import check_level, labels
from scoring.errors import ScoringError
from scoring.intervals import Interval, mean_interval


@dataclass(frozen=True)
class Prediction:
    """Where the mean of a group not seen yet may lie, by a random-effects model."""

    mean: float
    """Precision-weighted mean of the group means."""
    low: float
    high: float
    level: float
    between_sd: float
    """Estimated standard deviation of the groups' expected means; 0 where chance alone would do."""
    n_groups: int
    n_scenarios: int


def group_intervals(scenario_scores: Any, group_of: Any, *, level: float = 0.95) -> tuple[Interval, ...]:
    """Mean of each group with its half-atom interval, scenarios as units.

    Parameters
    ----------
    scenario_scores : array_like, shape (n_scenarios,)
        Fractions in [0, 1].
    group_of : array_like of int, shape (n_scenarios,)
        Group of each scenario, 0 .. n_groups - 1.
    """
    scores = _checks.fractions(scenario_scores, "scenario_scores", 1)
    groups = labels(group_of, "group_of", scores.size)
    return tuple(
        mean_interval(scores[groups == label], level=level, estimand="mean score over scenarios of the group")
        for label in range(int(groups.max()) + 1)
    )


def prediction_interval(
    values: Any, group_of: Any, *, level: float = 0.95, bounds: tuple[float, float] = (0.0, 1.0)
) -> Prediction | None:
    """Random-effects prediction interval for the mean of another group.

    Parameters
    ----------
    values : array_like, shape (n_scenarios,)
        Scores, or differences of two agents with ``bounds=(-1, 1)``.
    group_of : array_like of int, shape (n_scenarios,)
        Group of each scenario.
    level : float
        Chance that the expected mean of another group lies inside, if groups are normal around their mean.
    bounds : tuple of float
        The interval is cut to them.

    Returns
    -------
    prediction : Prediction or None
        None for fewer than three groups, or where no group has two scenarios that differ.

    Notes
    -----
    The scenarios' variance is pooled over groups, since most groups are small; the variance between groups is
    that of DerSimonian and Laird; t with n_groups - 2 degrees of freedom. Source: Higgins, Thompson and
    Spiegelhalter, "A re-evaluation of random-effects meta-analysis" (2009).
    """
    array, groups = _values(values, group_of, bounds)
    check_level(level)
    sizes = np.bincount(groups)
    k = sizes.size
    means = np.bincount(groups, weights=array) / sizes
    df = array.size - k
    spread = float(((array - means[groups]) ** 2).sum())
    if k < 3 or df == 0 or spread <= 1e-24:
        return None
    weights = sizes * df / spread
    centre = float(weights @ means) / float(weights.sum())
    heterogeneity = float(weights @ (means - centre) ** 2)
    scale = float(weights.sum()) - float(weights @ weights) / float(weights.sum())
    between = max(0.0, (heterogeneity - (k - 1)) / scale)
    weights = 1.0 / (1.0 / weights + between)
    centre = float(weights @ means) / float(weights.sum())
    reach = t_quantile(0.5 + 0.5 * level, k - 2) * math.sqrt(between + 1.0 / float(weights.sum()))
    return Prediction(
        mean=centre,
        low=max(bounds[0], centre - reach),
        high=min(bounds[1], centre + reach),
        level=level,
        between_sd=math.sqrt(between),
        n_groups=k,
        n_scenarios=array.size,
    )


def interaction_p_value(
    differences: Any, group_of: Any, rng: np.random.Generator, *, n_resamples: int = 10_000
) -> float:
    """Permutation p-value for "the difference of two agents is the same in every group".

    Parameters
    ----------
    differences : array_like, shape (n_scenarios,)
        Scenario means of one agent minus those of the other, in [-1, 1].
    group_of : array_like of int, shape (n_scenarios,)
        Group of each scenario; permuted against the differences.

    Notes
    -----
    The statistic is the sum of squares between groups; the p-value is (c + 1) / (n_resamples + 1): the
    observed arrangement is one of the possible ones, so it is never 0.
    """
    array, groups = _values(differences, group_of, (-1.0, 1.0))
    if n_resamples < 1:
        raise ScoringError(f"n_resamples must be at least 1, not {n_resamples}.")
    sizes = np.bincount(groups)

    def statistic(values: FloatArray) -> float:
        return float((np.bincount(groups, weights=values) ** 2 / sizes).sum())

    observed = statistic(array) * (1.0 - 1e-12)
    count = sum(statistic(rng.permutation(array)) >= observed for _ in range(n_resamples))
    return (count + 1) / (n_resamples + 1)


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Who would have been chosen without each group, and what that choice costs on it."""

    winner: IntArray
    """Shape (n_groups,): agent with the best mean over all other groups; the first one of a tie."""
    best: IntArray
    """Shape (n_groups,): agent with the best mean on the group itself; the first one of a tie."""
    regret: FloatArray
    """Shape (n_groups,): mean of the best agent on the group minus that of the winner."""


def leave_one_group_out(scenario_scores: Any, group_of: Any) -> LeaveOneOut:
    """Choose the winner on all groups but one, and score the choice on that one.

    Parameters
    ----------
    scenario_scores : array_like, shape (n_agents, n_scenarios)
        Fractions in [0, 1].
    group_of : array_like of int, shape (n_scenarios,)
        Group of each scenario; at least two groups.
    """
    scores = _checks.fractions(scenario_scores, "scenario_scores", 2)
    groups = labels(group_of, "group_of", scores.shape[1])
    n_groups = int(groups.max()) + 1
    if n_groups < 2:
        raise ScoringError("leaving one group out needs at least two groups.")
    inside = np.stack([scores[:, groups == label].mean(axis=1) for label in range(n_groups)])
    outside = np.stack([scores[:, groups != label].mean(axis=1) for label in range(n_groups)])
    winner, best = outside.argmax(axis=1), inside.argmax(axis=1)
    places = np.arange(n_groups)
    return LeaveOneOut(winner=winner, best=best, regret=inside[places, best] - inside[places, winner])


def _values(values: Any, group_of: Any, bounds: tuple[float, float]) -> tuple[FloatArray, IntArray]:
    low, high = bounds
    if not low < high:
        raise ScoringError(f"bounds must be two numbers in order, not {bounds}.")
    array = np.asarray(values, dtype=np.float64)
    # One check for both: scores and differences are fractions once they are scaled.
    _checks.fractions((array - low) / (high - low), "values", 1)
    return array, labels(group_of, "group_of", array.size)
