"""The keys that this process sends to a model's server, and texts without them."""

from __future__ import annotations

import re
from collections.abc import Iterable

_MARK = "[key removed]"
_SHORTEST = 8
# What servers quote of a key is often masked in the middle.
_LOOKS_LIKE_KEY = re.compile(
    r"\b(?:sk|pk|rk)-[A-Za-z0-9_\-]{2,}[*.…][A-Za-z0-9_\-*.…]*|\bsk-[A-Za-z0-9_\-]{20,}"
)
_BEARER = re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/=\-]{8,}")


class Secrets:
    """Values that must reach no file, message or log.

    Parameters
    ----------
    values : iterable of str
        Keys. A word of fewer than eight letters is a placeholder of a local server and is no secret.
    """

    def __init__(self, values: Iterable[str]) -> None:
        found = {value for value in values if len(value) >= _SHORTEST}
        # The longest first, so that no rest of one stays where another one is part of it.
        self._values = sorted(found, key=lambda value: (-len(value), value))

    def without(self, text: str) -> str:
        """A text of the model's server without these values."""
        for value in self._values:
            text = text.replace(value, _MARK)
        return text

    def without_any_key(self, text: str) -> str:
        """An error message without these values, and without what looks like a key."""
        return _BEARER.sub(rf"\1{_MARK}", _LOOKS_LIKE_KEY.sub(_MARK, self.without(text)))
