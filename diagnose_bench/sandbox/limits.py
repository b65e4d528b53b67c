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

    def prlimit(self, command_s: float, *, processes: bool = True) -> list[str]:
        """Arguments of ``prlimit`` for one command.

        Notes
        -----
        It runs inside the sandbox: only there RLIMIT_NPROC counts this sandbox alone and not all
        processes of the user. A limit that the caller already has stays where it is.
        """
        wanted = {
            "as": (resource.RLIMIT_AS, self.memory_mb * MIB),
            "core": (resource.RLIMIT_CORE, 0),
            "cpu": (resource.RLIMIT_CPU, max(1, math.ceil(command_s * self.cpu_factor))),
            "fsize": (resource.RLIMIT_FSIZE, self.file_mb * MIB),
            "nofile": (resource.RLIMIT_NOFILE, self.open_files),
        }
        if processes:
            wanted["nproc"] = (resource.RLIMIT_NPROC, self.processes)
        options = {name: str(_at_most_hard(kind, value)) for name, (kind, value) in wanted.items()}
        # At the soft limit a signal that says why, at the hard one the end.
        options["cpu"] += f":{_at_most_hard(resource.RLIMIT_CPU, wanted['cpu'][1] + 1)}"
        return [f"--{name}={value}" for name, value in options.items()]


def _at_most_hard(kind: int, value: int) -> int:
    hard = resource.getrlimit(kind)[1]
    return value if hard == resource.RLIM_INFINITY else min(value, hard)
