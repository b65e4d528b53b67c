from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.stats

import scoring
from scoring.betting import betting_bounds
from scoring.intervals import Method, mean_interval, strict_bounds

SCORES = [0.0, 0.0, 1.0, 0.5, 1 / 3, 0.5, 0.25, 1.0, 0.0, 0.75]


def ends(interval: scoring.Interval) -> tuple[float, float]:
    return interval.low, interval.high


def test_the_interval_says_what_it_is_about() -> None:
    interval = mean_interval([0.0, 1.0, 0.5])
    assert (interval.estimate, interval.level, interval.unit, interval.n_units) == (0.5, 0.95, "scenario", 3)
    assert "half an atom" in interval.method
    assert interval.estimand == "mean score over scenarios like these"
    assert interval.half_width == (interval.high - interval.low) / 2


def test_default_on_binary_scores_is_the_interval_of_jeffreys() -> None:
    # 7 of 20: Beta(7.5, 13.5).
    expected = scipy.stats.beta.ppf([0.025, 0.975], 7.5, 13.5)
    assert ends(mean_interval([1.0] * 7 + [0.0] * 13)) == pytest.approx(expected, abs=1e-10)


def test_scores_between_the_bounds_lend_to_them() -> None:
    # 1.5 / 5 of the weight of .5 and of .2 goes to the bounds in their ratio: .15 + .06 to 1, .15 + .24 to 0.
    parts = np.random.default_rng(4).dirichlet([1.0, 1.0, 0.7, 0.7, 0.5 + 0.21, 0.5 + 0.39], 1_000_000)
    expected = np.quantile(parts @ [1.0, 0.0, 0.5, 0.2, 1.0, 0.0], [0.025, 0.975])
    assert ends(mean_interval([1.0, 0.0, 0.5, 0.2])) == pytest.approx(expected, abs=2e-3)


def test_a_lone_half_point_among_zeros_reaches_the_mean_of_its_model() -> None:
    # The cell of the coverage study that decided: without the loan the upper end is .1490, the mean .1501.
    assert mean_interval([0.5] + [0.0] * 19).high > 0.1502


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_t_against_scipy(level: float) -> None:
    result = scipy.stats.ttest_1samp(SCORES, 0.0).confidence_interval(level)
    expected = max(0.0, result.low), min(1.0, result.high)
    assert ends(mean_interval(SCORES, method="t", level=level)) == pytest.approx(expected, abs=1e-12)


def test_t_with_splits_against_welch() -> None:
    # The mean of two split means is half of the difference of one and the mirrored other: Welch's interval.
    first, second = np.array(SCORES[:6]), np.array(SCORES[6:])
    welch = scipy.stats.ttest_ind(first, -second, equal_var=False).confidence_interval(0.95)
    interval = mean_interval(SCORES, split_of=[0] * 6 + [1] * 4, method="t")
    assert ends(interval) == pytest.approx((max(0.0, welch.low / 2), min(1.0, welch.high / 2)), abs=1e-12)


def test_t_with_families_is_t_on_family_means_when_sizes_agree() -> None:
    means = np.array(SCORES).reshape(5, 2).mean(axis=1)
    result = scipy.stats.ttest_1samp(means, 0.0).confidence_interval(0.95)
    interval = mean_interval(SCORES, family_of=np.repeat(np.arange(5), 2), method="t")
    assert ends(interval) == pytest.approx((max(0.0, result.low), min(1.0, result.high)), abs=1e-12)
    assert (interval.unit, interval.n_units) == ("family", 5)


def test_families_of_different_sizes_keep_the_mean_over_scenarios() -> None:
    interval = mean_interval([1.0, 1.0, 1.0, 0.0], family_of=[0, 0, 0, 1])
    assert interval.estimate == 0.75


def test_families_against_draws() -> None:
    # Units weigh as many scenarios as they have (3 and 1, mean 2), half atoms the mean size. The score of 1/4
    # lends 1.5 / 3 of its weight at its own size: a quarter of that to 1 and three quarters to 0.
    values, sizes = np.array([1.0, 0.25, 1.0, 0.0, 0.0, 1.0]), np.array([3.0, 1.0, 1.0, 1.0, 2.0, 2.0])
    parts = np.random.default_rng(2).dirichlet([1.0, 0.5, 0.125, 0.375, 0.5, 0.5], 1_000_000) * sizes
    expected = np.quantile(parts @ values / parts.sum(axis=1), [0.025, 0.975])
    interval = mean_interval([1.0, 1.0, 1.0, 0.25], family_of=[0, 0, 0, 1])
    assert ends(interval) == pytest.approx(expected, abs=2e-3)


def test_splits_are_combined_by_mover() -> None:
    first, second = mean_interval(SCORES[:6]), mean_interval(SCORES[6:])
    both = mean_interval(SCORES, split_of=[0] * 6 + [1] * 4)
    middle = (first.estimate + second.estimate) / 2
    below = np.hypot(first.estimate - first.low, second.estimate - second.low) / 2
    above = np.hypot(first.high - first.estimate, second.high - second.estimate) / 2
    assert both.estimate == pytest.approx(middle)
    assert ends(both) == pytest.approx((middle - below, middle + above), abs=1e-14)


