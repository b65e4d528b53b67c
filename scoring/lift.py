"""Lift over a blind guess: what an agent earns beyond an answer that never saw the incident."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scoring import _checks
from scoring._checks import FloatArray
from scoring._quantiles import quantiles
from scoring._units import SAME, Design, check_level, design
from scoring.errors import ScoringError
from scoring.half_atom import DirichletRatio, lent_share, lent_to_bounds, merged
from scoring.intervals import LINES, Ends, Interval, Method, combined


@dataclass(frozen=True)
class Lift:
    """Headline minus blind, and the share of what blind leaves that the agent earns."""

    difference: Interval
    """``headline - blind``, in [-1, 1]."""
    share: Interval
    """``(headline - blind) / (1 - blind)``, at most 1; NaN where blind leaves nothing."""


def lift_over_blind(
    scenario_scores: Any,
    blind_scores: Any,
    *,
    split_of: Any = None,
    family_of: Any = None,
    level: float = 0.95,
) -> Lift:
    """Lift of a run over the blind guess on the same scenarios.

    Parameters
    ----------
    scenario_scores : array_like, shape (n_scenarios,)
        Fractions in [0, 1]: mean over the repeats of each scenario.
    blind_scores : array_like, shape (n_scenarios,) or ()
        Score of the blind guess on each scenario, or one number for all of them.
    split_of, family_of, level
        As for `mean_interval`.

    Notes
    -----
    Both are functionals of one law: the half-atom Bayesian bootstrap of the pairs (score, blind), the half
    atoms at the bounds of the score and at the mean of blind. Against one blind number the difference is the
    interval of the headline, shifted. With splits, the share is the difference over ``1 - blind``,
    blind held.
    """
    scores = _checks.fractions(scenario_scores, "scenario_scores", 1)
    blind = np.asarray(blind_scores, dtype=np.float64)
    if blind.ndim == 0:
        blind = np.full(scores.size, float(blind))
    blind = _checks.fractions(blind, "blind_scores", 1)
    if blind.size != scores.size:
        raise ScoringError(f"blind_scores must have one value per scenario, {scores.size}, not {blind.size}.")
    check_level(level)
    plan = design(scores.size, split_of, family_of)
    rest = 1.0 - float(plan.shares @ blind)
    ones = np.ones(scores.size)
    laws = [_law(plan, label, scores - blind, ones, blind) for label in _splits(plan)]
    if plan.n_splits == 1 and rest > SAME:
        laws.append(_law(plan, 0, scores - blind, 1.0 - blind, blind))
    tail = 0.5 * (1.0 - level)
    ends = quantiles([law for law, _ in laws], (tail, 1.0 - tail)).tolist()
    parts = [Ends(estimate, *found) for (_, estimate), found in zip(laws, ends, strict=True)]
    difference = combined(parts[: plan.n_splits], plan)
    line = LINES[Method.HALF_ATOM].replace("bootstrap", "bootstrap of pairs", 1)
    if plan.n_splits > 1:
        line += f"; mean of {plan.n_splits} splits"
        share_line = line + "; blind held fixed"
    else:
        share_line = line
    if rest <= SAME:
        share = Ends(np.nan, np.nan, np.nan)
    elif plan.n_splits > 1:
        share = Ends(difference.estimate / rest, difference.low / rest, difference.high / rest)
    else:
        share = parts[-1]
    return Lift(
        difference=_interval(difference, level, line, "headline minus blind over scenarios like these", plan),
        share=_interval(
            share, level, share_line, "(headline - blind) / (1 - blind) over scenarios like these", plan
        ),
    )


def _splits(plan: Design) -> range:
    return range(plan.n_splits)


def _law(
    plan: Design, label: int, above: FloatArray, below: FloatArray, blind: FloatArray
) -> tuple[DirichletRatio, float]:
    """Law of ``sum(above) / sum(below)`` over the scenarios of one split, and its estimate."""
    tops, bottoms, guesses = (plan.samples(values)[label] for values in (above, below, blind))
    sizes = tops.sizes
    guess = guesses.mean
    # One rounding for difference and share: below is 1 in the difference, what blind leaves in the share.
    leaves = 1.0 if bool(np.all(below == 1.0)) else 1.0 - guess
    # What a unit lends to the bounds of the score keeps its own blind.
    inner, lent = lent_to_bounds(np.clip(tops.values + guesses.values, 0.0, 1.0))
    held = guesses.values[inner] * sizes[inner]
    own = np.ones(tops.n)
    own[inner] = 1.0 - lent_share(tops.n)
    law = merged(
        above=np.concatenate([tops.values * sizes, [-guess, 1.0 - guess], sizes[inner] - held, -held]),
        below=np.concatenate(
            [bottoms.values * sizes, [leaves, leaves], *2 * [bottoms.values[inner] * sizes[inner]]]
        ),
        weights=np.concatenate([own, [0.5, 0.5], lent]),
    )
    return law, tops.mean / bottoms.mean


def _interval(ends: Ends, level: float, line: str, estimand: str, plan: Design) -> Interval:
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
