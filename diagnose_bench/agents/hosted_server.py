"""The listener that hosted agents call: one for a run, a path and a token for each trial. Trusts nothing.

Bounded in everything: connections, sizes, the seconds that a request may take to arrive. What a call means is
`hosted_trial`'s.
"""

from __future__ import annotations

import contextlib
import io
import json
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from diagnose_bench.agents.hosted_trial import MAX_COMMAND, MAX_SUBMISSION, HostedTrial
from diagnose_bench.agents.openapi import openapi_document
from diagnose_bench.errors import UsageError

MAX_CONNECTIONS = 64
REQUEST_S = 30.0
"""Seconds until a request must have arrived whole, and until an answer must have been taken."""
_DRAINED = 8 << 20
_METHODS = {"task": "GET", "run_command": "POST", "submit": "POST"}
_LIMITS = {"task": 0, "run_command": MAX_COMMAND, "submit": MAX_SUBMISSION}


class HostedServer:
    """Takes the calls of hosted agents until it is closed.

    Parameters
    ----------
    host, port
        Where to listen; port 0 takes a free one.
    public_url : str or None
        How agents reach it; None: at ``host``, or on loopback where that means every address.

    Raises
    ------
    UsageError
        It cannot listen there.
    """

    def __init__(self, host: str, port: int, public_url: str | None) -> None:
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            self._server = _Listener(self, (host, port), family)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(
                f"--listen {host}:{port}: {reason}. Give another address; port 0 takes one that is free."
            ) from error
        own = "127.0.0.1" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
        self.public_url = public_url or f"http://{own}:{self._server.server_address[1]}"
        self.document = json.dumps(openapi_document(self.public_url)).encode()
        self._trials: dict[str, HostedTrial] = {}
        self._thread = threading.Thread(target=self._server.serve_forever, name="hosted", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._server.server_address[1])

    @contextlib.contextmanager
    def serving(self, trial: HostedTrial) -> Iterator[str]:
        """Take calls for one trial; yields its address. Afterwards they are told that it is over."""
        name = secrets.token_hex(8)
        self._trials[name] = trial
        try:
            yield f"{self.public_url}/trials/{name}"
        finally:
            trial.end()

    def trial(self, name: str, authorization: str) -> HostedTrial | None:
        """The trial of a path, if the header has its token."""
        trial = self._trials.get(name)
        # Compared in any case, so that the time does not tell which trials there are.
        expected = f"Bearer {trial.token if trial else secrets.token_urlsafe(24)}"
        is_right = secrets.compare_digest(authorization.encode("utf-8", "replace"), expected.encode())
        return trial if is_right else None

    def close(self) -> None:
        """Listen no more and cut off whoever still calls."""
        self._server.shutdown()
        self._thread.join()
        self._server.cut()
        self._server.server_close()


class _Listener(ThreadingHTTPServer):
    """A bounded number of connections, each in a thread of its own."""

    daemon_threads = True
    request_queue_size = MAX_CONNECTIONS

    def __init__(self, hosted: HostedServer, address: tuple[str, int], family: socket.AddressFamily) -> None:
        self.address_family = family
        self.hosted = hosted
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            is_full = len(self._open) >= MAX_CONNECTIONS
            if not is_full:
                self._open.add(request)
        if not is_full:
            super().process_request(request, client_address)
            return
        with contextlib.suppress(OSError):
            request.setblocking(False)
            request.send(
                b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )
        self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def cut(self) -> None:
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that goes away or sends nonsense concerns nobody else."""


class _Arriving(io.RawIOBase):
    """Bytes of a connection, until a moment that is set anew for each request."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.until = 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # So that nonsense, too, is answered with a status.
    default_request_version = "HTTP/1.0"
    server: _Listener

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self._arriving = _Arriving(self.connection)
        self.rfile = io.BufferedReader(self._arriving)

    def handle_one_request(self) -> None:
        self._arriving.until = time.monotonic() + REQUEST_S
        with contextlib.suppress(OSError):
            super().handle_one_request()
            return
        self.close_connection = True

    def version_string(self) -> str:
        return "diagnose-bench"

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what the library refuses in the form of all other answers."""
        self._fail(code, message or "This is no request that can be answered.")

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._handle("GET")

    def do_POST(self) -> None:
        self._handle("POST")

    def _handle(self, method: str) -> None:
        path = self.path.partition("?")[0]
        if path == "/openapi.json":
            self._send(200, self.server.hosted.document) if method == "GET" else self._fail(405, "Use GET.")
            return
        _, _, rest = path.partition("/trials/")
        name, _, what = rest.partition("/")
        trial = self.server.hosted.trial(name, self.headers.get("Authorization") or "")
        if trial is None:
            self._fail(401, "No trial has this address and token: Authorization: Bearer TOKEN.")
        elif what not in _METHODS:
            self._fail(404, f"There is {', '.join(_METHODS)}; see /openapi.json.")
        elif method != _METHODS[what]:
            self._fail(405, f"Use {_METHODS[what]}.")
        else:
            body = self._body(_LIMITS[what], cuts=what == "submit")
            if body is not None:
                trial.requests[what] += 1
                status, value = trial.answer(what, body)
                self._send(status, json.dumps(value).encode())

    def _body(self, limit: int, *, cuts: bool) -> bytes | None:
        """The body; None if the caller was told that there cannot be one. What is cut stays recognisable."""
        length = self.headers.get("Content-Length") or "0"
        if self.headers.get("Transfer-Encoding") is not None:
            self._fail(411, "Send the body with Content-Length.")
            return None
        if not (length.isascii() and length.isdecimal()) or len(length) > 15:
            self._fail(400, "Content-Length is no number.")
            return None
        wanted = int(length)
        body = self.rfile.read(min(wanted, limit)) or b""
        if wanted <= limit:
            if len(body) < wanted:
                raise TimeoutError
            return body
        # Taken in for a while, as a caller that still sends would not read the answer.
        self.close_connection = True
        left = min(wanted - len(body), _DRAINED)
        while left > 0 and (data := self.rfile.read1(min(left, 1 << 16))):
            left -= len(data)
        if cuts:
            return body
        self._fail(413, f"The body has {wanted} bytes; at most {limit} are taken.")
        return None

    def _fail(self, status: int, message: str) -> None:
        # A body that was not read would be taken for the next request.
        self.close_connection = True
        self._send(status, json.dumps({"error": message}).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.connection.settimeout(REQUEST_S)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
