"""Reads a bulk file block by block: each row is taken or rejected, scored, and forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from numpy.typing import NDArray

from diagnose_bench.bulk_files import RejectedRows
from diagnose_bench.bulk_names import NameBook
from diagnose_bench.bulk_row import TOO_LONG, Row, agent_of, read_row
from diagnose_bench.bulk_source import Block, read_lines, read_parquet
from diagnose_bench.bulk_traces import RowTraces
from diagnose_bench.bulk_trials import BlockRows, TrialArray, TrialColumns, Trials, score_columns
from diagnose_bench.errors import SuiteError
from diagnose_bench.grading_inputs import GradingInputs
from diagnose_bench.importers.diagnosis_sources import MOST_REPEATS
from diagnose_bench.outcome import Outcome

if TYPE_CHECKING:
    from diagnose_bench.bulk_columns import ColumnReader

DETAILED_BYTES = 4 << 20
"""Up to this size rows are read one by one, and stay in memory until the scorecards list them."""
LISTED = 20
"""How many rejected rows are told to a person at once."""
_REMEMBERED_SCENARIOS = 100_000


@dataclass
class Reading:
    """Everything that is known while the rows of a file go by.

    Attributes
    ----------
    trials : Trials
        What was taken.
    agents : dict
        Number of each agent that a row was about, also of those whose rows were all rejected.
    rejected : list
        The first rejected rows: line and reason.
    details : dict or None
        Row by line; None once the file is too large for that.
    spool : file, optional
        Where the lines of a file go that is not made of lines, so that they can be read again.
    n_rows : int
        Rows that were there, blank lines not counted.
    traces : RowTraces
        What answers are searched for.
    """

    inputs: GradingInputs
    path: Path
    planned_repeats: int | None
    rejected_to: Path
    trials: Trials = field(default_factory=Trials)
    agents: dict[str, int] = field(default_factory=dict)
    rejected: list[tuple[int, str]] = field(default_factory=list)
    details: dict[int, Row] | None = field(default_factory=dict)
    spool: BinaryIO | None = None
    n_rows: int = 0

    def __post_init__(self) -> None:
        self.rejects = RejectedRows(self.rejected_to)
        self._scenarios: dict[str, int | str] = {}
        ids = [scenario.id for scenario in self.inputs.suite.scenarios]
        self._numbers = {scenario_id: number for number, scenario_id in enumerate(ids)}
        self._ids = ids
        self.traces = RowTraces(self.inputs.traces)
        self.names = NameBook(self.inputs, ids, self.path.stat().st_size)
        self._n_root_causes: dict[int, int] = {}

    def read(self) -> None:
        """Read, score and forget the file, block by block."""
        n_bytes = 0
        blocks = read_parquet(self.path) if self.path.suffix == ".parquet" else read_lines(self.path)
        reader = None
        try:
            for block in blocks:
                n_bytes += len(block.data)
                if n_bytes > DETAILED_BYTES or block.too_long:
                    self.details = None
                if self.details is None and reader is None:
                    from diagnose_bench.bulk_columns import ColumnReader

                    reader = ColumnReader(self._known_agent, self._known_scenario, self.names.number)
                if self.names.forget_if_full() and reader is not None:
                    reader.forget()
                rows = self._one_by_one(block) if reader is None else self._by_columns(block, reader)
                found = score_columns(rows, self.names.table(), self.root_causes())
                if found.size:
                    starts, ends = block.edges
                    places = found["line"] - block.first
                    found["at"], found["size"] = block.at + starts[places], (ends - starts)[places]
                    self._count_events(block, found)
                self.trials.add(found)
                if self.spool is not None:
                    self.spool.write(block.data)
        finally:
            self.rejects.close()

    def reject_second(self, second: TrialArray) -> None:
        """Reject the rows that came second for their trial."""
        if not second.size:
            return
        names = list(self.agents)
        ids = list(self._numbers)

        def reasons() -> Iterator[tuple[int, str]]:
            for row in second:
                trial = f"{names[row['agent']]}, {ids[row['scenario']]}, repeat {row['repeat']}"
                yield int(row["line"]), f"{trial}, was there already; the first counts"

        for rejected in reasons():
            if len(self.rejected) >= 2 * LISTED:
                break
            self.rejected.append(rejected)
        self.rejects.merge(reasons())

    def root_causes(self) -> NDArray[np.int64]:
        """Root-cause sets by scenario of the suite; 0 for those that no row was about so far."""
        return np.array(
            [self._n_root_causes.get(number, 0) for number in self._numbers.values()], dtype=np.int64
        )

    def first_reasons(self) -> str:
        """Why no row could be taken."""
        if not self.rejected:
            return "It is empty."
        shown = "; ".join(f"line {line}: {reason}" for line, reason in self.rejected[:3])
        more = f"; and {self.rejects.n_rows - 3} more" if self.rejects.n_rows > 3 else ""
        return f"{shown}{more}."

    def _count_events(self, block: Block, found: TrialArray) -> None:
        """Note how many canaries each answer has; which, is found again where the trials are listed."""
        suspects = self.traces.lines(block)
        if not suspects.size:
            return
        starts, ends = block.edges
        places = found["line"] - block.first
        for index in np.flatnonzero(np.isin(places, suspects)).tolist():
            line = block.data[int(starts[places[index]]) : int(ends[places[index]])]
            events = self.traces.events(self._ids[int(found["scenario"][index])], line)
            found["n_events"][index] = len(events)

    def _reject(self, line: int, reason: str) -> None:
        self.rejects.add(line, reason)
        if len(self.rejected) < LISTED:
            self.rejected.append((line, reason))

    def _one_by_one(self, block: Block) -> TrialColumns:
        rows = BlockRows()
        if block.too_long:
            self.n_rows += 1
            self._reject(block.first, TOO_LONG)
        else:
            # Split at line feeds only, as lines are numbered.
            for number, line in enumerate(block.data[:-1].split(b"\n"), start=block.first):
                self._take(number, line, rows)
        return _as_columns(rows)

    def _by_columns(self, block: Block, reader: ColumnReader) -> TrialColumns:
        if block.too_long:
            return self._one_by_one(block)
        plain = reader.read(block.data, self._highest_repeat(), block.edges)
        self.n_rows += plain.lines.size
        others = np.ones(block.n_lines(), dtype=np.bool_)
        others[plain.lines] = False
        columns = TrialColumns(
            lines=plain.lines + block.first,
            agents=plain.agents,
            scenarios=plain.scenarios,
            repeats=plain.repeats,
            outcomes=np.full(plain.lines.size, _DIAGNOSED),
            names=plain.names,
            offsets=plain.offsets,
        )
        if not others.any():
            return columns
        rows = BlockRows()
        lines = block.data[:-1].split(b"\n")
        for place in np.flatnonzero(others).tolist():
            self._take(block.first + place, lines[place], rows)
        return _merged(columns, _as_columns(rows))

    def _take(self, number: int, line: bytes, rows: BlockRows) -> None:
        """Read one line; blank ones are passed over."""
        if not line.strip():
            return
        self.n_rows += 1
        try:
            row = read_row(line)
            scenario = self._scenario(row.scenario)
            if isinstance(scenario, str):
                raise ValueError(scenario)
            if row.repeat > self._highest_repeat():
                raise ValueError(self._too_high(row.repeat))
        except ValueError as error:
            self._reject(number, str(error))
            return
        agent = self.agents.setdefault(row.agent, len(self.agents))
        names = [] if row.names is None else self.names.numbers(scenario, row.names)
        rows.add(number, agent, scenario, row.repeat, row.outcome, names)
        if self.details is not None:
            self.details[number] = row

    def _scenario(self, text: str) -> int | str:
        """The number of a scenario, or why there is none."""
        found = self._scenarios.get(text)
        if found is None:
            if len(self._scenarios) >= _REMEMBERED_SCENARIOS:
                self._scenarios.clear()
            try:
                found = self._numbers[self.inputs.suite.scenario(text).id]
                if found not in self._n_root_causes:
                    self._n_root_causes[found] = self.names.n_root_causes(found)
            except SuiteError as error:
                found = f"unknown scenario: {error}"
            self._scenarios[text] = found
        return found

    def _known_scenario(self, text: str) -> int:
        found = self._scenario(text) if 0 < len(text) <= 190 else -1
        return found if isinstance(found, int) else -1

    def _known_agent(self, text: str) -> int:
        try:
            return self.agents.setdefault(agent_of(text), len(self.agents))
        except ValueError:
            return -1

    def _highest_repeat(self) -> int:
        return MOST_REPEATS if self.planned_repeats is None else self.planned_repeats

    def _too_high(self, repeat: int) -> str:
        if self.planned_repeats is None:
            return f"repeat {repeat} is above {MOST_REPEATS}: give --planned-repeats if it is meant"
        return f"repeat {repeat} is above the {self.planned_repeats} that were planned"


def _as_columns(rows: BlockRows) -> TrialColumns:
    lists = (rows.lines, rows.agents, rows.scenarios, rows.repeats, rows.outcomes, rows.names)
    lines, agents, scenarios, repeats, outcomes, names = (np.array(one, dtype=np.int64) for one in lists)
    offsets = np.cumsum([0, *rows.lengths], dtype=np.int64)
    return TrialColumns(lines, agents, scenarios, repeats, outcomes, names, offsets)


def _merged(left: TrialColumns, right: TrialColumns) -> TrialColumns:
    """Rows of two kinds in the order of the file; what they name keeps its own order."""
    lines = np.concatenate([left.lines, right.lines])
    order = np.argsort(lines, kind="stable")
    lengths = np.concatenate([np.diff(left.offsets), np.diff(right.offsets)])
    starts = np.concatenate([left.offsets[:-1], right.offsets[:-1] + left.names.size])
    offsets = np.concatenate([[0], np.cumsum(lengths[order])])
    steps = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths[order])
    names = np.concatenate([left.names, right.names])[np.repeat(starts[order], lengths[order]) + steps]

    def both(name: str) -> NDArray[np.int64]:
        joined: NDArray[np.int64] = np.concatenate([getattr(left, name), getattr(right, name)])[order]
        return joined

    return TrialColumns(
        lines[order], both("agents"), both("scenarios"), both("repeats"), both("outcomes"), names, offsets
    )


_DIAGNOSED = list(Outcome).index(Outcome.DIAGNOSED)
