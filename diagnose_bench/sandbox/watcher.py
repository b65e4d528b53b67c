"""Limits that the kernel does not keep for us: memory of all processes together, and the scratch folder.

Looks from outside a few times a second; a command may overshoot by what it manages in between. It
never judges: it names the limit that is passed, and the caller stops the command.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from pathlib import Path
from typing import Protocol

from diagnose_bench.sandbox.limits import DISK_RESERVE_MB, MIB, WATCH_INTERVAL_S, Limits
from diagnose_bench.sandbox.scratch import Usage, measure

_PAGE = os.sysconf("SC_PAGE_SIZE")


class Counting(Protocol):
    """A group of processes in which the kernel may kill some."""

    def n_killed(self) -> int:
        """How many it has killed because memory ran out."""
        ...


class Watcher:
    """Looks at one running command.

    Parameters
    ----------
    limits : Limits
        What is allowed.
    scratch : Path or None
        The scratch folder on the host; None leaves the disk alone.
    start : Usage
        What the scratch folder held when the command started.
    temporary : Path or None
        A folder for temporary files that is no memory disk with a size of its own.
    max_tasks : int or None
        Processes and threads below the root, itself included, where the kernel does not count exactly.
    group : Counting or None
        Where the kernel kills one process, and the rest of the command has to follow.
    """

    def __init__(
        self,
        limits: Limits,
        scratch: Path | None,
        start: Usage,
        *,
        temporary: Path | None = None,
        max_tasks: int | None = None,
        group: Counting | None = None,
    ) -> None:
        self._limits = limits
        self._scratch = scratch
        self._start = start
        self._temporary = temporary
        self._max_tasks = max_tasks
        self._group = group
        self._killed_at_start = 0 if group is None else group.n_killed()
        self._free_at_start = _free_bytes(scratch)
        self._next_look = time.monotonic() + WATCH_INTERVAL_S

    def look(self, root_pid: int | None) -> str | None:
        """The limit that is passed, or None; does nothing if the last look was just now."""
        now = time.monotonic()
        if now < self._next_look:
            return None
        limit = self._look(root_pid)
        # A look that takes long (many files) must not eat the processor.
        self._next_look = time.monotonic() + max(WATCH_INTERVAL_S, 2 * (time.monotonic() - now))
        return limit

    def killed_by_kernel(self) -> str | None:
        """Whether the kernel has killed something of the command because memory ran out."""
        if self._group is not None and self._group.n_killed() > self._killed_at_start:
            return "memory"
        return None

    def _look(self, root_pid: int | None) -> str | None:
        if self.killed_by_kernel() is not None:
            return "memory"
        unlinked = 0
        if root_pid is not None:
            pids = process_tree(root_pid)
            if self._max_tasks is not None and sum(map(_n_threads, pids)) > self._max_tasks:
                return "processes"
            if sum(map(anonymous_bytes, pids)) > self._limits.resident_mb * MIB:
                return "memory"
            if self._scratch is not None:
                unlinked = _unlinked_bytes(pids, self._scratch)
        if self._temporary is not None:
            held = measure(self._temporary, self._limits.tmp_mb * MIB, self._limits.scratch_entries)
            if held.n_bytes > self._limits.tmp_mb * MIB or held.n_entries > self._limits.scratch_entries:
                return "tmp"
        if self._scratch is None:
            return None
        usage = measure_scratch(self._scratch, self._limits)
        total = Usage(usage.n_bytes + unlinked, usage.n_entries, usage.whole)
        if total.is_over(self._limits, self._start):
            return "scratch"
        # Files that are unlinked, mapped and closed are on no list. What can still be seen is that the
        # disk runs full while a command runs.
        free, reserve = _free_bytes(self._scratch), DISK_RESERVE_MB * MIB
        if free < reserve and self._free_at_start - free > self._limits.scratch_mb * MIB:
            return "disk"
        return None


def measure_scratch(scratch: Path, limits: Limits) -> Usage:
    """What lies in a scratch folder, counted to a little more than its quota."""
    return measure(scratch, 4 * limits.scratch_mb * MIB, 2 * limits.scratch_entries)


def process_tree(root_pid: int) -> list[int]:
    """A process and its descendants."""
    found, waiting = [], [root_pid]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as children:
                    waiting += map(int, children.read().split())
    return found


def tasks_of_user(uid: int) -> int:
    """Processes and threads of a user on the whole machine."""
    n_tasks = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid == uid:
                n_tasks += _n_threads(int(name))
    return n_tasks


def _n_threads(pid: int) -> int:
    try:
        # A folder has a link for itself and for each folder in it.
        return os.stat(f"/proc/{pid}/task").st_nlink - 2
    except OSError:
        return 0


def anonymous_bytes(pid: int) -> int:
    """Resident memory of a process that is backed by no file."""
    try:
        with open(f"/proc/{pid}/statm") as statm:
            _, resident, shared, *_ = map(int, statm.read().split())
    except (OSError, ValueError):
        return 0
    return (resident - shared) * _PAGE


def _unlinked_bytes(pids: list[int], scratch: Path) -> int:
    """Bytes of open files on the scratch folder's disk that have no name any more."""
    files: dict[int, int] = {}
    try:
        device = scratch.stat().st_dev
    except OSError:
        return 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for number in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    status = os.stat(f"/proc/{pid}/fd/{number}")
                    if status.st_nlink == 0 and status.st_dev == device and stat.S_ISREG(status.st_mode):
                        files[status.st_ino] = status.st_blocks * 512
    return sum(files.values())


def _free_bytes(folder: Path | None) -> int:
    if folder is None:
        return 0
    try:
        disk = os.statvfs(folder)
    except OSError:
        return 0
    return disk.f_bavail * disk.f_frsize
