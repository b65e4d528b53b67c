"""Reads the part of PromQL that alerting rules use into a small syntax tree. Evaluates nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass

AGGREGATIONS = ("sum", "min", "max", "avg", "count")
RANGE_FUNCTIONS = (
    "rate", "increase", "delta", "changes",
    "max_over_time", "min_over_time", "avg_over_time", "count_over_time",
)  # fmt: skip
FUNCTIONS = ("absent", "vector", "time", "histogram_quantile", "clamp_min", "abs", *RANGE_FUNCTIONS)

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<duration>\d+[smhd])
    |(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
    |(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<operator>=~|!~|!=|==|>=|<=|[-+*/><=(){}\[\],]))""",
    re.VERBOSE,
)
_PRECEDENCE = {
    "or": 1, "and": 2, "unless": 2,
    "==": 3, "!=": 3, ">": 3, "<": 3, ">=": 3, "<=": 3,
    "+": 4, "-": 4, "*": 5, "/": 5,
}  # fmt: skip
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class PromqlError(ValueError):
    """The expression is outside the part of PromQL that is understood."""


@dataclass(frozen=True)
class Number:
    """A constant."""

    value: float


@dataclass(frozen=True)
class Selector:
    """Series by name and label matchers, over a range if `range_s` is set."""

    name: str
    matchers: tuple[tuple[str, str, str], ...]
    range_s: int | None = None


@dataclass(frozen=True)
class Function:
    """A function call."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Aggregation:
    """An aggregation; `labels` are kept, or dropped when `without`."""

    name: str
    argument: Expression
    labels: tuple[str, ...]
    without: bool


@dataclass(frozen=True)
class Binary:
    """Two operands; `on` None matches all labels."""

    operator: str
    left: Expression
    right: Expression
    on: tuple[str, ...] | None
    ignoring: tuple[str, ...]


Expression = Number | Selector | Function | Aggregation | Binary


def duration_s(text: str) -> int:
    """Seconds of ``5m``."""
    match = re.fullmatch(r"(\d+)([smhd])", text)
    if match is None:
        raise PromqlError(f"not a duration: {text!r}")
    return int(match[1]) * _SECONDS[match[2]]


def parse(text: str) -> Expression:
    """Parse an expression.

    Raises
    ------
    PromqlError
        Not of the understood part.
    """
    parser = _Parser(_tokens(text))
    expression = parser.binary(1)
    parser.expect_end()
    return expression


def metric_names(expression: Expression) -> set[str]:
    """Metrics that an expression reads."""
    if isinstance(expression, Selector):
        return {expression.name}
    if isinstance(expression, Function):
        return set().union(*(metric_names(one) for one in expression.arguments))
    if isinstance(expression, Aggregation):
        return metric_names(expression.argument)
    if isinstance(expression, Binary):
        return metric_names(expression.left) | metric_names(expression.right)
    return set()


def _tokens(text: str) -> list[tuple[str, str]]:
    if len(text) > 4000:
        raise PromqlError("the expression is longer than 4000 characters")
    tokens = []
    position = 0
    text = text.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise PromqlError(f"unexpected {text[position : position + 10]!r}")
        tokens.append((match.lastgroup, match[match.lastgroup]))
        position = match.end()
    return tokens


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._position = 0
        self._depth = 0

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._position] if self._position < len(self._tokens) else ("end", "")

    def _next(self) -> tuple[str, str]:
        token = self._peek()
        self._position += 1
        return token

    def _take(self, text: str) -> bool:
        if self._peek()[1] == text and self._peek()[0] in ("operator", "name"):
            self._position += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise PromqlError(f"expected {text!r}, found {self._peek()[1] or 'the end'!r}")

    def expect_end(self) -> None:
        if self._peek()[0] != "end":
            raise PromqlError(f"unexpected {self._peek()[1]!r}")

    def binary(self, lowest: int) -> Expression:
        self._depth += 1
        if self._depth > 60:
            raise PromqlError("nested too deeply")
        left = self._unary()
        while True:
            operator = self._peek()[1]
            strength = _PRECEDENCE.get(operator)
            if self._peek()[0] == "end" or strength is None or strength < lowest:
                self._depth -= 1
                return left
            self._next()
            on, ignoring = self._matching()
            left = Binary(operator, left, self.binary(strength + 1), on, ignoring)

    def _matching(self) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
        on: tuple[str, ...] | None = None
        ignoring: tuple[str, ...] = ()
        if self._take("on"):
            on = self._labels()
        elif self._take("ignoring"):
            ignoring = self._labels()
        if (self._take("group_left") or self._take("group_right")) and self._peek()[1] == "(":
            self._labels()
        return on, ignoring

    def _labels(self) -> tuple[str, ...]:
        self._expect("(")
        names = []
        while not self._take(")"):
            kind, text = self._next()
            if kind != "name":
                raise PromqlError(f"expected a label, found {text!r}")
            names.append(text)
            self._take(",")
        return tuple(names)

    def _unary(self) -> Expression:
        if self._take("-"):
            return Binary("*", Number(-1), self._unary(), None, ())
        kind, text = self._next()
        if kind == "number":
            return Number(float(text))
        if text == "(":
            inner = self.binary(1)
            self._expect(")")
            return inner
        if text == "{":
            self._position -= 1
            return self._selector("")
        if kind != "name":
            raise PromqlError(f"unexpected {text or 'end'!r}")
        if text in AGGREGATIONS:
            return self._aggregation(text)
        if text in FUNCTIONS and self._peek()[1] == "(":
            self._expect("(")
            arguments = []
            while not self._take(")"):
                arguments.append(self.binary(1))
                if not self._take(",") and self._peek()[1] != ")":
                    raise PromqlError(f"expected ',' or ')', found {self._peek()[1]!r}")
            return Function(text, tuple(arguments))
        if self._peek()[1] == "(":
            raise PromqlError(f"function {text!r} is not understood")
        return self._selector(text)

    def _aggregation(self, name: str) -> Expression:
        labels: tuple[str, ...] = ()
        without = False
        for _ in range(2):
            if self._peek()[1] in ("by", "without"):
                without = self._next()[1] == "without"
                labels = self._labels()
            if self._peek()[1] == "(":
                break
        self._expect("(")
        argument = self.binary(1)
        self._expect(")")
        if self._peek()[1] in ("by", "without"):
            without = self._next()[1] == "without"
            labels = self._labels()
        return Aggregation(name, argument, labels, without)

    def _selector(self, name: str) -> Expression:
        matchers = []
        if self._take("{"):
            while not self._take("}"):
                kind, label = self._next()
                operator = self._next()[1]
                value_kind, value = self._next()
                if kind != "name" or operator not in ("=", "!=", "=~", "!~") or value_kind != "string":
                    raise PromqlError(f"label matcher not understood near {label!r}")
                matchers.append((label, operator, _unquote(value)))
                self._take(",")
        range_s = None
        if self._take("["):
            range_s = duration_s(self._next()[1])
            self._expect("]")
        return Selector(name, tuple(matchers), range_s)


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1])
