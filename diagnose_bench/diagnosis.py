"""Diagnosis: what an agent submits, in its native shape and in the shapes that are read as the same.

Checks form only, size first. It repairs nothing (`diagnosis_reader` does) and never looks at an inventory or
a truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from diagnose_bench.diagnosis_json import (
    MAX_DEPTH,
    BrokenValue,
    ParsedValue,
    ValueReader,
    printable,
    skip_space,
)
from diagnose_bench.diagnosis_model import MAX_ENTITIES, Diagnosis, RootCause, diagnosis_schema
from diagnose_bench.errors import DiagnosisError

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_ENTITIES",
    "Diagnosis",
    "RootCause",
    "ShapeReading",
    "diagnosis_schema",
    "parse_strict",
    "read_shape",
    "validate_submission",
]

MAX_BYTES = 1 << 20
_MAX_PROBLEMS = 20
_SHAPE_KEYS = ("root_causes", "contributing_factors", "entities")  # in the order of precedence
_REASONS = {
    "missing": "is missing",
    "model_type": "must be an object",
    "dict_type": "must be an object",
    "string_type": "must be a string",
    "int_type": "must be an integer",
    "float_type": "must be a number",
}
# In words: an agent that prints this message must not be read as having answered with the example.
_EXPECTED = 'an object with "root_causes", a list of objects that have an "entity": "namespace/Kind/name"'


@dataclass(frozen=True, slots=True)
class ShapeReading:
    """A value with the shape of a diagnosis: the diagnosis, or its problems (JSON path and reason)."""

    diagnosis: Diagnosis | None
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def validate_submission(data: bytes) -> Diagnosis:
    """The diagnosis in what an agent hands to the submit channel: JSON as it stands, in any of the shapes.

    Raises
    ------
    DiagnosisError
        With the JSON path and the reason of each problem, the first twenty of them.
    """
    if len(data) > MAX_BYTES:
        raise _refused([f"$: {len(data)} bytes; at most {MAX_BYTES} are read"])
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refused([f"$: not UTF-8 at byte {error.start}"]) from None
    parsed = parse_strict(text)
    if isinstance(parsed, str):
        raise _refused([f"$: {parsed}"])
    reading = read_shape(parsed)
    if reading is None:
        raise _refused([f"$: {no_shape(parsed.value)}"])
    if reading.diagnosis is None:
        raise _refused(reading.problems)
    return reading.diagnosis


def parse_strict(text: str) -> ParsedValue | str:
    """The one JSON value that the whole text is, or the reason why it is none."""
    start = skip_space(text, 0)
    if start == len(text):
        return "the text is blank"
    parsed = ValueReader(text, strict=True).read(start)
    if isinstance(parsed, BrokenValue):
        return f"not JSON: {where(text, parsed.end)}: {parsed.reason}"
    end = skip_space(text, parsed.end)
    if end != len(text):
        return f'not JSON: {where(text, end)}: "{printable(text[end : end + 20])}" follows after the end'
    return parsed


def where(text: str, position: int) -> str:
    """Line and column of a position, from 1, for a message."""
    line_start = text.rfind("\n", 0, position) + 1
    return f"line {text.count(chr(10), 0, line_start) + 1} column {position - line_start + 1}"


def no_shape(value: Any) -> str:
    """Why a value is no diagnosis at all, for a message."""
    if isinstance(value, dict):
        keys = ", ".join(f'"{printable(key, 30)}"' for key in list(value)[:5])
        more = ", …" if len(value) > 5 else ""
        return f'an object without "root_causes" (its keys: {keys}{more})' if value else "an empty object"
    kinds = {list: "a list of something else", str: "a string", bool: "true or false", type(None): "null"}
    return f"{kinds.get(type(value), 'a number')} is no diagnosis"


def read_shape(parsed: ParsedValue) -> ShapeReading | None:
    """The diagnosis that a parsed value is, in whichever shape; None if it has no shape of one.

    Notes
    -----
    In one object ``root_causes`` goes before ``contributing_factors`` before ``entities``; the first that is
    there decides, even when it is wrong and another would be right.
    """
    value = parsed.value
    shape = _shape_of(value)
    if shape is None:
        return None
    problems = [f"$: {fault}" for fault in parsed.faults]
    if parsed.depth > MAX_DEPTH:
        problems.append(f"$: nested {parsed.depth} deep; at most {MAX_DEPTH} are read")
    entries, path = (
        (value, "$") if isinstance(value, list) else (value[_first_key(value)], f"$.{_first_key(value)}")
    )
    if not isinstance(entries, list):
        problems.append(f"{path}: must be a list")
    elif len(entries) > MAX_ENTITIES:
        problems.append(f"{path}: {len(entries)} entities; at most {MAX_ENTITIES} are read")
    if problems:
        return ShapeReading(None, tuple(problems))
    if shape == "root_causes":
        return _validate(value if isinstance(value, dict) else {"root_causes": value}, path)
    return _read_foreign(shape, entries, path, value if isinstance(value, dict) else {})


def _first_key(value: Mapping[str, Any]) -> str:
    return next(key for key in _SHAPE_KEYS if key in value)


def _shape_of(value: Any) -> str | None:
    """Which shape's rules hold for a value; ``strings`` for a list of names."""
    if isinstance(value, dict):
        return next((key for key in _SHAPE_KEYS if key in value), None)
    if not isinstance(value, list):
        return None
    if all(isinstance(entry, str) for entry in value):
        return "strings"
    if any(isinstance(entry, dict) and "contributing_factor" in entry for entry in value):
        return "entities"
    if any(isinstance(entry, dict) and "entity" in entry for entry in value):
        return "root_causes"
    if any(isinstance(entry, dict) and "name" in entry for entry in value):
        return "contributing_factors"
    return None


