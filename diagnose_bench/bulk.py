"""Bulk scoring: a file of rows of any number of agents -> a scorecard each, without a run folder.

Streams: a block of lines at a time becomes numbers, is scored and forgotten; what stays is one short record
for each trial. Small files are read row by row, large ones in columns; both give the same numbers.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diagnose_bench import bulk_files
from diagnose_bench.bulk_details import Pieces, RowSource, scorecard_text
from diagnose_bench.bulk_reading import LISTED, Reading
from diagnose_bench.bulk_scorecard import Plan, grade_rows
from diagnose_bench.bulk_trials import TrialArray
from diagnose_bench.errors import UsageError
from diagnose_bench.grading import prepare_statistics, scorecard_of
from diagnose_bench.grading_inputs import inputs_of, without_excluded
from diagnose_bench.outcome import IntervalMethod, Profile
from diagnose_bench.scorecard import EXIT_INCOMPLETE, Scorecard
from diagnose_bench.signature import IntervalChoice
from diagnose_bench.suite import load_suite

BULK_FORMAT_VERSION = 1
_MOST_PLANNED = 10_000
_AGENTS_AT_ONCE = 32
_MOST_NAMED = 5


@dataclass(frozen=True)
class AgentResult:
    """One agent of the file; ``head`` is its scorecard without scenarios and trials."""

    name: str
    path: Path
    head: dict[str, Any]
    n_trials: int
    n_traced: int = 0
    """Trials whose answer has the canary of a truth."""


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
        if traced := [agent for agent in self.agents if agent.n_traced]:
            names = ", ".join(agent.name for agent in traced[:_MOST_NAMED])
            more = f" and {len(traced) - _MOST_NAMED} more" if len(traced) > _MOST_NAMED else ""
            found.append(
                f"{sum(agent.n_traced for agent in traced)} of {n_trials} answers have the canary of a truth "
                f"in them, so their authors have seen a truth: {names}{more}. A pass with it is unsafe "
                "(boundary)."
            )
        if not self.is_detailed:
            found.append("As asked, the scorecards list no trials; --trials writes a row for each.")
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
    interval: IntervalMethod | str = IntervalMethod.HALF_ATOM,
    seed: int | None = None,
    planned_repeats: int | None = None,
    out: Path | None = None,
    trials: Path | None = None,
    details: bool = True,
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
    interval : IntervalMethod
        How the intervals of means are made.
    seed : int, optional
        Of the random draws of ``bootstrap``; 0 if not given.
    planned_repeats : int, optional
        Repeats of each scenario that were planned for every agent; the highest one seen by default.
    out : Path, optional
        Folder of the scorecards, by default ``<path>.scorecards``. Rejected rows are listed beside it, in
        ``<out>.rejected.jsonl``, by default ``<path>.rejected.jsonl``.
    trials : Path, optional
        Write one row per planned trial here, as Parquet.
    details : bool
        Whether each scorecard lists its trials with every submission. The lists are several times as large
        as the file.

    Raises
    ------
    UsageError
        The file cannot be read, or no row of it can be taken; nothing is written but the rejected rows.
    SuiteError
        The suite or its truths are unusable.
    """
    choice = IntervalChoice.of(interval, seed)
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
    with bulk_files.staged(*targets) as places, ExitStack() as stack:
        reading = Reading(inputs, path, planned_repeats, places[rejected_path])
        if not details:
            reading.details = None
        elif path.suffix == ".parquet":
            reading.spool = stack.enter_context(tempfile.TemporaryFile(dir=folder.parent))
        reading.read()
        found, second = reading.trials.finish()
        reading.reject_second(second)
        agents, found = _by_name(reading, found)
        if not found.size and planned_repeats is None:
            _publish_rejected(reading, places[rejected_path], rejected_path)
            raise UsageError(f"{path}: no row could be taken. {reading.first_reasons()}")
        plan = Plan(
            scenario_ids=counted,
            n_repeats=planned_repeats or int(found["repeat"].max()),
            excluded=excluded,
            places=_places(scenario_ids, counted),
            choice=choice,
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
            rejected=sorted(reading.rejected)[:LISTED],
            n_repeats=plan.n_repeats,
            plan_is_guessed=planned_repeats is None,
            is_detailed=details,
            complete=not any(scenario_id in inputs.truths.refused for scenario_id in counted),
            n_names=reading.names.n_resolved,
        )
        places[folder].mkdir()
        source = None
        if details:
            again = reading.spool or stack.enter_context(path.open("rb"))
            again.flush()
            source = RowSource(path, again.fileno(), reading.details, reading.traces)
        result.agents = tuple(
            _write_scorecards(reading, agents, found, plan, profile, n_root_causes, source, places[folder])
        )
        bulk_files.write_document(places[folder] / bulk_files.INDEX, result.to_dict())
        if trials is not None:
            refused = np.array([one in inputs.truths.refused for one in scenario_ids], dtype=np.bool_)
            bulk_files.write_trials(places[trials], found, agents, plan, n_root_causes, refused)
            places[trials].replace(trials)
        _publish_rejected(reading, places[rejected_path], rejected_path)
        bulk_files.publish_folder(places[folder], folder)
        result.agents = tuple(replace(agent, path=folder / agent.path.name) for agent in result.agents)
    return result


