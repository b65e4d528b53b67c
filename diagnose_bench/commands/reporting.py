"""``score``, ``report`` and ``explain``: from a run to a number, its rendering, and how it came about."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from diagnose_bench.commands.common import (
    Format,
    FormatOption,
    TruthOption,
    leave,
    print_json,
    result,
    say,
    show,
)
from diagnose_bench.outcome import Profile

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")]
OptionalSuiteOption = Annotated[
    str | None,
    typer.Option("--suite", metavar="SUITE", help="The suite, when it is no longer where the run found it."),
]


def add_to(app: typer.Typer) -> None:
    """Register the commands of this module."""
    app.command(short_help="Score a run against the ground truth.")(score)
    app.command(short_help="Render the scorecards of runs.")(report)
    app.command(short_help="Show how one trial came by its number.")(explain)


def score(
    run: RunArgument,
    suite: OptionalSuiteOption = None,
    truth: TruthOption = None,
    profile: Annotated[
        Profile, typer.Option(help="How entities are matched and collapsed.")
    ] = Profile.ITBENCH_AA,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID", help="Take a scenario out of the denominator; it is in the signature. Repeatable."
        ),
    ] = None,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Score a run against the ground truth and write its scorecard.json.

    Exits with 3 when trials are missing, so that the headline is not decided yet.

    Example: diagnose-bench score runs/my-agent
    """
    from diagnose_bench.grading import score_run

    scorecard = score_run(run, suite=suite, truth=truth, profile=profile, exclude=tuple(exclude or ()))
    if format_ is Format.JSON:
        print_json(scorecard.to_dict())
    else:
        _print_table([run])
    say(f"Scorecard: {run / 'scorecard.json'}")
    leave(scorecard.exit_code)


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of runs that have been scored.")],
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one self-contained HTML file.")
    ] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a Markdown file.")] = None,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Render the scorecards of one or more runs.

    Example: diagnose-bench report runs/my-agent --html report.html
    """
    from diagnose_bench.files import write_atomic
    from diagnose_bench.report import load_report, report_json

    loaded = load_report(runs)
    if html is not None:
        from diagnose_bench.report_html import report_html

        write_atomic(html, report_html(loaded).encode())
        say(f"HTML report: {html}")
    if markdown is not None:
        from diagnose_bench.report_markdown import report_markdown

        write_atomic(markdown, report_markdown(loaded).encode())
        say(f"Markdown report: {markdown}")
    if format_ is Format.JSON:
        print_json(report_json(loaded))
    else:
        _print_table(runs)


def explain(
    run: RunArgument,
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="A scenario's id or number.")],
    repeat: Annotated[int, typer.Argument(metavar="REPEAT", help="The repeat, from 1.")],
    suite: OptionalSuiteOption = None,
    truth: TruthOption = None,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Show how one trial came by its number, submission by submission. Shows the truth.

    Example: diagnose-bench explain runs/my-agent scenario-001 1
    """
    from diagnose_bench.explain import explain_trial

    explanation = explain_trial(run, scenario, repeat, suite=suite, truth=truth)
    if format_ is Format.JSON:
        print_json(explanation.to_dict())
    else:
        show(explanation.text().removesuffix("\n"))


def _print_table(runs: list[Path]) -> None:
    from diagnose_bench.report import load_report
    from diagnose_bench.report_terminal import print_report

    loaded = load_report(runs)
    with result():
        print_report(loaded)
