"""Limits that the kernel keeps for a whole group of processes (cgroup v2), where this user may set them.

They are a wall behind the other limits: memory of all processes together without a burst between two looks,
their number whatever namespace they are in, and one call that kills them all. Where nothing is delegated the
backends do without; which of both it was stands in a run's record. It starts no process.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from functools import cache
from pathlib import Path

from diagnose_bench.errors import SandboxError
from diagnose_bench.sandbox.limits import MIB, Limits
from diagnose_bench.sandbox.mounts import MountTable

_NEEDED = frozenset(("memory", "pids"))
_PREFIX = "diagnose-bench-"
_REMOVE_S = 5.0


@cache
def delegated_folder() -> Path | None:
    """Where this process may make groups with limits of memory and processes; None where it may not."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    own = next((line.split(":", 2)[2] for line in lines if line.startswith("0::")), None)
    mount = next((mount for mount in MountTable.read().mounts if mount.kind == "cgroup2"), None)
    if own is None or mount is None:
        return None
    with contextlib.suppress(ValueError):
        return find_delegated(mount.point, Path(own).relative_to(mount.root))
    return None


def find_delegated(top: Path, own: Path) -> Path | None:
    """The nearest folder around a group that lets its owner make limited groups.

    Parameters
    ----------
    top : Path
        Where the tree of groups is mounted.
    own : Path
        The group of this process, below `top`.

    Notes
    -----
    A process may be moved by whoever may write the group that contains both its old and its new one: that is
    why only the folders around the own group are of use.
    """
    folder = top / own
    while True:
        if _offers(folder):
            return folder
        if folder == top or folder == folder.parent:
            return None
        folder = folder.parent


def _offers(folder: Path) -> bool:
    if not (os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK)):
        return False
    try:
        if not _words(folder / "cgroup.controllers") >= _NEEDED:
            return False
        if not _words(folder / "cgroup.subtree_control") >= _NEEDED:
            # The kernel refuses where processes are in the folder itself.
            (folder / "cgroup.subtree_control").write_text("+memory +pids")
        group = ProcessGroup(folder, Limits())
    except (OSError, SandboxError):
        return False
    group.close()
    return True


def _words(file: Path) -> set[str]:
    return set(file.read_text().split())


class ProcessGroup:
    """One group with the limits of one command or one trial.

    Parameters
    ----------
    parent : Path
        A folder that ``delegated_folder`` has found.
    limits : Limits
        Of which memory and processes are kept here.
    n_helpers : int
        Processes of ours in the group, which are not counted.
    dies_whole : bool
        Whether the kernel kills all of the group when memory runs out, or only the largest process.

    Raises
    ------
    SandboxError
        It cannot be made.
    """

    def __init__(self, parent: Path, limits: Limits, *, n_helpers: int = 1, dies_whole: bool = True) -> None:
        self.folder = parent / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        # Memory disks count as memory of whoever writes to them.
        n_bytes = (limits.resident_mb + limits.tmp_mb + limits.shm_mb) * MIB
        try:
            _sweep(parent)
            self.folder.mkdir()
            self._write("memory.max", str(n_bytes))
            self._write("memory.oom.group", str(int(dies_whole)))
            self._write("pids.max", str(limits.processes + n_helpers))
            if (self.folder / "memory.swap.max").exists():
                self._write("memory.swap.max", "0")
        except OSError as error:
            self.close()
            raise SandboxError(f"{self.folder}: the group cannot be made: {error.strerror}.") from error

    def _write(self, name: str, value: str) -> None:
        (self.folder / name).write_text(value)

    def take(self, pid: int) -> None:
        """Put a process into the group, and with it all that it will start.

        Raises
        ------
        SandboxError
            The kernel refuses.
        """
        try:
            self._write("cgroup.procs", str(pid))
        except ProcessLookupError:
            return  # it has ended
        except OSError as error:
            raise SandboxError(f"{self.folder}: takes no process: {error.strerror}.") from error

    def kill(self) -> None:
        """Kill all that is in the group (Linux 5.14; before that the caller's other means have to do)."""
        with contextlib.suppress(OSError):
            self._write("cgroup.kill", "1")

    def n_killed(self) -> int:
        """How many processes the kernel has killed because memory ran out."""
        return _n_killed(self.folder / "memory.events")

    def close(self) -> None:
        """Remove the group; what still dies in it is waited for."""
        give_up = time.monotonic() + _REMOVE_S
        while self.folder.is_dir():
            with contextlib.suppress(OSError):
                self.folder.rmdir()
                return
            if time.monotonic() > give_up:
                return  # the next harness sweeps it
            time.sleep(0.005)


def n_killed_around(pid: int) -> int:
    """How many processes the kernel has killed in the group of a process, for want of memory.

    Notes
    -----
    Of groups that others made, of both kinds, at the places where they are always mounted.
    """
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            for is_it, file in (
                ("memory" in controllers.split(","), f"/sys/fs/cgroup/memory{path}/memory.oom_control"),
                (not controllers, f"/sys/fs/cgroup{path}/memory.events"),
            ):
                if is_it and os.path.exists(file):
                    return _n_killed(Path(file))
    return 0


def _n_killed(file: Path) -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
    return 0


def _sweep(parent: Path) -> None:
    """Remove the empty groups of harnesses that died."""
    for name in os.listdir(parent):
        if name.startswith(_PREFIX) and not os.path.exists(f"/proc/{name.split('-')[2]}"):
            with contextlib.suppress(OSError):
                (parent / name).rmdir()
