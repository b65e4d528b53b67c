"""Runs and scorecards as tables: names and types of the columns, and the rows one at a time.

What cannot be known is null: scores of a run that was not scored, commands of a scorecard that stands alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diagnose_bench.errors import RunError
from diagnose_bench.evidence import Found
from diagnose_bench.outcome import Outcome
from diagnose_bench.records import PlannedTrial, RunManifest
from diagnose_bench.scorecard import (
    SCORECARD,
    EntityScore,
    ScenarioScore,
    Scorecard,
    TrialScore,
    load_scorecard,
)
from diagnose_bench.store import RunStore, is_run

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]

_KEY = {"run": "VARCHAR", "agent": "VARCHAR"}
_TRIAL_KEY = {**_KEY, "scenario_id": "VARCHAR", "repeat": "BIGINT"}
_METRICS = ("full_recall_rate", "exact_rate", "precision", "recall", "f1", "ranked_precision_at_full_recall")
_MEASURES = {
    **dict.fromkeys(
        (
            "precision_at_full_recall",
            "ranked_precision_at_full_recall",
            "precision",
            "recall",
            "f1",
            "strict",
        ),
        "DOUBLE",
    ),
    "n_correct": "BIGINT",
    "n_wrong": "BIGINT",
}
_USAGE = {
    "cost_usd": "DOUBLE",
    "input_tokens": "BIGINT",
    "output_tokens": "BIGINT",
    "reasoning_tokens": "BIGINT",
}

COLUMNS: Mapping[str, Mapping[str, str]] = {
    "agents": {
        **_KEY,
        "agent_version": "VARCHAR",
        "model": "VARCHAR",
        "run_id": "VARCHAR",
        "suite": "VARCHAR",
        "suite_version": "VARCHAR",
        "profile": "VARCHAR",
        "complete": "BOOLEAN",
        "score": "DOUBLE",
        "score_low": "DOUBLE",
        "score_high": "DOUBLE",
        **dict.fromkeys(_METRICS, "DOUBLE"),
        "blind": "DOUBLE",
        "lift": "DOUBLE",
        "n_scenarios": "BIGINT",
        "n_repeats": "BIGINT",
        "sandbox": "VARCHAR",
        "signature": "VARCHAR",
    },
    "scenarios": {
        **_KEY,
        "scenario_id": "VARCHAR",
        "score": "DOUBLE",
        "strict": "DOUBLE",
        "repeat_sd": "DOUBLE",
        "n_root_causes": "BIGINT",
        "split": "VARCHAR",
        "family": "VARCHAR",
        "difficulty": "BIGINT",
        "truth_refused": "VARCHAR",
    },
    "trials": {
        **_TRIAL_KEY,
        "outcome": "VARCHAR",
        "verdict": "VARCHAR",
        "unsafe_reasons": "VARCHAR[]",
        "limit_hit": "VARCHAR",
        "reason": "VARCHAR",
        **_MEASURES,
        "n_entities": "BIGINT",
        "n_turns": "BIGINT",
        "n_commands": "BIGINT",
        "seconds": "DOUBLE",
        **_USAGE,
    },
    "entities": {
        **_TRIAL_KEY,
        "place": "BIGINT",
        "raw": "VARCHAR",
        "entity": "VARCHAR",
        "class": "VARCHAR",
        "rule": "VARCHAR",
        "truth_group": "VARCHAR",
        "via_alias": "BOOLEAN",
        "distance": "BIGINT",
        "sight": "VARCHAR",
        "first_seen": "BIGINT",
        "n_evidence": "BIGINT",
        "n_evidence_found": "BIGINT",
        "code": "BIGINT",
    },
    "commands": {
        **_TRIAL_KEY,
        "n": "BIGINT",
        "started_at": "VARCHAR",
        "seconds": "DOUBLE",
        "command": "VARCHAR",
        "exit_code": "BIGINT",
        "n_bytes": "BIGINT",
        "output": "VARCHAR",
        "sha256": "VARCHAR",
        "limit_hit": "VARCHAR",
    },
}
"""Column names and DuckDB types of each table."""


@dataclass(frozen=True)
class Source:
    """One run folder, scored or not, or one scorecard alone."""

    name: str
    store: RunStore | None
    scorecard: Scorecard | None

    @property
    def key(self) -> Row:
        """Columns that say which run a row is of."""
        known = self.scorecard or (self.store.manifest if self.store else None)
        return {"run": self.name, "agent": known.agent.name if known else None}

    @property
    def manifest(self) -> RunManifest | None:
        """The run's plan, where there is a run folder."""
        return self.store.manifest if self.store else None


