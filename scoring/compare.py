"""Is one agent better than another on the same scenarios? Paired by scenario, never trial by trial."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations
from typing import Any

import numpy as np

from scoring import _checks
from scoring._checks import BoolArray, FloatArray, IntArray
from scoring._special import t_quantile
from scoring._units import SAME, Design, check_level, design
from scoring.errors import ScoringError
from scoring.flips import FlipTest, max_t_p_values, random_flip_p_values, sign_flip_test
from scoring.half_atom import half_atom_law
from scoring.intervals import (
    FALLBACK_LINE,
    LINES,
    Interval,
    Method,
    combined,
    ends_of,
    has_spread,
    mean_error,
    mean_interval,
    t_ends,
)


@dataclass(frozen=True)
class PairedDifference:
    """Suite mean of a candidate minus that of a baseline, on the same scenarios."""

    interval: Interval
    test: FlipTest
    minimum_detectable: float
    """True difference that this design would call with the stated power; NaN where no spread shows it."""
    power: float

    @property
    def p_value(self) -> float:
        """Two-sided sign-flip p-value."""
        return self.test.p_value


class Decision(StrEnum):
    """What a comparison can say."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    NOT_WORSE = "not worse"
    """No difference is shown, and a loss as large as the margin is ruled out."""
    UNDECIDED = "not decidable"


def paired_difference(
    baseline: Any,
    candidate: Any,
    *,
    split_of: Any = None,
    family_of: Any = None,
    level: float = 0.95,
    power: float = 0.8,
    rng: np.random.Generator | None = None,
    n_resamples: int = 10_000,
) -> PairedDifference:
    """Difference of two agents, candidate minus baseline.

    Parameters
    ----------
    baseline, candidate : array_like, shape (n_scenarios,)
        Fractions in [0, 1]: mean over the repeats of each scenario, the same scenarios in the same order.
    split_of, family_of, level
        As for `mean_interval`.
    power : float
        For the minimum detectable difference.
    rng : numpy.random.Generator, optional
        Needed when more than 20 units differ: the signs are drawn then.
    n_resamples : int
        Random sign patterns.

    Notes
    -----
    Paired t on what each unit adds. Where the differences of a split all tie (often at 0), t would give a
    point; its half-atom interval on [-1, 1] is taken for every split instead.
    """
    before, after = (
        _checks.fractions(v, n, 1) for v, n in ((baseline, "baseline"), (candidate, "candidate"))
    )
    if before.size != after.size:
        raise ScoringError(f"baseline has {before.size} scenarios, candidate {after.size}: pair them first.")
    check_level(level)
    _check_power(power)
    plan = design(before.size, split_of, family_of)
    differences = after - before
    line = f"paired: {LINES[Method.T]}"
    if has_spread(differences, plan):
        ends = t_ends(differences, plan, level)
        _, error, df = mean_error(differences, plan)
        detectable = (t_quantile(0.5 + 0.5 * level, df) + t_quantile(power, df)) * error
    else:
        ends = combined(
            [
                ends_of(half_atom_law(s.values, s.sizes, -1.0, 1.0), s.mean, level)
                for s in plan.samples(differences)
            ],
            plan,
        )
        line += f"; {FALLBACK_LINE}, on [-1, 1]"
        detectable = math.nan
    if plan.n_splits > 1:
        line += f"; mean of {plan.n_splits} splits"
    return PairedDifference(
        interval=Interval(
            estimate=ends.estimate,
            low=max(-1.0, ends.low),
            high=min(1.0, ends.high),
            level=level,
            method=line,
            estimand="difference of mean scores over scenarios like these, candidate minus baseline",
            unit=plan.unit,
            n_units=plan.n_units,
        ),
        test=sign_flip_test(_by_unit(differences, plan), rng, n_resamples),
        minimum_detectable=detectable,
        power=power,
    )


def decide(difference: PairedDifference, margin: float, p_value: float | None = None) -> Decision:
    """What the comparison shows.

    Parameters
    ----------
    difference : PairedDifference
        Of candidate minus baseline.
    margin : float
        Largest loss that would not matter, for ``NOT_WORSE``.
    p_value : float, optional
        Adjusted p-value, when several comparisons are read together.
    """
    if not margin > 0.0:
        raise ScoringError(f"margin must be positive, not {margin}.")
    interval = difference.interval
    if (difference.p_value if p_value is None else p_value) <= 1.0 - interval.level:
        return Decision.REGRESSION if interval.estimate < 0.0 else Decision.IMPROVEMENT
    return Decision.NOT_WORSE if interval.low > -margin else Decision.UNDECIDED


def holm(p_values: Any) -> FloatArray:
    """p-values adjusted by Holm for a family of comparisons, such as all agents against one baseline.

    Parameters
    ----------
    p_values : array_like, shape (n_comparisons,)
        In [0, 1].
    """
    array = _checks.fractions(p_values, "p_values", 1)
    order = np.argsort(array, kind="stable")
    adjusted = np.empty(array.size)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(array[order] * np.arange(array.size, 0, -1)))
    return adjusted


@dataclass(frozen=True, eq=False)
class AllPairs:
    """Every pair of agents, read together."""

    means: FloatArray
    """Shape (n_agents,): suite means."""
    pairs: IntArray
    """Shape (n_pairs, 2): indices of the agents."""
    differences: FloatArray
    """Shape (n_pairs,): mean of the first minus mean of the second."""
    p_values: FloatArray
    """Shape (n_pairs,): sign-flip p-values adjusted over all pairs by step-down max-T."""
    is_separable: BoolArray
    """Shape (n_agents, n_agents): whether the adjusted p-value of a pair is at most 1 - level."""
    groups: tuple[tuple[int, ...], ...]
    """Agents that cannot be told apart, best group first; an agent may stand in several groups."""


