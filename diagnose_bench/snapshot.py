"""The manifest of one snapshot: what lies in it, how much, and which bytes. Knows nothing of truths.

A manifest is ``snapshot.json`` in the snapshot's folder. The agent reads it too, so it must never
name the scenario, the organisation or anything else that hints at the answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from diagnose_bench.documents import Document, VersionOne, document_schema, load_document
from diagnose_bench.errors import SuiteError
from diagnose_bench.files import canonical_json, sha256_of_bytes, sha256_of_file
from diagnose_bench.snapshot_rows import classify, count_rows
from diagnose_bench.snapshot_tree import check_tree, list_files

__all__ = [
    "MANIFEST_NAME",
    "FileEntry",
    "SnapshotManifest",
    "Window",
    "build_manifest",
    "check_tree",
    "load_manifest",
    "manifest_digest",
    "snapshot_schema",
    "time_key",
]

MANIFEST_NAME = "snapshot.json"
SNAPSHOT_FORMAT_VERSION: Final = 1
_HOW_TO_BEGIN = (
    "Fetch the suite again; or, for a scenario of your own, write one with the times of the incident: "
    '{"format_version": 1, "window": {"start": "2025-03-01T10:00:00Z", "detected_at": "2025-03-01T10:30:00Z",'
    ' "end": "2025-03-01T10:45:00Z"}, "files": [], "sources": []}, and let '
    '"diagnose-bench suite digest SUITE --write" enter the files.'
)

# No \d: it takes the digits of every script.
_TIME_PATTERN = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|\+00:00)$"
Time = Annotated[str, StringConstraints(pattern=_TIME_PATTERN)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]
Kind = Literal["alerts", "events", "traces", "logs", "metrics", "topology", "objects", "changes", "raw"]


def time_key(text: str) -> tuple[datetime, int]:
    """Return a sortable key of an RFC 3339 time in UTC, exact to the nanosecond.

    Raises
    ------
    ValueError
        No such time exists, or it is not in UTC.
    """
    if not re.fullmatch(_TIME_PATTERN, text):
        raise ValueError(f"{text!r} is no RFC 3339 time in UTC such as 2025-12-15T17:30:49Z")
    fraction = re.search(r"\.(\d+)", text)
    seconds = datetime.strptime(text[:19], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
    return seconds, int(fraction[1].ljust(9, "0")) if fraction else 0


class Window(Document):
    """The time that a snapshot covers (RFC 3339, UTC)."""

    start: Time
    detected_at: Time
    """When somebody noticed: the moment the agent is called."""
    end: Time

    @model_validator(mode="after")
    def _in_order(self) -> Window:
        start, detected_at, end = time_key(self.start), time_key(self.detected_at), time_key(self.end)
        if not start <= detected_at <= end:
            raise ValueError("start <= detected_at <= end does not hold")
        return self


class FileEntry(Document):
    """One file of a snapshot."""

    path: str
    """Relative to the snapshot's folder, with forward slashes."""
    kind: Kind
    format: str
    n_rows: Count
    """Records: lines, data rows, spans; 1 for a JSON document."""
    n_bytes: Count
    sha256: Sha256

    @field_validator("path")
    @classmethod
    def _stays_inside(cls, path: str) -> str:
        parts = path.split("/")
        if not path or any(part in ("", ".", "..") for part in parts) or re.search(r"[\x00-\x1f\x7f]", path):
            raise ValueError(f"{path!r} is no plain relative path")
        if path == MANIFEST_NAME:
            raise ValueError(f"{MANIFEST_NAME} cannot list itself")
        return path


class SnapshotManifest(Document):
    """``snapshot.json``."""

    format_version: VersionOne = SNAPSHOT_FORMAT_VERSION
    window: Window
    files: tuple[FileEntry, ...]
    sources: tuple[str, ...] = ()
    """Where the bytes come from, in words that give nothing away."""

    @field_validator("files")
    @classmethod
    def _each_once(cls, files: tuple[FileEntry, ...]) -> tuple[FileEntry, ...]:
        seen: set[str] = set()
        for entry in files:
            if entry.path in seen:
                raise ValueError(f"{entry.path!r} is listed twice")
            seen.add(entry.path)
        return files

    def files_of(self, kind: str) -> tuple[FileEntry, ...]:
        """Return the files of one kind, in the order of the manifest."""
        return tuple(entry for entry in self.files if entry.kind == kind)


def load_manifest(folder: Path) -> SnapshotManifest:
    """Read the manifest of a snapshot's folder, without looking at the files that it lists.

    Raises
    ------
    SuiteError
        Missing, damaged, or of another format version.
    """
    return load_document(
        folder / MANIFEST_NAME,
        SnapshotManifest,
        "snapshot manifest",
        SNAPSHOT_FORMAT_VERSION,
        if_missing=_HOW_TO_BEGIN,
    )


def build_manifest(
    folder: Path,
    window: Window | Mapping[str, str],
    sources: Sequence[str] = (),
    *,
    n_rows: Mapping[str, int] | None = None,
) -> SnapshotManifest:
    """Describe the files of a folder; every file is streamed, none is held in memory.

    Parameters
    ----------
    folder : Path
        The snapshot; a ``snapshot.json`` already there is not listed.
    window : Window or mapping
        ``start``, ``detected_at`` and ``end``.
    sources : sequence of str
        Origin, in words that give nothing away.
    n_rows : mapping, optional
        Counts by path that the caller has already; the others are counted here.

    Raises
    ------
    SuiteError
        The folder holds what a snapshot must not hold, or a file cannot be read.
    """
    check_tree(folder)
    known = n_rows or {}
    entries = []
    for name in list_files(folder):
        if name == MANIFEST_NAME:
            continue
        path = folder / name
        kind, format_ = classify(PurePosixPath(name))
        try:
            entries.append(
                {
                    "path": name,
                    "kind": kind,
                    "format": format_,
                    "n_rows": known[name] if name in known else count_rows(path, format_),
                    "n_bytes": path.stat().st_size,
                    "sha256": sha256_of_file(path),
                }
            )
        except OSError as error:
            raise SuiteError(f"{path}: cannot read the file: {error.strerror}.") from error
    try:
        return SnapshotManifest(
            window=window if isinstance(window, Window) else Window(**window),
            files=tuple(FileEntry.model_validate(entry) for entry in entries),
            sources=tuple(sources),
        )
    except ValueError as error:
        raise SuiteError(f"{folder}: no manifest can be made: {error}") from error


def manifest_digest(manifest: SnapshotManifest) -> str:
    """Return the digest of a scenario: SHA-256 of the manifest as canonical JSON."""
    return sha256_of_bytes(canonical_json(manifest.model_dump(mode="json")))


def snapshot_schema() -> dict[str, Any]:
    """Return the JSON Schema of ``snapshot.json``."""
    return document_schema(SnapshotManifest, "diagnose-bench snapshot manifest")
