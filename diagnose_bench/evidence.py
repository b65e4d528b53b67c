"""Whether the evidence that a diagnosis cites exists: file, line and quote, looked up in the snapshot.

Knows no truth. A citation is the agent's word: its path leads nowhere but to files of the manifest, files are
streamed, and their number and size are bounded.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from diagnose_bench.diagnosis_model import Evidence
from diagnose_bench.errors import DiagnoseBenchError
from diagnose_bench.snapshot import MANIFEST_NAME, load_manifest

MAX_CITATIONS = 100
"""Of one trial; the rest is not looked up."""
MAX_FILE_BYTES = 2 << 30
MAX_QUOTE = 4096
MIN_QUOTE = 12
"""A shorter quote stands in any file by chance; it says nothing without the number of its line."""
_CHUNK = 1 << 20
_LINE_KEPT = 1 << 20
_PREFIX = "/snapshot/"


class Found(StrEnum):
    """What became of a citation."""

    FOUND = "found"
    OTHER_LINE = "other_line"
    """The quote stands in the file, but not in the line that is named."""
    NO_QUOTE = "no_quote"
    """The file does not hold it."""
    NO_LINE = "no_line"
    """The file has fewer lines, and no quote was given."""
    NO_FILE = "no_file"
    """The snapshot has no such file."""


@dataclass(frozen=True)
class _Citation:
    file: str
    line: int | None
    quote: str


class EvidenceIndex:
    """Looks citations up in one snapshot, each once however often it is asked for.

    Parameters
    ----------
    snapshot : Path or None
        None where the suite has no snapshots: nothing can be said then.
    """

    def __init__(self, snapshot: Path | None) -> None:
        self._snapshot = snapshot
        self._known: dict[_Citation, Found | None] = {}
        self._files: frozenset[str] | None = None

    def check(self, cited: Sequence[Evidence]) -> tuple[Found | None, ...]:
        """What becomes of each citation; None where nothing can be said.

        Notes
        -----
        Nothing is said of a citation that names no file, or no more than a file that exists and in it a quote
        of fewer than ``MIN_QUOTE`` characters (a row of white space is one); of a quote that is very long, of
        a file that is very large or holds no text, and of all beyond ``MAX_CITATIONS``.
        """
        if self._snapshot is None:
            return (None,) * len(cited)
        citations = [self._citation(one) for one in cited[:MAX_CITATIONS]]
        new = {one for one in citations if one is not None} - self._known.keys()
        for name in sorted({one.file for one in new}):
            self._look_up(self._snapshot, name, [one for one in new if one.file == name])
        found = [None if one is None else self._known.get(one) for one in citations]
        return (*found, *(None,) * (len(cited) - len(found)))

    def _citation(self, evidence: Evidence) -> _Citation | None:
        quote = (evidence.quote or "").strip()
        if not evidence.file or len(quote) > MAX_QUOTE:
            return None
        name = evidence.file.strip().removeprefix(_PREFIX).removeprefix("./")
        return _Citation(name, evidence.line, quote)

    def _look_up(self, snapshot: Path, name: str, citations: Sequence[_Citation]) -> None:
        if name not in self._listed(snapshot):
            self._known |= dict.fromkeys(citations, Found.NO_FILE)
            return
        try:
            # Listed, yet perhaps replaced since: neither through a link nor waiting for a FIFO.
            descriptor = os.open(snapshot / name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (OSError, ValueError):
            self._known |= dict.fromkeys(citations)
            return
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
                self._known |= dict.fromkeys(citations)
                return
            self._known |= _look_up_in(descriptor, citations)
        except OSError:
            self._known |= dict.fromkeys(citations)
        finally:
            os.close(descriptor)

    def _listed(self, snapshot: Path) -> frozenset[str]:
        if self._files is None:
            try:
                names = [entry.path for entry in load_manifest(snapshot).files]
            except DiagnoseBenchError:
                names = []
            self._files = frozenset((*names, MANIFEST_NAME))
        return self._files


def _look_up_in(descriptor: int, citations: Sequence[_Citation]) -> dict[_Citation, Found | None]:
    if b"\0" in os.pread(descriptor, _CHUNK, 0):
        return dict.fromkeys(citations)
    lines = _lines(descriptor, {one.line for one in citations if one.line is not None})
    found: dict[_Citation, Found | None] = {}
    for one in citations:
        if not one.quote:
            found[one] = None if one.line is None else Found.FOUND if one.line in lines else Found.NO_LINE
        elif one.line is not None and one.line in lines and _stands_in(one.quote, lines[one.line]):
            found[one] = Found.FOUND
    rest = [one for one in citations if one not in found]
    present = _present(descriptor, {one.quote for one in rest})
    for one in rest:
        is_there = one.quote in present
        if is_there and one.line is None:
            is_telling = len(" ".join(one.quote.split())) >= MIN_QUOTE
            found[one] = Found.FOUND if is_telling else None
        elif is_there:
            found[one] = Found.OTHER_LINE
        else:
            found[one] = Found.NO_QUOTE
    return found


def _lines(descriptor: int, numbers: set[int]) -> dict[int, bytes]:
    """Lines by their numbers, each at most as far as is kept; those beyond the end are left out."""
    found: dict[int, bytes] = {}
    last = max(numbers, default=0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        number, is_new = 1, True
        while number <= last and (piece := file.readline(_LINE_KEPT)):
            if is_new and number in numbers:
                found[number] = piece
            is_new = piece.endswith(b"\n")
            number += is_new
    return found


def _stands_in(quote: str, line: bytes) -> bool:
    """Whether a quote stands in a line, as it is, without JSON's escapes, or with other white space."""
    if any(needle in line for needle in _needles(quote)):
        return True
    return " ".join(quote.split()) in " ".join(line.decode("utf-8", "replace").split())


def _present(descriptor: int, quotes: Iterable[str]) -> set[str]:
    """Which quotes stand anywhere in the file."""
    waiting = {quote: _needles(quote) for quote in quotes}
    longest = max((len(needle) for needles in waiting.values() for needle in needles), default=0)
    found: set[str] = set()
    os.lseek(descriptor, 0, os.SEEK_SET)
    tail = b""
    while waiting and (chunk := os.read(descriptor, _CHUNK)):
        text = tail + chunk
        hits = {quote for quote, needles in waiting.items() if any(needle in text for needle in needles)}
        found |= hits
        waiting = {quote: needles for quote, needles in waiting.items() if quote not in hits}
        tail = text[-longest:]
    return found


def _needles(quote: str) -> tuple[bytes, ...]:
    """A quote as it may be written in a file: plain, or inside a string of JSON."""
    forms = (quote, json.dumps(quote, ensure_ascii=False)[1:-1], json.dumps(quote)[1:-1])
    return tuple(dict.fromkeys(form.encode("utf-8", "replace") for form in forms))
