"""Hears that files were opened or read, through inotify: also from another mount namespace. Reads none."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_ACCESS, _OPEN, _OVERFLOW = 0x1, 0x20, 0x4000
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC  # IN_NONBLOCK and IN_CLOEXEC have the same values
_EVENT = struct.Struct("=iIII")
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Touch:
    """What happened to one file since the last look: it was opened, and perhaps read."""

    name: str
    was_read: bool


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


class FileWatch:
    """Watches files until it is closed.

    Parameters
    ----------
    files : mapping of str to Path
        A name for each file.

    Raises
    ------
    OSError
        The kernel gives no watch (its limit of instances per user is reached).
    """

    def __init__(self, files: Mapping[str, Path]) -> None:
        # A command may still end in another thread while the trial closes its watch.
        self._lock = threading.Lock()
        self._descriptor = _libc().inotify_init1(_FLAGS)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "no inotify instance")
        self._names: dict[int, str] = {}
        for name, path in files.items():
            watch = _libc().inotify_add_watch(self._descriptor, os.fsencode(path), _ACCESS | _OPEN)
            if watch < 0:
                number = ctypes.get_errno()
                self.close()
                raise OSError(number, os.strerror(number), str(path))
            self._names[watch] = name

    def touched(self) -> list[Touch]:
        """What was touched since the last call, each file once; nothing after the end."""
        with self._lock:
            return self._touched() if self._descriptor >= 0 else []

    def _touched(self) -> list[Touch]:
        found: dict[str, bool] = {}
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._descriptor, _CHUNK):
                place = 0
                while place < len(data):
                    watch, mask, _, length = _EVENT.unpack_from(data, place)
                    place += _EVENT.size + length
                    # A queue that ran over says no more than that somebody was very busy with them.
                    names = self._names.values() if mask & _OVERFLOW else [self._names.get(watch, "")]
                    for name in filter(None, names):
                        found[name] = found.get(name, False) or bool(mask & _ACCESS)
        return [Touch(name, was_read) for name, was_read in found.items()]

    def close(self) -> None:
        """Give the descriptor back; a second call does nothing."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1
