"""``transcript``: one trial as a time line, for a person."""

from __future__ import annotations

from typing import Annotated

import typer

from diagnose_bench.commands.common import Format, FormatOption, TruthOption, print_json, show
from diagnose_bench.commands.reporting import OptionalSuiteOption, RunArgument


def add_to(app: typer.Typer) -> None:
    """Register the command of this module."""
    app.command(short_help="Show one trial as a time line.")(transcript)


def transcript(
    run: RunArgument,
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="A scenario's id or number.")],
    repeat: Annotated[int, typer.Argument(metavar="REPEAT", help="The repeat, from 1.")],
    suite: OptionalSuiteOption = None,
    truth: TruthOption = None,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Show one trial as a time line: its commands, which objects each revealed, and the answer.

    Where the truths are at hand it says when a root cause was first in sight and when it was named.

    Example: diagnose-bench transcript runs/my-agent scenario-001 1
    """
    from diagnose_bench.transcript import transcript_of
    from diagnose_bench.transcript_text import transcript_text

    found = transcript_of(run, scenario, repeat, suite=suite, truth=truth)
    if format_ is Format.JSON:
        print_json(found.to_dict())
    else:
        show(transcript_text(found).removesuffix("\n"))
