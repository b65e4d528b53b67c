"""Run an agent's program to its end: bounded output, a deadline, and nothing left behind.

Knows processes and pipes; knows no protocol and decides no outcome.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

OUTPUT_KEPT = (1 << 20) + 1
"""One byte more than a diagnosis may have, so that a longer output is seen to be too long."""
_ERRORS_HEAD, _ERRORS_TAIL = 64 << 10, 256 << 10
_TERM_GRACE_S = 2.0
_DRAIN_S = 1.0
_POLL_S = 0.05


class NotStarted(Exception):
    """The program cannot be started; the message says why."""


@dataclass(frozen=True)
class ProcessEnd:
    """How a program ended.

    Attributes
    ----------
    exit_code : int
        As `subprocess` gives it (negative for a signal).
    was_stopped : bool
        Whether we stopped it, so that the exit code means nothing.
    output : bytes
        The first bytes of its standard output, at most ``OUTPUT_KEPT``.
    errors : bytes
        Head and tail of its standard error.
    """

    exit_code: int
    was_stopped: bool
    output: bytes
    errors: bytes


class _Output:
    """Keeps the first bytes of a stream."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def add(self, data: bytes) -> None:
        self._kept += data[: OUTPUT_KEPT - len(self._kept)]

    def value(self) -> bytes:
        return bytes(self._kept)


class _Errors:
    """Keeps head and tail of a stream."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._n_cut = 0

    def add(self, data: bytes) -> None:
        room = _ERRORS_HEAD - len(self._head)
        self._head += data[:room]
        self._tail += data[max(room, 0) :]
        if len(self._tail) > 2 * _ERRORS_TAIL:
            self._cut()

    def _cut(self) -> None:
        excess = max(0, len(self._tail) - _ERRORS_TAIL)
        del self._tail[:excess]
        self._n_cut += excess

    def value(self) -> bytes:
        self._cut()
        note = f"\n[{self._n_cut} bytes left out]\n".encode() if self._n_cut else b""
        return bytes(self._head) + note + bytes(self._tail)


def run_process(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    marker: str,
    must_end: Callable[[], bool],
    grace_left_s: Callable[[], float],
    stop: Callable[[subprocess.Popen[bytes]], None] | None = None,
    started: Callable[[int], None] = lambda pid: None,
) -> ProcessEnd:
    """Run a program until it ends by itself or has to end.

    Parameters
    ----------
    argv, env, cwd
        As for `subprocess.Popen`.
    marker : str
        A ``NAME=value`` of ``env`` that no other process has: what carries it is stopped at the end, also
        where it has left the process group.
    must_end : callable
        True once nothing more is taken from the program.
    grace_left_s : callable
        Once it must end: the seconds that are left for it to end by itself.
    stop : callable, optional
        Kills the program where that takes more than killing its process group.
    started : callable
        Told the process id as soon as there is one.

    Raises
    ------
    NotStarted
        It cannot be started.
    """
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    except OSError as error:
        raise NotStarted(f"{argv[0]}: {error.strerror}") from error
    started(process.pid)
    output, errors = _Output(), _Errors()
    with process, selectors.DefaultSelector() as selector:
        try:
            for pipe, sink in ((process.stdout, output), (process.stderr, errors)):
                if pipe is not None:
                    os.set_blocking(pipe.fileno(), False)
                    selector.register(pipe, selectors.EVENT_READ, sink)
            ended = _wait(process, selector, must_end, grace_left_s)
        finally:
            # Before it is reaped: afterwards the number of its group could be somebody else's.
            _signal_group(process, signal.SIGKILL) if stop is None else stop(process)
            _kill_marked(marker)
        exit_code = process.wait()
        _drain(selector)
    return ProcessEnd(exit_code, not ended, output.value(), errors.value())


def _wait(
    process: subprocess.Popen[bytes],
    selector: selectors.BaseSelector,
    must_end: Callable[[], bool],
    grace_left_s: Callable[[], float],
) -> bool:
    """Read its output until it ends; return False if it had to be stopped."""
    # Asked anew each time: the grace ends at once where the whole run is stopped.
    while not must_end() or grace_left_s() > 0.0:
        if _has_ended(process):
            return True
        _read(selector)
    _signal_group(process, signal.SIGTERM)
    deadline = time.monotonic() + _TERM_GRACE_S
    while time.monotonic() < deadline and not _has_ended(process):
        _read(selector)
    return False


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    # Not reaped yet, so that its process group cannot become somebody else's before it is killed.
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _read(selector: selectors.BaseSelector) -> bool:
    """Take in what is there, waiting a moment for it; return whether anything was."""
    if not selector.get_map():
        time.sleep(_POLL_S)
        return False
    found = False
    for key, _ in selector.select(_POLL_S):
        data = os.read(key.fd, 1 << 16)
        if data:
            key.data.add(data)
        else:
            selector.unregister(key.fileobj)
        found = True
    return found


def _drain(selector: selectors.BaseSelector) -> None:
    """Take in what the pipes still hold; whoever holds them open beyond that is not waited for."""
    deadline = time.monotonic() + _DRAIN_S
    while selector.get_map() and time.monotonic() < deadline and _read(selector):
        pass


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _kill_marked(marker: str) -> None:
    """Kill every process that carries the trial's own variable; one that forks meanwhile is met again."""
    wanted = b"\0" + os.fsencode(marker) + b"\0"
    for _ in range(10):
        found = False
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if wanted in b"\0" + Path("/proc", name, "environ").read_bytes():
                    os.kill(int(name), signal.SIGKILL)
                    found = True
        if not found:
            return
        time.sleep(0.02)
