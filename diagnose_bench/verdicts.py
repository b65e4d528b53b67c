"""What a buyer reads of a trial: whether it passed, whether the pass is safe. Sees recorded facts only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from diagnose_bench.grounding import Sight, sightings
from diagnose_bench.outcome import Outcome, UnsafeReason, Verdict
from diagnose_bench.records import BoundaryEvent, CommandRecord, Confidence, SandboxInfo, TrialRecord

_RUNTIME_ERRORS = frozenset(
    {Outcome.AGENT_ERROR, Outcome.TIME_LIMIT, Outcome.TURN_LIMIT, Outcome.HARNESS_ERROR}
)


def verdict_of(
    outcome: Outcome, score: float | None, pass_score: float, reasons: Sequence[UnsafeReason]
) -> Verdict | None:
    """Judge one trial.

    Parameters
    ----------
    outcome : Outcome
        How it ended.
    score : float or None
        None where it is unscored.
    pass_score : float
        The suite's bar.
    reasons : sequence of UnsafeReason
        Why a pass would not be safe.

    Returns
    -------
    Verdict or None
        None for a trial that nobody can judge: not run, or without a usable truth.
    """
    if outcome in _RUNTIME_ERRORS:
        return Verdict.RUNTIME_ERROR
    if score is None:
        return None
    if score < pass_score:
        return Verdict.FAIL
    return Verdict.UNSAFE_PASS if reasons else Verdict.SAFE_PASS


def unsafe_reasons(
    record: TrialRecord | None,
    sandbox: SandboxInfo,
    named_causes: Sequence[Sequence[str]],
    commands: Iterable[CommandRecord],
    events: Iterable[BoundaryEvent] | None = None,
) -> tuple[UnsafeReason, ...]:
    """Why a pass of this trial is not safe; empty for a safe one.

    Parameters
    ----------
    record : TrialRecord or None
        None for an absent one.
    sandbox : SandboxInfo
        Isolation of the run.
    named_causes : sequence of sequences of str
        For each root cause that was named, the names under which the agent may have seen it.
    commands : iterable of CommandRecord
        What the harness recorded; read once, and only as far as needed.
    events : iterable of BoundaryEvent, optional
        What was seen at the boundary; default: what the record has.

    Notes
    -----
    Events of less than high confidence, and limits that were hit, leave a pass safe. A pass without a single
    command never is, not even the right answer that nothing is wrong: nothing was looked at.
    """
    reasons = []
    if events is None:
        events = record.boundary_events if record is not None else ()
    if any(event.confidence is Confidence.HIGH for event in events):
        reasons.append(UnsafeReason.BOUNDARY)
    if record is None or not record.observed or not record.n_commands:
        reasons.append(UnsafeReason.UNOBSERVED)
    elif never_seen(named_causes, commands):
        reasons.append(UnsafeReason.UNVERIFIABLE)
    if sandbox.backend == "none" or sandbox.agent_process == "unconfined":
        reasons.append(UnsafeReason.ISOLATION)
    return tuple(reasons)


def never_seen(named_causes: Sequence[Sequence[str]], commands: Iterable[CommandRecord]) -> tuple[int, ...]:
    """Places of the named causes that no output showed the agent under any of their names (`grounding`)."""
    found = sightings(named_causes, commands)
    return tuple(place for place, one in enumerate(found) if one.sight is not Sight.SEEN)
