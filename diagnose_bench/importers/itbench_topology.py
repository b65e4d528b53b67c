"""Objects and spans -> ``topology.json``: who owns, uses, selects, calls whom, as far as observed."""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from diagnose_bench.entity import WORKLOAD_KINDS, Entity, entity_of, entity_of_object
from diagnose_bench.importers.itbench_tables import Span, read_dict, table_columns, time_column

_MAX_SPANS = 200_000
_MAX_ATTRIBUTES = 10_000
_WORKLOAD_ATTRIBUTES = (
    ("k8s.deployment.name", "Deployment"),
    ("k8s.statefulset.name", "StatefulSet"),
    ("k8s.daemonset.name", "DaemonSet"),
)
# Where a Pod names an object that it uses: in a volume, or as the source of its environment.
_USES = (
    ("configMap", "ConfigMap", "name"),
    ("configMapRef", "ConfigMap", "name"),
    ("configMapKeyRef", "ConfigMap", "name"),
    ("secret", "Secret", "secretName"),
    ("secretRef", "Secret", "name"),
    ("secretKeyRef", "Secret", "name"),
    ("persistentVolumeClaim", "PersistentVolumeClaim", "claimName"),
)


class Topology:
    """Nodes and edges, collected object by object and span by span."""

    def __init__(self) -> None:
        self._nodes: dict[Entity, dict[str, str]] = {}
        self._edges: set[tuple[str, str, str]] = set()
        self._possible: list[tuple[Entity, str, Entity]] = []
        self._selectors: list[tuple[Entity, dict[str, str]]] = []
        self._labelled: dict[tuple[str, str, str], set[Entity]] = defaultdict(set)

    def add(self, entity: Entity, manifest: Mapping[str, Any]) -> None:
        """Take an object in."""
        metadata = manifest["metadata"]
        labels = _texts(metadata.get("labels"))
        self._nodes[entity] = labels
        spec = manifest.get("spec")
        self._possible.extend((owner, "owns", entity) for owner in _owners_of(entity, metadata))
        self._possible.extend((entity, "uses", used) for used in _used_by(entity, spec))
        if entity.kind == "Pod" and isinstance(node := _at(spec, "nodeName"), str):
            self._possible.append((entity, "runs_on", entity_of(None, "Node", "", node)))
        if entity.kind == "HorizontalPodAutoscaler":
            targets = _referenced(_at(spec, "scaleTargetRef"), entity.namespace)
            self._possible.extend((entity, "scales", target) for target in targets)
        if entity.kind == "Service" and isinstance(spec, dict) and (selector := _texts(spec.get("selector"))):
            self._selectors.append((entity, selector))
        elif entity.kind == "Pod":
            self._label(entity, labels)
        elif entity.kind in ("Deployment", "StatefulSet", "DaemonSet"):
            self._label(entity, _template_labels(spec))

    def read_spans(self, path: Path) -> tuple[int, Span]:
        """Find out who calls whom, from parents and children in different services; counts rows, too.

        A parent is looked for among the latest spans only, so memory is bounded however long the table is.
        """
        columns, rows = table_columns(path)
        time_index = time_column(columns)
        wanted = ("TraceId", "SpanId", "ParentSpanId", "ResourceAttributes")
        indexes = [columns[name] for name in wanted if name in columns]
        recent: OrderedDict[tuple[str, str], Entity] = OrderedDict()
        callers = _Callers(self._nodes)
        n_rows, span = 0, Span()
        for row in rows:
            n_rows += 1
            if time_index is not None:
                span.see(row[time_index])
            if len(indexes) < len(wanted):
                continue
            trace_id, span_id, parent_id, attributes = (row[index] for index in indexes)
            entity = callers.entity_of(attributes)
            if entity is None or not trace_id:
                continue
            parent = recent.get((trace_id, parent_id))
            if parent is not None and parent != entity:
                self._edges.add((str(parent), "calls", str(entity)))
            recent[(trace_id, span_id)] = entity
            if len(recent) > _MAX_SPANS:
                recent.popitem(last=False)
        return n_rows, span

    def write(self, path: Path) -> tuple[int, int]:
        """Write the file, a node or an edge on each line, and return how many of each there are."""
        for source, relation, target in self._possible:
            if source in self._nodes and target in self._nodes:
                self._edges.add((str(source), relation, str(target)))
        for service, selector in self._selectors:
            for selected in self._selected(service.namespace, selector):
                self._edges.add((str(service), "selects", str(selected)))
        nodes = [
            {
                "id": str(entity),
                "kind": entity.kind,
                "namespace": entity.namespace,
                "name": entity.name,
                "labels": labels,
            }
            for entity, labels in sorted(self._nodes.items())
        ]
        edges = [
            {"source": source_id, "target": target_id, "relation": relation}
            for source_id, relation, target_id in sorted(self._edges)
        ]
        path.write_text(
            f'{{"nodes": [\n{_lines(nodes)}\n], "edges": [\n{_lines(edges)}\n]}}\n', encoding="utf-8"
        )
        return len(nodes), len(edges)

    def _label(self, entity: Entity, labels: Mapping[str, str]) -> None:
        for key, value in labels.items():
            self._labelled[entity.namespace, key, value].add(entity)

    def _selected(self, namespace: str, selector: Mapping[str, str]) -> set[Entity]:
        sets = [self._labelled.get((namespace, key, value), set()) for key, value in selector.items()]
        smallest, *others = sorted(sets, key=len)
        return smallest.intersection(*others)


