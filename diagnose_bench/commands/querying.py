"""``query``: SQL over runs and scorecards."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from diagnose_bench.commands.common import result, say


class QueryFormat(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def add_to(app: typer.Typer) -> None:
    """Register the commands of this module."""
    app.command(short_help="Ask runs and scorecards a question in SQL.")(query)


def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT.")],
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Folders of runs, scored or not, or scorecards.")
    ],
    format_: Annotated[
        QueryFormat, typer.Option("--format", help="How to print the rows on stdout.")
    ] = QueryFormat.TABLE,
) -> None:
    """Run one SELECT (in DuckDB's dialect) over any number of runs; nothing is written, no file can be read.

    Tables: agents, scenarios, trials, entities, commands. "DESCRIBE trials" lists the columns of one.

    Example: diagnose-bench query "SELECT agent, avg(seconds) FROM trials GROUP BY agent" runs/my-agent
    """
    from diagnose_bench.query import run_query
    from diagnose_bench.query_text import MAX_TABLE_ROWS, write_csv, write_json, write_table

    has_more = False
    with run_query(sql, runs) as found, result():
        if format_ is QueryFormat.JSON:
            write_json(found, sys.stdout)
        elif format_ is QueryFormat.CSV:
            write_csv(found, sys.stdout)
        else:
            has_more = write_table(found, sys.stdout)
    if has_more:
        say(f"Only the first {MAX_TABLE_ROWS} rows are shown: --format csv or json gives all of them.")
