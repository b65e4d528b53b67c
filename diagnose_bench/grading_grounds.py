"""What an agent had seen of each entity that it named, and whether the evidence it cites exists.

Brings `grounding` and `evidence` together for one graded trial; judges nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from diagnose_bench.diagnosis_model import Evidence
from diagnose_bench.evidence import MAX_CITATIONS, Found
from diagnose_bench.grading_inputs import GradingInputs
from diagnose_bench.grading_trials import GradedTrial, names_of
from diagnose_bench.grounding import Sight, Sighting, sightings
from diagnose_bench.resolver import ResolvedEntity
from diagnose_bench.scorecard import CitationScore
from diagnose_bench.store import RunStore

MAX_ENTITIES = 100
"""Of one trial; of the rest nothing is said."""
_QUOTE_SHOWN = 200


class Grounds(TypedDict):
    """Fields of an `EntityScore`."""

    sight: Sight | None
    first_seen: int | None
    evidence: tuple[CitationScore, ...]


def grounds_of(
    inputs: GradingInputs, store: RunStore, trial: GradedTrial, entities: Sequence[ResolvedEntity]
) -> tuple[Grounds, ...]:
    """For each submission of a trial what it rests on.

    Parameters
    ----------
    inputs, store
        What the trial is graded against, and where its records are.
    trial : GradedTrial
        With the evidence that it cites.
    entities : sequence of ResolvedEntity
        Its submissions, in their order.
    """
    seen = _seen(inputs, store, trial, entities)
    evidence = _evidence(inputs, trial, len(entities))
    return tuple(
        Grounds(
            sight=None if one is None else one.sight,
            first_seen=None if one is None else one.first_seen,
            evidence=cited,
        )
        for one, cited in zip(seen, evidence, strict=True)
    )


def _seen(
    inputs: GradingInputs, store: RunStore, trial: GradedTrial, entities: Sequence[ResolvedEntity]
) -> list[Sighting | None]:
    found: list[Sighting | None] = [None] * len(entities)
    if trial.record is None or not trial.record.observed:
        return found
    scenario_id = trial.planned.scenario_id
    names = {
        place: known
        for place, entity in enumerate(entities[:MAX_ENTITIES])
        if (known := names_of(inputs, scenario_id, entity))
    }
    looked_for = sightings(list(names.values()), store.commands(trial.planned))
    for place, one in zip(names, looked_for, strict=True):
        found[place] = one
    return found


def _evidence(inputs: GradingInputs, trial: GradedTrial, n_entities: int) -> list[tuple[CitationScore, ...]]:
    places: list[int] = []
    cited: list[Evidence] = []
    for place, pieces in enumerate(trial.cited[:n_entities]):
        for one in pieces[: MAX_CITATIONS - len(cited)]:
            places.append(place)
            cited.append(one)
    found: list[list[CitationScore]] = [[] for _ in range(n_entities)]
    if cited:
        index = inputs.evidence(trial.planned.scenario_id)
        for place, one, result in zip(places, cited, index.check(cited), strict=True):
            found[place].append(_citation(one, result))
    return [tuple(scores) for scores in found]


def _citation(evidence: Evidence, found: Found | None) -> CitationScore:
    quote, file = evidence.quote, evidence.file
    return CitationScore(
        file=None if file is None else file[:_QUOTE_SHOWN],
        line=evidence.line,
        quote=None if quote is None else quote[:_QUOTE_SHOWN],
        found=found,
    )
