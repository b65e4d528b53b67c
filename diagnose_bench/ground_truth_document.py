"""Bytes of a truth or patch file -> plain JSON values, and the line of each value. Knows nothing of truths.

Size, depth and the number of values are bounded; duplicate keys and non-finite numbers are refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from diagnose_bench.ground_truth_refusal import JsonPath, Refusal, refuse
from diagnose_bench.ground_truth_yaml import MAX_TRUTH_DEPTH, MAX_TRUTH_VALUES, Document, parse_yaml

MAX_TRUTH_BYTES = 4 << 20


def parse_document(data: bytes) -> Document:
    """Read YAML or JSON.

    Raises
    ------
    Refusal
        The bytes are too many, no UTF-8, neither YAML nor JSON, or use what the module's docstring excludes.
    """
    if len(data) > MAX_TRUTH_BYTES:
        raise refuse((), f"the file is larger than {MAX_TRUTH_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise refuse((), f"byte {error.start} is not UTF-8") from error
    if text.lstrip()[:1] in ("{", "["):
        # YAML's flow style begins alike and differs from JSON in escapes, so JSON goes first.
        try:
            return _parse_json(text)
        except json.JSONDecodeError as json_error:
            try:
                return parse_yaml(text)
            except Refusal as yaml_error:
                reason = f"neither JSON ({json_error.msg}) nor YAML ({yaml_error.problems[0].reason})"
                raise refuse((), reason, json_error.lineno) from yaml_error
    return parse_yaml(text)


def count_values(value: Any) -> int:
    """Count the values of a document, without recursion."""
    n_values, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        n_values += 1
        waiting.extend(_children(item))
    return n_values


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _parse_json(text: str) -> Document:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for key, item in items:
            if key in value:
                raise refuse((), f"the key {json.dumps(key)} occurs twice in one object")
            value[key] = item
        return value

    def constant(name: str) -> Any:
        raise refuse((), f"{name} is no number that JSON allows")

    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except RecursionError as error:
        raise refuse((), f"nested more than {MAX_TRUTH_DEPTH} deep") from error
    except json.JSONDecodeError:
        raise
    except ValueError as error:  # an integer with thousands of digits
        raise refuse((), "a number is too large") from error
    _check_json(value)
    return Document(value)


def _check_json(value: Any) -> None:
    waiting: list[tuple[Any, JsonPath]] = [(value, ())]
    n_values = 0
    while waiting:
        item, path = waiting.pop()
        n_values += 1
        if n_values > MAX_TRUTH_VALUES:
            raise refuse((), f"more than {MAX_TRUTH_VALUES} values")
        if len(path) > MAX_TRUTH_DEPTH:
            raise refuse((), f"nested more than {MAX_TRUTH_DEPTH} deep")
        if isinstance(item, dict):
            for key, child in item.items():
                _check_text(key, path)
                waiting.append((child, (*path, key)))
        elif isinstance(item, list):
            waiting.extend((child, (*path, index)) for index, child in enumerate(item))
        elif isinstance(item, str):
            _check_text(item, path)
        elif isinstance(item, float) and not math.isfinite(item):
            raise refuse(path, "the number is too large")


def _check_text(text: str, path: JsonPath) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise refuse(path, "the text holds half of a surrogate pair") from error
