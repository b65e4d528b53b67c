"""What a sandbox can be given beyond a snapshot and a scratch folder. Values and what follows from them.

A backend that cannot give one of them has to refuse it, except decoys: without them less is seen, nothing is
less safe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from diagnose_bench.errors import SandboxUnavailableError
from diagnose_bench.sandbox.notification import Call

TOOLBOX_PLACE = "/opt/toolbox"
TOOLBOX_ENVIRONMENT: Mapping[str, str] = {
    "PYTHONPATH": TOOLBOX_PLACE,
    "PATH": f"/usr/bin:/bin:/usr/sbin:/sbin:{TOOLBOX_PLACE}/bin",
    # One thread per processor of a large machine would pass the limits of processes and of address space.
    "OMP_NUM_THREADS": "4",
    "OPENBLAS_NUM_THREADS": "4",
}


class Observer(Protocol):
    """Who is told of the system calls that an audited sandbox reports."""

    def observe(self, call: Call) -> None:
        """Take note of one call, in a thread of the sandbox's; decides nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Extras:
    """Additions to a sandbox.

    Attributes
    ----------
    toolbox : Path or None
        A folder to show, read-only, at ``/opt/toolbox``, for python3 and on the PATH.
    decoys : tuple of (str, Path)
        Place in the sandbox, and the file of the host that is shown there, read-only. No place lies below
        /snapshot or /scratch.
    observer : Observer or None
        Told of calls that try to leave the sandbox or to write where nothing may be written.
    """

    toolbox: Path | None = None
    decoys: tuple[tuple[str, Path], ...] = ()
    observer: Observer | None = None

    def binds(self) -> list[tuple[Path, str]]:
        """What to show read-only, and where."""
        toolbox = [] if self.toolbox is None else [(self.toolbox, TOOLBOX_PLACE)]
        return [*toolbox, *((file, place) for place, file in self.decoys)]

    def folders(self) -> list[Path]:
        """Folders of the host that whoever is in the sandbox has to be able to reach."""
        return [source if source.is_dir() else source.parent for source, _ in self.binds()]

    def environment(self) -> dict[str, str]:
        """Variables to set beside the usual ones."""
        return {} if self.toolbox is None else dict(TOOLBOX_ENVIRONMENT)

    def require_no_observer(self, backend: str) -> None:
        """Refuse what only bubblewrap can give.

        Raises
        ------
        SandboxUnavailableError
            Somebody wants to be told of system calls.
        """
        if self.observer is not None:
            raise SandboxUnavailableError(
                f"--audit needs the bwrap sandbox and does not work with {backend}: leave it out."
            )


NO_EXTRAS = Extras()
