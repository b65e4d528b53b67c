"""Bulk scoring: a file of rows of any number of agents -> a scorecard each, without a run folder.

Streams: a block of lines at a time becomes numbers, is scored and forgotten; what stays is one short record
for each trial. Small files go through plain Python, large ones through DuckDB; both give the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diagnose_bench import bulk_files
from diagnose_bench.bulk_names import NameBook
from diagnose_bench.bulk_row import TOO_LONG, Row, agent_of, read_row
from diagnose_bench.bulk_scorecard import GradedRows, Plan, grade_rows
from diagnose_bench.bulk_source import Block, read_lines, read_parquet
from diagnose_bench.bulk_trials import BlockRows, TrialArray, TrialColumns, Trials, score_columns
from diagnose_bench.errors import SuiteError, UsageError
from diagnose_bench.grading import scorecard_of
from diagnose_bench.grading_inputs import GradingInputs, inputs_of, without_excluded
from diagnose_bench.importers.diagnoses import MOST_REPEATS
from diagnose_bench.outcome import Outcome, Profile
from diagnose_bench.scorecard import EXIT_INCOMPLETE, Baselines, Scorecard
from diagnose_bench.suite import load_suite

DETAILED_BYTES = 4 << 20
"""Up to this size every submission is listed in the scorecards, and rows are read one by one."""
BULK_FORMAT_VERSION = 1
_LISTED = 20
_MOST_PLANNED = 10_000
_REMEMBERED_SCENARIOS = 100_000


@dataclass(frozen=True)
class AgentResult:
    """One agent of the file; ``head`` is its scorecard without scenarios and trials."""

    name: str
    path: Path
    head: dict[str, Any]
    n_trials: int


@dataclass
class BulkResult:
    """What became of a file of rows.

    Attributes
    ----------
    folder : Path
        Where the scorecards are.
    agents : tuple of AgentResult
        By name.
    n_rows, n_rejected : int
        Rows that were there; rows that were not taken.
    rejected : list
        The first rejected rows: line and reason. All are in ``rejected_path``.
    n_repeats : int
        Planned repeats of each scenario, for every agent.
    plan_is_guessed : bool
        Whether that is the highest repeat seen.
    is_detailed : bool
        Whether the scorecards list every trial with its submissions.
    """

    folder: Path
    rejected_path: Path
    trials_path: Path | None
    agents: tuple[AgentResult, ...]
    n_planned: int
    n_rows: int
    n_rejected: int
    rejected: list[tuple[int, str]]
    n_repeats: int
    plan_is_guessed: bool
    is_detailed: bool
    complete: bool
    n_names: int = 0
    """Distinct names that were resolved."""

    @property
    def exit_code(self) -> int:
        """0, or 3 where a row was rejected or a truth is refused."""
        return EXIT_INCOMPLETE if self.n_rejected or not self.complete else 0

    def notes(self) -> list[str]:
        """What a person should be told."""
        found = []
        if self.plan_is_guessed:
            found.append(
                f"Planned repeats of each scenario, for every agent: {self.n_repeats}, the highest one seen. "
                "Give --planned-repeats if another number was planned."
            )
        n_trials = sum(agent.n_trials for agent in self.agents)
        if n_trials < self.n_planned:
            found.append(
                f"{self.n_planned - n_trials} of {self.n_planned} planned trials are absent: no_diagnosis, "
                "scored 0."
            )
        if not self.is_detailed:
            found.append(
                "The file is large, so the scorecards hold no list of trials; --trials writes a row for each."
            )
        if self.n_rejected:
            found.append(f"{self.n_rejected} rejected, listed in {self.rejected_path}:")
            found.extend(f"  line {line}: {reason}" for line, reason in self.rejected)
            if self.n_rejected > len(self.rejected):
                found.append(f"  and {self.n_rejected - len(self.rejected)} more")
        return found

    def to_dict(self) -> dict[str, Any]:
        """The JSON value of ``index.json``, and of ``--format json``."""
        return {
            "format_version": BULK_FORMAT_VERSION,
            "n_rows": self.n_rows,
            "n_rejected": self.n_rejected,
            "n_repeats": self.n_repeats,
            "plan_is_guessed": self.plan_is_guessed,
            "n_planned": self.n_planned,
            "complete": self.complete,
            "agents": [
                {"agent": agent.name, "scorecard": agent.path.name, "n_trials": agent.n_trials, **agent.head}
                for agent in self.agents
            ],
        }


def score_file(
    path: Path,
    suite: str,
    *,
    truth: Path | None = None,
    profile: Profile = Profile.ITBENCH_AA,
    exclude: Sequence[str] = (),
    planned_repeats: int | None = None,
    out: Path | None = None,
    trials: Path | None = None,
) -> BulkResult:
    """Score a file of rows: agent, scenario_id, repeat, and one of entities, diagnosis and text.

    Parameters
    ----------
    path : Path
        JSON lines, or Parquet where the name ends in ``.parquet``.
    suite : str
        Name or folder of the suite.
    truth : Path, optional
        Folder of the truths, where they are not beside the suite.
    profile : Profile
        Which profile the headlines are taken from; both are computed.
    exclude : sequence of str
        Scenarios to take out of every number.
    planned_repeats : int, optional
        Repeats of each scenario that were planned for every agent; the highest one seen by default.
    out : Path, optional
        Folder of the scorecards, by default ``<path>.scorecards``. Rejected rows are listed beside it, in
        ``<out>.rejected.jsonl``, by default ``<path>.rejected.jsonl``.
    trials : Path, optional
        Write one row per planned trial here, as Parquet.

    Raises
    ------
    UsageError
        The file cannot be read, or no row of it can be taken; nothing is written but the rejected rows.
    SuiteError
        The suite or its truths are unusable.
    """
    if planned_repeats is not None and not 1 <= planned_repeats <= _MOST_PLANNED:
        raise UsageError(f"--planned-repeats {planned_repeats}: give a number from 1 to {_MOST_PLANNED}.")
    if not path.is_file():
        state = "is not a regular file" if path.exists() else "does not exist"
        raise UsageError(f"{path}: {state}. Give a JSONL or Parquet file of rows.")
    folder = path.with_name(f"{path.name}.scorecards") if out is None else out
    rejected_path = (
        path.with_name(f"{path.name}.rejected.jsonl")
        if out is None
        else out.with_name(f"{out.name}.rejected.jsonl")
    )
    bulk_files.check_out(folder)
    targets = [folder, rejected_path, *([] if trials is None else [trials])]
    if len({target.resolve() for target in [*targets, path]}) <= len(targets):
        raise UsageError("--out, --trials and the file of rows must be different places.")
    inputs = inputs_of(load_suite(suite), truth)
    scenario_ids = tuple(scenario.id for scenario in inputs.suite.scenarios)
    counted, excluded = without_excluded(inputs, scenario_ids, exclude)
    with bulk_files.staged(*targets) as places:
        reading = _Reading(inputs, path, planned_repeats, places[rejected_path])
        reading.read()
        found, second = reading.trials.finish()
        reading.reject_second(second)
        _publish_rejected(reading, places[rejected_path], rejected_path)
        agents, found = _by_name(reading, found)
        if not found.size and planned_repeats is None:
            raise UsageError(f"{path}: no row could be taken. {reading.first_reasons()}")
        plan = Plan(
            scenario_ids=counted,
            n_repeats=planned_repeats or int(found["repeat"].max()),
            excluded=excluded,
            places=_places(scenario_ids, counted),
        )
        n_root_causes = reading.root_causes()
        result = BulkResult(
            folder=folder,
            rejected_path=rejected_path,
            trials_path=trials,
            agents=(),
            n_planned=len(counted) * plan.n_repeats * len(agents),
            n_rows=reading.n_rows,
            n_rejected=reading.rejects.n_rows,
            rejected=sorted(reading.rejected)[:_LISTED],
            n_repeats=plan.n_repeats,
            plan_is_guessed=planned_repeats is None,
            is_detailed=reading.details is not None,
            complete=not any(scenario_id in inputs.truths.refused for scenario_id in counted),
            n_names=reading.names.n_resolved,
        )
        places[folder].mkdir()
        result.agents = tuple(
            _write_scorecards(reading, agents, found, plan, profile, n_root_causes, places[folder])
        )
        bulk_files.write_document(places[folder] / bulk_files.INDEX, result.to_dict())
        if trials is not None:
            refused = np.array([one in inputs.truths.refused for one in scenario_ids], dtype=np.bool_)
            bulk_files.write_trials(places[trials], found, agents, plan, n_root_causes, refused)
            places[trials].replace(trials)
        bulk_files.publish_folder(places[folder], folder)
        result.agents = tuple(
            AgentResult(agent.name, folder / agent.path.name, agent.head, agent.n_trials)
            for agent in result.agents
        )
    return result


def _publish_rejected(reading: _Reading, staging: Path, path: Path) -> None:
    if reading.rejects.n_rows:
        staging.replace(path)
    elif path.is_file():
        # It lists rows of an earlier file.
        path.unlink()


def _places(scenario_ids: Sequence[str], counted: Sequence[str]) -> NDArray[np.int64]:
    place = {scenario_id: index for index, scenario_id in enumerate(counted)}
    return np.array([place.get(scenario_id, -1) for scenario_id in scenario_ids], dtype=np.int64)


def _by_name(reading: _Reading, found: TrialArray) -> tuple[list[str], TrialArray]:
    """The agents that have a trial, by name, and the trials in that order."""
    names = list(reading.agents)
    seen = sorted(np.unique(found["agent"]).tolist(), key=lambda number: names[number])
    renumbered = np.zeros(len(names) or 1, dtype=np.int32)
    renumbered[seen] = np.arange(len(seen))
    found["agent"] = renumbered[found["agent"]]
    return [names[number] for number in seen], found[np.argsort(found["agent"], kind="stable")]


def _write_scorecards(
    reading: _Reading,
    agents: list[str],
    found: TrialArray,
    plan: Plan,
    profile: Profile,
    n_root_causes: NDArray[np.int64],
    folder: Path,
) -> Iterator[AgentResult]:
    slugs = bulk_files.slugs(agents)
    edges = np.searchsorted(found["agent"], np.arange(len(agents) + 1))
    baselines: Baselines | None = None
    for number, agent in enumerate(agents):
        rows = found[edges[number] : edges[number + 1]]
        graded: GradedRows = grade_rows(
            agent, rows, reading.inputs, plan, profile, n_root_causes, reading.details
        )
        scorecard = scorecard_of(graded, baselines=baselines)
        baselines = scorecard.baselines
        path = folder / f"{slugs[agent]}.json"
        bulk_files.write_document(path, scorecard.to_dict())
        n_trials = int((plan.places[rows["scenario"]] >= 0).sum())
        yield AgentResult(agent, path, _head(scorecard), n_trials)


def _head(scorecard: Scorecard) -> dict[str, Any]:
    """The numbers that stand in the table: the scorecard without what it has for each scenario."""
    whole = scorecard.model_copy(update={"scenarios": ()}).to_dict()
    kept = ("headline", "subset", "metrics", "profiles", "baselines", "outcomes", "signature", "complete")
    head = {name: whole[name] for name in kept}
    head["baselines"] = {name: whole["baselines"][name] for name in ("empty", "blind", "lift")} | {
        "constant": whole["baselines"]["constant"]["score"]
    }
    return head


@dataclass
class _Reading:
    """Everything that is known while the rows of a file go by."""

    inputs: GradingInputs
    path: Path
    planned_repeats: int | None
    rejected_to: Path
    trials: Trials = field(default_factory=Trials)
    agents: dict[str, int] = field(default_factory=dict)
    rejected: list[tuple[int, str]] = field(default_factory=list)
    details: dict[int, Row] | None = field(default_factory=dict)
    n_rows: int = 0

    def __post_init__(self) -> None:
        self.rejects = bulk_files.RejectedRows(self.rejected_to)
        self._scenarios: dict[str, int | str] = {}
        ids = [scenario.id for scenario in self.inputs.suite.scenarios]
        self._numbers = {scenario_id: number for number, scenario_id in enumerate(ids)}
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
                self.names.forget_if_full()
                rows = self._one_by_one(block) if reader is None else self._by_columns(block, reader)
                self.trials.add(score_columns(rows, self.names.table(), self.root_causes()))
        finally:
            self.rejects.close()
            if reader is not None:
                reader.close()

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
            if len(self.rejected) >= 2 * _LISTED:
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

    def _reject(self, line: int, reason: str) -> None:
        self.rejects.add(line, reason)
        if len(self.rejected) < _LISTED:
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

    def _by_columns(self, block: Block, reader: Any) -> TrialColumns:
        plain = None if block.too_long else reader.read(block.data, self._highest_repeat())
        if plain is None:
            return self._one_by_one(block)
        self.n_rows += plain.lines.size
        others = np.ones(block.data.count(b"\n"), dtype=np.bool_)
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
