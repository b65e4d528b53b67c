from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import scipy.stats

import scoring


def test_each_group_has_its_own_interval() -> None:
    table = scoring.group_intervals([0.0, 1.0, 0.5, 0.5, 1.0], [0, 0, 1, 1, 1])
    assert [group.estimate for group in table] == pytest.approx([0.5, 2 / 3])
    assert [group.n_units for group in table] == [2, 3]
    assert table[0].low == scoring.mean_interval([0.0, 1.0]).low


def test_prediction_interval_by_hand() -> None:
    # Three groups of two: means .2, .5, .9; within each +-.1, so the pooled variance is 6 * .01 / 3 = .02
    # and each mean has variance .01, weight 100.
    values = [0.1, 0.3, 0.4, 0.6, 0.8, 1.0]
    centre = 1.6 / 3
    q = 100 * sum((m - centre) ** 2 for m in (0.2, 0.5, 0.9))
    between = (q - 2) / (300 - 3 * 100**2 / 300)
    reach = float(scipy.stats.t.ppf(0.975, 1)) * math.sqrt(between + (0.01 + between) / 3)
    result = scoring.prediction_interval(values, [0, 0, 1, 1, 2, 2], bounds=(-1.0, 1.0))
    assert result is not None
    assert result.mean == pytest.approx(centre)
    assert result.between_sd == pytest.approx(math.sqrt(between))
    assert (result.low, result.high) == (max(-1.0, centre - reach), 1.0)
    assert (result.n_groups, result.n_scenarios, result.level) == (3, 6, 0.95)
    narrow = scoring.prediction_interval(values, [0, 0, 1, 1, 2, 2], level=0.2)
    assert narrow is not None
    # t with one degree of freedom at .6 is tan(.1 pi).
    small = math.tan(0.1 * math.pi) * math.sqrt(between + (0.01 + between) / 3)
    assert (narrow.low, narrow.high) == pytest.approx((centre - small, centre + small))


def test_groups_closer_than_chance_have_no_spread_between() -> None:
    result = scoring.prediction_interval([0.0, 1.0] * 4, [0, 0, 1, 1, 2, 2, 3, 3])
    assert result is not None
    assert result.between_sd == 0.0


@pytest.mark.parametrize(
    ("values", "groups"),
    [([0.0, 1.0, 0.5, 0.2], [0, 0, 1, 1]), ([0.0, 1.0, 0.5], [0, 1, 2]), ([0.5] * 6, [0, 0, 1, 1, 2, 2])],
    ids=["two groups", "one scenario each", "no spread"],
)
def test_too_little_for_a_prediction_is_none(values: list[float], groups: list[int]) -> None:
    assert scoring.prediction_interval(values, groups) is None


def test_interaction_p_value_against_all_permutations() -> None:
    values, groups = np.array([0.5, 0.25, -0.5, 0.0, -0.25]), np.array([0, 0, 1, 1, 1])

    def statistic(order: Any) -> float:
        moved = values[list(order)]
        return float(moved[:2].sum() ** 2 / 2 + moved[2:].sum() ** 2 / 3)

    observed = statistic(range(5))
    exact = np.mean([statistic(order) >= observed - 1e-12 for order in permutations(range(5))])
    p = scoring.interaction_p_value(values, groups, np.random.default_rng(0), n_resamples=4_000)
    assert p == pytest.approx(exact, abs=0.025)


def test_interaction_p_value_is_never_zero() -> None:
    values = [1.0] * 20 + [-1.0] * 20
    p = scoring.interaction_p_value(values, [0] * 20 + [1] * 20, np.random.default_rng(0), n_resamples=9)
    assert p == 0.1


def test_leaving_a_group_out_shows_a_winner_of_elsewhere() -> None:
    # Agent 0 is best on group 0 only; pooled without group 0, agent 1 wins and loses .5 there.
    scores = [[1.0, 1.0, 0.0, 0.0], [0.5, 0.5, 1.0, 1.0]]
    result = scoring.leave_one_group_out(scores, [0, 0, 1, 1])
    assert result.winner.tolist() == [1, 0]
    assert result.best.tolist() == [0, 1]
    assert result.regret.tolist() == [0.5, 1.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: scoring.leave_one_group_out([[0.5, 0.5]], [0, 0]), "at least two groups"),
        (lambda: scoring.group_intervals([0.5, 0.5], [0, 2]), "group_of must use every label"),
        (lambda: scoring.prediction_interval([-0.5, 0.5, 0.1], [0, 1, 2]), r"lie in \[0, 1\]"),
        (lambda: scoring.prediction_interval([0.5], [0], bounds=(1.0, 0.0)), "bounds"),
        (
            lambda: scoring.interaction_p_value([0.5], [0], np.random.default_rng(0), n_resamples=0),
            "n_resamples",
        ),
    ],
)
def test_groups_that_make_no_table_are_refused(call: Any, message: str) -> None:
    with pytest.raises(scoring.ScoringError, match=message):
        call()
