"""``shell``: the very sandbox an agent gets, for a person or for one command.

Its exit code is the command's own, so every failure of ours has a code that no other command uses here.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from diagnose_bench.commands.common import (
    EXIT_SHELL_FAILURE,
    SuiteOption,
    is_usage_error,
    leave,
    message_of,
    result,
    say,
)
from diagnose_bench.errors import UsageError
from diagnose_bench.layout import BUNDLED_SUITE, truth_folder_of

_EXIT_INTERRUPTED = 130
_MOST = 1_000_000


class _ShellCommand(TyperCommand):
    """Any failure of ours, also a wrong option, has the exit code of its own."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        try:
            return super().make_context(*args, **options)
        except Exception as error:
            if is_usage_error(error):
                error.exit_code = EXIT_SHELL_FAILURE  # type: ignore[attr-defined]
            raise

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt as error:
            say("diagnose-bench: interrupted.")
            raise typer.Exit(_EXIT_INTERRUPTED) from error
        except Exception as error:
            say(f"diagnose-bench: {message_of(error)}")
            raise typer.Exit(EXIT_SHELL_FAILURE) from error


def add_to(app: typer.Typer) -> None:
    """Register the command of this module."""
    app.command(cls=_ShellCommand, short_help="Open the sandbox an agent gets.")(shell)


@dataclass(frozen=True)
class _Evidence:
    """The snapshot that is shown, what must not be shown, and what no command may write into."""

    snapshot: Path
    digest: str | None
    forbidden: tuple[Path, ...]
    frozen: Path


def shell(
    scenario: Annotated[
        str | None, typer.Argument(metavar="SCENARIO", help="Id or number of a scenario of the suite.")
    ] = None,
    suite: SuiteOption = BUNDLED_SUITE,
    snapshot: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Any folder, in place of a suite's scenario.")
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(
            "-c", metavar="COMMAND", help="One command, as an agent sends it; `-` reads it from stdin."
        ),
    ] = None,
    scratch: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep /scratch in this folder; it is made if missing.")
    ] = None,
    unchecked: Annotated[
        bool, typer.Option("--unchecked", help="Take a --snapshot that fails the checks (links, devices).")
    ] = False,
    sandbox: Annotated[
        str,
        typer.Option(
            metavar="auto|bwrap|landlock|docker:IMAGE|podman:IMAGE|none",
            help="How to isolate; none is no isolation.",
        ),
    ] = "auto",
    time_limit: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds for one command (default 30).")
    ] = None,
    memory_mb: Annotated[int | None, typer.Option(metavar="N", help="Memory of a command, MiB.")] = None,
    disk_mb: Annotated[int | None, typer.Option(metavar="N", help="Size of /scratch, MiB.")] = None,
    toolbox: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Show pandas and duckdb, from what `toolbox build` made."),
    ] = None,
) -> None:
    """Open the sandbox an agent gets: a terminal for a person, or one command.

    Exits with the command's own code, and with 125 for a failure of ours.

    Example: diagnose-bench shell scenario-001 -c 'ls -R /snapshot'
    """
    from diagnose_bench.sandbox.extras import Extras
    from diagnose_bench.sandbox.interactive import run_interactive
    from diagnose_bench.sandbox.limits import Limits
    from diagnose_bench.sandbox.opening import open_shell
    from diagnose_bench.toolbox.folder import load_toolbox

    for option, value in (("time-limit", time_limit), ("memory-mb", memory_mb), ("disk-mb", disk_mb)):
        if value is not None and not 0 < value <= _MOST:
            raise UsageError(f"--{option} {value:g}: give a number above 0, at most {_MOST}.")
    evidence = _evidence(scenario, suite, snapshot, unchecked)
    if scratch is not None:
        _require_apart(scratch, evidence.frozen)
    text = _read_command() if command == "-" else command
    tools = None if toolbox is None else load_toolbox(toolbox, evidence.forbidden).path
    with open_shell(
        evidence.snapshot,
        backend=sandbox,
        scratch=scratch,
        limits=Limits().adjusted(command_s=time_limit, memory_mb=memory_mb, disk_mb=disk_mb),
        unchecked=unchecked,
        digest=evidence.digest,
        forbidden=evidence.forbidden,
        extras=Extras(toolbox=tools),
    ) as opened:
        if text is None:
            leave(run_interactive(opened))
        ended = opened.run(text)
    with result():
        sys.stdout.buffer.write(ended.shown)
    leave(ended.exit_code)


def _read_command() -> str:
    """What stdin holds; one byte too many is enough to see that it is too long."""
    from diagnose_bench.sandbox.limits import MAX_COMMAND_BYTES

    return os.fsdecode(sys.stdin.buffer.read(MAX_COMMAND_BYTES + 1))


def _evidence(scenario: str | None, suite: str, snapshot: Path | None, unchecked: bool) -> _Evidence:
    if (scenario is None) == (snapshot is None):
        raise UsageError("Give either the id of a scenario or --snapshot DIR.")
    if snapshot is not None:
        if not snapshot.is_dir():
            raise UsageError(f"{snapshot}: no folder is there. Give --snapshot the folder of a snapshot.")
        return _Evidence(snapshot, None, (), snapshot)
    if unchecked:
        raise UsageError("--unchecked goes with --snapshot: a suite's scenario is always checked.")
    from diagnose_bench.suite import load_suite, verify_scenario

    loaded = load_suite(suite)
    chosen = loaded.scenario(str(scenario))
    verify_scenario(chosen, say)
    truths = truth_folder_of(loaded.path)
    return _Evidence(loaded.path / chosen.id, chosen.digest, (truths,), loaded.path)


def _require_apart(scratch: Path, frozen: Path) -> None:
    writable, kept = scratch.resolve(), frozen.resolve()
    if writable.is_relative_to(kept) or kept.is_relative_to(writable):
        raise UsageError(
            f"--scratch {scratch}: commands could write into {frozen}. Give an empty folder of its own."
        )
