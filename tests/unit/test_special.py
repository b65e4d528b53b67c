from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats

from scoring import ScoringError
from scoring._roots import bracketed_root
from scoring._special import beta_cdf, beta_quantile, f_quantile, normal_quantile, t_cdf, t_quantile

SHAPES = [
    (0.5, 0.5),
    (0.5, 20.5),
    (1.0, 3.0),
    (3.5, 17.5),
    (59.5, 0.5),
    (200.0, 1000.0),
    (2999.0, 0.5),
    (30.0, 30.0),
]
PROBABILITIES = [1e-9, 1e-4, 0.025, 0.1, 0.4999, 0.5, 0.7, 0.975, 0.9999, 1.0 - 1e-9]
DEGREES = [0.7, 1.0, 2.0, 19.0, 57.3, 58.0, 4000.0]


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_beta_cdf_against_scipy(a: float, b: float) -> None:
    points = np.concatenate([np.linspace(0.0, 1.0, 41), scipy.stats.beta.ppf(PROBABILITIES, a, b)])
    for x in points:
        assert beta_cdf(float(x), a, b) == pytest.approx(scipy.special.betainc(a, b, x), abs=1e-10)


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_beta_quantile_against_scipy(a: float, b: float) -> None:
    for p in PROBABILITIES:
        assert beta_quantile(p, a, b) == pytest.approx(
            scipy.special.betaincinv(a, b, p), abs=1e-12, rel=1e-10
        )


@pytest.mark.parametrize("df", DEGREES)
def test_t_against_scipy(df: float) -> None:
    for t in (-30.0, -2.0, -0.1, 0.0, 0.3, 1.96, 12.0):
        assert t_cdf(t, df) == pytest.approx(scipy.stats.t.cdf(t, df), abs=1e-10)
    for p in PROBABILITIES:
        assert t_quantile(p, df) == pytest.approx(scipy.special.stdtrit(df, p), rel=1e-7, abs=1e-10)
    for p in (0.005, 0.025, 0.3, 0.8, 0.975, 0.9999):
        assert t_quantile(p, df) == pytest.approx(scipy.stats.t.ppf(p, df), rel=1e-10)


@pytest.mark.parametrize(("above", "below"), [(1, 1), (5, 12), (58, 118), (19, 40), (200, 3)])
def test_f_quantile_against_scipy(above: int, below: int) -> None:
    for p in (0.025, 0.5, 0.975):
        assert f_quantile(p, above, below) == pytest.approx(scipy.stats.f.ppf(p, above, below), rel=1e-10)


def test_normal_quantile_against_scipy() -> None:
    for p in PROBABILITIES:
        assert normal_quantile(p) == pytest.approx(scipy.stats.norm.ppf(p), abs=1e-12, rel=1e-12)


def test_ends_of_the_distributions() -> None:
    assert (beta_cdf(-1.0, 2.0, 3.0), beta_cdf(2.0, 2.0, 3.0)) == (0.0, 1.0)
    assert (beta_quantile(0.0, 2.0, 3.0), beta_quantile(1.0, 2.0, 3.0)) == (0.0, 1.0)
    assert (t_quantile(0.0, 5.0), t_quantile(1.0, 5.0)) == (-math.inf, math.inf)
    assert (normal_quantile(0.0), normal_quantile(1.0)) == (-math.inf, math.inf)
    assert f_quantile(1.0, 3.0, 4.0) == math.inf


def test_a_quantile_below_every_float_is_zero() -> None:
    # Beta(1e-3, 1) has its p quantile at p^1000.
    assert beta_quantile(1e-9, 1e-3, 1.0) == 0.0


def test_median_of_t_is_zero() -> None:
    assert t_quantile(0.5, 3.0) == 0.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: beta_cdf(0.5, 0.0, 1.0),
        lambda: beta_cdf(0.5, 1.0, math.nan),
        lambda: beta_quantile(1.1, 1.0, 1.0),
        lambda: t_cdf(0.0, -1.0),
        lambda: t_quantile(0.5, 0.0),
        lambda: t_quantile(math.nan, 1.0),
        lambda: f_quantile(0.5, 0.0, 1.0),
        lambda: f_quantile(0.5, 1.0, 0.0),
        lambda: normal_quantile(2.0),
    ],
)
def test_parameters_out_of_range_are_refused(call: Any) -> None:
    with pytest.raises(ScoringError):
        call()


def test_root_of_a_line_a_step_and_a_flat_curve() -> None:
    assert bracketed_root(lambda x: x - 0.3, 0.0, 1.0) == pytest.approx(0.3, rel=1e-13)
    assert bracketed_root(lambda x: 1.0 if x > 0.7 else -1.0, 0.0, 1.0) == pytest.approx(0.7, rel=1e-12)
    assert bracketed_root(lambda x: x**9 - 1e-9, 0.0, 1.0) == pytest.approx(0.1, rel=1e-12)
    assert bracketed_root(lambda x: math.inf if x > 0.2 else x - 0.1, 0.0, 1.0) == pytest.approx(
        0.1, rel=1e-12
    )


def test_root_at_an_end_is_found_there() -> None:
    assert bracketed_root(lambda x: x, 0.0, 1.0) == 0.0
    assert bracketed_root(lambda x: x - 1.0, 0.0, 1.0) == 1.0


def test_root_search_ends_even_when_the_root_is_beyond_reach() -> None:
    # Halving 1 two hundred times does not reach 1e-200; the search still ends, with a point near the root.
    assert abs(bracketed_root(lambda x: 1.0 if x > 1e-200 else -1.0, 0.0, 1.0)) < 1e-50
