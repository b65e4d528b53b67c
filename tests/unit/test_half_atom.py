from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from scoring.half_atom import DirichletRatio, half_atom_law, merged, score_law


def law_of(values: list[float]) -> DirichletRatio:
    return half_atom_law(np.array(values), np.ones(len(values)))


@pytest.mark.parametrize("n", [1, 2, 5, 20, 59, 200, 1000, 50_000])
def test_binary_scores_give_the_interval_of_jeffreys(n: int) -> None:
    for c in sorted({0, 1, n // 3, n - 1, n}):
        law = law_of([1.0] * c + [0.0] * (n - c))
        for p in (0.005, 0.025, 0.5, 0.975, 0.995):
            expected = scipy.stats.beta.ppf(p, c + 0.5, n - c + 0.5)
            assert law.quantile(p) == pytest.approx(expected, abs=1e-10)


def test_two_values_follow_a_beta_law() -> None:
    # D ~ Dirichlet(3, 4): the mean of .2 and .7 is .2 + .5 Beta(4, 3).
    law = merged(np.array([0.2] * 3 + [0.7] * 4), np.ones(7), np.ones(7))
    for x in (0.21, 0.4, 0.5, 0.69):
        assert law.cdf(x) == pytest.approx(scipy.stats.beta.cdf((x - 0.2) / 0.5, 4, 3), abs=1e-13)


def test_graded_scores_against_a_million_draws() -> None:
    values = np.array([0.0, 0.0, 1.0, 0.5, 1 / 3, 0.5, 0.25, 1.0, 0.0, 0.75])
    rng = np.random.default_rng(4)
    draws = rng.dirichlet([1.0] * 10 + [0.5, 0.5], 1_000_000) @ np.concatenate([values, [0.0, 1.0]])
    law = law_of(values.tolist())
    for p in (0.025, 0.5, 0.975):
        # Standard error of a quantile of a million draws: under 3e-4 at this density.
        assert law.quantile(p) == pytest.approx(np.quantile(draws, p), abs=1e-3)


def test_against_the_oscillating_integral_of_imhof() -> None:
    values = np.array([0.0, 0.2, 0.2, 0.9, 1.0, 0.4, 0.6, 0.6])
    atoms, weights = np.concatenate([values, [0.0, 1.0]]), np.array([1.0] * 8 + [0.5, 0.5])
    for x in (0.2, 0.45, 0.8):
        a = atoms - x

        def integrand(t: float, a: np.ndarray = a) -> float:
            phase = float(weights @ np.arctan(a * t))
            return float(np.sin(phase) / (t * np.prod((1.0 + (a * t) ** 2) ** (weights / 2.0))))

        whole = scipy.integrate.quad(integrand, 0.0, 200.0, limit=2000, epsabs=1e-12)[0]
        assert law_of(values.tolist()).cdf(x) == pytest.approx(0.5 - whole / np.pi, abs=1e-9)


def test_ratio_against_draws() -> None:
    above, below = np.array([0.5, -1.0, 0.0, 0.2]), np.array([1.0, 0.0, 0.0, 0.4])
    weights = np.array([2.0, 0.5, 3.0, 1.0])
    law = merged(above, below, weights)
    parts = np.random.default_rng(8).dirichlet(weights, 1_000_000)
    draws = (parts @ above) / (parts @ below)
    for p in (0.025, 0.5, 0.975):
        assert law.cdf(float(np.quantile(draws, p))) == pytest.approx(p, abs=1e-3)
        assert law.cdf(law.quantile(p)) == pytest.approx(p, abs=1e-9)


def test_a_ratio_with_nothing_below_reaches_beyond_the_other_ratios() -> None:
    # D1 / D2 with weights 1 and 1 is F(2, 2): its p quantile is p / (1 - p).
    law = merged(np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.ones(2))
    assert law.quantile(0.975) == pytest.approx(39.0, rel=1e-9)
    mirrored = merged(np.array([-1.0, 0.0]), np.array([0.0, 1.0]), np.ones(2))
    assert mirrored.quantile(0.025) == pytest.approx(-39.0, rel=1e-9)


def test_one_atom_is_a_point() -> None:
    law = merged(np.array([0.6, 0.6]), np.array([2.0, 2.0]), np.ones(2))
    assert law.quantile(0.3) == 0.3
    assert (law.cdf(0.29), law.cdf(0.3), law.cdf(0.31)) == (0.0, 1.0, 1.0)


def test_outside_of_the_atoms_nothing_is_left() -> None:
    law = law_of([0.2, 0.4])
    assert (law.cdf(-0.1), law.cdf(0.0), law.cdf(1.0), law.cdf(1.1)) == (0.0, 0.0, 1.0, 1.0)


def test_scores_of_zero_and_one_lend_nothing() -> None:
    scores, sizes = np.array([1.0, 0.0, 0.0, 1.0, 1.0]), np.ones(5)
    plain, lending = half_atom_law(scores, sizes), score_law(scores, sizes)
    np.testing.assert_array_equal(plain.weights, lending.weights)
    assert lending.quantile(0.975) == plain.quantile(0.975)


def test_the_mean_of_the_law_stays_where_it_is() -> None:
    scores, sizes = np.array([0.3, 0.9, 0.0, 1.0]), np.array([0.5, 1.5, 1.0, 1.0])
    plain, lending = half_atom_law(scores, sizes), score_law(scores, sizes)
    assert lending.weights @ lending.above == pytest.approx(plain.weights @ plain.above)
    assert lending.weights @ lending.below == pytest.approx(plain.weights @ plain.below)


def test_bounds_can_be_those_of_a_difference() -> None:
    on_unit = law_of([0.5] * 7)
    on_difference = half_atom_law(np.zeros(7), np.ones(7), -1.0, 1.0)
    for p in (0.025, 0.6):
        assert on_difference.quantile(p) == pytest.approx(2.0 * on_unit.quantile(p) - 1.0, abs=1e-12)


def test_a_huge_suite_is_integrated_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    law = half_atom_law(np.random.default_rng(0).random(300), np.ones(300))
    whole = law.cdf(0.48)
    monkeypatch.setattr("scoring.half_atom._CHUNK_CELLS", 7 * 302)
    assert law.cdf(0.48) == pytest.approx(whole, abs=1e-15)


@pytest.mark.parametrize(
    ("v", "n", "x"), [(0.18, 200, 0.1804738), (0.18, 200, 0.17955), (0.9, 5000, 0.89997735)]
)
def test_many_equal_scores_close_to_the_point_itself(v: float, n: int, x: float) -> None:
    # The mean is (1 - w) v + w u with w ~ Beta(1, n) for both half atoms and u ~ Beta(1/2, 1/2) between them.
    def slice_of(w: float) -> float:
        at = (x - (1.0 - w) * v) / w
        return float(n * (1.0 - w) ** (n - 1) * scipy.stats.beta.cdf(at, 0.5, 0.5))

    bends = sorted(abs(x - v) / side for side in (v, 1.0 - v))
    edges = [1e-12, *bends, 40.0 / n]
    expected = sum(
        scipy.integrate.quad(slice_of, low, high, epsabs=1e-12, limit=500)[0]
        for low, high in itertools.pairwise(edges)
    )
    law = half_atom_law(np.full(n, v), np.ones(n))
    assert law.cdf(x) == pytest.approx(expected, abs=1e-8)
    assert law.quantile(law.cdf(x)) == pytest.approx(x, rel=1e-9)
