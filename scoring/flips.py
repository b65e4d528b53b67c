"""Sign-flip tests: under the null a paired difference is as likely to have the other sign."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scoring._checks import FloatArray
from scoring.errors import ScoringError

MAX_EXACT = 20
"""Largest number of non-zero differences whose sign patterns are all enumerated."""

_CLOSE = 1e-12
"""Relative distance below which two sums count as equal: rounding must not split ties."""

_BLOCK_FLIPS = 1 << 10
_BLOCK_SUMS = 1 << 23
"""Sums held at once: many agents make many pairs, and each flip gives a sum of every pair."""


@dataclass(frozen=True)
class FlipTest:
    """Two-sided p-value for "no difference", and how it was found."""

    p_value: float
    n_nonzero: int
    is_exact: bool
    n_resamples: int | None
    """None where all patterns were enumerated."""


def sign_flip_test(
    differences: FloatArray, rng: np.random.Generator | None = None, n_resamples: int = 10_000
) -> FlipTest:
    """Sign-flip test of the sum of paired differences.

    Parameters
    ----------
    differences : ndarray, float64, shape (n_units,)
        What each unit adds to the difference of the means.
    rng : numpy.random.Generator, optional
        Needed beyond `MAX_EXACT` non-zero differences.
    n_resamples : int
        Random sign patterns then.

    Notes
    -----
    Differences of 0 change no sum and are left out. Random p-values are (c + 1) / (n + 1), never 0: the
    observed signs are one of the patterns. Enumeration counts them itself.
    """
    nonzero = differences[differences != 0.0]
    n = nonzero.size
    observed = abs(float(nonzero.sum()))
    if n <= MAX_EXACT:
        sums = np.zeros(1)
        # By symmetry the first sign may stay: half of the patterns have the same share.
        for place, value in enumerate(nonzero):
            sums = sums + value if place == 0 else np.concatenate([sums + value, sums - value])
        limit = observed - _CLOSE * float(np.abs(nonzero).sum())
        return FlipTest(float(np.mean(np.abs(sums) >= limit)), n, True, None)
    p_values = random_flip_p_values(differences[:, None], _needed(rng), n_resamples)
    return FlipTest(float(p_values[0]), n, False, n_resamples)


def random_flip_p_values(
    differences: FloatArray, rng: np.random.Generator, n_resamples: int = 10_000
) -> FloatArray:
    """p-value of each column by the same random sign patterns; shape (n_columns,).

    Parameters
    ----------
    differences : ndarray, float64, shape (n_units, n_columns)
        Each column is one comparison.
    """
    _check_resamples(n_resamples)
    limits = np.abs(differences.sum(axis=0)) - _CLOSE * np.abs(differences).sum(axis=0)
    counts = np.zeros(differences.shape[1], dtype=np.int64)
    for sums in _random_sums(differences, rng, n_resamples):
        # Summed as small numbers: counting what is true along this axis takes several times as long.
        counts += np.add.reduce((sums >= limits).view(np.uint8), axis=0, dtype=np.uint32)
    return np.asarray((counts + 1) / (n_resamples + 1))


def max_t_p_values(
    differences: FloatArray, rng: np.random.Generator, n_resamples: int = 10_000
) -> FloatArray:
    """p-values of all columns adjusted for being looked at together; shape (n_columns,).

    Parameters
    ----------
    differences : ndarray, float64, shape (n_units, n_columns)
        Each column is one comparison; rows are flipped as a whole, which keeps how columns depend.

    Notes
    -----
    Step-down max-T. The statistic ``|sum d| / sqrt(sum d^2)`` orders like the paired t, and its denominator
    does not change when signs do. Source: Westfall and Young (1993), algorithm 4.1; Romano and Wolf (2005).
    """
    _check_resamples(n_resamples)
    norms = np.sqrt((differences**2).sum(axis=0))
    scaled = differences / np.where(norms > 0.0, norms, 1.0)
    observed = np.abs(scaled.sum(axis=0))
    order = np.argsort(-observed, kind="stable")
    limits = observed[order] - _CLOSE
    counts = np.zeros(order.size, dtype=np.int64)
    for sums in _random_sums(scaled[:, order], rng, n_resamples):
        # A column competes with itself and all less significant ones.
        largest = np.maximum.accumulate(sums[:, ::-1], axis=1)[:, ::-1]
        counts += (largest >= limits).sum(axis=0)
    adjusted = np.empty(order.size)
    adjusted[order] = np.maximum.accumulate((counts + 1) / (n_resamples + 1))
    adjusted[norms == 0.0] = 1.0
    return adjusted


def _random_sums(differences: FloatArray, rng: np.random.Generator, n_resamples: int) -> Iterator[FloatArray]:
    """Absolute column sums under random signs, in blocks (n_flips, n_columns) that share their memory."""
    n_units, n_columns = differences.shape
    n_block = max(1, min(_BLOCK_FLIPS, _BLOCK_SUMS // max(1, n_columns), n_resamples))
    signs, sums = np.empty((n_block, n_units)), np.empty((n_block, n_columns))
    # Signs of one half each: doubling is exact, and the differences are fewer than the sums.
    doubled = 2.0 * differences
    for start in range(0, n_resamples, n_block):
        n_flips = min(n_block, n_resamples - start)
        drawn = rng.integers(0, 2, size=(n_flips, n_units), dtype=np.int8)
        np.subtract(drawn, 0.5, out=signs[:n_flips])
        found = np.matmul(signs[:n_flips], doubled, out=sums[:n_flips])
        yield np.abs(found, out=found)


def _needed(rng: np.random.Generator | None) -> np.random.Generator:
    if rng is None:
        raise ScoringError(
            f"more than {MAX_EXACT} differences are not 0, so signs are drawn: pass rng, a random Generator."
        )
    return rng


def _check_resamples(n_resamples: int) -> None:
    if n_resamples < 1:
        raise ScoringError(f"n_resamples must be at least 1, not {n_resamples}.")
