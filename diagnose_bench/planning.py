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
from diagnose_bench.planning_spread import Spread, n_families, spread_of

PLAN_FORMAT_VERSION = 1
REPEATS = (1, 2, 3, 5, 10)
_MAX_PROPOSED = 100
"""An interaction near 0 calls for ever more repeats of ever fewer scenarios, which nobody should believe."""
_MATTERS_NOT = ("repeats", "scenarios", "exclude", "interval", "bs", "seed")


@dataclass(frozen=True)
class PlannedRow:
    """One number of repeats; trials and cost are per agent."""

    n_repeats: int
    n_units: int | None
    """Scenarios, or families where these are the units. Null where more would be needed than anyone can
    run."""
    n_scenarios: int | None
    n_scenarios_interval: tuple[int | None, int | None] | None
    """The same at both ends of the interval of the interaction; null where that has none."""
    n_trials: int | None
    cost: float | None
    is_cheapest: bool


@dataclass(frozen=True)
class Detectable:
    """What a design sees."""

    n_units: int
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
    is_blind: bool
    """Whether what there is has too few units to call any difference."""

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
    spread = spread_of(request, paired)
    components = scoring.Components(interaction=spread.between_sd**2, repeat=spread.within_sd**2)
    ends = _at_ends(spread)
    detectable = _detectable(request, paired, spread, components, ends)
    return DesignPlan(
        request=request,
        spread=spread,
        rows=_rows(request, spread, components, ends),
        detectable=detectable,
        method=(
            "n = (z_(1-alpha/2) + z_power)^2 (between^2 + within^2 / repeats) / difference^2, raised until "
            f"Student's t agrees and to at least {fewest_units(request.level)} (fewer signs can never be "
            "significant); minimum detectable difference by t with n - 1 degrees of freedom; paired by "
            f"scenario; n counts {'scenarios' if spread.unit == 'scenario' else 'families'}"
        ),
        notes=_notes(request, paired, spread),
        is_blind=not detectable and (paired is not None or request.n_scenarios is not None),
    )


def _notes(request: PlanRequest, paired: PairedRuns | None, spread: Spread) -> tuple[str, ...]:
    notes = ["Where scores are skewed (a mean near 0 or 1) this promises a little too much."]
    n_scenarios = request.n_scenarios or (0 if paired is None else len(paired.scenario_ids))
    if 0 < n_scenarios < fewest_units(request.level):
        notes.append(
            f"Fewer than {fewest_units(request.level)} scenarios can never show a significant difference."
        )
    if paired is not None and paired.family_of is not None:
        n_own, fewest = n_families(paired), fewest_units(request.level)
        if n_own < fewest:
            notes.append(
                f"The {len(paired.scenario_ids)} scenarios of these runs belong to {n_own} families, which "
                f"are the units of a comparison. With fewer than {fewest} no difference can ever be "
                "significant, however large it is and however many scenarios or repeats these families get. "
                "Only more families help."
            )
        if spread.unit == "family":
            notes.append(
                f"Planned are families of {spread.scenarios_per_unit:.3g} scenarios each, as here on average."
            )
        else:
            notes.append(
                f"The scenarios of these runs belong to {n_own} families, which a comparison takes as "
                "its units. The plan counts scenarios as if each were of another family, so it promises too "
                "much here."
            )
    if paired is not None and paired.split_of is not None:
        notes.append("The plan weighs scenarios alike; splits of unequal size need more.")
    return tuple(notes)


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
    spread: Spread,
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
        n_units = _needed(request, components, n_repeats)
        n = _scenarios(n_units, spread)
        rows.append(
            PlannedRow(
                n_repeats=n_repeats,
                n_units=n_units,
                n_scenarios=n,
                n_scenarios_interval=None
                if ends is None
                else (
                    _scenarios(_needed(request, ends[0], n_repeats), spread),
                    _scenarios(_needed(request, ends[1], n_repeats), spread),
                ),
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


def _scenarios(n_units: int | None, spread: Spread) -> int | None:
    return None if n_units is None else math.ceil(n_units * spread.scenarios_per_unit - 1e-9)


def _detectable(
    request: PlanRequest,
    paired: PairedRuns | None,
    spread: Spread,
    components: scoring.Components,
    ends: tuple[scoring.Components, scoring.Components] | None,
) -> tuple[Detectable, ...]:
    n_scenarios, n_repeats = request.n_scenarios, request.n_repeats
    if paired is not None:
        n_scenarios = n_scenarios or len(paired.scenario_ids)
        # With unequal numbers the smaller one: no more is promised than both keep.
        n_repeats = n_repeats or min(run.n_repeats for run in paired.runs)
    if n_scenarios is None:
        return ()
    n_units = int(n_scenarios / spread.scenarios_per_unit + 1e-9)
    if paired is not None and request.n_scenarios is None and paired.family_of is not None:
        # What there is cannot become more by stating how much it spreads.
        n_units = min(n_units, n_families(paired))
    if n_units < fewest_units(request.level):
        return ()
    own = n_repeats or 3

    def at(some: scoring.Components, repeats: int) -> float:
        return scoring.minimum_detectable(some, n_units, repeats, level=request.level, power=request.power)

    return tuple(
        Detectable(
            n_units=n_units,
            n_scenarios=n_scenarios,
            n_repeats=repeats,
            difference=at(components, repeats),
            interval=None if ends is None else (at(ends[0], repeats), at(ends[1], repeats)),
        )
        for repeats in (own, *(one for one in REPEATS if one != own))
    )
