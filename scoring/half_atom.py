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
from scoring.errors import ScoringError

ComplexArray = NDArray[np.complex128]

_STEP = 0.1
"""Step of the trapezoid rule, whose error falls exponentially with 1 / step: 1e-13 was the most that halving
this one changed over thousands of samples of 1 to 3,000 units, so rounding is what remains."""

_CHUNK = 40
_CHUNK_CELLS = 1 << 20
"""Steps are taken together while steps x atoms stay below this: memory does not grow with a huge suite."""

_FARTHEST = 128.0
_FINER = 8
"""Steps of the straight path are this much smaller."""

_CLIMB = 30.0
"""Logarithm above the saddle at which a path is given up."""

_DOUBTFUL = 1e-6
"""Twice the step may change a tail by so much: its error is then about the square of this."""

_NEGLIGIBLE = 1e-18

_WIDEST_LOGIT = 700.0
_MOST_STEPS = 200
_CLOSE = 1e-8
"""A last step of Newton's method, in logits."""


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
        return self._cdf_and_density(x)[0]

    def quantile(self, p: float) -> float:
        """The x with ``cdf(x) == p``, for 0 < p < 1; where one atom holds everything, its ratio.

        Notes
        -----
        Newton's method between brackets that only close. It runs on the logit of the place between the
        brackets of the support, and on the normal quantile of the probability: over these the law is nearly a
        straight line, so a handful of steps is enough.
        """
        if self.weights.size == 1:
            return float(self.above[0] / self.below[0])
        low, high = self._around(p)
        if low == high:
            return low
        # Imported late: statistics pulls in fractions and decimal.
        from statistics import NormalDist

        normal = NormalDist()
        wanted, span = normal.inv_cdf(p), high - low
        bottom, top = -_WIDEST_LOGIT, _WIDEST_LOGIT
        at = self._first_guess(low, high, wanted)
        for _ in range(_MOST_STEPS):
            at = at if bottom < at < top else 0.5 * (bottom + top)
            reached, density = self._cdf_and_density(_between(low, high, at))
            if reached < p:
                bottom = at
            else:
                top = at
            slope = density * span / (2.0 + 2.0 * math.cosh(at))
            if 0.0 < reached < 1.0 and slope > 0.0:
                there = normal.inv_cdf(reached)
                step = (wanted - there) * normal.pdf(there) / slope
                at += step
                # The error after a step is about its square.
                if abs(step) <= _CLOSE:
                    break
            else:
                at = 0.5 * (bottom + top)
            if top - bottom <= _CLOSE**2:
                break
        return _between(low, high, at)

    def _around(self, p: float) -> tuple[float, float]:
        """Two points with the quantile between them: the ends of the support, where it has ends."""
        counted = self.below > 0.0
        ratios = self.above[counted] / self.below[counted]
        low, high = float(ratios.min()), float(ratios.max())
        if bool(counted.all()):
            return low, high
        reach = max(high - low, abs(high), 1e-300)
        # Atoms with nothing below push the ratio beyond the others; then the support has no end.
        while self.cdf(low) > p:
            low -= reach
            reach *= 2.0
        reach = max(high - low, abs(low), 1e-300)
        while self.cdf(high) < p:
            high += reach
            reach *= 2.0
        return low, high

    def _first_guess(self, low: float, high: float, wanted: float) -> float:
        """Logit of the place between low and high where a normal law of this mean and variance has it."""
        total, below = float(self.weights.sum()), float(self.weights @ self.below)
        mean = float(self.weights @ self.above) / below
        residues = self.above - mean * self.below
        sd = math.sqrt(float(self.weights @ residues**2) * total / (total + 1.0)) / below
        share = min(max((mean - low) / (high - low), 1e-12), 1.0 - 1e-12)
        logit = math.log(share) - math.log1p(-share)
        return logit + wanted * sd / ((high - low) * share * (1.0 - share))

    def _cdf_and_density(self, x: float) -> tuple[float, float]:
        """``cdf(x)`` and its derivative, from the same points of the path."""
        coefficients = self.above - x * self.below
        largest = float(np.abs(coefficients).max())
        if largest == 0.0:
            return 1.0, 0.0
        # Atoms at the point itself (and their rounding errors) weigh nothing on either side.
        kept = np.abs(coefficients) > 1e-15 * largest
        coefficients, weights = coefficients[kept] / largest, self.weights[kept]
        if float(coefficients.min()) > 0.0:
            return 0.0, 0.0
        if float(coefficients.max()) < 0.0:
            return 1.0, 0.0
        pulls = self.below[kept] * (weights / largest)
        # The tail beyond the mean is the smaller one in most cases: no digits lost to 1 - p. Where its path
        # is a bad one, that of the other tail is good, or else a straight one.
        smaller = 1.0 if float(coefficients @ weights) <= 0.0 else -1.0
        for sign, is_straight in ((smaller, False), (-smaller, False), (smaller, True)):
            found = _positive_tail(sign * coefficients, weights, sign * pulls, is_straight=is_straight)
            if found is not None:
                tail, density = found
                return (1.0 - tail if sign > 0.0 else tail), density
        raise ScoringError(
            "the weighted mean's law cannot be integrated: its values differ too much in size."
        )