def all_pairs(
    scenario_scores: Any,
    rng: np.random.Generator,
    *,
    split_of: Any = None,
    family_of: Any = None,
    level: float = 0.95,
    n_resamples: int = 10_000,
) -> AllPairs:
    """Compare every pair of agents on the same scenarios.

    Parameters
    ----------
    scenario_scores : array_like, shape (n_agents, n_scenarios)
        Fractions in [0, 1]; at least two agents.
    rng : numpy.random.Generator
        Draws the signs.
    """
    scores = _checks.fractions(scenario_scores, "scenario_scores", 2)
    n_agents, n_scenarios = scores.shape
    if n_agents < 2:
        raise ScoringError("comparing needs at least two agents.")
    check_level(level)
    plan = design(n_scenarios, split_of, family_of)
    pairs = np.array(list(combinations(range(n_agents), 2)), dtype=np.int64)
    parts = np.stack([_by_unit(row, plan) for row in scores])
    means = parts.sum(axis=1)
    differences = np.ascontiguousarray((parts[pairs[:, 0]] - parts[pairs[:, 1]]).T)
    p_values = max_t_p_values(differences, rng, n_resamples)
    separable = np.zeros((n_agents, n_agents), dtype=np.bool_)
    separable[pairs[:, 0], pairs[:, 1]] = p_values <= 1.0 - level
    separable |= separable.T
    return AllPairs(
        means=means,
        pairs=pairs,
        differences=differences.sum(axis=0),
        p_values=p_values,
        is_separable=separable,
        groups=groups_not_separable(means, separable),
    )


def groups_not_separable(means: Any, is_separable: Any) -> tuple[tuple[int, ...], ...]:
    """Longest runs of agents, by falling mean, in which no pair can be told apart.

    Parameters
    ----------
    means : array_like, shape (n_agents,)
        Suite means.
    is_separable : array_like of bool, shape (n_agents, n_agents)
        Which pairs can be told apart; symmetric.

    Notes
    -----
    Agents that share no group are told apart, or an agent between them is told apart from one of them.
    """
    values = np.asarray(means, dtype=np.float64)
    apart = np.asarray(is_separable, dtype=np.bool_)
    order = np.argsort(-values, kind="stable")
    groups: list[tuple[int, ...]] = []
    last_end = 0
    for start in range(order.size):
        end = start + 1
        while end < order.size and not bool(apart[order[end], order[start:end]].any()):
            end += 1
        # A run that ends where the one before ended is a part of it.
        if end > last_end:
            groups.append(tuple(int(agent) for agent in order[start:end]))
            last_end = end
    return tuple(groups)


@dataclass(frozen=True)
class FalseAlarms:
    """How often the rule calls a difference between two halves of one run."""

    rate: Interval
    """Its interval holds only the error of the draws: all of them share one run."""
    n_repeats_each: int


def ab_test(
    scores: Any,
    rng: np.random.Generator,
    *,
    split_of: Any = None,
    family_of: Any = None,
    level: float = 0.95,
    n_draws: int = 1_000,
    n_resamples: int = 2_000,
) -> FalseAlarms:
    """Split the repeats of one run at random into two runs and compare those, many times.

    Parameters
    ----------
    scores : array_like, shape (n_scenarios, n_repeats)
        Fractions in [0, 1]; at least two repeats. Of an odd number, one is left out in each draw.
    rng : numpy.random.Generator
        Draws the halves, and the signs (the same for all draws).
    level : float
        Of the rule: it calls a difference at a sign-flip p-value of at most 1 - level.
    n_draws, n_resamples : int
        Random halvings; random sign patterns.
    """
    table = _checks.fractions(scores, "scores", 2)
    half = table.shape[1] // 2
    if half == 0:
        raise ScoringError("one repeat cannot be split in two.")
    if n_draws < 1:
        raise ScoringError(f"n_draws must be at least 1, not {n_draws}.")
    check_level(level)
    plan = design(table.shape[0], split_of, family_of)
    columns = np.empty((plan.n_units, n_draws))
    for draw in range(n_draws):
        shuffled = rng.permuted(table, axis=1)
        gained = shuffled[:, :half].mean(axis=1) - shuffled[:, half : 2 * half].mean(axis=1)
        columns[:, draw] = _by_unit(gained, plan)
    called = random_flip_p_values(columns, rng, n_resamples) <= 1.0 - level
    return FalseAlarms(
        rate=replace(
            mean_interval(
                called.astype(np.float64),
                level=level,
                estimand="rate of called differences between halves of this run",
            ),
            unit="random halving",
        ),
        n_repeats_each=half,
    )


def _by_unit(values: FloatArray, plan: Design) -> FloatArray:
    """What each unit adds to the suite mean; the sum is the suite mean."""
    parts = plan.by_unit(plan.shares * values)
    # Rounding must not make a difference of nothing: it would count as a unit that changed.
    return np.where(np.abs(parts) <= SAME * plan.shares.max(), 0.0, parts)


def _check_power(power: float) -> None:
    if not 0.0 < power < 1.0:
        raise ScoringError(f"power must lie between 0 and 1, not {power}.")
