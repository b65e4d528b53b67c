"""Limits of the agent's own process, so that it cannot use up what it shares with the harness's user."""

from __future__ import annotations

import contextlib
import resource

MAX_FILES = 4096
_OWN_FILES = 16384
_LEAST_PROCESSES = 64


def raise_own_limit() -> None:
    """Let the harness have more descriptors than an agent, as far as its hard limit allows.

    Notes
    -----
    Descriptors on their way through sockets are counted by user, and held against the limit of whoever sends.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OWN_FILES if hard == resource.RLIM_INFINITY else min(_OWN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def agent_limits() -> tuple[int, int | None]:
    """How many descriptors, and how many processes of its user, an agent's process may have.

    Returns
    -------
    n_files : int
        At most half of what the harness may have.
    n_processes : int or None
        Three quarters of the harness's own limit; None where that has none, or where little would be left.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    n_files = MAX_FILES if files == resource.RLIM_INFINITY else min(MAX_FILES, files // 2)
    processes, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    n_processes = None if processes == resource.RLIM_INFINITY else processes * 3 // 4
    return n_files, n_processes if n_processes is None or n_processes >= _LEAST_PROCESSES else None


def limiting_shell() -> tuple[str, ...]:
    """The beginning of a command line that takes the limits on and becomes the rest of it."""
    n_files, n_processes = agent_limits()
    # The option for processes differs between shells.
    limits = [f"ulimit -n {n_files}"]
    if n_processes is not None:
        limits.append(f"ulimit -u {n_processes} 2>/dev/null || ulimit -p {n_processes} 2>/dev/null")
    return ("/bin/sh", "-c", "; ".join((*limits, 'exec "$@"')), "sh")
