"""How one trial came by its number, submission by submission. Shows the truth: for people, not for agents."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import scoring
from diagnose_bench.errors import UsageError
from diagnose_bench.grading_inputs import GradingInputs, load_inputs, planned_scenarios
from diagnose_bench.grading_numbers import score_grid
from diagnose_bench.grading_scores import grounded_scores
from diagnose_bench.grading_trials import GradedTrial, grade_trial, reasons_against_pass, unseen_names
from diagnose_bench.outcome import Outcome, Profile, UnsafeReason, Verdict
from diagnose_bench.records import BoundaryEvent, PlannedTrial
from diagnose_bench.report_boundary import event_text, events_by_weight
from diagnose_bench.report_grounds import grounds_text
from diagnose_bench.resolver import RESOLVER_VERSION
from diagnose_bench.scorecard import EntityScore
from diagnose_bench.signature import signature
from diagnose_bench.store import RunStore
from diagnose_bench.text import visible
from diagnose_bench.verdicts import verdict_of

_MAX_LINE = 1000


@dataclass(frozen=True)
class ProfileExplanation:
    """One trial under one profile."""

    entities: tuple[EntityScore, ...]
    missed: tuple[str, ...]
    n_correct: int | None
    n_wrong: int | None
    precision_at_full_recall: float | None
    ranked_precision_at_full_recall: float | None
    arithmetic: tuple[str, ...]
    """The sums in words, one line each."""


@dataclass(frozen=True)
class Explanation:
    """Everything that made one trial's number."""

    agent: str
    scenario_id: str
    repeat: int
    title: str
    outcome: Outcome
    reason: str
    limit_hit: str | None
    repairs: tuple[str, ...]
    verdict: Verdict | None
    unsafe_reasons: tuple[UnsafeReason, ...]
    boundary_events: tuple[BoundaryEvent, ...]
    unseen: tuple[tuple[str, ...], ...]
    """Of an unverifiable pass: for each cause that no command showed, the names that were looked for."""
    pass_score: float
    n_root_causes: int | None
    truth_refused: str | None
    profiles: dict[str, ProfileExplanation]
    signature: str

    def to_dict(self) -> dict[str, Any]:
        """The explanation as a JSON value."""
        value = asdict(self)
        value["boundary_events"] = [event.model_dump(mode="json") for event in self.boundary_events]
        for name, profile in self.profiles.items():
            value["profiles"][name]["entities"] = [
                entity.model_dump(mode="json", by_alias=True) for entity in profile.entities
            ]
        return value

    def text(self) -> str:
        """The explanation for a terminal; untrusted characters are made visible."""
        return visible("\n".join(_lines(self))) + "\n"


def explain_trial(
    run: Path, scenario: str, repeat: int, *, suite: str | None = None, truth: Path | None = None
) -> Explanation:
    """Explain one trial of a run.

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
        The run has no such trial.
    RunError, SuiteError
        The run, its suite or truths are unusable.
    """
    store = RunStore.open(run)
    manifest = store.manifest
    inputs = load_inputs(run, manifest, suite, truth)
    scenario_ids, n_repeats = planned_scenarios(inputs, run, manifest)
    scenario_id = inputs.suite.scenario(scenario).id
    if scenario_id not in scenario_ids:
        raise UsageError(
            f"{run}: the run has no trial of {scenario_id}. It has {', '.join(scenario_ids[:10])}."
        )
    if not 1 <= repeat <= n_repeats:
        raise UsageError(f"{run}: repeat {repeat} does not exist; the run has the repeats 1 to {n_repeats}.")
    trial = grade_trial(inputs, store, PlannedTrial(scenario_id=scenario_id, repeat=repeat))
    resolver = inputs.resolver(scenario_id)
    n_root_causes = None if resolver is None else resolver.n_root_causes
    profiles = {
        profile.value: _explain_profile(inputs, store, trial, n_root_causes, profile) for profile in Profile
    }
    score = profiles[Profile.ITBENCH_AA.value].precision_at_full_recall
    pass_score = inputs.suite.pass_score
    reasons: tuple[UnsafeReason, ...] = ()
    if verdict_of(trial.outcome, score, pass_score, ()) is Verdict.SAFE_PASS:
        reasons = reasons_against_pass(inputs, store, trial, Profile.ITBENCH_AA)
    loaded = inputs.truths.truths.get(scenario_id)
    return Explanation(
        agent=manifest.agent.name,
        scenario_id=scenario_id,
        repeat=repeat,
        title=loaded.truth.title if loaded else "",
        outcome=trial.outcome,
        reason=trial.reason,
        limit_hit=trial.record.limit_hit if trial.record else None,
        repairs=trial.record.repairs if trial.record else (),
        verdict=verdict_of(trial.outcome, score, pass_score, reasons),
        unsafe_reasons=reasons,
        boundary_events=trial.boundary_events,
        unseen=unseen_names(inputs, store, trial, Profile.ITBENCH_AA)
        if UnsafeReason.UNVERIFIABLE in reasons
        else (),
        pass_score=pass_score,
        n_root_causes=n_root_causes,
        truth_refused=inputs.refusal(scenario_id),
        profiles=profiles,
        signature=signature(
            manifest,
            truth_digest=inputs.truths.digest,
            patches_digest=inputs.truths.patches_digest,
            profile=Profile.ITBENCH_AA,
            pass_score=pass_score,
            scenario_ids=(scenario_id,),
            subset=True,
            excluded=(),
            interval=None,
            resolver_version=RESOLVER_VERSION,
            scoring_version=scoring.SCORING_VERSION,
        ),
    )


