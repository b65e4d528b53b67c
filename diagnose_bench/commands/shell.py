"""``shell``: the very sandbox an agent gets, for a person or for one command."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from diagnose_bench.commands.common import EXIT_SHELL_FAILURE, SuiteOption, leave, say
from diagnose_bench.errors import DiagnoseBenchError, UsageError
from diagnose_bench.layout import BUNDLED_SUITE, truth_folder_of


def add_to(app: typer.Typer) -> None:
    """Register the command of this module."""
    app.command()(shell)


@dataclass(frozen=True)
class _Evidence:
    """The snapshot that is shown, and what must not be."""

    snapshot: Path
    digest: str | None
    forbidden: tuple[Path, ...]


def shell(
    scenario: Annotated[str | None, typer.Argument(help="Id of a scenario of the suite.")] = None,
    suite: SuiteOption = BUNDLED_SUITE,
    snapshot: Annotated[
        Path | None, typer.Option(help="Any snapshot folder, in place of a suite's scenario.")
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(
            "-c", metavar="COMMAND", help="One command, as an agent sends it; `-` reads it from stdin."
        ),
    ] = None,
    scratch: Annotated[Path | None, typer.Option(help="Keep /scratch in this folder.")] = None,
    unchecked: Annotated[
        bool, typer.Option("--unchecked", help="Take a --snapshot that fails the checks (links, devices).")
    ] = False,
    sandbox: Annotated[
        str, typer.Option(help="auto, bwrap, landlock, docker:IMAGE, podman:IMAGE, or none (no isolation).")
    ] = "auto",
    time_limit: Annotated[float | None, typer.Option(help="Seconds for one command (default 30).")] = None,
    memory_mb: Annotated[int | None, typer.Option(help="Memory of a command, MiB.")] = None,
    disk_mb: Annotated[int | None, typer.Option(help="Size of /scratch, MiB.")] = None,
) -> None:
    """Open the sandbox an agent gets: a terminal for a person, or one command.

    Exits with the command's own code, and with 125 for a failure of ours.

    Example: diagnose-bench shell scenario-001 -c 'head -3 /snapshot/events.jsonl'
    """
    try:
        evidence = _evidence(scenario, suite, snapshot, unchecked)
        text = sys.stdin.read() if command == "-" else command
        code = _open_and_run(evidence, text, sandbox, scratch, unchecked, time_limit, memory_mb, disk_mb)
    except (DiagnoseBenchError, OSError, UnicodeDecodeError) as error:
        say(f"diagnose-bench: {error}")
        leave(EXIT_SHELL_FAILURE)
    leave(code)


def _evidence(scenario: str | None, suite: str, snapshot: Path | None, unchecked: bool) -> _Evidence:
    if (scenario is None) == (snapshot is None):
        raise UsageError("Give either the id of a scenario or --snapshot DIR.")
    if snapshot is not None:
        if not snapshot.is_dir():
            raise UsageError(f"{snapshot}: no folder is there. Give --snapshot the folder of a snapshot.")
        return _Evidence(snapshot, None, ())
    if unchecked:
        raise UsageError("--unchecked goes with --snapshot: a suite's scenario is always checked.")
    from diagnose_bench.suite import load_suite, verify_scenario

    loaded = load_suite(suite)
    chosen = loaded.scenario(str(scenario))
    if chosen.snapshot is None:
        raise UsageError(f"{loaded.path}: {chosen.id} has no snapshot; the suite holds truths alone.")
    verify_scenario(chosen, say)
    return _Evidence(chosen.snapshot, chosen.digest, (truth_folder_of(loaded.path),))


def _open_and_run(
    evidence: _Evidence,
    command: str | None,
    backend: str,
    scratch: Path | None,
    unchecked: bool,
    time_limit: float | None,
    memory_mb: int | None,
    disk_mb: int | None,
) -> int:
    from diagnose_bench.sandbox.interactive import run_interactive
    from diagnose_bench.sandbox.limits import Limits
    from diagnose_bench.sandbox.opening import open_sandbox
    from diagnose_bench.sandbox.store import SnapshotStore
    from diagnose_bench.sandbox.user import dropped_id

    limits = Limits().adjusted(command_s=time_limit, memory_mb=memory_mb, disk_mb=disk_mb)
    with SnapshotStore(uid=dropped_id()) as store:
        staged = store.stage(evidence.snapshot, evidence.digest, unchecked=unchecked)
        with open_sandbox(
            backend, staged, scratch=scratch, limits=limits, forbidden=evidence.forbidden
        ) as opened:
            if command is None:
                return run_interactive(opened)
            result = opened.run(command)
    sys.stdout.buffer.write(result.shown)
    sys.stdout.buffer.flush()
    return result.exit_code
