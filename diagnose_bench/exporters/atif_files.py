"""ATIF: the trajectory of each trial as a file of its own, checked. A trial that has none gets one made.

Imports, and runs of earlier versions, have records and answers but no trajectory.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diagnose_bench.errors import RunFormatError, UsageError
from diagnose_bench.files import pretty_json, read_bytes, write_atomic
from diagnose_bench.records import PlannedTrial, TrialRecord
from diagnose_bench.store import RunStore
from diagnose_bench.trajectory import FILE, trajectory_of

_AGENT_ONLY = ("model_name", "reasoning_content", "tool_calls", "metrics")


@dataclass(frozen=True)
class Exported:
    """What was written."""

    folder: Path
    n_trials: int
    n_pending: int
    """Trials of the plan that have not run."""


def export_atif(run: Path, out: Path) -> Exported:
    """Write ``<scenario>.<repeat>.trajectory.json`` for each trial that has run.

    Raises
    ------
    UsageError
        The folder holds something already.
    RunFormatError
        A trajectory is damaged.
    """
    store = RunStore.open(run)
    take_folder(out)
    n_trials, n_pending = 0, 0
    for planned, record in store.trials():
        if record is None:
            n_pending += 1
            continue
        document = trajectory_document(store, planned, record)
        write_atomic(out / f"{planned.scenario_id}.{planned.repeat}.trajectory.json", pretty_json(document))
        n_trials += 1
    return Exported(out, n_trials, n_pending)


def take_folder(out: Path) -> None:
    """Make a folder for what is exported.

    Raises
    ------
    UsageError
        It holds something already, or is no folder.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        state = "is not empty" if out.is_dir() else "is a file"
        raise UsageError(f"{out}: {state}. Choose another --out, so that nothing is written over.")
    out.mkdir(parents=True, exist_ok=True)


def trajectory_document(store: RunStore, planned: PlannedTrial, record: TrialRecord) -> dict[str, Any]:
    """The trajectory of one trial, as it lies there or made from its records.

    Raises
    ------
    RunFormatError
        The file is no trajectory.
    """
    path = store.trial_folder(planned) / FILE
    if not path.exists():
        return trajectory_of(
            store.manifest.run_id,
            record,
            agent=store.manifest.agent,
            task="",
            steps=(),
            commands=list(store.commands(planned)),
            answer=store.diagnosis_bytes(planned),
            was_submitted=record.counted_submission is not None,
        )
    try:
        document = json.loads(read_bytes(path, "trajectory"), parse_constant=_no_constant)
        _check(document)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RunFormatError(
            f"{path}: is no trajectory: {error}. Move it away: one is then made from the recorded commands."
        ) from error
    return dict(document)


def _check(document: Any) -> None:
    """The rules of the format that a damaged file breaks first."""
    if not str(document["schema_version"]).startswith("ATIF-v1."):
        raise ValueError(f"schema_version is {document['schema_version']!r}")
    if not isinstance(document["agent"]["name"], str) or not isinstance(document["agent"]["version"], str):
        raise ValueError("the agent has no name or version")
    if not document["steps"]:
        raise ValueError("it has no step")
    for number, step in enumerate(document["steps"], start=1):
        if step["step_id"] != number:
            raise ValueError(f"step {number} has the number {step['step_id']!r}")
        if step["source"] not in ("system", "user", "agent"):
            raise ValueError(f"step {number} is of {step['source']!r}")
        if step["source"] != "agent" and any(name in step for name in _AGENT_ONLY):
            raise ValueError(f"step {number} has what only an agent has")
        if not isinstance(step["message"], str):
            raise ValueError(f"step {number} has no message")
        for call in step.get("tool_calls", ()):
            if not isinstance(call["function_name"], str) or not isinstance(call["arguments"], dict):
                raise ValueError(f"step {number} has a call without a name or arguments")
        calls = {str(call["tool_call_id"]) for call in step.get("tool_calls", ())}
        for result in step.get("observation", {}).get("results", ()):
            if result.get("source_call_id") not in {None, *calls}:
                raise ValueError(f"step {number} has a result without its call")


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")
