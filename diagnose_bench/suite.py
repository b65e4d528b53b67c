"""Suites: find one, load it, hold a snapshot against its manifest. Knows nothing of truths.

That truths exist is known here only in so far as a snapshot that holds one is refused.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from diagnose_bench.errors import DigestMismatchError, SuiteError
from diagnose_bench.files import sha256_of_file
from diagnose_bench.layout import snapshots_root
from diagnose_bench.snapshot import MANIFEST_NAME, FileEntry, SnapshotManifest, load_manifest, manifest_digest
from diagnose_bench.snapshot_tree import check_tree, list_files
from diagnose_bench.snapshot_truth import require_no_truth
from diagnose_bench.suite_file import (
    SUITE_NAME,
    SuiteEntry,
    load_suite_file,
    suite_digest_of,
    suite_schema,
)

__all__ = [
    "Scenario",
    "Suite",
    "bundled_suites",
    "did_you_mean",
    "find_suite",
    "load_suite",
    "suite_schema",
    "verify_scenario",
]


@dataclass(frozen=True)
class Scenario:
    """One incident of a suite."""

    id: str
    snapshot: Path | None
    """Folder of the frozen evidence; None in a suite of truths alone."""
    digest: str | None
    """SHA-256 of the snapshot's manifest."""


@dataclass(frozen=True)
class Suite:
    """A named, versioned, digested set of scenarios."""

    name: str
    version: str
    pass_score: float
    splits: dict[str, tuple[str, ...]] | None
    scenarios: tuple[Scenario, ...]
    digest: str
    path: Path

    def scenario(self, id_or_number: str) -> Scenario:
        """Find a scenario by its id, or by its number if only one has it (``2``, ``Scenario-2``).

        Raises
        ------
        SuiteError
            Unknown, or the number is not unique; the message names the close ones.
        """
        for scenario in self.scenarios:
            if scenario.id == id_or_number:
                return scenario
        number = _number_of(id_or_number)
        found = [scenario for scenario in self.scenarios if number and _number_of(scenario.id) == number]
        if len(found) == 1:
            return found[0]
        ids = [scenario.id for scenario in self.scenarios]
        if found:
            hint = f"Several have that number: {', '.join(scenario.id for scenario in found)}."
        else:
            # Next to a number that is not there no other number is more likely meant.
            close = "" if number else did_you_mean(id_or_number, ids)
            hint = close or f"It has {_shortened(ids)}."
        raise SuiteError(f'{self.path}: suite "{self.name}" has no scenario {id_or_number!r}. {hint}')


def load_suite(name_or_path: str) -> Suite:
    """Load a bundled suite by its name, or any suite by its folder ``…/snapshots/<suite>``.

    Nothing but ``suite.json`` is read; ``verify_scenario`` looks at the bytes.

    Raises
    ------
    SuiteError
        No such suite, or its ``suite.json`` is wrong.
    """
    folder = find_suite(name_or_path)
    file = load_suite_file(folder)
    return Suite(
        name=file.name,
        version=file.version,
        pass_score=file.pass_score,
        splits=file.splits,
        scenarios=tuple(_scenario(folder, entry) for entry in file.scenarios),
        digest=suite_digest_of(file),
        path=folder,
    )


def find_suite(name_or_path: str) -> Path:
    """Return the folder of a suite, given its bundled name or its path.

    Raises
    ------
    SuiteError
        Nothing there is a suite; the message says what would be.
    """
    root = snapshots_root()
    if re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,99}", name_or_path) and os.path.isfile(
        root / name_or_path / SUITE_NAME
    ):
        return (root / name_or_path).resolve()
    path = Path(name_or_path)
    if not name_or_path or "\0" in name_or_path or not os.path.isdir(path):
        bundled = bundled_suites()
        known = f"Bundled: {', '.join(bundled)}." if bundled else "No suite is bundled here."
        hint = did_you_mean(name_or_path, bundled)
        raise SuiteError(
            f"{name_or_path!r} is neither a bundled suite nor a folder. {hint + ' ' if hint else ''}{known} "
            "A suite of your own is given as the path …/snapshots/<suite>."
        )
    path = path.resolve()
    if not os.access(path, os.R_OK | os.X_OK):
        raise SuiteError(f"{path}: cannot look into the folder: Permission denied. Check its permissions.")
    if os.path.isfile(path / SUITE_NAME):
        if path.parent.name != "snapshots":
            raise SuiteError(
                f"{path}: a suite must lie in a folder called snapshots (…/snapshots/{path.name}), "
                f"so that its truths have their place in …/ground_truth/{path.name}. Move it."
            )
        return path
    raise SuiteError(f"{path}: holds no {SUITE_NAME}, so it is no suite. {_where_suite_may_be(path)}")