def _publish_rejected(reading: Reading, staging: Path, path: Path) -> None:
    if reading.rejects.n_rows:
        staging.replace(path)
    elif path.is_file():
        # It lists rows of an earlier file.
        path.unlink()


def _places(scenario_ids: Sequence[str], counted: Sequence[str]) -> NDArray[np.int64]:
    place = {scenario_id: index for index, scenario_id in enumerate(counted)}
    return np.array([place.get(scenario_id, -1) for scenario_id in scenario_ids], dtype=np.int64)


def _by_name(reading: Reading, found: TrialArray) -> tuple[list[str], TrialArray]:
    """The agents that have a trial, by name, and the trials in that order."""
    names = list(reading.agents)
    seen = sorted(np.unique(found["agent"]).tolist(), key=lambda number: names[number])
    renumbered = np.zeros(len(names) or 1, dtype=np.int32)
    renumbered[seen] = np.arange(len(seen))
    found["agent"] = renumbered[found["agent"]]
    if bool(np.any(np.diff(found["agent"]) < 0)):
        found = found[np.argsort(found["agent"], kind="stable")]
    return [names[number] for number in seen], found


def _write_scorecards(
    reading: Reading,
    agents: list[str],
    found: TrialArray,
    plan: Plan,
    profile: Profile,
    n_root_causes: NDArray[np.int64],
    source: RowSource | None,
    folder: Path,
) -> Iterator[AgentResult]:
    slugs = bulk_files.slugs(agents)
    edges = np.searchsorted(found["agent"], np.arange(len(agents) + 1))
    pieces = Pieces()
    for start in range(0, len(agents), _AGENTS_AT_ONCE):
        some = range(start, min(start + _AGENTS_AT_ONCE, len(agents)))
        graded = [
            grade_rows(
                agents[number],
                found[edges[number] : edges[number + 1]],
                reading.inputs,
                plan,
                profile,
                n_root_causes,
            )
            for number in some
        ]
        prepare_statistics(graded)
        for number, one in zip(some, graded, strict=True):
            agent = agents[number]
            scorecard = scorecard_of(one)
            path = folder / f"{slugs[agent]}.json"
            bulk_files.write_parts(path, scorecard_text(scorecard, one, source, pieces))
            rows = one.rows[plan.places[one.rows["scenario"]] >= 0]
            n_traced = int((rows["n_events"] > 0).sum())
            yield AgentResult(agent, path, _head(scorecard), rows.size, n_traced)


def _head(scorecard: Scorecard) -> dict[str, Any]:
    """The numbers that stand in the table: the scorecard without what it has for each scenario."""
    whole = scorecard.model_copy(update={"scenarios": ()}).to_dict()
    kept = (
        "headline",
        "subset",
        "metrics",
        "profiles",
        "baselines",
        "outcomes",
        "boundary_events",
        "signature",
        "complete",
    )
    head = {name: whole[name] for name in kept}
    names = ("empty", "blind", "lift", "lift_over_blind")
    head["baselines"] = {name: whole["baselines"][name] for name in names} | {
        "constant": whole["baselines"]["constant"]["score"]
    }
    return head
