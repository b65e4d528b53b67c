"""Reads what ITBench's recorder wrote: its tables, times, dict reprs. Streams; knows nothing of scenarios."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from diagnose_bench.snapshot_rows import table_rows

_MAX_LITERAL = 1 << 16
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2})[:-]?([0-9]{2})[:-]?([0-9]{2})(?:\.([0-9]{1,9})[0-9]*)?"
)
_TIME_COLUMNS = ("Timestamp", "timestamp")


@dataclass
class Span:
    """The earliest and the latest of the times it was shown, as ``read_time`` gives them."""

    first: str | None = None
    last: str | None = None

    def see(self, text: str) -> None:
        """Take a time in; what is no time is passed over."""
        time = _normal_time(text)
        if time is None:
            return
        # A day that no calendar has must not become an end of the window; few times ever get this far.
        if (self.first is None or time < self.first) and _exists(time):
            self.first = time
        if (self.last is None or time > self.last) and _exists(time):
            self.last = time

    def see_all(self, other: Span) -> None:
        """Take another span in."""
        for time in (other.first, other.last):
            if time is not None:
                self.see(time)


def read_time(text: str) -> str | None:
    """Return the first time in a text as RFC 3339 with nine decimals, so that times sort as strings.

    Reads ``2025-12-15 17:28:25.780858895`` of tables, ``2025-12-15T17:52:23Z`` of documents and the forms in
    the names of files (``T17-30-49.329092``, ``T175223.904312Z``). No clock there names a zone but UTC.
    """
    time = _normal_time(text)
    return time if time is not None and _exists(time) else None


def shown_time(time: str) -> str:
    """Return a time of ``read_time`` without the zeros at its end."""
    seconds, _, fraction = time.removesuffix("Z").partition(".")
    fraction = fraction.rstrip("0")
    return f"{seconds}.{fraction}Z" if fraction else f"{seconds}Z"


def _normal_time(text: str) -> str | None:
    match = _TIME.search(text)
    if match is None:
        return None
    day, hour, minute, second, fraction = match.groups()
    return f"{day}T{hour}:{minute}:{second}.{(fraction or '').ljust(9, '0')}Z"


def _exists(time: str) -> bool:
    try:
        datetime.fromisoformat(time[:19])
    except ValueError:
        return False
    return True


def table_columns(path: Path) -> tuple[dict[str, int], Iterator[list[str]]]:
    """Open a table: its columns by name, and its rows, the short ones filled up."""
    rows = table_rows(path, "tsv")
    header = next(rows, [])
    columns = {name: index for index, name in enumerate(header)}
    return columns, (row + [""] * (len(header) - len(row)) for row in rows)


def time_column(columns: dict[str, int]) -> int | None:
    """Return the index of the column that holds the time of a row."""
    return next((columns[name] for name in _TIME_COLUMNS if name in columns), None)


def scan_table(path: Path) -> tuple[int, Span]:
    """Count the rows of a table and find the span of their times, in one pass."""
    columns, rows = table_columns(path)
    index, span, n_rows = time_column(columns), Span(), 0
    for row in rows:
        n_rows += 1
        if index is not None:
            span.see(row[index])
    return n_rows, span


def read_dict(text: str) -> dict[str, Any]:
    """Read an attribute column: the repr of a Python dict, or JSON; what is neither gives an empty dict."""
    if len(text) > _MAX_LITERAL:
        return {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd escapes in somebody else's strings
            value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}
