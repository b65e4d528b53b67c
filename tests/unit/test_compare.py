from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.stats

import scoring
from scoring.flips import MAX_EXACT, max_t_p_values, random_flip_p_values, sign_flip_test

BEFORE = [0.5, 0.0, 1.0, 0.25, 0.5, 0.0, 1.0, 0.75]
AFTER = [0.5, 0.5, 1.0, 1.0, 0.25, 0.5, 1.0, 1.0]


def all_patterns(differences: list[float]) -> float:
    """Sign-flip p-value by the definition: every pattern of every difference, zeros too."""
    sums = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in product((1, -1), repeat=len(differences))
    ]
    return float(np.mean([total >= sums[0] - 1e-9 for total in sums]))


def test_sign_flip_by_hand() -> None:
    # 1, 1, 1: of 8 patterns two reach a sum of 3.
    result = sign_flip_test(np.array([1.0, 1.0, 1.0, 0.0]))
    assert (result.p_value, result.n_nonzero, result.is_exact, result.n_resamples) == (0.25, 3, True, None)


@pytest.mark.parametrize("seed", range(5))
def test_exact_sign_flip_against_all_patterns(seed: int) -> None:
    differences = np.random.default_rng(seed).integers(-3, 4, 11) / 3
    assert sign_flip_test(differences).p_value == pytest.approx(all_patterns(differences.tolist()), abs=1e-12)


def test_exact_sign_flip_against_scipy() -> None:
    differences = np.random.default_rng(9).normal(0.3, 1.0, 12)
    expected = scipy.stats.permutation_test(
        (differences,), np.sum, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
    ).pvalue
    assert sign_flip_test(differences).p_value == pytest.approx(expected, abs=1e-12)


def test_rounding_does_not_split_ties() -> None:
    # .1 + .2 - .3 is 5.6e-17 in floats: all four patterns of sum 0 or .6 count as they are.
    assert sign_flip_test(np.array([0.1, 0.2, -0.3])).p_value == 1.0


def test_random_signs_agree_with_enumeration() -> None:
    differences = np.random.default_rng(1).normal(0.4, 1.0, 16)
    exact = sign_flip_test(differences).p_value
    drawn = random_flip_p_values(differences[:, None], np.random.default_rng(2), 50_000)[0]
    # Standard error sqrt(.25 / 50,000) = .0022 at most.
    assert drawn == pytest.approx(exact, abs=0.008)


def test_many_differences_are_drawn_and_never_zero() -> None:
    differences = np.full(MAX_EXACT + 1, 0.5)
    result = sign_flip_test(differences, np.random.default_rng(0), 99)
    # (0 + 1) / (99 + 1)
    assert (result.p_value, result.is_exact, result.n_resamples) == (0.01, False, 99)


def test_no_difference_at_all_has_a_p_value_of_one() -> None:
    assert sign_flip_test(np.zeros(30)).p_value == 1.0


def test_t_interval_of_the_difference_against_scipy() -> None:
    expected = scipy.stats.ttest_rel(AFTER, BEFORE).confidence_interval(0.95)
    result = scoring.paired_difference(BEFORE, AFTER)
    assert (result.interval.low, result.interval.high) == pytest.approx((expected.low, expected.high))
    assert result.interval.estimate == pytest.approx(np.mean(AFTER) - np.mean(BEFORE))
    differences = (np.array(AFTER) - np.array(BEFORE)).tolist()
    assert result.p_value == pytest.approx(all_patterns(differences))
    assert (result.interval.n_units, result.test.n_nonzero) == (8, 5)


def test_minimum_detectable_difference_by_hand() -> None:
    error = scipy.stats.sem(np.array(AFTER) - np.array(BEFORE))
    expected = (scipy.stats.t.ppf(0.975, 7) + scipy.stats.t.ppf(0.8, 7)) * error
    assert scoring.paired_difference(BEFORE, AFTER).minimum_detectable == pytest.approx(expected)


@pytest.mark.parametrize("shift", [0.0, 0.25])
def test_differences_that_all_tie_get_half_atoms_instead_of_a_point(shift: float) -> None:
    before = np.array([0.0, 0.5, 0.1, 0.7])
    result = scoring.paired_difference(before, before + shift)
    assert result.interval.low < shift < result.interval.high
    assert result.interval.half_width > 0.1
    assert "half atom instead, on [-1, 1]" in result.interval.method
    assert math.isnan(result.minimum_detectable)
    # Four equal differences: 2 of 16 patterns; none: 1.
    assert result.p_value == (1.0 if shift == 0.0 else 0.125)


def test_rounding_errors_are_no_differences() -> None:
    before = np.array([0.3, 0.6, 0.0])
    result = scoring.paired_difference(before, [0.1 + 0.2, 0.2 * 3, 0.0])
    assert result.test.n_nonzero == 0
    assert "half atom" in result.interval.method


