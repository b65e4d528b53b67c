"""One row of a bulk file: whose answer, to which trial, and what it names. A line in, a row or a reason out.

The rules are those of `import diagnoses`, with an ``agent`` beside them. A row without anything odd takes a
quick way through a fast parser; every other one is read again as strictly as an import reads it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from diagnose_bench.diagnosis import MAX_BYTES, MAX_ENTITIES, read_shape
from diagnose_bench.diagnosis_json import ParsedValue
from diagnose_bench.diagnosis_reader import ReadDiagnosis, read_diagnosis
from diagnose_bench.importers.diagnosis_sources import MAX_ROW_BYTES, answer_of, row_spans
from diagnose_bench.outcome import Outcome

TOO_LONG = f"the row is longer than {MAX_ROW_BYTES >> 20} MiB"
NO_ANSWER = "The record says that there is no answer."
_MOST_AGENT_BYTES = 1000
_SPACE_BEFORE_COLON = re.compile(rb"\s:")
_MOST_TEXT = 190
_MOST_NUMBER = 10**9
_MOST_DEPTH = 60


@dataclass(frozen=True, slots=True)
class Row:
    """A row that can be read; ``names`` is None where there is no readable diagnosis."""

    agent: str
    scenario: str
    repeat: int
    outcome: Outcome
    names: Sequence[str] | None
    reason: str = ""
    repairs: tuple[str, ...] = ()


def read_row(line: bytes) -> Row:
    """Read one line.

    Raises
    ------
    ValueError
        The row is rejected; the message is the reason.
    """
    if len(line) > MAX_ROW_BYTES:
        raise ValueError(TOO_LONG)
    return _quick(line) or _strict(line)


def agent_of(value: Any) -> str:
    """The name of an agent.

    Raises
    ------
    ValueError
        It is no name.
    """
    if not isinstance(value, str) or not value.strip():
        raise ValueError("agent is missing or no text")
    if len(value.encode("utf-8", "surrogatepass")) > _MOST_AGENT_BYTES:
        raise ValueError(f"agent is longer than {_MOST_AGENT_BYTES} bytes")
    if not value.isprintable():
        raise ValueError("agent holds characters that cannot be printed")
    return value


def _strict(line: bytes) -> Row:
    spans = row_spans(line)
    span = spans.get("agent", "null")
    agent = agent_of(_text(span) if span.startswith('"') else None)
    answer = answer_of("", spans)
    read = ReadDiagnosis(Outcome.NO_DIAGNOSIS, reason=NO_ANSWER)
    if answer.data is not None:
        read = read_diagnosis(answer.data)
    return _row(agent, answer.scenario, answer.repeat, read)


def _text(span: str) -> Any:
    # The span is JSON already, and a key that is longer than an agent's name can be is none.
    return (
        from_json(span.encode("utf-8", "surrogatepass"))
        if len(span) <= 6 * _MOST_AGENT_BYTES + 2
        else "x" * 1001
    )


def _row(agent: str, scenario: str, repeat: int, read: ReadDiagnosis) -> Row:
    names = None if read.diagnosis is None else read.diagnosis.entities()
    return Row(agent, scenario, repeat, read.outcome, names, read.reason, read.repairs)


def _quick(line: bytes) -> Row | None:
    """The row, if it is plain in every respect: no key twice, nothing that needs a closer look."""
    if len(line) >= MAX_BYTES:
        return None
    try:
        value = from_json(line, allow_inf_nan=False, cache_strings="none")
    except ValueError:
        return None
    if type(value) is not dict:
        return None
    agent, scenario, repeat = value.get("agent"), value.get("scenario_id"), value.get("repeat")
    if type(agent) is not str or type(scenario) is not str or type(repeat) is not int:
        return None
    if not 0 < len(scenario) <= _MOST_TEXT or not 0 < repeat < _MOST_NUMBER:
        return None
    given = [key for key in ("diagnosis", "entities", "text") if key in value]
    if len(given) != 1:
        return None
    answer = value[given[0]]
    n_keys = len(value)
    read: ReadDiagnosis | None = None
    names: list[str] | None = None
    if given[0] == "entities" and type(answer) is list and len(answer) <= MAX_ENTITIES:
        if not all(type(name) is str for name in answer):
            return None
        names = answer
    elif given[0] == "text" and type(answer) is str:
        read = read_diagnosis(answer.encode())
    elif given[0] == "diagnosis" and type(answer) is dict and answer.get("refused") is None:
        inner = _n_keys(answer)
        if inner is None:
            return None
        n_keys += inner
        reading = read_shape(ParsedValue(answer, 0, 0, 0, frozenset(), ()))
        if reading is None or reading.diagnosis is None:
            return None
        read = ReadDiagnosis(Outcome.DIAGNOSED, reading.diagnosis)
    else:
        return None
    if not _has_keys_once(line, n_keys):
        return None
    agent = agent_of(agent)
    if read is None:
        return Row(agent, scenario, repeat, Outcome.DIAGNOSED, names)
    return _row(agent, scenario, repeat, read)


def _has_keys_once(line: bytes, n_keys: int) -> bool:
    """Whether no key stands twice: each key has a colon, so no more colons than keys were kept."""
    if line.count(b":") == n_keys:
        return True
    return line.count(b'":') == n_keys and _SPACE_BEFORE_COLON.search(line) is None


def _n_keys(value: Any) -> int | None:
    """Number of keys inside a value; None where something in it needs the tolerant reader's opinion."""
    count, level = 0, [value]
    for _ in range(_MOST_DEPTH):
        below: list[Any] = []
        for one in level:
            kind = type(one)
            if kind is dict:
                count += len(one)
                below += one.values()
            elif kind is list:
                below += one
            elif (kind is float and not math.isfinite(one)) or (kind is int and not -_BIG < one < _BIG):
                return None
        if not below:
            return count
        level = below
    return None


_BIG = 1 << 60
