"""Trials as ragged arrays, and the counts that every score is made of. Resolves no names: codes come in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scoring import _checks
from scoring._checks import MAX_CODE, BoolArray, CodeArray, IntArray
from scoring._tally import blocks, tally
from scoring.errors import ScoringError


@dataclass(frozen=True, eq=False)
class TrialBatch:
    """Submitted entities of many trials, resolved to codes, in the agents' order.

    Parameters
    ----------
    codes : ndarray, int64 or int32, shape (n_codes,)
        ``0 .. n_root_causes - 1`` of its trial: which root cause was named. Anything larger: which wrong
        entity.
        A code that occurs again in its trial is the same logical entity and counts once, at the first place.
    offsets : ndarray, int64, shape (n_trials + 1,)
        Trial ``i`` owns ``codes[offsets[i]:offsets[i + 1]]``.
    n_root_causes : ndarray, int64, shape (n_trials,)
        0 marks a scenario without a fault.
    has_diagnosis : ndarray, bool, shape (n_trials,)
        False where no readable diagnosis exists; such a trial owns no codes and scores 0 everywhere.

    Raises
    ------
    ScoringError
        The arrays do not describe trials.
    """

    codes: CodeArray
    offsets: IntArray
    n_root_causes: IntArray
    has_diagnosis: BoolArray

    def __post_init__(self) -> None:
        codes = _checks.codes(self.codes, "codes")
        if codes.size and (int(codes.min()) < 0 or int(codes.max()) > MAX_CODE):
            raise ScoringError(f"codes must lie in 0 .. {MAX_CODE}.")
        offsets, n_root_causes, has_diagnosis = _checks.trials(
            codes.size, self.offsets, self.n_root_causes, self.has_diagnosis
        )
        for name, array in (
            ("codes", codes),
            ("offsets", offsets),
            ("n_root_causes", n_root_causes),
            ("has_diagnosis", has_diagnosis),
        ):
            object.__setattr__(self, name, array)

    @property
    def n_trials(self) -> int:
        """Number of trials."""
        return self.offsets.size - 1

    def rows(self, trials: slice) -> tuple[IntArray, IntArray]:
        """Offsets and numbers of root causes of a run of trials."""
        return self.offsets[trials.start : trials.stop + 1], self.n_root_causes[trials]


@dataclass(frozen=True, eq=False)
class MatchCounts:
    """Counts of distinct entities per trial: the sufficient statistics of every unranked score.

    Each array has shape (n_trials,).
    """

    n_correct: IntArray
    n_wrong: IntArray
    n_root_causes: IntArray
    has_diagnosis: BoolArray

    @property
    def n_submitted(self) -> IntArray:
        """Distinct entities that count: correct and wrong ones."""
        return self.n_correct + self.n_wrong

    def block(self, trials: slice) -> MatchCounts:
        """The counts of a run of trials, as views."""
        return MatchCounts(
            self.n_correct[trials],
            self.n_wrong[trials],
            self.n_root_causes[trials],
            self.has_diagnosis[trials],
        )


def count_matches(batch: TrialBatch) -> MatchCounts:
    """Count the distinct root causes and the distinct wrong entities of each trial."""
    n_correct = np.zeros(batch.n_trials, dtype=np.int64)
    n_wrong = np.zeros(batch.n_trials, dtype=np.int64)
    for trials in blocks(batch.offsets):
        (found,) = tally(batch.codes, *batch.rows(trials), (None,))
        n_correct[trials] = found.n_correct
        n_wrong[trials] = found.n_distinct - found.n_correct
    return MatchCounts(
        n_correct=n_correct,
        n_wrong=n_wrong,
        n_root_causes=batch.n_root_causes,
        has_diagnosis=batch.has_diagnosis,
    )
