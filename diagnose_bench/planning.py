"""How many scenarios and repeats a wanted difference of two agents needs. Reads scorecards, renders nothing.

The variances come from two runs, from one run and a stated interaction, or are stated altogether.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import scoring
from diagnose_bench.comparison_inputs import PairedRuns, load_runs, pair_runs
from diagnose_bench.comparison_settings import fewest_units
from diagnose_bench.errors import UsageError
from diagnose_bench.json_value import json_value
from diagnose_bench.planning_request import PlanRequest
from diagnose_bench.scorecard_statistics import Statistic

PLAN_FORMAT_VERSION = 1
REPEATS = (1, 2, 3, 5, 10)
_MAX_PROPOSED = 100
"""An interaction near 0 calls for ever more repeats of ever fewer scenarios, which nobody should believe."""
_MATTERS_NOT = ("repeats", "scenarios", "exclude", "interval", "bs", "seed")


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


@dataclass(frozen=True)
class PlannedRow:
    """One number of repeats; trials and cost are per agent."""

    n_repeats: int
    n_scenarios: int | None
    """Null where more would be needed than anyone can run."""
    n_scenarios_interval: tuple[int | None, int | None] | None
    """The same at both ends of the interval of the interaction; null where that has none."""
    n_trials: int | None
    cost: float | None
    is_cheapest: bool


@dataclass(frozen=True)
class Detectable:
    """What a design sees."""

    n_scenarios: int
    n_repeats: int
    difference: float
    """Smallest true difference called with the wanted power."""
    interval: tuple[float, float] | None
    """The same at both ends of the interval of the interaction."""


@dataclass(frozen=True)
class DesignPlan:
    """What `plan_design` found."""

    request: PlanRequest
    spread: Spread
    rows: tuple[PlannedRow, ...]
    detectable: tuple[Detectable, ...]
    """First what there is, then other numbers of repeats on as many scenarios; empty where so few scenarios
    can never be significant, or their number is not known."""
    method: str
    notes: tuple[str, ...]
    """Where the plan promises more than `compare` keeps."""

    def to_dict(self) -> dict[str, Any]:
        """The result as a JSON value."""
        return {"format_version": PLAN_FORMAT_VERSION, **json_value(self)}


def plan_design(
    request: PlanRequest, paths: Sequence[Path] = (), *, allow: Collection[str] = ()
) -> DesignPlan:
    """Plan a comparison of two agents.

    Parameters
    ----------
    request : PlanRequest
        The wanted difference, costs, and what is stated.
    paths : sequence of Path
        No run, one, or two: runs of the agents, or of agents like them.
    allow : collection of str
        Fields of the signature that may differ between two runs.

    Raises
    ------
    UsageError
        Too little is known, or the runs do not go together.
    """
    if len(paths) > 2:
        raise UsageError("plan takes at most two runs.")
    paired = pair_runs(load_runs(paths), allow=allow, ignore=_MATTERS_NOT) if paths else None
    spread = _spread(request, paired)
    components = scoring.Components(interaction=spread.between_sd**2, repeat=spread.within_sd**2)
    ends = _at_ends(spread)
    return DesignPlan(
        request=request,
        spread=spread,
        rows=_rows(request, components, ends),
        detectable=_detectable(request, paired, components, ends),
        method=(
            "n = (z_(1-alpha/2) + z_power)^2 (between^2 + within^2 / repeats) / difference^2, raised until "
            f"Student's t agrees and to at least {fewest_units(request.level)} (fewer signs can never be "
            "significant); minimum detectable difference by t with n - 1 degrees of freedom; paired by "
            "scenario"
        ),
        notes=_notes(paired),
    )


def _notes(paired: PairedRuns | None) -> tuple[str, ...]:
    notes = ["Where scores are skewed (a mean near 0 or 1) this promises a little too much."]
    if paired is not None and paired.family_of is not None:
        n_families = len(set(paired.family_of.tolist()))
        notes.append(
            f"These scenarios belong to {n_families} families, which a comparison takes as its units. "
            "The plan counts scenarios as if each were of another family, so it promises too much here."
        )
    if paired is not None and paired.split_of is not None:
        notes.append("The plan weighs scenarios alike; splits of unequal size need more.")
    return tuple(notes)


def _spread(request: PlanRequest, paired: PairedRuns | None) -> Spread:
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
    if len(paired.scenario_ids) < 3 or min(table.shape[1] for table in tables) < 2:
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
        estimand=interval.estimand,
        unit=interval.unit,
        n=interval.n_units,
        method=interval.method,
    )
    return Spread(
        between_sd=math.sqrt(found.components.interaction) if between is None else between,
        within_sd=math.sqrt(found.components.repeat) if within is None else within,
        interaction_sd=statistic if between is None else None,
        source=f"estimated on {names}" if between is None else "stated",
        within_source=f"estimated on {names}" if within is None else "stated",
    )


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


def _at_ends(spread: Spread) -> tuple[scoring.Components, scoring.Components] | None:
    if spread.interaction_sd is None or spread.interaction_sd.interval is None:
        return None
    low, high = (
        scoring.Components(interaction=end**2, repeat=spread.within_sd**2)
        for end in spread.interaction_sd.interval
    )
    return low, high


def _needed(request: PlanRequest, components: scoring.Components, n_repeats: int) -> int | None:
    try:
        n = scoring.scenarios_needed(
            components, request.difference, n_repeats, level=request.level, power=request.power
        )
    except scoring.ScoringError:
        # The request was checked at the door: what is left is a number beyond all use.
        return None
    return max(n, fewest_units(request.level))


def _rows(
    request: PlanRequest,
    components: scoring.Components,
    ends: tuple[scoring.Components, scoring.Components] | None,
) -> tuple[PlannedRow, ...]:
    repeats = set(REPEATS) if request.n_repeats is None else {*REPEATS, request.n_repeats}
    if components.interaction > 0.0 and _needed(request, components, 1) is not None:
        best = scoring.best_plan(
            components,
            request.difference,
            scenario_cost=request.scenario_cost,
            trial_cost=request.trial_cost,
            level=request.level,
            power=request.power,
        )
        if best.n_repeats <= _MAX_PROPOSED:
            repeats.add(best.n_repeats)
    rows = []
    for n_repeats in sorted(repeats):
        n = _needed(request, components, n_repeats)
        rows.append(
            PlannedRow(
                n_repeats=n_repeats,
                n_scenarios=n,
                n_scenarios_interval=None
                if ends is None
                else (_needed(request, ends[0], n_repeats), _needed(request, ends[1], n_repeats)),
                n_trials=None if n is None else n * n_repeats,
                cost=None if n is None else n * (request.scenario_cost + n_repeats * request.trial_cost),
                is_cheapest=False,
            )
        )
    costs = [math.inf if row.cost is None else row.cost for row in rows]
    cheapest = costs.index(min(costs))
    return tuple(
        replace(row, is_cheapest=place == cheapest and row.cost is not None) for place, row in enumerate(rows)
    )


def _detectable(
    request: PlanRequest,
    paired: PairedRuns | None,
    components: scoring.Components,
    ends: tuple[scoring.Components, scoring.Components] | None,
) -> tuple[Detectable, ...]:
    n_scenarios, n_repeats = request.n_scenarios, request.n_repeats
    if paired is not None:
        n_scenarios = n_scenarios or len(paired.scenario_ids)
        # With unequal numbers the smaller one: no more is promised than both keep.
        n_repeats = n_repeats or min(run.n_repeats for run in paired.runs)
    if n_scenarios is None or n_scenarios < fewest_units(request.level):
        return ()
    own = n_repeats or 3

    def at(some: scoring.Components, repeats: int) -> float:
        return scoring.minimum_detectable(
            some, n_scenarios, repeats, level=request.level, power=request.power
        )

    return tuple(
        Detectable(
            n_scenarios=n_scenarios,
            n_repeats=repeats,
            difference=at(components, repeats),
            interval=None if ends is None else (at(ends[0], repeats), at(ends[1], repeats)),
        )
        for repeats in (own, *(one for one in REPEATS if one != own))
    )
