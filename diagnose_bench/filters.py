"""A filter of a truth: one regular expression that a whole name must match, and how specific it is.

A name longer than Kubernetes allows never matches; that bounds the time of one match.
"""

from __future__ import annotations

import re
import warnings

from diagnose_bench.entity import MAX_NAME

_META = frozenset(".^$*+?{}[]|()\\")
_OPEN_TAIL = re.compile(r"(?:\.|\[[^\]\\]+\]|\\[wS])[*+]\??\$?")
_CLOSED_TAIL = re.compile(r"(?:\\b|\$)*")


class Filter:
    r"""One compiled filter.

    Attributes
    ----------
    n_literal : int
        Literal characters before the first metacharacter: the more, the more specific.
    stem : str or None
        The workload's name that the filter spells out (``cart`` of ``cart-.*`` and of ``cart\b``), if any.
    is_open : bool
        Whether anything may follow the stem, so that ``frontend-.*`` also fits ``frontend-proxy``.
    """

    def __init__(self, pattern: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a doubtful set such as `[[]` compiles, with a FutureWarning
            self._regex = re.compile(pattern)
        literal, rest = _split(pattern)
        self.n_literal = len(literal)
        self.is_open = _OPEN_TAIL.fullmatch(rest) is not None
        self.stem = literal.rstrip("-") or None if self.is_open or _CLOSED_TAIL.fullmatch(rest) else None

    def fits(self, name: str) -> bool:
        """Whether the whole name matches."""
        return len(name) <= MAX_NAME and self._regex.fullmatch(name) is not None


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
