"""Types at a real pseudo-terminal that a process of ours has as its own, and reads what appears there."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from pathlib import Path
from types import TracebackType

from cli_helpers import COMMAND

from diagnose_bench.sandbox.watcher import process_tree

TIME_OUT_S = 120.0
# Colours, bracketed paste and the like.
_CODES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


class Person:
    """One process with a terminal of its own, and the person in front of it.

    Parameters
    ----------
    words : str or Path
        The words after ``diagnose-bench``.
    rows, columns : int
        Size of the terminal.
    """

    def __init__(self, *words: str | Path, rows: int = 200, columns: int = 160, **options: object) -> None:
        self.keyboard, terminal = pty.openpty()
        self.resize(rows, columns)
        self.seen = b""
        self._at = 0
        self._change = threading.Condition()
        env = os.environ | {"TERM": "xterm", "INPUTRC": "/dev/null"}
        self.process = subprocess.Popen(
            # A session with this terminal: that makes Ctrl-C a signal in it.
            ["setsid", "--ctty", "--wait", *COMMAND, *map(str, words)],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=env,
            **options,  # type: ignore[call-overload]
        )
        os.close(terminal)
        self._wake, self._alarm = os.pipe()
        self._reader = threading.Thread(target=self._read)

    def __enter__(self) -> Person:
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.hang_up()
        os.close(self._wake)

    def _read(self) -> None:
        while True:
            # A read that waits would keep the terminal open although it was closed.
            ready, _, _ = select.select([self.keyboard, self._wake], [], [])
            if self._wake in ready:
                return
            try:
                data = os.read(self.keyboard, 4096)
            except OSError:
                data = b""
            with self._change:
                if not data:
                    return
                self.seen += data
                self._change.notify_all()

    def types(self, text: str) -> None:
        """Press keys."""
        os.write(self.keyboard, text.encode())

    def enters(self, line: str) -> None:
        """Type a line and press Enter."""
        self.types(line + "\r")

    def waits_for(self, pattern: str) -> str:
        """Wait until something new appears; return it and what came before it."""
        expression = re.compile(pattern.encode())
        deadline = time.monotonic() + TIME_OUT_S
        with self._change:
            while True:
                text = _CODES.sub(b"", self.seen)
                if found := expression.search(text, self._at):
                    new = text[self._at : found.end()]
                    self._at = found.end()
                    return new.decode(errors="replace")
                left = deadline - time.monotonic()
                assert left > 0, (pattern, text[self._at :].decode(errors="replace"))
                self._change.wait(min(left, 1.0))

    def waits_for_process(self, command_line: str) -> None:
        """Wait until a program runs that the person has started."""
        wanted = command_line.replace(" ", "\0").encode() + b"\0"
        deadline = time.monotonic() + TIME_OUT_S
        while not any(_command_line(pid) == wanted for pid in process_tree(self.process.pid)):
            assert time.monotonic() < deadline, command_line
            time.sleep(0.05)

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the terminal; the processes in it are told by the kernel."""
        fcntl.ioctl(self.keyboard, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def hang_up(self) -> None:
        """Close the terminal's window."""
        if self.keyboard >= 0:
            os.close(self._alarm)
            self._reader.join()
            os.close(self.keyboard)
            self.keyboard = -1

    def ends(self) -> int:
        """The exit code, once the process has ended."""
        return self.process.wait(TIME_OUT_S)

    def signals(self, number: signal.Signals) -> None:
        """Send a signal to the processes in front."""
        os.killpg(os.tcgetpgrp(self.keyboard), number)
