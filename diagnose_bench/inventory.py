"""The objects that a snapshot knows, their owners and kinds; on the snapshot's side, so without any truth.

Answers questions about objects. How the files are read is `inventory_files`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

from diagnose_bench.entity import Entity
from diagnose_bench.inventory_files import read_inventory_files
from diagnose_bench.kinds import BUILTIN_KINDS, WORKLOAD_KINDS, CustomKind, KindTable


class Inventory:
    """The objects of one snapshot.

    Parameters
    ----------
    entities : iterable of Entity
        The objects.
    owners : mapping of Entity to Entity
        Controller of an object; it need not be among the objects itself.
    kinds : iterable of CustomKind
        Custom kinds beyond those that the objects show.
    is_none : bool
        Whether there is no snapshot at all.
    """

    def __init__(
        self,
        entities: Iterable[Entity] = (),
        owners: Mapping[Entity, Entity] | None = None,
        kinds: Iterable[CustomKind] = (),
        *,
        is_none: bool = False,
    ) -> None:
        everything = frozenset(entities)
        same = _same_with_group(everything)
        self.entities: frozenset[Entity] = frozenset(same.get(entity, entity) for entity in everything)
        self.is_none = is_none
        self._owners = {
            same.get(child, child): self._known_owner(same.get(owner, owner))
            for child, owner in (owners or {}).items()
        }
        self._by_name: dict[str, list[Entity]] = {}
        for entity in sorted(self.entities):
            self._by_name.setdefault(entity.name, []).append(entity)
        self._workloads: dict[Entity, Entity] = {}
        self.kind_names: frozenset[str] = frozenset(entity.kind for entity in self.entities)
        self.namespaces: frozenset[str] = frozenset(
            namespace
            for entity in self.entities
            if (namespace := entity.name if entity.kind == "Namespace" else entity.namespace)
        )
        self.kinds: KindTable = BUILTIN_KINDS.extended([*kinds, *_custom_kinds(self.entities)])

    @classmethod
    def none(cls) -> Inventory:
        """The inventory of a truth without a snapshot."""
        return cls(is_none=True)

    @classmethod
    def load(cls, snapshot: Path) -> Inventory:
        """Read a snapshot's objects, one line at a time; files that are absent count as empty.

        Raises
        ------
        SuiteError
            A file is unreadable or no JSON, or an entity in it has no canonical form.
        """
        found = read_inventory_files(snapshot)
        return cls(found.entities, found.owners, found.kinds)

    def __contains__(self, entity: object) -> bool:
        return entity in self.entities

    def named(self, name: str) -> tuple[Entity, ...]:
        """All objects of that name, sorted."""
        return tuple(self._by_name.get(name, ()))

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of all objects, and of their owners."""
        return frozenset(self._by_name) | {owner.name for owner in self._owners.values()}

    def as_known(self, entity: Entity) -> Entity:
        """The object that an entity of a custom kind means where it is written without its group."""
        if entity.group or self.kinds.is_builtin(entity.kind) or entity in self.entities:
            return entity
        same = [
            other
            for other in self.named(entity.name)
            if (other.namespace, other.kind) == (entity.namespace, entity.kind)
        ]
        return same[0] if len(same) == 1 else entity

    def owner(self, entity: Entity) -> Entity | None:
        """The object that controls ``entity``; it may be outside the inventory."""
        return self._owners.get(entity)

    def workload(self, entity: Entity) -> Entity:
        """Top of the owner chain among the workload kinds, else ``entity`` itself.

        Notes
        -----
        A chain that runs in a circle has the smallest of its members on top, so that all agree on it.
        """
        found = self._workloads.get(entity)
        if found is not None:
            return found
        chain: dict[Entity, int] = {}
        current = entity
        while True:
            chain[current] = len(chain)
            above = self._owners.get(current)
            if above is None or above.kind not in WORKLOAD_KINDS or current.kind not in WORKLOAD_KINDS:
                top = current
                break
            if above in self._workloads:
                top = self._workloads[above]
                break
            if above in chain:
                top = min(list(chain)[chain[above] :])
                break
            current = above
        self._workloads.update(dict.fromkeys(chain, top))
        return top

    def members(self, workload: Entity) -> tuple[Entity, ...]:
        """The objects below a workload (Pods, ReplicaSets, Jobs), sorted, without itself."""
        return self._members.get(workload, ())

    def spawned_by(self, owner: Entity) -> tuple[Entity, ...]:
        """The objects whose controller is ``owner``, sorted."""
        return self._children.get(owner, ())

    @cached_property
    def _members(self) -> dict[Entity, tuple[Entity, ...]]:
        found: dict[Entity, list[Entity]] = {}
        for entity in sorted(self.entities):
            if entity.kind in WORKLOAD_KINDS and (top := self.workload(entity)) != entity:
                found.setdefault(top, []).append(entity)
        return {top: tuple(below) for top, below in found.items()}

    @cached_property
    def _children(self) -> dict[Entity, tuple[Entity, ...]]:
        found: dict[Entity, list[Entity]] = {}
        for child in sorted(self.entities):
            owner = self._owners.get(child)
            if owner is not None:
                found.setdefault(owner, []).append(child)
        return {owner: tuple(children) for owner, children in found.items()}

    def _known_owner(self, owner: Entity) -> Entity:
        """A reference to an owner has no namespace: take the cluster-scoped object where that exists."""
        cluster_scoped = Entity("", owner.kind, owner.group, owner.name)
        return cluster_scoped if owner not in self.entities and cluster_scoped in self.entities else owner


def _custom_kinds(entities: frozenset[Entity]) -> list[CustomKind]:
    """Kinds that the built-in table lacks; one whose objects all have no namespace is cluster-scoped."""
    namespaced: dict[tuple[str, str], bool] = {}
    for entity in entities:
        key = (entity.kind, entity.group)
        namespaced[key] = namespaced.get(key, False) or bool(entity.namespace)
    return [
        CustomKind(kind, group, cluster_scoped=not has_namespace)
        for (kind, group), has_namespace in sorted(namespaced.items())
        if not BUILTIN_KINDS.is_builtin(kind) or BUILTIN_KINDS.default_group(kind) != group
    ]


def _same_with_group(entities: frozenset[Entity]) -> dict[Entity, Entity]:
    """Objects of custom kinds written without their group -> the one object that has it."""
    with_group: dict[tuple[str, str, str], list[Entity]] = {}
    for entity in entities:
        if entity.group:
            with_group.setdefault((entity.namespace, entity.kind, entity.name), []).append(entity)
    same = {}
    for entity in entities:
        if not entity.group and not BUILTIN_KINDS.is_builtin(entity.kind):
            full = with_group.get((entity.namespace, entity.kind, entity.name), [])
            if len(full) == 1:
                same[entity] = full[0]
    return same
