"""The process that lives beside a trial and starts its commands under Landlock; runs alone, never imported.

Two processes, each in a Landlock domain that keeps signals inside. The outer one waits for the inner one and
ends whatever is left. The inner one takes requests from the harness, starts a command in a further domain,
and when the command has ended kills everything in its own domain with one call: a daemon, an orphan or a
fork bomb cannot get out of that, and nothing in there can reach the two.

What it is told comes from the harness alone.
"""

from __future__ import annotations

import _thread
import base64
import contextlib
import json
import os
import resource
import select
import signal
import socket
import time

from diagnose_bench.sandbox import landlock_kernel as kernel
from diagnose_bench.sandbox.landlock_root import build_root
from diagnose_bench.sandbox.removal import empty_folder

TYPE_CHECKING = False  # importing typing would make every fork dearer
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

STOP = b"stop"
_N_DESCRIPTORS = 4
_MESSAGE = 4096
_MOST_DESCRIPTORS = 1024
_LOST = 125
_NICENESS = 5
_PATIENCE_S = 20.0


def main() -> NoReturn:
    """Serve the harness on standard input, a socket, until it is closed."""
    os.closerange(3, _MOST_DESCRIPTORS)  # its own program, which no command is to inherit
    harness = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        config = _receive(harness)[0]
        _drop(config["uid"])
        kernel.no_new_privileges()
        kernel.become_subreaper()
        outer = kernel.Ruleset(scopes=kernel.SCOPE_SIGNALS | kernel.SCOPE_ABSTRACT_SOCKETS)
        outer.enforce()
        helper = os.fork()
    except BaseException as error:
        _report(harness, {"error": str(error)})
        os._exit(1)
    if helper == 0:
        try:
            Helper(harness, config).serve()
        except BaseException as error:
            _report(harness, {"error": f"{type(error).__name__}: {error}"})
        os._exit(0)
    harness.close()
    _wait_for(helper)
    _end_all()
    os._exit(0)


def _drop(uid: int | None) -> None:
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        # There is no secret in this process, and only so it may write its own id map.
        kernel.make_dumpable()


