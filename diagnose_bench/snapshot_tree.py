"""What a snapshot's folder may hold: plain files and folders, and links that stay inside. Opens no file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from diagnose_bench.errors import SuiteError

_MAX_DEPTH = 64


def check_tree(folder: Path) -> tuple[str, ...]:
    """Refuse a folder that holds links out of it, devices, FIFOs, sockets or setuid files.

    Returns
    -------
    warnings : tuple of str
        Files with further hard links: somebody else can change them.

    Raises
    ------
    SuiteError
        Naming the entry and what to do.
    """
    _require_folder(folder)
    return tuple(
        f"{folder / name}: has {info.st_nlink} hard links, so it can be changed from outside the snapshot."
        for name, info in _walk(folder)
        if stat.S_ISREG(info.st_mode) and info.st_nlink > 1
    )


def list_files(folder: Path) -> list[str]:
    """Return the relative paths of all files, sorted; for a folder whose every byte must be listed.

    Raises
    ------
    SuiteError
        As ``check_tree``; also for a link to a folder, whose content no list of files can hold.
    """
    _require_folder(folder)
    names = []
    for name, info in _walk(folder):
        if stat.S_ISLNK(info.st_mode) and not (folder / name).is_file():
            raise SuiteError(
                f"{folder / name}: a link to a folder cannot be listed. Put the folder there instead."
            )
        names.append(name)
    return sorted(names)


def _require_folder(folder: Path) -> None:
    if not folder.is_dir():
        state = "is not a folder" if folder.exists() else "does not exist"
        raise SuiteError(f"{folder}: the snapshot {state}.")


def _walk(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every entry but folders, each checked; no link is followed."""
    waiting = [""]
    while waiting:
        below = waiting.pop()
        if below.count("/") > _MAX_DEPTH:
            raise SuiteError(f"{folder / below}: folders are nested more than {_MAX_DEPTH} deep.")
        try:
            with os.scandir(folder / below) as entries:
                found = [
                    (below + entry.name, entry.stat(follow_symlinks=False))
                    for entry in sorted(entries, key=lambda entry: entry.name)
                ]
        except OSError as error:
            raise SuiteError(f"{folder / below}: cannot look into the folder: {error.strerror}.") from error
        for name, info in found:
            check_name(folder, name)
            if stat.S_ISDIR(info.st_mode):
                waiting.append(name + "/")
                continue
            _check_entry(folder, name, info)
            yield name, info


def check_name(folder: Path, name: str) -> None:
    """Refuse a file name that no manifest can hold or no terminal can show."""
    try:
        name.encode()
    except UnicodeEncodeError:
        shown = name.encode("utf-8", "backslashreplace").decode()
        raise SuiteError(f"{folder}: the file name {shown!r} is not UTF-8. Rename it.") from None
    if any(ord(character) < 32 or ord(character) == 127 for character in name):
        raise SuiteError(f"{folder}: the file name {name!r} holds control characters. Rename it.")


def _check_entry(folder: Path, name: str, info: os.stat_result) -> None:
    path, mode = folder / name, info.st_mode
    if stat.S_ISLNK(mode):
        _check_link(folder, name)
        return
    if not stat.S_ISREG(mode):
        raise SuiteError(f"{path}: a snapshot cannot hold a {_type_of(mode)}. Remove it.")
    if mode & (stat.S_ISUID | stat.S_ISGID):
        raise SuiteError(f"{path}: has its setuid or setgid bit set. Clear it with chmod ug-s.")


def _type_of(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "FIFO"
    if stat.S_ISSOCK(mode):
        return "socket"
    return "device"


def _check_link(folder: Path, name: str) -> None:
    """Refuse a link that leaves the folder, by its text or by what it resolves to.

    The text counts by itself: ``../scenario-002/a`` may come back to this very folder, but the folder has
    another name where the agent sees it.
    """
    path = folder / name
    try:
        target = os.readlink(path)
    except OSError as error:
        raise SuiteError(f"{path}: cannot read the link: {error.strerror}.") from error
    if target.startswith("/"):
        raise SuiteError(f"{path}: is a link to the absolute path {target!r}. Put the file itself there.")
    depth = name.count("/")
    for part in target.split("/"):
        depth += -1 if part == ".." else 0 if part in ("", ".") else 1
        if depth < 0:
            raise SuiteError(
                f"{path}: is a link that leaves the snapshot ({target!r}). Put the file itself there."
            )
    root = os.path.realpath(folder)
    resolved = os.path.realpath(path)
    if resolved != root and not resolved.startswith(root + os.sep):
        raise SuiteError(
            f"{path}: is a link that leaves the snapshot ({target!r}). Put the file itself there."
        )
    if not os.path.exists(resolved):
        raise SuiteError(f"{path}: is a link to nothing ({target!r}). Remove it.")
