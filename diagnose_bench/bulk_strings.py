"""Numbers for strings that lie in a block of bytes: equal strings get equal numbers, each is asked for once.

Strings are found again by a hash and then compared byte by byte, so two with one hash are never taken for one
another. Knows nothing of rows.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LONGEST = 1024
"""Longest string, in bytes, that is looked at here."""
_WORD = 8
_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(_WORD)] + [(1 << 64) - 1], dtype=np.uint64)
_SEVEN = np.int64(7)
Words = NDArray[np.uint64]
Integers = NDArray[np.int64]


class Bytes:
    """A block of bytes, to be read as words that begin anywhere."""

    def __init__(self, data: bytes) -> None:
        # One word more than is read of any string: the last one may begin at the last byte.
        padded = np.zeros(len(data) // _WORD + 3, dtype=np.uint64)
        padded.view(np.uint8)[: len(data)] = np.frombuffer(data, dtype=np.uint8)
        self._words = padded
        self.data = data

    def words(self, starts: Integers) -> Run:
        """The words that begin at each of some places."""
        return Run(self._words, starts)


class Run:
    """Words of many strings: the first of each, then the second of each, and so on."""

    def __init__(self, source: Words, starts: Integers) -> None:
        self._source = source
        self._shift = ((starts & _SEVEN) << 3).astype(np.uint64)
        self._back = np.uint64(63) - self._shift
        self._at = starts >> 3
        self._ahead = source.take(self._at, mode="clip")

    def keep(self, chosen: Integers) -> None:
        """Go on with some of the strings."""
        self._shift, self._back = self._shift[chosen], self._back[chosen]
        self._at, self._ahead = self._at[chosen], self._ahead[chosen]

    def next(self) -> Words:
        """Eight bytes of each string, and on."""
        word = self._ahead >> self._shift
        self._at += 1
        self._ahead = self._source.take(self._at, mode="clip")
        # In two steps: a shift by the whole width is not defined.
        rest = self._ahead << np.uint64(1)
        rest <<= self._back
        word |= rest
        return word


@dataclass(frozen=True)
class _Part:
    """The n-th words of the strings that have one; what is behind a string's end is 0."""

    words: Words
    chosen: Integers | slice
    """Whose they are, among all strings."""
    kept: Integers | None
    """Which of those of the part before they are, where some have ended."""
    masks: Words | None
    """What of each word belongs to its string, where not all does."""


