"""A filter of a truth: one regular expression that a whole name must match, and how specific it is.

A name longer than Kubernetes allows never matches. Names come from agents, so a filter that
backtracking could make slow is matched by an engine without backtracking.
"""

from __future__ import annotations

import re
import warnings

from diagnose_bench.entity import MAX_NAME

_META = frozenset(".^$*+?{}[]|()\\")
_OPEN_TAIL = re.compile(r"(?:\.|\[[^\]\\]+\]|\\[wS])[*+]\??\$?")
_UNLIMITED = re.compile(r"(?:[*+]|\{[0-9]*,\})[?+]?")
_SET = re.compile(r"\[\^?\]?(?:[^\]\\]|\\.)*\]?", re.DOTALL)
_CLOSED_TAIL = re.compile(r"(?:\\b|\$)*")


class Filter:
    r"""One compiled filter.

    Attributes
    ----------
    n_literal : int
        Literal characters before the first metacharacter: the more, the more specific.
    stem : str or None
        The workload's name that the filter spells out (``cart`` of ``cart-.*`` and of ``cart\b``), if any.
    prefix : str
        Text that every name that fits begins with; '' where there is none, or none is seen.
    is_open : bool
        Whether anything may follow the stem, so that ``frontend-.*`` also fits ``frontend-proxy``.
    """

    def __init__(self, pattern: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a doubtful set such as `[[]` compiles, with a FutureWarning
            self._regex = re.compile(pattern)
        self._pattern = pattern
        self._may_be_slow = _may_be_slow(pattern)
        literal, rest = _split(pattern)
        self.n_literal = len(literal)
        self.prefix = _prefix(pattern, literal, rest)
        self.is_open = _OPEN_TAIL.fullmatch(rest) is not None
        self.stem = literal.rstrip("-") or None if self.is_open or _CLOSED_TAIL.fullmatch(rest) else None

    def fits(self, name: str) -> bool:
        """Whether the whole name matches."""
        if len(name) > MAX_NAME:
            return False
        if self._may_be_slow:
            linear = _fits_in_linear_time(self._pattern, name)
            if linear is not None:
                return linear
        return self._regex.fullmatch(name) is not None


def _prefix(pattern: str, literal: str, rest: str) -> str:
    if "|" in pattern:
        return ""
    # What a repeat stands behind may be missing.
    return literal[:-1] if rest[:1] in ("?", "*", "{") else literal


def _may_be_slow(pattern: str) -> bool:
    """Whether a repeat without a limit holds a choice or another repeat, or there are more than three."""
    n_repeats = 0
    inner = [False]  # for each open bracket: does it hold a choice or a repeat?
    position = 0
    closed = False  # is the item before this position such a bracket?
    while position < len(pattern):
        char = pattern[position]
        repeat = _UNLIMITED.match(pattern, position)
        if repeat is not None:
            if closed:
                return True
            n_repeats += 1
            inner[-1] = True
            position = repeat.end()
            closed = False
            continue
        closed = False
        if char == "\\":
            position += 1
        elif char == "[":
            position = _SET.match(pattern, position).end() - 1  # type: ignore[union-attr]
        elif char in "|?":
            inner[-1] = True
        elif char == "(":
            inner.append(False)
        elif char == ")" and len(inner) > 1:
            closed = inner.pop()
            inner[-1] = inner[-1] or closed
        position += 1
    return n_repeats > 3


def _fits_in_linear_time(pattern: str, name: str) -> bool | None:
    """Match with RE2, which DuckDB carries; None where RE2 lacks what the pattern uses."""
    import duckdb

    try:
        row = duckdb.execute("SELECT regexp_full_match(?, ?)", [name, pattern]).fetchone()
    except (duckdb.Error, UnicodeError):
        return None
    return bool(row and row[0])


def _split(pattern: str) -> tuple[str, str]:
    """The literal characters at the start (an escaped sign is one), and the rest of the pattern."""
    position = 1 if pattern.startswith("^") else 0
    literal: list[str] = []
    while position < len(pattern):
        char = pattern[position]
        if char == "\\" and position + 1 < len(pattern) and not pattern[position + 1].isalnum():
            literal.append(pattern[position + 1])
            position += 2
        elif char in _META:
            break
        else:
            literal.append(char)
            position += 1
    return "".join(literal), pattern[position:]
