"""The contract of a sandbox backend: one command in, one result out. No mechanism lives here."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from diagnose_bench.sandbox.limits import Limits


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How one command ended.

    Attributes
    ----------
    exit_code : int
        The command's own; 124 when it ran out of time, 137 when another limit stopped it, 126 when it
        could not be run at all.
    shown : bytes
        stdout and stderr in the order they came, cut in the middle when long, then a line of ours for a
        limit that was hit.
    n_bytes, sha256 : int, str
        Of everything the command printed, also of what was cut.
    seconds : float
        Wall clock.
    limit_hit : str or None
        wall, output, memory, scratch, disk, cpu, file_size or command; trial where ``stop`` was called,
        cancelled where ``cancel`` was.
    """

    exit_code: int
    shown: bytes
    n_bytes: int
    sha256: str
    seconds: float
    limit_hit: str | None = None

    @property
    def text(self) -> str:
        """What is shown, as text; bytes that are no UTF-8 become replacement characters."""
        return self.shown.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One question to a sandbox: what has to hold, whether it does, and what was found."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend isolates beyond files, network and limits, which all but ``none`` do.

    Attributes
    ----------
    has_own_paths : bool
        The snapshot is /snapshot and the scratch folder /scratch; else they are $SNAPSHOT and $SCRATCH.
    hides_names : bool
        Other files do not exist inside; else names and sizes can be probed, though nothing can be read.
    hides_processes : bool
        Other processes do not exist inside; else their numbers can be probed.
    shows_decoys : bool
        Decoys that it is given lie where they belong; else there are none.
    limits_by_cgroup : bool
        The kernel keeps the limits of memory and processes for all of a command; else what it keeps for
        each process and user has to do, and a watcher that adds up the memory.
    """

    has_own_paths: bool = True
    hides_names: bool = True
    hides_processes: bool = True
    shows_decoys: bool = True
    limits_by_cgroup: bool = False

    def as_dict(self) -> dict[str, bool]:
        """Name to value, for the record of a run."""
        return dataclasses.asdict(self)

    @property
    def notice(self) -> str:
        """What an agent has to be told beside the task, or nothing."""
        return "" if self.has_own_paths else PATHS_NOTICE


PATHS_NOTICE = (
    "On this machine the snapshot is the folder $SNAPSHOT and the scratch folder is $SCRATCH (also the "
    "current folder): there is no /snapshot and no /scratch. Write those variables in commands."
)


class Sandbox(Protocol):
    """A place where commands see one snapshot and one scratch folder, for one trial."""

    backend: str
    capabilities: Capabilities
    snapshot: Path
    scratch: Path
    limits: Limits

    def run(self, command: str, *, timeout_s: float | None = None) -> ExecResult:
        """Run one bash command; what the command does wrong is data, not an exception.

        Raises
        ------
        SandboxError
            The sandbox itself failed.
        """
        ...

    def stop(self) -> None:
        """End a command that runs, called from another thread; later commands end at once, too."""
        ...

    def cancel(self) -> None:
        """End the command that runs, called from another thread; later ones run as usual."""
        ...

    def close(self) -> None:
        """Remove everything that this sandbox made; a second call does nothing."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
