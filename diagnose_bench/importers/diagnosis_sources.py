"""Where recorded answers come from: JSONL rows, or ITBench output folders; one answer at a time.

Finds the bytes of each answer and whose they are. Judges neither the answer nor whether the scenario exists.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diagnose_bench.diagnosis_row import ANSWER_KEYS, HINT
from diagnose_bench.errors import UsageError

MOST_REPEATS = 1000
"""Highest repeat that is believed without ``--planned-repeats``."""
MAX_ROW_BYTES = 16 << 20
MAX_ANSWER_BYTES = (1 << 20) + 1
"""One byte more than a diagnosis may have, so that a longer one is seen to be too long."""
_FILES = (
    "outputs/agent_output.json",
    "outputs/agent_response.json",
    "agent_output.json",
    "agent_response.json",
)
_SCENARIO_FOLDER = re.compile(r"(?:scenario[-_]?i?|incident[-_]|)([0-9]+)", re.IGNORECASE)
# An unclosed string runs to the end, so that a search never starts again within it.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\Z)|[\[\]{},:]', re.DOTALL)


@dataclass(frozen=True)
class Answer:
    """One recorded answer; ``data`` is None where the record says that there is none."""

    where: str
    scenario: str
    repeat: int
    data: bytes | None


@dataclass(frozen=True)
class BadRow:
    """What cannot be read as an answer, and why."""

    where: str
    reason: str


def read_rows(path: Path) -> Iterator[Answer | BadRow]:
    """Read JSONL rows: ``scenario_id``, ``repeat``, and one of ``diagnosis``, ``entities``, ``text``.

    The answer's bytes are kept as they stand in the row, so that what is odd about them is still seen later.

    Raises
    ------
    UsageError
        The file cannot be read.
    """
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MAX_ROW_BYTES + 1):
                number += 1
                where = f"line {number}"
                if len(line) > MAX_ROW_BYTES:
                    while line and not line.endswith(b"\n"):
                        line = file.readline(1 << 20)
                    yield BadRow(where, f"the row is longer than {MAX_ROW_BYTES >> 20} MiB")
                    continue
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if line.strip():
                    yield _read_row(where, line)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}.") from error


def _read_row(where: str, line: bytes) -> Answer | BadRow:
    try:
        return answer_of(where, row_spans(line))
    except ValueError as error:
        return BadRow(where, str(error))


def row_spans(line: bytes) -> dict[str, str]:
    """The text of each value of a row, as it stands in it.

    Raises
    ------
    ValueError
        The row is no JSON object, or has a key twice; the message is the reason.
    """
    text = line.decode("utf-8").strip()
    _check_json(text)
    spans = _top_level(text)
    if spans is None:
        raise ValueError(f"the row is no JSON object; {HINT}")
    return spans


def answer_of(where: str, spans: Mapping[str, str]) -> Answer:
    """The answer that a row records.

    Raises
    ------
    ValueError
        A value is missing or of the wrong type; the message is the reason.
    """
    scenario = _scenario(spans.get("scenario_id"))
    repeat = _repeat(spans.get("repeat"))
    given = [key for key in ANSWER_KEYS if key in spans]
    if len(given) != 1:
        found = " and ".join(given) or "no answer"
        raise ValueError(f"the row has {found}; {HINT}")
    return Answer(where, scenario, repeat, _answer(given[0], spans[given[0]]))


def _check_json(text: str) -> None:
    try:
        # Numbers stay text: one of 5,000 digits is JSON too.
        json.loads(text, parse_int=str, parse_float=str)
    except RecursionError:
        # Too deep for this parser; whether it is a diagnosis is for the reader of diagnoses to say.
        return
    except ValueError as error:
        raise ValueError(f"the row is no JSON: {error}") from error


def _top_level(text: str) -> dict[str, str] | None:
    """The text of each value of a JSON object, in one pass and at any depth."""
    if not text.startswith("{"):
        return None
    spans: dict[str, str] = {}
    depth, key, start = 0, None, 1
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token in "[{":
            depth += 1
        elif token in "]}":
            depth -= 1
        if depth == 1 and token == ":":
            key, start = _key(text[start : match.start()].strip()), match.end()
        elif (depth == 1 and token == ",") or (depth == 0 and token == "}"):
            if key is not None:
                if key in spans:
                    raise ValueError(f"the row has {key!r} twice")
                spans[key] = text[start : match.start()].strip()
            key, start = None, match.end()
            if depth == 0:
                break
    return spans


def _key(span: str) -> str:
    if not span.startswith('"'):
        raise ValueError("the row is no JSON: a key is no text")
    return str(json.loads(span))


def _scenario(span: str | None) -> str:
    value = None if span is None else _scalar(span)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        raise ValueError(f"scenario_id is missing or no text; {HINT}")
    return value


def _repeat(span: str | None) -> int:
    value = None if span is None else _scalar(span)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"repeat is missing or no whole number from 1; {HINT}")
    return value


def _scalar(span: str) -> Any:
    return json.loads(span) if len(span) <= 200 else None


def _answer(key: str, span: str) -> bytes | None:
    if span == "null":
        return None
    if key != "text":
        return span.encode("utf-8", "surrogatepass")[:MAX_ANSWER_BYTES]
    text = json.loads(span) if span.startswith('"') else None
    if not isinstance(text, str):
        raise ValueError("text is no text")
    return text.encode("utf-8", "surrogatepass")[:MAX_ANSWER_BYTES]


def read_folders(root: Path, ids: Collection[str]) -> Iterator[Answer | BadRow]:
    """Walk ITBench output folders: ``<scenario>/<trial>/outputs/agent_output.json`` and its variants.

    Parameters
    ----------
    root : Path
        The folder of the scenarios' folders, or of one scenario.
    ids : collection of str
        The suite's scenario ids: a folder may be called so, too.

    Notes
    -----
    A trial's folder without any of the files is an answer that does not exist. Folders that are neither a
    scenario's nor a trial's are passed over.

    Raises
    ------
    UsageError
        The folder cannot be read, or nothing in it looks like an output.
    """
    scenarios = _scenario_folders(root, ids)
    if not scenarios:
        raise UsageError(
            f"{root}: holds no recorded answers. Expected <scenario>/<trial>/{_FILES[0]} (or "
            "agent_response.json, or without outputs/), the scenario's folder named like 2, scenario-2 or "
            "incident_2, the trial's by a number."
        )
    for scenario, folder in scenarios:
        for trial in sorted(_subfolders(folder), key=lambda path: (len(path.name), path.name)):
            if trial.name.isascii() and trial.name.isdigit():
                yield _read_trial(root, scenario, trial)


def _scenario_folders(root: Path, ids: Collection[str]) -> list[tuple[str, Path]]:
    """Folders of scenarios with id or number; the root itself may be the folder of one scenario."""
    own = _scenario_of(root.resolve().name, ids)
    if own and any(_first_file(trial) is not None for trial in _subfolders(root)):
        return [(own, root)]
    return [(name, folder) for folder in _subfolders(root) if (name := _scenario_of(folder.name, ids))]


def _scenario_of(name: str, ids: Collection[str]) -> str | None:
    match = _SCENARIO_FOLDER.fullmatch(name)
    return name if name in ids else match and match.group(1)


def _subfolders(folder: Path) -> list[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if entry.is_dir())
    except OSError as error:
        raise UsageError(f"{folder}: cannot be read: {error.strerror}.") from error


def _first_file(trial: Path) -> Path | None:
    return next((trial / name for name in _FILES if (trial / name).is_file()), None)


def _read_trial(root: Path, scenario: str, trial: Path) -> Answer | BadRow:
    where = str(trial.relative_to(root))
    repeat = int(trial.name[:10])
    if repeat < 1 or len(trial.name) > 9:
        return BadRow(where, "the trial's folder is no number from 1")
    path = _first_file(trial)
    if path is None:
        return Answer(where, scenario, repeat, None)
    where = str(path.relative_to(root))
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return BadRow(where, "no regular file")
            return Answer(where, scenario, repeat, file.read(MAX_ANSWER_BYTES))
    except OSError as error:
        return BadRow(where, f"cannot be read: {error.strerror}")
