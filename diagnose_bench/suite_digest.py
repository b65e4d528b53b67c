"""Digests and summaries of a suite: what ``suite digest|list|show`` print. Opens no truth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diagnose_bench.errors import SuiteError
from diagnose_bench.files import pretty_json, write_atomic
from diagnose_bench.snapshot import (
    MANIFEST_NAME,
    FileEntry,
    SnapshotManifest,
    build_manifest,
    load_manifest,
    manifest_digest,
)
from diagnose_bench.snapshot_truth import require_no_truth
from diagnose_bench.suite import Suite, bundled_suites, find_suite, load_suite
from diagnose_bench.suite_file import SUITE_NAME, SuiteEntry, SuiteFile, load_suite_file, suite_digest_of


@dataclass(frozen=True)
class ScenarioDigest:
    """Digest of one scenario, on record and as found."""

    scenario_id: str
    on_record: str | None
    found: str | None
    changed: tuple[str, ...]
    """Files that are new, gone or different from the manifest on disk."""

    @property
    def matches(self) -> bool:
        """Whether the bytes are those on record."""
        return self.on_record == self.found and not self.changed


@dataclass(frozen=True)
class SuiteDigest:
    """Digest of a suite, on record and as found."""

    path: Path
    on_record: str
    found: str
    scenarios: tuple[ScenarioDigest, ...]
    written: bool
    """Whether what was found is now what is on record."""

    @property
    def matches(self) -> bool:
        """Whether nothing differs from what was on record before."""
        return self.on_record == self.found and all(scenario.matches for scenario in self.scenarios)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "path": str(self.path),
            "on_record": self.on_record,
            "found": self.found,
            "matches": self.matches,
            "written": self.written,
            "scenarios": [
                {
                    "scenario_id": scenario.scenario_id,
                    "on_record": scenario.on_record,
                    "found": scenario.found,
                    "changed": list(scenario.changed),
                }
                for scenario in self.scenarios
            ],
        }


def digest_suite(name_or_path: str, *, write: bool = False) -> SuiteDigest:
    """Compute the digests of a suite from its bytes and, with ``write``, enter them.

    Every manifest is built before the first one is written, and ``suite.json`` is written last, so that an
    interruption leaves a suite that is refused, never one that looks right.

    Raises
    ------
    SuiteError
        The suite is no suite, a manifest lacks its window, or a snapshot holds what it must not hold.
    """
    folder = find_suite(name_or_path)
    file = load_suite_file(folder)
    _require_no_stray_folders(folder, file)
    manifests: dict[str, SnapshotManifest] = {}
    scenarios = []
    for entry in file.scenarios:
        snapshot = folder / entry.id
        if not snapshot.exists() and entry.digest is None:
            scenarios.append(ScenarioDigest(entry.id, None, None, ()))
            continue
        before = load_manifest(snapshot)
        after = build_manifest(snapshot, before.window, before.sources)
        for listed in after.files:
            require_no_truth(snapshot, listed.path)
        manifests[entry.id] = after
        scenarios.append(
            ScenarioDigest(
                entry.id, entry.digest, manifest_digest(after), _changed(before.files, after.files)
            )
        )
    new = file.model_copy(
        update={
            "scenarios": tuple(SuiteEntry(id=found.scenario_id, digest=found.found) for found in scenarios)
        }
    )
    if write:
        for scenario_id, manifest in manifests.items():
            write_manifest(folder / scenario_id, manifest)
        write_suite_file(folder, new)
    return SuiteDigest(folder, suite_digest_of(file), suite_digest_of(new), tuple(scenarios), write)


def write_manifest(folder: Path, manifest: SnapshotManifest) -> None:
    """Write ``snapshot.json``, whole or not at all."""
    write_atomic(folder / MANIFEST_NAME, pretty_json(manifest.model_dump(mode="json")))


def write_suite_file(folder: Path, file: SuiteFile) -> None:
    """Write ``suite.json``, whole or not at all."""
    write_atomic(folder / SUITE_NAME, pretty_json(file.model_dump(mode="json", exclude_none=False)))


def list_suites() -> list[dict[str, Any]]:
    """Return a line for each bundled suite: name, version, digest, number of scenarios, path."""
    suites = [load_suite(name) for name in bundled_suites()]
    return [
        {
            "name": suite.name,
            "version": suite.version,
            "digest": suite.digest,
            "n_scenarios": len(suite.scenarios),
            "path": str(suite.path),
        }
        for suite in suites
    ]


def suite_summary(suite: Suite) -> dict[str, Any]:
    """Return what lies in a suite, scenario by scenario, out of the manifests alone.

    Raises
    ------
    SuiteError
        A manifest is missing or damaged.
    """
    scenarios = []
    for scenario in suite.scenarios:
        manifest = load_manifest(scenario.snapshot) if scenario.snapshot is not None else None
        files = manifest.files if manifest is not None else ()
        scenarios.append(
            {
                "id": scenario.id,
                "digest": scenario.digest,
                "window": manifest.window.model_dump(mode="json") if manifest is not None else None,
                "n_files": len(files),
                "n_bytes": sum(entry.n_bytes for entry in files),
                "kinds": _by_kind(files),
            }
        )
    return {
        "name": suite.name,
        "version": suite.version,
        "digest": suite.digest,
        "path": str(suite.path),
        "pass_score": suite.pass_score,
        "splits": {name: list(ids) for name, ids in suite.splits.items()} if suite.splits else None,
        "n_scenarios": len(scenarios),
        "n_files": sum(scenario["n_files"] for scenario in scenarios),
        "n_bytes": sum(scenario["n_bytes"] for scenario in scenarios),
        "scenarios": scenarios,
    }


def _by_kind(files: Iterable[FileEntry]) -> dict[str, dict[str, int]]:
    kinds: dict[str, dict[str, int]] = {}
    for entry in files:
        totals = kinds.setdefault(entry.kind, {"n_files": 0, "n_rows": 0, "n_bytes": 0})
        totals["n_files"] += 1
        totals["n_rows"] += entry.n_rows
        totals["n_bytes"] += entry.n_bytes
    return dict(sorted(kinds.items()))


def _changed(before: Iterable[FileEntry], after: Iterable[FileEntry]) -> tuple[str, ...]:
    old = {entry.path: entry for entry in before}
    new = {entry.path: entry for entry in after}
    return tuple(sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path)))


def _require_no_stray_folders(folder: Path, file: SuiteFile) -> None:
    known = {entry.id for entry in file.scenarios}
    try:
        stray = sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and entry.name not in known)
    except OSError as error:
        raise SuiteError(f"{folder}: cannot look into the folder: {error.strerror}.") from error
    if stray:
        raise SuiteError(
            f"{folder / stray[0]}: is no scenario of {SUITE_NAME}. List it there, or move it away."
        )
