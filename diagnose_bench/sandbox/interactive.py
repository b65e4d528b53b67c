"""The sandbox with a terminal, for a person: the very same isolation, and bash on a pseudo-terminal of ours.

The person's own terminal never enters the sandbox; only bytes go to and fro.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import signal
import subprocess
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from diagnose_bench.errors import SandboxError
from diagnose_bench.sandbox import arguments, messages
from diagnose_bench.sandbox.base import Sandbox
from diagnose_bench.sandbox.bubblewrap import BubblewrapSandbox
from diagnose_bench.sandbox.bubblewrap_process import Started
from diagnose_bench.sandbox.landlock import LandlockSandbox
from diagnose_bench.sandbox.none import UnsandboxedShell
from diagnose_bench.sandbox.runner import RunningProcess
from diagnose_bench.sandbox.scratch import Usage
from diagnose_bench.sandbox.watcher import Watcher

_CHUNK = 1 << 16
_IDLE_S = 0.02
_SESSION_S = 24 * 3600.0
_END_OF_INPUT = b"\x04"
# A session around our terminal: that makes ctrl-C and job control work in it.
_SHELL = ["/usr/bin/setsid", "--ctty", "--wait", arguments.BASH, "--noprofile", "--norc", "-i"]


def run_interactive(sandbox: Sandbox, *, stdin: int | None = None, stdout: int | None = None) -> int:
    """Let a person work in a sandbox until the shell ends.

    Parameters
    ----------
    sandbox : Sandbox
        An open one.
    stdin, stdout : int or None
        Descriptors of the person's terminal; None takes the process's own. Pipes work too.

    Returns
    -------
    exit_code : int
        Of the shell; 137 if a limit stopped it (which is said on stdout).

    Raises
    ------
    SandboxError
        The sandbox could not be set up.
    """
    source = sys.stdin.fileno() if stdin is None else stdin
    target = sys.stdout.fileno() if stdout is None else stdout
    environment = dict(arguments.ENVIRONMENT) | {"TERM": _terminal_kind(), "PS1": r"incident:\w\$ "}
    master, slave = os.openpty()
    os.set_blocking(master, False)
    try:
        _copy_size(source, master)
        if isinstance(sandbox, BubblewrapSandbox):
            with Started(
                sandbox,
                _SHELL,
                _SESSION_S,
                environment=environment,
                stdin=slave,
                stdout=slave,
                stderr=slave,
            ) as started:
                os.close(slave)
                slave = -1
                watcher = Watcher(sandbox.limits, sandbox.scratch, Usage())
                said = _relay(
                    started.process, source, target, master, watcher, started.init_pid, started.stop
                )
                started.wait_until_gone()
                exit_code = started.exit_code()
            if exit_code is None and not said.limit_hit:
                raise SandboxError(messages.explain(said.last.decode("utf-8", "replace")))
            return 137 if exit_code is None else exit_code
        if isinstance(sandbox, LandlockSandbox):
            command = sandbox.start(
                [os.fsencode(word) for word in _SHELL],
                _SESSION_S,
                (slave, slave, slave),
                environment={"TERM": environment["TERM"], "PS1": environment["PS1"]},
            )
            os.close(slave)
            slave = -1
            said = _relay(
                command, source, target, master, sandbox.watcher(), lambda: sandbox.root_pid, command.stop
            )
            if command.is_lost and not said.limit_hit:
                raise SandboxError("No sandbox: the process that starts its commands has ended.")
            code = command.wait()
            return 137 if said.limit_hit else code if code >= 0 else 128 - code
        if isinstance(sandbox, UnsandboxedShell):
            process = subprocess.Popen(
                _SHELL,
                cwd=sandbox.scratch,
                env=sandbox.environment() | {"TERM": environment["TERM"], "PS1": environment["PS1"]},
                stdin=slave,
                stdout=slave,
                stderr=slave,
            )
            os.close(slave)
            slave = -1
            _relay(process, source, target, master)
            code = process.wait()
            return code if code >= 0 else 128 - code
        raise SandboxError(f"{sandbox.backend} has no interactive shell: give one command with -c.")
    finally:
        os.close(master)
        if slave >= 0:
            os.close(slave)


class _Said:
    """The end of what was shown, and the limit that ended the session."""

    def __init__(self) -> None:
        self.last = b""
        self.limit_hit: str | None = None


def _relay(
    process: RunningProcess,
    source: int,
    target: int,
    master: int,
    watcher: Watcher | None = None,
    root_pid: Callable[[], int | None] = lambda: None,
    stop: Callable[[], None] = lambda: None,
) -> _Said:
    """Carry bytes between the person and the shell until the shell ends."""
    said = _Said()
    waiting = b""  # read from the person, not yet taken by the shell
    is_open = True
    with _raw(source), _following_size(source, master):
        while True:
            has_ended = process.poll() is not None
            poll = select.poll()
            poll.register(master, select.POLLIN | (select.POLLOUT if waiting else 0))
            if is_open and not waiting and not has_ended:
                poll.register(source, select.POLLIN)
            events = poll.poll(0 if has_ended else 100)
            for descriptor, event in events:
                if descriptor == source:
                    waiting = os.read(source, _CHUNK)
                    is_open = bool(waiting)
                    continue
                if event & select.POLLOUT and waiting:
                    waiting = waiting[_write_some(master, waiting) :]
                if event & ~select.POLLOUT:
                    data = _read_terminal(master)
                    said.last = (said.last + data)[-2000:]
                    _write_all(target, data)
                    if data:
                        has_ended = False
                    elif not has_ended:
                        time.sleep(_IDLE_S)
            if has_ended:
                return said
            if not is_open and not waiting and not events:
                # Whatever reads now has to see the end of the input, and after it the shell.
                waiting = _END_OF_INPUT
            if watcher is not None and said.limit_hit is None:
                said.limit_hit = watcher.look(root_pid())
                if said.limit_hit is not None:
                    _write_all(target, f"\r\n[shell stopped: limit {said.limit_hit}]\r\n".encode())
                    stop()


def _write_some(master: int, data: bytes) -> int:
    try:
        return os.write(master, data)
    except BlockingIOError:
        return 0
    except OSError:  # nobody is there to read it
        return len(data)


def _read_terminal(master: int) -> bytes:
    try:
        return os.read(master, _CHUNK)
    except BlockingIOError:
        return b""
    except OSError:  # the last process has closed its end
        return b""


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


@contextmanager
def _raw(descriptor: int) -> Iterator[None]:
    """Give every key of a terminal to the shell, and put the terminal back afterwards."""
    if not os.isatty(descriptor):
        yield
        return
    before = termios.tcgetattr(descriptor)
    try:
        # Not the default, which throws away what was typed ahead.
        tty.setraw(descriptor, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextmanager
def _following_size(source: int, master: int) -> Iterator[None]:
    def resized(_signal: int, _frame: FrameType | None) -> None:
        _copy_size(source, master)

    try:
        before = signal.signal(signal.SIGWINCH, resized)
    except ValueError:  # not in the main thread: the size stays
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)


def _copy_size(source: int, master: int) -> None:
    with contextlib.suppress(OSError):
        size = fcntl.ioctl(source, termios.TIOCGWINSZ, bytes(8))
        fcntl.ioctl(master, termios.TIOCSWINSZ, size)


def _terminal_kind() -> str:
    kind = os.environ.get("TERM", "")
    known = re.fullmatch(r"[A-Za-z0-9.+_-]{1,40}", kind) and any(
        (Path(folder) / kind[0] / kind).exists() for folder in ("/usr/share/terminfo", "/usr/lib/terminfo")
    )
    return kind if known else "dumb"
