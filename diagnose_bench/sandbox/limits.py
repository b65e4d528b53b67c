"""The limits of one command and of one trial's scratch folder: numbers with names, no mechanism."""

from __future__ import annotations

import dataclasses
import math
import resource
from dataclasses import dataclass
from typing import Any

from diagnose_bench.errors import UsageError

KIB = 1024
MIB = 1024 * 1024

TIMEOUT_EXIT_CODE = 124
"""Exit code of a command that ran into the command limit, as `timeout` gives it."""
KILLED_EXIT_CODE = 137
"""Exit code of a command that was stopped for any other limit (128 + SIGKILL)."""
REFUSED_EXIT_CODE = 126
"""Exit code of a command that cannot be run at all (a NUL byte, too long)."""

MAX_COMMAND_BYTES = 128 * KIB - 1
"""Linux takes no longer single argument (MAX_ARG_STRLEN, with its final NUL)."""
WATCH_INTERVAL_S = 0.1
"""How often the watcher looks at memory and at the scratch folder."""
SCRATCH_MAX_DEPTH = 100
"""Deeper folders count as a full scratch folder: a walk must not run out of descriptors."""
DISK_RESERVE_MB = 1024
"""A command that writes while the disk of its scratch folder has less than this left is stopped."""
CORE_BYTES = 1
"""Too small for a core file, and the one size at which the kernel starts no program that collects cores."""
NICENESS = 5
"""Commands yield to the harness."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one command may use; scratch limits hold over the trial.

    Attributes
    ----------
    command_s, max_command_s : float
        Wall clock of a command by default, and the most that a caller may ask for.
    cpu_factor : float
        CPU seconds of one process, in multiples of the command's wall clock.
    memory_mb, resident_mb : int
        Address space of one process; resident memory of all processes of a command together.
    processes, open_files : int
        Processes and threads of a command; descriptors of one process.
    file_mb, scratch_mb, scratch_entries : int
        Largest file; size and number of entries of the scratch folder.
    tmp_mb, shm_mb : int
        Size of /tmp and of /dev/shm.
    output_head, output_tail, output_kill : int
        Bytes shown of the beginning and of the end; bytes at which the command is stopped.
    """

    command_s: float = 30.0
    max_command_s: float = 120.0
    cpu_factor: float = 2.0
    memory_mb: int = 4096
    resident_mb: int = 2048
    processes: int = 128
    open_files: int = 256
    file_mb: int = 64
    scratch_mb: int = 256
    scratch_entries: int = 20_000
    tmp_mb: int = 64
    shm_mb: int = 32
    output_head: int = 16 * KIB
    output_tail: int = 16 * KIB
    output_kill: int = 64 * MIB

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
                raise UsageError(f"limit {field.name} is {value!r}: it must be a number above 0.")

    def as_dict(self) -> dict[str, Any]:
        """Name to number, for the record of a run."""
        return dataclasses.asdict(self)

    def adjusted(
        self, *, command_s: float | None = None, memory_mb: int | None = None, disk_mb: int | None = None
    ) -> Limits:
        """The same limits with a person's own time, memory and disk; None keeps a limit as it is."""
        changes: dict[str, Any] = {}
        if command_s is not None:
            changes |= {"command_s": command_s, "max_command_s": max(command_s, self.max_command_s)}
        if memory_mb is not None:
            changes |= {"memory_mb": memory_mb, "resident_mb": memory_mb}
        if disk_mb is not None:
            changes |= {"scratch_mb": disk_mb, "file_mb": min(disk_mb, self.file_mb)}
        return dataclasses.replace(self, **changes)

    def command_time(self, asked_s: float | None) -> float:
        """Seconds that a command gets: the default, or what was asked for up to the maximum."""
        if asked_s is None or math.isnan(asked_s):
            return self.command_s
        return min(max(asked_s, 0.1), self.max_command_s)

    def resource_limits(
        self, command_s: float, *, processes: int | None = None
    ) -> dict[str, tuple[int, int]]:
        """Name to soft and hard limit of every process of a command, as ``setrlimit`` takes them.

        Parameters
        ----------
        command_s : float
            Wall clock of the command.
        processes : int or None
            Most processes and threads of the user; None leaves them alone.

        Notes
        -----
        A limit that the caller already has stays where it is.
        """
        wanted = {
            "as": self.memory_mb * MIB,
            "core": CORE_BYTES,
            "cpu": max(1, math.ceil(command_s * self.cpu_factor)),
            "fsize": self.file_mb * MIB,
            "nofile": self.open_files,
        }
        if processes is not None:
            wanted["nproc"] = processes
        limits = {name: (_at_most_hard(name, value),) * 2 for name, value in wanted.items()}
        # At the soft limit a signal that says why, at the hard one the end.
        limits["cpu"] = (limits["cpu"][0], _at_most_hard("cpu", wanted["cpu"] + 1))
        return limits

    def prlimit(self, command_s: float, *, processes: bool = True) -> list[str]:
        """Arguments of ``prlimit`` for one command.

        Notes
        -----
        It runs inside the sandbox: only there RLIMIT_NPROC counts this sandbox alone and not all
        processes of the user.
        """
        limits = self.resource_limits(command_s, processes=self.processes if processes else None)
        del limits["core"]  # see `core_prlimit`
        return [_option(name, *both) for name, both in limits.items()]

    def core_prlimit(self) -> list[str]:
        """Arguments of ``prlimit`` that forbid core files: before the filter is on, which then keeps them."""
        return [_option("core", *self.resource_limits(1.0)["core"])]


RESOURCES = {
    "as": resource.RLIMIT_AS,
    "core": resource.RLIMIT_CORE,
    "cpu": resource.RLIMIT_CPU,
    "fsize": resource.RLIMIT_FSIZE,
    "nofile": resource.RLIMIT_NOFILE,
    "nproc": resource.RLIMIT_NPROC,
}


def _option(name: str, soft: int, hard: int) -> str:
    return f"--{name}={soft}" + (f":{hard}" if hard != soft else "")


def _at_most_hard(name: str, value: int) -> int:
    hard = resource.getrlimit(RESOURCES[name])[1]
    return value if hard == resource.RLIM_INFINITY else min(value, hard)
