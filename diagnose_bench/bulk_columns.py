"""Plain rows of a block as columns, without a parser; every other row is named, to be read one by one.

A plain row has the four keys once each, a number from 1 and a list of strings, and nothing but them: then
what lies between its quotation marks is one of a few texts, and every row of a block can be checked at once.
What does not fit to the letter (an escaped quotation mark, a fifth key, a number with a point, a line that is
no JSON) is left to `bulk_row`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from diagnose_bench.bulk_strings import LONGEST, Bytes, Integers, StringNumbers
from diagnose_bench.diagnosis import MAX_ENTITIES

_LONGEST_LINE = 1 << 18
_LONGEST_NUMBER = 9
_RETURN, _SPACE, _QUOTE, _COMMA_BYTE, _ZERO = 13, 32, 34, 44, 48
_BACKSLASH, _BRACE, _BRACE_END = 92, 123, 125
_KEYS = (b"agent", b"scenario_id", b"repeat", b"entities")
_AGENT, _SCENARIO, _REPEAT, _ENTITIES = range(4)

_COLON, _OPEN, _COMMA, _CLOSE, _NUMBER, _EMPTY = 1, 2, 3, 4, 5, 6
_END, _CLOSE_END, _NUMBER_END, _EMPTY_END = 7, 8, 9, 10
_BETWEEN = {
    _COLON: (b":", b": "),
    _OPEN: (b":[", b": ["),
    _COMMA: (b",", b", "),
    _CLOSE: (b"],", b"], "),
    _EMPTY: (b":[],", b": [], "),
    _END: (b"}",),
    _CLOSE_END: (b"]}",),
    _EMPTY_END: (b":[]}", b": []}"),
}
"""What may stand between two strings of a row, or after its last one; a number stands there, too."""


@dataclass(frozen=True)
class PlainRows:
    """Rows of a block that are plain; ``lines`` are their places in the block, from 0.

    Row ``i`` owns ``names[offsets[i]:offsets[i + 1]]``, each the number that the name has.
    """

    lines: Integers
    agents: Integers
    scenarios: Integers
    repeats: Integers
    names: Integers
    offsets: Integers


class ColumnReader:
    """Reads blocks.

    Parameters
    ----------
    agent, scenario : callable
        The number of an agent and of a scenario; -1 where a row of it needs a closer look.
    name : callable
        The number of a name of a scenario.
    """

    def __init__(
        self,
        agent: Callable[[str], int],
        scenario: Callable[[str], int],
        name: Callable[[int, str], int],
    ) -> None:
        self._keys = StringNumbers(lambda _, text: _KEYS.index(text) if text in _KEYS else -1)
        self._agents = StringNumbers(lambda _, text: _number_of(text, agent))
        self._scenarios = StringNumbers(lambda _, text: _number_of(text, scenario))
        self._names = StringNumbers(lambda salt, text: _number_of(text, lambda known: name(salt, known)))

    def forget(self) -> None:
        """Forget the numbers of names."""
        self._names.forget()

    def read(self, data: bytes, highest_repeat: int, edges: tuple[Integers, Integers]) -> PlainRows:
        """The plain rows of a block.

        Parameters
        ----------
        data : bytes
            Whole lines.
        highest_repeat : int
            Rows with a repeat above it need a closer look.
        edges : tuple of ndarray
            Where each line begins and where it ends.
        """
        flat = np.frombuffer(data, dtype=np.uint8)
        starts, ends = edges
        # A line break of two characters is one.
        stops = ends - ((ends > starts) & (flat[ends - 1] == _RETURN))
        quotes = np.flatnonzero(flat == _QUOTE)
        firsts = np.searchsorted(quotes, starts)
        n_quotes = np.diff(firsts, append=quotes.size)
        usable = (flat[starts] == _BRACE) & (stops - starts <= _LONGEST_LINE)
        usable &= (n_quotes % 2 == 0) & (n_quotes >= 12) & ~_has_escapes(flat, starts)
        rows = np.flatnonzero(usable)
        if not rows.size:
            return _no_rows()
        if rows.size < starts.size:
            quotes = quotes[np.repeat(usable, n_quotes)]
            n_quotes = n_quotes[rows]
        strings = _Strings.of(data, flat, quotes, n_quotes // 2, starts[rows], stops[rows])
        return self._columns(strings, rows, highest_repeat)

    def _columns(self, strings: _Strings, rows: Integers, highest_repeat: int) -> PlainRows:
        is_key, good = strings.grammar()
        # Four keys in a row: those of the rows that are good so far.
        good &= np.add.reduceat(is_key, strings.firsts, dtype=np.int64) == len(_KEYS)
        kept = np.flatnonzero(good)
        keys = np.flatnonzero(is_key & np.repeat(good, strings.counts)).reshape(-1, len(_KEYS))
        kinds = self._keys.of(strings.block, *strings.spans(keys.ravel())).reshape(keys.shape)
        is_whole = (np.sort(kinds, axis=1) == np.arange(len(_KEYS))).all(axis=1)
        order = np.argsort(kinds, axis=1, kind="stable")
        places = np.take_along_axis(keys, order, axis=1)
        gaps = strings.gaps[places]
        is_whole &= (gaps[:, _AGENT] == _COLON) & (gaps[:, _SCENARIO] == _COLON)
        is_whole &= (gaps[:, _REPEAT] == _NUMBER) | (gaps[:, _REPEAT] == _NUMBER_END)
        lists = gaps[:, _ENTITIES]
        is_whole &= (lists == _OPEN) | (lists == _EMPTY) | (lists == _EMPTY_END)
        kept, places, lists = kept[is_whole], places[is_whole], lists[is_whole]
        if not kept.size:
            return _no_rows()
        agents = self._agents.of(strings.block, *strings.spans(places[:, _AGENT] + 1))
        scenarios = self._scenarios.of(strings.block, *strings.spans(places[:, _SCENARIO] + 1))
        repeats = strings.numbers[places[:, _REPEAT]]
        # A list ends before the key that follows it, or with the row.
        ends = strings.firsts[kept] + strings.counts[kept]
        later = np.where(places > places[:, [_ENTITIES]], places, ends[:, None]).min(axis=1)
        lengths = np.where(lists == _OPEN, later - places[:, _ENTITIES] - 1, 0)
        fits = (agents >= 0) & (scenarios >= 0) & (repeats >= 1) & (repeats <= highest_repeat)
        fits &= lengths <= MAX_ENTITIES
        kept, lengths, first = kept[fits], lengths[fits], places[fits, _ENTITIES] + 1
        agents, scenarios, repeats = agents[fits], scenarios[fits], repeats[fits]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        chosen = np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], lengths)
        names = self._names.of(strings.block, *strings.spans(chosen), np.repeat(scenarios, lengths))
        if names.size and int(names.min()) < 0:
            odd = np.concatenate([[0], np.cumsum(names < 0)])
            plain = odd[offsets[1:]] == odd[offsets[:-1]]
            names = names[np.repeat(plain, lengths)]
            kept, agents, scenarios, repeats = kept[plain], agents[plain], scenarios[plain], repeats[plain]
            offsets = np.concatenate([[0], np.cumsum(lengths[plain])])
        return PlainRows(rows[kept], agents, scenarios, repeats, names, offsets)


@dataclass(frozen=True)
class _Strings:
    """The strings of some rows, and what stands after each: a number of `_BETWEEN`, 0 for anything else."""

    block: Bytes
    opens: Integers
    closes: Integers
    gaps: NDArray[np.uint8]
    numbers: Integers
    """The number that stands after a string, 0 where none does."""
    firsts: Integers
    """By row: its first string, and how many it has."""
    counts: Integers
    starts_well: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        data: bytes,
        flat: NDArray[np.uint8],
        quotes: Integers,
        counts: Integers,
        starts: Integers,
        stops: Integers,
    ) -> _Strings:
        opens, closes = quotes[0::2], quotes[1::2]
        firsts = np.cumsum(counts) - counts
        gap_ends = np.empty(opens.size, dtype=np.int64)
        gap_ends[:-1] = opens[1:]
        gap_ends[firsts + counts - 1] = stops
        block = Bytes(data)
        lengths = gap_ends - closes - 1
        words = block.words(closes + 1).next()
        gaps = np.zeros(opens.size, dtype=np.uint8)
        # Nearly every gap is a comma and a space: the others are few.
        gaps[(lengths == 2) & ((words & np.uint64(0xFFFF)) == _WORDS[b", "])] = _COMMA
        others = np.flatnonzero(gaps == 0)
        lengths, words = lengths[others], words[others]
        found = np.zeros(others.size, dtype=np.uint8)
        for kind, texts in _BETWEEN.items():
            for text in texts:
                masked = words & np.uint64((1 << (8 * len(text))) - 1)
                found[(lengths == len(text)) & (masked == _WORDS[text])] = kind
        gaps[others] = found
        numbers = np.zeros(opens.size, dtype=np.int64)
        rest = others[found == 0]
        gaps[rest], numbers[rest] = _numbers(flat, closes[rest] + 1, gap_ends[rest])
        return cls(block, opens, closes, gaps, numbers, firsts, counts, opens[firsts] == starts + 1)

    def spans(self, chosen: Integers) -> tuple[Integers, Integers]:
        """Start and length of strings."""
        starts = self.opens[chosen] + 1
        return starts, self.closes[chosen] - starts

    def grammar(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which strings are keys, and which rows are members of an object, one after the other."""
        gaps = self.gaps
        is_key = (gaps == _COLON) | (gaps == _OPEN) | (gaps == _NUMBER) | (gaps == _EMPTY)
        is_key |= (gaps == _NUMBER_END) | (gaps == _EMPTY_END)
        is_last = np.zeros(gaps.size, dtype=np.bool_)
        is_last[self.firsts + self.counts - 1] = True
        ends_row = (gaps == _END) | (gaps == _CLOSE_END) | (gaps == _NUMBER_END) | (gaps == _EMPTY_END)
        next_key = np.empty(gaps.size, dtype=np.bool_)
        next_key[:-1], next_key[-1] = is_key[1:], False
        # The key that a value belongs to is the last one before it; a row begins with a key.
        numbers = np.arange(gaps.size)
        owner = np.maximum.accumulate(np.where(is_key, numbers, 0))
        in_list = ~is_key & (gaps[owner] == _OPEN)
        alone = ~is_key & (gaps[owner] == _COLON) & (owner == numbers - 1)
        followed_by_key = (gaps == _NUMBER) | (gaps == _EMPTY) | (gaps == _CLOSE) | (alone & (gaps == _COMMA))
        followed_by_value = (is_key & ((gaps == _COLON) | (gaps == _OPEN))) | (in_list & (gaps == _COMMA))
        fits = is_last == ends_row
        fits &= np.where(is_last, True, np.where(next_key, followed_by_key, followed_by_value))
        ends_alone = alone & ((gaps == _COMMA) | (gaps == _END))
        fits &= is_key | ends_alone | (in_list & ((gaps == _COMMA) | (gaps == _CLOSE) | (gaps == _CLOSE_END)))
        fits &= self.closes - self.opens <= LONGEST
        good = np.logical_and.reduceat(fits, self.firsts) & self.starts_well & is_key[self.firsts]
        return is_key, good