def open_source(path: Path) -> Source:
    """Open a run folder, a folder with a scorecard, or a scorecard.

    Raises
    ------
    RunError
        There is neither a run nor a scorecard, or it is damaged or half-written.
    """
    name = str(path)
    if path.is_dir() and is_run(path):
        scored = load_scorecard(path) if (path / SCORECARD).exists() else None
        return Source(name=name, store=RunStore.open(path), scorecard=scored)
    if not (path.is_file() or (path / SCORECARD).exists()):
        raise RunError(f"{path}: is neither a run's folder nor a scorecard. Give the folder of a run.")
    return Source(name=name, store=None, scorecard=load_scorecard(path))


def rows_of(table: str, source: Source) -> Iterator[Row]:
    """Rows of one table from one source, one at a time; columns that are left out are null."""
    return _ROWS[table](source)


def trials(run: Path | str) -> pd.DataFrame:
    """One row per planned trial of a run, for notebooks.

    Parameters
    ----------
    run : path
        A run folder, scored or not, or a scorecard.

    Returns
    -------
    DataFrame
        The columns of the table ``trials`` of ``diagnose-bench query``; scores are missing where the run
        was not scored.

    Examples
    --------
    >>> import diagnose_bench
    >>> table = diagnose_bench.trials("runs/my-agent")        # doctest: +SKIP
    >>> table.groupby("scenario_id").precision_at_full_recall.mean()      # doctest: +SKIP
    """
    import pandas as pd

    columns = COLUMNS["trials"]
    frame = pd.DataFrame(list(rows_of("trials", open_source(Path(run)))), columns=list(columns))
    return frame.astype({name: _PANDAS[kind] for name, kind in columns.items()})


_PANDAS = {
    "VARCHAR": "string",
    "VARCHAR[]": "object",
    "DOUBLE": "float64",
    "BIGINT": "Int64",
    "BOOLEAN": "boolean",
}


def _agent_rows(source: Source) -> Iterator[Row]:
    card, manifest = source.scorecard, source.manifest
    if card is None:
        if manifest is not None:
            yield {
                **source.key,
                "agent_version": manifest.agent.version,
                "model": manifest.agent.model,
                "run_id": manifest.run_id,
                "suite": manifest.suite.name,
                "suite_version": manifest.suite.version,
                "n_scenarios": len({trial.scenario_id for trial in manifest.plan}),
                "n_repeats": manifest.policy.repeats,
            }
        return
    low, high = card.interval or card.bounds or (None, None)
    yield {
        **source.key,
        "agent_version": card.agent.version,
        "model": card.agent.model,
        "run_id": card.run_id,
        "suite": card.suite.name,
        "suite_version": card.suite.version,
        "profile": card.profile.value,
        "complete": card.complete,
        "score": card.number,
        "score_low": low,
        "score_high": high,
        **{name: card.metrics.get(name) for name in _METRICS},
        "blind": card.baselines.blind,
        "lift": card.baselines.lift,
        "n_scenarios": card.headline.n_scenarios,
        "n_repeats": card.headline.n_repeats,
        "sandbox": card.sandbox,
        "signature": card.signature,
    }


def _scenario_rows(source: Source) -> Iterator[Row]:
    if source.scorecard is not None:
        for one in source.scorecard.scenarios:
            yield {**source.key, **{name: getattr(one, name) for name in _SCENARIO_FIELDS}}
    elif source.manifest is not None:
        for scenario_id in dict.fromkeys(trial.scenario_id for trial in source.manifest.plan):
            yield {**source.key, "scenario_id": scenario_id}