class StringNumbers:
    """Numbers of the strings that were asked for so far.

    Parameters
    ----------
    number : callable
        The number of a string with this salt, asked for once; negative where it is not to be used.
    """

    def __init__(self, number: Callable[[int, bytes], int]) -> None:
        self._number = number
        # Unlike in each process, so that nobody can write a file whose strings share their hashes.
        self._keys = np.array(
            [secrets.randbits(64) | 1 for _ in range(LONGEST // _WORD + 1)], dtype=np.uint64
        )
        self.forget()

    def forget(self) -> None:
        """Start anew."""
        self._hashes = np.zeros(0, dtype=np.uint64)
        self._numbers = np.zeros(0, dtype=np.int64)
        self._salts = np.zeros(0, dtype=np.int64)
        self._starts = np.zeros(0, dtype=np.int64)
        self._lengths = np.zeros(0, dtype=np.int64)
        self._text = bytearray()
        self._known = Bytes(b"")
        self._places = np.zeros(1, dtype=np.int64)

    def of(
        self, block: Bytes, starts: Integers, lengths: Integers, salts: Integers | None = None
    ) -> Integers:
        """The number of each string.

        Parameters
        ----------
        block : Bytes
            Where they lie.
        starts, lengths : ndarray
            Each string; none is longer than `LONGEST`.
        salts : ndarray, optional
            Strings with another salt are other strings.
        """
        if not starts.size:
            return np.zeros(0, dtype=np.int64)
        salts = np.zeros(starts.size, dtype=np.int64) if salts is None else salts
        parts = _parts(block, starts, lengths)
        hashes = self._hash(parts, lengths, salts)
        found = self._find(hashes)
        is_new = found < 0
        if is_new.any():
            new = np.flatnonzero(is_new)
            _, first = np.unique(hashes[new], return_index=True)
            self._add(block, hashes, starts, lengths, salts, new[np.sort(first)])
            # The known ones have moved to make room.
            found = self._find(hashes)
        numbers = self._numbers[found]
        for place in np.flatnonzero(~self._is_same(found, parts, lengths, salts)).tolist():
            # Another string with the same hash is known: this one has no place in the table.
            start = int(starts[place])
            numbers[place] = self._number(int(salts[place]), block.data[start : start + int(lengths[place])])
        return numbers

    def _hash(self, parts: list[_Part], lengths: Integers, salts: Integers) -> Words:
        hashes = (lengths * 1_000_003 + salts).astype(np.uint64)
        hashes *= self._keys[-1]
        for number, part in enumerate(parts):
            # A word of 0 adds nothing: it may be there or not, once its string has ended.
            mixed = part.words * self._keys[number]
            mixed ^= mixed >> np.uint64(29)
            hashes[part.chosen] += mixed
        hashes *= self._keys[-1]
        hashes ^= hashes >> np.uint64(32)
        return hashes

    def _find(self, hashes: Words) -> Integers:
        """The place of each hash among the known ones, or -1."""
        if not self._hashes.size:
            return np.full(hashes.size, -1, dtype=np.int64)
        found = self._places.take((hashes & np.uint64(self._places.size - 1)).astype(np.int64))
        missed = np.flatnonzero(self._hashes.take(found) != hashes)
        if missed.size:
            # Most are found at once by their low bits; those that share a place with others are searched.
            again = np.minimum(np.searchsorted(self._hashes, hashes[missed]), self._hashes.size - 1)
            found[missed] = np.where(self._hashes[again] == hashes[missed], again, -1)
        return found

    def _is_same(
        self,
        found: Integers,
        parts: list[_Part],
        lengths: Integers,
        salts: Integers,
    ) -> NDArray[np.bool_]:
        same: NDArray[np.bool_] = (self._lengths[found] == lengths) & (self._salts[found] == salts)
        run = self._known.words(self._starts[found])
        for part in parts:
            if part.kept is not None:
                run.keep(part.kept)
            words = run.next()
            if part.masks is not None:
                words &= part.masks
            same[part.chosen] &= words == part.words
        return same

    def _add(
        self,
        block: Bytes,
        hashes: Words,
        starts: Integers,
        lengths: Integers,
        salts: Integers,
        new: Integers,
    ) -> None:
        at, numbers = [], []
        for start, length, salt in zip(
            starts[new].tolist(), lengths[new].tolist(), salts[new].tolist(), strict=True
        ):
            text = block.data[start : start + length]
            at.append(len(self._text))
            numbers.append(self._number(salt, text))
            self._text += text
        joined = np.concatenate([self._hashes, hashes[new]])
        order = np.argsort(joined, kind="stable")
        self._hashes = joined[order]
        self._numbers = np.concatenate([self._numbers, np.array(numbers, dtype=np.int64)])[order]
        self._salts = np.concatenate([self._salts, salts[new]])[order]
        self._starts = np.concatenate([self._starts, np.array(at, dtype=np.int64)])[order]
        self._lengths = np.concatenate([self._lengths, lengths[new]])[order]
        self._known = Bytes(bytes(self._text))
        n_bits = max(8, int(order.size).bit_length() + 2)
        self._places = np.zeros(1 << n_bits, dtype=np.int64)
        self._places[(self._hashes & np.uint64((1 << n_bits) - 1)).astype(np.int64)] = np.arange(order.size)


def _parts(block: Bytes, starts: Integers, lengths: Integers) -> list[_Part]:
    """The words of all strings, cut at their ends."""
    parts: list[_Part] = []
    n_words = (lengths + (_WORD - 1)) >> 3
    n_whole = int(lengths.min()) >> 3
    chosen: Integers | slice = slice(None)
    run = block.words(starts)
    for number in range(int(n_words.max())):
        kept = masks = None
        if number >= n_whole:
            own = n_words[chosen]
            alive = own > number
            # Strings that have ended are dropped once they are many.
            if 4 * int(np.count_nonzero(alive)) < 3 * own.size:
                kept = np.flatnonzero(alive)
                chosen = kept if isinstance(chosen, slice) else chosen[kept]
                run.keep(kept)
            masks = _MASKS[np.clip(lengths[chosen] - _WORD * number, 0, _WORD)]
        words = run.next()
        if masks is not None:
            words &= masks
        parts.append(_Part(words, chosen, kept, masks))
    return parts
