"""From a backend's name to an open sandbox. The only place that chooses; it never falls back in silence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from diagnose_bench.errors import UsageError
from diagnose_bench.sandbox.base import Sandbox
from diagnose_bench.sandbox.bubblewrap import BubblewrapSandbox, dropped_id, find_bubblewrap
from diagnose_bench.sandbox.limits import Limits
from diagnose_bench.sandbox.none import UnsandboxedShell
from diagnose_bench.sandbox.scratch import remove_tree
from diagnose_bench.sandbox.store import private_folder

BACKENDS = ("auto", "bwrap", "none")


def open_sandbox(
    backend: str,
    snapshot: Path,
    *,
    scratch: Path | None = None,
    limits: Limits | None = None,
    forbidden: Sequence[Path] = (),
) -> Sandbox:
    """Open a sandbox over one snapshot, for one trial.

    Parameters
    ----------
    backend : str
        ``bwrap``, ``none`` (no isolation: has to be spelled out), or ``auto``, which is ``bwrap``.
    snapshot : Path
        The folder that becomes /snapshot. Its path can be read inside: give a copy from ``SnapshotStore``.
    scratch : Path or None
        The folder that becomes /scratch; None makes one that goes away with the sandbox.
    limits : Limits or None
        None takes the defaults.
    forbidden : sequence of Path
        Truths, runs and whatever else must not be visible, beside the project's own folders.

    Raises
    ------
    SandboxUnavailableError
        The backend does not work here; the message says what to type.
    SandboxPolicyError
        Something that must not be visible would be.
    """
    if backend not in BACKENDS:
        raise UsageError(f"--sandbox {backend}: unknown. Known are {', '.join(BACKENDS)}.")
    kind = UnsandboxedShell if backend == "none" else BubblewrapSandbox
    uid = None
    if backend != "none":
        find_bubblewrap()
        uid = dropped_id()
    own = scratch is None
    home = private_folder(uid=uid) if scratch is None else scratch
    try:
        return kind(snapshot, home, limits=limits or Limits(), forbidden=forbidden, own_scratch=own)
    except BaseException:
        if own:
            remove_tree(home)
        raise