def test_a_difference_with_splits_weighs_them_the_same() -> None:
    split = [0, 0, 0, 0, 0, 1, 1, 1]
    result = scoring.paired_difference(BEFORE, AFTER, split_of=split)
    expected = scoring.suite_mean(AFTER, split).mean - scoring.suite_mean(BEFORE, split).mean
    assert result.interval.estimate == pytest.approx(expected)
    weights = np.array([1 / 10] * 5 + [1 / 6] * 3)
    parts = weights * (np.array(AFTER) - np.array(BEFORE))
    assert result.p_value == pytest.approx(all_patterns(parts.tolist()))
    assert "mean of 2 splits" in result.interval.method


def test_families_flip_together() -> None:
    family = [0, 0, 1, 1, 2, 2, 3, 3]
    result = scoring.paired_difference(BEFORE, AFTER, family_of=family)
    parts = (np.array(AFTER) - np.array(BEFORE)).reshape(4, 2).sum(axis=1)
    assert result.p_value == pytest.approx(all_patterns(parts.tolist()))
    expected = scipy.stats.ttest_1samp(parts / 2, 0.0).confidence_interval(0.95)
    assert (result.interval.low, result.interval.high) == pytest.approx((expected.low, expected.high))


def test_more_than_twenty_differences_need_a_generator() -> None:
    with pytest.raises(scoring.ScoringError, match="pass rng"):
        scoring.paired_difference(np.zeros(30), np.linspace(0.1, 0.9, 30))


def compared(before: Any, after: Any) -> scoring.PairedDifference:
    return scoring.paired_difference(before, after, rng=np.random.default_rng(0))


def test_decisions() -> None:
    low, high = np.tile([0.0, 0.1], 8), np.tile([0.9, 1.0, 0.8, 0.9], 4)
    assert scoring.decide(compared(high, low), 0.05) is scoring.Decision.REGRESSION
    assert scoring.decide(compared(low, high), 0.05) is scoring.Decision.IMPROVEMENT
    few = compared([0.0, 1.0, 0.5], [0.5, 0.0, 0.5])
    assert scoring.decide(few, 0.05) is scoring.Decision.UNDECIDED
    # 200 equal scenarios: half atoms on [-1, 1] reach about .02 to both sides.
    same = compared(np.zeros(200), np.zeros(200))
    assert scoring.decide(same, 0.05) is scoring.Decision.NOT_WORSE
    assert scoring.decide(same, 0.001) is scoring.Decision.UNDECIDED


def test_an_adjusted_p_value_can_undo_a_decision() -> None:
    result = compared(np.tile([0.9, 1.0, 0.8, 0.9], 4), np.tile([0.0, 0.1], 8))
    assert scoring.decide(result, 0.05, p_value=0.2) is scoring.Decision.UNDECIDED


# statsmodels 0.15.0: statsmodels.stats.multitest.multipletests(p, method="holm")[1]
@pytest.mark.parametrize(
    ("p_values", "adjusted"),
    [
        ([0.01, 0.04, 0.03, 0.005, 0.2], [0.04, 0.09, 0.09, 0.025, 0.2]),
        ([0.01, 0.04, 0.03, 0.005, 0.5, 0.9], [0.05, 0.12, 0.12, 0.03, 1.0, 1.0]),
        ([0.3], [0.3]),
    ],
)
def test_holm_against_statsmodels(p_values: list[float], adjusted: list[float]) -> None:
    np.testing.assert_allclose(scoring.holm(p_values), adjusted, rtol=1e-12)


def test_max_t_against_a_loop_over_all_patterns() -> None:
    # Step-down by the definition, on the complete set of sign patterns.
    columns = np.array(
        [[0.5, 0.1, 0.0], [0.25, -0.2, 0.1], [0.5, 0.3, -0.3], [0.75, 0.1, 0.2], [0.4, 0.0, 0.1]]
    )
    statistic = np.abs(columns.sum(axis=0)) / np.sqrt((columns**2).sum(axis=0))
    patterns = np.array(list(product((1.0, -1.0), repeat=5)))
    flipped = np.abs(patterns @ columns) / np.sqrt((columns**2).sum(axis=0))
    order = np.argsort(-statistic)
    expected, last = np.empty(3), 0.0
    for place, column in enumerate(order):
        rest = flipped[:, order[place:]].max(axis=1)
        last = max(last, float(np.mean(rest >= statistic[column] - 1e-12)))
        expected[column] = last
    found = max_t_p_values(columns, np.random.default_rng(0), 40_000)
    np.testing.assert_allclose(found, expected, atol=0.01)


