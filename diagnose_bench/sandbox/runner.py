"""Brings one started command to its end: reads its output, keeps its limits, stops it. Knows no backend."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Protocol

from diagnose_bench.files import sha256_of_bytes
from diagnose_bench.sandbox.base import ExecResult
from diagnose_bench.sandbox.limits import (
    KILLED_EXIT_CODE,
    MAX_COMMAND_BYTES,
    MIB,
    REFUSED_EXIT_CODE,
    SCRATCH_MAX_DEPTH,
    TIMEOUT_EXIT_CODE,
    Limits,
)
from diagnose_bench.sandbox.output import OutputCollector
from diagnose_bench.sandbox.switch import CANCELLED, TRIAL_OVER
from diagnose_bench.sandbox.watcher import Watcher

_CHUNK = 1 << 16
_POLL_S = 0.05
_GRACE_S = 30.0
_LAST_WORDS_S = 0.5
_START_S = 120.0


@dataclass(frozen=True, slots=True)
class Ending:
    """What is known when a command has ended."""

    return_code: int
    limit_hit: str | None
    seconds: float


class RunningProcess(Protocol):
    """A started command, as `subprocess.Popen` shows one."""

    @property
    def stdout(self) -> IO[bytes] | None:
        """Where its output is read."""
        ...

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit code."""
        ...

    def kill(self) -> None:
        """Kill it."""
        ...


def supervise(
    process: RunningProcess,
    output: OutputCollector,
    limits: Limits,
    time_s: float,
    *,
    watcher: Watcher,
    root_pid: Callable[[], int | None],
    stop: Callable[[], None],
    end_reason: Callable[[], str | None] = lambda: None,
) -> Ending:
    """Read the output of a command until it ends or a limit stops it.

    Parameters
    ----------
    process : RunningProcess
        The started command; its stdout is a pipe.
    output : OutputCollector
        Takes the output.
    limits : Limits
        Of which the output's is kept here.
    time_s : float
        Wall clock.
    watcher : Watcher
        Asked a few times a second.
    root_pid : callable
        The process whose descendants are watched, once it is known.
    stop : callable
        Ends the command and all its processes; may be called more than once.
    end_reason : callable
        Why nobody waits for the command any more, as its ``limit_hit``; None while somebody does.

    Notes
    -----
    Has to run in the thread that started the process: bubblewrap's --die-with-parent fires when that
    thread ends.
    """
    if process.stdout is None:
        raise ValueError("the process has no output pipe")
    descriptor = process.stdout.fileno()
    os.set_blocking(descriptor, False)
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    started = time.monotonic()
    # A container takes its time to start, which is not the command's.
    has_begun = output.has_opened
    deadline = started + (time_s if has_begun else _START_S)
    limit_hit: str | None = None
    give_up = float("inf")
    is_open = True
    try:
        while process.poll() is None:
            now = time.monotonic()
            if not has_begun and output.has_opened:
                has_begun, started, deadline = True, now, now + time_s
            if limit_hit is None:
                if (reason := end_reason()) is not None:
                    limit_hit = reason
                elif now >= deadline:
                    limit_hit = "wall"
                elif output.n_bytes >= limits.output_kill:
                    limit_hit = "output"
                else:
                    limit_hit = watcher.look(root_pid())
                if limit_hit is not None:
                    stop()
                    give_up = now + _GRACE_S
            elif now >= give_up:
                process.kill()
            wait_s = min(_POLL_S, max(0.001, deadline - now)) if limit_hit is None else _POLL_S
            if not is_open:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(wait_s)
            elif poll.poll(1000 * wait_s):
                is_open = _drain(descriptor, output, limits.output_kill)
        # A process that outlives the command may hold the pipe open for ever, or write for ever.
        stop()
        give_up = time.monotonic() + _LAST_WORDS_S
        while is_open and time.monotonic() < give_up:
            if poll.poll(1000 * _POLL_S):
                is_open = _drain(descriptor, output, limits.output_kill)
    except BaseException:
        stop()
        process.kill()
        raise
    finally:
        process.stdout.close()
        return_code = process.wait()
    if limit_hit is None and output.n_bytes >= limits.output_kill:
        limit_hit = "output"
    return Ending(return_code, limit_hit, time.monotonic() - started)


def _drain(descriptor: int, output: OutputCollector, most: int) -> bool:
    """Take what is there, at most about `most` bytes in all; False at the end of the output."""
    while output.n_bytes < most:
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return True
        if not data:
            return False
        output.add(data)
    # Past the limit: throw the rest away so that nothing waits for us.
    try:
        return bool(os.read(descriptor, _CHUNK))
    except BlockingIOError:
        return True


_BY_SIGNAL = {128 + signal.SIGXCPU: "cpu", 128 + signal.SIGXFSZ: "file_size"}


def encoded(command: str) -> bytes | ExecResult:
    """The bytes of a command, or the result of one that no shell can be given.

    Notes
    -----
    UTF-8 whatever the locale of the harness is.
    """
    try:
        data = command.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        reason = f"its character {error.start + 1} is half of one (a lone surrogate)"
    else:
        if b"\0" not in data and len(data) <= MAX_COMMAND_BYTES:
            return data
        reason = (
            "it contains a NUL byte, which no command line can hold"
            if b"\0" in data
            else f"it is {len(data)} bytes long and at most {MAX_COMMAND_BYTES} can be passed. "
            "Write long text into files below /scratch in several commands"
        )
    shown = f"[command not run: {reason}.]\n".encode()
    return ExecResult(REFUSED_EXIT_CODE, shown, 0, sha256_of_bytes(b""), 0.0, "command")


def finished(
    exit_code: int | None,
    limit_hit: str | None,
    ending: Ending,
    output: OutputCollector,
    limits: Limits,
    time_s: float,
) -> ExecResult:
    """The result of a command, with a last line of ours if a limit was hit."""
    if limit_hit is None and exit_code is not None:
        limit_hit = _BY_SIGNAL.get(exit_code)
    if limit_hit == "wall":
        exit_code = TIMEOUT_EXIT_CODE
    elif exit_code is None or (limit_hit is not None and exit_code == 0):
        exit_code = KILLED_EXIT_CODE
    shown = output.shown()
    if limit_hit is not None:
        note = _notes(limits, time_s).get(limit_hit, limit_hit)
        separator = b"" if not shown or shown.endswith(b"\n") else b"\n"
        shown = b"%s%s[%s]\n" % (shown, separator, note.encode())
    return ExecResult(exit_code, shown, output.n_bytes, output.sha256, ending.seconds, limit_hit)


def _notes(limits: Limits, time_s: float) -> dict[str, str]:
    return {
        TRIAL_OVER: "command stopped: the trial is over",
        CANCELLED: "command stopped: it was cancelled",
        "wall": f"command stopped: it ran longer than {time_s:g} s",
        "output": f"command stopped: it printed more than {limits.output_kill // MIB} MiB",
        "memory": f"command stopped: its processes used more than {limits.resident_mb} MiB of memory",
        "scratch": (
            f"limit: /scratch may hold {limits.scratch_mb} MiB, {limits.scratch_entries} entries and folders "
            f"{SCRATCH_MAX_DEPTH} deep; remove something"
        ),
        "processes": f"command stopped: more than {limits.processes} processes and threads",
        "tmp": f"command stopped: the folder for temporary files may hold {limits.tmp_mb} MiB",
        "disk": "command stopped: the disk under /scratch runs full",
        "cpu": "command stopped: a process used up its processor time",
        "file_size": f"command stopped: a file may not grow beyond {limits.file_mb} MiB",
    }
