"""Graded trials and submissions -> their lines of the scorecard. Computes no score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from diagnose_bench.grading_grounds import Grounds, grounds_of
from diagnose_bench.grading_inputs import GradingInputs
from diagnose_bench.grading_numbers import MEASURES, Grid
from diagnose_bench.grading_trials import GradedTrial, reasons_against_pass
from diagnose_bench.outcome import Profile, UnsafeReason, Verdict
from diagnose_bench.records import TrialRecord, Usage
from diagnose_bench.resolver import ResolvedEntity
from diagnose_bench.scorecard import EntityScore, TrialScore
from diagnose_bench.store import RunStore
from diagnose_bench.verdicts import verdict_of


def trial_score(
    inputs: GradingInputs,
    store: RunStore,
    trial: GradedTrial,
    grids: Mapping[Profile, Grid],
    profile: Profile,
    cell: tuple[int, int],
) -> TrialScore:
    """A trial of a run folder as it stands in the scorecard.

    Parameters
    ----------
    inputs, store
        What it is graded against, and where its records are.
    trial : GradedTrial
        Read and resolved.
    grids : mapping of Profile to Grid
        Its scores are there, in `cell`.
    profile : Profile
        The one that the headline is taken from.
    """
    grid = grids[profile]
    record, resolved = trial.record, trial.resolved.get(profile)
    values: dict[str, float | None] = {
        name: float(grid.measures[name][cell]) if trial.is_scored else None for name in MEASURES
    }
    strict = grids[Profile.STRICT].scores[cell]
    score = values["precision_at_full_recall"]
    pass_score = inputs.suite.pass_score
    reasons: tuple[UnsafeReason, ...] = ()
    if verdict_of(trial.outcome, score, pass_score, ()) is Verdict.SAFE_PASS:
        reasons = reasons_against_pass(inputs, store, trial, profile)
    return TrialScore(
        repeat=trial.planned.repeat,
        outcome=trial.outcome,
        reason=trial.reason,
        limit_hit=record.limit_hit if record else None,
        verdict=verdict_of(trial.outcome, score, pass_score, reasons),
        unsafe_reasons=reasons,
        repairs=record.repairs if record else (),
        **values,
        strict=float(strict) if trial.is_scored else None,
        n_correct=int(grid.n_correct[cell]) if trial.is_scored else None,
        n_wrong=int(grid.n_wrong[cell]) if trial.is_scored else None,
        missed=resolved.missed if resolved else (),
        entities=grounded_scores(inputs, store, trial, resolved.entities) if resolved else (),
        n_turns=record.n_turns if record else 0,
        n_commands=record.n_commands if record else 0,
        seconds=record.seconds if record else 0.0,
        observed=record is not None and record.observed,
        **_usage(record),
        boundary_events=trial.boundary_events,
    )


def _usage(record: TrialRecord | None) -> dict[str, Any]:
    usage = Usage() if record is None else record.usage
    return {
        "cost_usd": usage.cost_usd,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "usage_by_agent": usage.reported_by_agent,
    }


def entity_score(resolved: ResolvedEntity, grounds: Grounds | None = None) -> EntityScore:
    """One submission as it stands in the scorecard; without `grounds` nothing is said of what was seen."""
    known = {} if grounds is None else dict(grounds)
    return EntityScore(
        raw=resolved.raw,
        entity=resolved.entity,
        rule=None if resolved.rule is None else str(resolved.rule),
        group=resolved.group,
        via_alias=resolved.via_alias,
        class_=str(resolved.class_),
        distance=resolved.distance,
        code=resolved.code,
        message=resolved.message,
        **known,
    )


def grounded_scores(
    inputs: GradingInputs, store: RunStore, trial: GradedTrial, entities: Sequence[ResolvedEntity]
) -> tuple[EntityScore, ...]:
    """The submissions of a trial with what the agent had seen of each, and what became of its evidence."""
    return tuple(
        entity_score(entity, grounds)
        for entity, grounds in zip(entities, grounds_of(inputs, store, trial, entities), strict=True)
    )
