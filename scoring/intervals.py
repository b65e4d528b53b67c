"""Intervals for the mean score of a suite: one number per scenario in, two ends out. No files, no print.

The estimand of all of them is the mean over a population of scenarios of which those of the suite are a
sample. Repeats enter only through the scenario means: they are not independent of each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from scoring import _checks
from scoring._checks import FloatArray
from scoring._quantiles import quantiles
from scoring._special import t_quantile
from scoring._units import Design, UnitSample, check_level, design
from scoring.betting import betting_bounds
from scoring.errors import ScoringError
from scoring.half_atom import DirichletRatio, merged, score_law
from scoring.resampling import bootstrap_means


class Method(StrEnum):
    """How an interval is made; see docs/statistics.md for what each one covers."""

    HALF_ATOM = "half-atom"
    T = "t"
    STRICT = "strict"
    SEQUENTIAL = "sequential"
    BOOTSTRAP = "bootstrap"


@dataclass(frozen=True)
class Interval:
    """An estimate with its interval, and what they are about."""

    estimate: float
    low: float
    high: float
    level: float
    method: str
    """One line: how the ends were found, fallbacks included."""
    estimand: str
    unit: str
    """What was taken as independent: scenario or family."""
    n_units: int

    @property
    def half_width(self) -> float:
        """Half the distance between the ends."""
        return 0.5 * (self.high - self.low)


@dataclass(frozen=True)
class Ends:
    """Ends of the interval of one split."""

    estimate: float
    low: float
    high: float


LINES = {
    Method.HALF_ATOM: "Bayesian bootstrap with half an atom at each bound of the score, to which scores "
    "between them lend 1.5 / (n + 1) of their weight, exact quadrature",
    Method.T: "Student's t on unit means",
    Method.STRICT: "Dirichlet bound of Gaffke and Learned-Miller/Thomas, exact quadrature",
    Method.SEQUENTIAL: "betting confidence sequence, valid at every look",
    Method.BOOTSTRAP: "percentile bootstrap of units",
}
FALLBACK_LINE = "equal units or only one: half atom instead"


def mean_interval(
    scenario_scores: Any,
    *,
    split_of: Any = None,
    family_of: Any = None,
    level: float = 0.95,
    method: Method | str = Method.HALF_ATOM,
    rng: np.random.Generator | None = None,
    n_resamples: int = 10_000,
    estimand: str = "mean score over scenarios like these",
) -> Interval:
    """Interval for the suite mean, as `suite_mean` computes it.

    Parameters
    ----------
    scenario_scores : array_like, shape (n_scenarios,)
        Fractions in [0, 1], one per scenario: the mean over its planned repeats.
    split_of : array_like of int, shape (n_scenarios,), optional
        Split of each scenario, 0 .. n_splits - 1. The estimate is then the mean of the split means.
    family_of : array_like of int, shape (n_scenarios,), optional
        Family of each scenario, 0 .. n_families - 1. Families are then the independent units; the estimate
        stays the mean over scenarios.
    level : float
        Confidence level.
    method : Method
        ``half-atom`` (default), ``t``, ``strict``, ``sequential`` or ``bootstrap``.
    rng : numpy.random.Generator, optional
        Only ``bootstrap`` draws, and it must be given one.
    n_resamples : int
        Resamples of ``bootstrap``.
    estimand : str
        What the mean is about, carried through.

    Returns
    -------
    interval : Interval
        Never of zero width.

    Notes
    -----
    With splits, the ends of the splits are combined by MOVER (the method of variance estimates recovery):
    distances from the estimate add in squares, or plainly when a family has scenarios in several splits.
    ``strict`` and ``sequential`` divide the error among the splits instead and average the ends, to keep
    their guarantee; with families of different sizes they bound the mean over families.
    """
    scores = _checks.fractions(scenario_scores, "scenario_scores", 1)
    plan = design(scores.size, split_of, family_of)
    check_level(level)
    chosen = _method(method)
    samples = plan.samples(scores)
    line = LINES[chosen]
    if chosen is Method.HALF_ATOM:
        ends = _half_atom_ends([(scores, plan)], level)[0]
    elif chosen in (Method.STRICT, Method.SEQUENTIAL):
        ends = _guaranteed(samples, level, chosen)
        if plan.family_of is not None and any(np.ptp(sample.sizes) > 0.0 for sample in samples):
            line += "; each family weighs the same"
    else:
        drawn = (
            _bootstrap_ends(samples, plan, level, rng, n_resamples) if chosen is Method.BOOTSTRAP else None
        )
        if not has_spread(scores, plan) or (drawn is not None and drawn.low == drawn.high):
            ends = _half_atom_ends([(scores, plan)], level)[0]
            line += f"; {FALLBACK_LINE}"
        else:
            ends = drawn if drawn is not None else t_ends(scores, plan, level)
            ends = Ends(ends.estimate, max(0.0, ends.low), min(1.0, ends.high))
    return _interval(ends, plan, level, line, estimand)


def mean_intervals(
    samples: Sequence[Mapping[str, Any]],
    *,
    level: float = 0.95,
    estimand: str = "mean score over scenarios like these",
) -> list[Interval]:
    """The default intervals of many samples, in a fraction of the time of `mean_interval` for each.

    Parameters
    ----------
    samples : sequence of mappings
        ``scenario_scores``, ``split_of`` and ``family_of`` of each, as for `mean_interval`.
    level, estimand
        As for `mean_interval`, the same for all.
    """
    check_level(level)
    checked = []
    for sample in samples:
        scores = _checks.fractions(sample["scenario_scores"], "scenario_scores", 1)
        checked.append((scores, design(scores.size, sample.get("split_of"), sample.get("family_of"))))
    line = LINES[Method.HALF_ATOM]
    found = _half_atom_ends(checked, level)
    return [
        _interval(ends, plan, level, line, estimand) for ends, (_, plan) in zip(found, checked, strict=True)
    ]


def _half_atom_ends(samples: Sequence[tuple[FloatArray, Design]], level: float) -> list[Ends]:
    parts = [plan.samples(scores) for scores, plan in samples]
    laws = [score_law(part.values, part.sizes) for one in parts for part in one]
    tail = 0.5 * (1.0 - level)
    ends = iter(quantiles(laws, (tail, 1.0 - tail)).tolist())
    return [
        combined([Ends(part.mean, *next(ends)) for part in one], plan)
        for one, (_, plan) in zip(parts, samples, strict=True)
    ]


def _interval(ends: Ends, plan: Design, level: float, line: str, estimand: str) -> Interval:
    if plan.n_splits > 1:
        line += f"; mean of {plan.n_splits} splits"
    return Interval(
        estimate=ends.estimate,
        low=ends.low,
        high=ends.high,
        level=level,
        method=line,
        estimand=estimand,
        unit=plan.unit,
        n_units=plan.n_units,
    )


def ends_of(law: DirichletRatio, estimate: float, level: float) -> Ends:
    """The two ends that leave the same chance outside."""
    tail = 0.5 * (1.0 - level)
    low, high = quantiles([law], (tail, 1.0 - tail))[0].tolist()
    return Ends(estimate, low, high)


def t_ends(values: FloatArray, plan: Design, level: float) -> Ends:
    """Student's t interval for the mean of the split means, not yet cut to the bounds of a score.

    Parameters
    ----------
    values : ndarray, float64, shape (n_scenarios,)
        One value per scenario; `has_spread` must hold.
    """
    estimate, error, df = mean_error(values, plan)
    reach = t_quantile(0.5 + 0.5 * level, df) * error
    return Ends(estimate, estimate - reach, estimate + reach)


def mean_error(values: FloatArray, plan: Design) -> tuple[float, float, float]:
    """Mean of the split means, its standard error and the degrees of freedom; `has_spread` must hold.

    Notes
    -----
    Splits are strata, with Welch and Satterthwaite's degrees of freedom. When a family has scenarios in
    several splits, its influence is summed over them first, with n_families - 1 degrees of freedom.
    """
    samples = plan.samples(values)
    k = len(samples)
    estimate = float(np.mean([sample.mean for sample in samples]))
    if plan.is_crossed:
        centres = np.array([sample.mean for sample in samples])[plan.split_of]
        influence = plan.by_unit(plan.shares * (values - centres))
        n = plan.n_units
        return estimate, math.sqrt(n / (n - 1) * float((influence**2).sum())), n - 1
    parts = [sample.squared_error / k**2 for sample in samples]
    total = sum(parts)
    df = total**2 / sum(part**2 / (sample.n - 1) for part, sample in zip(parts, samples, strict=True))
    return estimate, math.sqrt(total), df


def has_spread(values: FloatArray, plan: Design) -> bool:
    """Whether a standard error can be estimated: every split has two units that differ."""
    return all(not sample.is_level for sample in plan.samples(values))


def combined(parts: list[Ends], plan: Design) -> Ends:
    """Ends for the mean of independent split means by MOVER; one split is left as it is.

    Notes
    -----
    Source: Zou and Donner, "Construction of confidence limits about effect measures" (2008). Where a mean
    lies outside its own interval (all scores 0), its distance on that side is 0.
    """
    if len(parts) == 1:
        return parts[0]
    k = len(parts)
    estimate = sum(part.estimate for part in parts) / k
    below = [max(0.0, part.estimate - part.low) / k for part in parts]
    above = [max(0.0, part.high - part.estimate) / k for part in parts]
    if plan.is_crossed:
        return Ends(estimate, estimate - sum(below), estimate + sum(above))
    return Ends(estimate, estimate - math.hypot(*below), estimate + math.hypot(*above))


def _method(method: Method | str) -> Method:
    try:
        return Method(method)
    except ValueError:
        known = ", ".join(Method)
        raise ScoringError(f"there is no interval method {method!r}; known: {known}.") from None


def _guaranteed(samples: tuple[UnitSample, ...], level: float, method: Method) -> Ends:
    # The union bound: each split errs with its share of the whole error.
    k = len(samples)
    each = 1.0 - (1.0 - level) / k
    ends = [
        strict_bounds(sample.values, each) if method is Method.STRICT else betting_bounds(sample.values, each)
        for sample in samples
    ]
    estimate = sum(float(sample.values.mean()) for sample in samples) / k
    return Ends(estimate, sum(low for low, _ in ends) / k, sum(high for _, high in ends) / k)


def _bootstrap_ends(
    samples: tuple[UnitSample, ...],
    plan: Design,
    level: float,
    rng: np.random.Generator | None,
    n_resamples: int,
) -> Ends:
    if rng is None:
        raise ScoringError("the bootstrap draws: pass rng, a numpy.random.Generator.")
    if plan.is_crossed:
        raise ScoringError(
            "the bootstrap cannot draw families that lie in several splits; use half-atom or t."
        )
    means = sum(
        bootstrap_means(sample.values[None], sample.sizes, rng, n_resamples=n_resamples)[0]
        for sample in samples
    ) / len(samples)
    tail = 0.5 * (1.0 - level)
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return Ends(float(np.mean([sample.mean for sample in samples])), float(low), float(high))


def strict_bounds(values: FloatArray, level: float) -> tuple[float, float]:
    """Bounds for the mean of values in [0, 1]: a whole atom at the bound that each end looks to.

    Notes
    -----
    On 0/1 data the exact interval of Clopper and Pearson; validity beyond that is conjectured and has
    withstood every simulation. Source: Gaffke (2005); Learned-Miller and Thomas (2020).
    """
    tail = 0.5 * (1.0 - level)
    ones = np.ones(values.size + 1)
    lower: DirichletRatio = merged(np.append(values, 0.0), ones, ones)
    upper: DirichletRatio = merged(np.append(values, 1.0), ones, ones)
    return lower.quantile(tail), upper.quantile(1.0 - tail)