def bundled_suites() -> list[str]:
    """Return the names of the suites that come with the package."""
    root = snapshots_root()
    if not root.is_dir():
        return []
    return sorted(folder.name for folder in root.iterdir() if (folder / SUITE_NAME).is_file())


def verify_scenario(scenario: Scenario, on_warning: Callable[[str], None] | None = None) -> SnapshotManifest:
    """Hold a snapshot against its digest and its manifest, byte for byte; every file is streamed.

    Parameters
    ----------
    scenario : Scenario
        A scenario with a snapshot.
    on_warning : callable, optional
        Told of what is allowed and odd: files with further hard links.

    Raises
    ------
    DigestMismatchError
        The manifest or a file is not the one on record, a file is missing or one too many is there.
    SuiteError
        There is no snapshot, or it holds what a snapshot must not hold: a truth, a link out of it, a device.
    """
    folder = scenario.snapshot
    if folder is None:
        raise SuiteError(
            f"{scenario.id}: the suite has truths alone, so there is no snapshot of this scenario. It can "
            "only score recorded answers: diagnose-bench import diagnoses."
        )
    for warning in check_tree(folder):
        if on_warning is not None:
            on_warning(warning)
    manifest = load_manifest(folder)
    found = manifest_digest(manifest)
    if found != scenario.digest:
        raise DigestMismatchError(
            f"{folder / MANIFEST_NAME}: has digest {found[:12]}, but the suite has {_short(scenario.digest)} "
            f"on record. {_RESTORE}"
        )
    names = {name for name in list_files(folder) if name != MANIFEST_NAME}
    listed = {entry.path for entry in manifest.files}
    if missing := sorted(listed - names):
        raise DigestMismatchError(
            f"{folder}: {_shortened(missing)} in the manifest but not there. {_RESTORE}"
        )
    if extra := sorted(names - listed):
        for name in extra:
            require_no_truth(folder, name)
        raise DigestMismatchError(f"{folder}: {_shortened(extra)} there but not in the manifest. {_RESTORE}")
    for name in sorted(names):
        require_no_truth(folder, name)
    for entry in manifest.files:
        _verify_file(folder / entry.path, entry)
    return manifest


_RESTORE = (
    "Fetch the suite again; if the change is meant, enter it with: diagnose-bench suite digest SUITE --write"
)


def _verify_file(path: Path, entry: FileEntry) -> None:
    try:
        n_bytes = path.stat().st_size
        found = sha256_of_file(path) if n_bytes == entry.n_bytes else None
    except OSError as error:
        raise SuiteError(f"{path}: cannot read the file: {error.strerror}.") from error
    if found is None:
        raise DigestMismatchError(
            f"{path}: has {n_bytes} bytes, but {entry.n_bytes} are on record. {_RESTORE}"
        )
    if found != entry.sha256:
        raise DigestMismatchError(
            f"{path}: has digest {found[:12]}, but {_short(entry.sha256)} is on record. {_RESTORE}"
        )


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return a sentence that names close spellings, or nothing."""
    close = difflib.get_close_matches(given[:200], list(known), n=3, cutoff=0.6)
    return f"Did you mean {' or '.join(close)}?" if close else ""


def _scenario(folder: Path, entry: SuiteEntry) -> Scenario:
    snapshot = folder / entry.id
    if entry.digest is None:
        if os.path.lexists(snapshot):
            raise SuiteError(
                f'{folder / SUITE_NAME}: "{entry.id}" has a snapshot but no digest. '
                "Enter it with: diagnose-bench suite digest SUITE --write"
            )
        return Scenario(entry.id, None, None)
    if not os.path.isdir(snapshot) or snapshot.is_symlink():
        raise SuiteError(f"{snapshot}: the snapshot of this scenario is missing, or no folder. {_RESTORE}")
    return Scenario(entry.id, snapshot, entry.digest)


def _number_of(text: str) -> str | None:
    """Return the number of ``2``, ``Scenario-2`` or ``scenario-002``, as text: it may be long."""
    match = re.fullmatch(r"(?:scenario[-_ ]?)?0*(\d+)", text.strip(), re.ASCII | re.IGNORECASE)
    return match[1] if match else None


def _where_suite_may_be(path: Path) -> str:
    if os.path.isfile(path.parent / SUITE_NAME):
        return f"It is a scenario of the suite {path.parent}: give that path."
    for folder in (path, path / "snapshots"):
        with contextlib.suppress(OSError):
            found = sorted(entry.name for entry in folder.iterdir() if (entry / SUITE_NAME).is_file())
            if found:
                return f"Did you mean {folder / found[0]}?"
    return "A suite is given as the path …/snapshots/<suite>."


def _shortened(names: list[str]) -> str:
    shown = ", ".join(names[:10])
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"


def _short(digest: str | None) -> str:
    return digest[:12] if digest else "none"