def _between(low: float, high: float, logit: float) -> float:
    """The place with this logit, reckoned from the nearer end: close to an end it keeps its digits."""
    if logit <= 0.0:
        return low + (high - low) * (math.exp(logit) / (1.0 + math.exp(logit)))
    return high - (high - low) * (math.exp(-logit) / (1.0 + math.exp(-logit)))


def merged(above: FloatArray, below: FloatArray, weights: FloatArray) -> DirichletRatio:
    """Law with equal atoms merged: a Dirichlet adds the weights of parts that carry the same value.

    Notes
    -----
    Atoms that are 0 above and below, or have no weight, add to neither sum and are left out; at least one
    other must remain.
    """
    counted = ((above != 0.0) | (below != 0.0)) & (weights > 0.0)
    # A pair of numbers as one: sorting rows of a table takes several times as long.
    pairs = np.empty(int(counted.sum()), dtype=np.complex128)
    pairs.real, pairs.imag = above[counted], below[counted]
    distinct, place = np.unique(pairs, return_inverse=True)
    total = np.bincount(place.reshape(-1), weights=weights[counted], minlength=distinct.size)
    return DirichletRatio(
        above=distinct.real.copy(),
        below=distinct.imag.copy(),
        weights=np.asarray(total, dtype=np.float64),
    )


