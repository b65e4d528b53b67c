"""One trial as a time line: each command, what it revealed, when the root cause came into sight, the answer.

Shows the truth where it is there: for people, not for agents. Without it the rest is shown, and the missing
part is named.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from diagnose_bench.diagnosis_reader import read_diagnosis
from diagnose_bench.errors import DiagnoseBenchError, SuiteError, UsageError
from diagnose_bench.files import read_bytes
from diagnose_bench.grading_inputs import GradingInputs, load_inputs
from diagnose_bench.grading_trials import GradedTrial, grade_trial
from diagnose_bench.inventory import Inventory
from diagnose_bench.outcome import Outcome, Profile
from diagnose_bench.records import CommandRecord, PlannedTrial, SubmissionRecord, TrialRecord
from diagnose_bench.resolver import Resolver
from diagnose_bench.store import RunStore
from diagnose_bench.suite import load_suite
from diagnose_bench.timeline import TimelineCommand, names_of_workload, seconds_between, timeline_of
from diagnose_bench.verdicts import never_seen


@dataclass(frozen=True)
class SubmittedEntity:
    """A name that was handed in; ``class_`` and ``group`` are None where the truth is not known."""

    raw: str
    class_: str | None = None
    group: str | None = None


@dataclass(frozen=True)
class TimelineSubmission:
    """Something that was handed in or printed.

    Attributes
    ----------
    at_s : float or None
        Seconds after the trial began.
    how : str
        ``accepted``, ``not accepted`` or ``printed``.
    counts : bool
        Whether it is the one that is scored.
    message : str
        What the agent was answered.
    entities : tuple of SubmittedEntity or None
        None where it could not be read, or its bytes were not kept.
    """

    at_s: float | None
    how: str
    counts: bool
    message: str
    n_bytes: int
    entities: tuple[SubmittedEntity, ...] | None


@dataclass(frozen=True)
class RootCauseSeen:
    """When one root cause came into sight, and when it was named.

    Attributes
    ----------
    group : str
        Its group in the truth.
    commands : tuple of int
        The commands with its name in the output.
    seen_at_s, submitted_at_s : float or None
        Seconds after the trial began.
    """

    group: str
    commands: tuple[int, ...]
    seen_at_s: float | None
    was_submitted: bool
    submitted_at_s: float | None


@dataclass(frozen=True)
class Transcript:
    """A trial, from the first command to the answer."""

    agent: str
    scenario_id: str
    repeat: int
    outcome: Outcome
    reason: str
    seconds: float | None
    n_turns: int
    observed: bool
    commands: tuple[TimelineCommand, ...]
    submissions: tuple[TimelineSubmission, ...]
    root_causes: tuple[RootCauseSeen, ...] | None
    """None where the truth is not known."""
    missing: tuple[str, ...]
    """Why something is not shown, a sentence each."""

    def to_dict(self) -> dict[str, Any]:
        """The transcript as a JSON value."""
        return asdict(self)


@dataclass(frozen=True)
class Background:
    """What is known beside a run's records.

    Attributes
    ----------
    inputs : GradingInputs or None
        Suite and truths, where both are there.
    suite_path : str or None
        The suite alone, where there are no truths.
    missing : tuple of str
        What cannot be shown and why, a sentence each.
    """

    inputs: GradingInputs | None
    suite_path: str | None
    missing: tuple[str, ...] = ()

    def inventory(self, scenario_id: str) -> Inventory:
        """The objects of a scenario's snapshot; none where the suite is not there."""
        if self.inputs is not None:
            return self.inputs.inventory(scenario_id)
        if self.suite_path is None:
            return Inventory.none()
        snapshot = load_suite(self.suite_path).scenario(scenario_id).snapshot
        return Inventory.none() if snapshot is None else Inventory.load(snapshot)


def find_background(
    run: Path, store: RunStore, suite: str | None = None, truth: Path | None = None
) -> Background:
    """Find the suite and the truths of a run, as far as they are there.

    Raises
    ------
    SuiteError, GroundTruthError, DigestMismatchError
        What was asked for by name cannot be used.
    """
    try:
        return Background(load_inputs(run, store.manifest, suite, truth), None)
    except DiagnoseBenchError as error:
        if truth is not None or (suite is not None and isinstance(error, SuiteError)):
            raise
        missing = f"What the truth says is not shown: {error}"
    path = suite or store.manifest.suite.path
    try:
        is_same = load_suite(path).digest == store.manifest.suite.digest
    except SuiteError:
        is_same = False
    if is_same:
        return Background(None, path, (missing,))
    return Background(None, None, (missing, "Which objects were revealed is not shown: the suite is needed."))


