"""Standard input and output as the streams of the MCP server, for one client that started this process.

Ends when the client leaves or with Ctrl-C or SIGTERM, as a read of standard input cannot be broken off. What
anything else prints meanwhile goes to stderr: stdout belongs to the protocol.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

from diagnose_bench.agents.base import TrialSession
from diagnose_bench.agents.mcp_server import serve_streams

_ENDING = (signal.SIGINT, signal.SIGTERM)


def serve_stdio(session: TrialSession) -> None:
    """Serve one client until it closes its end; only in the main thread."""
    received, sent = os.pipe()
    source = _Source(sent)
    with (
        # A client that is gone takes no answer; what it handed in is kept.
        contextlib.suppress(BrokenPipeError),
        _own_stdout() as out,
        os.fdopen(received, "rb") as reader,
        os.fdopen(out, "wb") as writer,
        _ended_by_signals(source),
    ):
        # A daemon: it may wait for a client that never writes again.
        threading.Thread(target=source.carry, name="mcp-stdin", daemon=True).start()
        try:
            serve_streams(session, reader, writer)
        finally:
            source.end()


class _Source:
    """Carries standard input into a pipe, whose end can come earlier."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        # Reentrant, as a signal may come while it is held.
        self._lock = threading.RLock()
        self._has_ended = False

    def carry(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(0, 1 << 16):
                # A copy, as the other one may be closed meanwhile; the kernel ends a write that nobody reads.
                with self._lock:
                    if self._has_ended:
                        return
                    copy = os.dup(self._descriptor)
                with open(copy, "wb", buffering=0) as pipe:
                    rest = memoryview(data)
                    while rest:
                        rest = rest[pipe.write(rest) :]
        self.end()

    def end(self) -> None:
        with self._lock:
            if not self._has_ended:
                self._has_ended = True
                os.close(self._descriptor)


@contextlib.contextmanager
def _own_stdout() -> Iterator[int]:
    """Standard output for the protocol alone."""
    sys.stdout.flush()
    wire = os.dup(1)
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield wire
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


@contextlib.contextmanager
def _ended_by_signals(source: _Source) -> Iterator[None]:
    def end(number: int, frame: Any) -> None:
        source.end()

    before = {number: signal.signal(number, end) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
