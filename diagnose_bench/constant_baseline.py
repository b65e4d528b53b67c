"""What a score must beat: the best single name, chosen on the other scenarios, and the empty answer.

Needs the truths, so it is computed when a run is scored and never runs as an agent.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from diagnose_bench.ground_truth import Group
from diagnose_bench.inventory import Inventory
from diagnose_bench.name_index import NameIndex
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
    hits = _hits_everywhere(scenarios, own_hits)
    n_hits = Counter(name for found in hits.values() for name in found)
    n_own = Counter(name for found in own_hits.values() for name in found)
    ranked = sorted(n_own, key=lambda name: (-n_hits[name], name))
    entities: dict[str, str | None] = {}
    constant, empty = {}, {}
    for scenario_id, scenario in scenarios.items():
        here = hits[scenario_id]
        # Beside the best of the names that miss here, only those that hit here can win, with a hit less.
        rivals = [name for name in here if n_own[name] > (name in own_hits[scenario_id])]
        rivals += itertools.islice((name for name in ranked if name not in here), 1)
        best = min(rivals, key=lambda name: ((name in here) - n_hits[name], name), default=None)
        entities[scenario_id] = best
        # One name is the whole answer: right if it is the only root cause.
        constant[scenario_id] = 1.0 if scenario.resolver.n_root_causes == 1 and best in here else 0.0
        empty[scenario_id] = 1.0 if scenario.resolver.n_root_causes == 0 else 0.0
    return BlindScores(entities=entities, constant=constant, empty=empty)


def filter_stem(pattern: str) -> str:
    """The literal text that a name filter starts with: ``flagd-config`` of ``flagd-config-.*``."""
    return re.split(r"[\\.*+?^$(\[{|]", pattern.removeprefix("^"), maxsplit=1)[0].rstrip("-")


def _own_hits(scenario: BlindScenario) -> set[str]:
    return {name for name in _own_names(scenario) if _is_hit(scenario.resolver, name)}


def _own_names(scenario: BlindScenario) -> set[str]:
    if scenario.inventory.is_none:
        return set(scenario.group_names)
    return {str(entity) for entity in scenario.inventory.entities}


def _hits_everywhere(
    scenarios: Mapping[str, BlindScenario], own_hits: Mapping[str, set[str]]
) -> dict[str, set[str]]:
    """Which names of any scenario hit a root cause of each one, whether as the first of its set or not."""
    candidates = sorted(set().union(*own_hits.values()))
    index = NameIndex(candidates)
    found = {}
    for scenario_id, scenario in scenarios.items():
        strange = index.possible(scenario.resolver) - _own_names(scenario)
        found[scenario_id] = own_hits[scenario_id] | {
            name for name in strange if _is_hit(scenario.resolver, name)
        }
    return found


def _is_hit(resolver: Resolver, name: str) -> bool:
    return resolver.identify(name, (_PROFILE,))[_PROFILE].root_set is not None


def names_in_groups(groups: Sequence[Group]) -> tuple[str, ...]:
    """Names that the groups of a truth give, written as entities."""
    return tuple(name for group in groups for name in _names(group))


def _names(group: Group) -> list[str]:
    if group.kind is None:
        return list(group.entities)
    prefix = f"{group.namespace}/{group.kind}/" if group.namespace else f"{group.kind}/"
    stems = [filter_stem(pattern) for pattern in group.filters]
    return [*group.entities, *(prefix + name for name in (*group.names, *stems) if name)]
