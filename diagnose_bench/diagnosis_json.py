"""One JSON value read out of a text, tolerantly or strictly, in one pass. Knows nothing of diagnoses.

An explicit stack in place of recursion, and no position is read twice: depth and length cost time in
proportion, whatever the text holds. It changes syntax only: what stands inside a string is never edited, and
a value that breaks off is never closed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

MAX_DEPTH = 64

_STRINGS = {
    '"': re.compile(r'"([^"\\\x00-\x1f]*+(?:\\[^\x00-\x1f][^"\\\x00-\x1f]*+)*+)'),
    "'": re.compile(r"'([^'\\\x00-\x1f]*+(?:\\[^\x00-\x1f][^'\\\x00-\x1f]*+)*+)"),
}
_SPACE = re.compile(r"[ \t\n\r]*+")
_LINE_COMMENT = re.compile(r"(?://|#)[^\n]*+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?+([eE][+-]?[0-9]++)?+")
_WORD = re.compile(r"-?[A-Za-z]++")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|U[0-9a-fA-F]{8}|.)")
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")

_JSON_ESCAPES = {"\\": "\\", "/": "/", '"': '"', "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_JSON_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}
_PYTHON_WORDS: dict[str, Any] = {"True": True, "False": False, "None": None}
_NON_FINITE = frozenset({"NaN", "Infinity", "-Infinity", "nan", "inf", "-inf"})
_MAX_INT_DIGITS = 4000  # below the interpreter's own limit for turning digits into an int
_MAX_FAULTS = 20


@dataclass(frozen=True, slots=True)
class ParsedValue:
    """A complete value.

    ``repairs`` names what was not strict JSON; ``faults`` are the things that parse and yet leave the meaning
    open (a key twice with different values, a number that is none, a string that is no Unicode text).
    """

    value: Any
    start: int
    end: int
    depth: int
    repairs: frozenset[str]
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BrokenValue:
    """No complete value starts here; reading stopped at ``end``.

    ``depth`` is the number of open brackets there; ``has_content`` says whether anything inside was read.
    """

    start: int
    end: int
    depth: int
    has_content: bool
    reason: str


class _Broken(Exception):
    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.position = position
        self.reason = reason


class ValueReader:
    """Reads values out of one text.

    Parameters
    ----------
    text : str
        The text; bytes that were not UTF-8 stand in it as lone surrogates (``surrogateescape``).
    strict : bool
        JSON by its standard, without any repair.
    """

    def __init__(self, text: str, *, strict: bool = False) -> None:
        self._text = text
        self._strict = strict
        # Looked up once, so that an open comment is known at once and not searched to the end each time.
        self._last_comment_end = -1 if strict else text.rfind("*/")

    def read(self, start: int = 0) -> ParsedValue | BrokenValue:
        """Read the value whose first character is at ``start``; what follows it does not matter."""
        return _Parser(self._text, start, self._strict, self._last_comment_end).parse()


def skip_space(text: str, position: int) -> int:
    """The first position at or after ``position`` that is no JSON white space."""
    match = _SPACE.match(text, position)
    return match.end() if match else position


def same_value(left: Any, right: Any) -> bool:
    """Whether two parsed values are equal as JSON (``true`` is not ``1``), without recursion."""
    pairs = [(left, right)]
    while pairs:
        a, b = pairs.pop()
        if isinstance(a, dict) and isinstance(b, dict):
            if a.keys() != b.keys():
                return False
            pairs.extend((a[key], b[key]) for key in a)
        elif isinstance(a, list) and isinstance(b, list):
            if len(a) != len(b):
                return False
            pairs.extend(zip(a, b, strict=True))
        elif isinstance(a, bool) or isinstance(b, bool):
            if a is not b:
                return False
        elif isinstance(a, dict | list) or isinstance(b, dict | list) or a != b:
            return False
    return True


def printable(text: str, limit: int = 80) -> str:
    """A piece of untrusted text for a message: cut, and with control characters and surrogates escaped."""
    cut = text if len(text) <= limit else text[:limit] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)


class _Parser:
    """State of one reading: a stack of open containers, and the key that waits for its value in each."""

    def __init__(self, text: str, start: int, strict: bool, last_comment_end: int) -> None:
        self.text = text
        self.start = start
        self.strict = strict
        self.position = start
        self.closers = bytearray()  # the closing bracket of each open container
        self.containers: list[Any] = []  # None beyond the depth limit: such a value is measured, not built
        self.keys: list[str | None] = []
        self.max_depth = 0
        self.has_content = False
        self.repairs: set[str] = set()
        self.faults: list[str] = []
        self.last_comment_end = last_comment_end

    def parse(self) -> ParsedValue | BrokenValue:
        try:
            value = self._parse()
        except _Broken as broken:
            return BrokenValue(
                self.start, broken.position, len(self.closers), self.has_content, broken.reason
            )
        return ParsedValue(
            value, self.start, self.position, self.max_depth, frozenset(self.repairs), tuple(self.faults)
        )

    def _parse(self) -> Any:
        text = self.text
        while True:
            # Here a value is due.
            char = text[self.position : self.position + 1]
            if char in ("{", "["):
                self._open(char)
                value, closed = self._first_member()
                if not closed:
                    continue
            else:
                value = self._scalar(char)
            # Here a value is complete: hand it to its container, and close what closes.
            while True:
                if not self.closers:
                    return value
                self._store(value)
                if not self._next_member():
                    break
                value = self._close()

    def _open(self, char: str) -> None:
        self.closers.append(ord("}") if char == "{" else ord("]"))
        depth = len(self.closers)
        self.max_depth = max(self.max_depth, depth)
        self.containers.append(None if depth > MAX_DEPTH else {} if char == "{" else [])
        self.keys.append(None)
        self.position += 1

    def _close(self) -> Any:
        self.position += 1
        self.closers.pop()
        self.keys.pop()
        return self.containers.pop()

    def _first_member(self) -> tuple[Any, bool]:
        """After an opening bracket: the empty container and True, or go to the first value and False."""
        self._skip()
        if self._at_closer():
            return self._close(), True
        self._key_if_object()
        return None, False

    def _next_member(self) -> bool:
        """After a member: True at the closing bracket, False at the next value."""
        self._skip()
        if self._at_closer():
            return True
        if self.text[self.position : self.position + 1] != ",":
            raise self._broken(f'"," or "{chr(self.closers[-1])}"')
        self.position += 1
        self._skip()
        if not self.strict and self._at_closer():
            self.repairs.add("trailing_comma")
            return True
        self._key_if_object()
        return False

    def _at_closer(self) -> bool:
        return self.text.startswith(chr(self.closers[-1]), self.position)

    def _key_if_object(self) -> None:
        if self.closers[-1] != ord("}"):
            return
        if self.text[self.position : self.position + 1] not in self._quotes():
            raise self._broken("a key in quotes")
        self.keys[-1] = self._string()
        self._skip()
        if not self.text.startswith(":", self.position):
            raise self._broken('":" after a key')
        self.position += 1
        self.has_content = True
        self._skip()

    def _store(self, value: Any) -> None:
        self.has_content = True
        container = self.containers[-1]
        if isinstance(container, list):
            container.append(value)
        elif isinstance(container, dict):
            key = self.keys[-1] or ""
            if key in container and not same_value(container[key], value):
                self._fault(f'the key "{printable(key)}" stands twice in one object, with different values')
            container[key] = value

    def _fault(self, message: str) -> None:
        if len(self.faults) < _MAX_FAULTS:
            self.faults.append(message)

    def _scalar(self, char: str) -> Any:
        if char in self._quotes():
            return self._string()
        number = _NUMBER.match(self.text, self.position)
        if number:
            self.position = number.end()
            return self._number(number)
        word = _WORD.match(self.text, self.position)
        if word:
            return self._word(word)
        raise self._broken("a value")

    def _word(self, match: re.Match[str]) -> Any:
        word = match.group()
        if word in _JSON_WORDS:
            self.position = match.end()
            return _JSON_WORDS[word]
        if word in _NON_FINITE:
            self.position = match.end()
            self._fault(f"{word} is no number in JSON")
            return None
        if word in _PYTHON_WORDS and not self.strict:
            self.position = match.end()
            self.repairs.add("python_literals")
            return _PYTHON_WORDS[word]
        raise self._broken("a value")

    def _number(self, match: re.Match[str]) -> Any:
        digits = match.group()
        if match.group(1) is None and match.group(2) is None:
            return int(digits) if len(digits) <= _MAX_INT_DIGITS else Decimal(digits)
        number = float(digits)
        if number not in (float("inf"), float("-inf")):
            return number
        try:
            return Decimal(digits)
        except InvalidOperation:
            self._fault("a number is too large to be read")
            return None

    def _quotes(self) -> tuple[str, ...]:
        return ('"',) if self.strict else ('"', "'")

    def _string(self) -> str:
        start = self.position
        quote = self.text[start]
        match = _STRINGS[quote].match(self.text, start)
        end = match.end() if match else start + 1
        if not match or not self.text.startswith(quote, end):
            what = "the text ends inside a string" if end >= len(self.text) else "a string breaks off"
            raise _Broken(end, what)
        self.position = end + 1
        if quote == "'":
            self.repairs.add("single_quotes")
        content = match.group(1)
        if "\\" in content:
            content = _ESCAPE.sub(lambda escape: self._unescape(escape, start), content)
            content = _SURROGATE_PAIR.sub(_join_pair, content)
        if _SURROGATE.search(content):
            self._fault(
                f'the string "{printable(content, 40)}" is not Unicode text (half a character, or bytes)'
            )
        return content

    def _unescape(self, match: re.Match[str], start: int) -> str:
        escape = match.group(1)
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        if escape in _JSON_ESCAPES:
            return _JSON_ESCAPES[escape]
        # What Python's repr writes beside JSON's own escapes.
        if not self.strict and (escape == "'" or len(escape) in (3, 9)):
            self.repairs.add("python_literals" if len(escape) > 1 else "single_quotes")
            if len(escape) == 1:
                return escape
            code = int(escape[1:], 16)
            if code <= 0x10FFFF:
                return chr(code)
        raise _Broken(self.position, f'"\\{printable(escape)}" is no escape in a string')

    def _skip(self) -> None:
        """Go on past white space and, where tolerated, comments."""
        self.position = skip_space(self.text, self.position)
        while not self.strict and self.text[self.position : self.position + 1] in ("/", "#"):
            comment = _LINE_COMMENT.match(self.text, self.position)
            if comment:
                end = comment.end()
            elif self.text.startswith("/*", self.position) and self.position + 2 <= self.last_comment_end:
                end = self.text.index("*/", self.position + 2) + 2
            else:
                return
            self.repairs.add("comments")
            self.position = skip_space(self.text, end)

    def _broken(self, expected: str) -> _Broken:
        if self.position >= len(self.text):
            return _Broken(self.position, f"the text ends where {expected} is due")
        found = printable(self.text[self.position])
        return _Broken(self.position, f'"{found}" stands where {expected} is due')


def _join_pair(match: re.Match[str]) -> str:
    return match.group().encode("utf-16", "surrogatepass").decode("utf-16")
