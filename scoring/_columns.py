"""The inner loop of scoring: trials of one length side by side, one column each. Checks nothing.

Trials are grouped by their number of codes, so that a group is a plain matrix: no segments, nothing padded,
and every step is one operation on rows that stay in cache. A root cause is a bit, so that "all named" is
one comparison; the dear steps (which codes repeat, at which rank a root cause stands) can then be kept to the
trials that need them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring._checks import BoolArray, IntArray

BitArray = NDArray[np.uint8] | NDArray[np.uint64]
CountArray = NDArray[np.uint8]

MAX_ROOT_CAUSES = 64
"""Most root causes that a word of bits can hold; trials with more are scored segment by segment."""
MAX_LENGTH = 128
"""Longest trial that is compared pair by pair; sorting is faster beyond."""


@dataclass(frozen=True)
class Columns:
    """Trials of one length: entry ``[i, j]`` is the i-th code of trial ``trials[j]``."""

    trials: IntArray
    codes: NDArray[Any]


def columns(codes: NDArray[Any], offsets: IntArray, chosen: BoolArray) -> Iterator[Columns]:
    """Group the chosen trials by length; trials without codes are left out."""
    lengths = np.diff(offsets)
    trials = np.flatnonzero(chosen & (lengths > 0))
    if not trials.size:
        return
    # Sixteen bits are sorted by radix, in linear time; nothing longer than MAX_LENGTH is chosen.
    short = lengths[trials].astype(np.uint16)
    order = np.argsort(short, kind="stable")
    trials, short = trials[order], short[order]
    edges = np.flatnonzero(np.diff(short)) + 1
    for start, stop in zip([0, *edges.tolist()], [*edges.tolist(), trials.size], strict=True):
        group = trials[start:stop]
        table = np.empty((int(short[start]), group.size), dtype=codes.dtype)
        at = offsets[group]
        # Row by row, with one vector of places that stays in cache; offsets were checked at the door.
        for row in table:
            codes.take(at, out=row, mode="clip")
            at += 1
        yield Columns(group, table)


def bit_type(most_root_causes: int) -> type[np.uint8] | type[np.uint64]:
    """The narrowest word that has a bit for each root cause."""
    return np.uint8 if most_root_causes <= 8 else np.uint64


def root_bits(codes: NDArray[Any], n_root_causes: IntArray, word: Any) -> NDArray[Any]:
    """The bit of the root cause that each code is, 0 for a wrong entity; ``n_root_causes`` broadcasts."""
    is_root = codes < n_root_causes.astype(codes.dtype)
    bits: NDArray[Any] = np.left_shift(word(1), codes.astype(word))
    bits *= is_root
    return bits


def all_bits(n_root_causes: IntArray, word: Any) -> NDArray[Any]:
    """The word in which every root cause has its bit."""
    # In two steps: a shift by the whole width is not defined.
    half = n_root_causes >> 1
    beyond = np.left_shift(word(1), half.astype(word)) << (n_root_causes - half).astype(word)
    full: NDArray[Any] = beyond - word(1)
    return full


def named_bits(bits: NDArray[Any]) -> NDArray[Any]:
    """The root causes that each trial named."""
    named: NDArray[Any] = np.bitwise_or.reduce(bits, axis=0)
    return named


def firsts(units: NDArray[Any]) -> CountArray:
    """1 where a code occurs for the first time in its trial, else 0."""
    first = np.ones(units.shape, dtype=np.uint8)
    flags = first.view(np.bool_)
    for lag in range(1, units.shape[0]):
        flags[lag:] &= units[lag:] != units[:-lag]
    return first


def n_distinct(first: CountArray) -> CountArray:
    """Distinct codes of each trial."""
    count: CountArray = first.sum(axis=0, dtype=np.uint8)
    return count


def precision_at_hits(bits: NDArray[Any], first: CountArray) -> NDArray[np.float64]:
    """Sum over the root causes of each trial of its number among the hits, divided by its rank."""
    n_trials = bits.shape[1]
    total = np.zeros(n_trials, dtype=np.float64)
    seen = np.zeros(n_trials, dtype=bits.dtype)
    rank = np.zeros(n_trials, dtype=np.uint8)
    nth_hit = np.zeros(n_trials, dtype=np.uint8)
    for row in range(bits.shape[0]):
        rank += first[row]
        is_hit = (bits[row] & ~seen) != 0
        seen |= bits[row]
        nth_hit += is_hit
        np.add(total, nth_hit / rank.astype(np.float64), out=total, where=is_hit)
    return total


def hits_within(bits: NDArray[Any], first: CountArray, ks: tuple[int, ...]) -> NDArray[np.uint8]:
    """Root causes among the first k distinct entities of each trial; shape (n_trials, n_ks)."""
    rank = np.cumsum(first, axis=0, dtype=np.uint8)
    found = [named_bits(np.where(rank <= k, bits, bits.dtype.type(0))) for k in ks]
    return np.stack([np.bitwise_count(one) for one in found], axis=-1)
