"""Trials as ragged arrays, and the counts that every score is made of. Resolves no names: codes come in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scoring import _checks
from scoring._checks import BoolArray, IntArray
from scoring.errors import ScoringError

MAX_CODE = 2**31 - 1
"""Codes are small by construction; the bound lets a code and its trial share one int64 key."""

_BLOCK_TRIALS = 1 << 14
_BLOCK_CODES = 1 << 17
_MAX_LAG = 24
"""Longest trial for which comparing with every earlier place beats sorting."""


@dataclass(frozen=True, eq=False)
class TrialBatch:
    """Submitted entities of many trials, resolved to codes, in the agents' order.

    Parameters
    ----------
    codes : ndarray, int64, shape (n_codes,)
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

    codes: IntArray
    offsets: IntArray
    n_root_causes: IntArray
    has_diagnosis: BoolArray

    def __post_init__(self) -> None:
        codes = _checks.integers(self.codes, "codes")
        offsets = _checks.integers(self.offsets, "offsets")
        if offsets.size == 0:
            raise ScoringError("offsets must have n_trials + 1 entries, so at least one.")
        shape = (offsets.size - 1,)
        n_root_causes = _checks.integers(self.n_root_causes, "n_root_causes", shape)
        has_diagnosis = _checks.booleans(self.has_diagnosis, "has_diagnosis", shape)
        if offsets[0] != 0 or offsets[-1] != codes.size:
            raise ScoringError(
                f"offsets must run from 0 to the number of codes ({codes.size}), "
                f"not from {offsets[0]} to {offsets[-1]}."
            )
        lengths = np.diff(offsets)
        if bool(np.any(lengths < 0)):
            raise ScoringError(f"offsets go back after trial {int(np.argmax(lengths < 0))}.")
        if codes.size and (int(codes.min()) < 0 or int(codes.max()) > MAX_CODE):
            raise ScoringError(f"codes must lie in 0 .. {MAX_CODE}.")
        if n_root_causes.size and (int(n_root_causes.min()) < 0 or int(n_root_causes.max()) > MAX_CODE):
            raise ScoringError(f"n_root_causes must lie in 0 .. {MAX_CODE}.")
        mute = (lengths > 0) & ~has_diagnosis
        if bool(np.any(mute)):
            raise ScoringError(f"trial {int(np.argmax(mute))} has codes but no diagnosis.")
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


@dataclass(frozen=True, eq=False)
class Block:
    """A run of trials small enough to stay in cache."""

    trials: slice
    codes: IntArray
    offsets: IntArray
    """Starts at 0."""
    trial_of: IntArray
    """Trial of each code, counted within the block."""


def blocks(batch: TrialBatch) -> Iterator[Block]:
    """Cut a batch into blocks bounded in trials and codes; a huge trial gets a block of its own."""
    start = 0
    while start < batch.n_trials:
        limit = int(batch.offsets[start]) + _BLOCK_CODES
        stop = int(np.searchsorted(batch.offsets, limit, side="right")) - 1
        stop = min(max(stop, start + 1), start + _BLOCK_TRIALS, batch.n_trials)
        offsets = batch.offsets[start : stop + 1]
        trial_of = np.repeat(np.arange(stop - start, dtype=np.int64), np.diff(offsets))
        yield Block(
            trials=slice(start, stop),
            codes=batch.codes[offsets[0] : offsets[-1]],
            offsets=offsets - offsets[0],
            trial_of=trial_of,
        )
        start = stop


def is_first(codes: IntArray, trial_of: IntArray, longest: int) -> BoolArray:
    """Whether each code occurs here for the first time within its trial.

    Parameters
    ----------
    codes, trial_of : ndarray, int64, shape (n_codes,)
        ``trial_of`` is non-decreasing.
    longest : int
        Number of codes of the longest trial.
    """
    keys = (trial_of << 31) | codes
    first = np.ones(keys.size, dtype=np.bool_)
    if longest <= _MAX_LAG:
        for lag in range(1, longest):
            first[lag:] &= keys[lag:] != keys[:-lag]
        return first
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first[order[1:]] = ordered[1:] != ordered[:-1]
    return first


def count_matches(batch: TrialBatch) -> MatchCounts:
    """Count the distinct root causes and the distinct wrong entities of each trial.

    Notes
    -----
    Sums over segments are differences of a running count: ``reduceat`` would give an empty trial the first
    code of the next one.
    """
    n_correct = np.zeros(batch.n_trials, dtype=np.int64)
    n_distinct = np.zeros(batch.n_trials, dtype=np.int64)
    for block in blocks(batch):
        longest = int(np.diff(block.offsets).max())
        first = is_first(block.codes, block.trial_of, longest)
        correct = first & (block.codes < batch.n_root_causes[block.trials][block.trial_of])
        n_distinct[block.trials] = _segment_counts(first, block.offsets)
        n_correct[block.trials] = _segment_counts(correct, block.offsets)
    return MatchCounts(
        n_correct=n_correct,
        n_wrong=n_distinct - n_correct,
        n_root_causes=batch.n_root_causes,
        has_diagnosis=batch.has_diagnosis,
    )


def _segment_counts(flags: BoolArray, offsets: IntArray) -> IntArray:
    running = np.zeros(flags.size + 1, dtype=np.int64)
    np.cumsum(flags, out=running[1:])
    return running[offsets[1:]] - running[offsets[:-1]]
