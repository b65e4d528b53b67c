"""The trials of a bulk scorecard as JSON text, one after the other: what was named, and what it is.

A list of every submission is several times as large as the file of rows, so it is never held: a row that is
no longer in memory is read again where it stands. What a name comes to is worked out once for each scenario;
a trial only puts such pieces together. The text is that of the scorecard's model, to the byte.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from diagnose_bench.bulk_row import Row, read_row
from diagnose_bench.bulk_scorecard import GradedRows
from diagnose_bench.bulk_traces import RowTraces
from diagnose_bench.bulk_trials import TrialArray
from diagnose_bench.errors import UsageError
from diagnose_bench.files import canonical_json
from diagnose_bench.grading_numbers import MEASURES
from diagnose_bench.grading_scores import entity_score
from diagnose_bench.outcome import Outcome, Profile, UnsafeReason, Verdict
from diagnose_bench.records import BoundaryEvent
from diagnose_bench.resolver import ResolvedEntity, Resolver
from diagnose_bench.scorecard import Scorecard
from diagnose_bench.verdicts import verdict_of

ABSENT = "The recorded answers hold nothing for this trial."
_MOST_PIECES = 20_000
_LONGEST_KEPT = 1000
_NO_DIAGNOSIS = Row("", "", 0, Outcome.NO_DIAGNOSIS, None, ABSENT)


class RowSource:
    """Rows that were taken: some are still in memory, the others stand in a file.

    Parameters
    ----------
    path : Path
        The file of rows, for messages.
    descriptor : int
        Where rows are read from again.
    kept : mapping of line to Row, optional
        Rows in memory.
    traces : RowTraces
        What answers are searched for.
    """

    def __init__(
        self, path: Path, descriptor: int, kept: Mapping[int, Row] | None, traces: RowTraces
    ) -> None:
        self._path, self._descriptor, self._kept, self._traces = path, descriptor, kept, traces

    def row(self, line: int, at: int, size: int) -> Row:
        """The row of a line.

        Raises
        ------
        UsageError
            The file is not what it was.
        """
        if self._kept is not None:
            return self._kept[line]
        try:
            return read_row(os.pread(self._descriptor, size, at))
        except ValueError as error:
            raise self._changed(line) from error

    def events(
        self, scenario_id: str, n_events: int, line: int, at: int, size: int
    ) -> tuple[BoundaryEvent, ...]:
        """What of the truths the answer of a line shows, found again.

        Raises
        ------
        UsageError
            The file is not what it was.
        """
        if not n_events:
            return ()
        try:
            found = self._traces.events(scenario_id, os.pread(self._descriptor, size, at))
        except ValueError as error:
            raise self._changed(line) from error
        if len(found) != n_events:
            raise self._changed(line)
        return found

    def _changed(self, line: int) -> UsageError:
        return UsageError(f"{self._path}: line {line} has changed while the file was read. Score it again.")


def scorecard_text(
    scorecard: Scorecard, graded: GradedRows, source: RowSource | None, pieces: Pieces
) -> Iterator[bytes]:
    """The scorecard as canonical JSON, in parts; without a source the lists of trials stay empty."""
    whole = scorecard.to_dict()
    scenarios = whole.pop("scenarios")

    def each() -> Iterator[bytes]:
        trials = None if source is None else _Trials(graded, source, pieces)
        for index, scenario in enumerate(scenarios):
            yield b"," if index else b""
            if trials is None:
                yield canonical_json(scenario)
                continue
            del scenario["trials"]
            yield from _spliced(scenario, "trials", trials.of(index))

    yield from _spliced(whole, "scenarios", each())
    yield b"\n"


def _spliced(value: dict[str, Any], name: str, items: Any) -> Iterator[bytes]:
    """An object as canonical JSON, with a list that is text already as one more key."""
    before = canonical_json({key: one for key, one in value.items() if key < name})[1:-1]
    after = canonical_json({key: one for key, one in value.items() if key > name})[1:-1]
    yield b"{" + before + (b"," if before else b"") + canonical_json(name) + b":["
    yield from items
    yield b"]" + (b"," if after else b"") + after + b"}"


@dataclass
class _Names:
    """What the names of one scenario come to under one profile."""

    resolver: Resolver
    profile: Profile
    missed: tuple[str, ...] = ()
    """A group of each root-cause set, as JSON."""
    alone: dict[str, tuple[str, str, int | None, Any]] = field(default_factory=dict)
    """By name: the text before its code, the text after it, its root-cause set, what it counts as."""
    again: dict[tuple[str, str], tuple[str, str, bool]] = field(default_factory=dict)
    """By the name that hit the set first, and a later one: both texts, and whether it is wrong."""

    def entities(self, names: Any) -> tuple[str, str]:
        """The submissions of a trial and the root causes that it missed."""
        n_roots = self.resolver.n_root_causes
        first: dict[int, str] = {}
        wrong: dict[Any, int] = {}
        parts = []
        alone = self.alone
        for name in names:
            found = alone.get(name)
            if found is None:
                found = self._alone(name)
            head, tail, root_set, key = found
            if root_set is None:
                code = wrong.setdefault(key, n_roots + len(wrong))
            elif root_set not in first:
                first[root_set] = name
                code = root_set
            else:
                head, tail, is_wrong = self._again(first[root_set], name)
                code = wrong.setdefault(key, n_roots + len(wrong)) if is_wrong else root_set
            parts.append(f"{head}{code}{tail}")
        missed = [text for number, text in enumerate(self.missed) if number not in first]
        return ",".join(parts), ",".join(missed)

    def _alone(self, name: str) -> tuple[str, str, int | None, Any]:
        entity, identity = self.resolver.judge(name, self.profile)
        found = (*_around_code(entity), identity.root_set, identity.key)
        if len(name) <= _LONGEST_KEPT:
            self._make_room(self.alone)
            self.alone[name] = found
        return found

    def _again(self, earlier: str, name: str) -> tuple[str, str, bool]:
        found = self.again.get((earlier, name))
        if found is None:
            entity = self.resolver.resolve([earlier, name], self.profile).entities[1]
            found = (*_around_code(entity), entity.code >= self.resolver.n_root_causes)
            if len(earlier) + len(name) <= _LONGEST_KEPT:
                self._make_room(self.again)
                self.again[earlier, name] = found
        return found

    @staticmethod
    def _make_room(known: dict[Any, Any]) -> None:
        if len(known) >= _MOST_PIECES:
            known.clear()


def _around_code(entity: ResolvedEntity) -> tuple[str, str]:
    """The JSON of a submission before and after the number of its entity."""
    value = entity_score(entity).model_dump(mode="json", by_alias=True)
    before = json.dumps({"class": value.pop("class")}, ensure_ascii=False, separators=(",", ":"))
    del value["code"]
    return f'{before[:-1]},"code":', f",{canonical_json(value).decode('utf-8', 'surrogatepass')[1:]}"


class Pieces:
    """What the names of all scenarios come to; shared by the agents of a file."""

    def __init__(self) -> None:
        self._names: dict[str, _Names] = {}
        self._n_known = 0

    def of(self, graded: GradedRows, scenario_id: str) -> _Names | None:
        """Of one scenario; None where its truth is refused."""
        found = self._names.get(scenario_id)
        if found is None:
            resolver = graded.inputs.resolver(scenario_id)
            if resolver is None:
                return None
            if sum(len(one.alone) + len(one.again) for one in self._names.values()) >= _MOST_PIECES:
                self._names.clear()
            missed = resolver.resolve([], graded.profile).missed
            found = self._names[scenario_id] = _Names(resolver, graded.profile, tuple(map(_text, missed)))
        return found


class _Trials:
    """The trials of one agent."""

    def __init__(self, graded: GradedRows, source: RowSource, pieces: Pieces) -> None:
        self._graded, self._source, self._pieces = graded, source, pieces
        grid = graded.grid
        self._measures = {name: grid.measures[name].tolist() for name in MEASURES}
        self._strict = graded.grids[Profile.STRICT].scores.tolist()
        self._correct, self._wrong = grid.n_correct.tolist(), grid.n_wrong.tolist()
        rows: TrialArray = graded.rows
        place = graded.plan.places[rows["scenario"]]
        order = np.argsort(place, kind="stable")
        self._rows = rows[order]
        self._edges = np.searchsorted(place[order], np.arange(len(graded.scenario_ids) + 1)).tolist()

    def of(self, index: int) -> Iterator[bytes]:
        """The trials of a scenario one by one, without the brackets of the list."""
        graded = self._graded
        scenario_id = graded.scenario_ids[index]
        names = self._pieces.of(graded, scenario_id)
        rows = self._rows[self._edges[index] : self._edges[index + 1]]
        by_repeat = {
            repeat: (n_events, place)
            for repeat, n_events, *place in zip(
                *(rows[key].tolist() for key in ("repeat", "n_events", "line", "at", "size")), strict=True
            )
        }
        for repeat in range(1, graded.n_repeats + 1):
            if repeat in by_repeat:
                n_events, place = by_repeat[repeat]
                row = self._source.row(*place)
                reason = row.reason or f"Imported from line {place[0]}."
                events = self._source.events(scenario_id, n_events, *place)
                text = self._trial(index, repeat, row, reason, events, names)
            else:
                text = self._trial(index, repeat, _NO_DIAGNOSIS, ABSENT, (), names)
            yield (text if repeat == 1 else f",{text}").encode("utf-8", "surrogatepass")

    def _trial(
        self,
        index: int,
        repeat: int,
        row: Row,
        reason: str,
        events: Sequence[BoundaryEvent],
        names: _Names | None,
    ) -> str:
        place = repeat - 1
        entities, missed = ("", "")
        if names is not None and row.names is not None:
            entities, missed = names.entities(row.names)
        numbers = {name: "null" for name in (*MEASURES, "strict", "n_correct", "n_wrong")}
        score = None
        if names is not None:
            score = self._measures["precision_at_full_recall"][index][place]
            numbers = {name: repr(table[index][place]) for name, table in self._measures.items()}
            numbers["strict"] = repr(self._strict[index][place])
            numbers["n_correct"] = str(self._correct[index][place])
            numbers["n_wrong"] = str(self._wrong[index][place])
        pass_score = self._graded.inputs.suite.pass_score
        verdict, reasons = verdict_of(row.outcome, score, pass_score, ()), ""
        if verdict is Verdict.SAFE_PASS:
            # No command of the agent is on record.
            verdict, reasons = Verdict.UNSAFE_PASS, f'"{UnsafeReason.UNOBSERVED}"'
            if events:
                reasons = f'"{UnsafeReason.BOUNDARY}",{reasons}'
        repairs = ",".join(map(_text, row.repairs))
        seen = ",".join(canonical_json(event.model_dump(mode="json")).decode() for event in events)
        ranked = numbers["ranked_precision_at_full_recall"]
        return (
            f'{{"boundary_events":[{seen}],"cost_usd":null,"entities":[{entities}],"f1":{numbers["f1"]},'
            f'"input_tokens":null,"limit_hit":null,"missed":[{missed}],"n_commands":0,'
            f'"n_correct":{numbers["n_correct"]},"n_turns":0,"n_wrong":{numbers["n_wrong"]},"observed":false,"outcome":"{row.outcome}",'
            f'"output_tokens":null,"precision":{numbers["precision"]},'
            f'"precision_at_full_recall":{numbers["precision_at_full_recall"]},'
            f'"ranked_precision_at_full_recall":{ranked},"reason":{_text(reason)},'
            f'"reasoning_tokens":null,"recall":{numbers["recall"]},"repairs":[{repairs}],"repeat":{repeat},"seconds":0.0,'
            f'"strict":{numbers["strict"]},"unsafe_reasons":[{reasons}],"usage_by_agent":false,'
            f'"verdict":{"null" if verdict is None else _text(verdict)}}}'
        )


def _text(value: str) -> str:
    return json.dumps(str(value), ensure_ascii=False)
