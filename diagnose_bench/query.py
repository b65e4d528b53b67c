"""One SQL query over runs and scorecards, in DuckDB. The SQL can read the tables and nothing else.

Only the tables that the query names are loaded, into a database file of its own that is gone afterwards; it
is then opened read-only, without file access and with its settings locked.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diagnose_bench.errors import DiagnoseBenchError, RunError, UsageError
from diagnose_bench.run_tables import COLUMNS, Row, Source, open_source, rows_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEMORY_LIMIT = "1GB"
"""Of DuckDB; what does not fit is spilled to the temporary folder."""
_THREADS = "2"
_CHUNK_BYTES = 8 << 20
_FETCH_ROWS = 100
_STATEMENTS = ("SELECT", "EXPLAIN", "MULTI")
"""MULTI is what PIVOT becomes."""
_CONFIG = {"memory_limit": MEMORY_LIMIT, "threads": _THREADS}
_LOCKED = {
    **_CONFIG,
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "lock_configuration": "true",
}


@dataclass(frozen=True)
class Result:
    """Columns of a query, and its rows as they come."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]


@contextmanager
def run_query(sql: str, paths: Sequence[Path]) -> Iterator[Result]:
    """Run one query; the rows can be read while the block lasts.

    Parameters
    ----------
    sql : str
        One SELECT (or DESCRIBE, SHOW TABLES, EXPLAIN) over the tables ``agents``, ``scenarios``, ``trials``,
        ``entities`` and ``commands``.
    paths : sequence of Path
        Run folders and scorecards.

    Raises
    ------
    UsageError
        The SQL is wrong, or asks for more than reading.
    RunError
        A file of a run is damaged or half-written.
    """
    sources = [open_source(path) for path in paths]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="diagnose-bench-query-")))
        database = folder / "query.duckdb"
        _load(database, folder, sql, sources)
        connection = stack.enter_context(_connect(database, folder, locked=True))
        yield _execute(connection, sql)


def _load(database: Path, folder: Path, sql: str, sources: Sequence[Source]) -> None:
    import duckdb

    with _connect(database, folder, locked=False) as connection:
        for name, columns in COLUMNS.items():
            declared = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
            connection.execute(f"CREATE TABLE {name} ({declared})")
    with _connect(database, folder, locked=True) as connection:
        names = _tables_of(connection, sql)
    with _connect(database, folder, locked=False) as connection:
        for name in names:
            for source in sources:
                try:
                    _insert(connection, folder / "rows.jsonl", name, rows_of(name, source))
                except duckdb.Error as error:
                    raise RunError(
                        f"{source.name}: its {name} cannot be loaded: {_first_line(error)}. Free some space, "
                        "or look for a damaged record."
                    ) from error


def _tables_of(connection: DuckDBPyConnection, sql: str) -> list[str]:
    """Our tables that the query reads; also refuses what is no single reading statement."""
    import duckdb

    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise _wrong_sql(error) from error
    if len(statements) != 1 or statements[0].type.name not in _STATEMENTS:
        raise UsageError(
            "The query must be one SELECT (or DESCRIBE, SHOW TABLES, EXPLAIN): tables are only read here."
        )
    try:
        found = connection.get_table_names(sql)
    except duckdb.Error:
        # A PIVOT has no list of its tables; a query that is wrong is told so when it runs.
        return list(COLUMNS)
    lower = {name.replace('"', "").rsplit(".", 1)[-1].lower() for name in found}
    return [name for name in COLUMNS if name in lower]


def _insert(connection: DuckDBPyConnection, file: Path, table: str, rows: Iterator[Row]) -> None:
    """Load rows in chunks of bounded size."""
    kinds = ", ".join(f"'{column}': '{kind}'" for column, kind in COLUMNS[table].items())
    statement = (
        f"INSERT INTO {table} SELECT * FROM read_json(?, format = 'newline_delimited', "
        f"maximum_object_size = {2 * _CHUNK_BYTES}, columns = {{{kinds}}})"
    )
    for chunk in _chunks(rows):
        file.write_bytes(chunk)
        connection.execute(statement, [str(file)])


def _chunks(rows: Iterator[Row]) -> Iterator[bytes]:
    lines: list[bytes] = []
    size = 0
    for row in rows:
        for name, value in row.items():
            if isinstance(value, float) and not math.isfinite(value):
                row[name] = None
        # A lone surrogate, which JSON can hold and UTF-8 cannot, becomes a question mark.
        line = json.dumps(row, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace") + b"\n"
        lines.append(line)
        size += len(line)
        if size >= _CHUNK_BYTES:
            yield b"".join(lines)
            lines, size = [], 0
    if lines:
        yield b"".join(lines)


@contextmanager
def _connect(database: Path, folder: Path, *, locked: bool) -> Iterator[DuckDBPyConnection]:
    import duckdb

    config: dict[str, Any] = {**(_LOCKED if locked else _CONFIG), "temp_directory": str(folder / "spill")}
    try:
        connection = duckdb.connect(str(database), read_only=locked, config=config)
    except duckdb.Error as error:
        raise DiagnoseBenchError(
            f"{folder}: the temporary database cannot be opened: {_first_line(error)}. Free some space, or "
            "set TMPDIR to a folder that has it."
        ) from error
    with connection:
        yield connection


def _execute(connection: DuckDBPyConnection, sql: str) -> Result:
    import duckdb

    try:
        cursor = connection.execute(sql)
    except duckdb.Error as error:
        raise _wrong_sql(error) from error
    columns = _distinct([str(column[0]) for column in cursor.description or ()])
    return Result(columns=columns, rows=_fetched(cursor))


def _fetched(cursor: DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    import duckdb

    try:
        while rows := cursor.fetchmany(_FETCH_ROWS):
            yield from rows
    except duckdb.Error as error:
        raise _wrong_sql(error) from error


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Names with a number where one comes again: a JSON object holds each key once."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return tuple(found)


def _wrong_sql(error: Exception) -> DiagnoseBenchError:
    import duckdb

    if isinstance(error, duckdb.OutOfMemoryException):
        return UsageError(
            f"The query needs more than {MEMORY_LIMIT} of memory. Ask for fewer rows, or less of long texts: "
            "left(output, 200) instead of output."
        )
    return UsageError(
        f"The query failed: {str(error).strip()}\n"
        f'Tables: {", ".join(COLUMNS)}. Columns: diagnose-bench query "DESCRIBE trials" RUN.'
    )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]
