"""What a score must beat: the best single name, chosen on the other scenarios, and the empty answer.

Needs the truths, so it is computed when a run is scored and never runs as an agent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from diagnose_bench.ground_truth import Group
from diagnose_bench.inventory import Inventory
from diagnose_bench.outcome import Profile
from diagnose_bench.resolver import Resolver

_PROFILE = Profile.ITBENCH_AA


@dataclass(frozen=True)
class BlindScores:
    """Scores per scenario of answers that need no look at any snapshot."""

    entities: dict[str, str | None]
    constant: dict[str, float]
    empty: dict[str, float]


@dataclass(frozen=True)
class BlindScenario:
    """One scenario as the baseline sees it."""

    resolver: Resolver
    inventory: Inventory
    group_names: tuple[str, ...]
    """Names that its truth gives, for suites without snapshots."""


def blind_scores(scenarios: Mapping[str, BlindScenario]) -> BlindScores:
    """Choose and score the constant answer of each scenario, leaving that scenario out of the choice.

    Parameters
    ----------
    scenarios : mapping
        By scenario id; those whose truth is refused are left out by the caller.

    Notes
    -----
    The name chosen for a scenario hits a root cause in most of the *other* scenarios, ties alphabetical. Only
    inventory entities that hit somewhere can win; where none hits anywhere else there is no constant answer,
    and it scores 0.
    """
    own_hits = {scenario_id: _own_hits(scenario) for scenario_id, scenario in scenarios.items()}
    candidates = sorted(set().union(*own_hits.values())) if own_hits else []
    hits: dict[str, set[str]] = {name: set() for name in candidates}
    for scenario_id, scenario in scenarios.items():
        for name in _hits(scenario.resolver, candidates):
            hits[name].add(scenario_id)
    entities: dict[str, str | None] = {}
    constant, empty = {}, {}
    for scenario_id, scenario in scenarios.items():
        known = set().union(*(found for other, found in own_hits.items() if other != scenario_id))
        entities[scenario_id] = _best(sorted(known), hits, scenario_id)
        constant[scenario_id] = _score_alone(scenario.resolver, entities[scenario_id])
        empty[scenario_id] = 1.0 if scenario.resolver.n_root_causes == 0 else 0.0
    return BlindScores(entities=entities, constant=constant, empty=empty)


def filter_stem(pattern: str) -> str:
    """The literal text that a name filter starts with: ``flagd-config`` of ``flagd-config-.*``."""
    return re.split(r"[\\.*+?^$(\[{|]", pattern.removeprefix("^"), maxsplit=1)[0].rstrip("-")


def _best(known: Sequence[str], hits: Mapping[str, set[str]], left_out: str) -> str | None:
    return max(known, key=lambda name: len(hits[name] - {left_out}), default=None)


def _own_hits(scenario: BlindScenario) -> set[str]:
    names = (
        scenario.group_names
        if scenario.inventory.is_none
        else [str(entity) for entity in scenario.inventory.entities]
    )
    return _hits(scenario.resolver, names)


def _hits(resolver: Resolver, names: Sequence[str]) -> set[str]:
    """The names that hit a root cause, whether as the first of its set or not."""
    codes = resolver.resolve(names, _PROFILE).codes
    return {name for name, code in zip(names, codes, strict=True) if code < resolver.n_root_causes}


def _score_alone(resolver: Resolver, name: str | None) -> float:
    # One name is the whole answer: right if it is the only root cause.
    return 1.0 if name is not None and resolver.n_root_causes == 1 and _hits(resolver, [name]) else 0.0


def names_in_groups(groups: Sequence[Group]) -> tuple[str, ...]:
    """Names that the groups of a truth give, written as entities."""
    return tuple(name for group in groups for name in _names(group))


def _names(group: Group) -> list[str]:
    if group.kind is None:
        return list(group.entities)
    prefix = f"{group.namespace}/{group.kind}/" if group.namespace else f"{group.kind}/"
    stems = [filter_stem(pattern) for pattern in group.filters]
    return [*group.entities, *(prefix + name for name in (*group.names, *stems) if name)]
