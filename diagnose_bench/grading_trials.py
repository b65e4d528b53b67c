"""One trial of a run: its record, its diagnosis as read from the stored bytes, its names resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from diagnose_bench.diagnosis_model import Diagnosis, Evidence
from diagnose_bench.diagnosis_reader import read_diagnosis
from diagnose_bench.entity import parse_canonical, parse_entity
from diagnose_bench.errors import RunFormatError
from diagnose_bench.grading_inputs import GradingInputs
from diagnose_bench.outcome import Outcome, Profile, UnsafeReason
from diagnose_bench.records import BoundaryEvent, PlannedTrial, TrialRecord
from diagnose_bench.resolver import EntityClass, ResolvedDiagnosis, ResolvedEntity
from diagnose_bench.store import RunStore
from diagnose_bench.verdicts import never_seen, unsafe_reasons


@dataclass(frozen=True)
class GradedTrial:
    """A planned trial, ready to be scored."""

    planned: PlannedTrial
    record: TrialRecord | None
    outcome: Outcome
    reason: str
    submitted: tuple[str, ...] | None
    """None where no readable diagnosis exists."""
    cited: tuple[tuple[Evidence, ...], ...]
    """The evidence beside each submission."""
    resolved: Mapping[Profile, ResolvedDiagnosis]
    """Empty without a diagnosis, and where the truth is refused."""
    is_scored: bool
    """Whether the trial has a score that is the agent's."""
    boundary_events: tuple[BoundaryEvent, ...]
    """Seen during the run, then found against the truths."""


def grade_trial(inputs: GradingInputs, store: RunStore, planned: PlannedTrial) -> GradedTrial:
    """Read a trial and resolve what it submitted, under both profiles.

    Raises
    ------
    RunFormatError
        The record says that there is a diagnosis, but the stored bytes hold none.
    """
    record = store.record(planned)
    resolver = inputs.resolver(planned.scenario_id)
    outcome, reason = _outcome(store, record)
    diagnosis = _diagnosis(store, planned) if outcome is Outcome.DIAGNOSED else None
    submitted = None if diagnosis is None else diagnosis.entities()
    resolved: dict[Profile, ResolvedDiagnosis] = {}
    if submitted is not None and resolver is not None:
        resolved = {profile: resolver.resolve(submitted, profile) for profile in Profile}
    return GradedTrial(
        planned=planned,
        record=record,
        outcome=outcome,
        reason=reason,
        submitted=submitted,
        cited=() if diagnosis is None else tuple(cause.evidence for cause in diagnosis.root_causes),
        resolved=resolved,
        is_scored=outcome.is_scored and resolver is not None,
        boundary_events=_boundary_events(inputs, store, planned, record),
    )


def _boundary_events(
    inputs: GradingInputs, store: RunStore, planned: PlannedTrial, record: TrialRecord | None
) -> tuple[BoundaryEvent, ...]:
    if record is None:
        return ()
    found = inputs.traces.events(
        planned.scenario_id, record, store.commands(planned), store.diagnosis_bytes(planned)
    )
    return (*record.boundary_events, *found)


def reasons_against_pass(
    inputs: GradingInputs, store: RunStore, trial: GradedTrial, profile: Profile
) -> tuple[UnsafeReason, ...]:
    """Why a pass of this trial would not be safe."""
    named = [names_of(inputs, trial.planned.scenario_id, entity) for entity in _root_causes(trial, profile)]
    return unsafe_reasons(
        trial.record,
        store.manifest.sandbox,
        named,
        store.commands(trial.planned),
        trial.boundary_events,
    )


def unseen_names(
    inputs: GradingInputs, store: RunStore, trial: GradedTrial, profile: Profile
) -> tuple[tuple[str, ...], ...]:
    """For each root cause that was named and never shown to the agent: the names that were looked for."""
    named = [names_of(inputs, trial.planned.scenario_id, entity) for entity in _root_causes(trial, profile)]
    return tuple(named[place] for place in never_seen(named, store.commands(trial.planned)))


def _root_causes(trial: GradedTrial, profile: Profile) -> list[ResolvedEntity]:
    entities = trial.resolved[profile].entities if profile in trial.resolved else ()
    return [entity for entity in entities if entity.class_ is EntityClass.ROOT_CAUSE]


def names_of(inputs: GradingInputs, scenario_id: str, resolved: ResolvedEntity) -> tuple[str, ...]:
    """The names under which an agent may have seen an entity: as written, as resolved, and its workload's."""
    names = []
    inventory = inputs.inventory(scenario_id)
    parsed = parse_entity(resolved.raw, inventory.kinds, inventory.namespaces)
    if parsed is not None:
        names.append(parsed.name)
    if resolved.entity is not None:
        try:
            entity = parse_canonical(resolved.entity)
        except ValueError:
            # A name of a truth without a snapshot need not be a whole entity.
            return tuple(names)
        names += [entity.name, inventory.workload(entity).name]
    return tuple(names)


def _outcome(store: RunStore, record: TrialRecord | None) -> tuple[Outcome, str]:
    if record is not None:
        return record.outcome, record.reason
    if store.manifest.imported:
        return Outcome.NO_DIAGNOSIS, "The recorded answers hold nothing for this trial."
    return Outcome.PENDING, "This trial has not run yet."


def _diagnosis(store: RunStore, planned: PlannedTrial) -> Diagnosis:
    path = store.trial_folder(planned) / "diagnosis.json"
    data = store.diagnosis_bytes(planned)
    if data is None:
        raise RunFormatError(
            f"{path}: is missing, but trial.json says that a diagnosis arrived. Restore the file, or delete "
            "the trial's folder and run again with --resume."
        )
    read = read_diagnosis(data, repair=store.manifest.policy.repair)
    if read.diagnosis is None:
        raise RunFormatError(
            f"{path}: holds no diagnosis ({read.reason}), but trial.json says that one arrived. Restore the "
            "file, or delete the trial's folder and run again with --resume."
        )
    return read.diagnosis