def test_max_t_of_one_column_is_the_sign_flip_test() -> None:
    differences = np.random.default_rng(3).normal(0.3, 1.0, 25)[:, None]
    alone = random_flip_p_values(differences, np.random.default_rng(4), 2_000)
    together = max_t_p_values(differences, np.random.default_rng(4), 2_000)
    assert together.tolist() == alone.tolist()


def test_all_pairs_tells_the_good_from_the_bad() -> None:
    rng = np.random.default_rng(5)
    bad, good = rng.random((2, 40)) * 0.3, 0.7 + rng.random((2, 40)) * 0.3
    result = scoring.all_pairs(np.concatenate([bad, good]), rng, n_resamples=2_000)
    assert result.pairs.tolist() == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    assert [bool(p <= 0.05) for p in result.p_values] == [False, True, True, True, True, False]
    assert [set(group) for group in result.groups] == [{2, 3}, {0, 1}]
    np.testing.assert_allclose(result.means, np.concatenate([bad, good]).mean(axis=1))
    np.testing.assert_allclose(result.differences[1], bad[0].mean() - good[0].mean())
    assert result.is_separable.tolist() == result.is_separable.T.tolist()


def test_two_agents_that_never_differ_are_one_group() -> None:
    scores = np.tile(np.linspace(0.0, 1.0, 9), (2, 1))
    result = scoring.all_pairs(scores, np.random.default_rng(0), n_resamples=50)
    assert result.p_values.tolist() == [1.0]
    assert result.groups == ((0, 1),)


def test_groups_overlap_where_only_the_ends_differ() -> None:
    apart = np.zeros((3, 3), dtype=bool)
    apart[0, 2] = apart[2, 0] = True
    assert scoring.groups_not_separable([0.1, 0.2, 0.3], apart) == ((2, 1), (1, 0))


def test_halves_of_one_run_rarely_differ() -> None:
    scores = (np.random.default_rng(0).random((40, 6)) < 0.4).astype(float)
    result = scoring.ab_test(scores, np.random.default_rng(1), n_draws=300, n_resamples=500)
    assert result.n_repeats_each == 3
    assert result.rate.estimate < 0.1
    assert (result.rate.unit, result.rate.n_units) == ("random halving", 300)


def test_repeats_that_never_differ_raise_no_alarm() -> None:
    scores = np.repeat(np.linspace(0.0, 1.0, 12)[:, None], 2, axis=1)
    result = scoring.ab_test(scores, np.random.default_rng(1), n_draws=50, n_resamples=50)
    assert result.rate.estimate == 0.0
    assert result.rate.high > 0.01


def test_type_one_error_in_a_small_simulation() -> None:
    # 500 pairs of agents alike on 20 scenarios x 3 repeats; s.e. .01, so .05 +- three of them.
    rng = np.random.default_rng(20261130)
    called = []
    for _ in range(500):
        logit = rng.normal(size=20)
        runs = [rng.binomial(3, 1.0 / (1.0 + np.exp(-(logit + rng.normal(size=20))))) / 3 for _ in range(2)]
        called.append(scoring.paired_difference(*runs, rng=rng, n_resamples=200).p_value <= 0.05)
    assert 0.02 <= np.mean(called) <= 0.08


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: scoring.paired_difference([0.5], [0.5, 0.5]), "pair them first"),
        (lambda: scoring.paired_difference([0.5], [1.5]), "candidate must lie"),
        (lambda: scoring.paired_difference([0.5], [0.5], power=1.0), "power"),
        (lambda: scoring.decide(compared(BEFORE, AFTER), 0.0), "margin"),
        (lambda: scoring.holm([1.2]), r"p_values must lie in \[0, 1\]"),
        (lambda: scoring.all_pairs([[0.5, 0.5]], np.random.default_rng(0)), "two agents"),
        (
            lambda: scoring.all_pairs([BEFORE, AFTER], np.random.default_rng(0), n_resamples=0),
            "n_resamples",
        ),
        (lambda: scoring.ab_test([[0.5], [0.1]], np.random.default_rng(0)), "one repeat"),
        (lambda: scoring.ab_test([[0.5, 0.5]], np.random.default_rng(0), n_draws=0), "n_draws"),
        (lambda: scoring.ab_test([[0.5, 0.5]], np.random.default_rng(0), n_resamples=0), "n_resamples"),
    ],
)
def test_what_cannot_be_compared_is_refused(call: Any, message: str) -> None:
    with pytest.raises(scoring.ScoringError, match=message):
        call()


def test_blocks_of_flips_only_bound_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    # 24 units: each row of signs takes whole words of the generator, so blocks draw the same signs.
    columns = np.random.default_rng(0).normal(0.2, 1.0, (24, 6))
    whole = max_t_p_values(columns, np.random.default_rng(1), 500)
    monkeypatch.setattr("scoring.flips._BLOCK_SUMS", 40)
    assert max_t_p_values(columns, np.random.default_rng(1), 500).tolist() == whole.tolist()
