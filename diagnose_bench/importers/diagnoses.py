"""Recorded answers -> a run: each goes through the tolerant reader, the run appears whole or not at all.

Opens no truth. What cannot be taken is rejected with its reason, listed in the run's ``rejected.jsonl``.
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from diagnose_bench import __version__
from diagnose_bench.diagnosis_reader import ReadDiagnosis, read_diagnosis
from diagnose_bench.errors import DiagnoseBenchError, RunError, SuiteError, UsageError
from diagnose_bench.files import canonical_json, pretty_json
from diagnose_bench.importers.diagnosis_sources import (
    MAX_ANSWER_BYTES,
    MOST_REPEATS,
    Answer,
    BadRow,
    read_folders,
    read_rows,
)
from diagnose_bench.outcome import Outcome
from diagnose_bench.records import (
    AgentInfo,
    PlannedTrial,
    Policy,
    RunManifest,
    SandboxInfo,
    SuiteInfo,
    TrialRecord,
)
from diagnose_bench.run_format import MANIFEST
from diagnose_bench.sandbox.removal import remove_tree
from diagnose_bench.store import RunStore, check_free
from diagnose_bench.suite import Suite
from diagnose_bench.trial_session import now

REJECTED = "rejected.jsonl"
_LISTED = 20


@dataclass
class ImportSummary:
    """What became of an import.

    Attributes
    ----------
    run : Path
        The run's folder.
    manifest : RunManifest
        Its run.json.
    outcomes : Counter
        Outcomes of the trials that were recorded.
    n_planned, n_rejected : int
        Trials in the plan; rows that were not taken.
    rejected : list
        The first rejected rows: where, and why. All are in ``rejected.jsonl``.
    plan_is_guessed : bool
        Whether the number of repeats is the highest one seen.
    """

    run: Path
    manifest: RunManifest
    outcomes: Counter[str]
    n_planned: int
    n_rejected: int
    rejected: list[BadRow]
    plan_is_guessed: bool

    @property
    def n_absent(self) -> int:
        """Planned trials without any record: no diagnosis, scored 0."""
        return self.n_planned - self.outcomes.total()

    def notes(self) -> list[str]:
        """What a person should be told."""
        repeats = self.manifest.policy.repeats
        found = []
        if self.plan_is_guessed:
            found.append(
                f"Planned repeats of each scenario: {repeats}, the highest one seen. "
                "Give --planned-repeats if more were planned."
            )
        if self.n_absent:
            found.append(
                f"{self.n_absent} of {self.n_planned} planned trials are absent: no_diagnosis, scored 0."
            )
        if self.n_rejected:
            found.append(f"{self.n_rejected} rejected, listed in {self.run / REJECTED}:")
            found.extend(f"  {line}" for line in _by_reason(self.rejected))
            if self.n_rejected > len(self.rejected):
                found.append(f"  and {self.n_rejected - len(self.rejected)} more")
        return found


@dataclass
class _Progress:
    seen: set[tuple[str, int]] = field(default_factory=set)
    outcomes: Counter[str] = field(default_factory=Counter)
    n_rejected: int = 0
    rejected: list[BadRow] = field(default_factory=list)


def import_diagnoses(
    source: Path,
    *,
    agent: str,
    suite: Suite,
    out: Path,
    planned_repeats: int | None = None,
    repair: bool = True,
) -> ImportSummary:
    """Turn recorded answers into a run that can be scored.

    Parameters
    ----------
    source : Path
        A JSONL file, or a folder of ITBench outputs.
    agent : str
        What the agent is called in results.
    suite : Suite
        What it was asked about.
    out : Path
        The run's folder; must not exist yet.
    planned_repeats : int, optional
        How many repeats were planned; the highest one seen by default.
    repair : bool
        Whether the syntax of an answer may be repaired.

    Raises
    ------
    UsageError
        Nothing can be read, nothing can be taken, or the folder is not free.
    """
    if planned_repeats is not None and not 1 <= planned_repeats <= 10_000:
        raise UsageError(f"--planned-repeats {planned_repeats}: give a number from 1 to 10000.")
    if not agent.strip():
        raise UsageError("--agent: give the agent a name.")
    if not source.exists():
        raise UsageError(f"{source}: does not exist. Give a JSONL file or a folder of ITBench outputs.")
    check_free(out)
    ids = {scenario.id for scenario in suite.scenarios}
    answers = read_folders(source, ids) if source.is_dir() else read_rows(source)
    with _staged(out) as staging:
        progress = _Progress()
        store = RunStore(staging, _manifest(agent, suite, planned_repeats or 1, repair))
        with (staging / REJECTED).open("wb") as rejects:
            for answer in answers:
                bad = _take(answer, suite, store, progress, planned_repeats, repair)
                if bad is not None:
                    progress.n_rejected += 1
                    progress.rejected += [bad] if len(progress.rejected) < _LISTED else []
                    rejects.write(canonical_json({"where": bad.where, "reason": bad.reason}) + b"\n")
        if not progress.n_rejected:
            (staging / REJECTED).unlink()
        if not progress.seen and planned_repeats is None:
            raise UsageError(f"{source}: no answer could be taken.{_first_reasons(progress)}")
        repeats = planned_repeats or max(repeat for _, repeat in progress.seen)
        manifest = _manifest(agent, suite, repeats, repair)
        store.write_file(MANIFEST, pretty_json(manifest.model_dump(mode="json")))
        _publish(staging, out)
    return ImportSummary(
        run=out,
        manifest=manifest,
        outcomes=progress.outcomes,
        n_planned=len(manifest.plan),
        n_rejected=progress.n_rejected,
        rejected=progress.rejected,
        plan_is_guessed=planned_repeats is None,
    )


def _take(
    answer: Answer | BadRow,
    suite: Suite,
    store: RunStore,
    progress: _Progress,
    planned_repeats: int | None,
    repair: bool,
) -> BadRow | None:
    if isinstance(answer, BadRow):
        return answer
    try:
        scenario_id = suite.scenario(answer.scenario).id
    except SuiteError as error:
        return BadRow(answer.where, f"unknown scenario: {str(error).removeprefix(f'{suite.path}: ')}")
    if planned_repeats is not None and answer.repeat > planned_repeats:
        return BadRow(
            answer.where, f"repeat {answer.repeat} is above the {planned_repeats} that were planned"
        )
    if planned_repeats is None and answer.repeat > MOST_REPEATS:
        return BadRow(
            answer.where,
            f"repeat {answer.repeat} is above {MOST_REPEATS}: give --planned-repeats if it is meant",
        )
    if (scenario_id, answer.repeat) in progress.seen:
        return BadRow(
            answer.where, f"{scenario_id}, repeat {answer.repeat}, was there already; the first counts"
        )
    progress.seen.add((scenario_id, answer.repeat))
    read = ReadDiagnosis(Outcome.NO_DIAGNOSIS, reason="The record says that there is no answer.")
    if answer.data is not None:
        read = read_diagnosis(answer.data, repair=repair)
    progress.outcomes[read.outcome.value] += 1
    record = TrialRecord(
        scenario_id=scenario_id,
        repeat=answer.repeat,
        outcome=read.outcome,
        reason=read.reason or f"Imported from {answer.where}.",
        repairs=read.repairs,
    )
    kept = answer.data if answer.data is not None and len(answer.data) < MAX_ANSWER_BYTES else None
    store.write_trial(record, kept, durable=False)
    return None


def _manifest(agent: str, suite: Suite, repeats: int, repair: bool) -> RunManifest:
    return RunManifest(
        run_id=secrets.token_hex(8),
        agent=AgentInfo(name=agent),
        suite=SuiteInfo(name=suite.name, version=suite.version, digest=suite.digest, path=str(suite.path)),
        policy=Policy(repeats=repeats, max_turns=None, time_limit_s=None, repair=repair, task_digest=None),
        sandbox=SandboxInfo(backend=None),
        plan=tuple(
            PlannedTrial(scenario_id=scenario.id, repeat=repeat)
            for scenario in suite.scenarios
            for repeat in range(1, repeats + 1)
        ),
        imported=True,
        version=__version__,
        started_at=now(),
    )


def _first_reasons(progress: _Progress) -> str:
    if not progress.rejected:
        return " It is empty."
    n_left = progress.n_rejected - len(progress.rejected)
    lines = [*_by_reason(progress.rejected), *([f"and {n_left} more"] if n_left else [])]
    return "".join(f"\n  {line}" for line in lines)


def _by_reason(rejected: list[BadRow]) -> list[str]:
    """One line for each reason, with the places that have it."""
    places: dict[str, list[str]] = {}
    for bad in rejected:
        places.setdefault(bad.reason, []).append(bad.where)
    return [f"{', '.join(where)}: {reason}" for reason, where in places.items()]


def n_rejected(run: Path) -> int:
    """How many rows were rejected when a run was imported; 0 for any other run."""
    try:
        with (run / REJECTED).open("rb") as file:
            return sum(1 for _ in file)
    except OSError:
        return 0


@contextmanager
def _staged(out: Path) -> Iterator[Path]:
    """A folder beside the wanted one, gone again unless it was published."""
    staging = out.parent / f".{out.name}.importing-{secrets.token_hex(4)}"
    try:
        staging.mkdir(parents=True)
        yield staging
    except (OSError, RunError) as error:
        cause = error.__cause__ if isinstance(error, RunError) else error
        why = cause.strerror if isinstance(cause, OSError) else str(cause)
        raise DiagnoseBenchError(
            f"{out}: cannot write: {why}. Nothing was imported; free some space or choose another --out."
        ) from error
    finally:
        if staging.exists():
            remove_tree(staging)


def _publish(staging: Path, out: Path) -> None:
    os.sync()
    try:
        # An empty folder that is there already gives way; a full one does not.
        os.rename(staging, out)
    except OSError as error:
        raise UsageError(f"{out}: something else was put there meanwhile. Choose another --out.") from error
