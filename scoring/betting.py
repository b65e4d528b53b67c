"""Confidence sequence for the mean of bounded values by betting: valid however often one looks."""

from __future__ import annotations

import math

import numpy as np

from scoring._checks import FloatArray

_STAKE = 0.5
"""Largest share of the capital at risk on one value."""
_HALVINGS = 60


def betting_bounds(values: FloatArray, level: float) -> tuple[float, float]:
    """Interval for the mean of values in [0, 1] that holds at every look at once.

    Parameters
    ----------
    values : ndarray, float64, shape (n,)
        In the order in which they were seen, which must not depend on the values.
    level : float
        Confidence that the mean lies inside after every one of the n values.

    Notes
    -----
    Two gamblers bet that the mean lies above, and below, a candidate; the candidate goes when one of them has
    multiplied the capital by 2 / (1 - level). Their largest wealth so far counts: the intersection over all
    looks. Source: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (2024),
    hedged capital with plug-in stakes.
    """
    alpha = 1.0 - level
    stakes = _plug_in_stakes(values, alpha)
    wanted = math.log(2.0 / alpha)
    low = _lower_bound(values, stakes, wanted)
    high = 1.0 - _lower_bound(1.0 - values, stakes, wanted)
    # Looks at values that drift can exclude every candidate; the hull of the two ends is the honest rest.
    return min(low, high), max(low, high)


def _plug_in_stakes(values: FloatArray, alpha: float) -> FloatArray:
    n = np.arange(1, values.size + 1)
    means = (0.5 + np.cumsum(values)) / (n + 1)
    variances = (0.25 + np.cumsum((values - means) ** 2)) / (n + 1)
    # A stake is fixed before its value is seen, so the variances are those of the look before.
    before = np.concatenate([[0.25], variances[:-1]])
    return np.asarray(np.sqrt(2.0 * math.log(2.0 / alpha) / (before * n * np.log1p(n))))


def _lower_bound(values: FloatArray, stakes: FloatArray, wanted: float) -> float:
    """Largest candidate against which the bets have won enough; 0 if none."""

    def has_won(candidate: float) -> bool:
        bets = np.minimum(stakes, _STAKE / candidate)
        return bool(np.cumsum(np.log1p(bets * (values - candidate))).max() >= wanted)

    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if has_won(middle):
            low = middle
        else:
            high = middle
    return low
