"""The checks that every truth passes, whatever its form: what is refused, and what is dropped with a warning.

Works on a draft, whose parts still know their JSON path; a form's own syntax is checked where it is read.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from diagnose_bench.entity import BUILTIN_KINDS
from diagnose_bench.ground_truth_models import Decoy, Evidence, GroundTruth, Group, Propagation, TruthFormat
from diagnose_bench.ground_truth_refusal import JsonPath, Problem, Refusal, did_you_mean, json_path, quoted

MAX_FILTER_CHARACTERS = 1000
_METACHARACTERS = frozenset(r".^$*+?{}[]\|()")


@dataclass
class Draft:
    """A truth as read, before it is checked; ``references`` are ids that only fault and alerts mention."""

    format: TruthFormat
    scenario_id: str
    title: str = ""
    no_fault: bool = False
    root_path: JsonPath = ()
    groups: list[tuple[JsonPath, Group]] = field(default_factory=list)
    aliases: list[tuple[JsonPath, tuple[str, ...]]] = field(default_factory=list)
    propagation: list[tuple[JsonPath, Propagation]] = field(default_factory=list)
    evidence: list[tuple[JsonPath, Evidence]] = field(default_factory=list)
    decoys: list[tuple[JsonPath, Decoy]] = field(default_factory=list)
    references: list[tuple[JsonPath, str]] = field(default_factory=list)
    rest: dict[str, Any] = field(default_factory=dict)
    """Fields of GroundTruth that are taken over unchecked."""


def finish(draft: Draft) -> tuple[GroundTruth, tuple[str, ...]]:
    """Check a draft.

    Returns
    -------
    truth : GroundTruth
        Without the parts that were dropped.
    warnings : tuple of str
        ``<json path>: <what was dropped and why>``, in file order of each section.

    Raises
    ------
    Refusal
        With every problem found, not the first alone.
    """
    notes: list[str] = []
    problems: list[Problem] = []
    groups = _distinct_groups(draft.groups, problems, notes)
    ids = {group.id: None for _, group in groups}
    _check_roots(draft, groups, problems)
    for path, group in groups:
        _check_filters(path, group, problems)
    for path, members in draft.aliases:
        for index, member in enumerate(members):
            if member not in ids:
                problems.append(Problem((*path, index), _unknown_group(member, ids)))
    _check_contradictions(groups, [members for _, members in draft.aliases], problems, notes)
    if problems:
        raise Refusal(problems)
    truth = GroundTruth(
        format=draft.format,
        scenario_id=draft.scenario_id,
        title=draft.title,
        groups=tuple(group for _, group in groups),
        aliases=tuple(members for _, members in draft.aliases),
        propagation=_known_propagation(draft.propagation, ids, notes),
        evidence=_known_evidence(draft.evidence, ids, notes),
        decoys=_true_decoys(draft.decoys, groups, notes),
        no_fault=draft.no_fault,
        **draft.rest,
    )
    for path, group_id in draft.references:
        if group_id not in ids:
            notes.append(f"{json_path(path)}: dropped: {_unknown_group(group_id, ids)}")
    return truth, tuple(notes)


def _unknown_group(group_id: str, ids: Collection[str]) -> str:
    return f"unknown group {quoted(group_id)}.{did_you_mean(group_id, ids)}"


def _distinct_groups(
    groups: Sequence[tuple[JsonPath, Group]], problems: list[Problem], notes: list[str]
) -> list[tuple[JsonPath, Group]]:
    first: dict[str, tuple[JsonPath, Group]] = {}
    for path, group in groups:
        earlier = first.setdefault(group.id, (path, group))
        if earlier[0] == path:
            continue
        text = f"the group {quoted(group.id)} stands at {json_path(earlier[0])} already"
        if earlier[1] == group:
            notes.append(f"{json_path(path)}: dropped: {text}, with the same content.")
        else:
            problems.append(Problem(path, f"{text}, with different content. Give one of them another id."))
    return list(first.values())


def _check_filters(path: JsonPath, group: Group, problems: list[Problem]) -> None:
    for index, pattern in enumerate(group.filters):
        where = (*path, "filter", index)
        if len(pattern) > MAX_FILTER_CHARACTERS:
            problems.append(Problem(where, f"the filter has more than {MAX_FILTER_CHARACTERS} characters"))
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a doubtful set such as `[[]` compiles, with a FutureWarning
                re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            shown = quoted(pattern)
            problems.append(Problem(where, f"the filter {shown} is no regular expression: {error}"))


def _check_roots(draft: Draft, groups: Sequence[tuple[JsonPath, Group]], problems: list[Problem]) -> None:
    where = (*draft.root_path, "entities" if draft.format == "itbench-v2" else "groups")
    roots = [path for path, group in groups if group.root_cause]
    if draft.no_fault and roots:
        reason = "the scenario says no_fault: true, and this group is a root cause"
        problems.append(Problem(roots[0], reason))
    elif not roots and not draft.no_fault:
        advice = "Mark a group with root_cause: true, or say no_fault: true."
        if draft.format != "native":
            advice = "Mend it in the patch file (a root cause, or no_fault: true), or leave the scenario out."
        problems.append(Problem(where, f"no root cause. {advice}"))


def _check_contradictions(
    groups: Sequence[tuple[JsonPath, Group]],
    aliases: Sequence[tuple[str, ...]],
    problems: list[Problem],
    notes: list[str],
) -> None:
    """Refuse one entity as root and as unaliased non-root; warn of one in two unaliased root groups."""
    alias_class = _alias_classes([group.id for _, group in groups], aliases)
    # One root per mark, alias class and namespace is enough to find a clash, and keeps this linear.
    roots: dict[tuple[str, ...], dict[tuple[str, str | None], tuple[JsonPath, Group]]] = {}
    for path, group in groups:
        if group.root_cause:
            for mark in _marks(group):
                roots.setdefault(mark, {}).setdefault((alias_class[group.id], group.namespace), (path, group))
    seen: set[JsonPath] = set()
    for path, group in groups:
        seen.add(path)
        for (root_class, namespace), (root_path, root) in (
            item for mark in _marks(group) for item in roots.get(mark, {}).items()
        ):
            is_other_place = bool(namespace and group.namespace and namespace != group.namespace)
            if root_class == alias_class[group.id] or is_other_place:
                continue
            if not group.root_cause:
                reason = (
                    f"the group {quoted(group.id)} is no root cause and names the same entity as the root "
                    f"cause {quoted(root.id)} at {json_path(root_path)}. Alias the two, or drop one."
                )
                problems.append(Problem(path, reason))
            elif root_path in seen:
                notes.append(
                    f"{json_path(path)}: the root cause {quoted(group.id)} names the same entity as the root "
                    f"cause {quoted(root.id)}, without an alias."
                )
            break


def _marks(group: Group) -> list[tuple[str, ...]]:
    """What two groups share if they name the same entity; a filter without a metacharacter is a name."""
    found = BUILTIN_KINDS.lookup(group.kind or "")
    kind = found.kind if found.known else (group.kind or "").casefold()
    marks: list[tuple[str, ...]] = [("entity", entity) for entity in group.entities]
    marks += [("name", kind, name) for name in group.names]
    for pattern in group.filters:
        is_name = not _METACHARACTERS.intersection(pattern)
        marks.append(("name" if is_name else "filter", kind, pattern))
    return marks


def _alias_classes(ids: Sequence[str], aliases: Sequence[tuple[str, ...]]) -> dict[str, str]:
    """Map each id to one representative of its alias class (sets that overlap are one class)."""
    parent = {group_id: group_id for group_id in ids}

    def find(group_id: str) -> str:
        while parent[group_id] != group_id:
            parent[group_id] = parent[parent[group_id]]
            group_id = parent[group_id]
        return group_id

    for members in aliases:
        known = [member for member in members if member in parent]
        for member in known[1:]:
            parent[find(member)] = find(known[0])
    return {group_id: find(group_id) for group_id in ids}


def _known_propagation(
    steps: Sequence[tuple[JsonPath, Propagation]], ids: Collection[str], notes: list[str]
) -> tuple[Propagation, ...]:
    kept = []
    for path, step in steps:
        unknown = [(end, getattr(step, end)) for end in ("source", "target") if getattr(step, end) not in ids]
        for end, group_id in unknown:
            notes.append(f"{json_path((*path, end))}: dropped: {_unknown_group(group_id, ids)}")
        if not unknown:
            kept.append(step)
    return tuple(kept)


def _known_evidence(
    items: Sequence[tuple[JsonPath, Evidence]], ids: Collection[str], notes: list[str]
) -> tuple[Evidence, ...]:
    kept = []
    for path, item in items:
        if item.group in ids:
            kept.append(item)
        else:
            notes.append(f"{json_path((*path, 'group'))}: dropped: {_unknown_group(item.group, ids)}")
    return tuple(kept)


def _true_decoys(
    decoys: Sequence[tuple[JsonPath, Decoy]], groups: Sequence[tuple[JsonPath, Group]], notes: list[str]
) -> tuple[Decoy, ...]:
    roots = {entity for _, group in groups if group.root_cause for entity in group.entities}
    kept = []
    for path, decoy in decoys:
        if decoy.entity in roots:
            notes.append(f"{json_path(path)}: dropped: {decoy.entity} is a root cause and cannot be a decoy.")
        else:
            kept.append(decoy)
    return tuple(kept)
