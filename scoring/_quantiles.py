"""Quantiles of many laws of `half_atom` at once. Knows no scores; whatever is odd is left to the law itself.

The method is that of `DirichletRatio`: the integral along a hyperbola through the saddle point, and Newton's
method between brackets. Here the arrays have one column for each quantile wanted, and complex numbers are
pairs of real ones, whose logarithms and angles are many times as fast. What a column gives does not depend on
the others: each is frozen once it is done, and atoms that pad it add exactly nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scoring._checks import BoolArray, FloatArray

if TYPE_CHECKING:
    from scoring.half_atom import DirichletRatio

_STEP = 0.1
_N_STEPS = 16
_FARTHEST = 128.0
_CLIMB = 30.0
_DOUBTFUL = 1e-6
_NEGLIGIBLE = 1e-18
_WIDEST_LOGIT = 700.0
_MOST_STEPS = 60
_CLOSE = 1e-8
_CELLS = 1 << 14
"""Atoms x columns x points that are handled together: what is made of them stays in the cache."""


@dataclass
class _Columns:
    """One column for each quantile; atoms of a law that has fewer than others are padded with weight 0."""

    above: FloatArray
    below: FloatArray
    weights: FloatArray
    low: FloatArray
    high: FloatArray
    p: FloatArray

    def part(self, chosen: NDArray[np.int64]) -> _Columns:
        return _Columns(
            self.above.take(chosen, axis=1),
            self.below.take(chosen, axis=1),
            self.weights.take(chosen, axis=1),
            self.low[chosen],
            self.high[chosen],
            self.p[chosen],
        )


def quantiles(laws: Sequence[DirichletRatio], ps: Sequence[float]) -> FloatArray:
    """The quantiles of each law; shape (n_laws, n_ps).

    Parameters
    ----------
    laws : sequence of DirichletRatio
        The laws.
    ps : sequence of float
        Probabilities, the same for all laws.
    """
    found = np.empty((len(laws), len(ps)))
    # Laws of about as many atoms go together, so that little is padded; a few more do no harm.
    order = sorted(range(len(laws)), key=lambda i: laws[i].weights.size)
    start = 0
    while start < len(order):
        size = laws[order[start]].weights.size
        stop = start + 1
        while stop < len(order) and laws[order[stop]].weights.size <= size * (
            2.0 if stop - start < 16 else 1.2
        ):
            stop += 1
        chosen = order[start:stop]
        found[chosen] = _alike([laws[i] for i in chosen], ps)
        start = stop
    return found


def _alike(laws: Sequence[DirichletRatio], ps: Sequence[float]) -> FloatArray:
    n_atoms = max(law.weights.size for law in laws)
    n = len(laws) * len(ps)
    columns = _Columns(
        above=np.zeros((n_atoms, n)),
        below=np.zeros((n_atoms, n)),
        weights=np.zeros((n_atoms, n)),
        low=np.zeros(n),
        high=np.zeros(n),
        p=np.tile(np.asarray(ps, dtype=np.float64), len(laws)),
    )
    is_plain = np.zeros(n, dtype=np.bool_)
    for i, law in enumerate(laws):
        own = slice(i * len(ps), (i + 1) * len(ps))
        size = law.weights.size
        columns.above[:size, own] = law.above[:, None]
        columns.below[:size, own] = law.below[:, None]
        columns.weights[:size, own] = law.weights[:, None]
        if size > 1 and bool(np.all(law.below > 0.0)):
            ratios = law.above / law.below
            columns.low[own], columns.high[own] = ratios.min(), ratios.max()
            is_plain[own] = columns.low[own] < columns.high[own]
    found = np.full(n, np.nan)
    plain = np.flatnonzero(is_plain)
    if plain.size:
        found[plain] = _solve(columns.part(plain))
    for place in np.flatnonzero(np.isnan(found)).tolist():
        found[place] = laws[place // len(ps)].quantile(float(columns.p[place]))
    return found.reshape(len(laws), len(ps))


def _solve(columns: _Columns) -> FloatArray:
    """Newton's method on the logit of the place between low and high; NaN where it does not end well."""
    from statistics import NormalDist

    normal = NormalDist()
    n = columns.p.size
    span = columns.high - columns.low
    wanted = np.array([normal.inv_cdf(p) for p in columns.p.tolist()])
    at = _first_guess(columns, wanted)
    bottom, top = np.full(n, -_WIDEST_LOGIT), np.full(n, _WIDEST_LOGIT)
    active, is_good = np.arange(n), np.zeros(n, dtype=np.bool_)
    for _ in range(_MOST_STEPS):
        outside = ~((bottom[active] < at[active]) & (at[active] < top[active]))
        at[active[outside]] = 0.5 * (bottom + top)[active[outside]]
        x = _between(columns.low[active], columns.high[active], at[active])
        reached, density = _cdf_and_density(columns.part(active), x)
        going = []
        for place, share, slope_x in zip(active.tolist(), reached.tolist(), density.tolist(), strict=True):
            here = float(at[place])
            slope = slope_x * float(span[place]) / (2.0 + 2.0 * math.cosh(here))
            # Anything odd is left to the slower way, which knows what to do.
            if not (0.0 < share < 1.0 and slope > 0.0):
                continue
            if share < columns.p[place]:
                bottom[place] = here
            else:
                top[place] = here
            there = normal.inv_cdf(share)
            step = (float(wanted[place]) - there) * normal.pdf(there) / slope
            at[place] = here + step
            if abs(step) <= _CLOSE:
                is_good[place] = True
            else:
                going.append(place)
        active = np.array(going, dtype=np.int64)
        if not active.size:
            break
    return np.where(is_good, _between(columns.low, columns.high, at), np.nan)


