"""The scratch folder seen from the host: measured though a hostile program filled it.

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
from diagnose_bench.sandbox.removal import open_folder


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
        open_folders.append(open_folder(folder))
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
                try:
                    inner = open_folder(name, open_folders[-1])
                except (FileNotFoundError, NotADirectoryError):
                    continue  # gone again
                open_folders.append(inner)
                names.append([])
                with contextlib.suppress(FileNotFoundError):  # gone again
                    names[-1] = os.listdir(inner)
    except FileNotFoundError:
        return Usage(n_bytes, n_entries)
    except OSError:
        # What cannot be looked into is not known to be empty.
        return Usage(n_bytes, n_entries, whole=False)
    finally:
        for descriptor in open_folders:
            os.close(descriptor)
    return Usage(n_bytes, n_entries)
