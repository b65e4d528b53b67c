"""Scores of each trial: precision at full recall, its ranked variant, and the plain measures beside it.

Rules that hold for all of them: no readable diagnosis is 0, without a fault too. On a scenario without a
fault the empty diagnosis has every measure 1, anything named has every measure 0. With root causes, an empty
diagnosis is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring import _checks
from scoring._checks import BoolArray, FloatArray, IntArray
from scoring._tally import Tally, blocks, tally
from scoring.errors import ScoringError
from scoring.trials import MatchCounts, TrialBatch


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
        ``count_matches(batch)``, if it is at hand; it saves nothing, since both come from one pass.

    Returns
    -------
    score : ndarray, float64, shape (n_trials,)
        ``(1 / n_root_causes) * sum over first hits of c / rank``, the c-th hit at its rank among distinct
        entities. Without a fault, the same as `precision_at_full_recall`.

    Notes
    -----
    Wrong entities after the last root cause cost nothing here; they do in `precision_at_full_recall`.
    """
    return headline_scores(batch).ranked_precision_at_full_recall


def _ranked(counts: MatchCounts, rank_sum: FloatArray) -> FloatArray:
    faulty = counts.n_root_causes > 0
    with_fault = np.where(full_recall(counts), rank_sum / np.maximum(counts.n_root_causes, 1), 0.0)
    return np.where(faulty, with_fault, full_recall(counts).astype(np.float64))


def _ratio(counts: MatchCounts, numerator: IntArray, denominator: IntArray) -> FloatArray:
    faulty = counts.n_root_causes > 0
    safe = np.maximum(denominator, 1)
    with_fault = np.where(counts.has_diagnosis & faulty, numerator / safe, 0.0)
    return np.where(faulty, with_fault, full_recall(counts).astype(np.float64))


@dataclass(frozen=True, eq=False)
class HeadlineScores:
    """The two measures that need full recall; each array has shape (n_trials,)."""

    precision_at_full_recall: FloatArray
    ranked_precision_at_full_recall: FloatArray


def headline_scores(batch: TrialBatch) -> HeadlineScores:
    """Score a batch with the two measures that need full recall, and no other.

    Notes
    -----
    Trials that missed a root cause are 0 whatever else they named, so they are dropped before their entities
    are told apart: that is the dear step, and most of the time of `score_trials`.
    """
    plain, ranked = np.zeros(batch.n_trials), np.zeros(batch.n_trials)
    for trials in blocks(batch.offsets):
        (found,) = tally(batch.codes, *batch.rows(trials), (None,), ranked=True, pruned=True)
        n_roots, n_correct, n_distinct = batch.n_root_causes[trials], found.n_correct, found.n_distinct
        reached = (n_correct == n_roots) & batch.has_diagnosis[trials]
        healthy = n_roots == 0
        if bool(healthy.any()):
            # Without a fault only the empty diagnosis reaches anything, and that is everything.
            reached &= ~healthy | (n_distinct == 0)
        kept = np.flatnonzero(reached)
        whole = np.maximum(n_roots[kept], 1)
        plain[trials.start + kept] = np.where(
            healthy[kept], 1.0, n_correct[kept] / np.maximum(n_distinct[kept], 1)
        )
        ranked[trials.start + kept] = np.where(healthy[kept], 1.0, found.rank_sum[kept] / whole)
    return HeadlineScores(plain, ranked)


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
    hits_at: Mapping[int, NDArray[np.int32]]
    """For each k that was asked for: root causes among the first k distinct entities."""


def score_trials(batch: TrialBatch, *, hits_at: Sequence[int] = ()) -> TrialScores:
    """Score a batch of trials with every measure, in one pass.

    Parameters
    ----------
    batch : TrialBatch
        The trials.
    hits_at : sequence of int
        Numbers k, from 1: count the root causes among the first k distinct entities, too.

    Raises
    ------
    ScoringError
        A k is no whole number from 1.
    """
    scores = ScoreArrays(batch.n_root_causes, batch.has_diagnosis, cutoffs(hits_at))
    for trials in blocks(batch.offsets):
        (found,) = tally(batch.codes, *batch.rows(trials), (None,), ranked=True, ks=scores.ks)
        scores.fill(trials, found)
    return scores.frozen()


def cutoffs(hits_at: Sequence[int]) -> tuple[int, ...]:
    """Check the numbers k of hits at k."""
    ks = _checks.integers(list(hits_at), "hits_at")
    if ks.size and int(ks.min()) < 1:
        raise ScoringError("hits_at must hold whole numbers from 1.")
    return tuple(ks.tolist())


class ScoreArrays:
    """Results of all trials, filled block by block: what is computed from a block is still in cache."""

    def __init__(self, n_root_causes: IntArray, has_diagnosis: BoolArray, ks: tuple[int, ...]) -> None:
        n_trials = n_root_causes.size
        self.ks = ks
        self._counts = MatchCounts(
            np.zeros(n_trials, np.int64), np.zeros(n_trials, np.int64), n_root_causes, has_diagnosis
        )
        self._measures = {name: np.zeros(n_trials) for name in _MEASURES}
        self._ranked = np.zeros(n_trials)
        self._flags = {name: np.zeros(n_trials, np.bool_) for name in _FLAGS}
        self._hits = np.zeros((len(ks), n_trials), np.int32)

    def fill(self, trials: slice, found: Tally) -> None:
        """Write the scores of a block."""
        self._counts.n_correct[trials] = found.n_correct
        self._counts.n_wrong[trials] = found.n_distinct - found.n_correct
        counts = self._counts.block(trials)
        for name, measure in _MEASURES.items():
            self._measures[name][trials] = measure(counts)
        for name, flag in _FLAGS.items():
            self._flags[name][trials] = flag(counts)
        self._ranked[trials] = _ranked(counts, found.rank_sum)
        if found.hits is not None:
            self._hits[:, trials] = found.hits.T

    def frozen(self) -> TrialScores:
        """The results, once every block is filled."""
        return TrialScores(
            counts=self._counts,
            precision_at_full_recall=self._measures["precision_at_full_recall"],
            ranked_precision_at_full_recall=self._ranked,
            precision=self._measures["precision"],
            recall=self._measures["recall"],
            f1=self._measures["f1"],
            full_recall=self._flags["full_recall"],
            exact=self._flags["exact"],
            hits_at=dict(zip(self.ks, self._hits, strict=True)),
        )


_MEASURES = {
    "precision_at_full_recall": precision_at_full_recall,
    "precision": precision,
    "recall": recall,
    "f1": f1,
}
_FLAGS = {"full_recall": full_recall, "exact": exact}
