"""The per-trial socket behind SHELL, SUBMIT and the MCP bridge: carries calls to the session and back.

It trusts nothing that comes in: a token, bounded sizes, a bounded number of callers; one that goes away or
stays silent holds up nobody. It knows no sandbox and decides nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shlex
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from diagnose_bench.agents.base import TrialOver, TrialSession, is_seconds

NOT_RUN = 125
_MAX_HEADER = 4096
_MAX_BODY = {"shell": (1 << 20) + 1, "submit": (16 << 20) + 1, "mcp": 0}
"""More than a diagnosis may have, so that one that is too large is known by its true size."""
_SMALL_BODY = (1 << 20) + 1
_MAX_CALLERS = 32
_SILENCE_S = 30.0
_MOMENT_S = 0.05
_CLIENT = Path(__file__).parent.parent / "templates" / "trial_client.py"


class TrialServer:
    """SHELL and SUBMIT of one trial, in a folder of its own.

    Parameters
    ----------
    folder : Path
        An existing private folder; the executables, the token and the socket are put there.
    session : TrialSession
        What the calls go to.
    marker : str
        A ``NAME=value`` in the environment of the agent and of nobody else; the value cannot be guessed.
    converse : callable, optional
        Serves a connection of the bridge, which it reads and writes until its end.
    """

    def __init__(
        self,
        folder: Path,
        session: TrialSession,
        *,
        marker: str,
        converse: Callable[[IO[bytes], IO[bytes]], None] | None = None,
    ) -> None:
        self.shell = folder / "shell"
        self.submit = folder / "submit"
        self.bridge = folder / "mcp"
        self._converse = converse
        self._folder = folder
        self._session = session
        self._token = secrets.token_hex(16)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._threads: set[threading.Thread] = set()
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._large = threading.Lock()
        self._closing = False
        self._marker = marker
        self._agent: int | None = None
        self._agent_known = threading.Event()
        self._accepting = threading.Thread(target=self._accept, name="trial-socket", daemon=True)

    def __enter__(self) -> TrialServer:
        client = self._folder / "trial_client.py"
        client.write_bytes(_CLIENT.read_bytes())
        write_private(self._folder / "token", self._token)
        programs = [self.shell, self.submit, *([self.bridge] if self._converse else [])]
        for path in programs:
            call = shlex.join([sys.executable, "-I", "-S", str(client), path.name])
            path.write_text(f'#!/bin/sh\nexec {call} "$@"\n')
            path.chmod(0o700)
        # Through the folder's descriptor, as the path of a socket may have no more than 107 bytes.
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._listener.bind(f"/proc/self/fd/{descriptor}/socket")
        finally:
            os.close(descriptor)
        (self._folder / "socket").chmod(0o600)
        self._listener.listen(_MAX_CALLERS)
        self._accepting.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take no more calls, cut off those who still wait, and end a command that still runs."""
        self._session.close()
        with self._lock:
            self._closing = True
            connections, threads = list(self._connections), list(self._threads)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in [self._accepting, *threads]:
            thread.join()

    def expect(self, pid: int) -> None:
        """Take calls from this process and its descendants; before, nobody is answered."""
        self._agent = pid
        self._agent_known.set()

    def _is_agent(self, connection: socket.socket) -> bool:
        """Whether the kernel says that the caller is the agent: its user, and it or something it started.

        Notes
        -----
        What has lost its parents is known by its environment.
        """
        size = struct.calcsize("3i")
        pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
        if uid != os.geteuid() or not self._agent_known.wait(_SILENCE_S):
            return False
        return descends_from(pid, self._agent or 0) or _carries(pid, self._marker)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._closing:
                    return
                # Where no descriptor is left the caller stays in the queue: ask again, but not at once.
                time.sleep(_MOMENT_S)
                continue
            with self._lock:
                if self._closing or len(self._threads) >= _MAX_CALLERS:
                    connection.close()
                    continue
                thread = threading.Thread(
                    target=self._serve, args=(connection,), name="trial-call", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError:
                    # No thread is left for its user: this caller goes unanswered, a later one may not.
                    connection.close()
                    continue
                self._threads.add(thread)
                self._connections.add(connection)

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.settimeout(_SILENCE_S)
            # A caller that goes away or sends nonsense concerns nobody else.
            with (
                contextlib.suppress(OSError, ValueError, RecursionError),
                connection.makefile("rb") as stream,
            ):
                if not self._is_agent(connection):
                    return
                header = _read_header(stream.readline(_MAX_HEADER), self._token)
                if header["kind"] == "mcp":
                    self._talk(connection, stream)
                    return
                # Large ones one at a time, as each is held in memory.
                with self._large if header["n_bytes"] > _SMALL_BODY else contextlib.nullcontext():
                    body = stream.read(header["n_bytes"])
                    if len(body) != header["n_bytes"]:
                        return
                    reply, data = self._answer(header, body)
                reply["n_bytes"] = len(data)
                connection.sendall(json.dumps(reply).encode() + b"\n" + data)
        finally:
            with self._lock:
                connection.close()
                self._connections.discard(connection)
                self._threads.discard(threading.current_thread())

    def _talk(self, connection: socket.socket, stream: IO[bytes]) -> None:
        """Leave a connection to the MCP server until one side closes it; it may be silent for long."""
        if self._converse is None:
            return
        connection.settimeout(None)
        with connection.makefile("wb") as writer:
            writer.write(b'{"n_bytes": 0}\n')
            writer.flush()
            self._converse(stream, writer)

    def _answer(self, header: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        if header["kind"] == "submit":
            answer = self._session.submit(body)
            return {"exit_code": 0 if answer.accepted else 1}, answer.message.encode("utf-8", "replace")
        try:
            command = body.decode("utf-8", "surrogateescape")
            reply = self._session.run_command(command, header.get("timeout_s"))
        except TrialOver as over:
            return {"exit_code": NOT_RUN, "notice": ""}, f"{over}\n".encode()
        return {"exit_code": reply.exit_code, "notice": reply.notice}, reply.output


def descends_from(pid: int, ancestor: int) -> bool:
    """Whether a process is another one or was started below it."""
    while pid > 1:
        if pid == ancestor:
            return True
        try:
            # The name of the program stands in brackets and may hold anything.
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return False
    return False


def _carries(pid: int, marker: str) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return os.fsencode(marker) in environment.split(b"\0")


def _read_header(line: bytes, token: str) -> dict[str, Any]:
    header = json.loads(line)
    if not isinstance(header, dict):
        raise ValueError("no call")
    # As bytes: texts are compared only where they are ASCII.
    given = str(header.get("token")).encode("utf-8", "surrogatepass")
    if not secrets.compare_digest(given, token.encode()):
        raise ValueError("no caller of this trial")
    size, timeout_s = header.get("n_bytes"), header.get("timeout_s")
    most = _MAX_BODY.get(str(header.get("kind")))
    if not isinstance(size, int) or most is None or not 0 <= size <= most:
        raise ValueError("no call")
    if timeout_s is not None and not is_seconds(timeout_s):
        raise ValueError("no time limit")
    return header


def write_private(path: Path, text: str) -> None:
    """Write a new file that only its owner can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