def _read_foreign(shape: str, entries: Sequence[Any], path: str, document: Mapping[str, Any]) -> ShapeReading:
    causes: list[dict[str, Any]] = []
    problems: list[str] = []
    notes: list[str] = []
    for index, entry in enumerate(entries):
        at = f"{path}[{index}]"
        if isinstance(entry, str) and shape == "strings":
            causes.append({"entity": entry})
        elif not isinstance(entry, dict):
            problems.append(f"{at}: must be an object")
        elif shape == "entities" and entry.get("contributing_factor") is not True:
            claim = entry.get("contributing_factor", False)
            if claim is not False:
                notes.append(f"{at}.contributing_factor is not true itself, so the entity does not count")
        else:
            name = _name_of(entry, with_id=shape == "entities")
            if name is None:
                problems.append(f'{at}: "name" is missing or no string')
            else:
                causes.append(_as_cause(name, entry))
    if problems:
        return ShapeReading(None, tuple(problems), tuple(notes))
    rest = {key: entry for key, entry in document.items() if key not in Diagnosis.model_fields}
    reading = _validate({**rest, "root_causes": causes}, path)
    return ShapeReading(reading.diagnosis, reading.problems, tuple(notes))


def _name_of(entry: Mapping[str, Any], *, with_id: bool) -> str | None:
    name, identifier = entry.get("name"), entry.get("id")
    if with_id and isinstance(identifier, str) and (not isinstance(name, str) or not name.strip()):
        return identifier
    return name if isinstance(name, str) else None


def _as_cause(name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The native form of a foreign entry; what has a native name and another type stays behind."""
    cause = {key: value for key, value in entry.items() if key not in RootCause.model_fields}
    cause["entity"] = name
    if isinstance(entry.get("reasoning"), str):
        cause["reasoning"] = entry["reasoning"]
    return cause


def _validate(document: Mapping[str, Any], path: str) -> ShapeReading:
    try:
        return ShapeReading(Diagnosis.model_validate(document))
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False, include_context=False)
    return ShapeReading(None, tuple(_problem(detail, path) for detail in details))


def _problem(detail: ErrorDetails, path: str) -> str:
    location = detail["loc"]
    # A bare list has no key "root_causes" in its path.
    parts = location[1:] if path == "$" and location[:1] == ("root_causes",) else location
    steps = "".join(f"[{part}]" if isinstance(part, int) else f".{printable(part, 40)}" for part in parts)
    reason = _REASONS.get(detail["type"]) or detail["msg"].removeprefix("Value error, ")
    return f"${steps}: {reason[:1].lower()}{reason[1:]}"


def _refused(problems: Sequence[str]) -> DiagnosisError:
    shown = [f"  {problem}" for problem in problems[:_MAX_PROBLEMS]]
    if len(problems) > _MAX_PROBLEMS:
        shown.append(f"  and {len(problems) - _MAX_PROBLEMS} more")
    return DiagnosisError("\n".join(["the diagnosis is not accepted:", *shown, f"Expected: {_EXPECTED}"]))