def test_a_family_across_splits_adds_distances_plainly() -> None:
    options: dict[str, Any] = {"split_of": [0, 0, 0, 1, 1, 1], "family_of": [0, 1, 2, 0, 1, 3]}
    scores = [0.0, 0.5, 1.0, 0.0, 1.0, 0.5]
    first, second = mean_interval(scores[:3]), mean_interval(scores[3:])
    crossed = mean_interval(scores, **options)
    assert ends(crossed) == pytest.approx(((first.low + second.low) / 2, (first.high + second.high) / 2))


def test_t_for_families_across_splits_by_hand() -> None:
    # Both split means are 1/2 and each scenario weighs 1/4, so the families add (-1/2 + 1/4)/4 = -1/16 and
    # (1/2 - 1/4)/4 = 1/16: se^2 = 2/1 * (1/256 + 1/256) = 1/64. t with one degree of freedom is 12.7 at .975.
    interval = mean_interval(
        [0.0, 1.0, 0.75, 0.25], split_of=[0, 0, 1, 1], family_of=[0, 1, 0, 1], method="t"
    )
    assert interval.low == 0.0
    narrow = mean_interval(
        [0.0, 1.0, 0.75, 0.25], split_of=[0, 0, 1, 1], family_of=[0, 1, 0, 1], method="t", level=0.5
    )
    # t_1 at .75 is 1.
    assert ends(narrow) == pytest.approx((0.5 - 1 / 8, 0.5 + 1 / 8))


def test_strict_on_binary_scores_is_clopper_pearson() -> None:
    for c in (0, 3, 20):
        result = scipy.stats.binomtest(c, 20).proportion_ci(0.95, method="exact")
        interval = mean_interval([1.0] * c + [0.0] * (20 - c), method="strict")
        assert ends(interval) == pytest.approx((result.low, result.high), abs=1e-10)


def test_strict_with_splits_shares_the_error() -> None:
    first, second = strict_bounds(np.array(SCORES[:6]), 0.975), strict_bounds(np.array(SCORES[6:]), 0.975)
    interval = mean_interval(SCORES, split_of=[0] * 6 + [1] * 4, method="strict")
    assert ends(interval) == pytest.approx(((first[0] + second[0]) / 2, (first[1] + second[1]) / 2))


def test_strict_says_when_families_weigh_the_same() -> None:
    interval = mean_interval([1.0, 1.0, 1.0, 0.0], family_of=[0, 0, 0, 1], method="strict")
    assert interval.estimate == 0.5
    assert "each family weighs the same" in interval.method
    even = mean_interval([1.0, 0.0], family_of=[0, 1], method="strict")
    assert "weighs" not in even.method


def betting_by_grid(values: list[float], alpha: float) -> tuple[float, float]:
    """Hedged capital on a grid of candidates, one value at a time, kept out once it has won."""
    kept = []
    for candidate in np.arange(1, 1000) / 1000:
        total, squares, up, down, alive = 0.5, 0.25, 1.0, 1.0, True
        for i, value in enumerate(values):
            stake = np.sqrt(2 * np.log(2 / alpha) / (squares / (i + 1) * (i + 1) * np.log(i + 2)))
            up *= 1 + min(stake, 0.5 / candidate) * (value - candidate)
            down *= 1 - min(stake, 0.5 / (1 - candidate)) * (value - candidate)
            alive = alive and max(up, down) < 2 / alpha
            total += value
            squares += (value - total / (i + 2)) ** 2
        if alive:
            kept.append(float(candidate))
    return min(kept), max(kept)


def test_betting_against_a_grid_of_candidates() -> None:
    values = [0.0, 0.0, 0.5, 0.0, 0.25, 0.0, 1.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.25]
    assert betting_bounds(np.array(values), 0.95) == pytest.approx(betting_by_grid(values, 0.05), abs=2e-3)


def test_sequential_interval_only_shrinks_with_more_scenarios() -> None:
    values = np.random.default_rng(1).random(40)
    looks = [mean_interval(values[:n], method="sequential") for n in range(1, 41)]
    assert all(a.low <= b.low and b.high <= a.high for a, b in pairwise(looks))


def test_betting_on_values_that_drift_returns_the_ends_in_order() -> None:
    low, high = betting_bounds(np.array([1.0] * 60 + [0.0] * 400), 0.95)
    assert low <= high


def test_bootstrap_against_scipy() -> None:
    expected = scipy.stats.bootstrap(
        (np.array(SCORES),), np.mean, method="percentile", rng=np.random.default_rng(0), n_resamples=200_000
    ).confidence_interval
    interval = mean_interval(SCORES, method="bootstrap", rng=np.random.default_rng(1), n_resamples=200_000)
    assert ends(interval) == pytest.approx((expected.low, expected.high), abs=0.012)


