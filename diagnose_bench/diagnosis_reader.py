"""The one tolerant reader of recorded answers: any bytes -> a diagnosis, or why there is none. Never raises.

It picks the answer among the JSON values of a text: `diagnosis_text` finds them, `diagnosis_json` reads each,
and `diagnosis` says whether it is a diagnosis. Syntax may be repaired, each repair by name; content is not
changed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from diagnose_bench.diagnosis import (
    MAX_BYTES,
    Diagnosis,
    ShapeReading,
    no_shape,
    parse_strict,
    read_shape,
    where,
)
from diagnose_bench.diagnosis_json import ParsedValue, same_value
from diagnose_bench.diagnosis_text import Failure, TextScanner, TextValue
from diagnose_bench.outcome import Outcome

_MAX_STRING_LEVELS = 3  # JSON in a string in a string in a string
_MAX_PROBLEMS = 5
_MAX_NOTES = 20
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # how bytes that cannot be decoded are kept
_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class ReadDiagnosis:
    """What became of a recorded answer.

    ``repairs`` names what was done to the syntax; ``reason`` says why there is no diagnosis; ``notes`` report
    what was seen and did not decide.
    """

    outcome: Outcome
    diagnosis: Diagnosis | None = None
    repairs: tuple[str, ...] = ()
    reason: str = ""
    notes: tuple[str, ...] = ()


def read_diagnosis(data: bytes, *, repair: bool = True) -> ReadDiagnosis:
    """Read an agent's recorded answer.

    Parameters
    ----------
    data : bytes
        A file of any agent, or chat text.
    repair : bool
        Whether syntax may be repaired; without, the text has to be one JSON value.

    Notes
    -----
    The outermost JSON values of the text are looked at in turn; the last one that validates is the answer. A
    list or a string that holds JSON counts only as the whole text or as a whole fenced block. Time and memory
    are linear in the size, which is checked first.
    """
    if len(data) > MAX_BYTES:
        return _malformed(f"{len(data)} bytes; at most {MAX_BYTES} are read")
    # Bytes that are not UTF-8 stay what they are: a fault inside the answer, noise elsewhere.
    text = data.decode("utf-8", "surrogateescape")
    if not text.strip():
        return ReadDiagnosis(Outcome.NO_DIAGNOSIS, reason="the text is blank")
    if not repair:
        return _read_strict(text)
    result = _read_text(text)
    if result.diagnosis is not None and _NOT_UTF8.search(text):
        result = replace(
            result, notes=_bounded((*result.notes, "bytes that are not UTF-8 stand beside the answer"))
        )
    return result


def _read_strict(text: str) -> ReadDiagnosis:
    parsed = parse_strict(text)
    if isinstance(parsed, str):
        return _malformed(f"{parsed} (repairs are turned off)")
    result = _read_value(parsed, read_shape(parsed))
    return replace(result, notes=_bounded(result.notes))


def _read_text(text: str, level: int = 0) -> ReadDiagnosis:
    has_mark = text.startswith(_BYTE_ORDER_MARK)
    text = text.removeprefix(_BYTE_ORDER_MARK)
    scanner = TextScanner(text)
    choice = _Choice(text)
    for item in scanner.values():
        if item is None:
            choice = _Choice(text)
        else:
            choice.consider(item, level)
    repairs = {
        "byte_order_mark": has_mark,
        "thinking_ignored": scanner.has_thinking,
        "text_around_ignored": scanner.has_other,
    }
    done = tuple(name for name, is_done in repairs.items() if is_done)
    if not scanner.has_content:
        what = "nothing but a thinking part" if scanner.has_thinking else "the text is blank"
        return ReadDiagnosis(Outcome.NO_DIAGNOSIS, reason=what)
    if choice.answer is not None:
        answer = choice.answer
        names = tuple(sorted({*answer.repairs, *done}))
        return replace(answer, repairs=names, notes=_bounded((*answer.notes, *choice.notes())))
    failure = choice.failure or scanner.failure
    if failure is None:
        return _malformed("there is no JSON in the text that could be an answer")
    at = "" if failure.position == 0 else f"{where(text, failure.position)}: "
    return replace(_malformed(at + failure.reason), notes=choice.notes())


class _Choice:
    """The answer so far, while the values of a text go by in their order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._answer_at: ParsedValue | None = None
        self._failure_has_shape = False
        self.answer: ReadDiagnosis | None = None
        self.failure: Failure | None = None
        self._seen: list[Failure] = []

    def consider(self, item: TextValue, level: int) -> None:
        parsed = item.parsed
        if isinstance(parsed.value, str):
            result, has_shape = _read_string(parsed.value, level), True
        else:
            reading = read_shape(parsed)
            result, has_shape = _read_value(parsed, reading), reading is not None
        if result.outcome in (Outcome.DIAGNOSED, Outcome.REFUSED):
            fence = ("fenced_block",) if item.in_fence else ()
            self._take(replace(result, repairs=(*result.repairs, *parsed.repairs, *fence)), parsed)
        else:
            self._reject(parsed, result.reason, has_shape)

    def _take(self, result: ReadDiagnosis, parsed: ParsedValue) -> None:
        if self._answer_at is not None and not same_value(self._answer_at.value, parsed.value):
            self._note(Failure(self._answer_at.start, "another valid answer; only the last one counts"))
        self.answer, self._answer_at = result, parsed

    def _reject(self, parsed: ParsedValue, reason: str, has_shape: bool) -> None:
        # What was meant as a diagnosis explains more than an object that is none.
        failure = Failure(parsed.start, reason)
        if has_shape or not self._failure_has_shape:
            self.failure = failure
            self._failure_has_shape = has_shape
        if has_shape:
            self._note(failure)
        elif parsed.faults:
            self._note(Failure(parsed.start, parsed.faults[0]))

    def _note(self, seen: Failure) -> None:
        if len(self._seen) < _MAX_NOTES:
            self._seen.append(seen)

    def notes(self) -> tuple[str, ...]:
        """What was seen beside the answer, or beside the reason why there is none."""
        seen = [it for it in self._seen if self.answer is not None or it != self.failure]
        return tuple(f"{where(self._text, it.position)}: {it.reason}" for it in seen)


def _read_string(value: str, level: int) -> ReadDiagnosis:
    if level >= _MAX_STRING_LEVELS:
        return _malformed("JSON in strings in strings, too many times over")
    inner = _read_text(value, level + 1)
    return replace(inner, repairs=(*inner.repairs, "json_string"))


def _read_value(parsed: ParsedValue, reading: ShapeReading | None) -> ReadDiagnosis:
    if isinstance(parsed.value, dict) and parsed.value.get("refused") is True and not parsed.faults:
        return ReadDiagnosis(Outcome.REFUSED, reason='the agent answered {"refused": true}')
    if reading is None:
        return _malformed(no_shape(parsed.value))
    if reading.diagnosis is None:
        return _malformed(_problems(reading))
    return ReadDiagnosis(Outcome.DIAGNOSED, reading.diagnosis, notes=reading.notes)


def _malformed(reason: str) -> ReadDiagnosis:
    return ReadDiagnosis(Outcome.MALFORMED_DIAGNOSIS, reason=reason)


def _problems(reading: ShapeReading) -> str:
    shown = "; ".join(reading.problems[:_MAX_PROBLEMS])
    more = len(reading.problems) - _MAX_PROBLEMS
    return f"{shown}; and {more} more" if more > 0 else shown


def _bounded(notes: tuple[str, ...]) -> tuple[str, ...]:
    return notes[:_MAX_NOTES]
