"""Where a checkout's history lies: in its ``.git``, and for a linked worktree in another checkout.

History holds every file that ever was in it. Reads git's own small files, runs no git.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def repository_folders(checkout: Path) -> list[Path]:
    """Folders and files that hold the history of a checkout or lead to it.

    Notes
    -----
    ``.git`` of the checkout or of the folder around it, what it points to if it is a file, what several
    worktrees have in common, and other repositories that objects are borrowed from.
    """
    entry = next((top / ".git" for top in (checkout, *checkout.parents) if (top / ".git").exists()), None)
    if entry is None:
        return []
    found = [entry]
    git = _pointed_to(entry, "gitdir:") if entry.is_file() else entry
    if git is not None:
        common = _pointed_to(git / "commondir") or git
        found += [git, common]
        for line in _lines(common / "objects" / "info" / "alternates"):
            objects = _resolved(common / "objects", line)
            found.append(objects.parent if objects.name == "objects" else objects)
    return list(dict.fromkeys(found))


def other_checkouts(checkout: Path) -> list[Path]:
    """The main checkout and the linked worktrees of the same repository, but for this one."""
    found = []
    for git in repository_folders(checkout):
        if git.name == ".git" and git.is_dir():
            found.append(git.parent)
        with contextlib.suppress(OSError):
            for linked in sorted((git / "worktrees").iterdir()):
                entry = _pointed_to(linked / "gitdir")
                if entry is not None:
                    found.append(entry.parent)
    return [path for path in dict.fromkeys(found) if path.is_dir() and path != checkout.resolve()]


def _pointed_to(file: Path, key: str = "") -> Path | None:
    lines = _lines(file)
    if not lines or not lines[0].startswith(key):
        return None
    return _resolved(file.parent, lines[0].removeprefix(key).strip())


def _resolved(folder: Path, text: str) -> Path:
    return Path(os.path.realpath(folder / text))


def _lines(file: Path) -> list[str]:
    try:
        return [line for line in file.read_text(errors="surrogateescape").splitlines() if line]
    except OSError:
        return []