def transcript_of(
    run: Path, scenario: str, repeat: int, *, suite: str | None = None, truth: Path | None = None
) -> Transcript:
    """Put one trial of a run into order.

    Parameters
    ----------
    run : Path
        The run folder.
    scenario : str
        A scenario's id or number.
    repeat : int
        From 1.
    suite, truth : optional
        As for `score_run`.

    Raises
    ------
    UsageError
        The run has no such trial, or it has not run.
    RunError
        The run cannot be read.
    """
    store = RunStore.open(run)
    return trial_transcript(
        store, _planned(store, scenario, repeat), find_background(run, store, suite, truth)
    )


def trial_transcript(store: RunStore, planned: PlannedTrial, background: Background) -> Transcript:
    """Put one trial into order.

    Raises
    ------
    UsageError
        It has not run.
    RunError
        Its records cannot be read.
    """
    record = store.record(planned)
    if record is None:
        raise UsageError(
            f"{store.path}: {planned.scenario_id}, repeat {planned.repeat}, has not run. "
            "Finish the run with --resume."
        )
    missing = list(background.missing)
    graded, causes = None, None
    if background.inputs is not None:
        resolver = background.inputs.resolver(planned.scenario_id)
        if resolver is None:
            refusal = background.inputs.refusal(planned.scenario_id)
            missing.append(f"What the truth says is not shown: it is refused: {refusal}")
        else:
            graded = grade_trial(background.inputs, store, planned)
            causes = _Causes(background.inputs, planned.scenario_id, resolver)
    commands = []
    inventory = background.inventory(planned.scenario_id)
    for command, entry in timeline_of(store.commands(planned), inventory, record.started_at):
        seen = () if causes is None else causes.first_seen(command, entry.at_s)
        commands.append(replace(entry, root_causes=seen))
    submissions = _submissions(store, planned, record, graded)
    return Transcript(
        agent=store.manifest.agent.name,
        scenario_id=planned.scenario_id,
        repeat=planned.repeat,
        outcome=record.outcome,
        reason=record.reason,
        seconds=record.seconds,
        n_turns=record.n_turns,
        observed=record.observed,
        commands=tuple(commands),
        submissions=submissions,
        root_causes=None if causes is None else causes.seen(graded, submissions),
        missing=tuple(missing),
    )


class _Causes:
    """The root-cause sets of a scenario, and where the names of each came into sight."""

    def __init__(self, inputs: GradingInputs, scenario_id: str, resolver: Resolver) -> None:
        inventory = inputs.inventory(scenario_id)
        everything = resolver.resolve((), Profile.ITBENCH_AA)
        self._groups = everything.missed
        names: list[dict[str, None]] = [{} for _ in self._groups]
        for entity in sorted(inventory.entities):
            number = resolver.identify(str(entity), (Profile.ITBENCH_AA,))[Profile.ITBENCH_AA].root_set
            if number is not None:
                names[number].update(dict.fromkeys(names_of_workload(inventory, entity)))
        truth = inputs.truths.truths[scenario_id].truth
        by_id = {group.id: group for group in truth.groups}
        for number, group_id in enumerate(self._groups):
            group = by_id[group_id]
            texts = (*group.names, *(text.rpartition("/")[2] for text in group.entities))
            names[number].update(dict.fromkeys(texts))
        self._names = [tuple(found) for found in names]
        self._seen: list[list[tuple[int, float | None]]] = [[] for _ in self._groups]

    def first_seen(self, command: CommandRecord, at_s: float | None) -> tuple[str, ...]:
        """The groups whose name this output has and none before it had."""
        absent = never_seen(self._names, [command])
        new = []
        for number, group in enumerate(self._groups):
            if number in absent:
                continue
            if not self._seen[number]:
                new.append(group)
            self._seen[number].append((command.n, at_s))
        return tuple(new)

    def seen(
        self, graded: GradedTrial | None, submissions: tuple[TimelineSubmission, ...]
    ) -> tuple[RootCauseSeen, ...]:
        """Each root cause: where it was seen, whether and when it was named."""
        resolved = None if graded is None else graded.resolved.get(Profile.ITBENCH_AA)
        named = set() if resolved is None else set(resolved.codes)
        answered_at_s = next((one.at_s for one in submissions if one.counts), None)
        found = []
        for number, group in enumerate(self._groups):
            seen, was_named = self._seen[number], number in named
            found.append(
                RootCauseSeen(
                    group=group,
                    commands=tuple(n for n, _ in seen),
                    seen_at_s=seen[0][1] if seen else None,
                    was_submitted=was_named,
                    submitted_at_s=answered_at_s if was_named else None,
                )
            )
        return tuple(found)


