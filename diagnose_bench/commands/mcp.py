"""``mcp``: one scenario as an MCP server, for trying it by hand with any client. Scores nothing.

Over standard streams stdout belongs to the protocol, so what was handed in is said on stderr.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from diagnose_bench.commands.common import SuiteOption, say, show
from diagnose_bench.errors import UsageError
from diagnose_bench.layout import BUNDLED_SUITE, truth_folder_of
from diagnose_bench.redaction import Redactor

if TYPE_CHECKING:
    from diagnose_bench.trial_session import Session

_LAST_PORT = 65535
STDIO_VARIABLE = "DIAGNOSE_BENCH_MCP_STDIO"


class Transport(StrEnum):
    """How a client reaches the server."""

    STDIO = "stdio"
    HTTP = "http"


def add_to(app: typer.Typer) -> None:
    """Register the command of this module."""
    app.command(short_help="Serve a scenario to any MCP client.")(mcp)


def mcp(
    scenario: Annotated[
        str | None, typer.Argument(metavar="SCENARIO", help="Id or number of a scenario of the suite.")
    ] = None,
    trial: Annotated[
        bool,
        typer.Option(
            "--trial",
            help="Serve the trial that this program was started for, on standard streams, in place of a "
            "SCENARIO; for clients that start their servers by a command line.",
        ),
    ] = False,
    suite: SuiteOption = BUNDLED_SUITE,
    transport: Annotated[
        Transport, typer.Option(help="Standard streams, or streamable HTTP on loopback with a token.")
    ] = Transport.STDIO,
    port: Annotated[int, typer.Option(metavar="N", help="Port for http; 0 takes a free one.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the diagnosis there in place of printing it.")
    ] = None,
    max_turns: Annotated[int, typer.Option(metavar="N", help="Shell calls.")] = 100,
    time_limit: Annotated[float, typer.Option(metavar="S", help="Seconds until the end.")] = 1800.0,
    sandbox: Annotated[
        str,
        typer.Option(
            metavar="auto|bwrap|landlock|docker:IMAGE|podman:IMAGE|none",
            help="How to isolate; none is no isolation.",
        ),
    ] = "auto",
) -> None:
    """Serve one scenario to an MCP client: the sandbox of an agent as tools, without a score.

    Ends when the client leaves (stdio), or with the diagnosis, the time limit or Ctrl-C (http). In a run,
    `run --agent "mcp-client: COMMAND"` starts a server for each trial.

    Example: diagnose-bench mcp scenario-001 --transport http
    """
    if trial:
        _serve_running_trial(scenario)
    if scenario is None:
        raise UsageError("mcp: name a SCENARIO of the suite, or inside of a trial give --trial.")
    from diagnose_bench.agents.mcp_client import require_mcp
    from diagnose_bench.records import PlannedTrial
    from diagnose_bench.run import RunOptions
    from diagnose_bench.sandbox.limits import Limits
    from diagnose_bench.sandbox.opening import open_shell
    from diagnose_bench.store import CommandLog
    from diagnose_bench.suite import load_suite, verify_scenario
    from diagnose_bench.task import render_task
    from diagnose_bench.trial_session import Session, TrialLimits

    if not 0 <= port <= _LAST_PORT:
        raise UsageError(f"--port {port}: give a number from 0 to {_LAST_PORT}.")
    if out is not None and not out.absolute().parent.is_dir():
        raise UsageError(f"--out {out}: there is no folder {out.absolute().parent}.")
    RunOptions(max_turns=max_turns, time_limit_s=time_limit, sandbox=sandbox)
    require_mcp()
    loaded = load_suite(suite)
    chosen = loaded.scenario(scenario)
    window = verify_scenario(chosen, say).window
    limits = Limits()
    task = render_task(
        detected_at=str(window.detected_at),
        window_start=str(window.start),
        window_end=str(window.end),
        max_turns=max_turns,
        time_limit_s=time_limit,
        command_s=limits.command_s,
        max_command_s=limits.max_command_s,
    )
    with (
        _ending_as_interrupt(),
        tempfile.TemporaryDirectory(prefix="diagnose-bench-mcp-") as folder,
        CommandLog(Path(folder) / "commands.jsonl", Redactor.of_environment(os.environ)) as log,
        open_shell(
            loaded.path / chosen.id,
            backend=sandbox,
            digest=chosen.digest,
            limits=limits,
            forbidden=(truth_folder_of(loaded.path),),
        ) as opened,
    ):
        session = Session(
            PlannedTrial(scenario_id=chosen.id, repeat=1),
            task=task,
            limits=TrialLimits(max_turns, time_limit),
            log=log,
            log_folder=Path(folder),
        )
        session.attach(opened)
        session.start_clock()
        try:
            _serve(session, transport, port)
        finally:
            session.close()
        if session.fault is not None:
            raise session.fault
    _hand_over(session.submission, out, transport)


@contextlib.contextmanager
def _ending_as_interrupt() -> Iterator[None]:
    """SIGTERM cleans up as Ctrl-C does: clients end servers with it."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _serve_running_trial(scenario: str | None) -> NoReturn:
    """Become the bridge to the server of the trial that started the caller; nothing else is opened."""
    if scenario is not None:
        raise UsageError(f"mcp {scenario} --trial: a trial has one scenario. Leave {scenario} out.")
    bridge = os.environ.get(STDIO_VARIABLE)
    if not bridge:
        raise UsageError(
            f"mcp --trial: {STDIO_VARIABLE} is not set, so no trial started this program. "
            "It is set for what \"run --agent 'mcp-client: COMMAND'\" starts."
        )
    try:
        os.execv(bridge, [bridge])
    except OSError as error:
        raise UsageError(f"mcp --trial: {bridge}: {error.strerror}. The trial may be over.") from error


def _serve(session: Session, transport: Transport, port: int) -> None:
    from diagnose_bench.agents.mcp_client import mcp_json
    from diagnose_bench.agents.mcp_http import McpHttpServer
    from diagnose_bench.agents.mcp_stdio import serve_stdio

    if transport is Transport.STDIO:
        serve_stdio(session)
        return
    with McpHttpServer(session, port=port) as server, contextlib.suppress(KeyboardInterrupt):
        say(f"Serving at {server.url}. In the configuration of a client:")
        say(json.dumps(mcp_json(server.url, server.token), indent=2))
        while not session.wait_over(1.0):
            pass


def _hand_over(diagnosis: bytes | None, out: Path | None, transport: Transport) -> None:
    from diagnose_bench.files import write_atomic

    if diagnosis is None:
        say("No diagnosis was handed in.")
    elif out is not None:
        write_atomic(out, diagnosis)
        say(f"The diagnosis: {out}")
    else:
        tell = say if transport is Transport.STDIO else show
        tell(diagnosis.decode("utf-8", "replace"))
