"""Distribution functions and quantiles of the beta, t, F and normal laws, for plain floats.

Only what the intervals need; SciPy has all of it, but importing it costs more than scoring a whole run.
"""

from __future__ import annotations

import math
from functools import lru_cache

from scoring._roots import bracketed_root
from scoring.errors import ScoringError

_TINY = 1e-300
_MAX_TERMS = 100_000


def beta_cdf(x: float, a: float, b: float) -> float:
    """Regularized incomplete beta function I_x(a, b).

    Notes
    -----
    Continued fraction of Lentz on the side where it converges fast. Source: DLMF 8.17.22.
    """
    _positive(a, "a")
    _positive(b, "b")
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - _lower_part(1.0 - x, x, b, a)
    return _lower_part(x, 1.0 - x, a, b)


def _lower_part(x: float, rest: float, a: float, b: float) -> float:
    """I_x(a, b) for x below the mean; ``rest`` is 1 - x."""
    log_rest = math.log1p(-x) if x <= 0.5 else math.log(rest)
    front = a * math.log(x) + b * log_rest - _log_beta(a, b)
    c = 1.0
    d = 1.0 / _away_from_zero(1.0 - (a + b) * x / (a + 1.0))
    value, step, m = d, 0.0, 0
    while abs(step - 1.0) > 2.5e-16 and m < _MAX_TERMS:
        m += 1
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        d = 1.0 / _away_from_zero(1.0 + even * d)
        c = _away_from_zero(1.0 + even / c)
        value *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        d = 1.0 / _away_from_zero(1.0 + odd * d)
        c = _away_from_zero(1.0 + odd / c)
        step = d * c
        value *= step
    return math.exp(front) * value / a


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def _log_beta(a: float, b: float) -> float:
    """Logarithm of the beta function; the difference of large log-gammas is taken by Stirling's series."""
    small, large = min(a, b), max(a, b)
    if large < 20.0:
        return math.lgamma(small) + math.lgamma(large) - math.lgamma(small + large)
    total = small + large
    # lgamma(large) - lgamma(total), without the cancellation of two large numbers.
    difference = (
        (large - 0.5) * -math.log1p(small / large)
        - small * math.log(total)
        + small
        + _stirling_rest(large)
        - _stirling_rest(total)
    )
    return math.lgamma(small) + difference


def _stirling_rest(x: float) -> float:
    """lgamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2) for x >= 20. Source: DLMF 5.11.1."""
    inverse = 1.0 / x
    square = inverse * inverse
    return inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680))))


@lru_cache(maxsize=4096)
def beta_quantile(p: float, a: float, b: float) -> float:
    """The x with ``beta_cdf(x, a, b) == p``."""
    _probability(p)
    if p in (0.0, 1.0):
        return p
    # The quantile near 1 is found as its distance from 1, which keeps its digits.
    middle = (a + 1.0) / (a + b + 2.0)
    if beta_cdf(middle, a, b) < p:
        return 1.0 - _small_beta_quantile(1.0 - p, b, a)
    return _small_beta_quantile(p, a, b)


def _small_beta_quantile(p: float, a: float, b: float) -> float:
    # Over log x: quantiles of small a reach far down.
    low = min(-1.0, (math.log(p) + math.log(a) + _log_beta(a, b)) / a - 1.0)
    if low < -700.0:
        return 0.0
    return math.exp(bracketed_root(lambda at: beta_cdf(math.exp(at), a, b) - p, low, 0.0, tolerance=1e-15))


def t_cdf(t: float, df: float) -> float:
    """Distribution function of Student's t."""
    _positive(df, "df")
    square = t * t
    tail = 0.5 * beta_cdf(df / (df + square), df / 2.0, 0.5)
    return 1.0 - tail if t > 0 else tail


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """The t with ``t_cdf(t, df) == p``; df may be a fraction."""
    _positive(df, "df")
    _probability(p)
    if p in (0.0, 1.0):
        return math.copysign(math.inf, p - 0.5)
    inner = abs(2.0 * p - 1.0)
    if inner < 0.5:
        y = beta_quantile(inner, 0.5, df / 2.0)
        size = math.sqrt(df * y / (1.0 - y))
    else:
        x = beta_quantile(2.0 * min(p, 1.0 - p), df / 2.0, 0.5)
        size = math.sqrt(df * (1.0 - x) / x)
    return math.copysign(size, p - 0.5)


def f_quantile(p: float, df_above: float, df_below: float) -> float:
    """Quantile of the F law with the degrees of freedom of numerator and denominator."""
    _positive(df_above, "df_above")
    _positive(df_below, "df_below")
    rest = beta_quantile(1.0 - p, df_below / 2.0, df_above / 2.0)
    return math.inf if rest == 0.0 else df_below / df_above * (1.0 - rest) / rest


def normal_quantile(p: float) -> float:
    """Quantile of the standard normal law."""
    # Imported late: statistics pulls in fractions and decimal.
    from statistics import NormalDist

    _probability(p)
    if p in (0.0, 1.0):
        return math.copysign(math.inf, p - 0.5)
    return NormalDist().inv_cdf(p)


def _positive(value: float, name: str) -> None:
    if not value > 0.0:
        raise ScoringError(f"{name} must be positive, not {value}.")


def _probability(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ScoringError(f"a probability must lie in [0, 1], not {p}.")
