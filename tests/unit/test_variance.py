from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats

import scoring
from scoring._anova import f_ends
from scoring.variance import largest_variance, repeat_variance

# One small table; its reference values were computed with pingouin 0.7.0 on SciPy 1.17.1:
# pingouin.intraclass_corr(long, targets="s", raters="r", ratings="y"), rows ICC(1,1) and ICC(1,k).
TABLE = [[1, 0.5, 1], [0, 0, 0.5], [0.25, 0, 0], [1, 1, 1], [0.5, 1, 0], [0, 0.25, 0]]
PINGOUIN_ICC_1, PINGOUIN_ICC_K = 0.638157894736842, 0.841040462427746
PINGOUIN_ICC_1_CI, PINGOUIN_ICC_K_CI = (0.17, 0.93), (0.38, 0.98)


def test_icc_against_pingouin() -> None:
    result = repeat_variance(TABLE)
    assert result.icc_1.estimate == pytest.approx(PINGOUIN_ICC_1, abs=1e-13)
    assert result.icc_k.estimate == pytest.approx(PINGOUIN_ICC_K, abs=1e-13)
    # The F part of the interval, before it is widened.
    low, high = f_ends(float(scipy.stats.f_oneway(*np.array(TABLE)).statistic), 5, 12, 0.95)
    assert (round((low - 1) / (low + 2), 2), round((high - 1) / (high + 2), 2)) == PINGOUIN_ICC_1_CI
    assert (round(1 - 1 / low, 2), round(1 - 1 / high, 2)) == PINGOUIN_ICC_K_CI


def test_f_ends_against_the_quantiles_of_scipy() -> None:
    expected = 6.0 / scipy.stats.f.ppf(0.975, 5, 12), 6.0 * scipy.stats.f.ppf(0.975, 12, 5)
    assert f_ends(6.0, 5, 12, 0.95) == pytest.approx(expected, rel=1e-12)


def log_jackknife_by_loops(table: np.ndarray, of: Any) -> tuple[float, float]:
    """Ends for a positive statistic of a table by the jackknife of its logarithm over rows."""
    n = len(table)
    left_out = np.log([of(np.delete(table, i, axis=0)) for i in range(n)])
    error = math.sqrt((n - 1) / n * float(((left_out - left_out.mean()) ** 2).sum()))
    reach = float(scipy.stats.t.ppf(0.975, n - 1)) * error
    return of(table) * math.exp(-reach), of(table) * math.exp(reach)


