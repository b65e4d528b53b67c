"""Secrets taken out of text before it is written down, and counted. Reads no file and no environment.

It guards against a key that an agent, a person or a tool shows by accident, not against one who hides it:
what is encoded, split or unknown stays. The same text comes out the same, and a second pass finds nothing.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from diagnose_bench.redaction_patterns import PATTERNS

MIN_VALUE = 8
"""A shorter value of a variable could be a word of the evidence."""
_MAX_VALUE = 1 << 16
_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL")
_PLACES = ("_FILE", "_PATH", "_DIR", "_URL", "_URI")
_OBJECT_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_IN_A_NAME = "[A-Za-z0-9-]"
_CANARY = re.compile(r"diagnose-bench:[0-9a-f]", re.IGNORECASE)
_RANDOM_PART = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])", re.IGNORECASE)
_MARKED = ("environment", "api-key", "cloud-key")
"""Kinds that are known for certain: a key of 32 hexadecimal digits behind its own mark is no canary."""


class Redactor:
    """Takes secrets out of what one trial leaves, and counts them.

    Parameters
    ----------
    values : iterable of str
        Texts that are secret whatever they look like; shorter ones than `MIN_VALUE` are ignored.

    Notes
    -----
    May be used by several threads.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        forms = {form for value in values if MIN_VALUE <= len(value) <= _MAX_VALUE for form in _forms(value)}
        # The longest first: one value may be the beginning of another.
        expressions = [_expression(form) for form in sorted(forms, key=lambda form: (-len(form), form))]
        self._values = re.compile("|".join(expressions)) if expressions else None
        self._n = 0
        self._lock = threading.Lock()

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> Redactor:
        """Know the values of the variables whose names say that they are secret."""
        return cls(value for name, value in environment.items() if is_secret_name(name))

    @property
    def n_redactions(self) -> int:
        """How many places were replaced so far."""
        return self._n

    def fresh(self) -> Redactor:
        """One that knows the same and has counted nothing."""
        other = Redactor()
        other._values = self._values
        return other

    def add(self, n: int) -> None:
        """Count what another one has replaced."""
        with self._lock:
            self._n += n

    def text(self, text: str) -> str:
        """Replace each secret by ``[redacted:KIND]``; what stands around it stays."""
        if self._values is not None:
            text = self._replaced(self._values, "environment", text)
        for kind, pattern in PATTERNS:
            text = self._replaced(pattern, kind, text)
        return text

    def data(self, data: bytes) -> bytes:
        """Replace secrets in bytes; those that are no UTF-8 stay as they are."""
        return self.text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def tree(self, value: Any) -> Any:
        """Replace secrets in every text of a JSON value, the names of its fields included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | tuple):
            return [self.tree(item) for item in value]
        if isinstance(value, dict):
            return {self.text(str(name)): self.tree(item) for name, item in value.items()}
        return value

    def _replaced(self, pattern: re.Pattern[str], kind: str, text: str) -> str:
        n_found = 0

        def replacement(match: re.Match[str]) -> str:
            nonlocal n_found
            begin, end = _secret_span(match)
            if _has_canary(match.group(), match.string[begin:end], kind):
                return match.group()
            n_found += 1
            return f"{match.string[match.start() : begin]}[redacted:{kind}]{match.string[end : match.end()]}"

        text = pattern.sub(replacement, text)
        if n_found:
            self.add(n_found)
        return text


def is_secret_name(name: str) -> bool:
    """Whether a variable's name says that its value is a secret, and not the place of one."""
    upper = name.upper()
    return any(word in upper for word in _SECRET_WORDS) and not upper.endswith(_PLACES)


def _secret_span(match: re.Match[str]) -> tuple[int, int]:
    for name, group in match.groupdict().items():
        if group is not None:
            return match.span(name)
    return match.span()


def _has_canary(whole: str, secret: str, kind: str) -> bool:
    """Whether a text may be a truth's canary, which has to be found wherever an agent shows it."""
    return _CANARY.search(whole) is not None or (
        kind not in _MARKED and _RANDOM_PART.search(secret) is not None
    )


def _forms(value: str) -> set[str]:
    """A value as it is, in JSON, in an address, and without the white space at its ends."""
    bare = value.strip()
    if len(bare) < MIN_VALUE:
        return set()
    in_address = quote(bare, safe="", errors="surrogateescape")
    return {bare, json.dumps(bare)[1:-1], json.dumps(bare, ensure_ascii=False)[1:-1], in_address}


def _expression(form: str) -> str:
    """What could be an object's name is a secret only where it is the whole name."""
    literal = re.escape(form)
    if _OBJECT_NAME.fullmatch(form) is None:
        return literal
    return rf"(?<!{_IN_A_NAME}){literal}(?!{_IN_A_NAME})"
