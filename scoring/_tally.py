"""Counts and hit ranks of ragged trials, block by block. Checks nothing and divides nothing but ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring import _columns
from scoring._checks import BoolArray, CodeArray, FloatArray, IntArray

_BLOCK_TRIALS = 1 << 16
_BLOCK_CODES = 1 << 20


@dataclass(frozen=True, eq=False)
class Meaning:
    """What codes stand for under one profile; each array has shape (n_entities,), indexed by code.

    ``units`` are equal for codes that count once; ``roots`` is the root-cause set, -1 for a wrong entity.
    """

    units: CodeArray
    roots: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Tally:
    """Of a run of trials: distinct root causes, distinct entities, ranks of the hits."""

    n_correct: IntArray
    n_distinct: IntArray
    """Pruned: only right where every root cause was named, 0 or right elsewhere."""
    rank_sum: FloatArray
    """Sum of c / rank over first hits, where every root cause was named; else, and if not asked for, 0."""
    hits: NDArray[np.int32] | None
    """Shape (n_trials, n_ks): root causes among the first k distinct entities. None if not asked for."""


def blocks(offsets: IntArray) -> Iterator[slice]:
    """Cut trials into runs bounded in trials and codes; a huge trial gets one of its own."""
    start, n_trials = 0, offsets.size - 1
    while start < n_trials:
        limit = int(offsets[start]) + _BLOCK_CODES
        stop = int(np.searchsorted(offsets, limit, side="right")) - 1
        stop = min(max(stop, start + 1), start + _BLOCK_TRIALS, n_trials)
        yield slice(start, stop)
        start = stop


def tally(
    codes: CodeArray,
    offsets: IntArray,
    n_root_causes: IntArray,
    meanings: Sequence[Meaning | None],
    *,
    ranked: bool = False,
    pruned: bool = False,
    ks: tuple[int, ...] = (),
) -> tuple[Tally, ...]:
    """Tally one block under each profile; the codes are gathered once for all of them.

    Parameters
    ----------
    codes, offsets, n_root_causes
        As in a `TrialBatch`; ``offsets`` need not start at 0.
    meanings : sequence of Meaning or None
        One per profile; None where codes below ``n_root_causes`` are the root causes and every code counts.
    ranked, pruned, ks
        What to compute beside the counts, and whether distinct entities matter without full recall.
    """
    n_trials = n_root_causes.size
    results = tuple(
        Tally(
            n_correct=np.zeros(n_trials, dtype=np.int64),
            n_distinct=np.zeros(n_trials, dtype=np.int64),
            rank_sum=np.zeros(n_trials, dtype=np.float64),
            hits=np.zeros((n_trials, len(ks)), dtype=np.int32) if ks else None,
        )
        for _ in meanings
    )
    is_long = (np.diff(offsets) > _columns.MAX_LENGTH) | (n_root_causes > _columns.MAX_ROOT_CAUSES)
    most = int(n_root_causes[~is_long].max(initial=0))
    word = _columns.bit_type(most)
    tables = [None if meaning is None else _bit_table(meaning, word) for meaning in meanings]
    for group in _columns.columns(codes, offsets, ~is_long):
        n_roots = n_root_causes[group.trials]
        for meaning, table, result in zip(meanings, tables, results, strict=True):
            if meaning is None or table is None:
                units, bits = group.codes, _columns.root_bits(group.codes, n_roots, word)
            else:
                units, bits = meaning.units[group.codes], table[group.codes]
            _tally_columns(result, group.trials, units, bits, n_roots, ranked, pruned, ks)
    for start in np.flatnonzero(is_long).tolist():
        trial = codes[offsets[start] : offsets[start + 1]]
        for meaning, result in zip(meanings, results, strict=True):
            if meaning is None:
                units, roots = trial, np.where(trial < n_root_causes[start], trial, -1)
            else:
                units, roots = meaning.units[trial], meaning.roots[trial]
            _tally_long(result, start, units, roots, int(n_root_causes[start]), ks)
    return results


def _bit_table(meaning: Meaning, word: Any) -> NDArray[Any]:
    width = np.iinfo(word).bits
    # A root cause beyond the word belongs to trials that are not looked at through this table.
    known = (meaning.roots >= 0) & (meaning.roots < width)
    shifts = np.where(known, meaning.roots, 0).astype(word)
    table: NDArray[Any] = np.where(known, np.left_shift(word(1), shifts), word(0))
    return table


def _tally_columns(
    result: Tally,
    trials: IntArray,
    units: NDArray[Any],
    bits: NDArray[Any],
    n_roots: IntArray,
    ranked: bool,
    pruned: bool,
    ks: tuple[int, ...],
) -> None:
    named = _columns.named_bits(bits)
    n_correct = np.bitwise_count(named)
    result.n_correct[trials] = n_correct
    is_full = named == _columns.all_bits(n_roots, bits.dtype.type)
    if pruned:
        kept = np.flatnonzero(is_full)
        if not kept.size:
            return
        trials, n_correct = trials[kept], n_correct[kept]
        units, bits = units.take(kept, axis=1), bits.take(kept, axis=1)
        is_full = np.ones(kept.size, dtype=np.bool_)
    first = _columns.firsts(units)
    n_distinct = _columns.n_distinct(first)
    result.n_distinct[trials] = n_distinct
    if ranked:
        # With nothing wrong beside the root causes every c / rank is 1: only the others depend on the order.
        result.rank_sum[trials] = np.where(is_full, n_correct, 0)
        ordered = np.flatnonzero(is_full & (n_distinct > n_correct))
        if ordered.size:
            sums = _columns.precision_at_hits(bits.take(ordered, axis=1), first.take(ordered, axis=1))
            result.rank_sum[trials[ordered]] = sums
    if result.hits is not None:
        result.hits[trials] = _columns.hits_within(bits, first, ks)


def _tally_long(
    result: Tally, trial: int, units: NDArray[Any], roots: NDArray[Any], n_roots: int, ks: tuple[int, ...]
) -> None:
    first = is_first(units)
    roots = roots[first]
    hits = np.flatnonzero(roots >= 0)
    hits = hits[is_first(roots[hits])]
    result.n_correct[trial] = hits.size
    result.n_distinct[trial] = roots.size
    if hits.size == n_roots:
        ratios = np.arange(1, hits.size + 1) / (hits + 1)
        # Added one after the other, as in the columns: the same trial has the same sum to the last bit.
        result.rank_sum[trial] = np.bincount(np.zeros(hits.size, dtype=np.int64), ratios, 1)[0]
    if result.hits is not None:
        result.hits[trial] = [np.count_nonzero(hits < k) for k in ks]


def is_first(values: NDArray[Any]) -> BoolArray:
    """Whether each value occurs here for the first time."""
    first = np.zeros(values.size, dtype=np.bool_)
    first[np.unique(values, return_index=True)[1]] = True
    return first
