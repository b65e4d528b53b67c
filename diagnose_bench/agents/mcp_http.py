"""Streamable HTTP for the MCP server of one trial: loopback only, a bearer token, Host and Origin checked.

Knows sockets, threads and headers; what a call means is `mcp_server`'s. Imported only where the extra
``[mcp]`` is asked for.
"""

from __future__ import annotations

import secrets
import socket
import threading
from types import TracebackType
from typing import Any

import uvicorn
from starlette.responses import PlainTextResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from diagnose_bench.agents.base import TrialSession
from diagnose_bench.agents.mcp_server import MAX_MESSAGE, build_server
from diagnose_bench.errors import SandboxError, UsageError

HOST = "127.0.0.1"
_MAX_CONNECTIONS = 64
_MAX_REQUESTS = 64
"""At the same time, of those who have the token: a stranger must not be able to shut them out."""
_MAX_WAITING = 256
_HEADER_S = 2.0
"""What a connection gets to send its first header."""
_MOMENT_S = 0.01
_LAST_WORDS_S = 2
"""What an answer that is on its way gets once the server ends."""


class McpHttpServer:
    """The HTTP server of one trial, in a thread of its own.

    Parameters
    ----------
    session : TrialSession
        What the calls go to.
    port : int
        0 takes a free one.

    Raises
    ------
    UsageError
        The port is in use or may not be used.
    """

    def __init__(self, session: TrialSession, *, port: int = 0) -> None:
        self.token = secrets.token_urlsafe(24)
        self._socket = _listen(port)
        self.url = f"http://{HOST}:{self._socket.getsockname()[1]}/mcp"
        app = build_server(session).streamable_http_app(max_request_body_size=MAX_MESSAGE, host=HOST)
        config = uvicorn.Config(
            _Guarded(app, self.token),
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            ws="none",
            lifespan="on",
            http=_Impatient,
            timeout_graceful_shutdown=_LAST_WORDS_S,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="mcp-http", daemon=True
        )

    def __enter__(self) -> McpHttpServer:
        self._thread.start()
        while not self._server.started:
            self._thread.join(_MOMENT_S)
            if not self._thread.is_alive():
                self._socket.close()
                raise SandboxError("The MCP server of the trial could not be started.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take no more calls; the session must be closed by now, or a call that runs holds this up."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(_MAX_CONNECTIONS)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{HOST}:{port}: {reason}. Give another port; 0 takes one that is free.") from error
    return listener


class _Impatient(H11Protocol):
    """Hangs up on connections that ask for nothing; of very many that wait, on the one that waits longest."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._since = self.loop.time()
        self._patience = self.loop.call_later(_HEADER_S, self._hang_up)
        own: list[_Impatient] = [one for one in self.connections if isinstance(one, _Impatient)]
        waiting = [one for one in own if one.scope is None]
        if len(waiting) > _MAX_WAITING:
            min(waiting, key=lambda one: one._since)._hang_up()

    def connection_lost(self, exc: Exception | None) -> None:
        self._patience.cancel()
        super().connection_lost(exc)

    def _hang_up(self) -> None:
        if self.scope is None:
            self.transport.abort()


class _Guarded:
    """Lets requests through that carry the token, and nobody else's."""

    def __init__(self, app: Any, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()
        self._n_requests = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            if not secrets.compare_digest(given, self._expected):
                answer = PlainTextResponse(
                    "This server takes the token of its trial: Authorization: Bearer TOKEN.\n",
                    status_code=401,
                    headers={"WWW-Authenticate": "Bearer", "Connection": "close"},
                )
                await answer(scope, receive, send)
                return
            if self._n_requests >= _MAX_REQUESTS:
                answer = PlainTextResponse("Too many requests at the same time.\n", status_code=503)
                await answer(scope, receive, send)
                return
        self._n_requests += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._n_requests -= 1