class _Callers:
    """The workload that a span's resource attributes name, if it was observed; the same text is read once."""

    def __init__(self, nodes: Mapping[Entity, Any]) -> None:
        self._nodes = nodes
        self._known: dict[str, Entity | None] = {}

    def entity_of(self, attributes: str) -> Entity | None:
        if attributes not in self._known:
            if len(self._known) >= _MAX_ATTRIBUTES:
                self._known.clear()
            self._known[attributes] = self._read(attributes)
        return self._known[attributes]

    def _read(self, attributes: str) -> Entity | None:
        values = read_dict(attributes)
        namespace = values.get("k8s.namespace.name")
        for name, kind in _WORKLOAD_ATTRIBUTES:
            if isinstance(namespace, str) and isinstance(values.get(name), str):
                entity = entity_of(None, kind, namespace, values[name])
                return entity if entity in self._nodes else None
        return None


def _owners_of(entity: Entity, metadata: Mapping[str, Any]) -> Iterable[Entity]:
    owners = metadata.get("ownerReferences")
    for reference in _items(owners):
        yield from _referenced(reference, entity.namespace)


def _referenced(reference: Any, namespace: str) -> Iterable[Entity]:
    """Yield the two objects that a reference from a namespace can mean: one in it, or one in none."""
    if not isinstance(reference, dict):
        return
    for possible in dict.fromkeys((namespace, "")):
        found = entity_of_object(
            {
                "apiVersion": reference.get("apiVersion"),
                "kind": reference.get("kind"),
                "metadata": {"name": reference.get("name"), "namespace": possible},
            }
        )
        if found is not None:
            yield found


def _used_by(entity: Entity, spec: Any) -> Iterable[Entity]:
    """Yield the ConfigMaps, Secrets and claims that a Pod or the template of a workload names."""
    if entity.kind not in WORKLOAD_KINDS:
        return
    job = _at(spec, "jobTemplate", "spec") if entity.kind == "CronJob" else spec
    pod = spec if entity.kind == "Pod" else _at(job, "template", "spec")
    for source in _sources_of(pod):
        for key, kind, field in _USES:
            name = _at(source, key, field)
            if isinstance(name, str) and name:
                yield entity_of(None, kind, entity.namespace, name)


def _sources_of(pod: Any) -> Iterable[Any]:
    yield from _items(_at(pod, "volumes"))
    for containers in ("initContainers", "containers"):
        for container in _items(_at(pod, containers)):
            yield from _items(_at(container, "envFrom"))
            for variable in _items(_at(container, "env")):
                yield _at(variable, "valueFrom")


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _items(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else ()


def _template_labels(spec: Any) -> dict[str, str]:
    return _texts(_at(spec, "template", "metadata", "labels"))


def _texts(value: Any) -> dict[str, str]:
    """Return the entries of a mapping whose values are text: labels, selectors."""
    if not isinstance(value, dict):
        return {}
    return {key: text for key, text in value.items() if isinstance(text, str)}


def _lines(values: Iterable[Any]) -> str:
    return ",\n".join(json.dumps(value, ensure_ascii=True) for value in values)
