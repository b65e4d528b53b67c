"""Why a truth is refused: a path in the document, a reason, a line. No reading and no truths."""

from __future__ import annotations

import difflib
import itertools
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from diagnose_bench.text import visible

JsonPath = tuple[str | int, ...]

_MAX_LISTED = 20
_MAX_CHARACTERS = 500
_MAX_CANDIDATES = 200  # a suggestion is a courtesy and must not cost a quadratic search
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class HasLines(Protocol):
    """A document that knows the lines of its parts."""

    def line(self, path: JsonPath) -> int | None:
        """Line of a part, or None."""
        ...


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why a file is refused: where in the document, and what is wrong."""

    path: JsonPath
    reason: str
    line: int | None = None


class Refusal(Exception):
    """A document is refused; whoever knows the file's name turns this into a message for the user."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(f"{json_path(p.path)}: {p.reason}" for p in problems))
        self.problems = tuple(problems)


def refuse(path: JsonPath, reason: str, line: int | None = None) -> Refusal:
    """Build the refusal of one problem (the caller raises it)."""
    return Refusal([Problem(path, reason, line)])


def json_path(path: JsonPath) -> str:
    """Print a path: ``$.groups[1].id``."""
    text = "$"
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if _PLAIN_KEY.fullmatch(step) else f"[{json.dumps(step)}]"
    return text


def message_of(file: object, problems: Iterable[Problem], document: HasLines | None = None) -> str:
    """One line for each problem: ``<file>: <json path>: <reason>``, with the line where it is known.

    Long words of a file are cut, control characters are escaped, and of many problems the first are listed.
    """
    lines = []
    listed = list(problems)
    for problem in listed[:_MAX_LISTED]:
        line = problem.line or (document.line(problem.path) if document is not None else None)
        suffix = f" (line {line})" if line else ""
        lines.append(f"{file}: {_bounded(json_path(problem.path))}: {_bounded(problem.reason)}{suffix}")
    if len(listed) > _MAX_LISTED:
        lines.append(f"{file}: $: and {len(listed) - _MAX_LISTED} more problems")
    return "\n".join(lines)


def _bounded(text: str) -> str:
    shown = text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}…"
    return visible(shown, keep_lines=False)


def quoted(text: str) -> str:
    """Quote a word of a file for a message; control characters come out escaped."""
    return json.dumps(text, ensure_ascii=False)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Suggest the known word closest to an unknown one: `` Did you mean "x"?``, or nothing."""
    candidates = list(itertools.islice(known, _MAX_CANDIDATES))
    close = difflib.get_close_matches(word, candidates, n=1, cutoff=0.6)
    return f" Did you mean {quoted(close[0])}?" if close else ""
