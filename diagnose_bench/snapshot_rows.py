"""What a file of a snapshot is, by its path, and how many records it holds. Streams; interprets nothing."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from diagnose_bench.errors import SuiteError

_CHUNK = 1 << 20
MAX_RECORD_BYTES = 64 << 20
"""One line or quoted field beyond this is refused: it would fill the memory."""

_NATIVE = {
    "alerts.jsonl": "alerts",
    "events.jsonl": "events",
    "traces.jsonl": "traces",
    "logs.jsonl": "logs",
    "metrics.parquet": "metrics",
    "topology.json": "topology",
    "objects.jsonl": "objects",
    "changes.jsonl": "changes",
}
# The files of ITBench's Scenario-N folders; older recordings split the objects by namespace and kind.
_ITBENCH = (
    (re.compile(r"(alerts/)?alerts[^/]*\.json"), "alerts"),
    (re.compile(r"k8s_events_[\w-]+\.tsv"), "events"),
    (re.compile(r"k8s_objects_[\w-]+\.tsv"), "objects"),
    (re.compile(r"otel_logs_[\w-]+\.tsv"), "logs"),
    (re.compile(r"otel_traces_[\w-]+\.tsv"), "traces"),
    (re.compile(r"metrics/[^/]+\.tsv"), "metrics"),
)
_TABLES = {"csv": ",", "tsv": "\t"}
_LINES = frozenset({"jsonl", "log", "txt"})


def classify(path: PurePosixPath) -> tuple[str, str]:
    """Return kind and format of a file by its path inside the snapshot; what nothing names is ``raw``."""
    format_ = path.suffix[1:].lower() or "none"
    name = str(path)
    if name in _NATIVE:
        return _NATIVE[name], format_
    folder = str(path.parent)
    if (folder, format_) == ("logs", "log"):
        return "logs", format_
    if (folder, format_) == ("metrics", "csv"):
        return "metrics", format_
    if name.startswith("raw/"):
        return itbench_kind(name.removeprefix("raw/")) or "raw", format_
    return "raw", format_


def itbench_kind(name: str) -> str | None:
    """Return what a file of an ITBench scenario folder holds, or None if the layout does not know it."""
    return next((kind for pattern, kind in _ITBENCH if pattern.fullmatch(name)), None)


def count_rows(path: Path, format_: str) -> int:
    """Count the records of a file: lines that are not blank, data rows of a table, else 1 for the document.

    Raises
    ------
    SuiteError
        A table that cannot be read as one.
    """
    if format_ in _LINES:
        return _count_lines(path)
    if format_ in _TABLES:
        return max(0, sum(1 for _ in table_rows(path, format_)) - 1)
    if format_ == "parquet":
        return _count_parquet(path)
    return 1


def table_rows(path: Path, format_: str) -> Iterator[list[str]]:
    """Yield the rows of a CSV or TSV file, header first; quoted fields may hold newlines and tabs.

    Raises
    ------
    SuiteError
        A record too large to be one, with the line where it ends.
    """
    csv.field_size_limit(MAX_RECORD_BYTES)
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        lines = _BoundedLines(file, path)
        reader = csv.reader(lines, delimiter=_TABLES[format_])
        try:
            for row in reader:
                lines.n_characters = 0
                if row:
                    yield row
        except csv.Error as error:
            raise SuiteError(f"{path}: line {reader.line_num}: no table can be read: {error}.") from error


class _BoundedLines:
    """Lines of a file, until one record takes too many characters (a quote that is never closed)."""

    def __init__(self, file: IO[str], path: Path) -> None:
        self._file, self._path, self._number = file, path, 0
        self.n_characters = 0
        """Since the last record; the reader sets it back."""

    def __iter__(self) -> Iterator[str]:
        while line := self._file.readline(MAX_RECORD_BYTES + 1):
            self._number += 1
            self.n_characters += len(line)
            if self.n_characters > MAX_RECORD_BYTES:
                raise SuiteError(
                    f"{self._path}: line {self._number}: a record of more than {MAX_RECORD_BYTES} characters "
                    "ends nowhere. Is a quote left open?"
                )
            yield line


def _count_lines(path: Path) -> int:
    count, has_text = 0, False
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            first, *others = chunk.split(b"\n")
            has_text = has_text or bool(first.strip())
            for line in others:
                count += has_text
                has_text = bool(line.strip())
    return count + has_text


def _count_parquet(path: Path) -> int:
    import duckdb  # late: the command line must start without it

    try:
        with duckdb.connect() as connection:
            row = connection.execute("SELECT num_rows FROM parquet_file_metadata(?)", [str(path)]).fetchone()
    except duckdb.Error as error:
        raise SuiteError(f"{path}: is no parquet file: {error}") from error
    return int(row[0]) if row else 0
