"""From scores of trials to one number of a suite: means over what was planned, no uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scoring import _checks
from scoring._checks import BoolArray, FloatArray, IntArray
from scoring.errors import ScoringError


@dataclass(frozen=True, eq=False)
class SuiteMean:
    """A mean over scenarios; with splits, the mean of the split means."""

    mean: float
    split_means: FloatArray | None
    """Shape (n_splits,), in the order of the labels; None without splits."""


def scenario_means(scores: Any) -> FloatArray:
    """Mean over the planned repeats of each scenario.

    Parameters
    ----------
    scores : array_like, shape (n_scenarios, n_repeats)
        Fractions in [0, 1]; a trial that the agent failed is 0, never missing.

    Returns
    -------
    means : ndarray, float64, shape (n_scenarios,)
    """
    return np.asarray(_checks.fractions(scores, "scores", 2).mean(axis=-1))


def repeat_spread(scores: Any) -> FloatArray:
    """Sample standard deviation over the repeats of each scenario.

    Parameters
    ----------
    scores : array_like, shape (n_scenarios, n_repeats)
        Fractions in [0, 1].

    Returns
    -------
    spread : ndarray, float64, shape (n_scenarios,)
        NaN with a single repeat: one trial says nothing about spread, and 0 would be a false certainty.
    """
    array = _checks.fractions(scores, "scores", 2)
    n_repeats = array.shape[-1]
    if n_repeats == 1:
        return np.full(array.shape[0], np.nan)
    # Distances from the first repeat: equal repeats then give exactly 0, no rounding error of their mean.
    shifted = array - array[:, :1]
    centred = shifted - shifted.mean(axis=-1, keepdims=True)
    return np.asarray(np.sqrt((centred**2).sum(axis=-1) / (n_repeats - 1)))


def suite_mean(scenario_scores: Any, split_of: Any = None) -> SuiteMean:
    """Mean over scenarios, or the mean of the split means.

    Parameters
    ----------
    scenario_scores : array_like, shape (n_scenarios,)
        Fractions in [0, 1].
    split_of : array_like of int, shape (n_scenarios,), optional
        Label of each scenario's split, 0 .. n_splits - 1, none of them empty.

    Notes
    -----
    With splits, each split weighs the same however many scenarios it has.
    """
    scores = _checks.fractions(scenario_scores, "scenario_scores", 1)
    if split_of is None:
        return SuiteMean(mean=float(scores.mean()), split_means=None)
    labels = _split_labels(split_of, scores.size)
    sizes = np.bincount(labels)
    means = np.bincount(labels, weights=scores) / sizes
    return SuiteMean(mean=float(means.mean()), split_means=means)


def suite_bounds(scores: Any, is_scored: Any, split_of: Any = None) -> tuple[float, float]:
    """Suite mean with every unscored trial as 0, and with every unscored trial as 1.

    Parameters
    ----------
    scores : array_like, shape (n_scenarios, n_repeats)
        Fractions in [0, 1]; the value of an unscored trial is ignored, so NaN is allowed there.
    is_scored : array_like of bool, shape (n_scenarios, n_repeats)
        False where the trial has no score that is the agent's.
    split_of : array_like of int, optional
        As for `suite_mean`.
    """
    array = np.asarray(scores, dtype=np.float64)
    mask = _score_mask(is_scored, array.shape)
    low = np.where(mask, array, 0.0)
    high = np.where(mask, low, 1.0)
    return (
        suite_mean(scenario_means(low), split_of).mean,
        suite_mean(scenario_means(high), split_of).mean,
    )


def _score_mask(is_scored: Any, shape: tuple[int, ...]) -> BoolArray:
    mask = np.asarray(is_scored)
    if mask.dtype.kind != "b":
        raise ScoringError(f"is_scored must hold booleans, not {mask.dtype}.")
    if mask.shape != shape:
        raise ScoringError(f"is_scored must have the shape of scores, {shape}, not {mask.shape}.")
    return mask


def _split_labels(split_of: Any, n_scenarios: int) -> IntArray:
    labels = _checks.integers(split_of, "split_of", (n_scenarios,))
    if int(labels.min()) < 0:
        raise ScoringError("split_of must not be negative.")
    if np.unique(labels).size != int(labels.max()) + 1:
        raise ScoringError(
            "split_of must use every label from 0 to its largest one: an empty split has no mean."
        )
    return labels
