"""Untrusted text for people: control characters become visible and are never interpreted."""

from __future__ import annotations

import unicodedata

_KEEP = frozenset("\n\t")
# Format characters that reorder or hide text (bidirectional overrides, zero-width, tags) deceive a reader.
_DECEPTIVE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def visible(text: str, *, keep_lines: bool = True) -> str:
    r"""Replace control, format and surrogate characters by a visible escape.

    Parameters
    ----------
    text : str
        Text of an agent, a snapshot or a file.
    keep_lines : bool
        Keep newlines and tabs; otherwise they are escaped too (for a cell or a single line).

    Returns
    -------
    str
        The same text with, for example, ESC as ``\x1b`` and U+202E as ``\u202e``.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible_character(character, keep_lines) for character in text)


def _visible_character(character: str, keep_lines: bool) -> str:
    if character in _KEEP:
        return character if keep_lines else {"\n": "\\n", "\t": "\\t"}[character]
    if unicodedata.category(character) not in _DECEPTIVE_CATEGORIES:
        return character
    point = ord(character)
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def count_text(counts: dict[str, int]) -> str:
    """Counts that are not zero, as one line."""
    return ", ".join(f"{name} {count}" for name, count in counts.items() if count) or "none"


def count_noun(number: int, noun: str) -> str:
    """A number with its noun: ``1 trial``, ``2 trials``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
