"""Percentile bootstrap of weighted means: one set of draws for any number of series. Makes no interval."""

from __future__ import annotations

from typing import Any

import numpy as np

from scoring._checks import FloatArray
from scoring.errors import ScoringError

_CELLS = 1 << 20


def bootstrap_means(
    values: Any, sizes: Any, rng: np.random.Generator, *, n_resamples: int = 10_000
) -> FloatArray:
    """Resampled means of several series over the same units.

    Parameters
    ----------
    values : array_like, shape (n_series, n_units)
        One row for each agent, say; a difference of two rows has the difference of their means.
    sizes : array_like, shape (n_units,)
        Relative sizes of the units, all ones unless they are families of different sizes.
    rng : numpy.random.Generator
        Draws how often each unit counts, for all series alike.
    n_resamples : int
        Resamples.

    Returns
    -------
    means : ndarray, float64, shape (n_series, n_resamples)
    """
    if n_resamples < 1:
        raise ScoringError(f"n_resamples must be at least 1, not {n_resamples}.")
    weights = np.asarray(sizes, dtype=np.float64)
    table = np.asarray(values, dtype=np.float64) * weights
    n_units = weights.size
    means = np.empty((table.shape[0], n_resamples))
    rows = max(1, _CELLS // n_units)
    for start in range(0, n_resamples, rows):
        stop = min(start + rows, n_resamples)
        drawn = rng.multinomial(n_units, np.full(n_units, 1.0 / n_units), size=stop - start).astype(
            np.float64
        )
        means[:, start:stop] = (table @ drawn.T) / (drawn @ weights)
    return means
