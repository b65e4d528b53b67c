"""Which path a waiting process names in a system call, and where it leads. Reads memory, opens no file.

What is found here is for a record: the process can change its memory, and links, after it was read.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence
from functools import cache

from diagnose_bench.sandbox.notify_filter import PATHS

_AT_FDCWD = -100
_OPENAT2, _IN_ROOT = 437, 0x10
_MAX_PATH = 4096
_PAGE = 4096


def path_argument(pid: int, name: str, arguments: Sequence[int]) -> str | None:
    """The path that a waiting process names, absolute as the process sees it; None if it cannot be read."""
    folder_index, path_index = PATHS[name]
    text = _read_string(pid, arguments[path_index])
    if not text:
        return None
    path = os.fsdecode(text)
    if not path.startswith("/"):
        link = "cwd"
        if folder_index is not None:
            descriptor = struct.unpack("=i", struct.pack("=I", arguments[folder_index] & 0xFFFFFFFF))[0]
            link = "cwd" if descriptor == _AT_FDCWD else f"fd/{descriptor}"
        try:
            path = os.path.join(os.readlink(f"/proc/{pid}/{link}"), path)
        except OSError:
            return None
    return os.path.normpath(path)


def resolved(pid: int, path: str | None, *, follows: bool) -> str | None:
    """Where a path leads inside the sandbox, through links; the path as it is where that cannot be told.

    Parameters
    ----------
    pid : int
        A waiting process, whose root is taken.
    path : str or None
        Absolute.
    follows : bool
        Whether the call goes through a link at the end of the path; others act on the link itself.
    """
    if path is None:
        return None
    try:
        root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return path
    try:
        if follows and (whole := _real_path(root, path)) is not None:
            return whole
        folder = _real_path(root, os.path.dirname(path))
        return path if folder is None else os.path.join(folder, os.path.basename(path))
    finally:
        os.close(root)


def _real_path(root: int, path: str) -> str | None:
    """Resolve below `root` as the process would, by a descriptor that opens nothing for reading."""
    how = struct.pack("=QQQ", os.O_PATH | os.O_CLOEXEC, 0, _IN_ROOT)
    found = _libc().syscall(_OPENAT2, root, os.fsencode(path), how, len(how))
    if found < 0:
        return None
    try:
        return os.readlink(f"/proc/self/fd/{found}")
    except OSError:
        return None
    finally:
        os.close(found)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def _read_string(pid: int, address: int) -> bytes:
    """Bytes up to a NUL, page by page: the next page may not exist."""
    found = b""
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            while b"\0" not in found and len(found) < _MAX_PATH:
                block = memory.read(_PAGE - (address + len(found)) % _PAGE)
                if not block:
                    break
                found += block
    except (OSError, OverflowError, ValueError):
        return b""
    return found.split(b"\0", 1)[0][:_MAX_PATH]
