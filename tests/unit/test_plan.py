from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats

import scoring
from scoring import Components
from scoring.plan import MAX_REPEATS

# sd between and within at mean scores of about .15, .31 and .51.
LEVELS = {".15": Components(0.160**2, 0.387**2), ".31": Components(0.185**2, 0.453**2)}


@pytest.mark.parametrize("level", list(LEVELS))
@pytest.mark.parametrize("n_repeats", [1, 3, 10])
def test_scenarios_against_the_formula_of_the_normal_law(level: str, n_repeats: int) -> None:
    # n = (1.96 + .84)^2 (sb^2 + sw^2 / R) / d^2; t needs two or three scenarios more, at these sizes.
    parts = LEVELS[level]
    normal = (1.959964 + 0.841621) ** 2 * (parts.interaction + parts.repeat / n_repeats) / 0.05**2
    found = scoring.scenarios_needed(parts, 0.05, n_repeats)
    assert normal < found <= normal + 4


def test_minimum_detectable_against_scipy() -> None:
    # 20 x 3 at mean .15: (t_19(.975) + t_19(.8)) * sqrt((.16^2 + .387^2 / 3) / 20).
    factor = scipy.stats.t.ppf(0.975, 19) + scipy.stats.t.ppf(0.8, 19)
    expected = factor * math.sqrt((0.160**2 + 0.387**2 / 3) / 20)
    assert scoring.minimum_detectable(LEVELS[".15"], 20, 3) == pytest.approx(expected)


def test_the_plan_is_the_smallest_that_detects() -> None:
    n = scoring.scenarios_needed(LEVELS[".31"], 0.1, 3)
    assert scoring.minimum_detectable(LEVELS[".31"], n, 3) <= 0.1
    assert scoring.minimum_detectable(LEVELS[".31"], n - 1, 3) > 0.1


def test_agents_that_differ_by_nothing_else_need_two_scenarios() -> None:
    assert scoring.scenarios_needed(Components(0.0, 0.0), 0.05, 1) == 2


def test_more_power_needs_more_scenarios() -> None:
    parts = LEVELS[".31"]
    assert scoring.scenarios_needed(parts, 0.1, 3, power=0.9) > scoring.scenarios_needed(parts, 0.1, 3)
    assert scoring.scenarios_needed(parts, 0.1, 3, level=0.99) > scoring.scenarios_needed(parts, 0.1, 3)


@pytest.mark.parametrize(("scenario_cost", "expected"), [(0.0, 1), (1.0, 2), (10.0, 7)])
def test_best_repeats_against_every_number_of_repeats(scenario_cost: float, expected: int) -> None:
    # (sw / sb) sqrt(cost ratio) = 2.4 and 7.6 at .15, by whole scenarios 2 and 7.
    parts = LEVELS[".15"]
    best = scoring.best_plan(parts, 0.05, scenario_cost=scenario_cost, trial_cost=1.0)
    rows = [
        scoring.plan_row(parts, 0.05, repeats, scenario_cost=scenario_cost, trial_cost=1.0)
        for repeats in range(1, 30)
    ]
    assert best.cost == min(row.cost for row in rows)
    assert best.n_repeats == expected
    assert best.n_trials == best.n_scenarios * best.n_repeats
    assert best.cost == best.n_scenarios * scenario_cost + best.n_trials


def test_without_interaction_repeats_are_bounded() -> None:
    best = scoring.best_plan(Components(0.0, 0.2), 0.01, scenario_cost=1e6, trial_cost=1.0)
    assert MAX_REPEATS - 2 <= best.n_repeats <= MAX_REPEATS
    assert best.n_scenarios >= 2


def test_components_of_two_runs_by_hand() -> None:
    # Differences of means .5, 0, -.25. Variances of the rows: baseline 1/2, 0, 1/8; candidate 0, 1/2, 0.
    baseline = [[0.0, 1.0], [0.5, 0.5], [0.5, 1.0]]
    candidate = [[1.0, 1.0], [0.0, 1.0], [0.5, 0.5]]
    within_a, within_b = (1 / 2 + 0 + 1 / 8) / 3, (0 + 1 / 2 + 0) / 3
    spread = np.var([0.5, 0.0, -0.25], ddof=1)
    result = scoring.estimate_components(baseline, candidate)
    assert result.interaction.estimate == pytest.approx(spread - (within_a + within_b) / 2)
    assert result.components.repeat == pytest.approx(within_a + within_b)
    assert result.components.interaction == max(0.0, result.interaction.estimate)