def half_atom_law(
    values: FloatArray, sizes: FloatArray, low: float = 0.0, high: float = 1.0
) -> DirichletRatio:
    """Bayesian bootstrap of a mean with half an atom at each bound.

    Parameters
    ----------
    values : ndarray, float64, shape (n_units,)
        One value per unit, in [low, high].
    sizes : ndarray, float64, shape (n_units,)
        Relative sizes of the units with mean 1; all ones unless units are families of different sizes.
    low, high : float
        Bounds of a value.

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


def score_law(scores: FloatArray, sizes: FloatArray) -> DirichletRatio:
    """The half-atom law of a mean score: scores inside the bounds lend some of their weight to them.

    Parameters
    ----------
    scores : ndarray, float64, shape (n_units,)
        Fractions in [0, 1], one per unit.
    sizes : ndarray, float64, shape (n_units,)
        Relative sizes of the units with mean 1.

    Notes
    -----
    On 0/1 data nothing lies inside, and this is the posterior of Jeffreys to the last digit.
    """
    inner, lent = lent_to_bounds(scores)
    bounds = np.concatenate([np.ones(inner.size), np.zeros(inner.size)])
    own = np.ones(scores.size)
    own[inner] = 1.0 - lent_share(scores.size)
    twice = np.concatenate([sizes[inner], sizes[inner]])
    return merged(
        above=np.concatenate([scores * sizes, [0.0, 1.0], bounds * twice]),
        below=np.concatenate([sizes, np.ones(2), twice]),
        weights=np.concatenate([own, [0.5, 0.5], lent]),
    )


def lent_to_bounds(scores: FloatArray) -> tuple[NDArray[np.int64], FloatArray]:
    """Which scores lie inside the bounds, and the weight that each lends to 1 and, after these, to 0.

    Notes
    -----
    Each lends `lent_share` of its weight, divided so that the mean stays where it is.
    """
    inner = np.flatnonzero((scores > 0.0) & (scores < 1.0))
    return inner, lent_share(scores.size) * np.concatenate([scores[inner], 1.0 - scores[inner]])


def lent_share(n: int) -> float:
    """The part of a score inside the bounds that counts as score at the bounds, for n units.

    Notes
    -----
    The two half atoms, what the sample has not shown, are ``1 / (n + 1)`` of all the weight. A score between
    the bounds has not shown what its scenario gives on other trials either: without this, one score of 1/2
    among many zeros counts as if nothing but 1/2 could come there, and the interval is too short. Half as
    much again as the atoms' share is enough for that; with twice as much some intervals would leave the
    strict ones.
    """
    return 1.5 / (n + 1)


def _positive_tail(
    coefficients: FloatArray, weights: FloatArray, pulls: FloatArray, *, is_straight: bool
) -> tuple[float, float] | None:
    """Probability that ``sum(G * coefficients) > 0`` for independent gamma G with the shapes ``weights``.

    Integral of ``M(s) / s`` along a hyperbola through the saddle point, M the moment generating function;
    coefficients of both signs, the largest in size 1. Beside it the derivative by a number that takes
    ``pulls / weights`` from each coefficient, with the sign of the fall. None where every second point alone
    gives another result: then the path was a bad one.
    """
    c, second, third = _saddle(coefficients, weights)
    scale = 1.0 / math.sqrt(second)
    # The path of steepest descent leaves the saddle with this bend: a straight line would meet oscillation
    # where a single half atom pulls against many units. Far out, a heavy atom close to the point itself can
    # make the bent path climb or oscillate instead; a straight line never climbs, and takes small steps.
    bend = 0.0 if is_straight else third * scale**3 / 3.0
    step = _STEP / _FINER if is_straight else _STEP
    here = 1.0 - coefficients * c
    at_saddle = -float(weights @ np.log(here)) - math.log(c)
    total, halved, fall, last, start = 0.5, 1.0, 0.5 * c * float(pulls @ (1.0 / here)), 1.0, 1
    n_steps = max(2, min(_CHUNK, _CHUNK_CELLS // weights.size) // 2 * 2)
    while last > _NEGLIGIBLE and start * step < _FARTHEST:
        v = step * np.arange(start, start + n_steps)
        along, up = np.cosh(v), np.sinh(v)
        points = c + scale * (bend * (along - 1.0) + 1j * up)
        factors = 1.0 - np.multiply.outer(coefficients, points)
        # Above the real axis 1 - a s never crosses the negative one, so the principal logarithm has no jump.
        logs = -_weighted_logs(factors, weights) - np.log(points) - at_saddle
        if float(logs.real.max()) > _CLIMB:
            return None
        heights = np.exp(logs) * (bend * up + 1j * along)
        total += float(heights.imag.sum())
        halved += 2.0 * float(heights.imag[1::2].sum())
        fall += float((heights * points * (pulls @ (1.0 / factors))).imag.sum())
        last = abs(complex(heights[-1]))
        start += n_steps
    front = math.exp(at_saddle) * scale * step / math.pi
    if not is_straight and front * abs(total - halved) > _DOUBTFUL:
        return None
    return front * total, abs(front * fall)


def _weighted_logs(factors: ComplexArray, weights: FloatArray) -> ComplexArray:
    """``weights @ log(factors)`` up to whole turns where the weights are whole: exp does not see those.

    Notes
    -----
    A logarithm costs ten products, so atoms of one unit are multiplied first, by fours: no product of four
    leaves the range of a float before the path ends.
    """
    units = factors[weights == 1.0]
    n_fours = units.shape[0] // 4
    if n_fours == 0:
        return np.asarray(weights @ np.log(factors))
    fours = units[: 4 * n_fours].reshape(4, n_fours, -1)
    found = np.log(fours[0] * fours[1] * (fours[2] * fours[3])).sum(axis=0)
    found += np.log(units[4 * n_fours :]).sum(axis=0)
    others = weights != 1.0
    return np.asarray(found + weights[others] @ np.log(factors[others]))


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
