"""How the truths sort scenarios into groups: fault family, namespaces of the root causes, difficulty.

Knows no scores. Says as well when families, and not scenarios, are independent of one another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diagnose_bench.entity import parse_canonical
from diagnose_bench.grading_inputs import GradingInputs
from diagnose_bench.ground_truth import Group

CLUSTER_SCOPED = "cluster-scoped"
NO_FAULT = "no fault"


@dataclass(frozen=True)
class ScenarioTraits:
    """What a truth says of its scenario, as far as scenarios are grouped by it."""

    family: str | None = None
    namespaces: tuple[str, ...] = ()
    """Of the root causes; empty without a fault, and where no root group names one."""
    n_root_causes: int | None = None
    difficulty: int | None = None

    @property
    def subsystem(self) -> str | None:
        """The namespaces as one name."""
        return NO_FAULT if self.n_root_causes == 0 else " + ".join(self.namespaces) or None


def traits_of(inputs: GradingInputs, scenario_id: str) -> ScenarioTraits:
    """What the truth of a scenario says; nothing where it is refused."""
    resolver = inputs.resolver(scenario_id)
    if resolver is None:
        return ScenarioTraits()
    truth = inputs.truths.truths[scenario_id].truth
    namespaces = {name for group in truth.root_groups for name in _namespaces(group)}
    return ScenarioTraits(
        family=truth.family,
        namespaces=tuple(sorted(namespaces)),
        n_root_causes=resolver.n_root_causes,
        difficulty=truth.difficulty,
    )


def only_family(families: Sequence[str | None]) -> str | None:
    """The family that several scenarios share when there is no other: then there are only scenarios of it."""
    names = set(families)
    return families[0] if len(names) == 1 and len(families) > 1 else None


def family_units(families: Sequence[str | None]) -> NDArray[np.int64] | None:
    """Label of each scenario's unit where families are declared to hold more than one scenario, else None.

    Notes
    -----
    Scenarios of one family share what makes them hard, so they are no independent draws. A scenario without
    a family is a unit of its own. When each family holds one scenario the units are the scenarios; and when
    there is but one family, nothing can be said about others: then its scenarios are the units.
    """
    counts = Counter(family for family in families if family is not None)
    if max(counts.values(), default=0) < 2 or only_family(families) is not None:
        return None
    names = [(index, "") if family is None else (-1, family) for index, family in enumerate(families)]
    labels = {name: label for label, name in enumerate(dict.fromkeys(names))}
    return np.array([labels[name] for name in names], dtype=np.int64)


def _namespaces(group: Group) -> list[str]:
    if group.kind is not None:
        return [group.namespace] if group.namespace else []
    return [parse_canonical(text).namespace or CLUSTER_SCOPED for text in group.entities]
