"""The report for a terminal: tables of fixed text and visible names. Nothing untrusted is read as markup."""

from __future__ import annotations

import sys
from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from diagnose_bench.report import (
    VERDICT_MARKS,
    VERDICT_WORDS,
    Report,
    count_text,
    marks,
    number_or_bounds,
    percent,
    points,
    scenario_of,
    signatures,
)
from diagnose_bench.text import visible

_WIDTH_OF_A_FILE = 120


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the caller, and do not end the process as the original does."""
        raise


_KIND_STYLES = {"agent": "bold", "baseline": "", "blind": "dim"}


def print_report(report: Report, file: TextIO | None = None, *, width: int | None = None) -> None:
    """Print the report.

    Parameters
    ----------
    report : Report
        What to print.
    file : text file, optional
        Default: standard output.
    width : int, optional
        Default: the terminal's, or 120 where there is none.
    """
    stream = sys.stdout if file is None else file
    is_terminal = stream.isatty()
    console = _Console(
        file=stream,
        width=width or (None if is_terminal else _WIDTH_OF_A_FILE),
        markup=False,
        highlight=False,
        emoji=False,
    )
    console.print(_agents_table(report))
    console.print(_scenario_table(report))
    console.print(_counts_table(report))
    legend = "  ".join(f"{VERDICT_MARKS[verdict]} {word}" for verdict, word in VERDICT_WORDS.items())
    console.print(Text(f"One sign per repeat: {legend}", style="dim"))
    for notice in report.notices:
        console.print(Text(f"Note: {_clean(notice)}", style="yellow"))
    found = signatures(report)
    for labels, signature in found:
        label = f"{_clean(labels)}: " if len(found) > 1 else ""
        # One line whatever the width: a signature is copied, and a break in it would be copied too.
        console.print(Text(f"{label}{_clean(signature)}"), soft_wrap=True)


def _agents_table(report: Report) -> Table:
    table = _table("Average precision at full recall")
    table.add_column("Agent", overflow="fold")
    table.add_column("Score", justify="right", no_wrap=True)
    table.add_column("Averaged over")
    for name in ("Full recall", "Exact", "Ranked", "Strict", "Blind", "Lift"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in report.rows:
        table.add_row(
            Text(_clean(row.name)),
            number_or_bounds(row.number, row.bounds),
            row.averaged_over,
            *map(percent, (row.full_recall_rate, row.exact_rate, row.ranked, row.strict, row.blind)),
            points(row.lift),
            style=_KIND_STYLES[row.kind],
        )
    return table


def _scenario_table(report: Report) -> Table:
    table = _table("Scores by scenario")
    table.add_column("Scenario", overflow="fold")
    shown = [row for row in report.rows if row.kind != "blind"]
    for row in shown:
        table.add_column(Text(_clean(row.name)), justify="right", overflow="fold")
    for scenario_id in report.scenario_ids:
        cells = []
        for row in shown:
            cell = percent(row.scenarios.get(scenario_id))
            agent = next((one for one in report.agents if one.label == row.name), None)
            scenario = scenario_of(agent.scorecard, scenario_id) if agent else None
            cells.append(f"{cell}  {marks(scenario.trials)}" if scenario else cell)
        table.add_row(Text(_clean(scenario_id)), *cells)
    return table


def _counts_table(report: Report) -> Table:
    table = _table("How the trials ended")
    for name in ("Agent", "Outcomes", "Verdicts", "Reasons for unsafe"):
        table.add_column(name, overflow="fold")
    for agent in report.agents:
        scorecard = agent.scorecard
        table.add_row(
            Text(_clean(agent.label)),
            *map(count_text, (scorecard.outcomes, scorecard.verdicts, scorecard.unsafe_reasons)),
        )
    return table


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)


def _clean(text: str) -> str:
    return visible(text, keep_lines=False)