@pytest.mark.parametrize("seed", range(4))
def test_icc_interval_is_the_hull_of_f_and_jackknife(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.beta(0.6, 0.6, 12)[:, None] * rng.random((12, 3))
    ratio = float(scipy.stats.f_oneway(*table).statistic)
    by_f = f_ends(ratio, 11, 24, 0.95)
    by_jackknife = log_jackknife_by_loops(table, lambda rows: float(scipy.stats.f_oneway(*rows).statistic))
    low, high = min(by_f[0], by_jackknife[0]), max(by_f[1], by_jackknife[1])
    result = repeat_variance(table)
    assert result.icc_1.low == pytest.approx((low - 1) / (low + 2), abs=1e-10)
    assert result.icc_1.high == pytest.approx((high - 1) / (high + 2), abs=1e-10)
    assert (result.icc_k.low, result.icc_k.high) == pytest.approx((1 - 1 / low, 1 - 1 / high), abs=1e-10)


def test_icc_that_rests_on_one_scenario_keeps_the_f_interval() -> None:
    # Without the second scenario no repeat differs: log F has no jackknife.
    table = [[1.0, 1.0], [0.0, 0.5], [0.0, 0.0], [1.0, 1.0]]
    ratio = float(scipy.stats.f_oneway(*np.array(table)).statistic)
    low, high = f_ends(ratio, 3, 4, 0.95)
    result = repeat_variance(table).icc_1
    assert (result.low, result.high) == pytest.approx(((low - 1) / (low + 1), (high - 1) / (high + 1)))


def test_components_by_hand() -> None:
    # Scenario means 1/4 and 3/4; squares within 1/8 + 1/8, so MSW = 1/8; MSB = 2 * (1/16 + 1/16) = 1/4;
    # between = (1/4 - 1/8) / 2 = 1/16; ICC(1) = (1/8) / (3/8) = 1/3; ICC(2) = 1/2.
    result = repeat_variance([[0.0, 0.5], [0.5, 1.0]])
    assert result.within.estimate == pytest.approx(1 / 8)
    assert result.between.estimate == pytest.approx(1 / 16)
    assert result.icc_1.estimate == pytest.approx(1 / 3)
    assert result.icc_k.estimate == pytest.approx(1 / 2)
    # Other scenarios: sd of (1/4, 3/4) is sqrt(1/8), over sqrt(2). Again: sqrt(mean(1/8 / 2) / 2).
    assert result.generalise == pytest.approx(1 / 4)
    assert result.rerun.estimate == pytest.approx(math.sqrt(1 / 32))
    assert (result.n_scenarios, result.n_trials, result.n_repeats) == (2, 4, 2.0)


def anova_by_loops(rows: list[list[float]]) -> tuple[float, float, float]:
    """Between and within mean squares and n0, straight from the definitions."""
    n, total = len(rows), sum(len(row) for row in rows)
    grand = sum(sum(row) for row in rows) / total
    between = sum(len(row) * (sum(row) / len(row) - grand) ** 2 for row in rows) / (n - 1)
    within = sum((y - sum(row) / len(row)) ** 2 for row in rows for y in row) / (total - n)
    typical = (total - sum(len(row) ** 2 for row in rows) / total) / (n - 1)
    return between, within, typical


def test_unbalanced_repeats_use_n0() -> None:
    rows = [[1.0, 0.5, 1.0, 0.75], [0.0], [0.25, 0.0], [1.0, 1.0, 0.5], [0.5, 0.0]]
    table = np.full((5, 4), np.nan)
    for i, row in enumerate(rows):
        table[i, : len(row)] = row
    between, within, n0 = anova_by_loops(rows)
    result = repeat_variance(np.nan_to_num(table), ~np.isnan(table))
    assert result.n_repeats == pytest.approx(n0)
    assert result.within.estimate == pytest.approx(within)
    assert result.between.estimate == pytest.approx((between - within) / n0)
    assert result.icc_1.estimate == pytest.approx((between - within) / (between + (n0 - 1) * within))
    assert result.icc_k.estimate == pytest.approx(1 - within / between)
    # The scenario with one repeat has the pooled variance in the error of a rerun.
    variances = [np.var(row, ddof=1) if len(row) > 1 else within for row in rows]
    squared = sum(v / len(row) for v, row in zip(variances, rows, strict=True)) / 25
    assert result.rerun.estimate == pytest.approx(math.sqrt(squared))
    assert (result.within.n_units, result.n_trials) == (4, 12)


def test_unplanned_cells_may_hold_anything() -> None:
    planned = [[True, True], [True, False], [True, True]]
    one = repeat_variance([[0.0, 1.0], [0.5, np.nan], [1.0, 0.5]], planned)
    assert one == repeat_variance([[0.0, 1.0], [0.5, 7.0], [1.0, 0.5]], planned)


@pytest.mark.parametrize("seed", range(4))
def test_between_interval_is_the_hull_of_jackknife_and_mover(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.beta(0.6, 0.6, 12)[:, None] * rng.random((12, 3))

    def between(rows: np.ndarray) -> float:
        mean_square, within, _ = anova_by_loops([list(row) for row in rows])
        return (mean_square - within) / 3

    left_out = np.array([between(np.delete(table, i, axis=0)) for i in range(12)])
    error = math.sqrt(11 / 12 * float(((left_out - left_out.mean()) ** 2).sum()))
    reach = float(scipy.stats.t.ppf(0.975, 11)) * error
    square = 3 * float(table.mean(axis=1).var(ddof=1))
    low, high = log_jackknife_by_loops(table, lambda rows: 3 * float(rows.mean(axis=1).var(ddof=1)))
    result = repeat_variance(table)
    below = math.hypot(square - low, result.within.high - result.within.estimate) / 3
    above = math.hypot(high - square, result.within.estimate - result.within.low) / 3
    middle = between(table)
    expected = middle - max(reach, below), min(0.25, middle + max(reach, above))
    assert (result.between.low, result.between.high) == pytest.approx(expected, abs=1e-10)


def test_between_interval_where_the_jackknife_is_blind_is_that_of_f() -> None:
    # Leaving out any of the four leaves the same table. MSB = 2 * 1/3, MSW = 0.
    result = repeat_variance([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0], [1.0, 1.0]])
    low = 2 / 3 / scipy.stats.f.ppf(0.975, 3, 4)
    below = math.hypot(2 / 3 - low, result.within.high) / 2
    assert result.between.estimate == pytest.approx(1 / 3)
    assert result.between.low == pytest.approx(1 / 3 - below)
    # The sample variance may exceed 1/4, the largest true one; the end does not fall below the estimate.
    assert result.between.high == result.between.estimate


def test_between_that_rests_on_one_scenario_reaches_to_the_largest_variance() -> None:
    # Without the first scenario all means are equal.
    result = repeat_variance([[1.0, 1.0], [0.0, 0.5], [0.25, 0.25], [0.5, 0.0]])
    assert result.between.low < 0.0
    assert result.between.high == 0.25


def test_within_interval_on_binary_pairs_is_that_of_jeffreys() -> None:
    # Two repeats of 0/1 differ (variance 1/2, the largest there is) or not: 3 of 10 scenarios do.
    table = [[0.0, 1.0]] * 3 + [[1.0, 1.0]] * 5 + [[0.0, 0.0]] * 2
    expected = scipy.stats.beta.ppf([0.025, 0.975], 3.5, 7.5) / 2
    result = repeat_variance(table)
    assert (result.within.low, result.within.high) == pytest.approx(expected, abs=1e-10)
    # Rerun: sqrt(within / (10 * 2)).
    assert (result.rerun.low, result.rerun.high) == pytest.approx(np.sqrt(expected / 20), abs=1e-10)


@pytest.mark.parametrize(("n", "largest"), [(2, 1 / 2), (3, 1 / 3), (4, 1 / 3), (5, 3 / 10)])
def test_largest_variance_of_scores_in_the_unit_interval(n: int, largest: float) -> None:
    # n/2 zeros and n/2 ones; 5: two of them 0, 2 * 3 / (5 * 4).
    assert largest_variance(n) == pytest.approx(largest)
    assert largest_variance(n) == pytest.approx(np.var([i % 2 for i in range(n)], ddof=1))


def is_unknown(interval: scoring.Interval) -> bool:
    return math.isnan(interval.estimate) and math.isnan(interval.low) and math.isnan(interval.high)


def test_an_agent_that_always_fails_has_no_icc() -> None:
    result = repeat_variance(np.zeros((20, 3)))
    assert is_unknown(result.icc_1)
    assert is_unknown(result.icc_k)
    assert math.isnan(result.generalise)
    assert math.isnan(result.rerun.estimate)
    # No spread was seen, which is not the same as none.
    assert 0.0 == result.rerun.low < result.rerun.high
    assert 0.0 == result.within.low < result.within.high < 0.1
    assert math.isnan(result.between.low)


def test_one_repeat_tells_nothing_about_repeats() -> None:
    result = repeat_variance([[0.0], [1.0], [0.5]])
    for unknown in (result.within, result.icc_1, result.icc_k, result.rerun, result.between):
        assert is_unknown(unknown)
    assert result.generalise == pytest.approx(0.5 / math.sqrt(3))


def test_one_scenario_tells_nothing_about_scenarios() -> None:
    result = repeat_variance([[0.0, 1.0, 0.5]])
    assert is_unknown(result.icc_1)
    assert is_unknown(result.between)
    assert math.isnan(result.generalise)
    assert result.within.estimate == pytest.approx(0.25)
    assert result.rerun.estimate == pytest.approx(0.5 / math.sqrt(3))
    assert result.n_repeats == 3.0


def test_repeats_that_never_differ_leave_an_interval_below_one() -> None:
    result = repeat_variance([[1.0, 1.0], [0.0, 0.0], [0.5, 0.5], [1.0, 1.0]])
    assert (result.icc_1.estimate, result.icc_1.high) == (1.0, 1.0)
    assert result.icc_1.low < 0.95
    assert result.icc_k.low < 1.0


def test_equal_scenario_means_have_an_icc_below_zero_and_no_interval() -> None:
    # MSB = 0: ICC(1) = -1 / (R - 1).
    result = repeat_variance([[0.0, 1.0, 0.5], [1.0, 0.5, 0.0], [0.5, 0.0, 1.0]])
    assert result.icc_1.estimate == -0.5
    assert math.isnan(result.icc_1.low)
    assert is_unknown(result.icc_k)


def test_two_scenarios_have_no_jackknife() -> None:
    assert math.isnan(repeat_variance([[0.0, 0.5], [0.5, 1.0]]).between.low)


def test_one_repeated_scenario_has_no_jackknife() -> None:
    planned = [[True, True], [True, False], [True, False], [True, False]]
    result = repeat_variance([[0.0, 0.5], [0.5, 0.0], [1.0, 0.0], [0.0, 0.0]], planned)
    assert not math.isnan(result.between.estimate)
    assert math.isnan(result.between.low)


def test_equal_influence_has_no_jackknife_interval() -> None:
    # Leaving out any of the three leaves the same table.
    result = repeat_variance([[0.0, 1.0, 0.5], [1.0, 0.5, 0.0], [0.5, 0.0, 1.0]])
    assert math.isnan(result.between.low)


def test_errors_follow_splits_and_families() -> None:
    table = np.random.default_rng(0).random((6, 2))
    means = table.mean(axis=1)
    split = repeat_variance(table, split_of=[0, 0, 0, 0, 1, 1])
    expected = math.sqrt(means[:4].var(ddof=1) / 4 + means[4:].var(ddof=1) / 2) / 2
    assert split.generalise == pytest.approx(expected)
    own = table.var(axis=1, ddof=1) / 2
    assert split.rerun.estimate == pytest.approx(math.sqrt(own[:4].sum() / 64 + own[4:].sum() / 16))
    family = repeat_variance(table, family_of=[0, 0, 1, 1, 2, 2])
    assert family.generalise == pytest.approx(means.reshape(3, 2).mean(axis=1).std(ddof=1) / math.sqrt(3))


@pytest.mark.parametrize("truth", [0.0, 0.3, 0.6])
def test_icc_has_little_bias(truth: float) -> None:
    # 59 x 3 binary scores of mean .4, chances Beta with 1 / (a + b + 1) = ICC; sd of one estimate is .07.
    rng = np.random.default_rng(6)
    total = 1 / truth - 1 if truth else 0.0
    values = []
    for _ in range(400):
        chance = rng.beta(0.4 * total, 0.6 * total, 59) if truth else np.full(59, 0.4)
        values.append(repeat_variance((rng.random((59, 3)) < chance[:, None]).astype(float)).icc_1.estimate)
    assert abs(np.mean(values) - truth) <= 0.01 + 3 * 0.08 / 20


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: repeat_variance([0.5, 0.5]), "2 axes"),
        (lambda: repeat_variance([[0.5, 1.5]]), r"lie in \[0, 1\]"),
        (lambda: repeat_variance([[0.5, 0.5]], [[1, 1]]), "booleans"),
        (lambda: repeat_variance([[0.5, 0.5]], [[True]]), "shape of scores"),
        (lambda: repeat_variance([[0.5], [0.5]], [[True], [False]]), "scenario 1 has no planned trial"),
        (lambda: repeat_variance([[0.5, 0.5]], level=0.0), "level"),
    ],
)
def test_tables_without_variance_are_refused(call: Any, message: str) -> None:
    with pytest.raises(scoring.ScoringError, match=message):
        call()
