"""What a truth is once it is read: root causes, groups and aliases of one scenario, as frozen values.

Every accepted form (native, ITBench v1 and v2) ends here. No files and no reading; for the score side only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

TruthFormat = Literal["native", "itbench-v1", "itbench-v2"]
Match = Literal["workload", "object"]


@dataclass(frozen=True, slots=True)
class Group:
    """Names that are one logical entity of the incident.

    Either ``entities`` (native and ITBench v2: canonical entity strings) is filled, or ``kind`` with
    ``names`` or ``filters`` (ITBench v1). ``namespace`` is None where an ITBench group gives none.
    """

    id: str
    entities: tuple[str, ...] = ()
    root_cause: bool = False
    match: Match = "workload"
    kind: str | None = None
    namespace: str | None = None
    names: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Propagation:
    """One step of the failure: ids of two groups and what the first did to the second."""

    source: str
    target: str
    effect: str = ""
    condition: str = ""


@dataclass(frozen=True, slots=True)
class Decoy:
    """An entity that looks guilty and is not (canonical entity string)."""

    entity: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where in the snapshot a group shows what it did."""

    group: str
    file: str
    query: str = ""
    shows: str = ""


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """The answer of one scenario.

    Notes
    -----
    ``aliases`` are sets of group ids accepted as one another; the resolver joins the sets that overlap.
    A truth without a root cause has ``no_fault`` true; every other one has at least one root group.
    """

    format: TruthFormat
    scenario_id: str
    groups: tuple[Group, ...]
    title: str = ""
    aliases: tuple[tuple[str, ...], ...] = ()
    alias_reasons: tuple[str, ...] = ()
    propagation: tuple[Propagation, ...] = ()
    decoys: tuple[Decoy, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    remediation: Mapping[str, Any] | None = None
    family: str | None = None
    difficulty: int | None = None
    no_fault: bool = False
    sources: tuple[Mapping[str, Any], ...] = ()
    provenance: Mapping[str, Any] | None = None
    canary: str | None = None

    @property
    def root_groups(self) -> tuple[Group, ...]:
        """The groups marked as a root cause, in file order."""
        return tuple(group for group in self.groups if group.root_cause)
