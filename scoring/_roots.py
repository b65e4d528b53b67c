"""The root of a monotone function between two points; no statistics here."""

from __future__ import annotations

import math
from collections.abc import Callable

_MAX_STEPS = 200


def bracketed_root(
    function: Callable[[float], float], low: float, high: float, *, tolerance: float = 1e-13
) -> float:
    """Root of a continuous function whose values at the ends differ in sign.

    Parameters
    ----------
    function : callable
        Monotone between the ends; its own values at the ends need not be finite, only of the right sign.
    low, high : float
        The ends.
    tolerance : float
        Relative to the root, with a floor of 1e-300; the bracket is halved until it is that narrow.

    Notes
    -----
    Interpolation (Chandrupatla 1997) where three points allow it, else bisection, so never slower than
    bisection by more than a factor and immune to flat or infinite stretches.
    """
    at_low, at_high = function(low), function(high)
    if at_low == 0.0:
        return low
    if at_high == 0.0:
        return high
    # a, b bracket the root; c is the point dropped last. b is the newest.
    a, fa, b, fb = high, at_high, low, at_low
    share = 0.5
    for _ in range(_MAX_STEPS):
        x = a + share * (b - a)
        fx = function(x)
        if (fx > 0) == (fa > 0):
            c, fc, a, fa = a, fa, x, fx
        else:
            c, fc, b, fb, a, fa = b, fb, a, fa, x, fx
        best = a if abs(fa) < abs(fb) else b
        width = abs(b - a)
        allowed = 2.0 * tolerance * abs(best) + 1e-300
        if fx == 0.0 or width <= allowed:
            return x if fx == 0.0 else best
        share = _next_share(a, fa, b, fb, c, fc, allowed / width)
    return best


def _next_share(a: float, fa: float, b: float, fb: float, c: float, fc: float, smallest: float) -> float:
    """Place of the next point between a (0) and b (1): inverse quadratic where safe, else the middle."""
    if not (math.isfinite(fa) and math.isfinite(fb) and math.isfinite(fc)) or fc in (fa, fb):
        return 0.5
    place = (a - b) / (c - b)
    height = (fa - fb) / (fc - fb)
    if height**2 >= place or (1.0 - height) ** 2 >= 1.0 - place:
        return 0.5
    share = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
    return min(1.0 - smallest / 2, max(smallest / 2, share))