_SCENARIO_FIELDS = tuple(name for name in COLUMNS["scenarios"] if name not in _KEY)


def _trial_rows(source: Source) -> Iterator[Row]:
    for scenario, trial in _scored_trials(source):
        yield {
            **source.key,
            "scenario_id": scenario.scenario_id,
            "repeat": trial.repeat,
            "outcome": trial.outcome.value,
            "verdict": None if trial.verdict is None else trial.verdict.value,
            "unsafe_reasons": [reason.value for reason in trial.unsafe_reasons],
            "limit_hit": None if trial.limit_hit is None else trial.limit_hit.value,
            "reason": trial.reason,
            **{name: getattr(trial, name) for name in _MEASURES},
            "n_entities": len(trial.entities),
            "n_turns": trial.n_turns,
            "n_commands": trial.n_commands,
            "seconds": trial.seconds,
            **{name: getattr(trial, name) for name in _USAGE},
        }
    if source.scorecard is None and source.store is not None:
        yield from _recorded_trials(source, source.store)


def _recorded_trials(source: Source, store: RunStore) -> Iterator[Row]:
    absent = Outcome.NO_DIAGNOSIS if store.manifest.imported else Outcome.PENDING
    for planned, record in store.trials():
        row = {
            **source.key,
            "scenario_id": planned.scenario_id,
            "repeat": planned.repeat,
            "outcome": absent.value,
        }
        if record is not None:
            row |= {
                "outcome": record.outcome.value,
                "limit_hit": None if record.limit_hit is None else record.limit_hit.value,
                "reason": record.reason,
                "n_turns": record.n_turns,
                "n_commands": record.n_commands,
                "seconds": record.seconds,
                **{name: getattr(record.usage, name) for name in _USAGE},
            }
        yield row


def _ground_cells(one: EntityScore) -> Row:
    """What a submission rests on; the number of pieces found is null where some could not be looked up."""
    is_known = all(piece.found is not None for piece in one.evidence)
    n_found = sum(piece.found is Found.FOUND for piece in one.evidence)
    return {
        "sight": None if one.sight is None else one.sight.value,
        "first_seen": one.first_seen,
        "n_evidence": len(one.evidence),
        "n_evidence_found": n_found if is_known else None,
    }


def _entity_rows(source: Source) -> Iterator[Row]:
    for scenario, trial in _scored_trials(source):
        for place, one in enumerate(trial.entities, start=1):
            yield {
                **source.key,
                "scenario_id": scenario.scenario_id,
                "repeat": trial.repeat,
                "place": place,
                "raw": one.raw,
                "entity": one.entity,
                "class": one.class_,
                "rule": one.rule,
                "truth_group": one.group,
                "via_alias": one.via_alias,
                "distance": one.distance,
                **_ground_cells(one),
                "code": one.code,
            }


def _command_rows(source: Source) -> Iterator[Row]:
    """Commands of finished trials: a trial that is still going on may have half a line."""
    if source.store is None:
        return
    for planned, record in source.store.trials():
        if record is None:
            continue
        for command in source.store.commands(planned):
            yield {**source.key, **_trial_key(planned), **command.model_dump(mode="json")}


def _trial_key(planned: PlannedTrial) -> Row:
    return {"scenario_id": planned.scenario_id, "repeat": planned.repeat}


def _scored_trials(source: Source) -> Iterator[tuple[ScenarioScore, TrialScore]]:
    for scenario in source.scorecard.scenarios if source.scorecard else ():
        for trial in scenario.trials:
            yield scenario, trial


_ROWS: dict[str, Callable[[Source], Iterator[Row]]] = {
    "agents": _agent_rows,
    "scenarios": _scenario_rows,
    "trials": _trial_rows,
    "entities": _entity_rows,
    "commands": _command_rows,
}
