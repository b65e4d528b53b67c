"""Temporary folders of harnesses that died: each living harness holds a lock on its own, the rest is swept.

A lock goes away with its process, however that ends, and is seen from every container that shares the disk:
a process number would be neither. Only folders of this user are touched, and none that is only just made.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from diagnose_bench.sandbox.removal import remove_tree
from diagnose_bench.sandbox.user import UNPRIVILEGED_ID

STORE_PREFIX = "incident-h-"
AGENT_PREFIX = "diagnose-bench-agent-h-"
"""Of folders whose maker holds a lock on them."""
YOUNGEST_S = 60.0
"""Between the making of a folder and its lock lies a moment in which nobody seems to hold it."""

_locks: dict[Path, int] = {}
_guard = threading.Lock()


def claim(folder: Path) -> None:
    """Hold a lock on a folder of ours for as long as this process lives."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    with _guard:
        _locks[folder] = descriptor


def release(folder: Path) -> None:
    """Let go of a folder; one that is not held is fine."""
    with _guard:
        descriptor = _locks.pop(folder, None)
    if descriptor is not None:
        os.close(descriptor)


def remove_claimed(folder: Path) -> None:
    """Remove a folder of ours."""
    remove_tree(folder)
    release(folder)


def sweep(places: Iterable[Path] | None = None, *, youngest_s: float = YOUNGEST_S) -> list[Path]:
    """Remove what dead harnesses of this user left.

    Parameters
    ----------
    places : iterable of Path or None
        Folders to look in; None takes the usual ones for temporary files.
    youngest_s : float
        Folders that changed less than so many seconds ago are left alone.

    Returns
    -------
    removed : list of Path
        In the order of their names.
    """
    if places is None:
        places = _usual_places()
    owners = {os.geteuid(), *((UNPRIVILEGED_ID,) if os.geteuid() == 0 else ())}
    removed = []
    for place in places:
        try:
            names = sorted(os.listdir(place))
        except OSError:
            continue
        for name in names:
            if name.startswith((STORE_PREFIX, AGENT_PREFIX)) and _remove_dead(
                place / name, owners, youngest_s
            ):
                removed.append(place / name)
    return removed


def harness_folders(places: Iterable[Path] | None = None) -> list[Path]:
    """Private folders of every harness whose copies and agents' folders lie in the usual places.

    An agent may see none but its own: the others hold the work and the keys of other runs' agents.
    """
    usual = [*_usual_places(), Path.home()] if places is None else places
    found = []
    for place in usual:
        with contextlib.suppress(OSError):
            names = sorted(os.listdir(place))
            found += [place / name for name in names if name.startswith((STORE_PREFIX, AGENT_PREFIX))]
    return list(dict.fromkeys(found))


def _usual_places() -> list[Path]:
    usual = (os.environ.get("TMPDIR"), "/var/tmp", tempfile.gettempdir(), "/tmp")
    return list(dict.fromkeys(Path(place) for place in usual if place))


def _remove_dead(folder: Path, owners: set[int], youngest_s: float) -> bool:
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            is_old = time.time() - max(status.st_mtime, status.st_ctime) > youngest_s
            if status.st_uid in owners and stat.S_ISDIR(status.st_mode) and is_old:
                # Refused while a living harness holds it; held meanwhile against another sweep.
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(folder)
                return not folder.exists()
        finally:
            os.close(descriptor)
    return False
