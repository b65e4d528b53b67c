"""Which host paths a sandbox may show: nothing of the project, of a truth or of a run. Binds nothing."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from diagnose_bench import layout
from diagnose_bench.errors import SandboxPolicyError
from diagnose_bench.sandbox.mounts import MountTable

SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives")
"""Host folders that every sandbox shows, read-only (those that exist)."""

MASKED_FOLDERS = ("/usr/local", "/usr/src", "/usr/share/doc", "/usr/games", "/usr/include")
"""Covered with empty folders: what somebody installed by hand, and text that is no help to a diagnosis."""


def project_paths() -> list[Path]:
    """The project's own folders on this machine, which no sandbox may show."""
    paths = [layout.package_folder(), layout.snapshots_root(), layout.data_root() / "ground_truth"]
    checkout = layout.checkout_root()
    if checkout is not None:
        paths.append(checkout)
    environment = Path(sys.prefix)
    if environment not in map(Path, (*SYSTEM_FOLDERS, "/usr/local", "/")):
        paths.append(environment)
    return paths


def home_folders() -> list[Path]:
    """The caller's home, if there is one."""
    try:
        home = Path.home()
    except RuntimeError:
        return []
    return [home] if home != Path("/") else []


def masks(forbidden: Iterable[Path]) -> list[Path]:
    """The places inside the system folders that must be covered so that nothing forbidden is seen.

    Raises
    ------
    SandboxPolicyError
        A forbidden folder contains a system folder, so that covering it would leave no tools.
    """
    table = MountTable.read()
    shown = [Path(folder).resolve() for folder in SYSTEM_FOLDERS if Path(folder).is_dir()]
    covered = [Path(folder) for folder in MASKED_FOLDERS]
    found: list[Path] = []
    for path in dict.fromkeys(path.resolve() for path in forbidden):
        for place in table.places(path):
            if any(folder.is_relative_to(place) for folder in shown):
                raise SandboxPolicyError(
                    f"{place}: must stay hidden from the sandbox, but the system's own programs lie in it. "
                    "Keep suites, truths, runs and the installation outside the system folders."
                )
            if (
                any(place.is_relative_to(folder) for folder in shown)
                and not any(place.is_relative_to(folder) for folder in covered)
                and place.exists()
            ):
                found.append(place)
    return [
        place for place in found if not any(place != other and place.is_relative_to(other) for other in found)
    ]


def check_source(snapshot: Path, forbidden: Sequence[Path]) -> Path:
    """The real path of a folder that may become /snapshot.

    Raises
    ------
    SandboxPolicyError
        It is no folder, or something forbidden lies in it, or it lies among the truths.
    """
    real = snapshot.resolve()
    if (problem := _no_folder(real)) is not None:
        raise SandboxPolicyError(f"{snapshot}: cannot be the snapshot: it {problem}.")
    for path in (*project_paths(), *forbidden):
        if path.resolve().is_relative_to(real):
            raise SandboxPolicyError(
                f"{snapshot}: cannot be the snapshot: {path} lies in it, which the sandbox must not show."
            )
    for path in (layout.data_root() / "ground_truth", *forbidden):
        if real.is_relative_to(path.resolve()):
            raise SandboxPolicyError(
                f"{snapshot}: cannot be the snapshot: it lies in {path}, which the sandbox must not show."
            )
    return real


def check_scratch(scratch: Path, snapshot: Path, forbidden: Sequence[Path]) -> Path:
    """The real path of a folder that may become /scratch, where a sandbox may write.

    Raises
    ------
    SandboxPolicyError
        It is no folder, or it is, contains or lies in something that a sandbox must not see or change.
    """
    real = scratch.resolve()
    if (problem := _no_folder(real)) is not None:
        raise SandboxPolicyError(f"{scratch}: cannot be the scratch folder: it {problem}.")
    truths = layout.data_root() / "ground_truth"
    never_in = (snapshot, layout.package_folder(), layout.snapshots_root(), truths, *forbidden)
    never_around = (*never_in, *project_paths(), *home_folders())
    system = tuple(map(Path, SYSTEM_FOLDERS))
    for path in (*never_in, *system):
        if real.is_relative_to(path.resolve()):
            raise SandboxPolicyError(_scratch_message(scratch, path))
    for path in (*never_around, *system):
        if path.resolve().is_relative_to(real):
            raise SandboxPolicyError(_scratch_message(scratch, path))
    return real


def _no_folder(path: Path) -> str | None:
    try:
        return None if stat.S_ISDIR(path.stat().st_mode) else "is not a folder"
    except FileNotFoundError:
        return "does not exist"
    except OSError as error:
        return f"cannot be entered: {refusal(path, error)}"


def refusal(path: Path, error: OSError) -> str:
    """Why the caller cannot get to a path: the folder in the way if there is one, and what to do."""
    real = path.resolve()
    closed = next((folder for folder in reversed(real.parents) if _is_closed(folder)), None)
    if closed is None:
        return f"{error.strerror}. Choose another folder"
    return f"{closed} is closed to you. Run chmod u+x on it if it is yours, or choose another folder"


def _is_closed(folder: Path) -> bool:
    try:
        return stat.S_ISDIR(folder.stat().st_mode) and not os.access(folder, os.X_OK)
    except OSError:
        return False


def _scratch_message(scratch: Path, path: Path) -> str:
    return f"{scratch}: cannot be the scratch folder because of {path}. Give an empty folder of its own."


def unreachable_parent(path: Path, uid: int) -> Path | None:
    """The first folder on the way to `path` (itself included) that `uid` cannot enter, or None."""
    real = path.resolve()
    for folder in (*reversed(real.parents), real):
        try:
            status = folder.stat()
        except OSError:
            return folder
        needed = stat.S_IXUSR if status.st_uid == uid else stat.S_IXOTH
        if not status.st_mode & needed:
            return folder
    return None
