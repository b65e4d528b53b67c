"""What a snapshot shows, asked for through the sandboxed shell: alerts, objects, errors, edges, changes.

Every answer comes out of a recorded command's output; a missing file is an empty answer. It judges nothing.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from diagnose_bench.agents.base import TrialSession
from diagnose_bench.agents.baselines import scripts
from diagnose_bench.entity import WORKLOAD_KINDS, Entity, entity_of, group_of_api_version, parse_canonical

_PAGE = 30_000  # bytes; a reply is shown whole up to 32 KiB
_MAX_PAGES = 12
_COMMAND_S = 120.0
# A shell without a sandbox has no /snapshot and says in its environment where things are.
_SNAPSHOT = '"${SNAPSHOT:-/snapshot}"'
_FOUND = '"${SCRATCH:-/scratch}/found.jsonl"'
_POD_SUFFIX = re.compile(r"(-[0-9a-f]{8,10})?-[bcdfghjklmnpqrstvwxz2456789]{5}$|-\d+$")

# Label of an alert -> kind; the first that an alert has says what it is about.
_LABEL_KINDS = {
    "deployment": "Deployment",
    "statefulset": "StatefulSet",
    "daemonset": "DaemonSet",
    "job_name": "Job",
    "cronjob": "CronJob",
    "horizontalpodautoscaler": "HorizontalPodAutoscaler",
    "persistentvolumeclaim": "PersistentVolumeClaim",
    "resourcequota": "ResourceQuota",
    "poddisruptionbudget": "PodDisruptionBudget",
    "ingress": "Ingress",
    "pod": "Pod",
    "service_name": "",
    "service": "",
    "workload": "",
    "app": "",
    "node": "Node",
    "namespace": "Namespace",
}


# Who made, placed or sized an object: nothing that the object needs to answer a request.
_NO_DEPENDENCY = frozenset({"owns", "owned_by", "runs_on", "scales"})


@dataclass(frozen=True, slots=True)
class FiringAlert:
    """One alert that fires at the time of detection, and what it is about (None if its labels do not say)."""

    name: str
    since: str
    entity: Entity | None


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """Errors of one source (``spans``, ``logs``, ``events``) about one entity."""

    source: str
    entity: Entity
    n_errors: int
    n_total: int


class Evidence:
    """The evidence of one snapshot, each part fetched once, when it is first asked for.

    Parameters
    ----------
    session : TrialSession
        Runs the commands.
    """

    def __init__(self, session: TrialSession) -> None:
        self._session = session

    @cached_property
    def window(self) -> tuple[str, str, str]:
        """Start, detection and end in UTC; the widest window there is if the manifest is missing."""
        for row in self._rows(scripts.WINDOW):
            if len(row) == 3 and all(isinstance(time, str) and time for time in row):
                return row[0], row[1], row[2]
        return "0001-01-01T00:00:00", "9999-12-31T23:59:59", "9999-12-31T23:59:59"

    @cached_property
    def alerts(self) -> tuple[FiringAlert, ...]:
        """Alerts that fire at the time of detection and are neither silenced nor inhibited.

        Those of severity ``none`` are the alerting pipeline's own and about nothing.
        """
        found = []
        for row in self._rows(scripts.ALERTS, self.window[1]):
            since, labels = row[0], {str(key): str(value) for key, value in row[1].items()}
            if labels.get("severity") != "none":
                found.append(FiringAlert(labels.get("alertname", ""), since, self._entity_of_labels(labels)))
        return tuple(found)

    @cached_property
    def created(self) -> dict[Entity, str]:
        """Objects of the snapshot, each with the time of its creation."""
        return {entity: created for entity, _, created in self._objects}

    @cached_property
    def errors(self) -> tuple[ErrorCount, ...]:
        """Error spans, error lines of logs and warning events, by workload, the loudest first."""
        found = []
        for row in self._rows(scripts.ERRORS):
            source, namespace, kind, name, n_errors, n_total = row
            entity = self._named(kind, namespace, name)
            if entity is not None:
                found.append(ErrorCount(source, self.workload(entity), n_errors, n_total))
        return tuple(found)

    @cached_property
    def dependencies(self) -> dict[Entity, set[Entity]]:
        """Workload or object -> what it depends on, by the edges of the topology."""
        found: dict[Entity, set[Entity]] = {}
        for source_id, relation, target_id in self._rows(scripts.EDGES):
            source, target = _canonical(source_id), _canonical(target_id)
            if source and target and relation not in _NO_DEPENDENCY:
                source, target = self.workload(source), self.workload(target)
                if source != target:
                    found.setdefault(source, set()).add(target)
        return found

    def changes(self, until: str) -> list[tuple[str, Entity]]:
        """Recorded revisions until a time, oldest first."""
        rows = self._rows(scripts.CHANGES, until)
        return [(time, entity) for time, text in rows if (entity := _canonical(text))]

    def happened(self, until: str) -> list[tuple[str, Entity]]:
        """What normal events say was done to objects from the window's start until a time, oldest first."""
        found = []
        for time, namespace, kind, name in self._rows(scripts.HAPPENED, self.window[0], until):
            entity = self._named(kind, namespace, name)
            if entity is not None:
                found.append((time, entity))
        return found

    def workload(self, entity: Entity) -> Entity:
        """Top of the owner chain; where no owner is known, what the name of a Pod says."""
        seen = {entity}
        while (owner := self._owners.get(entity)) and owner not in seen:
            seen.add(owner)
            entity = owner
        if entity.kind == "Pod" and entity not in self.created:
            stem = _POD_SUFFIX.sub("", entity.name)
            return self._workload_named(entity.namespace, stem) or entity
        return entity

    @cached_property
    def _objects(self) -> list[tuple[Entity, Entity | None, str]]:
        found = []
        for api_version, kind, namespace, name, owner, created in self._rows(scripts.OBJECTS):
            entity = _entity(api_version, kind, namespace, name)
            if entity is not None:
                parent = _entity(owner[0], owner[1], namespace, owner[2]) if owner else None
                found.append((entity, parent, created))
        return found

    @cached_property
    def _owners(self) -> dict[Entity, Entity]:
        return {
            entity: owner
            for entity, owner, _ in self._objects
            if owner is not None and owner.kind in WORKLOAD_KINDS and entity.kind in WORKLOAD_KINDS
        }

    @cached_property
    def _workloads(self) -> dict[str, list[Entity]]:
        tops: dict[str, list[Entity]] = {}
        for entity in sorted(self.created):
            if entity.kind in WORKLOAD_KINDS and entity not in self._owners:
                tops.setdefault(entity.name, []).append(entity)
        return tops

    def _workload_named(self, namespace: str, name: str) -> Entity | None:
        """The workload of a name; without a namespace only if there is one of that name."""
        found = [it for it in self._workloads.get(name, ()) if namespace in ("", it.namespace)]
        return found[0] if len(found) == 1 or (found and namespace) else None

    def _named(self, kind: str, namespace: str, name: str) -> Entity | None:
        """The entity that a name in telemetry stands for: of the kind if one is given, else a workload."""
        if not isinstance(name, str) or not name or not isinstance(namespace, str):
            return None
        if kind:
            return _entity(None, kind, namespace, name)
        return self._workload_named(namespace, name) or _entity("v1", "Service", namespace, name)

    def _entity_of_labels(self, labels: Mapping[str, str]) -> Entity | None:
        namespace = labels.get("exported_namespace") or labels.get("namespace", "")
        for label, kind in _LABEL_KINDS.items():
            name = labels.get(f"exported_{label}") or labels.get(label)
            if name:
                in_cluster = kind in ("Node", "Namespace")
                return self._named(kind, "" if in_cluster else namespace, name)
        return None

    def _rows(self, program: str, *arguments: str) -> Iterator[list[Any]]:
        """Rows that a program prints, whole however long its output is, up to a few hundred kilobytes."""
        command = scripts.shell_command(program, _SNAPSHOT, *map(shlex.quote, arguments))
        reply = self._session.run_command(
            f"{{ {command}\n}} > {_FOUND} 2> /dev/null; wc -c < {_FOUND}; head -c {_PAGE} {_FOUND}",
            _COMMAND_S,
        )
        size, _, output = reply.output.partition(b"\n")
        n_bytes = int(size) if size.strip().isdigit() else 0
        for start in range(_PAGE, min(n_bytes, _PAGE * _MAX_PAGES), _PAGE):
            page = self._session.run_command(f"tail -c +{start + 1} {_FOUND} | head -c {_PAGE}", _COMMAND_S)
            output += page.output
        for line in output.splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, list):
                yield row


def _entity(api_version: Any, kind: Any, namespace: Any, name: Any) -> Entity | None:
    if not all(isinstance(text, str) for text in (kind, namespace, name)) or not (kind and name):
        return None
    group = group_of_api_version(api_version) if isinstance(api_version, str) else None
    return entity_of(group, kind, namespace, name)


def _canonical(text: Any) -> Entity | None:
    try:
        return parse_canonical(text) if isinstance(text, str) else None
    except ValueError:
        return None
