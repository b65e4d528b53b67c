from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import scoring

SCORES = [1.0, 0.0, 0.5, 1.0, 1 / 3, 0.0, 0.5, 1.0]
BLIND = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]


def test_lift_by_hand() -> None:
    # Headline 4.3333/8, blind 2/8.
    result = scoring.lift_over_blind(SCORES, BLIND)
    assert result.difference.estimate == pytest.approx((13 / 3 - 2) / 8)
    assert result.share.estimate == pytest.approx((13 / 3 - 2) / 6)


def test_against_one_number_the_lift_is_the_shifted_headline() -> None:
    headline = scoring.mean_interval(SCORES)
    result = scoring.lift_over_blind(SCORES, 0.325)
    expected = headline.low - 0.325, headline.high - 0.325
    assert (result.difference.low, result.difference.high) == pytest.approx(expected, abs=1e-10)
    share = (headline.low - 0.325) / 0.675, (headline.high - 0.325) / 0.675
    assert (result.share.low, result.share.high) == pytest.approx(share, abs=1e-10)


def test_lift_against_draws() -> None:
    # Scores of 1/2, 1/3 and 1/2 (blind 0) lend 1.5 / 9 of their weight: 4/3 sixths to 1, 5/3 sixths to 0.
    scores = np.array([*SCORES, 0.0, 1.0, 1.0, 0.0])
    blind = np.array([*BLIND, 0.25, 0.25, 0.0, 0.0])
    weights = [1.0 if score in (0.0, 1.0) else 5 / 6 for score in SCORES] + [0.5, 0.5, 4 / 18, 5 / 18]
    parts = np.random.default_rng(3).dirichlet(weights, 1_000_000)
    difference = np.quantile(parts @ (scores - blind), [0.025, 0.975])
    share = np.quantile(parts @ (scores - blind) / (parts @ (1 - blind)), [0.025, 0.975])
    result = scoring.lift_over_blind(SCORES, BLIND)
    assert (result.difference.low, result.difference.high) == pytest.approx(difference, abs=2e-3)
    assert (result.share.low, result.share.high) == pytest.approx(share, abs=3e-3)


def test_an_agent_as_good_as_blind_has_an_interval_around_zero() -> None:
    result = scoring.lift_over_blind(BLIND, BLIND)
    assert result.difference.low < 0.0 < result.difference.high
    assert result.share.low < 0.0 < result.share.high


def test_blind_that_leaves_nothing_has_no_share() -> None:
    result = scoring.lift_over_blind([1.0, 0.5], [1.0, 1.0])
    assert math.isnan(result.share.estimate)
    assert math.isnan(result.share.low)
    assert result.difference.estimate == -0.25


def test_splits_weigh_the_same_and_hold_blind_in_the_share() -> None:
    split = [0, 0, 0, 0, 0, 0, 1, 1]
    result = scoring.lift_over_blind(SCORES, BLIND, split_of=split)
    headline = scoring.suite_mean(SCORES, split).mean
    blind = scoring.suite_mean(BLIND, split).mean
    assert result.difference.estimate == pytest.approx(headline - blind)
    assert result.share.estimate == pytest.approx((headline - blind) / (1 - blind))
    assert result.share.low == pytest.approx(result.difference.low / (1 - blind))
    assert "blind held fixed" in result.share.method
    assert "2 splits" in result.difference.method


def test_families_are_the_units() -> None:
    result = scoring.lift_over_blind(SCORES, 0.0, family_of=[0, 0, 0, 1, 1, 2, 2, 2])
    headline = scoring.mean_interval(SCORES, family_of=[0, 0, 0, 1, 1, 2, 2, 2])
    assert (result.difference.unit, result.difference.n_units) == ("family", 3)
    assert result.difference.low == pytest.approx(headline.low, abs=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: scoring.lift_over_blind(SCORES, [0.5]), "one value per scenario"),
        (lambda: scoring.lift_over_blind(SCORES, 1.5), r"lie in \[0, 1\]"),
        (lambda: scoring.lift_over_blind(SCORES, BLIND, level=2.0), "level"),
    ],
)
def test_blind_that_is_no_score_is_refused(call: Any, message: str) -> None:
    with pytest.raises(scoring.ScoringError, match=message):
        call()
