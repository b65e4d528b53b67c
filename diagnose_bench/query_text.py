"""Rows of a query as JSON, CSV or a table, written as they come. Asks nothing of the database."""

from __future__ import annotations

import csv
import datetime
import decimal
import itertools
import json
import math
from collections.abc import Mapping
from typing import Any, TextIO

from diagnose_bench.query import Result
from diagnose_bench.text_table import text_table

MAX_TABLE_ROWS = 1_000
"""A table needs all its rows to know its widths."""
_MAX_CELL = 60


def write_json(result: Result, out: TextIO) -> None:
    """One array of objects, one row a line."""
    out.write("[")
    separator = "\n"
    for row in result.rows:
        value = dict(zip(result.columns, map(plain, row), strict=True))
        out.write(separator + json.dumps(value, ensure_ascii=True, allow_nan=False))
        separator = ",\n"
    out.write("\n]\n")


def write_csv(result: Result, out: TextIO) -> None:
    """Comma-separated, with a header; null is empty, a list is JSON."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(result.columns)
    for row in result.rows:
        writer.writerow([_cell(plain(value), null="") for value in row])


def write_table(result: Result, out: TextIO) -> bool:
    """A table of the first rows; returns whether there were more."""
    rows = list(itertools.islice(result.rows, MAX_TABLE_ROWS + 1))
    shown = [[_short(_cell(plain(value), null="null")) for value in row] for row in rows[:MAX_TABLE_ROWS]]
    right = {
        place
        for place in range(len(result.columns))
        if rows and all(isinstance(row[place], int | float | None) for row in rows)
    }
    out.write(text_table(result.columns, shown, right=right) + "\n")
    return len(rows) > MAX_TABLE_ROWS


def plain(value: Any) -> Any:
    """What JSON can hold of a DuckDB value: numbers stay numbers, NaN is null, times are ISO 8601."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, decimal.Decimal):
        return plain(float(value))
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(one) for one in value]
    return str(value)


def _cell(value: Any, *, null: str) -> str:
    if value is None:
        return null
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _short(text: str) -> str:
    return text if len(text) <= _MAX_CELL else f"{text[: _MAX_CELL - 1]}…"
