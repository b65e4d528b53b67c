"""YAML text -> plain JSON values, from the parser's events and with the types of JSON alone.

A date, ``on`` or ``0123`` stays text, so nothing turns silently into another type. Tags, merge keys,
duplicate keys and several documents are refused; depth and the number of values are bounded, aliases counted
as often as they are used. Builds on an explicit stack: no input can exhaust Python's.
"""

from __future__ import annotations

import copy
import json
import math
import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from diagnose_bench.ground_truth_refusal import JsonPath, refuse

MAX_TRUTH_DEPTH = 64
MAX_TRUTH_VALUES = 200_000

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
# What every YAML writer calls a number: `1e5` is text to some, and a hash may look like it; `-.5` is, too.
_FLOAT = re.compile(r"(?:[-+]?(?:0|[1-9][0-9]*)\.[0-9]*|\.[0-9]+)(?:[eE][-+][0-9]+)?")
_WORDS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


@dataclass(frozen=True)
class Document:
    """The value of a file, and the lines (from 1) of its parts; JSON and patched documents have none."""

    value: Any
    lines: dict[JsonPath, int] = field(default_factory=dict)

    def line(self, path: JsonPath) -> int | None:
        """Line of the nearest part at or above a path, or None."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return None


@dataclass(slots=True)
class _Frame:
    """A list or mapping under construction; ``size`` and ``depth`` measure what it holds."""

    value: Any
    path: JsonPath
    anchor: str | None
    line: int
    key: str | None = None
    size: int = 1
    depth: int = 0


class _Builder:
    """Builds one document from the events."""

    def __init__(self) -> None:
        self.lines: dict[JsonPath, int] = {}
        self.stack: list[_Frame] = []
        self.anchors: dict[str, tuple[Any, int, int]] = {}
        self.root: Any = None
        self.n_documents = 0
        self.n_values = 0

    def feed(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.DocumentStartEvent):
            self.n_documents += 1
            if self.n_documents > 1:
                raise refuse((), "the file holds more than one YAML document", line)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(str(event.anchor), line)
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event, line)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            expected = "tag:yaml.org,2002:map" if is_mapping else "tag:yaml.org,2002:seq"
            if event.tag not in (None, "!", expected):
                raise refuse(self._path(), f"the YAML tag {event.tag} is not supported", line)
            self._check_key_allowed(line)
            if len(self.stack) >= MAX_TRUTH_DEPTH:
                raise refuse((), f"nested more than {MAX_TRUTH_DEPTH} deep", line)
            self.stack.append(_Frame({} if is_mapping else [], self._path(), event.anchor, line))
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            frame = self.stack.pop()
            self._add(frame.value, frame.anchor, frame.size, frame.depth + 1, frame.line)

    def _path(self) -> JsonPath:
        """Path of the value that comes next."""
        if not self.stack:
            return ()
        top = self.stack[-1]
        return (*top.path, len(top.value) if isinstance(top.value, list) else top.key or "")

    def _check_key_allowed(self, line: int) -> None:
        if self.stack and isinstance(self.stack[-1].value, dict) and self.stack[-1].key is None:
            raise refuse(self.stack[-1].path, "a key must be text", line)

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        top = self.stack[-1] if self.stack else None
        if top is not None and isinstance(top.value, dict) and top.key is None:
            self._key(top, event, line)
        else:
            self._add(_scalar_value(event, self._path(), line), event.anchor, 1, 0, line)

    def _key(self, top: _Frame, event: yaml.ScalarEvent, line: int) -> None:
        key = str(event.value)
        if key == "<<" and event.implicit[0]:
            raise refuse(top.path, "merge keys (<<) are not supported; write the fields out", line)
        if key in top.value:
            raise refuse(top.path, f"the key {json.dumps(key)} occurs twice in one mapping", line)
        if event.anchor is not None:
            self.anchors[event.anchor] = (key, 1, 0)
        top.key = key

    def _alias(self, anchor: str, line: int) -> None:
        self._check_key_allowed(line)
        if anchor not in self.anchors:
            raise refuse(self._path(), f"the alias *{anchor} stands for nothing, or for itself", line)
        value, size, depth = self.anchors[anchor]
        self._count(size, line)
        if len(self.stack) + depth > MAX_TRUTH_DEPTH:
            raise refuse((), f"nested more than {MAX_TRUTH_DEPTH} deep", line)
        # A copy, so that a patch to one place does not change the other.
        self._add(copy.deepcopy(value), None, size, depth, line, counted=True)

    def _count(self, size: int, line: int) -> None:
        self.n_values += size
        if self.n_values > MAX_TRUTH_VALUES:
            raise refuse((), f"more than {MAX_TRUTH_VALUES} values (YAML aliases counted in full)", line)

    def _add(
        self, value: Any, anchor: str | None, size: int, depth: int, line: int, counted: bool = False
    ) -> None:
        if not counted:
            self._count(1, line)
        self.lines[self._path()] = line
        if anchor is not None:
            self.anchors[anchor] = (value, size, depth)
        if not self.stack:
            self.root = value
            return
        top = self.stack[-1]
        top.size += size
        top.depth = max(top.depth, depth)
        if isinstance(top.value, list):
            top.value.append(value)
        else:
            top.value[top.key] = value
            top.key = None


def _scalar_value(event: yaml.ScalarEvent, path: JsonPath, line: int) -> Any:
    text = str(event.value)
    if event.tag not in (None, "!", "tag:yaml.org,2002:str"):
        raise refuse(path, f"the YAML tag {event.tag} is not supported", line)
    if event.tag is not None or not event.implicit[0]:
        return text
    if text in _NULLS:
        return None
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        if not math.isfinite(number):
            raise refuse(path, "the number is too large", line)
        return number
    return text


def parse_yaml(text: str) -> Document:
    """Read one YAML document.

    Raises
    ------
    Refusal
        The text is no YAML, or uses what the module's docstring excludes.
    """
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.feed(event)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        reason = ": ".join(part for part in (error.context, error.problem) if part)
        raise refuse((), f"no YAML: {reason}", line) from error
    except yaml.YAMLError as error:  # characters that YAML forbids
        raise refuse((), f"no YAML: {str(error).splitlines()[0]}") from error
    if builder.n_documents == 0:
        raise refuse((), "the file is empty")
    return Document(builder.root, builder.lines)
