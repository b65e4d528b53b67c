"""A plan for people. Computes nothing."""

from __future__ import annotations

from diagnose_bench.planning import DesignPlan, Detectable, PlannedRow
from diagnose_bench.planning_spread import Spread
from diagnose_bench.text import visible
from diagnose_bench.text_table import text_table

_TOO_MANY = "too many"


def plan_text(plan: DesignPlan) -> str:
    """The whole plan as plain text."""
    request = plan.request
    has_interval = any(row.n_scenarios_interval is not None for row in plan.rows)
    parts = [
        _spread_text(plan.spread),
        f"To call a true difference of {_points(request.difference)} points with power {request.power:g} at "
        f"level {request.level:g}, two agents on the same scenarios (trials and cost per agent):",
        _rows_table(plan.rows, has_interval=has_interval, by_family=plan.spread.unit == "family"),
        f"Cost: {request.scenario_cost:g} for a scenario, {request.trial_cost:g} for a trial.",
    ]
    if plan.detectable:
        own = plan.detectable[0]
        parts += [
            f"With {_design(own)} the smallest true difference that "
            f"is called with that power is {_points(own.difference)} points{_range(own.interval)}. "
            "Other numbers of repeats on these scenarios:",
            text_table(
                ["Repeats", "Points"],
                [
                    (str(one.n_repeats), f"{_points(one.difference)}{_range(one.interval)}")
                    for one in plan.detectable[1:]
                ],
                right={0},
            ),
        ]
    elif plan.is_blind:
        parts.append("What there is can detect nothing, however large: see the notes.")
    parts.append("\n".join([f"Method: {plan.method}.", *plan.notes]))
    return "\n\n".join(parts)


def _design(own: Detectable) -> str:
    families = "" if own.n_units == own.n_scenarios else f" in {own.n_units} families"
    return f"{own.n_scenarios} scenarios x {own.n_repeats} repeats{families}"


def _spread_text(spread: Spread) -> str:
    units = "scenarios" if spread.unit == "scenario" else "families"
    lines = [
        f"Interaction sd (expected difference, over {units}): {spread.between_sd:.3f}, {spread.source}",
    ]
    statistic = spread.interaction_sd
    if statistic is not None and statistic.interval is not None and statistic.level is not None:
        low, high = statistic.interval
        lines.append(
            f"  {100 * statistic.level:g} % interval {low:.3f} to {high:.3f} from {statistic.n} {units}: "
            "the plan is no better known than this"
        )
    elif statistic is not None:
        lines.append(f"  these {units} do not tell how well it is known")
    of = "difference of one trial of each" + ("" if units == "scenarios" else ", mean over a family")
    lines.append(f"Repeat sd ({of}): {spread.within_sd:.3f}, {spread.within_source}")
    return visible("\n".join(lines))


def _rows_table(rows: tuple[PlannedRow, ...], *, has_interval: bool, by_family: bool) -> str:
    header = ["Repeats", "Scenarios", "Trials", "Cost", ""]
    cells = [
        [
            str(row.n_repeats),
            _number(row.n_scenarios),
            _number(row.n_trials),
            _TOO_MANY if row.cost is None else f"{row.cost:.10g}",
            "cheapest" if row.is_cheapest else "",
        ]
        for row in rows
    ]
    if has_interval:
        header.insert(2, "from the interval")
        for line, row in zip(cells, rows, strict=True):
            low, high = row.n_scenarios_interval or (None, None)
            line.insert(2, f"{_number(low)} to {_number(high)}")
    if by_family:
        header.insert(1, "Families")
        for line, row in zip(cells, rows, strict=True):
            line.insert(1, _number(row.n_units))
    return text_table(header, cells, right=range(len(header) - 1))


def _number(value: int | None) -> str:
    return _TOO_MANY if value is None else str(value)


def _points(value: float) -> str:
    # Scores lie in [0, 1]: no difference is larger.
    return f"{100 * value:.1f}" if value <= 1.0 else "more than 100"


def _range(ends: tuple[float, float] | None) -> str:
    return "" if ends is None else f" ({_points(ends[0])} to {_points(ends[1])})"
