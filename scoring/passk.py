"""What k tries of an agent are worth: pass@k, pass^k and flips between repeats. Knows no threshold itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from scoring._checks import BoolArray, FloatArray
from scoring.errors import ScoringError
from scoring.intervals import Interval, mean_interval


@dataclass(frozen=True)
class PassK:
    """Chance that k fresh trials of one scenario hold a pass, and that all of them pass."""

    k: int
    any_passes: Interval
    """pass@k: at least one of k trials passes."""
    all_pass: Interval
    """pass^k: all k trials pass."""


def pass_at_k(has_passed: Any, k: int) -> FloatArray:
    """Chance that k of the repeats, drawn without replacement, hold a pass; shape (n_scenarios,).

    Parameters
    ----------
    has_passed : array_like of bool, shape (n_scenarios, n_repeats)
        Whether each trial passed, for example its full recall.
    k : int
        From 1 to n_repeats; more cannot be estimated and is refused.

    Notes
    -----
    ``1 - C(n - c, k) / C(n, k)`` for c passes in n repeats, free of bias; ``1 - (1 - c / n)^k`` is biased.
    """
    table = _table(has_passed, k)
    return np.asarray(_chances(table.shape[1], k)[0][table.sum(axis=1)])


def pass_hat_k(has_passed: Any, k: int) -> FloatArray:
    """Chance that k of the repeats, drawn without replacement, all pass; shape (n_scenarios,).

    Notes
    -----
    ``C(c, k) / C(n, k)``, free of bias; the plug-in ``(c / n)^k`` is biased upwards (at n = k = 3 and a pass
    rate of .5 it averages .25 for a true .125).
    """
    table = _table(has_passed, k)
    return np.asarray(_chances(table.shape[1], k)[1][table.sum(axis=1)])


def pass_k(has_passed: Any, k: int, **options: Any) -> PassK:
    """pass@k and pass^k of a suite with their intervals; options as for `mean_interval`."""
    return PassK(
        k=k,
        any_passes=mean_interval(
            pass_at_k(has_passed, k), estimand=f"pass@{k} over scenarios like these", **options
        ),
        all_pass=mean_interval(
            pass_hat_k(has_passed, k), estimand=f"pass^{k} over scenarios like these", **options
        ),
    )


def has_flipped(has_passed: Any) -> BoolArray:
    """Whether each scenario both passed and failed among its repeats; shape (n_scenarios,).

    Notes
    -----
    Grows with the number of repeats: never compare it across different numbers.
    """
    table = _table(has_passed, 1)
    return np.asarray(table.any(axis=1) & ~table.all(axis=1))


def flip_share(has_passed: Any, **options: Any) -> Interval | None:
    """Share of scenarios that flip between repeats; None with one repeat, which cannot flip."""
    table = _table(has_passed, 1)
    n_repeats = table.shape[1]
    if n_repeats == 1:
        return None
    return mean_interval(
        has_flipped(table).astype(np.float64),
        estimand=f"share of scenarios like these that flip within {n_repeats} repeats",
        **options,
    )


def _table(has_passed: Any, k: int) -> BoolArray:
    table = np.asarray(has_passed)
    if table.dtype.kind != "b":
        raise ScoringError(f"has_passed must hold booleans, not {table.dtype}.")
    if table.ndim != 2 or table.size == 0:
        raise ScoringError(f"has_passed must be a table of scenarios x repeats, not of shape {table.shape}.")
    if not 1 <= k <= table.shape[1]:
        raise ScoringError(f"k must lie between 1 and the number of repeats, {table.shape[1]}; it is {k}.")
    return table


@lru_cache(maxsize=256)
def _chances(n: int, k: int) -> tuple[FloatArray, FloatArray]:
    """By number of passes among n repeats: the chance that k of them hold a pass, and that all k pass."""
    # Integers of any size divide with one rounding; a ratio of floating factorials would overflow.
    total = math.comb(n, k)
    misses = np.array([math.comb(n - c, k) / total for c in range(n + 1)])
    return 1.0 - misses, np.array([math.comb(c, k) / total for c in range(n + 1)])
