"""What changed on each scenario between two runs: score, verdicts, entities blamed. No statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from diagnose_bench.comparison_inputs import ScoredRun
from diagnose_bench.scorecard import EntityScore, ScenarioScore

_SAME = 1e-9
_RIGHT = ("root_cause", "duplicate")


class Change(StrEnum):
    """What became of a scenario's score; a description, not a test."""

    REGRESSED = "regressed"
    IMPROVED = "improved"
    UNCHANGED = "unchanged"
    MISSING = "missing"


@dataclass(frozen=True)
class Blamed:
    """An entity that one run named wrongly and the other run never named on this scenario."""

    entity: str
    class_: str
    n_trials: int


@dataclass(frozen=True)
class ScenarioChange:
    """One scenario in both runs."""

    scenario_id: str
    family: str | None
    change: Change
    missing_from: str | None
    """Label of the run that lacks the scenario."""
    baseline: float | None
    candidate: float | None
    baseline_verdicts: Mapping[str, int]
    candidate_verdicts: Mapping[str, int]
    n_verdicts_flipped: int | None
    """Trials whose verdict must have changed; repeats have no order, so counts are compared. Null where the
    scenario is missing, the numbers of repeats differ, or a scorecard lists no trials."""
    newly_blamed: tuple[Blamed, ...]
    """Empty as well where a scorecard lists no trials."""
    no_longer_blamed: tuple[Blamed, ...]

    @property
    def difference(self) -> float | None:
        """Score of the candidate minus that of the baseline."""
        if self.baseline is None or self.candidate is None:
            return None
        return self.candidate - self.baseline


def scenario_changes(
    baseline: ScoredRun, candidate: ScoredRun, scenario_ids: Sequence[str]
) -> tuple[ScenarioChange, ...]:
    """Compare two runs scenario by scenario.

    Parameters
    ----------
    baseline, candidate : ScoredRun
        Complete on the scenarios they share.
    scenario_ids : sequence of str
        Which scenarios; one that neither run has is left out.
    """
    before = {one.scenario_id: one for one in baseline.scorecard.scenarios}
    after = {one.scenario_id: one for one in candidate.scorecard.scenarios}
    return tuple(
        _change(scenario_id, before.get(scenario_id), after.get(scenario_id), baseline.label, candidate.label)
        for scenario_id in scenario_ids
        if scenario_id in before or scenario_id in after
    )


def _change(
    scenario_id: str,
    before: ScenarioScore | None,
    after: ScenarioScore | None,
    baseline: str,
    candidate: str,
) -> ScenarioChange:
    old, new = _verdicts(before), _verdicts(after)
    known = before or after
    both = before is not None and after is not None
    listed = bool(before and after and before.trials and after.trials)
    same_number = listed and old.total() == new.total()
    return ScenarioChange(
        scenario_id=scenario_id,
        family=known.family if known else None,
        change=_kind(before, after),
        missing_from=None if both else baseline if before is None else candidate,
        baseline=before.score if before else None,
        candidate=after.score if after else None,
        baseline_verdicts=dict(old),
        candidate_verdicts=dict(new),
        n_verdicts_flipped=(new - old).total() if same_number else None,
        newly_blamed=_blamed(after, before) if listed else (),
        no_longer_blamed=_blamed(before, after) if listed else (),
    )


def _kind(before: ScenarioScore | None, after: ScenarioScore | None) -> Change:
    if before is None or after is None or before.score is None or after.score is None:
        return Change.MISSING
    # Means of the same trials may differ by rounding.
    if abs(after.score - before.score) <= _SAME:
        return Change.UNCHANGED
    return Change.IMPROVED if after.score > before.score else Change.REGRESSED


def _verdicts(scenario: ScenarioScore | None) -> Counter[str]:
    trials = scenario.trials if scenario else ()
    return Counter(str(trial.verdict) for trial in trials if trial.verdict is not None)


def _blamed(by: ScenarioScore | None, not_by: ScenarioScore | None) -> tuple[Blamed, ...]:
    """Wrong entities of one run that the other run never named; most often named first."""
    named = {_name(entity) for trial in (not_by.trials if not_by else ()) for entity in trial.entities}
    counts: Counter[str] = Counter()
    classes: dict[str, str] = {}
    for trial in by.trials if by else ():
        wrong = {_name(entity): entity.class_ for entity in trial.entities if entity.class_ not in _RIGHT}
        counts.update(wrong.keys() - named)
        classes |= wrong
    return tuple(
        Blamed(entity=name, class_=classes[name], n_trials=count)
        for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )


def _name(entity: EntityScore) -> str:
    return entity.raw if entity.entity is None else entity.entity
