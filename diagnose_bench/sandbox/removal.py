"""Remove folders that a hostile program filled: links, any depth, any mode, without following anything.

Needs little, as it is also loaded by the small process that starts commands under Landlock.
"""

from __future__ import annotations

import contextlib
import os
import stat

TYPE_CHECKING = False  # importing typing would cost more than all the rest
if TYPE_CHECKING:
    from pathlib import Path


def open_folder(name: str | Path, parent: int | None = None) -> int:
    """Open a folder, below `parent` if one is given, without following a link; made accessible to us first.

    Notes
    -----
    A folder without permissions would hide its content from an ordinary user's harness. The mode is
    changed through a descriptor, so that a link put in its place meanwhile is never touched.
    """
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
    try:
        mode = stat.S_IMODE(os.fstat(handle).st_mode)
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(f"/proc/self/fd/{handle}", mode | stat.S_IRWXU)
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
        top = open_folder(folder)
        try:
            _empty(top)
        finally:
            os.close(top)
        folder.rmdir()


def empty_folder(folder: str) -> None:
    """Remove all that lies in a folder, as far as that is allowed."""
    with contextlib.suppress(OSError):
        top = open_folder(folder)
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
