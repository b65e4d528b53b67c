"""A client program of MCP as an agent: started as any program is, with the address of its trial's server.

For agents that bring their own loop. The server is there twice, over HTTP on loopback and through a bridge
over standard streams; both lead to the one session.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diagnose_bench.agents.base import TrialSession
from diagnose_bench.agents.command import CommandAgent, parse_command_line
from diagnose_bench.agents.socket_server import TrialServer, write_private
from diagnose_bench.errors import UsageError

if TYPE_CHECKING:
    from types import ModuleType

SERVER_NAME = "diagnose-bench"


def make_mcp_client_agent(command: str, name: str | None) -> McpClientAgent:
    """Make the agent of ``mcp-client: COMMAND``.

    Raises
    ------
    UsageError
        The command names nothing that can be started, or the extra ``[mcp]`` is not installed.
    """
    require_mcp()
    return McpClientAgent(parse_command_line(command.strip()), name=name or f"mcp-client: {command.strip()}")


def require_mcp() -> None:
    """Say what to install where the SDK is missing.

    Raises
    ------
    UsageError
        It is.
    """
    try:
        _modules()
    except ImportError as error:
        raise UsageError(
            f"MCP needs the `mcp` SDK, version 2.3 or newer ({error}). "
            f"Install it: {sys.executable} -m pip install 'mcp>=2.3'."
        ) from error


class McpClientAgent(CommandAgent):
    """A client program of MCP, in any language.

    Notes
    -----
    In its environment, beside SHELL and SUBMIT: ``DIAGNOSE_BENCH_MCP_URL`` and ``DIAGNOSE_BENCH_MCP_TOKEN``
    of the HTTP server, ``DIAGNOSE_BENCH_MCP_CONFIG``, the path of an ``mcp.json`` that names it, and
    ``DIAGNOSE_BENCH_MCP_STDIO``, the path of a program that is the server over standard streams.
    """

    @contextmanager
    def _channels(
        self, session: TrialSession, tools: Path, marker: str
    ) -> Iterator[tuple[TrialServer, dict[str, str]]]:
        server_module, http_module = _modules()
        converse = partial(server_module.serve_streams, session)
        with (
            http_module.McpHttpServer(session) as http,
            TrialServer(tools, session, marker=marker, converse=converse) as server,
        ):
            config = tools / "mcp.json"
            write_private(config, json.dumps(mcp_json(http.url, http.token), indent=2) + "\n")
            yield (
                server,
                {
                    "DIAGNOSE_BENCH_MCP_URL": http.url,
                    "DIAGNOSE_BENCH_MCP_TOKEN": http.token,
                    "DIAGNOSE_BENCH_MCP_CONFIG": str(config),
                    "DIAGNOSE_BENCH_MCP_STDIO": str(server.bridge),
                },
            )


def mcp_json(url: str, token: str) -> dict[str, Any]:
    """The configuration that most clients read, with the HTTP server in it."""
    entry = {"type": "http", "url": url, "headers": {"Authorization": f"Bearer {token}"}}
    return {"mcpServers": {SERVER_NAME: entry}}


def _modules() -> tuple[ModuleType, ModuleType]:
    from diagnose_bench.agents import mcp_http, mcp_server

    return mcp_server, mcp_http
