"""The harness's end of the process that starts commands under Landlock: how it is started and spoken to."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import IO, Any

from diagnose_bench import layout
from diagnose_bench.errors import SandboxError, SandboxUnavailableError
from diagnose_bench.sandbox import messages
from diagnose_bench.sandbox.cgroup import ProcessGroup

_STOP = b"stop"
_START_S = 30.0
_END_S = 5.0
_MESSAGE = 4096
_LOST = -int(signal.SIGKILL)
_MODULES = ("landlock_kernel", "removal", "landlock_root", "landlock_helper")
_PYTHONS = (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3")
"""The helper needs nothing but the standard library."""
_START_MODULES = """
import sys, types
packages = [types.ModuleType(name) for name in ("diagnose_bench", "diagnose_bench.sandbox")]
sys.modules.update({package.__name__: package for package in packages})
for name, source in SOURCES.items():
    module = types.ModuleType("diagnose_bench.sandbox." + name)
    sys.modules[module.__name__] = module
    setattr(packages[1], name, module)
    exec(compile(source, name, "exec"), module.__dict__)
"""


@cache
def standalone(modules: tuple[str, ...], last_line: str) -> bytes:
    """A program of some modules of this package that loads nothing else of it.

    Notes
    -----
    The smaller a process, the faster it forks; and whoever runs it need not be able to read our files.
    """
    folder = layout.package_folder() / "sandbox"
    sources = {name: (folder / f"{name}.py").read_text(encoding="utf-8") for name in modules}
    return f"SOURCES = {sources!r}\n{_START_MODULES}\n{last_line}\n".encode()


def python() -> str:
    """A Python that the caller may start."""
    for path in _PYTHONS:
        if path and os.access(path, os.X_OK):
            return path
    raise SandboxUnavailableError(messages.NO_PYTHON)


class HelperCommand:
    """One command that runs under a helper, seen as ``supervise`` wants to see a process."""

    def __init__(self, helper: Helper, stdout: IO[bytes] | None) -> None:
        self.stdout = stdout
        self.is_lost = False
        self.problem = ""
        self._helper = helper
        self._code: int | None = None

    def poll(self) -> int | None:
        """The exit code, as `subprocess` gives it, or None while it runs."""
        if self._code is None and self._helper.has_news(0.0):
            answer = self._helper.answer() or {}
            self.is_lost = "status" not in answer
            self.problem = str(answer.get("error", ""))
            self._code = int(answer.get("status", _LOST))
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit code."""
        while (code := self.poll()) is None:
            if not self._helper.has_news(timeout):
                raise subprocess.TimeoutExpired("command", timeout or 0.0)
        return code

    def stop(self) -> None:
        """Have the command and all its processes killed."""
        if self._code is None:
            self._helper.tell(_STOP)

    def kill(self) -> None:
        """Give the helper up: it kills the command and ends when nobody listens any more."""
        self._helper.hang_up()


class Helper:
    """The harness's end of the helper process."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self.null = -1

    @property
    def pid(self) -> int | None:
        """The outer of its two processes."""
        return None if self._process is None else self._process.pid

    def start(self, config: dict[str, Any], group: ProcessGroup | None = None) -> bool:
        """Start it, in a group if there is one; True if it gave itself a file tree of its own."""
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket = ours
        self.null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        code = os.memfd_create("helper", 0)
        with its, os.fdopen(code, "wb") as file:
            file.write(standalone(_MODULES, "packages[1].landlock_helper.main()"))
            file.flush()
            try:
                self._process = subprocess.Popen(
                    [python(), "-I", "-S", "-B", f"/proc/self/fd/{code}"],
                    pass_fds=(code,),
                    stdin=its.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={"PATH": "/usr/bin:/bin"},
                    cwd="/",
                    start_new_session=True,
                )
            except (OSError, subprocess.SubprocessError) as error:
                raise SandboxError(f"No sandbox: the helper process cannot be started: {error}.") from error
        with contextlib.suppress(OSError):
            # If the machine runs out of memory, the shell goes first.
            Path(f"/proc/{self._process.pid}/oom_score_adj").write_text("800")
        if group is not None:
            # It waits for the message that follows, and is alone.
            group.take(self._process.pid)
        self._send(config, ())
        answer = self.answer() if self.has_news(_START_S) else None
        if answer is None or "ready" not in answer:
            reason = (answer or {}).get("error", "it did not answer")
            raise SandboxUnavailableError(messages.landlock_failed(str(reason)))
        return bool(answer["mapped"])

    def run(
        self, request: dict[str, Any], descriptors: tuple[int, int, int], stdout: IO[bytes] | None
    ) -> HelperCommand:
        """Have it start a command."""
        self._send(request, descriptors)
        return HelperCommand(self, stdout)

    def _send(self, value: dict[str, Any], descriptors: tuple[int, ...]) -> None:
        if self._socket is None:
            raise SandboxError("No sandbox: the process that starts its commands has ended.")
        handle = os.memfd_create("request")
        try:
            with os.fdopen(handle, "wb", closefd=False) as file:
                file.write(json.dumps(value).encode())
            socket.send_fds(self._socket, [b"run"], [handle, *descriptors])
        except OSError as error:
            raise SandboxError("No sandbox: the process that starts its commands has ended.") from error
        finally:
            os.close(handle)

    def has_news(self, timeout_s: float | None) -> bool:
        """Whether it says something, or is gone, within so many seconds (None: wait)."""
        if self._socket is None:
            return True
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(None if timeout_s is None else 1000 * timeout_s))

    def answer(self) -> dict[str, Any] | None:
        """What it says; None if it is gone."""
        try:
            data = b"" if self._socket is None else self._socket.recv(_MESSAGE)
        except OSError:
            data = b""
        return json.loads(data) if data else None

    def tell(self, message: bytes) -> None:
        """Send it a word; one that is gone does not hear it."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.send(message)

    def hang_up(self) -> None:
        """Have it kill what runs and end: nobody listens any more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def close(self) -> None:
        """End it and wait for it."""
        self.hang_up()
        if self._process is not None:
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self.null >= 0:
            os.close(self.null)
            self.null = -1
