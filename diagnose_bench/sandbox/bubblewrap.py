"""The default backend: one fresh bubblewrap for every command.

A fresh one costs about 20 ms and gives for free what a lasting one would have to build: nothing outlives
a command, and the exit code comes from bubblewrap, not from a channel that the command can write to.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from diagnose_bench.errors import SandboxError, SandboxUnavailableError
from diagnose_bench.sandbox import arguments, messages, policy
from diagnose_bench.sandbox.adoption import begin_adopting, end_adopting
from diagnose_bench.sandbox.base import Capabilities, ExecResult
from diagnose_bench.sandbox.extras import NO_EXTRAS, Extras, Observer
from diagnose_bench.sandbox.leftovers import remove_claimed
from diagnose_bench.sandbox.limits import NICENESS, Limits
from diagnose_bench.sandbox.notification import Listener, helper_command
from diagnose_bench.sandbox.notify_filter import HANDED_ON
from diagnose_bench.sandbox.output import OutputCollector
from diagnose_bench.sandbox.runner import Ending, encoded, finished, supervise
from diagnose_bench.sandbox.seccomp import filter_program
from diagnose_bench.sandbox.switch import CommandSwitch
from diagnose_bench.sandbox.user import dropped_id, hand_over
from diagnose_bench.sandbox.watcher import Watcher, measure_scratch

_BARE_ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
_BEGIN_S = 2.0
_LOOK_S = 0.005
"""All that bubblewrap itself gets: as process 1 of the sandbox it shows its environment to the shell."""


def find_bubblewrap() -> str:
    """The path of a bubblewrap that may be used.

    Raises
    ------
    SandboxUnavailableError
        Not on Linux, not installed, or setuid.
    """
    message = messages.platform_message()
    if message is not None:
        raise SandboxUnavailableError(message)
    path = shutil.which("bwrap")
    if path is None:
        raise SandboxUnavailableError(messages.NOT_FOUND)
    if os.stat(path).st_mode & stat.S_ISUID:
        raise SandboxUnavailableError(messages.setuid_message(path))
    if not os.access(arguments.PRLIMIT, os.X_OK):
        raise SandboxUnavailableError(messages.NO_PRLIMIT)
    return path


class BubblewrapSandbox:
    """Commands see `snapshot` at /snapshot and `scratch` at /scratch, and nothing else of the host's data.

    Parameters
    ----------
    snapshot : Path
        Bound as it is; its path is visible inside and has to say nothing (see ``SnapshotStore``).
    scratch : Path
        A folder whose files last for the trial. Left alone by ``close`` unless `own_scratch`.
    limits : Limits
        For every command.
    forbidden : sequence of Path
        Must not be visible inside; covered where they lie in a system folder.
    own_scratch : bool
        Whether the scratch folder goes away with the sandbox.
    extras : Extras
        Toolbox, decoys, observer.
    """

    backend = "bwrap"
    capabilities = Capabilities()

    def __init__(
        self,
        snapshot: Path,
        scratch: Path,
        *,
        limits: Limits,
        forbidden: Sequence[Path] = (),
        own_scratch: bool = False,
        extras: Extras = NO_EXTRAS,
    ) -> None:
        self._bubblewrap = find_bubblewrap()
        self._extras = extras
        self._masked = policy.masks((*policy.project_paths(), *forbidden))
        self.snapshot = snapshot.resolve()
        self.scratch = policy.check_scratch(scratch, self.snapshot, forbidden)
        self.limits = limits
        self._own_scratch = own_scratch
        self._is_closed = False
        self._switch = CommandSwitch()
        self._id = dropped_id()
        if self._id is not None:
            hand_over(self.scratch, self._id)
            for path in (self.snapshot, self.scratch, *extras.folders()):
                if (blocked := policy.unreachable_parent(path, self._id)) is not None:
                    raise SandboxUnavailableError(messages.unreachable_message(self._id, blocked))
        self._usage = measure_scratch(self.scratch, limits)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def stop(self) -> None:
        """End a command that runs, called from another thread; later commands end at once, too."""
        self._switch.stop()

    def cancel(self) -> None:
        """End the command that runs, called from another thread; later ones run as usual."""
        self._switch.cancel()

    def close(self) -> None:
        """Remove the scratch folder if it is the sandbox's own."""
        if not self._is_closed:
            self._is_closed = True
            if self._own_scratch:
                remove_claimed(self.scratch)

    def run(self, command: str, *, timeout_s: float | None = None) -> ExecResult:
        """Run one bash command in a fresh sandbox.

        Raises
        ------
        SandboxError
            The sandbox could not be set up, or has been closed.
        """
        self._switch.begin()
        data = encoded(command)
        if isinstance(data, ExecResult):
            return data
        time_s = self.limits.command_time(timeout_s)
        output = OutputCollector(self.limits.output_head, self.limits.output_tail)
        with Started(self, [arguments.BASH, "-c", data], time_s) as started:
            ending = supervise(
                started.process,
                output,
                self.limits,
                time_s,
                watcher=Watcher(self.limits, self.scratch, self._usage),
                root_pid=started.init_pid,
                stop=started.stop,
                end_reason=self._switch.reason,
            )
            started.wait_until_gone()
            exit_code = started.exit_code()
            if exit_code is not None and ending.limit_hit is None:
                started.check_audit()
        return self._result(ending, exit_code, output, time_s)

    def _result(
        self, ending: Ending, exit_code: int | None, output: OutputCollector, time_s: float
    ) -> ExecResult:
        limit_hit = ending.limit_hit
        if limit_hit is None and exit_code is None:
            raise SandboxError(messages.explain(output.shown().decode("utf-8", "replace")))
        usage = measure_scratch(self.scratch, self.limits)
        if limit_hit is None and usage.is_over(self.limits, self._usage):
            limit_hit = "scratch"
        self._usage = usage
        return finished(exit_code, limit_hit, ending, output, self.limits, time_s)

    def start(
        self, command: Sequence[str | bytes], time_s: float, descriptors: _Descriptors, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start bubblewrap around a command; `options` go to Popen (its streams, mostly)."""
        if self._is_closed:
            raise SandboxError("This sandbox has been closed; open another one.")
        environment: Mapping[str, str] = options.pop("environment", arguments.ENVIRONMENT)
        environment = dict(environment) | self._extras.environment()
        handed_on: frozenset[str] = frozenset()
        if self._extras.observer is not None:
            command = helper_command(descriptors.listen(self._extras.observer), command)
            handed_on = HANDED_ON
        lines = arguments.bubblewrap_arguments(
            snapshot=self.snapshot,
            scratch=self.scratch,
            limits=self.limits,
            masked=self._masked,
            etc_descriptors={
                path: descriptors.with_content(content) for path, content in arguments.ETC_FILES.items()
            },
            seccomp_descriptor=descriptors.with_content(filter_program(handed_on=handed_on)),
            status_descriptor=descriptors.status_end(),
            environment=environment,
            binds=self._extras.binds(),
        )
        # By descriptor: on its command line, which the sandbox can read, they would name the host's paths.
        listed = descriptors.with_content(b"".join(os.fsencode(line) + b"\0" for line in lines))
        if self._id is not None:
            options |= {"user": self._id, "group": self._id, "extra_groups": []}
        try:
            return subprocess.Popen(
                [
                    arguments.PRLIMIT,
                    *self.limits.core_prlimit(),
                    self._bubblewrap,
                    "--args",
                    str(listed),
                    "--",
                    *arguments.command_line(command, self.limits, time_s),
                ],
                env=_BARE_ENVIRONMENT,
                cwd="/",
                close_fds=True,
                pass_fds=descriptors.passed,
                **options,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise SandboxError(f"No sandbox: bwrap could not be started: {error}.") from error


class Started:
    """One running bubblewrap: its process, what it reports, and how to end all that runs in it."""

    def __init__(
        self, sandbox: BubblewrapSandbox, command: Sequence[str | bytes], time_s: float, **options: Any
    ) -> None:
        options = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
        } | options
        self._init_pid: int | None = None
        self._init_handle: int | None = None
        self._reported = b""
        self._descriptors = _Descriptors()
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
            os.setpriority(os.PRIO_PROCESS, self.process.pid, NICENESS)
        # If the machine runs out of memory, the shell goes first.
        with contextlib.suppress(OSError):
            Path(f"/proc/{self.process.pid}/oom_score_adj").write_text("800")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.stop()
            self.process.kill()
            self.process.wait()
        self.wait_until_gone()
        end_adopting()
        self._descriptors.close_all()
        if self._init_handle is not None:
            os.close(self._init_handle)
            self._init_handle = None

    def _read_reports(self) -> None:
        self._reported += self._descriptors.read_status()

    def _report(self, name: str) -> int | None:
        self._read_reports()
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
                # The handle keeps naming this process even if its number is given away again.
                with contextlib.suppress(OSError):
                    self._init_handle = os.pidfd_open(self._init_pid)
        return self._init_pid

    def stop(self) -> None:
        """Kill process 1 of the sandbox, and with it everything inside.

        Notes
        -----
        Right after its start bubblewrap is waited for until it says which process that is: killed before, it
        would leave it behind, waiting for ever to be let loose.
        """
        deadline = time.monotonic() + _BEGIN_S
        while self.init_pid() is None and self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        if self.init_pid() is None or self._init_handle is None:
            self.process.kill()
        else:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._init_handle, signal.SIGKILL)

    def wait_until_gone(self, at_most_s: float = 5.0) -> None:
        """Wait until nothing of the sandbox runs any more."""
        pid = self.init_pid()
        if self._init_handle is None or pid is None:
            return
        poll = select.poll()
        poll.register(self._init_handle, select.POLLIN)
        poll.poll(1000 * at_most_s)
        # If bubblewrap ended first, it is ours to wait for.
        with contextlib.suppress(OSError):
            os.waitpid(pid, os.WNOHANG)

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


class _Descriptors:
    """The descriptors that one bubblewrap gets, and the pipe on which it reports."""

    def __init__(self) -> None:
        self.passed: list[int] = []
        self.listener: Listener | None = None
        self._status: int | None = None

    def with_content(self, data: bytes) -> int:
        descriptor = os.memfd_create("input")
        self.passed.append(descriptor)
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(data)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def status_end(self) -> int:
        self._status, write_end = os.pipe()
        os.set_blocking(self._status, False)
        self.passed.append(write_end)
        return write_end

    def listen(self, observer: Observer) -> int:
        """Make ready to hear of system calls; the descriptor is for the helper inside."""
        self.listener = Listener(observer)
        self.passed.append(self.listener.hand_over())
        return self.passed[-1]

    def read_status(self) -> bytes:
        data = b""
        if self._status is not None:
            with contextlib.suppress(BlockingIOError):
                while chunk := os.read(self._status, 4096):
                    data += chunk
        return data

    def close_passed(self) -> None:
        for descriptor in self.passed:
            os.close(descriptor)
        self.passed = []

    def close_all(self) -> None:
        self.close_passed()
        if self.listener is not None:
            self.listener.close()
            self.listener = None
        if self._status is not None:
            os.close(self._status)
            self._status = None
