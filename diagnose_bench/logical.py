"""Logical entities: which objects are one (a workload with what it made, a chaos Schedule with its children).

Owner chains of the inventory first, the forms of generated names after. Nothing about right or wrong.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from diagnose_bench.entity import Entity
from diagnose_bench.forms import implied_name, schedule_name, workload_names
from diagnose_bench.inventory import Inventory
from diagnose_bench.kinds import CHAOS_GROUP, CHAOS_KINDS, WORKLOAD_KINDS

# Which kind a stripped name means where several workloads of a namespace share it.
_PREFERENCE = ("Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicaSet")


_CACHE = 50_000


class Rule(StrEnum):
    """How a submitted entity met a group, in the order in which the rules are tried."""

    EXACT = "exact"
    FILTER = "filter"
    OWNER = "owner"
    FORM = "form"
    SPAWNED = "spawned"


@dataclass(frozen=True, slots=True)
class Logical:
    """What an object counts as.

    ``key`` is equal for objects that are one; ``top`` is their workload or Schedule where it is known as an
    object; ``name`` is that one's name; ``link`` is how the object leads there, None for the top itself.
    """

    key: tuple[str, ...]
    top: Entity | None
    name: str
    link: Rule | None


def is_workload(entity: Entity) -> bool:
    """Whether the object is of a kind that collapses into its workload."""
    return entity.kind in WORKLOAD_KINDS


def is_chaos(entity: Entity) -> bool:
    """Whether the object is a chaos Schedule, or of a kind that one spawns."""
    return entity.group == CHAOS_GROUP and (entity.kind == "Schedule" or entity.kind in CHAOS_KINDS)


class LogicalIndex:
    """Finds the logical entity of an object.

    Parameters
    ----------
    inventory : Inventory
        The objects and their owners.
    named : collection of Entity
        Objects that the truth names.
    stems : collection of (str or None, str)
        Namespace (None: any) and name of workloads that filters of the truth spell out.
    """

    def __init__(
        self, inventory: Inventory, named: Collection[Entity], stems: Collection[tuple[str | None, str]]
    ) -> None:
        self._inventory = inventory
        self._named = frozenset(named)
        self._known: dict[Entity, Logical] = {}
        self._exact = {(entity.namespace, entity.name) for entity in named if is_workload(entity)}
        self._stems = frozenset(stems) | {
            (entity.namespace, implied_name(entity.kind, entity.name))
            for entity in named
            if is_workload(entity)
        }

    def of(self, entity: Entity) -> Logical:
        """The logical entity of an object, whether or not the inventory has it."""
        found = self._known.get(entity)
        if found is None:
            if len(self._known) >= _CACHE:
                self._known.clear()
            found = self._known[entity] = self._find(entity)
        return found

    def _find(self, entity: Entity) -> Logical:
        if is_workload(entity):
            return self._workload(entity)
        if is_chaos(entity):
            return self._chaos(entity)
        key = ("object", entity.namespace, entity.kind.lower(), entity.group, entity.name)
        return Logical(key, entity, entity.name, None)

    def workload_exists(self, namespace: str, name: str) -> bool:
        """Whether a workload of that name is in the inventory or named by the truth."""
        return (namespace, name) in self._exact or self.known_workload(namespace, name) is not None

    def is_spelled_out(self, namespace: str, name: str) -> bool:
        """Whether the truth spells out a workload of that name, in a filter or by the name of an object."""
        return (namespace, name) in self._stems or (None, name) in self._stems

    def implied_namespaces(self, entity: Entity) -> list[str]:
        """Namespaces with a workload that the name of a Pod or ReplicaSet implies."""
        for name in workload_names(entity.kind, entity.name):
            found = {
                other.namespace
                for other in self._inventory.named(name)
                if is_workload(other) and other.kind != "Pod"
            }
            if found:
                return sorted(found)
        return []

    def _workload(self, entity: Entity) -> Logical:
        top = self._inventory.workload(entity)
        link = Rule.OWNER if top != entity else None
        if top in self._inventory:
            return Logical(_object_key(top), top, top.name, link)
        for name in workload_names(top.kind, top.name):
            known = self.known_workload(top.namespace, name)
            if known is not None:
                return Logical(_object_key(known), known, known.name, Rule.FORM)
            if self.is_spelled_out(top.namespace, name):
                return Logical(("workload", top.namespace, name), None, name, Rule.FORM)
        name = implied_name(top.kind, top.name)
        if name != top.name:
            link = Rule.FORM
        return Logical(("workload", top.namespace, name), None, name, link)

    def known_workload(self, namespace: str, name: str) -> Entity | None:
        """The workload of the inventory that the stripped name of a Pod or ReplicaSet means."""
        found = [
            entity
            for entity in self._inventory.named(name)
            if entity.namespace == namespace and entity.kind in _PREFERENCE
        ]
        if not found:
            return None
        return self._inventory.workload(min(found, key=lambda entity: _PREFERENCE.index(entity.kind)))

    def _chaos(self, entity: Entity) -> Logical:
        if entity.kind == "Schedule":
            return Logical(_object_key(entity), entity, entity.name, None)
        owner = self._inventory.owner(entity)
        if owner is not None:
            if owner.kind == "Schedule":
                return Logical(_object_key(owner), owner, owner.name, Rule.SPAWNED)
            return Logical(_object_key(entity), entity, entity.name, None)
        name = schedule_name(entity.name)
        if name is not None:
            parent = Entity(entity.namespace, "Schedule", entity.group, name)
            if entity not in self._inventory or parent in self._inventory or parent in self._named:
                return Logical(_object_key(parent), parent, name, Rule.SPAWNED)
        return Logical(_object_key(entity), entity, entity.name, None)


def _object_key(entity: Entity) -> tuple[str, ...]:
    return ("object", entity.namespace, entity.kind.lower(), entity.group, entity.name)
