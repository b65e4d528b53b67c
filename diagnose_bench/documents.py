"""Reads a versioned JSON document of ours into a strict model, with one message where it is wrong.

Knows no document in particular: the models of suites and snapshots build on it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from diagnose_bench.errors import DiagnoseBenchError, SuiteError
from diagnose_bench.files import read_bytes

_MAX_BYTES = 256 << 20
_MAX_LISTED = 5
_RESTORE = "Mend it, or fetch the suite again."


class Document(BaseModel):
    """A frozen, strict model; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


# Literal[1] would take true, which equals 1 in Python and not in JSON.
VersionOne = Annotated[int, Field(ge=1, le=1)]

_Model = TypeVar("_Model", bound=Document)


def load_document(
    path: Path, model: type[_Model], what: str, version: int, *, if_missing: str = ""
) -> _Model:
    """Read and check a JSON file; its ``format_version`` is judged before anything else.

    Parameters
    ----------
    path : Path
        The file.
    model : type
        The model to read it into.
    what : str
        What the file is, for messages ("suite", "snapshot manifest").
    version : int
        The format version that this code reads.
    if_missing : str
        What to do where there is no such file.

    Raises
    ------
    SuiteError
        Missing, unreadable, no JSON, another format version, or not what the model asks for.
    """
    try:
        data = read_bytes(path, what, _MAX_BYTES)
    except SuiteError:
        raise
    except DiagnoseBenchError as error:
        advice = "" if isinstance(error.__cause__, OSError) else f" {_RESTORE}"
        if if_missing and not os.path.lexists(path):
            advice = f" {if_missing}"
        raise SuiteError(f"{error}{advice}") from error
    value = _parse(data, path, what)
    _check_version(value, path, what, version)
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        raise SuiteError(f"{path}: the {what} is wrong:\n{validation_reasons(error)}") from error


def document_schema(model: type[Document], title: str) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a document."""
    schema = versioned_schema(model)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": title}


def versioned_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a file with a ``format_version``: no reader of ours takes one without it."""
    schema = model.model_json_schema()
    schema["properties"]["format_version"].pop("default", None)
    schema["required"] = list(dict.fromkeys(["format_version", *schema.get("required", ())]))
    return schema


def validation_reasons(error: ValidationError) -> str:
    """Return one line per fault: JSON path and reason, the first few only."""
    every = error.errors(include_url=False, include_input=False)
    # A list whose members are wrong is "too short" too: it has lost them.
    faults = [
        fault
        for fault in every
        if fault["type"] != "too_short" or not any(_lies_in(other["loc"], fault["loc"]) for other in every)
    ]
    lines = [f"  {_json_path(fault['loc'])}: {_reason(fault)}" for fault in faults[:_MAX_LISTED]]
    if len(faults) > _MAX_LISTED:
        lines.append(f"  … and {len(faults) - _MAX_LISTED} more")
    return "\n".join(lines)


def _lies_in(inner: tuple[int | str, ...], outer: tuple[int | str, ...]) -> bool:
    return len(inner) > len(outer) and inner[: len(outer)] == outer


def _reason(fault: ErrorDetails) -> str:
    if fault["type"] == "too_short":
        return f"must have at least {fault['ctx']['min_length']}, and has {fault['ctx']['actual_length']}"
    return fault["msg"].removeprefix("Value error, ")


def _json_path(location: tuple[int | str, ...]) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)


def _parse(data: bytes, path: Path, what: str) -> Any:
    try:
        return json.loads(data, object_pairs_hook=_no_duplicates)
    except RecursionError as error:
        raise SuiteError(f"{path}: the {what} is nested too deeply. {_RESTORE}") from error
    except ValueError as error:
        raise SuiteError(f"{path}: the {what} is not JSON: {error}. {_RESTORE}") from error


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return value


def _check_version(value: Any, path: Path, what: str, version: int) -> None:
    if not isinstance(value, dict):
        raise SuiteError(f"{path}: the {what} must be a JSON object, not {type(value).__name__}. {_RESTORE}")
    found = value.get("format_version")
    if not isinstance(found, int) or isinstance(found, bool):
        raise SuiteError(
            f"{path}: $.format_version is missing or no whole number. "
            f'A {what} of this version of diagnose-bench begins with "format_version": {version}.'
        )
    if found > version:
        raise SuiteError(
            f"{path}: format_version {found} is newer than this diagnose-bench reads ({version}). "
            "Upgrade diagnose-bench, or fetch the data in the older format."
        )
    if found < version:
        raise SuiteError(
            f"{path}: format_version {found} is older than this diagnose-bench reads ({version}). "
            "Import or generate the suite again with this version."
        )
