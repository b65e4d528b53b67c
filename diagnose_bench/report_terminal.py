"""The report for a terminal: tables of fixed text and visible names. Nothing untrusted is read as markup.

Everything fits the 80 columns of an ordinary terminal, as far as the names of agents let it.
"""

from __future__ import annotations

import io
import re
import sys
from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from diagnose_bench.records import Confidence
from diagnose_bench.report import (
    MISSING,
    VERDICT_MARKS,
    VERDICT_WORDS,
    Report,
    ReportRow,
    interval_text,
    marks,
    methods,
    number_or_bounds,
    percent,
    points,
    scenario_of,
    signatures,
)
from diagnose_bench.report_boundary import event_counts
from diagnose_bench.report_cost import Costs, costs_of
from diagnose_bench.report_statistics import (
    group_name,
    is_informative,
    prediction_text,
    table_title,
)
from diagnose_bench.scorecard import Scorecard
from diagnose_bench.scorecard_statistics import GroupTable, Statistic
from diagnose_bench.text import count_text, visible

_WIDTH_OF_A_FILE = 120
_KIND_STYLES = {"agent": "bold", "baseline": "", "blind": "dim"}
_LEGEND = (
    "95 %: interval of the score for other scenarios like these. Over: scenarios x repeats. Strict: the same "
    "answers under the strict profile. Lift: points above the better of the two answers that saw nothing "
    "(constant name, always empty)."
)
_SURE_LEGEND = (
    "In points, below them 95 % intervals. Generalise: standard error of the score for other scenarios like "
    "these. Rerun: for these very scenarios run again. Flips: scenarios with and without full recall among "
    "their repeats. Any, all: chance that at least one, that every one of so many trials has full recall "
    "(pass@k, pass^k)."
)


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
    # Rendered before it is written: the stream's own failures are the caller's, not the console's.
    console = Console(
        file=io.StringIO(),
        width=width or (None if is_terminal else _WIDTH_OF_A_FILE),
        force_terminal=is_terminal,
        markup=False,
        highlight=False,
        emoji=False,
    )
    with console.capture() as capture:
        console.print(_agents_table(report))
        console.print(Text(_LEGEND, style="dim"))
        console.print()
        if any(agent.scorecard.variance for agent in report.agents):
            console.print(_sure_table(report))
            console.print(Text(_SURE_LEGEND, style="dim"))
            console.print()
        console.print(_scenario_table(report))
        legend = "  ".join(f"{VERDICT_MARKS[verdict]} {word}" for verdict, word in VERDICT_WORDS.items())
        console.print(Text(f"One sign per repeat: {legend}", style="dim"))
        console.print()
        for by in _informative_tables(report):
            console.print(_group_table(report, by))
            for agent in report.agents:
                table = _table_by(agent.scorecard, by)
                prediction = None if table is None else prediction_text(table)
                if prediction is not None:
                    console.print(Text(f"{_clean(agent.label)}: {prediction}", style="dim"))
            console.print()
        costs = costs_of(report.agents)
        if costs.rows:
            console.print(_cost_table(costs))
            console.print(Text(costs.legend, style="dim"))
            for label, note in costs.notes:
                console.print(Text(f"{_clean(label)}: {note}", style="dim"))
            console.print()
        console.print(_counts_table(report))
        for agent in report.agents:
            if any(
                number for name, number in agent.scorecard.boundary_events.items() if name != Confidence.LOW
            ):
                counts = event_counts(agent.scorecard)
                console.print(Text(f"Boundary events of {_clean(agent.label)}: {counts}"))
        lines = methods(report)
        for labels, line in lines:
            console.print(Text(f"{_clean(labels) if len(lines) > 1 else 'Score'}: {_clean(line)}."))
        for notice in report.notices:
            console.print(Text(f"Note: {_clean(notice)}", style="yellow"))
        found = signatures(report)
        for labels, signature in found:
            label = f"{_clean(labels)}: " if len(found) > 1 else ""
            # One line whatever the width: a signature is copied, and a break in it would be copied too.
            console.print(Text(f"{label}{_clean(signature)}"), soft_wrap=True)
    stream.write("".join(f"{line.rstrip()}\n" for line in capture.get().rstrip("\n").split("\n")))


