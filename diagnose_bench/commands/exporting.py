"""``export``: a run in the formats of other tools."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from diagnose_bench.commands.common import leave, result, say
from diagnose_bench.commands.reporting import RunArgument
from diagnose_bench.errors import UsageError


class Target(StrEnum):
    """What a run can be exported to."""

    ATIF = "atif"
    INSPECT = "inspect"
    EVERY_EVAL_EVER = "every-eval-ever"
    JUNIT = "junit"
    GITHUB = "github"


def add_to(app: typer.Typer) -> None:
    """Register the command of this module."""
    app.command(short_help="Write a run in the formats of other tools.")(export)


def export(
    target: Annotated[Target, typer.Argument(metavar="FORMAT", help="|".join(Target))],
    run: RunArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Folder (atif, every-eval-ever) or file to write; junit and github print on stdout without.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="DEVELOPER/MODEL",
            help="every-eval-ever: what the results are filed under (default: the agent's).",
        ),
    ] = None,
    organization: Annotated[
        str, typer.Option(metavar="NAME", help="every-eval-ever: who provides the results.")
    ] = "unknown",
    relationship: Annotated[
        str,
        typer.Option(
            metavar="first_party|third_party|collaborative|other",
            help="every-eval-ever: the evaluator's relationship to the model.",
        ),
    ] = "other",
) -> None:
    """Write a run in the formats of other tools; none of them gets the truth.

    atif: the trajectory of each trial. inspect: an evaluation log (needs the extra inspect).
    every-eval-ever: aggregate and samples of that schema. junit: a test case for each trial. github: a
    summary for $GITHUB_STEP_SUMMARY. All but atif need a scored run.

    Exits with 3 when trials are missing, so that the numbers are not final.

    Example: diagnose-bench export junit runs/my-agent --out junit.xml
    """
    from diagnose_bench.exporters.scored import load_scored

    given = {
        "--model": model,
        "--organization": organization != "unknown",
        "--relationship": relationship != "other",
    }
    if target is not Target.EVERY_EVAL_EVER and (beyond := [name for name, value in given.items() if value]):
        raise UsageError(f"{beyond[0]}: has a meaning only for every-eval-ever. Leave it out.")
    if target is Target.ATIF:
        _atif(run, out)
        return
    scored = load_scored(run)
    if target is Target.JUNIT:
        from diagnose_bench.exporters.junit import junit_xml

        _give(junit_xml(scored), out)
    elif target is Target.GITHUB:
        from diagnose_bench.exporters.github import github_summary

        _give(github_summary(scored).encode(), out)
    elif target is Target.INSPECT:
        from diagnose_bench.exporters.inspect_log import export_inspect

        say(f"Inspect log: {export_inspect(scored, out or _beside(run, '.eval'))}")
    else:
        from diagnose_bench.exporters.every_eval_ever import Publisher, export_every_eval_ever

        folder = out or _beside(run, ".every-eval-ever")
        publisher = Publisher(model, organization, relationship)
        for path in export_every_eval_ever(scored, folder, publisher):
            say(f"Every Eval Ever: {path}")
    leave(scored.scorecard.exit_code)


def _atif(run: Path, out: Path | None) -> None:
    from diagnose_bench.exporters.atif_files import export_atif

    done = export_atif(run, out or _beside(run, ".atif"))
    say(f"Trajectories: {done.n_trials} in {done.folder}")
    if done.n_pending:
        say(f"Note: {done.n_pending} planned trials have not run and have none.")


def _beside(run: Path, suffix: str) -> Path:
    """A place beside the run, named after it."""
    path = run.resolve()
    return path.with_name(path.name + suffix)


def _give(data: bytes, out: Path | None) -> None:
    import sys

    from diagnose_bench.files import write_atomic

    if out is None:
        with result():
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
    else:
        write_atomic(out, data)
        say(f"Written: {out}")
