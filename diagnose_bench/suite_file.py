"""``suite.json``: its fields, its checks, its digest. Looks at no snapshot and knows nothing of truths."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, StringConstraints, model_validator

from diagnose_bench.documents import Document, VersionOne, document_schema, load_document
from diagnose_bench.files import canonical_json, sha256_of_bytes

SUITE_NAME = "suite.json"
SUITE_FORMAT_VERSION: Final = 1

Identifier = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]*$", max_length=100)]
"""Of suites, scenarios and splits; a folder name everywhere, so nothing that a path could mean otherwise."""
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class SuiteEntry(Document):
    """A scenario in ``suite.json``."""

    id: Identifier
    digest: Sha256 | None = None
    """Null, or not there, in a suite of truths without snapshots and before the first ``suite digest``."""


class SuiteFile(Document):
    """``suite.json``."""

    format_version: VersionOne = SUITE_FORMAT_VERSION
    name: Identifier
    version: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    pass_score: Annotated[float, Field(gt=0, le=1)] = 1.0
    splits: dict[Identifier, tuple[Identifier, ...]] | None = None
    """Disjoint parts that cover the suite; the headline is the mean of their means."""
    scenarios: Annotated[tuple[SuiteEntry, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _consistent(self) -> SuiteFile:
        ids = [entry.id for entry in self.scenarios]
        if twice := _first_repeated(ids):
            raise ValueError(f'scenario "{twice}" is listed twice')
        if self.splits is None:
            return self
        if empty := [name for name, members in self.splits.items() if not members]:
            raise ValueError(f'split "{empty[0]}" is empty')
        members = [member for part in self.splits.values() for member in part]
        if twice := _first_repeated(members):
            raise ValueError(f'splits must be disjoint, but "{twice}" is in them twice')
        if unknown := sorted(set(members) - set(ids)):
            raise ValueError(f'the splits name "{unknown[0]}", which is no scenario of the suite')
        if missing := sorted(set(ids) - set(members)):
            raise ValueError(f'splits must cover the suite, but "{missing[0]}" is in none')
        return self


def load_suite_file(folder: Path) -> SuiteFile:
    """Read ``suite.json`` of a suite's folder.

    Raises
    ------
    SuiteError
        Missing, damaged, or of another format version.
    """
    return load_document(folder / SUITE_NAME, SuiteFile, "suite", SUITE_FORMAT_VERSION)


def suite_digest_of(file: SuiteFile) -> str:
    """Return the digest of a suite: all in it that can change a score, down to the snapshots' bytes."""
    return sha256_of_bytes(
        canonical_json(
            {
                "name": file.name,
                "version": file.version,
                "pass_score": file.pass_score,
                "splits": file.splits,
                "scenarios": [{"id": entry.id, "digest": entry.digest} for entry in file.scenarios],
            }
        )
    )


def suite_schema() -> dict[str, Any]:
    """Return the JSON Schema of ``suite.json``."""
    return document_schema(SuiteFile, "diagnose-bench suite")


def _first_repeated(names: list[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
