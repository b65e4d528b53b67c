"""``run`` and ``demo``: agents on a suite, in the sandbox."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diagnose_bench.commands.common import (
    EXIT_INCOMPLETE,
    Format,
    FormatOption,
    SuiteOption,
    leave,
    print_json,
    result,
    say,
    show,
)
from diagnose_bench.commands.progress import TerminalProgress
from diagnose_bench.layout import BUNDLED_SUITE

if TYPE_CHECKING:
    from diagnose_bench.run import RunSummary

DEMO_AGENTS = ("empty", "alerting", "loudest", "upstream", "recent-change")
DEMO_REPEATS = 3


def add_to(app: typer.Typer) -> None:
    """Register the commands of this module."""
    app.command(short_help="Do the whole job once, on the bundled suite.")(demo)
    app.command(short_help="Run an agent on a suite.")(run)


def demo(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the runs; each call makes a new one inside.")
    ] = Path("runs/demo"),
    format_: FormatOption = Format.TEXT,
) -> None:
    """Run the baseline agents on the bundled suite, score them, and write the report: the main job at once.

    No network, no key.

    Example: diagnose-bench demo
    """
    from datetime import UTC, datetime

    from diagnose_bench.agents.factory import make_agent
    from diagnose_bench.files import write_atomic
    from diagnose_bench.grading import score_run
    from diagnose_bench.report import load_report, report_json
    from diagnose_bench.report_html import report_html
    from diagnose_bench.report_terminal import print_report
    from diagnose_bench.run import RunOptions, run_suite
    from diagnose_bench.suite import load_suite

    suite = load_suite(BUNDLED_SUITE)
    folder = out / f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"
    runs = []
    for name in DEMO_AGENTS:
        path = folder / name
        with TerminalProgress() as progress:
            run_suite(suite, make_agent(f"baseline:{name}"), RunOptions(repeats=DEMO_REPEATS), path, progress)
        score_run(path)
        runs.append(path)
    report = load_report(runs)
    html = folder / "report.html"
    write_atomic(html, report_html(report).encode())
    if format_ is Format.JSON:
        print_json(report_json(report))
    else:
        with result():
            print_report(report)
        show(f"\nHTML report: {html.resolve()}")
    leave(0 if all(agent.scorecard.complete for agent in report.agents) else EXIT_INCOMPLETE)


def run(
    agent: Annotated[
        str,
        typer.Option(
            metavar="AGENT", help="baseline:NAME, replay:DIR, human, or the command line of any program."
        ),
    ],
    suite: SuiteOption = BUNDLED_SUITE,
    scenario: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Only this scenario; no headline then. Repeatable."),
    ] = None,
    repeats: Annotated[int, typer.Option(metavar="N", help="Trials of each scenario.")] = 3,
    max_turns: Annotated[
        int,
        typer.Option(metavar="N", help="Turns of a trial: shell calls, or model calls where we make them."),
    ] = 100,
    time_limit: Annotated[float, typer.Option(metavar="S", help="Seconds of a trial.")] = 1800.0,
    forced_final: Annotated[
        bool, typer.Option("--forced-final", help="One more turn, only to submit, after the last.")
    ] = False,
    no_repair: Annotated[
        bool, typer.Option("--no-repair", help="Take printed answers as they are, repair no syntax.")
    ] = False,
    sandbox: Annotated[
        str,
        typer.Option(
            metavar="auto|bwrap|landlock|docker:IMAGE|podman:IMAGE|none",
            help="How to isolate; none is no isolation, and no pass is safe.",
        ),
    ] = "auto",
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="What a program is called in results.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the run (default: runs/<suite>-<agent>-<time>)."),
    ] = None,
    jobs: Annotated[int, typer.Option(metavar="N", help="Trials that go on at the same time.")] = 1,
    retries: Annotated[
        int, typer.Option(metavar="N", help="Run a trial that failed through our own fault again, so often.")
    ] = 2,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check and plan; run nothing, write nothing.")
    ] = False,
    baselines: Annotated[
        bool, typer.Option(help="Run the baseline agents once beside the agent, for the report.")
    ] = True,
    hide: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="A folder that agents must not see, such as truths kept elsewhere. Repeatable.",
        ),
    ] = None,
    audit: Annotated[
        bool,
        typer.Option("--audit", help="Report system calls that try to leave the sandbox or change evidence."),
    ] = False,
    toolbox: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Show pandas and duckdb in the shell, from what `toolbox build` made."
        ),
    ] = None,
    null_snapshot: Annotated[
        bool,
        typer.Option("--null-snapshot", help="The task with an empty snapshot: a pass used something else."),
    ] = False,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Run an agent on a suite: the trials, nothing of the truth.

    Exits with 3 when a trial failed through a fault of ours: call again with --resume.

    Example: diagnose-bench run --agent './my-agent.sh' --out runs/my-agent
    """
    from diagnose_bench.agents.factory import make_agent
    from diagnose_bench.errors import UsageError
    from diagnose_bench.run import RunOptions, default_out, run_suite
    from diagnose_bench.suite import load_suite

    if resume and out is None:
        raise UsageError("--resume needs --out, the folder of the run to go on with.")
    options = RunOptions(
        repeats=repeats,
        max_turns=max_turns,
        time_limit_s=time_limit,
        forced_final=forced_final,
        repair=not no_repair,
        scenarios=tuple(scenario or ()),
        sandbox=sandbox,
        jobs=jobs,
        retries=retries,
        resume=resume,
        dry_run=dry_run,
        baselines=baselines,
        hide=tuple(hide or ()),
        audit=audit,
        toolbox=toolbox,
        null_snapshot=null_snapshot,
    )
    loaded, made = load_suite(suite), make_agent(agent, name=name)
    with TerminalProgress(bar=made.kind != "person") as progress:
        summary = run_suite(loaded, made, options, out or default_out(loaded, made.info.name), progress)
    if format_ is Format.JSON:
        print_json(_summary_json(summary, dry_run))
    elif dry_run:
        show(_plan_text(summary))
    else:
        counts = ", ".join(f"{outcome} {count}" for outcome, count in sorted(summary.outcomes.items()))
        info = summary.manifest.sandbox
        walls = f"Sandbox: {info.backend or '-'}, agent process {info.agent_process or '-'}"
        show(f"Run: {summary.path}\nOutcomes: {counts}\n{walls}")
        if summary.is_complete:
            show(f"Next: diagnose-bench score {shlex.quote(str(summary.path))}")
    if not dry_run and not summary.is_complete:
        say(
            "Some trials failed through a fault of diagnose-bench, not of the agent, and are unscored. "
            f"Try them again: the same command with --out {shlex.quote(str(summary.path))} --resume."
        )
        leave(EXIT_INCOMPLETE)


def _summary_json(summary: RunSummary, dry_run: bool) -> dict[str, Any]:
    return {
        "run": None if dry_run else str(summary.path),
        "complete": None if dry_run else summary.is_complete,
        "outcomes": dict(summary.outcomes),
        "n_resumed": summary.n_resumed,
        "manifest": summary.manifest.model_dump(mode="json"),
    }


def _plan_text(summary: RunSummary) -> str:
    manifest = summary.manifest
    scenarios = list(dict.fromkeys(trial.scenario_id for trial in manifest.plan))
    return "\n".join(
        [
            f"Would run {manifest.agent.name} on {manifest.suite.name} {manifest.suite.version}:",
            f"{len(scenarios)} scenarios x {manifest.policy.repeats} repeats = {len(manifest.plan)} trials,",
            f"sandbox {manifest.sandbox.backend or '-'},",
            f"agent process {manifest.sandbox.agent_process or '-'},",
            f"into {summary.path}",
            *scenarios,
        ]
    )
