"""One running bubblewrap: its process, what it reports, and how to end all that runs in it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from diagnose_bench.errors import SandboxError
from diagnose_bench.sandbox.adoption import begin_adopting, end_adopting
from diagnose_bench.sandbox.cgroup import ProcessGroup
from diagnose_bench.sandbox.extras import Observer
from diagnose_bench.sandbox.limits import NICENESS
from diagnose_bench.sandbox.notification import Listener

_GONE_S = 120.0
"""A kernel that has not ended a killed process by then does not do so at all."""
_REPORT_S = 60.0
_BEGIN_S = 2.0
_LOOK_S = 0.005


class Starter(Protocol):
    """A sandbox, as far as one of its commands needs it."""

    def group(self) -> ProcessGroup | None:
        """A group for the processes of one command."""
        ...

    def start(
        self, command: Sequence[str | bytes], time_s: float, descriptors: Descriptors, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start bubblewrap around a command."""
        ...


class Started:
    """One running bubblewrap, from its start until nothing of it is left."""

    def __init__(
        self, sandbox: Starter, command: Sequence[str | bytes], time_s: float, **options: Any
    ) -> None:
        options = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
        } | options
        self._init_pid: int | None = None
        self._init_handle: int | None = None
        self._reported = b""
        self._descriptors = Descriptors(sandbox.group())
        begin_adopting()
        try:
            self.process = sandbox.start(command, time_s, self._descriptors, **options)
        except BaseException:
            self._descriptors.close_all()
            end_adopting()
            raise
        self._descriptors.close_passed()
        if self._descriptors.listener is not None:
            self._descriptors.listener.start()
        with contextlib.suppress(OSError):
            if os.getpriority(os.PRIO_PROCESS, self.process.pid) < NICENESS:
                os.setpriority(os.PRIO_PROCESS, self.process.pid, NICENESS)
        # If the machine runs out of memory, the shell goes first.
        with contextlib.suppress(OSError):
            Path(f"/proc/{self.process.pid}/oom_score_adj").write_text("800")
        if self._descriptors.group is not None:
            try:
                self._enter(self._descriptors.group)
            except BaseException:
                self.__exit__(None, None, None)
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self.process.poll() is None:
                self.stop()
                self.process.kill()
                self.process.wait()
            self.wait_until_gone()
        finally:
            end_adopting()
            self._descriptors.close_all()
            if self._init_handle is not None:
                os.close(self._init_handle)
                self._init_handle = None

    def _enter(self, group: ProcessGroup) -> None:
        """Put process 1 of the sandbox into its group while bubblewrap still waits with the command."""
        give_up = time.monotonic() + _REPORT_S
        while (pid := self.init_pid()) is None:
            if self.process.poll() is not None:
                return  # it will be told why
            if time.monotonic() > give_up:
                raise SandboxError("No sandbox: bwrap does not report its process.")
            self._descriptors.wait_for_status(0.05)
        group.take(pid)
        self._descriptors.go_ahead()

    def _report(self, name: str) -> int | None:
        self._reported += self._descriptors.read_status()
        for line in self._reported.splitlines():
            with contextlib.suppress(ValueError):
                value = json.loads(line).get(name)
                if isinstance(value, int):
                    return value
        return None

    def init_pid(self) -> int | None:
        """Process 1 of the sandbox, as the host numbers it; None until it is known."""
        if self._init_pid is None:
            self._init_pid = self._report("child-pid")
            if self._init_pid is not None:
                self._init_handle = _handle(self._init_pid, (self.process.pid, os.getpid()))
        return self._init_pid

    def stop(self) -> None:
        """Kill process 1 of the sandbox, and with it everything inside.

        Notes
        -----
        Right after its start bubblewrap is waited for until it says which process that is: killed before, it
        would leave it behind, waiting for ever to be let loose.
        """
        give_up = time.monotonic() + _BEGIN_S
        while self.init_pid() is None and self.process.poll() is None and time.monotonic() < give_up:
            time.sleep(_LOOK_S)
        if self._descriptors.group is not None:
            self._descriptors.group.kill()
        if self.init_pid() is None or self._init_handle is None:
            self.process.kill()
        else:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._init_handle, signal.SIGKILL)

    def wait_until_gone(self) -> None:
        """Wait until nothing of the sandbox runs any more.

        Raises
        ------
        SandboxError
            Something cannot be ended.

        Notes
        -----
        bubblewrap reports the end of the command and exits while other processes of the namespace may still
        run. Its process 1 counts as ended only when the kernel has ended all of them: that is what is waited
        for here, so that afterwards nothing can write.
        """
        pid = self.init_pid()
        if self._init_handle is None or pid is None:
            return
        poll = select.poll()
        poll.register(self._init_handle, select.POLLIN)
        if not poll.poll(1000 * _GONE_S):
            raise SandboxError("The processes that a command left behind cannot be ended.")
        # If bubblewrap ended first, it is ours to wait for.
        with contextlib.suppress(OSError):
            os.waitpid(pid, os.WNOHANG)

    def limit_of_the_kernel(self) -> str | None:
        """The limit for which the kernel has ended the command, if that was it."""
        group = self._descriptors.group
        return "memory" if group is not None and group.n_killed() else None

    def check_audit(self) -> None:
        """Refuse a command that should have been audited and was not.

        Raises
        ------
        SandboxError
            The filter could not be put on.
        """
        if self._descriptors.listener is not None:
            self._descriptors.listener.check()

    def exit_code(self) -> int | None:
        """The command's exit code; None if it was never started or did not end by itself."""
        return self._report("exit-code")


