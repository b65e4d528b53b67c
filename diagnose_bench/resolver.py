"""Resolve submitted entities against a truth: the code, the rule and the class of each, without any model.

Deterministic and linear in the number of submissions. It computes no score.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from diagnose_bench.alias_classes import AliasClasses
from diagnose_bench.entity import Entity, ParsedEntity, parse_canonical, parse_entity
from diagnose_bench.filters import Filter
from diagnose_bench.ground_truth import GroundTruth
from diagnose_bench.inventory import Inventory
from diagnose_bench.kinds import BUILTIN_KINDS, CustomKind
from diagnose_bench.locate import Ambiguous, Locator
from diagnose_bench.logical import Rule, is_chaos, is_workload
from diagnose_bench.outcome import Profile
from diagnose_bench.truth_groups import Meeting, TruthGroups

__all__ = [
    "RESOLVER_VERSION",
    "EntityClass",
    "Identity",
    "ResolvedDiagnosis",
    "ResolvedEntity",
    "Resolver",
    "Rule",
]

RESOLVER_VERSION = 1
"""Raised whenever a resolution can change; part of the signature."""

_CACHE = 20_000
_CACHED_LENGTH = 512


class EntityClass(StrEnum):
    """What a submitted entity turned out to be."""

    ROOT_CAUSE = "root_cause"
    DUPLICATE = "duplicate"
    VICTIM = "victim"
    DECOY = "decoy"
    UNRELATED = "unrelated"
    UNKNOWN = "unknown"
    AMBIGUOUS = "ambiguous"
    UNPARSEABLE = "unparseable"


@dataclass(frozen=True, slots=True)
class ResolvedEntity:
    """One submission, on record.

    ``entity`` is the object as it was read, None where no single one was; ``distance`` is a victim's.
    ``code`` is the root-cause set (below ``n_root_causes``) or the wrong logical entity; the same code counts
    once.
    """

    raw: str
    entity: str | None
    rule: Rule | None
    group: str | None
    via_alias: bool
    class_: EntityClass
    distance: int | None
    code: int
    message: str


@dataclass(frozen=True, slots=True)
class ResolvedDiagnosis:
    """All submissions of a diagnosis, in order; ``missed`` has the id of a root group of each missed set."""

    entities: tuple[ResolvedEntity, ...]
    codes: tuple[int, ...]
    n_root_causes: int
    missed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Identity:
    """What a name is by itself: the root-cause set that it hits; equal keys count once."""

    root_set: int | None
    key: Hashable


@dataclass(frozen=True, slots=True)
class _Reading:
    """What a text is by itself, before the other submissions of the list count."""

    entity: str | None
    rule: Rule | None
    group: str | None
    via_alias: bool
    class_: EntityClass
    distance: int | None
    root_set: int | None
    key: Hashable
    """Equal for submissions that count once."""
    message: str


class Resolver:
    """Resolves the diagnoses of one scenario.

    Parameters
    ----------
    truth : GroundTruth
        The scenario's answer.
    inventory : Inventory
        The objects of its snapshot, or ``Inventory.none()``.
    """

    def __init__(self, truth: GroundTruth, inventory: Inventory) -> None:
        self._inventory = inventory
        self._kinds = inventory.kinds.extended(_kinds_of_truth(truth))
        self._groups = TruthGroups(truth, inventory, self._kinds)
        self._classes = AliasClasses(truth, self._groups.root_pairs)
        self._locator = Locator(self._groups, inventory, self._kinds)
        self._namespaces = inventory.namespaces | {
            namespace
            for group in self._groups.groups
            for namespace in (group.namespace, *(entity.namespace for entity in group.entities))
            if namespace
        }
        decoys = [inventory.as_known(parse_canonical(decoy.entity)) for decoy in truth.decoys]
        self._decoys = {
            Profile.STRICT: frozenset(self._key(decoy, Profile.STRICT) for decoy in decoys),
            Profile.ITBENCH_AA: frozenset(self._key(decoy, Profile.ITBENCH_AA) for decoy in decoys),
        }
        self._cache: dict[tuple[Profile, str], _Reading] = {}
        self.n_root_causes = len(self._classes.root_sets)
        self.warnings = self._spanning_classes()

    def resolve(self, submitted: Sequence[str], profile: Profile) -> ResolvedDiagnosis:
        """Resolve a diagnosis.

        Parameters
        ----------
        submitted : sequence of str
            The entities as named, most confident first.
        profile : Profile
            Whether a workload counts as one (``itbench-aa``), or each object for itself (``strict``).

        Returns
        -------
        ResolvedDiagnosis
            One entry for each submission.
        """
        first: dict[int, Hashable] = {}
        wrong: dict[Hashable, int] = {}
        resolved = []
        for raw in submitted:
            reading = self._read(raw, profile)
            class_, message, code = reading.class_, reading.message, reading.root_set
            if code is not None:
                earlier = first.get(code)
                first.setdefault(code, reading.key)
                if earlier is not None:
                    class_ = EntityClass.DUPLICATE
                    if profile is Profile.ITBENCH_AA or earlier == reading.key:
                        message += "; named before, so not counted again"
                    else:
                        message += "; another object of it was named before, so this one is wrong"
                        code = None
            if code is None:
                code = wrong.setdefault(reading.key, self.n_root_causes + len(wrong))
            resolved.append(
                ResolvedEntity(
                    raw=raw,
                    entity=reading.entity,
                    rule=reading.rule,
                    group=reading.group,
                    via_alias=reading.via_alias,
                    class_=class_,
                    distance=reading.distance,
                    code=code,
                    message=message,
                )
            )
        missed = [roots for number, roots in enumerate(self._classes.root_sets) if number not in first]
        return ResolvedDiagnosis(
            entities=tuple(resolved),
            codes=tuple(entry.code for entry in resolved),
            n_root_causes=self.n_root_causes,
            missed=tuple(self._groups.groups[roots[0]].id for roots in missed),
        )

    def judge(self, raw: str, profile: Profile) -> tuple[ResolvedEntity, Identity]:
        """One name as it would stand alone in a diagnosis, and what it is by itself."""
        (entity,) = self.resolve([raw], profile).entities
        reading = self._read(raw, profile)
        return entity, Identity(reading.root_set, reading.key)

    def identify(self, raw: str, profiles: Iterable[Profile] = Profile) -> dict[Profile, Identity]:
        """What one name is by itself under each profile, read once; nothing of it is kept here.

        Notes
        -----
        A list resolves to the same as its names one by one, but for what a repetition means: under ``strict``
        a second object of a root-cause set is wrong.
        """
        found = {}
        parsed = parse_entity(raw, self._kinds, self._namespaces)
        entity = None if parsed is None else self._locator.locate(parsed)
        for profile in profiles:
            if entity is None or isinstance(entity, Ambiguous):
                found[profile] = Identity(None, ("text", raw))
                continue
            meeting = self._decide(entity, profile)
            root_set = None if meeting is None else self._classes.root_set(meeting.group)
            found[profile] = Identity(root_set, self._key(entity, profile))
        return found

    @property
    def known_names(self) -> frozenset[str]:
        """Names of the objects of the inventory and of their owners, and those that the truth gives."""
        return self._inventory.names | self._groups.names

    @property
    def filters(self) -> tuple[Filter, ...]:
        """The filters of the truth."""
        return self._groups.filters

    def _read(self, raw: str, profile: Profile) -> _Reading:
        found = self._cache.get((profile, raw))
        if found is None:
            if len(self._cache) >= _CACHE:
                self._cache.clear()
            found = self._read_anew(raw, profile)
            if len(raw) <= _CACHED_LENGTH:
                self._cache[profile, raw] = found
        return found

    def _read_anew(self, raw: str, profile: Profile) -> _Reading:
        parsed = parse_entity(raw, self._kinds, self._namespaces)
        if parsed is None:
            reason = "not read: write [namespace/]Kind[.group]/name"
            return _nothing(raw, EntityClass.UNPARSEABLE, reason)
        entity = self._locator.locate(parsed)
        if isinstance(entity, Ambiguous):
            reason = f"more than one object has this name: {entity.candidates}"
            return _nothing(raw, EntityClass.AMBIGUOUS, _with_notes(reason, parsed))
        meeting = self._decide(entity, profile)
        key = self._key(entity, profile)
        if meeting is None:
            class_, reason = self._class_outside(entity, key, profile)
            message = _with_notes(reason, parsed)
            return _Reading(str(entity), None, None, False, class_, None, None, key, message)
        group = self._groups.groups[meeting.group]
        root_set = self._classes.root_set(meeting.group)
        if root_set is None:
            distance = self._classes.distance(meeting.group)
            hops = "not connected with" if distance is None else f"{distance} hop{'s'[: distance != 1]} from"
            message = _with_notes(f"group {group.id}, {hops} a root cause", parsed)
            return _Reading(
                str(entity), meeting.rule, group.id, False, EntityClass.VICTIM, distance, None, key, message
            )
        via_alias = not group.is_root
        message = _with_notes(f"root cause {group.id}" + (", through an alias" if via_alias else ""), parsed)
        return _Reading(
            str(entity),
            meeting.rule,
            group.id,
            via_alias,
            EntityClass.ROOT_CAUSE,
            None,
            root_set,
            key,
            message,
        )

    def _decide(self, entity: Entity, profile: Profile) -> Meeting | None:
        """The group that decides: in ``itbench-aa`` a root of the workload comes before every other group.

        What hits a root-cause set object with object hits the same set by workload, so ``strict`` never
        scores higher.
        """
        direct = self._groups.meet_object(entity)
        if profile is Profile.STRICT or (direct and self._classes.root_set(direct[0].group) is not None):
            return direct[0] if direct else None
        if not (is_workload(entity) or is_chaos(entity)):
            return direct[0] if direct else None
        met = [*direct, *self._groups.meet_logical(entity)]
        roots = [meeting for meeting in met if self._groups.groups[meeting.group].is_root]
        aliased = [meeting for meeting in met if self._classes.root_set(meeting.group) is not None]
        return next(iter([*roots, *aliased, *met]), None)

    def _class_outside(self, entity: Entity, key: Hashable, profile: Profile) -> tuple[EntityClass, str]:
        """Class of an object that meets no group."""
        if key in self._decoys[profile]:
            return EntityClass.DECOY, "looks guilty, and is not"
        if entity in self._inventory:
            return EntityClass.UNRELATED, "in the inventory, in no group"
        top = self._groups.logical.of(entity).top
        if profile is Profile.ITBENCH_AA and top is not None and top in self._inventory:
            return EntityClass.UNRELATED, f"of {top}, which is in no group"
        return EntityClass.UNKNOWN, "in no group" if self._inventory.is_none else "not in the inventory"

    def _key(self, entity: Entity, profile: Profile) -> Hashable:
        if profile is Profile.ITBENCH_AA:
            return self._groups.logical.of(entity).key
        return ("object", entity.namespace, entity.kind.lower(), entity.group, entity.name)

    def _spanning_classes(self) -> tuple[str, ...]:
        warnings = []
        for members in self._classes.classes():
            keys = [keys for index in members if (keys := self._groups.workload_keys(index))]
            if len(keys) > 1 and not frozenset.intersection(*keys):
                ids = ", ".join(self._groups.groups[index].id for index in members)
                names = ", ".join(sorted({key[-1] for key in frozenset.union(*keys)}))
                accepted = "" if self._classes.root_set(members[0]) is None else " as the root cause"
                warnings.append(
                    f"aliases: {ids} span the workloads {names}: naming any of them is accepted{accepted}"
                )
        return tuple(warnings)


def _kinds_of_truth(truth: GroundTruth) -> list[CustomKind]:
    entities = [parse_canonical(text) for group in truth.groups for text in group.entities]
    namespaced = {(entity.kind, entity.group) for entity in entities if entity.namespace}
    customs = [
        CustomKind(entity.kind, entity.group, cluster_scoped=(entity.kind, entity.group) not in namespaced)
        for entity in entities
        if not BUILTIN_KINDS.is_builtin(entity.kind)
    ]
    for group in truth.groups:
        if group.kind:
            kind, _, api_group = group.kind.partition(".")
            customs.append(CustomKind(kind, api_group))
    return customs


def _nothing(raw: str, class_: EntityClass, reason: str) -> _Reading:
    return _Reading(None, None, None, False, class_, None, None, ("text", raw), reason)


def _with_notes(message: str, parsed: ParsedEntity) -> str:
    return "; ".join([message, *parsed.notes])
