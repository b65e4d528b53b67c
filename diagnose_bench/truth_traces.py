"""Words that only a truth knows, found in what an agent typed, saw or handed in. For scoring alone.

The canary of a truth is random: whoever has it has seen the truth. Other words of the truth are words of a
language, and an agent may find them itself; a whole sentence of it is worth a look.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from diagnose_bench.ground_truth_models import GroundTruth
from diagnose_bench.records import (
    BoundaryEvent,
    CommandRecord,
    Confidence,
    EventKind,
    EventLayer,
    TrialRecord,
)
from diagnose_bench.truth_terms import truth_only_strings

MIN_CANARY = 12
"""A shorter canary could be a word."""
MIN_SENTENCE_WORDS = 5
MIN_SENTENCE_CHARACTERS = 30
_RANDOM_PART = re.compile(r"[0-9A-Za-z_-]{16,}$")


class TruthTraces:
    """Searches the trials of one suite.

    Parameters
    ----------
    truths : mapping of str to GroundTruth
        Every truth of the suite by scenario: the canary of another scenario is as bad as the own one.
    """

    def __init__(self, truths: Mapping[str, GroundTruth]) -> None:
        forms = {key: canary_forms(truth.canary or "") for key, truth in truths.items()}
        self._own = forms
        # Of the others only the plain form: every form of every scenario in every output takes its time.
        self._plain = {key: found[0] for key, found in forms.items() if found}
        self._sentences = {
            key: tuple(
                dict.fromkeys(
                    form
                    for text in truth_only_strings(truth)
                    if is_sentence(text)
                    for form in (text.casefold(), _in_json(text.casefold()))
                )
            )
            for key, truth in truths.items()
        }

    @property
    def forms(self) -> tuple[str, ...]:
        """Every form of every canary, in lower case: an answer without any of them has none."""
        return tuple(dict.fromkeys(form for forms in self._own.values() for form in forms))

    def events(
        self,
        scenario_id: str,
        record: TrialRecord | None,
        commands: Iterable[CommandRecord],
        answer: bytes | None,
    ) -> tuple[BoundaryEvent, ...]:
        """What of the truths a trial shows; the same for the same records, whenever it is asked for.

        Notes
        -----
        A command or an output counts as far as it was recorded: the middle of a long output was not.
        """
        found: list[BoundaryEvent] = []
        for command in commands:
            for where, text in (("the command", command.command), ("the output", command.output)):
                for detail, confidence in self._search(scenario_id, text):
                    found.append(_event(command.started_at, command.n, f"{where} has {detail}", confidence))
            if command.n_redactions:
                detail = f"the command had {command.n_redactions} texts like secrets, which are not on record"
                found.append(_event(command.started_at, command.n, detail, Confidence.MEDIUM))
        if answer is not None:
            found += self.in_answer(scenario_id, answer, _end_of(record))
        return tuple(found)

    def in_answer(self, scenario_id: str, answer: bytes, time: str = "") -> Iterator[BoundaryEvent]:
        """What of the truths an answer shows of which nothing else is on record, as a row of a file.

        Parameters
        ----------
        scenario_id : str
            Whose answer it is.
        answer : bytes
            As it was handed in, whether it can be read or not.
        time : str
            When; nothing where that is not known.
        """
        for detail, confidence in self._search(scenario_id, answer.decode("utf-8", "replace")):
            yield _event(time, None, f"the answer has {detail}", confidence)

    def _search(self, scenario_id: str, text: str) -> Iterator[tuple[str, Confidence]]:
        folded = text.casefold()
        # Plain searches, one by one: an alternation of them all is many times slower.
        if any(form in folded for form in self._own.get(scenario_id, ())):
            yield "the canary of the truth of this scenario", Confidence.HIGH
        for owner, form in self._plain.items():
            if owner != scenario_id and form in folded:
                yield f"the canary of the truth of {owner}", Confidence.HIGH
        for sentence in self._sentences.get(scenario_id, ()):
            if sentence in folded:
                yield f"a sentence of the truth: {sentence[:100]!r}", Confidence.MEDIUM
                return


def canary_forms(canary: str) -> tuple[str, ...]:
    """The forms in which a canary is looked for, in lower case: its random part, encoded, reversed.

    Notes
    -----
    Base64 depends on what stands before: each of the three ways in which it can fall, without the characters
    at the ends that neighbours change. In lower case, so another text in place of it is unlikely, not
    impossible; a canary has enough characters for that.
    """
    canary = canary.strip()
    if len(canary) < MIN_CANARY:
        return ()
    random_part = _RANDOM_PART.search(canary)
    core = random_part.group() if random_part else canary
    data = core.encode()
    forms = [core, core[::-1], data.hex()]
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + data).decode()
        forms.append(encoded[(8 * shift + 5) // 6 : 8 * (shift + len(data)) // 6])
    return tuple(dict.fromkeys(form.casefold() for form in forms if len(form) >= MIN_CANARY))


def is_sentence(text: str) -> bool:
    """Whether a text of the truth is too long to be hit upon: several words, and no address of a page."""
    return (
        len(text) >= MIN_SENTENCE_CHARACTERS and len(text.split()) >= MIN_SENTENCE_WORDS and "://" not in text
    )


def _in_json(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _event(time: str, command: int | None, detail: str, confidence: Confidence) -> BoundaryEvent:
    return BoundaryEvent(
        time=time,
        command=command,
        layer=EventLayer.TRUTH,
        kind=EventKind.SECRET,
        detail=detail,
        confidence=confidence,
    )


def _end_of(record: TrialRecord | None) -> str:
    """When the answer came, from the record alone."""
    if record is None:
        return ""
    try:
        end = datetime.fromisoformat(record.started_at) + timedelta(seconds=record.seconds)
    except (ValueError, OverflowError):
        return record.started_at
    return end.isoformat(timespec="milliseconds").replace("+00:00", "Z")