def test_interaction_interval_is_the_jackknife() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.random((12, 3)), rng.random((12, 2))

    def interaction(rows: list[int]) -> float:
        noise = a[rows].var(axis=1, ddof=1).mean() / 3 + b[rows].var(axis=1, ddof=1).mean() / 2
        return float((b[rows].mean(axis=1) - a[rows].mean(axis=1)).var(ddof=1) - noise)

    left_out = np.array([interaction([j for j in range(12) if j != i]) for i in range(12)])
    error = math.sqrt(11 / 12 * float(((left_out - left_out.mean()) ** 2).sum()))
    reach = scipy.stats.t.ppf(0.975, 11) * error
    middle = interaction(list(range(12)))
    result = scoring.estimate_components(a, b)
    assert (result.interaction.low, result.interaction.high) == pytest.approx(
        (middle - reach, middle + reach)
    )
    expected = (math.sqrt(max(0.0, middle - reach)), math.sqrt(middle + reach))
    assert (result.interaction_sd.low, result.interaction_sd.high) == pytest.approx(expected)


def test_interaction_of_a_simulation_is_found() -> None:
    # Two agents on 4,000 scenarios: expected differences normal with sd .15, binary trials.
    rng = np.random.default_rng(0)
    base = np.full(4_000, 0.5)
    moved = np.clip(base + rng.normal(0.0, 0.15, 4_000), 0.0, 1.0)
    a, b = (rng.binomial(1, chance[:, None], (4_000, 3)).astype(float) for chance in (base, moved))
    result = scoring.estimate_components(a, b)
    assert result.interaction_sd.low < 0.15 < result.interaction_sd.high
    assert result.interaction_sd.high - result.interaction_sd.low < 0.06


def test_runs_without_any_spread_do_not_tell_the_interaction() -> None:
    result = scoring.estimate_components(np.zeros((5, 2)), np.zeros((5, 2)))
    assert result.interaction.estimate == 0.0
    assert math.isnan(result.interaction.low)
    assert math.isnan(result.interaction_sd.high)


def test_one_run_takes_its_repeat_variance_twice() -> None:
    # Repeats (0, 1) and (1, 1): variances 1/2 and 0, mean 1/4.
    parts = scoring.components_of_one_run([[0.0, 1.0], [1.0, 1.0]], 0.2)
    assert parts.repeat == pytest.approx(0.5)
    assert parts.interaction == pytest.approx(0.04)


PARTS = LEVELS[".15"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Components(-0.1, 0.1), "variance interaction"),
        (lambda: Components(0.1, math.nan), "variance repeat"),
        (lambda: scoring.components_of_one_run([[0.5], [1.0]], 0.1), "one repeat"),
        (lambda: scoring.minimum_detectable(PARTS, 1, 3), "two scenarios"),
        (lambda: scoring.minimum_detectable(PARTS, 20, 0), "n_repeats"),
        (lambda: scoring.minimum_detectable(PARTS, 20, 3, power=0.3), "power"),
        (lambda: scoring.minimum_detectable(PARTS, 20, 3, level=1.5), "level"),
        (lambda: scoring.scenarios_needed(PARTS, 0.0, 3), "wanted difference"),
        (lambda: scoring.scenarios_needed(PARTS, 1e-9, 3), "more than 10000000 scenarios"),
        (lambda: scoring.best_plan(PARTS, 0.1, scenario_cost=-1.0, trial_cost=1.0), "costs"),
        (lambda: scoring.best_plan(PARTS, 0.1, scenario_cost=1.0, trial_cost=0.0), "costs"),
        (lambda: scoring.estimate_components(np.zeros((3, 2)), np.zeros((4, 2))), "pair them first"),
        (lambda: scoring.estimate_components(np.zeros((2, 2)), np.zeros((2, 2))), "three scenarios"),
        (lambda: scoring.estimate_components(np.zeros((3, 1)), np.zeros((3, 2))), "two repeats"),
    ],
)
def test_plans_without_numbers_are_refused(call: Any, message: str) -> None:
    with pytest.raises(scoring.ScoringError, match=message):
        call()