def _planned(store: RunStore, scenario: str, repeat: int) -> PlannedTrial:
    """The planned trial that a person names, by the scenario's id or number."""
    ids = list(dict.fromkeys(trial.scenario_id for trial in store.manifest.plan))
    same = [one for one in ids if scenario == one] or [one for one in ids if _ends_in_number(one, scenario)]
    if len(same) != 1:
        shown = ", ".join(ids[:10]) + (" …" if len(ids) > 10 else "")
        raise UsageError(f"{store.path}: the run has no trial of {scenario!r}. It has {shown}.")
    chosen = same[0]
    wanted = PlannedTrial(scenario_id=chosen, repeat=repeat)
    if wanted not in store.manifest.plan:
        most = max(trial.repeat for trial in store.manifest.plan if trial.scenario_id == chosen)
        raise UsageError(
            f"{store.path}: repeat {repeat} does not exist; {chosen} has the repeats 1 to {most}."
        )
    return wanted


def _ends_in_number(scenario_id: str, text: str) -> bool:
    digits = re.search(r"[0-9]+$", scenario_id)
    return digits is not None and text.isascii() and text.isdigit() and int(digits.group()) == int(text)


def _submissions(
    store: RunStore, planned: PlannedTrial, record: TrialRecord, graded: GradedTrial | None
) -> tuple[TimelineSubmission, ...]:
    counted = _counted_entities(store, planned, record, graded)
    found = []
    for one in store.submissions(planned):
        counts = one.n == record.counted_submission
        entities = counted if counts else _kept_entities(store, planned, one)
        found.append(
            TimelineSubmission(
                at_s=seconds_between(record.started_at, one.at),
                how="accepted" if one.accepted else "not accepted",
                counts=counts,
                message=one.message,
                n_bytes=one.n_bytes,
                entities=entities,
            )
        )
    data = store.diagnosis_bytes(planned)
    if record.counted_submission is None and record.outcome is Outcome.DIAGNOSED and data is not None:
        found.append(
            TimelineSubmission(
                at_s=record.seconds if record.observed else None,
                how="printed" if record.observed else "recorded",
                counts=True,
                message="",
                n_bytes=len(data),
                entities=counted,
            )
        )
    return tuple(found)


def _counted_entities(
    store: RunStore, planned: PlannedTrial, record: TrialRecord, graded: GradedTrial | None
) -> tuple[SubmittedEntity, ...] | None:
    resolved = None if graded is None else graded.resolved.get(Profile.ITBENCH_AA)
    if resolved is not None:
        return tuple(
            SubmittedEntity(entity.raw, entity.class_.value, entity.group) for entity in resolved.entities
        )
    data = store.diagnosis_bytes(planned)
    return None if data is None else _entities(data, store)


def _kept_entities(
    store: RunStore, planned: PlannedTrial, submission: SubmissionRecord
) -> tuple[SubmittedEntity, ...] | None:
    if submission.file is None or not submission.accepted:
        return None
    path = store.trial_folder(planned) / Path(submission.file).name
    try:
        return _entities(read_bytes(path, "submission"), store)
    except DiagnoseBenchError:
        return None


def _entities(data: bytes, store: RunStore) -> tuple[SubmittedEntity, ...] | None:
    read = read_diagnosis(data, repair=store.manifest.policy.repair)
    return None if read.diagnosis is None else tuple(map(SubmittedEntity, read.diagnosis.entities()))
