"""Plans against the textbook formula, published numbers and scipy."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from unit.scored_runs import scored, suite_of

from diagnose_bench.errors import IncompleteRunError, UsageError
from diagnose_bench.planning import plan_design
from diagnose_bench.planning_request import PlanRequest
from diagnose_bench.planning_text import plan_text

FIRST = [[1, 1, 0], [0, 0, 0.5], [1, 1, 1], [0.5, 0, 0], [1, 0, 1], [0, 0, 0], [1, 0.5, 1]]
SECOND = [[0, 0, 0], [1, 1, 0.5], [0, 0, 1], [0.5, 1, 1], [1, 1, 1], [1, 1, 1], [0, 0.5, 0]]


def runs(root: Path, first: Any = FIRST, second: Any = SECOND, **options: Any) -> list[Path]:
    suite = suite_of(root, len(first), **options)
    return [scored(root / "first", suite, first), scored(root / "second", suite, second)]


@pytest.mark.parametrize(
    ("between", "within", "difference", "n_repeats", "published"),
    # Rounded standard deviations and the normal law were used there: a few scenarios fewer than t needs.
    [
        (0.160, 0.387, 0.05, 3, 237),
        (0.185, 0.453, 0.05, 1, 751),
        (0.185, 0.453, 0.05, 3, 322),
        (0.196, 0.483, 0.05, 10, 194),
        (0.196, 0.483, 0.10, 3, 92),
    ],
)
def test_stated_spreads_give_the_known_number_of_scenarios(
    between: float, within: float, difference: float, n_repeats: int, published: int
) -> None:
    plan = plan_design(PlanRequest(difference=difference, between_sd=between, within_sd=within))
    (row,) = (row for row in plan.rows if row.n_repeats == n_repeats)
    normal = (stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) ** 2
    exact = normal * (between**2 + within**2 / n_repeats) / difference**2
    assert row.n_scenarios is not None
    assert math.ceil(exact) <= row.n_scenarios <= math.ceil(exact) + 4
    assert row.n_scenarios == pytest.approx(published, rel=0.03)
    assert row.n_trials == row.n_scenarios * n_repeats


def test_detectable_difference_by_t() -> None:
    request = PlanRequest(between_sd=0.185, within_sd=0.453, n_scenarios=59, n_repeats=3)
    own = plan_design(request).detectable[0]
    factor = stats.t.ppf(0.975, 58) + stats.t.ppf(0.8, 58)
    assert own.difference == pytest.approx(factor * math.sqrt((0.185**2 + 0.453**2 / 3) / 59))
    # Known to be about twelve points.
    assert own.difference == pytest.approx(0.12, abs=0.005)
    assert (own.n_scenarios, own.n_repeats, own.interval) == (59, 3, None)


def test_spread_of_two_runs_by_hand(tmp_path: Path) -> None:
    plan = plan_design(PlanRequest(), runs(tmp_path))
    first, second = np.array(FIRST), np.array(SECOND)
    within = [table.var(axis=1, ddof=1).mean() for table in (first, second)]
    differences = second.mean(axis=1) - first.mean(axis=1)
    between = differences.var(ddof=1) - sum(within) / 3
    assert plan.spread.within_sd == pytest.approx(math.sqrt(sum(within)))
    assert between > 0.05
    assert plan.spread.between_sd == pytest.approx(math.sqrt(between))
    assert plan.spread.interaction_sd is not None
    assert plan.spread.interaction_sd.interval is not None
    assert plan.spread.source == "estimated on first and second"
    assert (plan.detectable[0].n_scenarios, plan.detectable[0].n_repeats) == (7, 3)


def test_uncertain_interaction_is_carried_into_the_plan(tmp_path: Path) -> None:
    plan = plan_design(PlanRequest(), runs(tmp_path))
    assert plan.spread.interaction_sd is not None
    assert plan.spread.interaction_sd.interval is not None
    high = plan.spread.interaction_sd.interval[1]
    stated = plan_design(PlanRequest(between_sd=high, within_sd=plan.spread.within_sd))
    wanted = {row.n_repeats: row.n_scenarios for row in stated.rows}
    for row in plan.rows:
        assert row.n_scenarios is not None
        assert row.n_scenarios_interval is not None
        least, most = row.n_scenarios_interval
        assert least is not None
        assert most is not None
        assert least <= row.n_scenarios <= most
        if row.n_repeats in wanted:
            assert most == wanted[row.n_repeats]
    assert "from the interval" in plan_text(plan)


def test_one_run_needs_a_stated_interaction(tmp_path: Path) -> None:
    (first, _) = runs(tmp_path)
    with pytest.raises(UsageError, match="--between-sd"):
        plan_design(PlanRequest(), [first])
    plan = plan_design(PlanRequest(between_sd=0.2), [first])
    assert plan.spread.within_sd == pytest.approx(math.sqrt(2 * np.var(FIRST, axis=1, ddof=1).mean()))
    assert plan.spread.interaction_sd is None


def test_dear_scenarios_call_for_more_repeats() -> None:
    spread = {"between_sd": 0.185, "within_sd": 0.453}
    cheap, dear = (
        next(row for row in plan_design(request).rows if row.is_cheapest)
        for request in (PlanRequest(**spread), PlanRequest(**spread, scenario_cost=10.0))
    )
    # (.453 / .185) sqrt(cost of a scenario / cost of a trial): 2.4 and 7.7.
    assert cheap.n_repeats in (2, 3)
    assert dear.n_repeats in (7, 8)
    assert dear.n_scenarios is not None
    assert dear.cost == dear.n_scenarios * (10.0 + dear.n_repeats)


def test_fewer_scenarios_than_signs_need_are_never_proposed() -> None:
    plan = plan_design(PlanRequest(between_sd=0.0, within_sd=0.0, n_scenarios=5))
    # 2^(1-5) > .05: five signs can never be significant, however small the spread.
    assert {row.n_scenarios for row in plan.rows} == {6}
    assert plan.detectable == ()
    assert [row.n_repeats for row in plan.rows if row.is_cheapest] == [1]


def test_number_beyond_all_use_is_said_not_raised() -> None:
    plan = plan_design(PlanRequest(difference=1e-4, between_sd=1.0, within_sd=1.0))
    assert all(row.n_scenarios is None and not row.is_cheapest for row in plan.rows)
    assert "too many" in plan_text(plan)


def test_two_families_can_never_show_a_difference_and_it_says_so(tmp_path: Path) -> None:
    plan = plan_design(PlanRequest(), runs(tmp_path, families=["dns"] * 4 + ["cpu"] * 3))
    text = plan_text(plan)
    assert plan.detectable == ()
    assert plan.is_blind
    assert "What there is can detect nothing" in text
    assert "7 scenarios of these runs belong to 2 families" in text
    assert "Only more families help" in text


def test_families_are_what_a_plan_counts(tmp_path: Path) -> None:
    # Fourteen scenarios in seven families of two that are alike: what one family shows is one number.
    before = [[1, 0], [1, 0], [0, 0], [0, 0], [1, 1], [1, 1], [0, 1]] * 2
    after = [[1, 1], [0, 0], [0, 1], [0, 0], [1, 1], [1, 0], [1, 1]] * 2
    suite = suite_of(tmp_path / "suite", 14, [*"abcdefg"] * 2)
    paths = [scored(tmp_path / name, suite, table) for name, table in (("one", before), ("two", after))]
    plan = plan_design(PlanRequest(), paths)
    alone = suite_of(tmp_path / "alone", 7)
    halves = [
        scored(tmp_path / name, alone, table[:7]) for name, table in (("three", before), ("four", after))
    ]
    expected = plan_design(PlanRequest(), halves)
    assert (plan.spread.unit, plan.spread.scenarios_per_unit) == ("family", 2.0)
    assert plan.spread.between_sd == pytest.approx(expected.spread.between_sd)
    assert [row.n_units for row in plan.rows] == [row.n_scenarios for row in expected.rows]
    assert [row.n_scenarios for row in plan.rows] == [2 * (row.n_units or 0) for row in plan.rows]
    assert (plan.detectable[0].n_units, plan.detectable[0].n_scenarios) == (7, 14)
    assert plan.detectable[0].difference == pytest.approx(expected.detectable[0].difference)
    assert "14 scenarios x 2 repeats in 7 families" in plan_text(plan)
    assert "n counts families" in plan.method


@pytest.mark.parametrize(
    ("choice", "option"),
    [
        ({"difference": 0.0}, "--difference"),
        ({"difference": math.nan}, "--difference"),
        ({"level": 1.0}, "--level"),
        ({"power": 0.4}, "--power"),
        ({"between_sd": -0.1}, "--between-sd"),
        ({"within_sd": 1.1}, "--within-sd"),
        ({"n_scenarios": 1}, "--scenarios"),
        ({"n_repeats": 0}, "--repeats"),
        ({"scenario_cost": -1.0}, "--scenario-cost"),
        ({"trial_cost": 0.0}, "--trial-cost"),
    ],
)
def test_requests_are_checked_at_the_door(choice: dict[str, Any], option: str) -> None:
    with pytest.raises(UsageError, match=option):
        PlanRequest(**choice)


def test_too_little_to_estimate_from_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="two runs"):
        plan_design(PlanRequest(between_sd=0.2))
    short = runs(tmp_path / "short", [[1, 0]] * 2, [[0, 0]] * 2)
    with pytest.raises(UsageError, match="three common scenarios"):
        plan_design(PlanRequest(), short)
    with pytest.raises(UsageError, match="at most two"):
        plan_design(PlanRequest(), [*short, short[0]])
    once = scored(tmp_path / "once", tmp_path / "short" / "snapshots" / "small", [[1], [0]])
    with pytest.raises(UsageError, match="tells no spread"):
        plan_design(PlanRequest(between_sd=0.2), [once])


def test_runs_without_any_spread_promise_nothing(tmp_path: Path) -> None:
    paths = runs(tmp_path, [[1, 1]] * 7, [[0, 0]] * 7)
    with pytest.raises(UsageError, match="no spread"):
        plan_design(PlanRequest(), paths)
    assert plan_design(PlanRequest(between_sd=0.2, within_sd=0.4), paths).spread.source == "stated"


def test_incomplete_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(IncompleteRunError):
        plan_design(PlanRequest(), runs(tmp_path, [[1, None]] * 3, [[1, 1]] * 3))


def test_runs_with_other_numbers_of_repeats_go_together(tmp_path: Path) -> None:
    plan = plan_design(PlanRequest(), runs(tmp_path, second=[row[:2] for row in SECOND]))
    assert plan.detectable[0].n_repeats == 2
