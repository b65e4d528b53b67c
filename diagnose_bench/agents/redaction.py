"""The redaction list: strings that are cut out of every text that leaves for a hosted agent, and counted.

It finds strings as they stand, and as they stand inside JSON. It is no wall against an agent that has the
sandbox write them in another form: what must not leave at all does not belong into a snapshot.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from diagnose_bench.errors import UsageError
from diagnose_bench.files import sha256_of_bytes

PLACEHOLDER = "[redacted]"
_MAX_BYTES = 1 << 20
_MOST, _LONGEST = 1000, 1000
"""Strings, and characters of one: looking for them must stay cheap beside the command."""
_CUT = re.compile(r"\n\[\.\.\. \d+ bytes of output cut here \.\.\.\]\n")
_LEAST = 3
"""A shorter string would cut most words."""


class RedactionList:
    """Strings to cut out; an empty one changes nothing.

    Parameters
    ----------
    strings : iterable of str
        As they stand in texts; case matters.
    """

    def __init__(self, strings: tuple[str, ...] = ()) -> None:
        forms = {form for text in strings for form in _forms(text)}
        # The longest first, so that of two strings with one beginning the longer one is cut.
        self._forms = sorted(forms, key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join(map(re.escape, self._forms))) if forms else None
        self.digest = sha256_of_bytes("\n".join(self._forms).encode()) if forms else None

    def redact(self, text: str) -> tuple[str, int]:
        """Cut every string out.

        Returns
        -------
        text : str
            With a placeholder in the place of each.
        n : int
            How many were cut out.

        Notes
        -----
        Where a long output was cut in its middle, a piece of a string may stand at the cut: it goes, too.
        """
        if self._pattern is None:
            return text, 0
        found = _CUT.search(text)
        if found is not None:
            head, n_head = self._at_cut(text[: found.start()], at_end=True)
            tail, n_tail = self._at_cut(text[found.end() :], at_end=False)
            return head + found.group() + tail, n_head + n_tail
        return self._pattern.subn(PLACEHOLDER, text)

    def _at_cut(self, text: str, *, at_end: bool) -> tuple[str, int]:
        assert self._pattern is not None
        text, n = self._pattern.subn(PLACEHOLDER, text)
        for form in self._forms:
            for length in range(len(form) - 1, _LEAST - 1, -1):
                if at_end and text.endswith(form[:length]):
                    return text[:-length] + PLACEHOLDER, n + 1
                if not at_end and text.startswith(form[-length:]):
                    return PLACEHOLDER + text[length:], n + 1
        return text, n


def load_redaction_list(path: Path) -> RedactionList:
    """Read a list: UTF-8, one string a line, empty lines left out.

    Raises
    ------
    UsageError
        The file cannot be read, is too large, no UTF-8, holds nothing, or a string that is too short.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise UsageError(f"--redact {path}: larger than 1 MiB. Give fewer strings.")
        lines = data.decode("utf-8-sig").splitlines()
    except OSError as error:
        raise UsageError(f"--redact {path}: {error.strerror}. Give a file with one string a line.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--redact {path}: is no UTF-8 text. Give one string a line.") from error
    strings = tuple(line for line in lines if line.strip())
    if not strings:
        raise UsageError(f"--redact {path}: holds no string. Give one a line, or leave the option out.")
    if len(strings) > _MOST:
        raise UsageError(f"--redact {path}: {len(strings)} strings; at most {_MOST} are taken.")
    for number, line in enumerate(lines, 1):
        if len(line) > _LONGEST:
            raise UsageError(f"--redact {path}, line {number}: longer than {_LONGEST} characters.")
        if line.strip() and len(line) < _LEAST:
            raise UsageError(
                f"--redact {path}, line {number}: {line!r} has fewer than {_LEAST} characters, and would cut "
                "most words. Give a longer string."
            )
    return RedactionList(strings)


def _forms(text: str) -> set[str]:
    escaped = json.dumps(text, ensure_ascii=False)[1:-1]
    return {text, escaped, json.dumps(text)[1:-1]}
