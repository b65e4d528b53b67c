"""Plain JSON values -> a pydantic model of a file's form; its errors become problems with a JSON path."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from diagnose_bench.ground_truth_refusal import JsonPath, Problem, Refusal, did_you_mean, quoted

_MAX_PROBLEMS = 20
Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], value: Any, base: JsonPath = ()) -> Model:
    """Read a value as a model.

    Parameters
    ----------
    model : type
        The model of the form.
    value : object
        Plain JSON values.
    base : tuple
        Where the value stands in its document.

    Raises
    ------
    Refusal
        With the path and the reason of each error.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problems = [
            _problem(item, value, base, _field_names(model))
            for item in error.errors(include_url=False, include_context=False)[:_MAX_PROBLEMS]
        ]
        raise Refusal(problems) from error


def _problem(item: Any, value: Any, base: JsonPath, known: list[str]) -> Problem:
    kind, message = item["type"], item["msg"]
    path = _existing(item["loc"], value)
    if kind == "missing":
        return Problem((*base, *path), f"the field {quoted(str(item['loc'][-1]))} is missing")
    if kind == "extra_forbidden":
        name = str(item["loc"][-1])
        return Problem((*base, *path), f"unknown field {quoted(name)}.{did_you_mean(name, known)}")
    found = item["input"]
    shown = "null" if found is None else type(found).__name__
    if isinstance(found, (str, bool, int, float)):
        shown = quoted(found[:60]) if isinstance(found, str) else str(found).lower()
    return Problem((*base, *path), f"{message[:1].lower()}{message[1:]}, not {shown}")


def _existing(location: tuple[str | int, ...], value: Any) -> JsonPath:
    """The part of pydantic's location that is a path in the value (it also names union members)."""
    path: list[str | int] = []
    for step in location:
        in_list = isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value)
        if not in_list and not (isinstance(value, dict) and step in value):
            break
        value = value[step]
        path.append(step)
    return tuple(path)


def _field_names(model: type[BaseModel]) -> list[str]:
    schema = model.model_json_schema()
    parts = [schema, *schema.get("$defs", {}).values()]
    return sorted({name for part in parts for name in part.get("properties", {})})
