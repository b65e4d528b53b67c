"""The outermost JSON values of a text that an agent wrote: chat, fences, thinking parts, broken pieces.

It says where values are and which of them may be an answer by their place; it never says whether one is a
diagnosis. Every part of the text is passed once: after a value that breaks off, reading goes on from there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from diagnose_bench.diagnosis_json import BrokenValue, ParsedValue, ValueReader

_THINKING_NAMES = "think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis"
_THINKING_CLOSERS = {
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "<|channel|>analysis<|message|>": "<|end|>",
}
# A brace before anything but a key or a comment is prose, and so is "{}".
# "[THINK]" begins with a bracket, so marks are looked at before brackets.
_EVENT = re.compile(
    rf"(?P<mark>{'|'.join(map(re.escape, _THINKING_CLOSERS))})"
    r"|(?P<open>\[|\{(?=[ \t\r\n]*+[\"'/#]))|(?P<close>[}\]])|(?P<fence>`{3,}+|~{3,}+)"
    rf"|(?i:<(?P<tag>{_THINKING_NAMES})(?:\s[^<>]{{0,200}})?>|</(?P<end_tag>{_THINKING_NAMES})\s{{0,20}}>)"
)
_SPACE = re.compile(r"\s*+")
_INFO_STRING = re.compile(r"[\w.+-]*+")
_QUOTES = ("'", '"')


@dataclass(frozen=True, slots=True)
class TextValue:
    """A value that may be an answer by its place in the text."""

    parsed: ParsedValue
    in_fence: bool


@dataclass(frozen=True, slots=True)
class Failure:
    """Why something at a position of the text is no answer."""

    position: int
    reason: str


class TextScanner:
    """One pass over a text; the attributes hold for the text after :meth:`values` has run to its end.

    Attributes
    ----------
    has_content : bool
        Whether anything but white space and thinking was there.
    has_thinking : bool
        Whether a thinking part was left out.
    has_other : bool
        Whether prose or another value stood beside the value that was yielded last.
    failure : Failure or None
        The last thing that looked like JSON and is no value, or not one that may be an answer.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._reader = ValueReader(text)
        self._never_closed: set[str] = set()
        self.has_thinking = False
        self._restart()

    def _restart(self) -> None:
        self.has_content = False
        self.has_other = False
        self.failure: Failure | None = None
        self._n_values = 0
        self._fence: str | None = None
        self._block_is_blank = True
        self._n_damaged = 0  # open brackets of values that broke off

    def values(self) -> Iterator[TextValue | None]:
        """The values that may be answers, in order; None says that all before it was a thinking part."""
        position = 0
        while True:
            if self._block_is_blank:
                position = self._skip_space(position)
                if self._text[position : position + 1] in _QUOTES:
                    parsed = self._whole_string(position)
                    if parsed:
                        yield self._value(parsed)
                        position = parsed.end
                        continue
                    self._prose()
                    position += 1
            match = _EVENT.search(self._text, position)
            before = self._text[position : match.start() if match else len(self._text)]
            if before and not before.isspace():
                self._prose()
            if match is None:
                return
            if match["end_tag"]:
                self._restart()
                self.has_thinking = True
                yield None
                position = match.end()
            elif match["fence"]:
                position = self._at_fence(match)
            elif match["close"]:
                self._n_damaged = max(0, self._n_damaged - 1)
                self._prose()
                position = match.end()
            elif match["tag"] or match["mark"]:
                position = self._at_thinking(match)
            else:
                parsed_or_broken = self._reader.read(match.start())
                if isinstance(parsed_or_broken, BrokenValue):
                    position = self._at_broken(parsed_or_broken)
                else:
                    value = self._at_value(parsed_or_broken)
                    if value:
                        yield value
                    position = parsed_or_broken.end

    def _skip_space(self, position: int) -> int:
        match = _SPACE.match(self._text, position)
        return match.end() if match else position

    def _prose(self) -> None:
        self.has_content = self.has_other = True
        self._block_is_blank = False

    def _value(self, parsed: ParsedValue) -> TextValue:
        self._n_values += 1
        self.has_other = self.has_other or self._n_values > 1
        self.has_content = True
        self._block_is_blank = False
        return TextValue(parsed, in_fence=self._fence is not None)

    def _is_whole(self, end: int) -> bool:
        """Whether a value with nothing before it in its block has nothing after it either.

        A block is what a fence encloses, or the whole text.
        """
        end = self._skip_space(end)
        if self._fence is not None:
            return end == len(self._text) or self._text.startswith(self._fence, end)
        return end == len(self._text) and not self.has_content

    def _whole_string(self, start: int) -> ParsedValue | None:
        parsed = self._reader.read(start)
        return parsed if isinstance(parsed, ParsedValue) and self._is_whole(parsed.end) else None

    def _at_fence(self, match: re.Match[str]) -> int:
        run = match["fence"]
        info = _INFO_STRING.match(self._text, match.end())
        end = info.end() if info else match.end()
        if self._fence is not None and end == match.end() and run.startswith(self._fence):
            self._fence = None
            self._block_is_blank = False
        elif self._fence is None or end > match.end():
            # A fence with an info string opens, also where one that was never closed is open.
            self._fence = run
            self._block_is_blank = True
            self.has_content = True
        else:
            self._prose()
        return end

    def _at_thinking(self, match: re.Match[str]) -> int:
        if match["tag"]:
            closer = re.compile(rf"</{match['tag']}\s{{0,20}}>", re.IGNORECASE)
        else:
            closer = re.compile(re.escape(_THINKING_CLOSERS[match["mark"]]))
        start = match.end()
        end = None if closer.pattern in self._never_closed else closer.search(self._text, start)
        if end:
            self.has_thinking = True
            return end.end()
        self._never_closed.add(closer.pattern)
        if not self.has_content:
            self.has_thinking = True  # cut off while it was thinking
            return len(self._text)
        self._prose()
        return start

    def _at_broken(self, broken: BrokenValue) -> int:
        if broken.has_content:
            self._n_damaged += broken.depth
            self.failure = Failure(broken.end, f"a JSON value breaks off: {broken.reason}")
        self._prose()
        return max(broken.end, broken.start + 1)

    def _at_value(self, parsed: ParsedValue) -> TextValue | None:
        before = self._text[parsed.start - 1 : parsed.start]
        if before in _QUOTES and self._text.startswith(before, parsed.end):
            reason = "JSON in quotes inside other text is a quotation, not an answer"
        elif self._n_damaged and self._is_member(parsed.start):
            reason = "a part of a JSON value that breaks off is no answer"
        elif isinstance(parsed.value, list) and not (self._block_is_blank and self._is_whole(parsed.end)):
            reason = "a list is an answer only as the whole text or a whole fenced block"
        else:
            return self._value(parsed)
        self.failure = Failure(parsed.start, reason)
        self._prose()
        return None

    def _is_member(self, start: int) -> bool:
        """Whether what stands before a value makes it a member of a larger one: a key, a comma, a bracket."""
        at = start - 1
        while at >= 0 and self._text[at].isspace():
            at -= 1
        if at >= 0 and self._text[at] == ":":
            at -= 1
            while at >= 0 and self._text[at].isspace():
                at -= 1
            return at >= 0 and self._text[at] in _QUOTES
        return at >= 0 and self._text[at] in ",[{"