def _explain_profile(
    inputs: GradingInputs,
    store: RunStore,
    trial: GradedTrial,
    n_root_causes: int | None,
    profile: Profile,
) -> ProfileExplanation:
    resolved = trial.resolved.get(profile)
    if n_root_causes is None or not trial.is_scored:
        return ProfileExplanation((), (), None, None, None, None, ("No number: the trial is unscored.",))
    grid = score_grid([[trial]], [n_root_causes], None, profile)
    n_correct, n_wrong = int(grid.n_correct[0, 0]), int(grid.n_wrong[0, 0])
    if resolved is None:
        lines = ["No readable diagnosis: 0 in every measure."]
    else:
        lines = _arithmetic(resolved.codes, n_correct, n_wrong, n_root_causes)
    return ProfileExplanation(
        entities=grounded_scores(inputs, store, trial, resolved.entities) if resolved else (),
        missed=resolved.missed if resolved else (),
        n_correct=n_correct,
        n_wrong=n_wrong,
        precision_at_full_recall=float(grid.scores[0, 0]),
        ranked_precision_at_full_recall=float(grid.measures["ranked_precision_at_full_recall"][0, 0]),
        arithmetic=tuple(lines),
    )


def _arithmetic(codes: tuple[int, ...], n_correct: int, n_wrong: int, n_root_causes: int) -> list[str]:
    """Redo the sums in fractions, from the codes alone."""
    distinct = list(dict.fromkeys(codes))
    n_submitted = n_correct + n_wrong
    if n_root_causes == 0:
        verdict = "1: nothing is wrong and nothing was named" if not distinct else "0: nothing is wrong here"
        return [f"named {len(distinct)} on a scenario without a fault: every measure is {verdict}"]
    lines = [f"n_correct = {n_correct} of {n_root_causes}, n_wrong = {n_wrong}, n_submitted = {n_submitted}"]
    if n_correct < n_root_causes:
        lines.append(f"{n_correct} of {n_root_causes} root causes named: no full recall, so 0")
        return lines
    lines.append(f"full recall; precision = {n_correct}/{n_submitted} = {n_correct / n_submitted:.4g}")
    ranks = [rank for rank, code in enumerate(distinct, start=1) if code < n_root_causes]
    terms = [Fraction(nth, rank) for nth, rank in enumerate(ranks, start=1)]
    total = sum(terms, Fraction(0)) / n_root_causes
    shown = " + ".join(f"{nth}/{rank}" for nth, rank in enumerate(ranks, start=1))
    decimal = "" if total.denominator == 1 else f" = {float(total):.4g}"
    lines.append(f"ranked: ({shown}) / {n_root_causes} = {total}{decimal}")
    return lines


def _lines(explanation: Explanation) -> list[str]:
    title = f": {_one_line(explanation.title)}" if explanation.title else ""
    lines = [
        f"{explanation.scenario_id}{title}",
        f"repeat {explanation.repeat}, agent {_one_line(explanation.agent)}",
        f"outcome: {explanation.outcome}{_because(explanation.reason)}",
    ]
    if explanation.limit_hit:
        lines.append(f"limit hit: {explanation.limit_hit}")
    lines += [f"repair: {_one_line(repair)}" for repair in explanation.repairs]
    verdict = explanation.verdict or "none (unscored)"
    unsafe = f" ({', '.join(explanation.unsafe_reasons)})" if explanation.unsafe_reasons else ""
    lines.append(f"verdict: {verdict}{unsafe}; a pass needs {explanation.pass_score:g}")
    for names in explanation.unseen:
        looked_for = " or ".join(map(_one_line, dict.fromkeys(names)))
        lines.append(f"unverifiable: no recorded output of a command shows the name {looked_for}")
    if UnsafeReason.UNOBSERVED in explanation.unsafe_reasons:
        lines.append("unobserved: no command is on record, so nothing shows that the agent looked")
    if explanation.truth_refused:
        lines.append(f"truth refused: {_one_line(explanation.truth_refused)}")
    events = events_by_weight(explanation.boundary_events)
    lines += [f"boundary event: {_one_line(event_text(event))}" for event in events]
    for name, profile in explanation.profiles.items():
        lines += ["", *_profile_lines(name, profile)]
    return [*lines, "", explanation.signature]


def _profile_lines(name: str, profile: ProfileExplanation) -> list[str]:
    score = profile.precision_at_full_recall
    lines = [f"{name}: {'n/a' if score is None else f'{score:.4g}'}"]
    for number, entity in enumerate(profile.entities, start=1):
        lines.append(f"  {number}. {_one_line(entity.raw)!s}")
        if entity.entity is not None and entity.entity != entity.raw:
            lines.append(f"     read as {_one_line(entity.entity)}")
        lines.append(f"     {_judgement(entity)}")
        lines += [f"     {_one_line(text)}" for text in grounds_text(entity)]
        if entity.message and entity.class_ not in ("root_cause", "victim"):
            lines.append(f"     {_one_line(entity.message)}")
    if not profile.entities and score is not None:
        lines.append("  nothing named")
    if profile.missed:
        lines.append(f"  missed: {', '.join(_one_line(group) for group in profile.missed)}")
    return [*lines, *(f"  {line}" for line in profile.arithmetic)]


def _judgement(entity: EntityScore) -> str:
    parts = [entity.class_]
    if entity.group:
        parts.append(f"group {_one_line(entity.group)}")
    if entity.rule:
        parts.append(f"by rule {entity.rule}{' through an alias' if entity.via_alias else ''}")
    if entity.distance is not None:
        hops = "hop" if entity.distance == 1 else "hops"
        parts.append(f"{entity.distance} {hops} from the nearest root cause")
    return ", ".join(parts)


def _because(reason: str) -> str:
    return f" ({_one_line(reason)})" if reason else ""


def _one_line(text: str) -> str:
    return visible(text if len(text) <= _MAX_LINE else text[:_MAX_LINE] + "…", keep_lines=False)