def _between(low: FloatArray, high: FloatArray, logit: FloatArray) -> FloatArray:
    """The place with this logit, reckoned from the nearer end: close to an end it keeps its digits."""
    small = np.exp(-np.abs(logit))
    part = (high - low) * (small / (1.0 + small))
    return np.where(logit <= 0.0, low + part, high - part)


def _first_guess(columns: _Columns, wanted: FloatArray) -> FloatArray:
    """Logit of the place where a normal law of this mean and variance has the quantile."""
    total = _down(columns.weights)
    below = _down(columns.weights * columns.below)
    mean = _down(columns.weights * columns.above) / below
    squares = _down(columns.weights * (columns.above - mean * columns.below) ** 2)
    sd = np.sqrt(squares * total / (total + 1.0)) / below
    span = columns.high - columns.low
    share = np.clip((mean - columns.low) / span, 1e-12, 1.0 - 1e-12)
    return np.asarray(np.log(share) - np.log1p(-share) + wanted * sd / (span * share * (1.0 - share)))


def _cdf_and_density(columns: _Columns, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``cdf(x)`` of each column and its derivative; NaN where the path is a bad one."""
    coefficients = columns.above - x * columns.below
    largest = np.abs(coefficients).max(axis=0)
    with np.errstate(all="ignore"):
        coefficients = coefficients / largest
        # Atoms at the point itself (and their rounding errors) weigh nothing on either side.
        kept = (np.abs(coefficients) > 1e-15) & (columns.weights > 0.0)
        coefficients = np.where(kept, coefficients, 0.0)
        weights = np.where(kept, columns.weights, 0.0)
        pulls = columns.below * (weights / largest)
        # The tail beyond the mean is the smaller one in most cases: no digits lost to 1 - p.
        sign = np.where(_down(coefficients * weights) <= 0.0, 1.0, -1.0)
        tail, density = _positive_tails(sign * coefficients, weights, pulls)
        return np.where(sign > 0.0, 1.0 - tail, tail), density


def _positive_tails(
    coefficients: FloatArray, weights: FloatArray, pulls: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Probability that ``sum(G * coefficients) > 0`` in each column, and the size of its slope."""
    n = coefficients.shape[1]
    tail, slope = np.full(n, np.nan), np.full(n, np.nan)
    two_sided = (coefficients.max(axis=0) > 0.0) & (coefficients.min(axis=0) < 0.0)
    chosen = np.flatnonzero(two_sided)
    width = max(1, _CELLS // (coefficients.shape[0] * _N_STEPS))
    for start in range(0, chosen.size, width):
        some = chosen[start : start + width]
        tail[some], slope[some] = _along_paths(
            *(table.take(some, axis=1) for table in (coefficients, weights, pulls))
        )
    return tail, slope


def _along_paths(
    coefficients: FloatArray, weights: FloatArray, pulls: FloatArray
) -> tuple[FloatArray, FloatArray]:
    c, second, third, is_good = _saddles(coefficients, weights)
    scale = 1.0 / np.sqrt(second)
    bend = third * scale**3 / 3.0
    here = 1.0 - coefficients * c
    at_saddle = -_down(weights * np.log(here)) - np.log(c)
    total, halved = np.full(c.size, 0.5), np.ones(c.size)
    fall = 0.5 * c * _down(pulls / here)
    active, start = np.flatnonzero(is_good), 1
    while active.size and start * _STEP < _FARTHEST:
        v = _STEP * np.arange(start, start + _N_STEPS)
        along, up = np.cosh(v), np.sinh(v)
        bent, wide = bend[active, None], scale[active, None]
        px = c[active, None] + wide * (bent * (along - 1.0))
        py = wide * up
        a, w, pull = (one.take(active, axis=1)[:, :, None] for one in (coefficients, weights, pulls))
        real, imaginary = 1.0 - a * px, -a * py
        squared = real * real + imaginary * imaginary
        # Above the real axis 1 - a s never crosses the negative one, so the angle has no jump.
        log_size = -0.5 * (w * np.log(squared)).sum(axis=0)
        angle = -(w * np.arctan2(imaginary, real)).sum(axis=0)
        pull = pull / squared
        pull_x, pull_y = (pull * real).sum(axis=0), -(pull * imaginary).sum(axis=0)
        log_size -= 0.5 * np.log(px * px + py * py) + at_saddle[active, None]
        angle -= np.arctan2(py, px)
        size = np.exp(log_size)
        x, y = size * np.cos(angle), size * np.sin(angle)
        # Times the path's direction, (bend * up, along).
        rise_x, rise_y = x * (bent * up) - y * along, x * along + y * (bent * up)
        total[active] += rise_y.sum(axis=1)
        halved[active] += 2.0 * rise_y[:, 1::2].sum(axis=1)
        turned_x, turned_y = px * pull_x - py * pull_y, px * pull_y + py * pull_x
        fall[active] += (rise_x * turned_y + rise_y * turned_x).sum(axis=1)
        climbs = log_size.max(axis=1) > _CLIMB
        is_good[active[climbs]] = False
        last = np.hypot(rise_x[:, -1], rise_y[:, -1])
        active = active[(last > _NEGLIGIBLE) & ~climbs]
        start += _N_STEPS
    front = np.exp(at_saddle) * scale * _STEP / math.pi
    is_good &= front * np.abs(total - halved) <= _DOUBTFUL
    return np.where(is_good, front * total, np.nan), np.where(is_good, np.abs(front * fall), np.nan)


def _down(table: FloatArray) -> FloatArray:
    """Sum over atoms, always in their order: NumPy adds a lone column in another one.

    For the same reason columns are chosen by ``take``: indexing may turn the table's memory.
    """
    if table.shape[1] == 1:
        return np.asarray(np.repeat(table, 2, axis=1).sum(axis=0)[:1])
    return np.asarray(table.sum(axis=0))


def _saddles(
    coefficients: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray]:
    """Minimum over c > 0 of ``log M(c) - log c`` in each column, and two higher derivatives there."""
    n = coefficients.shape[1]
    low, high = np.zeros(n), 1.0 / coefficients.max(axis=0)
    c, second, third = 0.5 * high, np.ones(n), np.zeros(n)
    active, is_good = np.arange(n), np.zeros(n, dtype=np.bool_)
    for _ in range(_MOST_STEPS):
        a, w, at = coefficients.take(active, axis=1), weights.take(active, axis=1), c[active]
        pull = a / (1.0 - a * at)
        weighted = w * pull
        slope = _down(weighted) - 1.0 / at
        weighted *= pull
        curvature = _down(weighted) + 1.0 / at**2
        rising = slope > 0.0
        high[active] = np.where(rising, at, high[active])
        low[active] = np.where(rising, low[active], at)
        step = slope / curvature
        near = np.abs(step) * np.sqrt(curvature) < 1e-3
        done = active[near]
        second[done] = curvature[near]
        third[done] = 2.0 * (
            _down((weighted * pull).take(np.flatnonzero(near), axis=1)) - 1.0 / at[near] ** 3
        )
        is_good[done] = True
        moved = at - step
        inside = (low[active] < moved) & (moved < high[active])
        c[active] = np.where(near, at, np.where(inside, moved, 0.5 * (low + high)[active]))
        active = active[~near]
        if not active.size:
            break
    return c, second, third, is_good
