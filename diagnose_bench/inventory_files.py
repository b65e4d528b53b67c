"""Read the objects of a snapshot's files, one line at a time: objects.jsonl, changes.jsonl, topology.json.

What only events, logs or metrics mention is no part of an inventory. Files that are absent count as empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from diagnose_bench.entity import Entity, entity_of, entity_of_object, group_of_api_version, parse_canonical
from diagnose_bench.errors import SuiteError
from diagnose_bench.kinds import BUILTIN_KINDS, CustomKind

_MAX_LINE = 16 << 20
_MAX_TOPOLOGY = 256 << 20
_OWNS = "owns"


def read_inventory_files(snapshot: Path) -> Collected:
    """Collect the objects, their owners and the custom kinds that a snapshot's files define.

    Raises
    ------
    SuiteError
        A file is unreadable or no JSON, or an entity in it has no canonical form.
    """
    collected = Collected()
    for where, manifest in _json_lines(snapshot / "objects.jsonl"):
        collected.add_manifest(manifest, where)
    for where, change in _json_lines(snapshot / "changes.jsonl"):
        collected.add_change(change, where)
    collected.add_topology(snapshot / "topology.json")
    return collected


class Collected:
    """What the files of a snapshot say, line by line."""

    def __init__(self) -> None:
        self.entities: set[Entity] = set()
        self.owners: dict[Entity, Entity] = {}
        self.kinds: set[CustomKind] = set()

    def add_manifest(self, manifest: Any, where: str) -> None:
        """Take one line of objects.jsonl: an object, or a list of them."""
        if not isinstance(manifest, dict):
            raise SuiteError(f"{where}: not a Kubernetes object.")
        items = manifest.get("items")
        if isinstance(items, list) and str(manifest.get("kind")).endswith("List"):
            for item in items:
                self.add_manifest(item, where)
            return
        entity = entity_of_object(manifest)
        if entity is None:
            raise SuiteError(f"{where}: the object lacks apiVersion, kind or metadata.name.")
        self.entities.add(entity)
        owner = _controller(manifest["metadata"], entity)
        if owner is not None:
            self.owners[entity] = owner
        if entity.kind == "CustomResourceDefinition":
            self.kinds.update(_defined_kind(manifest.get("spec")))

    def add_change(self, change: Any, where: str) -> None:
        """Take one line of changes.jsonl."""
        self.entities.add(_canonical(change.get("entity") if isinstance(change, dict) else None, where))

    def add_topology(self, path: Path) -> None:
        """Take the nodes of topology.json, and the edges that say who owns whom."""
        topology = _topology(path)
        for index, node in enumerate(topology.get("nodes") or ()):
            where = f"{path}: $.nodes[{index}].id"
            self.entities.add(_canonical(node.get("id") if isinstance(node, dict) else None, where))
        for index, edge in enumerate(topology.get("edges") or ()):
            if isinstance(edge, dict) and edge.get("relation") == _OWNS:
                where = f"{path}: $.edges[{index}]"
                child = _canonical(edge.get("target"), where)
                self.owners.setdefault(child, _canonical(edge.get("source"), where))


def _canonical(text: Any, where: str) -> Entity:
    if not isinstance(text, str):
        raise SuiteError(f"{where}: no entity. Write [namespace/]Kind[.group]/name.")
    try:
        return parse_canonical(text)
    except ValueError as error:
        raise SuiteError(f"{where}: {error}.") from error


def _controller(metadata: Mapping[str, Any], child: Entity) -> Entity | None:
    """Entity of the owner reference with ``controller: true``, else of the first."""
    references = metadata.get("ownerReferences")
    if not isinstance(references, list):
        return None
    usable = [
        reference
        for reference in references
        if isinstance(reference, dict)
        and all(isinstance(reference.get(key), str) for key in ("apiVersion", "kind", "name"))
    ]
    if not usable:
        return None
    reference = next((item for item in usable if item.get("controller") is True), usable[0])
    group = group_of_api_version(reference["apiVersion"])
    owner = entity_of(group, reference["kind"], child.namespace, reference["name"])
    if BUILTIN_KINDS.is_cluster_scoped(owner.kind, owner.group):
        return Entity("", owner.kind, owner.group, owner.name)
    return owner


def _defined_kind(spec: Any) -> Iterator[CustomKind]:
    names = spec.get("names") if isinstance(spec, dict) else None
    if not isinstance(names, dict) or not isinstance(names.get("kind"), str):
        return
    short = names.get("shortNames")
    tokens = [names.get("plural"), names.get("singular"), *(short if isinstance(short, list) else ())]
    group = spec.get("group")
    yield CustomKind(
        names["kind"],
        group if isinstance(group, str) else "",
        tuple(token for token in tokens if isinstance(token, str) and token),
        spec.get("scope") == "Cluster",
    )


def _json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield ``(file: line N, value)`` of each line that is not blank."""
    try:
        if not path.exists():
            return
        with path.open("rb") as file:
            number = 0
            while line := file.readline(_MAX_LINE + 1):
                number += 1
                where = f"{path}: line {number}"
                if len(line) > _MAX_LINE:
                    raise SuiteError(f"{where}: longer than {_MAX_LINE} bytes.")
                if line.strip():
                    yield where, _json(line, where)
    except OSError as error:
        raise SuiteError(f"{path}: cannot read: {error.strerror}.") from error


def _json(data: bytes, where: str) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise SuiteError(f"{where}: not JSON: {error}.") from error
    except RecursionError as error:
        raise SuiteError(f"{where}: nested too deeply.") from error


def _topology(path: Path) -> dict[str, Any]:
    try:
        if not path.exists():
            return {}
        with path.open("rb") as file:
            data = file.read(_MAX_TOPOLOGY + 1)
    except OSError as error:
        raise SuiteError(f"{path}: cannot read: {error.strerror}.") from error
    if len(data) > _MAX_TOPOLOGY:
        raise SuiteError(f"{path}: larger than {_MAX_TOPOLOGY} bytes.")
    value = _json(data, str(path))
    if not isinstance(value, dict) or not all(
        isinstance(value.get(key, []), list) for key in ("nodes", "edges")
    ):
        raise SuiteError(f"{path}: $: no topology: an object with the lists nodes and edges is needed.")
    return value
