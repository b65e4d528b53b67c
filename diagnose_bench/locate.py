"""From what a text says to the one object it means: fills in a namespace, kind or API group, or refuses.

A name is filled in only if exactly one object has it. Nothing here says whether the object is right.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from diagnose_bench.entity import Entity, ParsedEntity
from diagnose_bench.forms import SYNTHETIC_POD, SYNTHETIC_REPLICASET, same_chain
from diagnose_bench.inventory import Inventory
from diagnose_bench.kinds import WORKLOAD_KINDS, KindTable
from diagnose_bench.truth_groups import TruthGroup, TruthGroups

_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """More than one object has the name; ``candidates`` are printed, sorted and cut."""

    candidates: str


class Locator:
    """Finds the object that a parsed text means, among the inventory and what the truth names."""

    def __init__(self, groups: TruthGroups, inventory: Inventory, kinds: KindTable) -> None:
        self._groups = groups
        self._inventory = inventory
        self._kinds = kinds
        self._named: dict[str, list[Entity]] = {}
        self._api_groups: dict[str, set[str]] = {}
        for entity in inventory.entities or groups.entities:
            self._api_groups.setdefault(entity.kind, set()).add(entity.group)
        for entity in sorted(groups.entities - inventory.entities):
            self._named.setdefault(entity.name, []).append(entity)

    def locate(self, parsed: ParsedEntity) -> Entity | Ambiguous:
        """The object, which need not exist; ``Ambiguous`` if the text fits several."""
        found = [entity for entity in self._objects(parsed.name) if self._fits(entity, parsed)]
        if parsed.kind is not None and parsed.group is None and self._kinds.needs_no_group(parsed.kind):
            # Kinds of the core and apps groups need no group, also beside a custom kind of that name.
            found = [entity for entity in found if not entity.group] or found
        if len(found) > 1:
            return _ambiguous(found)
        if found:
            return found[0]
        if parsed.namespace is None or parsed.kind is None:
            return self._outside(parsed)
        return self._made(parsed, parsed.kind, parsed.namespace)

    def _objects(self, name: str) -> list[Entity]:
        return [*self._inventory.named(name), *self._named.get(name, ())]

    def _fits(self, entity: Entity, parsed: ParsedEntity) -> bool:
        if parsed.namespace is not None and parsed.namespace != entity.namespace:
            return False
        if parsed.kind is None:
            return True
        if parsed.kind != entity.kind and parsed.kind.lower() != entity.kind.lower():
            return False
        return parsed.group in (None, entity.group) or not (
            entity.group or self._kinds.is_builtin(entity.kind)
        )

    def _outside(self, parsed: ParsedEntity) -> Entity | Ambiguous:
        """No object has the name: the forms of generated names and the truth's filters may still tell."""
        if parsed.kind in ("Pod", "ReplicaSet"):
            namespaces = self._groups.logical.implied_namespaces(self._made(parsed, parsed.kind, ""))
            made = [self._made(parsed, parsed.kind, namespace) for namespace in namespaces]
            if len(made) > 1:
                return _ambiguous(made)
            if made:
                return made[0]
        met = self._met_by_patterns(parsed)
        if len(met) > 1:
            return _ambiguous(met)
        if met:
            return met[0]
        return self._made(parsed, parsed.kind or "", parsed.namespace or "")

    def _met_by_patterns(self, parsed: ParsedEntity) -> list[Entity]:
        """What the most specific groups with this name would call it; one workload is one answer.

        Only for kinds that the inventory does not hold at all: of the others it knows every object.
        """
        best: dict[tuple[str, str], Entity] = {}
        longest = -1
        for group in self._groups.groups:
            if group.kind in self._inventory.kind_names or not _is_asked_for(group, parsed):
                continue
            length = _spelled_out(group, parsed.name)
            if length is None or length < longest:
                continue
            if length > longest:
                best, longest = {}, length
            kind = parsed.kind or group.kind
            namespace = group.namespace or parsed.namespace or ""
            counts_as = "workload" if kind in WORKLOAD_KINDS else kind
            best.setdefault((counts_as, namespace), self._made(parsed, kind, namespace))
        return list(best.values())

    def _made(self, parsed: ParsedEntity, kind: str, namespace: str) -> Entity:
        """The entity that the text describes; the group is the only one that is known for the kind."""
        group = parsed.group
        if group is None:
            group = self._kinds.default_group(kind)
            known = self._api_groups.get(kind, set())
            if len(known) == 1 and not self._kinds.needs_no_group(kind):
                (group,) = known
        return Entity(namespace, kind, group, parsed.name)


def _is_asked_for(group: TruthGroup, parsed: ParsedEntity) -> bool:
    if not group.kind or (parsed.namespace is not None and not group.may_be_in(parsed.namespace)):
        return False
    if parsed.kind is None or parsed.kind.lower() == group.kind.lower():
        return True
    return {parsed.kind, group.kind} <= WORKLOAD_KINDS and same_chain(parsed.kind, group.kind)


def _spelled_out(group: TruthGroup, name: str) -> int | None:
    """How many characters of the name the group spells out; None if it does not fit the name."""
    names = [name]
    if group.kind in WORKLOAD_KINDS:
        names += [name + SYNTHETIC_REPLICASET, name + SYNTHETIC_POD]
    if any(item in group.names for item in names):
        return len(name)
    fitting = [item for item in group.filters if any(item.fits(text) for text in names)]
    return max((min(len(item.stem or ""), len(name)) for item in fitting), default=None)


def _ambiguous(found: Iterable[Entity]) -> Ambiguous:
    texts = sorted(str(entity) for entity in found)
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return Ambiguous(", ".join(texts[:_SHOWN]) + more)
