"""How much two agents differ from scenario to scenario and from trial to trial: what a plan rests on.

Estimated on two runs, on one and a stated interaction, or stated altogether. Families are the units where
they are declared and three or more of them have been seen. Plans nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import scoring
from diagnose_bench.comparison_inputs import PairedRuns
from diagnose_bench.errors import UsageError
from diagnose_bench.planning_request import PlanRequest
from diagnose_bench.scorecard_statistics import Statistic

_PLURALS = {"scenario": "scenarios", "family": "families"}


@dataclass(frozen=True)
class Spread:
    """Standard deviations of the difference of two agents on one scenario."""

    between_sd: float
    """Over scenarios, of the expected difference: the interaction. No number of repeats removes it."""
    within_sd: float
    """Of the difference of one trial of each: the root of the sum of both agents' repeat variances."""
    interaction_sd: Statistic | None
    """The first one with its interval, where two runs tell it."""
    source: str
    within_source: str
    unit: str = "scenario"
    """What is planned: scenarios, or families where runs have shown how these differ. Then both deviations
    are those of the mean over the scenarios of a family."""
    scenarios_per_unit: float = 1.0


def spread_of(request: PlanRequest, paired: PairedRuns | None) -> Spread:
    """The spread that is stated, or that runs show.

    Raises
    ------
    UsageError
        Too little is known.
    """
    between, within = request.between_sd, request.within_sd
    if paired is None:
        if between is None or within is None:
            raise UsageError(
                "Give two runs to estimate from, or state the spread: --between-sd S --within-sd S. "
                "(Around a mean score of 0.3, 0.19 and 0.45 are usual.)"
            )
        return Spread(between, within, None, "stated", "stated")
    if between is not None and within is not None:
        return Spread(between, within, None, "stated", "stated")
    if len(paired.runs) == 1:
        return _spread_of_one(request, paired)
    paired.scores()
    tables = [paired.trial_scores(run) for run in paired.runs]
    unit, n_units = "scenario", len(paired.scenario_ids)
    if paired.family_of is not None and n_families(paired) > 2 and between is None and within is None:
        unit, n_units = "family", n_families(paired)
        tables = [_by_family(table, paired.family_of) for table in tables]
    if n_units < 3 or min(table.shape[1] for table in tables) < 2:
        raise UsageError(
            "Estimating the spread needs at least three common scenarios and two repeats in both runs. "
            "State it instead: --between-sd S --within-sd S."
        )
    found = scoring.estimate_components(tables[0], tables[1], level=request.level)
    if found.components.repeat == 0.0 and found.components.interaction == 0.0:
        # A plan from no spread at all would promise to see everything.
        raise UsageError(
            "These runs show no spread: every repeat and every difference is the same, so nothing can be "
            "estimated from them. State it instead: --between-sd S --within-sd S."
        )
    names = " and ".join(paired.labels)
    interval = found.interaction_sd
    statistic = Statistic(
        value=interval.estimate,
        interval=None if math.isnan(interval.low) else (interval.low, interval.high),
        level=interval.level,
        estimand=interval.estimand.replace("over scenarios", f"over {_PLURALS[unit]}"),
        unit=unit,
        n=interval.n_units,
        method=interval.method.replace("over scenarios", f"over {_PLURALS[unit]}"),
    )
    return Spread(
        between_sd=math.sqrt(found.components.interaction) if between is None else between,
        within_sd=math.sqrt(found.components.repeat) if within is None else within,
        interaction_sd=statistic if between is None else None,
        source=f"estimated on {names}" if between is None else "stated",
        within_source=f"estimated on {names}" if within is None else "stated",
        unit=unit,
        scenarios_per_unit=len(paired.scenario_ids) / n_units,
    )


def n_families(paired: PairedRuns) -> int:
    """How many families are units; 0 where scenarios are."""
    return 0 if paired.family_of is None else int(paired.family_of.max()) + 1


def _by_family(table: NDArray[np.float64], family_of: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean over the scenarios of each family, repeat by repeat."""
    sizes = np.bincount(family_of)
    sums = [np.bincount(family_of, weights=column) for column in table.T]
    # A mean of ones may come out a rounding error above 1.
    return np.clip(np.stack(sums, axis=1) / sizes[:, None], 0.0, 1.0)


def _spread_of_one(request: PlanRequest, paired: PairedRuns) -> Spread:
    (run,) = paired.runs
    if request.between_sd is None:
        raise UsageError(
            "One run cannot tell how much two agents differ from scenario to scenario. Give a second run, or "
            "state it: --between-sd S (around a mean score of 0.3, 0.19 is usual)."
        )
    if run.n_repeats < 2:
        raise UsageError(f"{run.path}: one repeat tells no spread between repeats. State it: --within-sd S.")
    paired.scores()
    found = scoring.components_of_one_run(paired.trial_scores(run), request.between_sd)
    return Spread(
        request.between_sd, math.sqrt(found.repeat), None, "stated", f"twice the variance of {run.label}"
    )
