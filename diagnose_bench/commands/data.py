"""``suite``, ``schema``, ``doctor`` and ``import``: look at data, check it, bring foreign data in."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from diagnose_bench.commands.common import (
    EXIT_INCOMPLETE,
    EXIT_NEGATIVE,
    EXIT_USAGE,
    Format,
    FormatOption,
    SuiteOption,
    TruthOption,
    leave,
    print_json,
    say,
    show,
)
from diagnose_bench.layout import BUNDLED_SUITE

suite_app = typer.Typer(
    help="Look at a suite, check it, compute its digests.", no_args_is_help=True, rich_markup_mode=None
)
import_app = typer.Typer(
    help="Bring recorded answers or foreign suites in.", no_args_is_help=True, rich_markup_mode=None
)
SuiteArgument = Annotated[
    str, typer.Argument(metavar="SUITE", help="A bundled suite's name, or a folder …/snapshots/<suite>.")
]


def add_to(app: typer.Typer) -> None:
    """Register the commands of this module."""
    app.add_typer(suite_app, name="suite")
    app.add_typer(import_app, name="import")
    app.command(short_help="Print a JSON Schema.")(schema)
    app.command(short_help="Say what works on this machine.")(doctor)


@suite_app.command("list")
def suite_list(format_: FormatOption = Format.TEXT) -> None:
    """List the bundled suites.

    Example: diagnose-bench suite list
    """
    from diagnose_bench.suite_digest import list_suites

    suites = list_suites()
    if format_ is Format.JSON:
        print_json(suites)
        return
    show(
        "\n".join(
            f"{suite['name']} {suite['version']}: {suite['n_scenarios']} scenarios, digest {suite['digest']}"
            for suite in suites
        )
    )


@suite_app.command("show")
def suite_show(suite: SuiteArgument = BUNDLED_SUITE, format_: FormatOption = Format.TEXT) -> None:
    """Show what lies in a suite, scenario by scenario; never its truths.

    Example: diagnose-bench suite show postmortems
    """
    from diagnose_bench.suite import load_suite
    from diagnose_bench.suite_digest import suite_summary

    summary = suite_summary(load_suite(suite))
    if format_ is Format.JSON:
        print_json(summary)
        return
    lines = [
        f"{summary['name']} {summary['version']}, pass score {summary['pass_score']}",
        f"digest {summary['digest']}",
        f"path   {summary['path']}",
        *(f"split {name}: {', '.join(ids)}" for name, ids in (summary["splits"] or {}).items()),
        *map(_scenario_line, summary["scenarios"]),
    ]
    show("\n".join(lines))


def _scenario_line(scenario: dict[str, Any]) -> str:
    if scenario["window"] is None:
        return f"{scenario['id']}: no snapshot (truth alone)"
    kinds = ", ".join(f"{kind} {count['n_rows']}" for kind, count in scenario["kinds"].items())
    return (
        f"{scenario['id']}: detected {scenario['window']['detected_at']}, {scenario['n_files']} files, "
        f"{scenario['n_bytes'] / 1e6:.1f} MB; rows: {kinds}"
    )


@suite_app.command("lint")
def suite_lint(
    suite: SuiteArgument = BUNDLED_SUITE,
    truth: TruthOption = None,
    leaks: Annotated[
        bool,
        typer.Option("--leaks", help="Only look for what the truth alone should know; each file and line."),
    ] = False,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Hold a suite to the rules for a fair one. Reads the truths.

    Exits with 1 when a rule is broken.

    Example: diagnose-bench suite lint postmortems
    """
    from diagnose_bench.layout import truth_folder_of
    from diagnose_bench.lint import lint_suite
    from diagnose_bench.lint_leaks import lint_leaks
    from diagnose_bench.suite import load_suite
    from diagnose_bench.text import visible

    loaded = load_suite(suite)
    folder = truth or truth_folder_of(loaded.path)
    findings = lint_leaks(loaded, folder) if leaks else lint_suite(loaded, folder)
    if format_ is Format.JSON:
        print_json([finding.as_dict() for finding in findings])
    else:
        n_broken = sum(finding.ok is False for finding in findings)
        lines = [visible(finding.line(), keep_lines=False) for finding in findings]
        show("\n".join([*lines, f"{len(findings)} checks, {n_broken} broken."]))
    leave(EXIT_NEGATIVE if any(finding.ok is False for finding in findings) else 0)


