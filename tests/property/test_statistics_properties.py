from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import scoring
from scoring.half_atom import score_law

grades = st.sampled_from([0.0, 0.2, 0.25, 1 / 3, 0.5, 2 / 3, 0.75, 1.0]) | st.floats(0.0, 1.0)
scenario_scores = st.lists(grades, min_size=1, max_size=25)
methods = st.sampled_from(list(scoring.Method))


@st.composite
def tables(draw: st.DrawFn, min_repeats: int = 1) -> np.ndarray:
    n_repeats = draw(st.integers(min_repeats, 5))
    rows = draw(st.lists(st.lists(grades, min_size=n_repeats, max_size=n_repeats), min_size=1, max_size=12))
    return np.array(rows)


@st.composite
def clustered(draw: st.DrawFn) -> tuple[list[float], list[int] | None, list[int] | None]:
    scores = draw(scenario_scores)

    def labels() -> list[int] | None:
        chosen = draw(st.lists(st.integers(0, 2), min_size=len(scores), max_size=len(scores)) | st.none())
        return None if chosen is None else np.unique(chosen, return_inverse=True)[1].tolist()

    return scores, labels(), labels()


def bounds_of(scores: list[float], method: scoring.Method) -> tuple[float, float]:
    interval = scoring.mean_interval(scores, method=method, rng=np.random.default_rng(0), n_resamples=200)
    return interval.low, interval.high


@given(clustered(), st.sampled_from(["half-atom", "t", "strict", "sequential"]))
def test_an_interval_has_width_and_stays_within_the_scores(
    sample: tuple[list[float], list[int] | None, list[int] | None], method: str
) -> None:
    scores, split, family = sample
    interval = scoring.mean_interval(scores, split_of=split, family_of=family, method=method)
    assert 0.0 <= interval.low < interval.high <= 1.0
    # Only a mean at a bound of the score lies outside: Jeffreys leaves .0004 for one unit, less for more.
    assert interval.low - 1e-3 <= interval.estimate <= interval.high + 1e-3
    assert 1 <= interval.n_units <= len(scores)


@given(scenario_scores, st.sampled_from(["half-atom", "t", "strict"]))
def test_complementary_scores_have_the_mirrored_interval(scores: list[float], method: str) -> None:
    low, high = bounds_of(scores, scoring.Method(method))
    mirrored = bounds_of([1.0 - score for score in scores], scoring.Method(method))
    np.testing.assert_allclose(mirrored, (1.0 - high, 1.0 - low), atol=1e-9)


@given(scenario_scores, st.randoms(use_true_random=False))
def test_the_order_of_scenarios_changes_nothing(scores: list[float], random: object) -> None:
    shuffled = list(scores)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for method in (scoring.Method.HALF_ATOM, scoring.Method.STRICT, scoring.Method.T):
        np.testing.assert_allclose(bounds_of(shuffled, method), bounds_of(scores, method), atol=1e-9)


@given(scenario_scores, st.integers(0, 24), st.floats(0.0, 1.0))
def test_a_better_scenario_never_lowers_an_end(scores: list[float], place: int, gain: float) -> None:
    better = list(scores)
    place %= len(scores)
    better[place] += gain * (1.0 - better[place])
    for method in (scoring.Method.HALF_ATOM, scoring.Method.STRICT):
        before, after = bounds_of(scores, method), bounds_of(better, method)
        assert after[0] >= before[0] - 1e-9
        assert after[1] >= before[1] - 1e-9


@given(scenario_scores)
def test_the_strict_interval_encloses_the_default(scores: list[float]) -> None:
    default, strict = (bounds_of(scores, m) for m in (scoring.Method.HALF_ATOM, scoring.Method.STRICT))
    assert strict[0] <= default[0] + 1e-9
    assert default[1] <= strict[1] + 1e-9


@given(scenario_scores)
def test_each_unit_as_its_own_family_changes_nothing(scores: list[float]) -> None:
    own = scoring.mean_interval(scores, family_of=range(len(scores)))
    plain = scoring.mean_interval(scores)
    np.testing.assert_allclose((own.low, own.high), (plain.low, plain.high), atol=1e-9)


