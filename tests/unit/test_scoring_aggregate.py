from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scoring


def test_scenario_mean_is_over_planned_repeats() -> None:
    # (1 + 0 + 1/2) / 3 = 1/2
    assert scoring.scenario_means([[1.0, 0.0, 0.5]]).tolist() == [0.5]


def test_suite_mean_without_splits_weighs_scenarios_equally() -> None:
    result = scoring.suite_mean([1.0, 0.0, 0.5, 0.5])
    assert (result.mean, result.split_means) == (0.5, None)


def test_suite_mean_with_splits_weighs_splits_equally() -> None:
    # public: (1 + 0 + 1/2)/3 = 1/2; private: 1; mean of the two 3/4, where the plain mean would be 5/8.
    result = scoring.suite_mean([1.0, 0.0, 0.5, 1.0], [0, 0, 0, 1])
    assert result.split_means is not None
    assert result.split_means.tolist() == [0.5, 1.0]
    assert result.mean == 0.75


def test_spread_is_the_sample_standard_deviation() -> None:
    # 0, 1/2, 1: mean 1/2, squares 1/4 + 0 + 1/4, divided by n - 1 = 2, root of 1/4.
    assert scoring.repeat_spread([[0.0, 0.5, 1.0]]).tolist() == [0.5]


def test_one_repeat_has_no_spread_rather_than_zero() -> None:
    assert np.isnan(scoring.repeat_spread([[0.5], [1.0]])).all()


def test_spread_agrees_with_numpy() -> None:
    table = np.random.default_rng(5).random((7, 4))
    np.testing.assert_allclose(scoring.repeat_spread(table), table.std(axis=1, ddof=1), rtol=1e-12)


def test_bounds_take_unscored_trials_as_zero_and_as_one() -> None:
    # scenario a: 1 and 1; scenario b: one unscored, one 0: (1 + 0)/2 = 1/2 and (1 + 1/2)/2 = 3/4.
    scores = [[1.0, 1.0], [np.nan, 0.0]]
    assert scoring.suite_bounds(scores, [[True, True], [False, True]]) == (0.5, 0.75)


def test_bounds_respect_splits() -> None:
    scores = [[1.0], [1.0], [np.nan]]
    scored = [[True], [True], [False]]
    assert scoring.suite_bounds(scores, scored, [0, 0, 1]) == (0.5, 1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: scoring.scenario_means([[0.5, float("nan")]]), r"lie in \[0, 1\]"),
        (lambda: scoring.scenario_means([[1.5]]), r"lie in \[0, 1\]"),
        (lambda: scoring.scenario_means([0.5]), "2 axes"),
        (lambda: scoring.scenario_means(np.zeros((0, 3))), "empty"),
        (lambda: scoring.scenario_means([["a"]]), "must hold numbers"),
        (lambda: scoring.suite_mean([]), "empty"),
        (lambda: scoring.suite_mean([0.5, 0.5], [0]), "shape"),
        (lambda: scoring.suite_mean([0.5, 0.5], [0, -1]), "not be negative"),
        (lambda: scoring.suite_mean([0.5, 0.5], [0, 2]), "empty split"),
        (lambda: scoring.suite_mean([0.5, 0.5], [0.0, 1.0]), "must hold integers"),
        (lambda: scoring.suite_bounds([[0.5]], [[1]]), "booleans"),
        (lambda: scoring.suite_bounds([[0.5, 0.5]], [[True]]), "shape of scores"),
        (lambda: scoring.suite_bounds([[2.0]], [[True]]), r"lie in \[0, 1\]"),
    ],
)
def test_tables_that_are_no_scores_are_refused(call: Any, message: str) -> None:
    with pytest.raises(scoring.ScoringError, match=message):
        call()