def _agents_table(report: Report) -> Table:
    table = _table("Average precision at full recall, in %", tight=True)
    table.add_column("Agent", overflow="fold", min_width=12)
    table.add_column("Score", justify="right", min_width=5)
    table.add_column("95 %", justify="right", overflow="fold", min_width=5)
    table.add_column("Over", overflow="fold", min_width=5)
    for name in ("Full\nrecall", "Exact", "Ranked", "Strict", "Lift"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in report.rows:
        table.add_row(
            Text(_clean(row.name)),
            _bare(number_or_bounds(row.number, row.bounds)),
            "" if row.interval is None else interval_text(row.interval),
            re.sub(" (?:scenario|repeat)s?", "", row.averaged_over),
            *(("",) * 5 if row.kind == "blind" else _rates(row)),
            style=_KIND_STYLES[row.kind],
        )
    return table


def _rates(row: ReportRow) -> tuple[str, ...]:
    values = (row.full_recall_rate, row.exact_rate, row.ranked, row.strict)
    return (*(_bare(percent(value)) for value in values), points(row.lift))


def _sure_table(report: Report) -> Table:
    table = _table("How sure the score is")
    table.add_column("Agent", overflow="fold", min_width=12)
    repeats = {agent.scorecard.headline.n_repeats for agent in report.agents}
    tries = str(repeats.pop()) if len(repeats) == 1 else "the repeats"
    for name in ("Lift", "Gener-\nalise", "Rerun", "Flips", f"Any of\n{tries}", f"All of\n{tries}"):
        table.add_column(name, justify="right", overflow="fold", min_width=5)
    for agent in report.agents:
        variance, lift = agent.scorecard.variance, agent.scorecard.baselines.lift_over_blind
        if variance is None:
            continue
        last = variance.full_recall.tries[-1]
        table.add_row(
            Text(_clean(agent.label)),
            _two_lines(None if lift is None else lift.difference, signed=True),
            _bare(percent(variance.generalise.value)),
            _bare(percent(variance.rerun.value)),
            _two_lines(variance.full_recall.flip_share),
            _two_lines(last.any_passes),
            _two_lines(last.all_pass),
        )
    return table


def _two_lines(statistic: Statistic | None, *, signed: bool = False) -> str:
    """A number over its interval."""
    if statistic is None:
        return _bare(percent(None))
    value = points(statistic.value) if signed else _bare(percent(statistic.value))
    if statistic.interval is None:
        return value
    return f"{value}\n{interval_text(statistic.interval, signed=signed, digits=0)}"


def _informative_tables(report: Report) -> list[str]:
    """What to group by: where some group has several scenarios and is not the whole."""
    found = [table.by for agent in report.agents for table in agent.scorecard.groups if is_informative(table)]
    return list(dict.fromkeys(found))


def _table_by(scorecard: Scorecard, by: str) -> GroupTable | None:
    return next((table for table in scorecard.groups if table.by == by), None)


def _group_table(report: Report, by: str) -> Table:
    tables = [(agent, found) for agent in report.agents if (found := _table_by(agent.scorecard, by))]
    table = _table(f"Scores by {table_title(tables[0][1]).lower()}, in %")
    table.add_column("Group (scenarios)", overflow="fold", min_width=12)
    for agent, _ in tables:
        table.add_column(_heading(agent.label), justify="right", overflow="fold", min_width=5)
    # Runs over different scenarios have groups of different sizes: other rows.
    cells = [{(one.name, one.n_scenarios): one.score for one in found.groups} for _, found in tables]
    for name, n_scenarios in dict.fromkeys(key for column in cells for key in column):
        scores = [column.get((name, n_scenarios)) for column in cells]
        table.add_row(
            Text(f"{_clean(group_name(name))} ({n_scenarios})"),
            *("" if score is None else _two_lines(score) for score in scores),
        )
    return table


def _heading(label: str) -> Text:
    name = _clean(label)
    return Text(name.replace(":", ":\n", 1) if name.startswith("baseline:") else name)


def _scenario_table(report: Report) -> Table:
    table = _table("Scores by scenario, in %")
    table.add_column("Scenario", overflow="fold", min_width=12)
    shown = [row for row in report.rows if row.kind != "blind"]
    for row in shown:
        table.add_column(_heading(row.name), justify="right", overflow="fold", min_width=5)
    for scenario_id in report.scenario_ids:
        cells = []
        for row in shown:
            cell = _bare(percent(row.scenarios.get(scenario_id)))
            agent = next((one for one in report.agents if one.label == row.name), None)
            scenario = scenario_of(agent.scorecard, scenario_id) if agent else None
            cells.append(f"{cell} {marks(scenario.trials).replace(' ', '')}" if scenario else cell)
        table.add_row(Text(_clean(scenario_id)), *cells)
    return table


def _cost_table(costs: Costs) -> Table:
    table = _table("What an answer costs", tight=True)
    table.add_column("Agent", overflow="fold", min_width=12)
    table.add_column("Per (how many)", overflow="fold", min_width=7)
    # What nobody says anything of takes no room.
    used = [n for n in range(len(costs.headings)) if any(row.cells[n] != MISSING for row in costs.rows)]
    for place in used:
        table.add_column(costs.headings[place].replace(" ", "\n"), justify="right", no_wrap=True)
    for row in costs.rows:
        name = "" if row.basis != costs.rows[0].basis else _clean(row.label)
        table.add_row(Text(name), f"{row.basis} ({row.n})", *(row.cells[place] for place in used))
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


def _table(title: str, *, tight: bool = False) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        # The box brings a space between columns already.
        padding=(0, 0 if tight else 1, 0, 0),
        collapse_padding=True,
        show_edge=False,
    )


def _bare(text: str) -> str:
    """A number without its unit, which the title has."""
    return text.replace(" %", "")


def _clean(text: str) -> str:
    return visible(text, keep_lines=False)
