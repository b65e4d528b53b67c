"""Canaries of truths in the answers of a bulk file: which lines may have one, and what a row's answer shows.

A block is looked at once, however many truths there are: eight bytes of a canary lie where a word of the
block lies, and all words are looked up at once. Only lines with such a word are read. Knows no trials.
"""

from __future__ import annotations

import re
import secrets
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from diagnose_bench.bulk_source import Block
from diagnose_bench.importers.diagnosis_sources import MAX_ANSWER_BYTES, answer_of, row_spans
from diagnose_bench.records import BoundaryEvent, Confidence
from diagnose_bench.truth_traces import TruthTraces

_WORD = 8
_LINE_FEED = 10
_SPARE_BITS = 8
_ESCAPED = re.compile(rb"\\(?:u00([2-7][0-9A-Fa-f])|(/))")


class RowTraces:
    """Searches the rows of one file.

    Parameters
    ----------
    traces : TruthTraces
        What is searched for.
    """

    def __init__(self, traces: TruthTraces) -> None:
        self._traces = traces
        forms = [form.encode() for form in traces.forms]
        self._is_plain = all(form.isascii() for form in forms)
        # Where a word begins at every n-th byte, any n + 7 bytes have one; no form is shorter than 12.
        self._step = _WORD if min(map(len, forms), default=0) >= 2 * _WORD - 1 else _WORD // 2
        words = [form[start : start + _WORD] for form in forms for start in range(self._step)]
        self._words = np.unique(np.frombuffer(b"".join(words), dtype=np.uint64))
        n_bits = self._words.size.bit_length() + _SPARE_BITS
        self._factor = np.uint64(secrets.randbits(64) | 1)
        self._shift = np.uint64(64 - n_bits)
        self._table = np.zeros(1 << n_bits, dtype=np.bool_)
        self._table[self._places(self._words)] = True

    def lines(self, block: Block) -> NDArray[np.int64]:
        """Places in the block, from 0, of lines that may have a canary; none that has one is left out."""
        nothing = np.zeros(0, dtype=np.int64)
        if not self._words.size:
            return nothing
        text = self._folded(block.data)
        found = nothing
        for start in range(0, _WORD, self._step):
            n_words = (len(text) - start) // _WORD
            if n_words <= 0:
                continue
            words = np.frombuffer(text, dtype=np.uint64, count=n_words, offset=start)
            hits = np.flatnonzero(self._table.take(self._places(words), mode="clip"))
            hits = hits[np.isin(words[hits], self._words)]
            found = np.concatenate([found, hits * _WORD + start])
        if not found.size:
            return nothing
        # Folding may change how long a line is, but never how many there are.
        ends = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == _LINE_FEED)
        return np.unique(np.searchsorted(ends, found))

    def events(self, scenario_id: str, line: bytes) -> tuple[BoundaryEvent, ...]:
        """The canaries in the answer of a row that can be taken: what an import of the row would show.

        Raises
        ------
        ValueError
            It is no such row.
        """
        answer = answer_of("", row_spans(line)).data
        if answer is None or len(answer) >= MAX_ANSWER_BYTES:
            # An import keeps no answer that is too long to be one.
            return ()
        found = self._traces.in_answer(scenario_id, answer)
        # Sentences come after the canaries. They are not looked for in files, so none is told by chance.
        return tuple(takewhile(lambda event: event.confidence is Confidence.HIGH, found))

    def _places(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        places = words * self._factor
        places >>= self._shift
        return places.view(np.int64)

    def _folded(self, data: bytes) -> bytes:
        if b"\\u00" in data or b"\\/" in data:
            # A text is searched as it was before it was put into the row.
            data = _ESCAPED.sub(lambda found: found[2] or bytes.fromhex(found[1].decode()), data)
        if self._is_plain or data.isascii():
            return data.lower()
        return data.decode("utf-8", "replace").casefold().encode()