@given(scenario_scores, st.floats(0.001, 0.999))
def test_quantile_and_cdf_are_inverse(scores: list[float], p: float) -> None:
    law = score_law(np.array(scores), np.ones(len(scores)))
    x = law.quantile(p)
    # Between neighbouring floats the law may climb steeply; the quantile is right when p lies between.
    assert law.cdf(x - 1e-9) - 1e-9 <= p <= law.cdf(x + 1e-9) + 1e-9


@given(tables())
def test_variance_components_are_ordered_or_unknown(table: np.ndarray) -> None:
    result = scoring.repeat_variance(table)
    for interval in (result.within, result.icc_1, result.icc_k, result.rerun, result.between):
        assert math.isnan(interval.low) == math.isnan(interval.high)
        assert math.isnan(interval.low) or interval.low < interval.high
    for icc in (result.icc_1, result.icc_k):
        assert math.isnan(icc.estimate) or icc.estimate <= 1.0 + 1e-12
    for interval in (result.icc_1, result.icc_k):
        if not math.isnan(interval.low):
            assert interval.low - 1e-9 <= interval.estimate <= interval.high + 1e-9
    assert math.isnan(result.generalise) or result.generalise > 0.0
    assert math.isnan(result.rerun.estimate) or result.rerun.estimate > 0.0


@given(tables())
def test_pass_k_falls_and_rises_with_k(table: np.ndarray) -> None:
    passed = table >= 0.5
    n_repeats = passed.shape[1]
    any_of = [scoring.pass_at_k(passed, k) for k in range(1, n_repeats + 1)]
    all_of = [scoring.pass_hat_k(passed, k) for k in range(1, n_repeats + 1)]
    assert all((a <= b + 1e-12).all() for a, b in pairwise(any_of))
    assert all((a >= b - 1e-12).all() for a, b in pairwise(all_of))
    np.testing.assert_allclose(any_of[0], passed.mean(axis=1))
    np.testing.assert_array_equal(all_of[-1], passed.all(axis=1))
    np.testing.assert_array_equal(any_of[-1], passed.any(axis=1))


@given(st.lists(st.tuples(grades, grades), min_size=1, max_size=15))
def test_swapping_agents_mirrors_the_difference(pairs: list[tuple[float, float]]) -> None:
    before, after = ([pair[i] for pair in pairs] for i in (0, 1))
    one, other = scoring.paired_difference(before, after), scoring.paired_difference(after, before)
    np.testing.assert_allclose(
        (one.interval.low, one.interval.high), (-other.interval.high, -other.interval.low)
    )
    assert one.p_value == other.p_value
    assert 0.0 < one.p_value <= 1.0
    assert one.interval.low < one.interval.high


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12))
def test_holm_never_lowers_a_p_value_nor_changes_their_order(p_values: list[float]) -> None:
    adjusted = scoring.holm(p_values)
    assert (adjusted >= np.array(p_values)).all()
    assert (adjusted <= 1.0).all()
    order = np.argsort(p_values, kind="stable")
    assert (np.diff(adjusted[order]) >= 0.0).all()


@settings(max_examples=30)
@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8), st.data())
def test_no_pair_of_a_group_can_be_told_apart(means: list[float], data: st.DataObject) -> None:
    n = len(means)
    apart = np.zeros((n, n), dtype=bool)
    for i in range(n):
        for j in range(i):
            apart[i, j] = apart[j, i] = data.draw(st.booleans())
    groups = scoring.groups_not_separable(means, apart)
    assert {agent for group in groups for agent in group} == set(range(n))
    for group in groups:
        assert not any(apart[i, j] for i in group for j in group)


@given(
    st.floats(0.0, 0.3), st.floats(0.001, 0.5), st.floats(0.05, 0.9), st.integers(1, 8), st.floats(0.5, 0.95)
)
def test_planned_scenarios_detect_the_wanted_difference(
    sb: float, sw: float, difference: float, n_repeats: int, power: float
) -> None:
    parts = scoring.Components(sb**2, sw**2)
    n = scoring.scenarios_needed(parts, difference, n_repeats, power=power)
    assert scoring.minimum_detectable(parts, n, n_repeats, power=power) <= difference
    assert n == 2 or scoring.minimum_detectable(parts, n - 1, n_repeats, power=power) > difference
