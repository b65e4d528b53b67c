"""``score``, ``report`` and ``explain``: from a run to a number, its rendering, and how it came about."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

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
from diagnose_bench.errors import UsageError
from diagnose_bench.outcome import IntervalMethod, Profile

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")]
RunOrFileArgument = Annotated[
    Path,
    typer.Argument(
        metavar="RUN|FILE", help="A run's folder, or a JSONL or Parquet file of rows of any number of agents."
    ),
]
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
    run: RunOrFileArgument,
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
    interval: Annotated[
        IntervalMethod, typer.Option(help="How intervals are made; it is in the signature.")
    ] = IntervalMethod.HALF_ATOM,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Of the random draws of --interval bootstrap.")
    ] = None,
    planned_repeats: Annotated[
        int | None,
        typer.Option(metavar="R", help="Rows only: repeats that were planned (default: the highest seen)."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Rows only: folder of the scorecards (default: FILE.scorecards)."),
    ] = None,
    trials: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="Rows only: write one row per trial to this Parquet file."),
    ] = None,
    details: Annotated[
        bool | None,
        typer.Option(
            "--details/--no-details",
            help="Rows only: list every trial in the scorecards (default), or leave the lists out.",
            show_default=False,
        ),
    ] = None,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Score a run, or a file of rows, against the ground truth.

    A run gets its scorecard.json. A file (with --suite) has one row per trial: agent, scenario_id, repeat,
    and one of entities, diagnosis, text; each agent gets a scorecard. Rows that cannot be taken are listed
    in FILE.rejected.jsonl.

    Exits with 3 when trials are missing or rows of FILE were rejected, so that the number is not final. Of an
    import, a trial without an answer is no missing one: it is no_diagnosis and scores 0.

    Example: diagnose-bench score runs/my-agent

    Example: diagnose-bench score rows.jsonl --suite postmortems --trials trials.parquet
    """
    if not run.is_dir():
        _score_file(
            run,
            suite,
            truth,
            profile,
            exclude,
            interval,
            seed,
            planned_repeats,
            out,
            trials,
            details is not False,
            format_,
        )
    given = {"--planned-repeats": planned_repeats, "--out": out, "--trials": trials, "--details": details}
    if beyond := [name for name, value in given.items() if value is not None]:
        raise UsageError(f"{beyond[0]}: is for files of rows, and {run} is a folder. Leave it out.")
    from diagnose_bench.grading import score_run
    from diagnose_bench.importers.diagnoses import REJECTED, n_rejected

    scorecard = score_run(
        run,
        suite=suite,
        truth=truth,
        profile=profile,
        exclude=tuple(exclude or ()),
        interval=interval,
        seed=seed,
    )
    if format_ is Format.JSON:
        print_json(scorecard.to_dict())
    else:
        _print_table([run])
    if rejected := n_rejected(run):
        rows = "1 row was" if rejected == 1 else f"{rejected} rows were"
        say(f"Note: {rows} rejected when the answers were imported; they are listed in {run / REJECTED}.")
    say(f"Scorecard: {run / 'scorecard.json'}")
    leave(scorecard.exit_code)


def _score_file(
    file: Path,
    suite: str | None,
    truth: Path | None,
    profile: Profile,
    exclude: list[str] | None,
    interval: IntervalMethod,
    seed: int | None,
    planned_repeats: int | None,
    out: Path | None,
    trials: Path | None,
    details: bool,
    format_: Format,
) -> NoReturn:
    if not file.exists():
        raise UsageError(
            f'{file}: does not exist. A run is made with "diagnose-bench run --out {file}"; a file of rows '
            "is scored with --suite."
        )
    if suite is None:
        raise UsageError(f"{file}: say with --suite which suite its rows are about.")
    from diagnose_bench.bulk import score_file

    found = score_file(
        file,
        suite,
        truth=truth,
        profile=profile,
        exclude=tuple(exclude or ()),
        interval=interval,
        seed=seed,
        planned_repeats=planned_repeats,
        out=out,
        trials=trials,
        details=details,
    )
    for note in found.notes():
        say(note)
    if format_ is Format.JSON:
        print_json(found.to_dict())
    else:
        from diagnose_bench.bulk_table import table_of

        with result():
            print(table_of(found), end="")
    say(f"Scorecards: {found.folder}")
    leave(found.exit_code)


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