def test_bootstrap_is_the_same_for_the_same_generator() -> None:
    first, again = (mean_interval(SCORES, method="bootstrap", rng=np.random.default_rng(7)) for _ in range(2))
    assert first == again


@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize("scores", [[0.0] * 20, [1.0] * 59, [0.5], [1 / 3] * 4, [0.0], [0.1 + 0.2, 0.3]])
def test_no_interval_has_zero_width(method: Method, scores: list[float]) -> None:
    interval = mean_interval(scores, method=method, rng=np.random.default_rng(0))
    assert 0.0 <= interval.low < interval.high <= 1.0
    assert interval.half_width > 0.01


@pytest.mark.parametrize("method", ["t", "bootstrap"])
def test_equal_scores_fall_back_and_say_so(method: str) -> None:
    interval = mean_interval([0.5] * 5, method=method, rng=np.random.default_rng(0))
    assert ends(interval) == ends(mean_interval([0.5] * 5))
    assert "half atom instead" in interval.method


def test_a_split_with_one_scenario_falls_back_in_t() -> None:
    interval = mean_interval([0.5, 0.2, 0.4], split_of=[0, 1, 1], method="t")
    assert ends(interval) == ends(mean_interval([0.5, 0.2, 0.4], split_of=[0, 1, 1]))


def test_resamples_that_hardly_vary_fall_back() -> None:
    # One resample has no width.
    interval = mean_interval(SCORES, method="bootstrap", rng=np.random.default_rng(0), n_resamples=1)
    assert "half atom instead" in interval.method


def test_all_zero_with_splits_starts_at_zero() -> None:
    interval = mean_interval([0.0] * 20, split_of=[0, 1] * 10)
    assert interval.low == 0.0
    assert interval.high > 0.05


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_interval([]), "empty"),
        (lambda: mean_interval([0.5, np.nan]), "NaN is not a score"),
        (lambda: mean_interval([0.5], level=1.0), "level"),
        (lambda: mean_interval([0.5], method="wald"), "known: half-atom, t, strict"),
        (lambda: mean_interval(SCORES, method="bootstrap"), "pass rng"),
        (
            lambda: mean_interval(SCORES, method="bootstrap", rng=np.random.default_rng(0), n_resamples=0),
            "n_resamples",
        ),
        (lambda: mean_interval([0.5, 0.5], split_of=[0, 2]), "an empty one has no mean"),
        (lambda: mean_interval([0.5, 0.5], family_of=[-1, 0]), "family_of must not be negative"),
        (lambda: mean_interval([0.5, 0.5], family_of=[0]), "family_of must have shape"),
        (
            lambda: mean_interval(
                [0.0, 1.0, 0.5, 0.2],
                method="bootstrap",
                split_of=[0, 0, 1, 1],
                family_of=[0, 1, 0, 1],
                rng=np.random.default_rng(0),
            ),
            "families that lie in several splits",
        ),
    ],
)
def test_arguments_that_make_no_interval_are_refused(call: Any, message: str) -> None:
    with pytest.raises(scoring.ScoringError, match=message):
        call()


def test_default_covers_in_a_small_simulation() -> None:
    # 600 data sets of 20 scenarios x 3 repeats, chances Beta(.3, 1.3), wrong entities geometric; s.e. .009.
    # One-sided: at least .95 minus three standard errors.
    rng = np.random.default_rng(20261130)

    def means(n: int) -> np.ndarray:
        is_full = rng.random((n, 3)) < rng.beta(0.3, 1.3, n)[:, None]
        roots = rng.integers(1, 5, n)[:, None]
        wrong = rng.geometric(1.0 / (1.0 + np.broadcast_to(rng.gamma(2.0, 0.5, n)[:, None], (n, 3)))) - 1
        return np.where(is_full, roots / (roots + wrong), 0.0).mean(axis=1)

    truth = float(means(400_000).mean())
    hits = [i.low <= truth <= i.high for i in (mean_interval(means(20)) for _ in range(600))]
    assert np.mean(hits) >= 0.95 - 0.027


def test_one_bootstrap_of_several_series_keeps_how_they_depend() -> None:
    rng = np.random.default_rng(5)
    scores, sizes = rng.random((3, 12)), rng.choice([0.5, 1.0, 1.5], 12)
    means = scoring.bootstrap_means([*scores, scores[0] - scores[1]], sizes, np.random.default_rng(6))
    assert means[3] == pytest.approx(means[0] - means[1], abs=1e-12)
    alone = scoring.bootstrap_means(scores[:1], sizes, np.random.default_rng(6))
    assert alone[0] == pytest.approx(means[0], rel=1e-12)
    # Equal numbers of units: the mean over resamples is near the weighted mean, its spread 1/sqrt(10,000).
    expected = scores[0] @ sizes / sizes.sum()
    assert means[0].mean() == pytest.approx(expected, abs=5 * means[0].std() / 100)
    assert means[0].std() == pytest.approx(
        np.sqrt((sizes**2 * (scores[0] - expected) ** 2).sum()) / sizes.sum(), rel=0.1
    )
