"""The MCP server of one trial over the SDK: tools and the resource `task`, for any pair of streams.

Decides nothing: a call goes to `mcp_tools`, which goes to the session. Imported only where the extra
``[mcp]`` is asked for.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from typing import Any, Protocol, cast

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from diagnose_bench import __version__
from diagnose_bench.agents.base import TrialSession
from diagnose_bench.agents.mcp_tools import INSTRUCTIONS, TASK_URI, TOOLS, call_tool

SERVER_NAME = "diagnose-bench"
MAX_MESSAGE = 4 << 20
"""Bytes of one message of a client; a diagnosis may have a quarter of it."""
_MAX_CALLS = 32

# What the SDK logs about a client's mistakes is for the client, who is told; nobody else reads it.
logging.getLogger("mcp").addHandler(logging.NullHandler())


class ByteStream(Protocol):
    """One direction of a connection."""

    def readline(self, size: int = -1, /) -> bytes:
        """Read one line, at most so many bytes of it."""
        ...

    def write(self, data: bytes, /) -> Any:
        """Write all of it."""
        ...

    def flush(self) -> None:
        """Send what was written."""
        ...


def build_server(session: TrialSession) -> Server[Any]:
    """The server of one trial, for any number of connections at once."""

    async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
        tools = [
            types.Tool(
                name=name,
                description=tool["description"],
                input_schema=tool["schema"],
                annotations=types.ToolAnnotations(
                    read_only_hint=name == "read_file", destructive_hint=False, open_world_hint=False
                ),
            )
            for name, tool in TOOLS.items()
        ]
        return types.ListToolsResult(tools=tools)

    async def answer(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        call = functools.partial(call_tool, session, params.name, params.arguments or {})
        # A client that goes away leaves its command to its own time limit; the trial's end stops it.
        # A diagnosis that arrived is taken, though nobody waits for the answer.
        with anyio.CancelScope(shield=params.name == "submit_diagnosis"):
            result = await anyio.to_thread.run_sync(call, abandon_on_cancel=True)
        content = types.TextContent(type="text", text=result.text)
        return types.CallToolResult(content=[content], is_error=result.is_error)

    async def list_resources(context: Any, params: Any) -> types.ListResourcesResult:
        task = types.Resource(
            name="task", uri=TASK_URI, mime_type="text/markdown", description="What is asked for."
        )
        return types.ListResourcesResult(resources=[task])

    async def read_resource(
        context: Any, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        if str(params.uri) != TASK_URI:
            raise MCPError(types.INVALID_PARAMS, f"There is one resource, {TASK_URI}.")
        text = types.TextResourceContents(uri=TASK_URI, mime_type="text/markdown", text=session.task)
        return types.ReadResourceResult(contents=[text])

    return Server(
        SERVER_NAME,
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=answer,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
    )


def serve_streams(session: TrialSession, reader: ByteStream, writer: ByteStream) -> None:
    """Serve one client over two byte streams until it closes its end; needs a thread of its own."""
    anyio.run(_serve, session, _Lines(reader), _Lines(writer))


async def _serve(session: TrialSession, reader: _Lines, writer: _Lines) -> None:
    server = build_server(session)
    anyio.to_thread.current_default_thread_limiter().total_tokens = _MAX_CALLS
    streams = [cast(Any, anyio.wrap_file(cast(Any, lines))) for lines in (reader, writer)]
    async with stdio_server(*streams) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


class _Lines:
    """Lines of text over a byte stream, each bounded; one that is too long or broken off ends the stream."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    def readline(self) -> str:
        try:
            line = self._stream.readline(MAX_MESSAGE + 1)
        except (OSError, ValueError):
            return ""
        return line.decode("utf-8", "replace") if line.endswith(b"\n") else ""

    def write(self, text: str) -> None:
        # A client that reads no more may still send, its diagnosis too: only the end of that ends the stream.
        with contextlib.suppress(OSError):
            self._stream.write(text.encode("utf-8", "replace"))

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()
