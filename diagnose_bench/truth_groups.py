"""Groups of a truth, ready to be met by objects: object with object, and logical entity with logical entity.

Says which groups an object meets and by which rule; which of them decides is the resolver's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from diagnose_bench.entity import Entity, drop_namespace, parse_canonical
from diagnose_bench.filters import Filter
from diagnose_bench.forms import (
    SYNTHETIC_CHILD,
    SYNTHETIC_POD,
    SYNTHETIC_REPLICASET,
    same_chain,
    workload_names,
)
from diagnose_bench.ground_truth import GroundTruth, Group
from diagnose_bench.inventory import Inventory
from diagnose_bench.kinds import CHAOS_KINDS, WORKLOAD_KINDS, KindTable
from diagnose_bench.logical import Logical, LogicalIndex, Rule, is_chaos, is_workload

_RANK = {rule: rank for rank, rule in enumerate(Rule)}


@dataclass(frozen=True, slots=True)
class Meeting:
    """An object meets a group."""

    group: int
    rule: Rule
    n_literal: int = 0

    @property
    def order(self) -> tuple[int, int, int]:
        """Sorts the most specific first: by rule, by literal characters, by place in the file."""
        return (_RANK[self.rule], -self.n_literal, self.group)


class TruthGroup:
    """One group: exact entities, or a kind with names and filters, in canonical kinds and namespaces."""

    def __init__(self, index: int, group: Group, kinds: KindTable, inventory: Inventory) -> None:
        self.index = index
        self.id = group.id
        self.is_root = group.root_cause
        self.is_object = group.match == "object"
        self.filters = tuple(Filter(pattern) for pattern in group.filters)
        self.names = tuple(group.names)
        self.kind, self.api_group = "", ""
        self.namespace = group.namespace or None
        entities = [parse_canonical(text) for text in group.entities]
        if group.kind:
            found = kinds.lookup(group.kind)
            self.kind = found.kind
            self.api_group = kinds.default_group(found.kind) if found.group is None else found.group
            if self.namespace is not None:
                self.namespace = self._namespace_that_counts(self.namespace, kinds)
                entities += [Entity(self.namespace, self.kind, self.api_group, name) for name in self.names]
            elif kinds.is_cluster_scoped(self.kind, self.api_group):
                self.namespace = ""
                entities += [Entity("", self.kind, self.api_group, name) for name in self.names]
        self.entities = tuple(inventory.as_known(entity) for entity in entities)
        self.wild_kind = bool(self.kind) and not self.api_group and not kinds.is_builtin(self.kind)

    def is_kind_of(self, entity: Entity) -> bool:
        """Whether the group's kind is the object's; a custom kind without a group is that of any group."""
        if self.wild_kind:
            return self.kind.lower() == entity.kind.lower()
        return self.kind == entity.kind and self.api_group == entity.group

    def may_be_in(self, namespace: str) -> bool:
        """Whether an object of this namespace can belong to the group."""
        return self.namespace is None or self.namespace == namespace

    def _namespace_that_counts(self, namespace: str, kinds: KindTable) -> str:
        if self.kind == "Namespace" and (
            namespace in self.names or any(item.fits(namespace) for item in self.filters)
        ):
            return ""
        return drop_namespace(self.kind, self.api_group, namespace, "", kinds)


class TruthGroups:
    """All groups of a truth against one inventory."""

    def __init__(self, truth: GroundTruth, inventory: Inventory, kinds: KindTable) -> None:
        self._inventory = inventory
        self.groups = tuple(
            TruthGroup(index, group, kinds, inventory) for index, group in enumerate(truth.groups)
        )
        self.entities = frozenset(entity for group in self.groups for entity in group.entities)
        stems = [
            (group.namespace, item.stem)
            for group in self.groups
            if group.kind in WORKLOAD_KINDS
            for item in group.filters
            if item.stem is not None
        ]
        self.logical = LogicalIndex(inventory, self.entities, stems)
        self._exact: dict[Entity, list[int]] = {}
        for group in self.groups:
            for entity in group.entities:
                self._exact.setdefault(entity, []).append(group.index)
        self._patterned = [group for group in self.groups if group.kind]
        self._fits: dict[tuple[int, tuple[str, ...]], tuple[Filter, ...]] = {}
        self._by_key: dict[tuple[str, ...], list[tuple[Entity, Logical, int]]] = {}
        for entity, indices in self._exact.items():
            logical = self.logical.of(entity)
            for index in indices:
                self._by_key.setdefault(logical.key, []).append((entity, logical, index))

    @property
    def names(self) -> frozenset[str]:
        """Every name that a group gives in full."""
        return frozenset(entity.name for entity in self.entities).union(
            *(group.names for group in self.groups)
        )

    @property
    def filters(self) -> tuple[Filter, ...]:
        """The filters of all groups."""
        return tuple(item for group in self.groups for item in group.filters)

    def meet_object(self, entity: Entity) -> list[Meeting]:
        """Groups that the object itself belongs to, by name or by filter, most specific first."""
        found = [Meeting(index, Rule.EXACT) for index in self._exact.get(entity, ())]
        for group in self._patterned:
            if not (group.is_kind_of(entity) and group.may_be_in(entity.namespace)):
                continue
            if entity.name in group.names:
                found.append(Meeting(group.index, Rule.EXACT))
            else:
                found += self._meet_filters(group, entity, self._fitting_object(group, entity))
        return self._without_overreach(entity, found)

    def meet_logical(self, entity: Entity) -> list[Meeting]:
        """Groups of the object's workload (or of its chaos Schedule), most specific first."""
        logical = self.logical.of(entity)
        found: list[Meeting] = []
        for other, other_logical, index in self._by_key.get(logical.key, ()):
            if self.groups[index].is_object or not self._is_one_chain(entity, logical, other):
                continue
            rule = Rule.EXACT if other == entity else self._link(logical, other_logical, other)
            found.append(Meeting(index, rule))
        for group in self._patterned:
            if group.is_object or not group.may_be_in(entity.namespace):
                continue
            if is_workload(entity):
                found += self._meet_workload_group(group, entity, logical)
            elif is_chaos(entity):
                found += self._meet_chaos_group(group, entity, logical)
        return self._without_overreach(entity, found)

    def _meet_workload_group(self, group: TruthGroup, entity: Entity, logical: Logical) -> list[Meeting]:
        top_kind = entity.kind if logical.top is None else logical.top.kind
        if group.kind not in WORKLOAD_KINDS or not same_chain(top_kind, group.kind):
            return []
        is_itself = logical.top is None and logical.link is None
        if is_itself and self.logical.known_workload(entity.namespace, entity.name) is not None:
            return []  # a made-up kind (StatefulSet/cart beside the real Deployment/cart)
        if group.namespace is None and group.names:
            for name in group.names:
                named = Entity(entity.namespace, group.kind, group.api_group, name)
                other = self.logical.of(named)
                if other.key == logical.key:
                    rule = Rule.EXACT if named == entity else self._link(logical, other, named)
                    return [Meeting(group.index, rule)]
        own = self._meet_filters(group, entity, [item for item in group.filters if item.fits(entity.name)])
        if own or not group.filters:
            return own
        return self._meet_filters(
            group, entity, self._fitting_workload(group, logical), logical.link or Rule.FILTER
        )

    def _meet_chaos_group(self, group: TruthGroup, entity: Entity, logical: Logical) -> list[Meeting]:
        """A filter or a name of a spawned kind fits the Schedule's own name too, or that of any child."""
        if group.kind not in CHAOS_KINDS and group.kind != "Schedule":
            return []
        if logical.link is None and entity.kind != "Schedule":
            return []
        if group.kind not in ("Schedule", entity.kind) and entity.kind != "Schedule":
            return []
        names = self._chaos_names(group, logical)
        if not names.isdisjoint(group.names):
            return [Meeting(group.index, Rule.SPAWNED)]
        fitting = self._fitting(group, logical, names)
        return self._meet_filters(group, entity, fitting, Rule.SPAWNED)

    def _chaos_names(self, group: TruthGroup, logical: Logical) -> frozenset[str]:
        """Names to try for a chaos Schedule: its own, and those of its children of the group's kind."""
        if group.kind == "Schedule" or logical.top is None:
            return frozenset({logical.name})
        children = self._inventory.spawned_by(logical.top)
        if not children:
            return frozenset({logical.name, logical.name + SYNTHETIC_CHILD})
        names = frozenset(child.name for child in children if child.kind == group.kind)
        return names | {logical.name} if names else names

    def _meet_filters(
        self, group: TruthGroup, entity: Entity, fitting: Sequence[Filter], rule: Rule = Rule.FILTER
    ) -> list[Meeting]:
        found = fitting
        if is_workload(entity):
            found = [item for item in fitting if not self._is_of_another_workload(group, item, entity)]
        return [Meeting(group.index, rule, max(item.n_literal for item in found))] if found else []

    def _is_of_another_workload(self, group: TruthGroup, item: Filter, entity: Entity) -> bool:
        """Whether an open filter belongs to a workload whose name it spells out, and this is a longer name.

        ``frontend-.*`` fits ``frontend-proxy``; where there is a workload ``frontend``, it alone is meant,
        and where another group's filter spells out ``frontend-proxy``, that group is. A generated name is
        no longer name.
        """
        name = self.logical.of(entity).name
        if not item.is_open or item.stem is None or not name.startswith(f"{item.stem}-"):
            return False
        if item.stem in workload_names(entity.kind, entity.name):  # a Pod without an owner on record
            return False
        if self.logical.workload_exists(entity.namespace, item.stem):
            return True
        is_own = any(other.stem == name for other in group.filters)
        return not is_own and self.logical.is_spelled_out(entity.namespace, name)

    def _without_overreach(self, entity: Entity, found: list[Meeting]) -> list[Meeting]:
        """Drop open filters where another group spells out more of the same workload's name."""
        if is_workload(entity) and len(found) > 1:
            name = self.logical.of(entity).name
            stems = {meeting.group: self._stem(meeting, name) for meeting in found}
            longest = max((stem for stem in stems.values() if stem is not None), key=len, default="")
            found = [
                meeting for meeting in found if not self._is_shorter(meeting, stems[meeting.group], longest)
            ]
        return sorted(found, key=lambda meeting: meeting.order)

    def _stem(self, meeting: Meeting, name: str) -> str | None:
        """How much of the workload's name a group spells out; None where a filter does not say."""
        group = self.groups[meeting.group]
        if not group.filters:
            return name
        stems = [item.stem for item in group.filters if item.stem is not None and name.startswith(item.stem)]
        return max(stems, key=len, default=None)

    def _is_shorter(self, meeting: Meeting, stem: str | None, longest: str) -> bool:
        if stem is None or meeting.rule is Rule.EXACT or not longest.startswith(f"{stem}-"):
            return False
        return all(item.is_open for item in self.groups[meeting.group].filters)

    def _fitting_object(self, group: TruthGroup, entity: Entity) -> Sequence[Filter]:
        own = [item for item in group.filters if item.fits(entity.name)]
        if own or not is_workload(entity) or entity.kind == "Pod":
            return own
        logical = self.logical.of(entity)
        return self._fitting_workload(group, logical) if logical.link is None else ()

    def _fitting_workload(self, group: TruthGroup, logical: Logical) -> Sequence[Filter]:
        return self._fitting(group, logical, None)

    def _fitting(self, group: TruthGroup, logical: Logical, names: frozenset[str] | None) -> Sequence[Filter]:
        """Filters that fit any of the names (None: the workload's); remembered for objects of the inventory.

        A workload can have a thousand Pods, and each of them can be submitted.
        """
        key = (group.index, logical.key)
        known = self._fits.get(key)
        if known is None:
            texts = self._workload_names(logical) if names is None else tuple(names)
            known = tuple(item for item in group.filters if any(item.fits(text) for text in texts))
            if logical.top in self._inventory:
                self._fits[key] = known
        return known

    def _workload_names(self, logical: Logical) -> tuple[str, ...]:
        members = self._inventory.members(logical.top) if logical.top is not None else ()
        names = [member.name for member in members if member.kind in ("Pod", "ReplicaSet")]
        if not names:
            names = [logical.name + SYNTHETIC_REPLICASET, logical.name + SYNTHETIC_POD]
        return (logical.name, *names)

    @staticmethod
    def _is_one_chain(entity: Entity, logical: Logical, other: Entity) -> bool:
        """Names without an object imply no kind, so a StatefulSet must not pass for a Deployment."""
        if is_workload(entity):
            return logical.top is not None or same_chain(entity.kind, other.kind)
        if is_chaos(entity) and "Schedule" not in (entity.kind, other.kind):
            return entity.kind == other.kind
        return True

    @staticmethod
    def _link(first: Logical, second: Logical, other: Entity) -> Rule:
        if is_chaos(other):
            return Rule.SPAWNED
        return Rule.OWNER if {first.link, second.link} <= {Rule.OWNER, None} else Rule.FORM

    @cached_property
    def root_pairs(self) -> list[tuple[int, int]]:
        """Pairs of root groups that are of one workload and do not say ``match: object``."""
        roots = [group for group in self.groups if group.is_root and not group.is_object]
        first_of: dict[tuple[str, ...], int] = {}
        pairs = []
        for group in roots:
            for key in self.workload_keys(group.index):
                first = first_of.setdefault(key, group.index)
                pairs.append((first, group.index))
        for group in roots:
            if group.namespace is None and group.kind in WORKLOAD_KINDS:  # of any namespace
                names = {key[-1] for key in self.workload_keys(group.index)}
                pairs += [(first, group.index) for key, first in first_of.items() if key[-1] in names]
        return pairs

    def workload_keys(self, index: int) -> frozenset[tuple[str, ...]]:
        """Keys of the workloads that a group is about; empty for groups of other kinds."""
        group = self.groups[index]
        keys = {self.logical.of(entity).key for entity in group.entities if is_workload(entity)}
        keys |= self._keys_by_pattern.get(index, set())
        if not keys and group.kind in WORKLOAD_KINDS:
            names = [item.stem for item in group.filters if item.stem is not None]
            if group.namespace is None:
                names += group.names
            keys = {("workload", group.namespace or "", name) for name in names}
        return frozenset(keys)

    @cached_property
    def _keys_by_pattern(self) -> dict[int, set[tuple[str, ...]]]:
        """Workloads of the inventory that groups with a kind meet, found in one pass over the workloads."""
        if not any(group.kind in WORKLOAD_KINDS for group in self._patterned):
            return {}
        keys: dict[int, set[tuple[str, ...]]] = {}
        tops = {self._inventory.workload(item) for item in self._inventory.entities if is_workload(item)}
        for top in tops & self._inventory.entities:
            for meeting in self.meet_logical(top):
                keys.setdefault(meeting.group, set()).add(self.logical.of(top).key)
        return keys
