"""How many scenarios and repeats a wanted difference of two agents needs, on the same scenarios."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from scoring import _checks
from scoring._special import normal_quantile, t_quantile
from scoring._units import SAME, check_level
from scoring.errors import ScoringError
from scoring.intervals import Interval
from scoring.variance import repeat_variance

MAX_SCENARIOS = 10_000_000
"""More than anyone can run; a plan beyond it has no number."""

MAX_REPEATS = 1_000
"""Largest number of repeats that a plan proposes."""


@dataclass(frozen=True)
class Components:
    """Variances of the difference of two agents on one scenario.

    Parameters
    ----------
    interaction : float
        Variance over scenarios of the expected difference: agents differ more on some scenarios than on
        others. No number of repeats removes it.
    repeat : float
        Variance of the difference of one trial of each agent on one scenario: the sum of both agents'.
    """

    interaction: float
    repeat: float

    def __post_init__(self) -> None:
        for name, value in (("interaction", self.interaction), ("repeat", self.repeat)):
            if not 0.0 <= value < math.inf:
                raise ScoringError(f"the variance {name} must be a number from 0 up, not {value}.")

    def of_difference(self, n_repeats: int) -> float:
        """Variance over scenarios of the difference of two scenario means."""
        return self.interaction + self.repeat / n_repeats


@dataclass(frozen=True)
class EstimatedComponents:
    """Components from two runs, and how well they are known."""

    components: Components
    """With an interaction estimated below 0 taken as 0."""
    interaction: Interval
    """Variance, untruncated; jackknife over scenarios."""
    interaction_sd: Interval
    """Its root, cut at 0."""


def estimate_components(baseline: Any, candidate: Any, *, level: float = 0.95) -> EstimatedComponents:
    """Components of a paired comparison, from the trials of two runs.

    Parameters
    ----------
    baseline, candidate : array_like, shape (n_scenarios, n_repeats)
        Fractions in [0, 1]: the same scenarios in the same order; at least three scenarios and two repeats.
        Numbers of repeats may differ between the two.

    Notes
    -----
    ``interaction = var(d) - (MSW_a / R_a + MSW_b / R_b)`` with d the differences of scenario means. With few
    scenarios its interval is wide, and so is every plan that rests on it.
    """
    tables = [_checks.fractions(v, n, 2) for v, n in ((baseline, "baseline"), (candidate, "candidate"))]
    n = tables[0].shape[0]
    if tables[1].shape[0] != n:
        raise ScoringError(f"baseline has {n} scenarios, candidate {tables[1].shape[0]}: pair them first.")
    if n < 3 or min(table.shape[1] for table in tables) < 2:
        raise ScoringError("variance components need at least three scenarios and two repeats.")
    check_level(level)
    within = [table.var(axis=1, ddof=1) for table in tables]
    noise = sum(own / table.shape[1] for own, table in zip(within, tables, strict=True))
    differences = tables[1].mean(axis=1) - tables[0].mean(axis=1)
    estimate = float(differences.var(ddof=1) - np.mean(noise))
    # Closed form of leaving one scenario out.
    squares = (differences - differences.mean()) ** 2
    variance_left = (squares.sum() - squares * n / (n - 1)) / (n - 2)
    left_out = variance_left - (np.sum(noise) - noise) / (n - 1)
    error = math.sqrt((n - 1) / n * float(((left_out - left_out.mean()) ** 2).sum()))
    reach = t_quantile(0.5 + 0.5 * level, n - 1) * error if error > SAME else math.nan
    ends = (estimate, estimate - reach, estimate + reach)

    def interval(numbers: tuple[float, ...], estimand: str) -> Interval:
        line = "ANOVA of paired differences, jackknife over scenarios"
        return Interval(numbers[0], numbers[1], numbers[2], level, line, estimand, "scenario", n)

    return EstimatedComponents(
        components=Components(
            interaction=max(0.0, estimate), repeat=float(sum(np.mean(own) for own in within))
        ),
        interaction=interval(ends, "variance over scenarios of the expected difference"),
        interaction_sd=interval(
            tuple(math.sqrt(max(0.0, end)) if not math.isnan(end) else math.nan for end in ends),
            "standard deviation over scenarios of the expected difference",
        ),
    )


def components_of_one_run(scores: Any, interaction_sd: float) -> Components:
    """Components for two agents like one: its repeat variance twice, and a stated interaction.

    Parameters
    ----------
    scores : array_like, shape (n_scenarios, n_repeats)
        Fractions in [0, 1]; at least two repeats.
    interaction_sd : float
        Standard deviation over scenarios of the expected difference; one run cannot tell it.
    """
    within = repeat_variance(scores).within.estimate
    if math.isnan(within):
        raise ScoringError("one repeat does not tell the variance between repeats.")
    return Components(interaction=interaction_sd**2, repeat=2.0 * within)


def minimum_detectable(
    components: Components, n_scenarios: int, n_repeats: int, *, level: float = 0.95, power: float = 0.8
) -> float:
    """Smallest true difference that the paired t test calls with the given power.

    Notes
    -----
    ``(t_(1 - alpha/2) + t_power) * sqrt((interaction + repeat / R) / n)`` with n - 1 degrees of freedom.
    """
    _check_design(level, power, n_repeats)
    if n_scenarios < 2:
        raise ScoringError("a paired comparison needs at least two scenarios.")
    factor = t_quantile(0.5 + 0.5 * level, n_scenarios - 1) + t_quantile(power, n_scenarios - 1)
    return factor * math.sqrt(components.of_difference(n_repeats) / n_scenarios)


def scenarios_needed(
    components: Components, difference: float, n_repeats: int, *, level: float = 0.95, power: float = 0.8
) -> int:
    """Fewest scenarios whose `minimum_detectable` is at most the wanted difference.

    Notes
    -----
    ``n = (z_(1 - alpha/2) + z_power)^2 (interaction + repeat / R) / d^2``, raised until t agrees.
    """
    _check_design(level, power, n_repeats)
    if not 0.0 < difference <= 1.0:
        raise ScoringError(f"the wanted difference must lie in (0, 1], not {difference}.")
    factor = normal_quantile(0.5 + 0.5 * level) + normal_quantile(power)
    n = factor**2 * components.of_difference(n_repeats) / difference**2
    if n > MAX_SCENARIOS:
        raise ScoringError(f"more than {MAX_SCENARIOS} scenarios would be needed.")
    # t needs a few more than the normal law, never fewer; each step is one scenario, and there are few.
    count = max(2, math.ceil(n))
    while minimum_detectable(components, count, n_repeats, level=level, power=power) > difference:
        count += 1
    return count


@dataclass(frozen=True)
class PlanRow:
    """One way to see a difference; trials and costs are per agent."""

    n_repeats: int
    n_scenarios: int
    n_trials: int
    cost: float


def best_plan(
    components: Components,
    difference: float,
    *,
    scenario_cost: float,
    trial_cost: float,
    level: float = 0.95,
    power: float = 0.8,
) -> PlanRow:
    """Cheapest number of repeats, with the scenarios it needs.

    Parameters
    ----------
    scenario_cost : float
        Of one more scenario, without its trials.
    trial_cost : float
        Of one more trial, in the same currency; positive.

    Notes
    -----
    About ``sqrt(repeat / interaction) * sqrt(scenario_cost / trial_cost)`` repeats; whole numbers around it
    are priced. Without interaction, repeats and scenarios do the same, and `MAX_REPEATS` bounds the former.
    """
    if not (scenario_cost >= 0.0 and trial_cost > 0.0):
        raise ScoringError("costs must not be negative, and a trial must cost something.")
    ratio = math.inf if components.interaction == 0.0 else components.repeat / components.interaction
    ideal = math.sqrt(ratio) * math.sqrt(scenario_cost / trial_cost) if scenario_cost > 0.0 else 1.0
    middle = round(min(max(ideal, 1.0), MAX_REPEATS))
    candidates = range(max(1, middle - 2), min(MAX_REPEATS, middle + 2) + 1)
    rows = [
        plan_row(
            components,
            difference,
            n_repeats,
            scenario_cost=scenario_cost,
            trial_cost=trial_cost,
            level=level,
            power=power,
        )
        for n_repeats in candidates
    ]
    return min(rows, key=lambda row: (row.cost, row.n_repeats))


def plan_row(
    components: Components,
    difference: float,
    n_repeats: int,
    *,
    scenario_cost: float,
    trial_cost: float,
    level: float = 0.95,
    power: float = 0.8,
) -> PlanRow:
    """Scenarios, trials and cost for a given number of repeats."""
    n = scenarios_needed(components, difference, n_repeats, level=level, power=power)
    return PlanRow(n_repeats, n, n * n_repeats, n * (scenario_cost + n_repeats * trial_cost))


def _check_design(level: float, power: float, n_repeats: int) -> None:
    check_level(level)
    if not 0.5 <= power < 1.0:
        raise ScoringError(f"power must lie in [0.5, 1), not {power}.")
    if n_repeats < 1:
        raise ScoringError(f"n_repeats must be at least 1, not {n_repeats}.")
