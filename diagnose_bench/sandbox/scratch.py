"""The scratch folder seen from the host: measured and removed though a hostile program filled it.

Its content is never followed, opened or executed: folders are opened by descriptor without following
links, everything else is only counted or unlinked.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from diagnose_bench.sandbox.limits import MIB, SCRATCH_MAX_DEPTH, Limits


@dataclass(frozen=True, slots=True)
class Usage:
    """What lies in a scratch folder; `whole` is False where the walk gave up (too many, too deep)."""

    n_bytes: int = 0
    n_entries: int = 0
    whole: bool = True

    def is_over(self, limits: Limits, start: Usage) -> bool:
        """Whether a quota is passed, and by more than it was before the command.

        Notes
        -----
        A folder that is over its quota must still let a command remove files from it.
        """
        return (
            (self.n_bytes > limits.scratch_mb * MIB and self.n_bytes > start.n_bytes)
            or (self.n_entries > limits.scratch_entries and self.n_entries > start.n_entries)
            or (not self.whole and start.whole)
        )


def measure(folder: Path, max_bytes: int, max_entries: int) -> Usage:
    """Count bytes on disk and entries below a folder, giving up soon after a maximum is passed."""
    n_bytes = n_entries = 0
    linked: set[int] = set()
    open_folders: list[int] = []
    names: list[list[str]] = []
    try:
        open_folders.append(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        names.append(os.listdir(open_folders[-1]))
        while names:
            if not names[-1]:
                names.pop()
                os.close(open_folders.pop())
                continue
            name = names[-1].pop()
            try:
                status = os.stat(name, dir_fd=open_folders[-1], follow_symlinks=False)
            except OSError:
                continue  # gone again
            n_entries += 1
            if status.st_ino not in linked:
                n_bytes += status.st_blocks * 512
            if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
                linked.add(status.st_ino)
            if n_bytes > max_bytes or n_entries > max_entries:
                return Usage(n_bytes, n_entries)
            if stat.S_ISDIR(status.st_mode):
                if len(open_folders) >= SCRATCH_MAX_DEPTH:
                    return Usage(n_bytes, n_entries, whole=False)
                with contextlib.suppress(OSError):
                    open_folders.append(open_folder(name, open_folders[-1]))
                    names.append(os.listdir(open_folders[-1]))
    except OSError:
        return Usage(n_bytes, n_entries)
    finally:
        for descriptor in open_folders:
            os.close(descriptor)
    return Usage(n_bytes, n_entries)


def open_folder(name: str, parent: int) -> int:
    """Open a folder below `parent` without following a link, making it accessible to us first.

    Notes
    -----
    A folder without permissions would hide its content from an ordinary user's harness. The mode is
    changed through a descriptor, so that a link put in its place meanwhile is never touched.
    """
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
    try:
        if os.fstat(handle).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(f"/proc/self/fd/{handle}", stat.S_IRWXU)
        return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(handle)


def remove_tree(folder: Path) -> None:
    """Remove a folder and all in it, however deep it is and whatever its modes are.

    Notes
    -----
    Every nested folder is first moved up to the top, so neither recursion nor path length matters. A
    folder that does not exist is fine; what cannot be removed stays.
    """
    with contextlib.suppress(OSError):
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _empty(top)
        finally:
            os.close(top)
        folder.rmdir()


def empty_folder(folder: str) -> None:
    """Remove all that lies in a folder, as far as that is allowed."""
    with contextlib.suppress(OSError):
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _empty(top)
        finally:
            os.close(top)


def _empty(top: int) -> None:
    taken = set(os.listdir(top))
    waiting: list[str] = []
    for name in taken:
        if not _unlinked(name, top):
            waiting.append(name)
    number = 0
    while waiting:
        name = waiting.pop()
        try:
            current = open_folder(name, top)
        except OSError:
            continue
        try:
            for child in os.listdir(current):
                if _unlinked(child, current):
                    continue
                while (moved := f"{number:x}") in taken:
                    number += 1
                number += 1
                with contextlib.suppress(OSError):
                    # Moving a folder needs write permission on the folder itself.
                    os.close(open_folder(child, current))
                    os.rename(child, moved, src_dir_fd=current, dst_dir_fd=top)
                    waiting.append(moved)
        finally:
            os.close(current)
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=top)


def _unlinked(name: str, parent: int) -> bool:
    """Remove one entry; False if it is a folder with something in it."""
    try:
        if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            os.rmdir(name, dir_fd=parent)
        else:
            os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
