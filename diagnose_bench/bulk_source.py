"""Rows of a bulk file as blocks of whole lines, each line with its number. Reads nothing out of a row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from diagnose_bench.errors import UsageError
from diagnose_bench.importers.diagnosis_sources import MAX_ROW_BYTES

_LINE_FEED = 10
_MARK = b"\xef\xbb\xbf"
_SMALLEST, _LARGEST = 1 << 18, 1 << 21


@dataclass(frozen=True)
class Block:
    """Whole lines of a file; ``first`` is the number of the first one, from 1, ``at`` its place in the file.

    ``data`` ends with a line break. ``too_long`` marks the one line that has no place in memory.
    """

    data: bytes
    first: int
    at: int
    too_long: bool = False

    @cached_property
    def edges(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where each line begins and ends, without its line break."""
        ends = np.flatnonzero(np.frombuffer(self.data, dtype=np.uint8) == _LINE_FEED)
        return np.concatenate([[0], ends[:-1] + 1]), ends

    def n_lines(self) -> int:
        """Number of lines."""
        return self.edges[1].size


def block_bytes(file_bytes: int) -> int:
    """Size of a block: what is made of it must stay small beside the file."""
    return min(_LARGEST, max(_SMALLEST, file_bytes // 32))


def read_lines(path: Path) -> Iterator[Block]:
    """Read a text file block by block.

    Notes
    -----
    A line longer than 16 MiB comes as a block of its own, without its text.

    Raises
    ------
    UsageError
        The file cannot be read.
    """
    try:
        size = block_bytes(path.stat().st_size)
        with path.open("rb") as file:
            first, at = 1, 0
            while data := file.read(size):
                if first == 1 and data.startswith(_MARK):
                    data, at = data.removeprefix(_MARK), len(_MARK)
                if not data.endswith(b"\n"):
                    data += file.readline(MAX_ROW_BYTES + 1)
                if data.endswith(b"\n"):
                    block = Block(data, first, at)
                    yield block
                    first += block.n_lines()
                    at += len(data)
                    continue
                whole, _, rest = data.rpartition(b"\n")
                if whole:
                    yield Block(whole + b"\n", first, at)
                    first += whole.count(b"\n") + 1
                    at += len(whole) + 1
                # Either the last line has no line break, or this line is too long.
                if not file.peek(1) and len(rest) <= MAX_ROW_BYTES:
                    yield Block(rest + b"\n", first, at)
                    continue
                while (more := file.readline(1 << 20)) and not more.endswith(b"\n"):
                    pass
                yield Block(b"", first, at, too_long=True)
                first += 1
                at = file.tell()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}.") from error


def read_parquet(path: Path) -> Iterator[Block]:
    """Read the rows of a Parquet file as lines of JSON; the number of a line is that of the row, from 1.

    Notes
    -----
    A column that is null counts as not given. A row without any answer records that there was none. A
    ``diagnosis`` of text is the answer's text itself.

    Raises
    ------
    UsageError
        The file is no Parquet, or lacks a column.
    """
    import duckdb

    with duckdb.connect() as connection:
        try:
            connection.execute("SET threads = 2")
            types = dict(
                connection.execute(
                    "SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM read_parquet(?))",
                    [str(path)],
                ).fetchall()
            )
            result = connection.execute(_parquet_query(path, types), [str(path)])
            first, at = 1, 0
            while rows := result.fetchmany(4096):
                block = Block("\n".join(line for (line,) in rows).encode() + b"\n", first, at)
                yield block
                first += len(rows)
                at += len(block.data)
        except (duckdb.Error, UnicodeDecodeError) as error:
            reason = str(error).splitlines()[0]
            raise UsageError(f"{path}: cannot be read as Parquet: {reason}") from error


def _parquet_query(path: Path, types: dict[str, str]) -> str:
    answers = [name for name in ("entities", "diagnosis", "text") if name in types]
    missing = [name for name in ("agent", "scenario_id", "repeat") if name not in types]
    if not answers:
        missing.append("entities, diagnosis or text")
    if missing:
        raise UsageError(f"{path}: has no column {missing[0]}; it has {', '.join(sorted(types))[:200]}.")
    line = " || ', ' || ".join(
        f"""'"{name}": ' || coalesce(to_json({name})::VARCHAR, 'null')"""
        for name in ("agent", "scenario_id", "repeat")
    )
    for name in answers:
        key = "text" if name == "diagnosis" and types[name] in ("VARCHAR", "JSON") else name
        given = f"""', "{key}": ' || to_json({name})::VARCHAR"""
        line += f" || CASE WHEN {name} IS NULL THEN '' ELSE {given} END"
    nothing = " AND ".join(f"{name} IS NULL" for name in answers)
    line += f""" || CASE WHEN {nothing} THEN ', "text": null' ELSE '' END"""
    return "SELECT '{' || " + line + " || '}' FROM read_parquet(?)"