@suite_app.command("digest")
def suite_digest(
    suite: SuiteArgument = BUNDLED_SUITE,
    write: Annotated[
        bool, typer.Option("--write", help="Enter the digests into suite.json and the manifests.")
    ] = False,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Compute a suite's digests from its bytes.

    Exits with 1 when they differ from what is on record and --write is not given.

    Example: diagnose-bench suite digest my/snapshots/my-suite --write
    """
    from diagnose_bench.suite_digest import digest_suite

    found = digest_suite(suite, write=write)
    if format_ is Format.JSON:
        print_json(found.as_dict())
    else:
        lines = []
        for scenario in found.scenarios:
            state = (
                "as on record"
                if scenario.matches
                else f"differs: {', '.join(scenario.changed) or 'manifest'}"
            )
            lines.append(f"{scenario.scenario_id} {scenario.found or '-'} {state}")
        state = "as on record" if found.matches else "written" if found.written else "differs"
        show("\n".join([*lines, f"suite {found.found} {state}"]))
    leave(0 if found.matches or found.written else EXIT_NEGATIVE)


@import_app.command("diagnoses")
def import_diagnoses(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="A JSONL file, or a folder of ITBench outputs.")
    ],
    agent: Annotated[str, typer.Option(metavar="NAME", help="What the agent is called in results.")],
    suite: SuiteOption = BUNDLED_SUITE,
    planned_repeats: Annotated[
        int | None,
        typer.Option(metavar="N", help="Repeats that were planned (default: the highest one seen)."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the new run (default: runs/<suite>-<agent>-<time>)."),
    ] = None,
    no_repair: Annotated[
        bool, typer.Option("--no-repair", help="Take answers as they are, repair no syntax.")
    ] = False,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Turn recorded answers into a run that can be scored.

    Rows: scenario_id, repeat, and one of diagnosis, entities, text (see: schema diagnosis-row). Exits with 3
    when rows were rejected.

    Example: diagnose-bench import diagnoses answers.jsonl --agent my-agent --suite postmortems
    """
    from diagnose_bench.importers import diagnoses
    from diagnose_bench.run import default_out
    from diagnose_bench.suite import load_suite

    loaded = load_suite(suite)
    summary = diagnoses.import_diagnoses(
        source,
        agent=agent,
        suite=loaded,
        out=out or default_out(loaded, agent),
        planned_repeats=planned_repeats,
        repair=not no_repair,
    )
    for note in summary.notes():
        say(note)
    if format_ is Format.JSON:
        print_json(
            {
                "run": str(summary.run),
                "outcomes": dict(summary.outcomes),
                "n_planned": summary.n_planned,
                "n_absent": summary.n_absent,
                "n_rejected": summary.n_rejected,
                "plan_is_guessed": summary.plan_is_guessed,
            }
        )
    else:
        show(f"Run: {summary.run}\nNext: diagnose-bench score {shlex.quote(str(summary.run))}")
    leave(EXIT_INCOMPLETE if summary.n_rejected else 0)


@import_app.command("itbench", short_help="Turn ITBench folders or truths into a suite.")
def import_itbench(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="Folder with Scenario-N folders, one of them, or truths alone."
        ),
    ],
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the new suite.")],
    truths: Annotated[Path | None, typer.Option(metavar="PATH", help="A file or folder of truths.")] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where snapshots/ and ground_truth/ are made.")
    ] = Path("."),
    format_: FormatOption = Format.TEXT,
) -> None:
    """Turn ITBench-Lite or ITBench-AA folders, or truths alone, into a suite.

    Example: diagnose-bench import itbench ITBench-Lite/snapshots/sre --name lite
    """
    from diagnose_bench.importers.itbench import import_itbench as run_import

    report = run_import(source, name, truths, out)
    for note in report.notes():
        say(note)
    if format_ is Format.JSON:
        print_json(report.as_dict())
    else:
        show(f"Suite: {report.suite_path}")


def schema(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Which schema; without it, their names.")
    ] = None,
) -> None:
    """Print a JSON Schema (2020-12).

    Example: diagnose-bench schema diagnosis
    """
    from diagnose_bench.schemas import SCHEMAS
    from diagnose_bench.schemas import schema as schema_named

    if name is None:
        show("\n".join(SCHEMAS))
    else:
        print_json(schema_named(name))


def doctor(
    deep: Annotated[
        bool, typer.Option("--deep", help="Try every door of each sandbox that works (half a minute).")
    ] = False,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Say what works on this machine: each sandbox, its tools, and what to type where something is missing.

    Exits with 2 when no sandbox works, and with 1 when --deep finds an open door.

    Example: diagnose-bench doctor
    """
    from diagnose_bench.sandbox.doctor import examine

    examination = examine(deep=deep)
    if format_ is Format.JSON:
        print_json(examination.as_dict())
    else:
        show(examination.text())
    if examination.open_doors:
        leave(EXIT_NEGATIVE)
    leave(0 if examination.works else EXIT_USAGE)
