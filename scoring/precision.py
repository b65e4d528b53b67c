"""Scores of each trial: precision at full recall, its ranked variant, and the plain measures beside it.

Rules that hold for all of them: no readable diagnosis is 0, without a fault too. On a scenario without a
fault the empty diagnosis has every measure 1, anything named has every measure 0. With root causes, an empty
diagnosis is 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scoring._checks import BoolArray, FloatArray, IntArray
from scoring.trials import MatchCounts, TrialBatch, blocks, count_matches, is_first


def full_recall(counts: MatchCounts) -> BoolArray:
    """Whether each trial named every root cause (without a fault: named nothing)."""
    complete = counts.n_correct == counts.n_root_causes
    named_nothing = counts.n_submitted == 0
    right = np.where(counts.n_root_causes > 0, complete, named_nothing)
    reached: BoolArray = right & counts.has_diagnosis
    return reached


def exact(counts: MatchCounts) -> BoolArray:
    """Whether each trial named every root cause and nothing else: a score of 1."""
    nothing_else: BoolArray = full_recall(counts) & (counts.n_wrong == 0)
    return nothing_else


def precision(counts: MatchCounts) -> FloatArray:
    """Correct share of the distinct submitted entities; shape (n_trials,)."""
    return _ratio(counts, counts.n_correct, counts.n_submitted)


def recall(counts: MatchCounts) -> FloatArray:
    """Named share of the root causes; shape (n_trials,)."""
    return _ratio(counts, counts.n_correct, counts.n_root_causes)


def f1(counts: MatchCounts) -> FloatArray:
    """Harmonic mean of precision and recall; shape (n_trials,)."""
    return _ratio(counts, 2 * counts.n_correct, counts.n_submitted + counts.n_root_causes)


def precision_at_full_recall(counts: MatchCounts) -> FloatArray:
    """Precision of each trial that named every root cause, else 0.

    Parameters
    ----------
    counts : MatchCounts
        Counts of distinct entities; each array of shape (n_trials,).

    Returns
    -------
    score : ndarray, float64, shape (n_trials,)
        Fraction in [0, 1].

    Notes
    -----
    ``n_correct / n_submitted if n_correct == n_root_causes else 0``; an empty diagnosis scores 0, except on a
    scenario without a fault, where it is the right one.
    """
    return np.where(full_recall(counts), precision(counts), 0.0)


def ranked_precision_at_full_recall(batch: TrialBatch, counts: MatchCounts | None = None) -> FloatArray:
    """Mean precision at the place of each root cause, for trials that named every root cause, else 0.

    Parameters
    ----------
    batch : TrialBatch
        The trials.
    counts : MatchCounts, optional
        ``count_matches(batch)``, if it is at hand.

    Returns
    -------
    score : ndarray, float64, shape (n_trials,)
        ``(1 / n_root_causes) * sum over first hits of c / rank``, the c-th hit at its rank among distinct
        entities. Without a fault, the same as `precision_at_full_recall`.

    Notes
    -----
    Wrong entities after the last root cause cost nothing here; they do in `precision_at_full_recall`.
    """
    counts = count_matches(batch) if counts is None else counts
    # Only trials with all root causes AND something wrong depend on the order; all others are 0 or 1 already.
    score = exact(counts).astype(np.float64)
    ordered = full_recall(counts) & (counts.n_wrong > 0)
    for block in blocks(batch):
        if bool(ordered[block.trials].any()):
            _rank_block(batch, block.codes, block.trial_of, block.trials, ordered, score)
    return score


def _rank_block(
    batch: TrialBatch,
    codes: IntArray,
    trial_of: IntArray,
    trials: slice,
    ordered: BoolArray,
    score: FloatArray,
) -> None:
    n_trials = trials.stop - trials.start
    kept = ordered[trials][trial_of]
    codes, trial_of = codes[kept], trial_of[kept]
    longest = int(np.bincount(trial_of, minlength=n_trials).max())
    first = is_first(codes, trial_of, longest)
    codes, trial_of = codes[first], trial_of[first]
    n_root_causes = batch.n_root_causes[trials]
    hit = codes < n_root_causes[trial_of]
    hit_trial = trial_of[hit]
    rank = _place_in_trial(trial_of, n_trials)[hit]
    nth_hit = _place_in_trial(hit_trial, n_trials)
    total = np.bincount(hit_trial, weights=nth_hit / rank, minlength=n_trials)
    chosen = ordered[trials]
    score[trials][chosen] = total[chosen] / n_root_causes[chosen]


def _place_in_trial(trial_of: IntArray, n_trials: int) -> IntArray:
    """Place of each entry within its trial, from 1."""
    lengths = np.bincount(trial_of, minlength=n_trials)
    starts = np.cumsum(lengths) - lengths
    return np.arange(1, trial_of.size + 1, dtype=np.int64) - starts[trial_of]


def _ratio(counts: MatchCounts, numerator: IntArray, denominator: IntArray) -> FloatArray:
    faulty = counts.n_root_causes > 0
    safe = np.maximum(denominator, 1)
    with_fault = np.where(counts.has_diagnosis & faulty, numerator / safe, 0.0)
    return np.where(faulty, with_fault, full_recall(counts).astype(np.float64))


@dataclass(frozen=True, eq=False)
class TrialScores:
    """Every measure of every trial; each array has shape (n_trials,)."""

    counts: MatchCounts
    precision_at_full_recall: FloatArray
    ranked_precision_at_full_recall: FloatArray
    precision: FloatArray
    recall: FloatArray
    f1: FloatArray
    full_recall: BoolArray
    exact: BoolArray


def score_trials(batch: TrialBatch) -> TrialScores:
    """Score a batch of trials with every measure."""
    counts = count_matches(batch)
    return TrialScores(
        counts=counts,
        precision_at_full_recall=precision_at_full_recall(counts),
        ranked_precision_at_full_recall=ranked_precision_at_full_recall(batch, counts),
        precision=precision(counts),
        recall=recall(counts),
        f1=f1(counts),
        full_recall=full_recall(counts),
        exact=exact(counts),
    )
