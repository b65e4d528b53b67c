"""Distribution of a ratio of Dirichlet-weighted sums by quadrature: no draws, no seed.

The law behind the Bayesian bootstrap, its half-atom form and the strict bound. Knows neither scenarios nor
splits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring._checks import FloatArray
from scoring._roots import bracketed_root

ComplexArray = NDArray[np.complex128]

_STEP = 0.1
"""Step of the trapezoid rule, whose error falls exponentially with 1 / step: 1e-13 was the most that halving
this one changed over thousands of samples of 1 to 3,000 units, so rounding is what remains."""

_CHUNK = 40
_CHUNK_CELLS = 1 << 20
"""Steps are taken together while steps x atoms stay below this: memory does not grow with a huge suite."""

_MAX_STEPS = 1280
_NEGLIGIBLE = 1e-18


@dataclass(frozen=True, eq=False)
class DirichletRatio:
    """Law of ``sum(D * above) / sum(D * below)`` for D ~ Dirichlet(weights).

    Parameters
    ----------
    above, below, weights : ndarray, float64, shape (n_atoms,)
        ``below`` is never negative and not zero everywhere; weights are positive. With ``below`` all ones
        this is the weighted mean of ``above``.
    """

    above: FloatArray
    below: FloatArray
    weights: FloatArray

    def cdf(self, x: float) -> float:
        """Probability that the ratio is at most x.

        Notes
        -----
        The ratio is at most x where ``sum(G * (above - x * below)) <= 0`` for independent gamma G: the law of
        Imhof (1961). His integral along the imaginary axis oscillates; the same integral along a hyperbola
        through the saddle point does not, and there the trapezoid rule converges exponentially.
        """
        coefficients = self.above - x * self.below
        largest = float(np.abs(coefficients).max())
        if largest == 0.0:
            return 1.0
        # Atoms at the point itself (and their rounding errors) weigh nothing on either side.
        kept = np.abs(coefficients) > 1e-15 * largest
        coefficients, weights = coefficients[kept] / largest, self.weights[kept]
        if float(coefficients.min()) > 0.0:
            return 0.0
        if float(coefficients.max()) < 0.0:
            return 1.0
        # The tail beyond the mean is the smaller one in most cases: no digits lost to 1 - p.
        if float(coefficients @ weights) <= 0.0:
            return 1.0 - _positive_tail(coefficients, weights)
        return _positive_tail(-coefficients, weights)

    def quantile(self, p: float) -> float:
        """The x with ``cdf(x) == p``, for 0 < p < 1; where one atom holds everything, its ratio."""
        if self.weights.size == 1:
            return float(self.above[0] / self.below[0])
        ratios = self.above[self.below > 0.0] / self.below[self.below > 0.0]
        low, high = float(ratios.min()), float(ratios.max())
        reach = max(high - low, abs(high), 1e-300)
        # Atoms with nothing below push the ratio beyond the others; then the support has no end.
        while self.cdf(low) > p:
            low -= reach
            reach *= 2.0
        reach = max(high - low, abs(low), 1e-300)
        while self.cdf(high) < p:
            high += reach
            reach *= 2.0
        return bracketed_root(lambda x: self.cdf(x) - p, low, high)


def merged(above: FloatArray, below: FloatArray, weights: FloatArray) -> DirichletRatio:
    """Law with equal atoms merged: a Dirichlet adds the weights of parts that carry the same value.

    Notes
    -----
    Atoms that are 0 above and below add to neither sum and are left out; at least one other must remain.
    """
    counted = (above != 0.0) | (below != 0.0)
    pairs, weights = np.stack([above, below], axis=1)[counted], weights[counted]
    distinct, place = np.unique(pairs, axis=0, return_inverse=True)
    total = np.bincount(place.reshape(-1), weights=weights, minlength=distinct.shape[0])
    return DirichletRatio(
        above=distinct[:, 0].copy(), below=distinct[:, 1].copy(), weights=np.asarray(total, dtype=np.float64)
    )


def half_atom_law(
    values: FloatArray, sizes: FloatArray, low: float = 0.0, high: float = 1.0
) -> DirichletRatio:
    """Bayesian bootstrap of a mean with half an atom at each bound of the score.

    Parameters
    ----------
    values : ndarray, float64, shape (n_units,)
        One value per unit, in [low, high].
    sizes : ndarray, float64, shape (n_units,)
        Relative sizes of the units with mean 1; all ones unless units are families of different sizes.
    low, high : float
        Bounds of a score.

    Notes
    -----
    On data that are only ever low or high this is the posterior of Jeffreys, Beta(c + 1/2, n - c + 1/2).
    """
    ones = np.ones(2)
    return merged(
        above=np.concatenate([values * sizes, [low, high]]),
        below=np.concatenate([sizes, ones]),
        weights=np.concatenate([np.ones(values.size), 0.5 * ones]),
    )


def _positive_tail(coefficients: FloatArray, weights: FloatArray) -> float:
    """Probability that ``sum(G * coefficients) > 0`` for independent gamma G with the shapes ``weights``.

    Integral of ``M(s) / s`` along a hyperbola through the saddle point, M the moment generating function;
    coefficients of both signs, the largest in size 1.
    """
    c, second, third = _saddle(coefficients, weights)
    scale = 1.0 / math.sqrt(second)
    # The path of steepest descent leaves the saddle with this bend: a straight line would meet oscillation
    # where a single half atom pulls against many units.
    bend = third * scale**3 / 3.0
    at_saddle = _log_integrand(coefficients, weights, np.array([complex(c)]))[0].real
    total, last, start = 0.5, 1.0, 1
    n_steps = max(1, min(_CHUNK, _CHUNK_CELLS // weights.size))
    while last > _NEGLIGIBLE and start < _MAX_STEPS:
        v = _STEP * np.arange(start, start + n_steps)
        along, up = np.cosh(v), np.sinh(v)
        points = c + scale * (bend * (along - 1.0) + 1j * up)
        heights = np.exp(_log_integrand(coefficients, weights, points) - at_saddle) * (bend * up + 1j * along)
        total += float(heights.imag.sum())
        last = abs(complex(heights[-1]))
        start += n_steps
    return math.exp(at_saddle) * scale * _STEP * total / math.pi


def _log_integrand(coefficients: FloatArray, weights: FloatArray, points: ComplexArray) -> ComplexArray:
    # Above the real axis 1 - a s never crosses the negative one, so the principal logarithm has no jump.
    return np.asarray(-(weights @ np.log(1.0 - np.multiply.outer(coefficients, points))) - np.log(points))


def _saddle(coefficients: FloatArray, weights: FloatArray) -> tuple[float, float, float]:
    """Minimum over c > 0 of ``log M(c) - log c``, and the second and third derivative there.

    Notes
    -----
    The function is convex with poles at both ends of ``(0, 1 / max)``, so there is one minimum. Any point of
    the interval gives the same integral; a rough minimum is good enough.
    """
    low, high = 0.0, 1.0 / float(coefficients.max())
    c = 0.5 * high
    while True:
        pull = coefficients / (1.0 - coefficients * c)
        slope = float(weights @ pull) - 1.0 / c
        curvature = float(weights @ pull**2) + 1.0 / c**2
        if slope > 0.0:
            high = c
        else:
            low = c
        step = slope / curvature
        if abs(step) * math.sqrt(curvature) < 1e-3:
            return c, curvature, 2.0 * (float(weights @ pull**3) - 1.0 / c**3)
        c = c - step if low < c - step < high else 0.5 * (low + high)
