"""The JSON Schemas of the files that others read or write, by name; generated from the models, unchanged.

The files beside this module are what the functions gave when they were committed; ``python -m
diagnose_bench.schemas --write`` writes them anew.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from diagnose_bench.errors import UsageError
from diagnose_bench.files import pretty_json

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
FOLDER = Path(__file__).parent


def _diagnosis() -> dict[str, Any]:
    from diagnose_bench.diagnosis import diagnosis_schema

    return diagnosis_schema()


def _diagnosis_row() -> dict[str, Any]:
    from diagnose_bench.diagnosis_row import diagnosis_row_schema

    return diagnosis_row_schema()


def _ground_truth() -> dict[str, Any]:
    from diagnose_bench.ground_truth import ground_truth_schema

    return ground_truth_schema()


def _suite() -> dict[str, Any]:
    from diagnose_bench.suite import suite_schema

    return suite_schema()


def _snapshot() -> dict[str, Any]:
    from diagnose_bench.snapshot import snapshot_schema

    return snapshot_schema()


def _run() -> dict[str, Any]:
    from diagnose_bench.documents import versioned_schema
    from diagnose_bench.records import RunManifest

    return versioned_schema(RunManifest)


def _trial() -> dict[str, Any]:
    from diagnose_bench.documents import versioned_schema
    from diagnose_bench.records import TrialRecord

    return versioned_schema(TrialRecord)


def _command() -> dict[str, Any]:
    from diagnose_bench.records import CommandRecord

    return CommandRecord.model_json_schema()


def _submission() -> dict[str, Any]:
    from diagnose_bench.records import SubmissionRecord

    return SubmissionRecord.model_json_schema()


def _usage() -> dict[str, Any]:
    from diagnose_bench.records import ReportedUsage

    return ReportedUsage.model_json_schema()


def _scorecard() -> dict[str, Any]:
    from diagnose_bench.documents import versioned_schema
    from diagnose_bench.scorecard import Scorecard

    return versioned_schema(Scorecard)


# Looked up late, so that asking for one schema imports one model.
SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "command": _command,
    "diagnosis": _diagnosis,
    "diagnosis-row": _diagnosis_row,
    "ground-truth": _ground_truth,
    "run": _run,
    "scorecard": _scorecard,
    "snapshot": _snapshot,
    "submission": _submission,
    "suite": _suite,
    "trial": _trial,
    "usage": _usage,
}


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of one name.

    Raises
    ------
    UsageError
        No schema has that name.
    """
    if name not in SCHEMAS:
        raise UsageError(f'there is no schema "{name}". There are: {", ".join(SCHEMAS)}.')
    return {"$schema": _DIALECT, **SCHEMAS[name]()}


def committed_file(name: str) -> Path:
    """Where the committed copy of a schema lies."""
    return FOLDER / f"{name}.json"


def committed_bytes(name: str) -> bytes:
    """What the committed copy of a schema must hold."""
    return pretty_json(schema(name))