def _numbers(flat: NDArray[np.uint8], starts: Integers, ends: Integers) -> tuple[NDArray[np.uint8], Integers]:
    """What stands in gaps with a number of up to nine digits, and the number; 0 and 0 for all others."""
    lengths = ends - starts
    text = flat[np.minimum(starts[:, None] + np.arange(_LONGEST_NUMBER + 4), flat.size - 1)]
    first = 1 + (text[:, 1] == _SPACE)
    rows = np.arange(starts.size)
    lengths_read = np.minimum(lengths, text.shape[1])
    last = text[rows, lengths_read - 1]
    stop = lengths - 1 - (last == _SPACE)
    before = text[rows, np.clip(stop, 0, text.shape[1] - 1)]
    n_digits = stop - first
    good = (text[:, 0] == _WORDS[b":"]) & (n_digits >= 1) & (n_digits <= _LONGEST_NUMBER)
    good &= (before == _COMMA_BYTE) | ((before == _BRACE_END) & (last == _BRACE_END))
    value = np.zeros(starts.size, dtype=np.int64)
    for number in range(_LONGEST_NUMBER):
        inside = number < n_digits
        digit = text[rows, np.minimum(first + number, text.shape[1] - 1)].astype(np.int64) - _ZERO
        # The first digit is no 0: neither 0 itself nor 01 is plain.
        good &= ~inside | ((digit >= (0 if number else 1)) & (digit <= 9))
        value = np.where(inside, 10 * value + digit, value)
    kinds = np.where(before == _COMMA_BYTE, _NUMBER, _NUMBER_END)
    return np.where(good, kinds, 0).astype(np.uint8), np.where(good, value, 0)


def _has_escapes(flat: NDArray[np.uint8], starts: Integers) -> NDArray[np.bool_]:
    """Whether a line has an escaped quotation mark or backslash: its strings are not what they seem."""
    found = np.zeros(starts.size, dtype=np.bool_)
    slashes = np.flatnonzero(flat == _BACKSLASH)
    if slashes.size:
        following = flat[np.minimum(slashes + 1, flat.size - 1)]
        odd = slashes[(following == _QUOTE) | (following == _BACKSLASH)]
        found[np.searchsorted(starts, odd, side="right") - 1] = True
    return found


def _number_of(text: bytes, number: Callable[[str], int]) -> int:
    try:
        return number(from_json(b'"' + text + b'"'))
    except ValueError:
        return -1


def _no_rows() -> PlainRows:
    nothing = np.zeros(0, dtype=np.int64)
    return PlainRows(nothing, nothing, nothing, nothing, nothing, np.zeros(1, dtype=np.int64))


_WORDS = {text: np.uint64(int.from_bytes(text, "little")) for texts in _BETWEEN.values() for text in texts}