def _receive(harness: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """The next request and the descriptors that came with it.

    Raises
    ------
    EOFError
        The harness is gone, or does not want to go on.
    """
    message, descriptors = STOP, list[int]()
    while message == STOP and not descriptors:  # it came too late
        message, descriptors, _, _ = socket.recv_fds(harness, _MESSAGE, _N_DESCRIPTORS)
    if not descriptors:
        raise EOFError
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    with os.fdopen(descriptors[0], "rb") as file:
        file.seek(0)
        return json.loads(file.read()), descriptors[1:]


def _report(harness: socket.socket, value: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        harness.sendall(json.dumps(value).encode())


def _wait_for(pid: int) -> int:
    while True:
        found, status = os.waitpid(-1, 0)
        if found == pid:
            return status


def _kill_all() -> None:
    """Kill every process of this Landlock domain but this one.

    Notes
    -----
    The kernel goes through all processes in one step, and refuses each that lies outside of the domain; one
    that is about to fork does not get to it.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(-1, signal.SIGKILL)


def _end_all() -> None:
    """Kill them, and wait until all are gone."""
    _kill_all()
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def _patiently(start: Callable[[], int], patience_s: float) -> int:
    """Start something that counts as a process, again and again where the user has too many at the moment.

    Notes
    -----
    Where the kernel counts all processes of the user, a bomb in another trial may be in the way until that
    trial's watcher has ended it. That must not cost this trial a command.
    """
    give_up = time.monotonic() + patience_s
    while True:
        try:
            return start()
        except (BlockingIOError, RuntimeError):
            if time.monotonic() > give_up:
                raise
        time.sleep(0.02)


class Helper:
    """The inner process: one command at a time."""

    def __init__(self, harness: socket.socket, config: dict[str, Any]) -> None:
        self._harness = harness
        # Not inherited. The outer process takes in the orphans of a helper that died.
        kernel.become_subreaper()
        self._is_mapped = build_root(config)
        paths = config["mapped" if self._is_mapped else "bare"]
        self._temporary = list(paths["temporary"])
        self._home = paths["home"]
        self._limits = [*config["limits"], (resource.RLIMIT_NPROC, *paths["processes"])]
        files = kernel.Ruleset(
            files=kernel.ALL_FILE_RIGHTS,
            tcp=True,
            scopes=kernel.SCOPE_SIGNALS | kernel.SCOPE_ABSTRACT_SOCKETS,
        )
        for path in paths["read_only"]:
            files.allow(path, kernel.READ_ONLY)
        for path in paths["devices"]:
            files.allow(path, kernel.READ_FILE | kernel.WRITE_FILE)
        for path in paths["writable"]:
            if not files.allow(path, kernel.READ_WRITE):
                raise OSError(f"{path} cannot be opened")
        files.enforce()
        files.close()
        self._check_scope()
        self._filter = kernel.SeccompFilter(
            base64.b64decode(config["seccomp"]["mapped" if self._is_mapped else "bare"])
        )

    def _check_scope(self) -> None:
        """Be sure that a signal to everybody stays inside, before one is ever sent."""
        try:
            os.kill(os.getppid(), 0)
        except PermissionError:
            return
        raise OSError("Landlock does not keep signals inside")

    def serve(self) -> None:
        """Run commands until the harness goes away."""
        # What commands inherit: they are started without a chance to set anything by themselves.
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(self._home)
        for kind, soft, hard in self._limits:
            resource.setrlimit(kind, (soft, hard))
        _report(self._harness, {"ready": True, "mapped": self._is_mapped})
        while True:
            try:
                request, descriptors = _receive(self._harness)
            except (EOFError, OSError):
                break
            status = self._run(request, descriptors)
            if status is None:
                break
            _report(self._harness, {"status": status})
        _end_all()

    def _run(self, request: dict[str, Any], descriptors: list[int]) -> int | None:
        """Start a command, wait for it, and end all that it started; None if the harness is gone."""
        child = self._start(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        if child is None:
            return _LOST
        with contextlib.suppress(OSError):
            resource.prlimit(child, resource.RLIMIT_CPU, tuple(request["cpu"]))
        is_wanted = self._wait(child)
        status = _wait_for(child)
        _end_all()
        for folder in self._temporary:
            if os.listdir(folder):
                empty_folder(folder)
        return os.waitstatus_to_exitcode(status) if is_wanted else None

    def _start(self, request: dict[str, Any], descriptors: list[int]) -> int | None:
        """Start a command from a thread that has put itself under the domain and the filter of the command.

        Notes
        -----
        Both belong to a thread, not to its process. So the command can be started without a copy of this
        process's memory, which costs more than all the rest; the thread ends at once.
        """
        arguments = [base64.b64decode(text) for text in request["argv"]]
        actions = [(os.POSIX_SPAWN_DUP2, descriptor, number) for number, descriptor in enumerate(descriptors)]
        # Each command gets a domain of its own, from which this process cannot be reached.
        scope = kernel.Ruleset(scopes=kernel.SCOPE_SIGNALS | kernel.SCOPE_ABSTRACT_SOCKETS)
        started: list[int] = []
        has_ended = _thread.allocate_lock()
        has_ended.acquire()

        # In a namespace of its own nobody else counts, and what cannot be started never will be.
        patience_s = 0.0 if self._is_mapped else _PATIENCE_S

        def spawn() -> int:
            return os.posix_spawn(
                arguments[0], arguments, request["environment"], file_actions=actions, setsid=True
            )

        def start() -> None:
            try:
                # Never a lower value than the harness has: that takes rights which are gone by now.
                with contextlib.suppress(OSError):
                    if os.getpriority(os.PRIO_PROCESS, 0) < _NICENESS:
                        os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)
                scope.enforce()
                self._filter.put_on()
                started.append(_patiently(spawn, patience_s))
            except BaseException as error:
                with contextlib.suppress(OSError):
                    os.write(descriptors[2], f"the command could not be started: {error}\n".encode())
            finally:
                has_ended.release()

        _patiently(lambda: _thread.start_new_thread(start, ()), patience_s)
        has_ended.acquire()
        scope.close()
        return started[0] if started else None

    def _wait(self, child: int) -> bool:
        """Wait for the end of a command, and end it when told so; False if the harness is gone."""
        handle = os.pidfd_open(child)
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        poll.register(self._harness, select.POLLIN)
        try:
            while True:
                events = dict(poll.poll())
                if handle in events:
                    return True
                if self._harness.recv(_MESSAGE) != STOP:
                    _kill_all()
                    return False
                _kill_all()
        finally:
            os.close(handle)
