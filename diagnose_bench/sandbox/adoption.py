"""Take in the orphans of a sandbox while it ends, so that they are waited for and leave no trace.

bubblewrap reports the end of a command and exits while process 1 of its namespace still dies. That process
goes to the machine's first process, which in many containers waits for nobody. Only for as long as commands
run, this process takes that place.
"""

from __future__ import annotations

import ctypes
import threading
from functools import cache

_SET_SUBREAPER, _GET_SUBREAPER = 36, 37

_lock = threading.Lock()
_users = 0
_was_set = False


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def begin_adopting() -> None:
    """Become the parent of orphans among this process's descendants; counts its callers."""
    global _users, _was_set
    with _lock:
        if _users == 0:
            current = ctypes.c_int()
            _libc().prctl(_GET_SUBREAPER, ctypes.byref(current), 0, 0, 0)
            _was_set = bool(current.value)
            _libc().prctl(_SET_SUBREAPER, 1, 0, 0, 0)
        _users += 1


def end_adopting() -> None:
    """Stop it when the last caller has ended, unless it was so before."""
    global _users
    with _lock:
        _users -= 1
        if _users == 0 and not _was_set:
            _libc().prctl(_SET_SUBREAPER, 0, 0, 0, 0)