def _handle(pid: int, parents: tuple[int, int]) -> int | None:
    """What keeps naming a process even if its number is given away again; None if it has ended.

    Notes
    -----
    The number comes from a report and may have been given away already: then its parent is another one.
    """
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        if int(fields[1]) in parents:
            return handle
    os.close(handle)
    return None


class Descriptors:
    """The descriptors that one bubblewrap gets, the pipes to it, and its group of processes."""

    def __init__(self, group: ProcessGroup | None = None) -> None:
        self.passed: list[int] = []
        self.listener: Listener | None = None
        self.group = group
        self._status: int | None = None
        self._go_ahead: int | None = None

    def with_content(self, data: bytes) -> int:
        """One from which `data` is read."""
        descriptor = os.memfd_create("input")
        self.passed.append(descriptor)
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(data)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def status_end(self) -> int:
        """One to report on."""
        self._status, write_end = os.pipe()
        os.set_blocking(self._status, False)
        self.passed.append(write_end)
        return write_end

    def go_ahead_end(self) -> int:
        """One on which to wait for ``go_ahead``."""
        read_end, self._go_ahead = os.pipe()
        self.passed.append(read_end)
        return read_end

    def listen(self, observer: Observer) -> int:
        """Make ready to hear of system calls; the descriptor is for the helper inside."""
        self.listener = Listener(observer)
        self.passed.append(self.listener.hand_over())
        return self.passed[-1]

    def read_status(self) -> bytes:
        """What has been reported since the last time."""
        data = b""
        if self._status is not None:
            with contextlib.suppress(BlockingIOError):
                while chunk := os.read(self._status, 4096):
                    data += chunk
        return data

    def wait_for_status(self, at_most_s: float) -> None:
        """Wait until there is something to read."""
        if self._status is not None:
            poll = select.poll()
            poll.register(self._status, select.POLLIN)
            poll.poll(1000 * at_most_s)

    def go_ahead(self) -> None:
        """Let the command start."""
        if self._go_ahead is not None:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._go_ahead, b"x")
            os.close(self._go_ahead)
            self._go_ahead = None

    def close_passed(self) -> None:
        """Close what bubblewrap has got."""
        for descriptor in self.passed:
            os.close(descriptor)
        self.passed = []

    def close_all(self) -> None:
        """Close everything, and remove the group."""
        self.close_passed()
        if self.listener is not None:
            self.listener.close()
            self.listener = None
        for descriptor in (self._status, self._go_ahead):
            if descriptor is not None:
                os.close(descriptor)
        self._status = self._go_ahead = None
        if self.group is not None:
            self.group.close()
            self.group = None
