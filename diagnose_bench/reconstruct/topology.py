"""topology.json: what an inventory tool knows: owners, selectors, placement, configuration, seen calls."""

from __future__ import annotations

from typing import Any

from diagnose_bench.reconstruct.flow import Flow
from diagnose_bench.reconstruct.manifests import Manifest

_NODE_KINDS = {
    "Deployment", "StatefulSet", "DaemonSet", "CronJob", "Job", "ReplicaSet", "Pod", "Service", "ConfigMap",
    "Secret", "Node", "Namespace", "HorizontalPodAutoscaler", "Ingress", "IngressRoute", "LimitRange",
    "ResourceQuota", "PodDisruptionBudget", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration",
    "ClusterPolicy", "Policy",
}  # fmt: skip
_CORE = {"v1", "apps/v1", "batch/v1", "autoscaling/v2", "policy/v1", "networking.k8s.io/v1"}


def entity(manifest: Manifest) -> str:
    """The object as an entity; groups outside the common ones are written out."""
    version: str = manifest["apiVersion"]
    group = "" if version in _CORE else f".{version.split('/')[0]}"
    meta = manifest["metadata"]
    space = f"{meta['namespace']}/" if meta.get("namespace") else ""
    return f"{space}{manifest['kind']}{group}/{meta['name']}"


def build_topology(flow: Flow, objects: list[Manifest]) -> dict[str, Any]:
    """Nodes and edges in a fixed order."""
    # An inventory lists what runs: ReplicaSets kept for a rollback alone are left out.
    chosen = [
        one
        for one in objects
        if one["kind"] in _NODE_KINDS and not (one["kind"] == "ReplicaSet" and not one["spec"]["replicas"])
    ]
    by_key = {
        (one["metadata"].get("namespace", ""), one["kind"], one["metadata"]["name"]): entity(one)
        for one in chosen
    }
    edges: set[tuple[str, str, str]] = set()
    for one in chosen:
        me = entity(one)
        meta = one["metadata"]
        space = meta.get("namespace", "")
        for owner in meta.get("ownerReferences", []):
            parent = by_key.get((space, owner["kind"], owner["name"])) or by_key.get(
                ("", owner["kind"], owner["name"])
            )
            if parent:
                edges.add((parent, "owns", me))
        if one["kind"] == "Pod":
            node = by_key.get(("", "Node", one["spec"].get("nodeName", "")))
            if node:
                edges.add((me, "runs_on", node))
        if one["kind"] in ("Deployment", "StatefulSet", "DaemonSet"):
            for kind, name in _references(one["spec"]["template"]["spec"]):
                target = by_key.get((space, kind, name))
                if target:
                    edges.add((me, "uses", target))
        if one["kind"] == "Service":
            edges |= {(me, "selects", target) for target in _selected(one, chosen)}
        if one["kind"] == "HorizontalPodAutoscaler":
            reference = one["spec"]["scaleTargetRef"]
            target = by_key.get((space, reference["kind"], reference["name"]))
            if target:
                edges.add((me, "scales", target))
    for source, target in _calls(flow):
        source_key, target_key = _workload(by_key, source), _workload(by_key, target)
        if source_key and target_key and source_key != target_key:
            edges.add((source_key, "calls", target_key))
    edges |= {(source, relation, target) for source, relation, target in flow.world.spec.topology}
    nodes = [
        {
            "id": entity(one),
            "kind": one["kind"],
            "namespace": one["metadata"].get("namespace", ""),
            "name": one["metadata"]["name"],
            "labels": one["metadata"].get("labels", {}),
        }
        for one in chosen
    ]
    return {
        "nodes": nodes,
        "edges": [
            {"source": source, "relation": relation, "target": target}
            for source, relation, target in sorted(edges)
        ],
    }


def _references(spec: Manifest) -> list[tuple[str, str]]:
    found = []
    for volume in spec.get("volumes", []):
        if "configMap" in volume:
            found.append(("ConfigMap", volume["configMap"]["name"]))
        if "secret" in volume:
            found.append(("Secret", volume["secret"]["secretName"]))
    for container in spec["containers"]:
        for source in container.get("envFrom", []):
            found.append(("ConfigMap", source["configMapRef"]["name"]))
    return found


def _selected(service: Manifest, objects: list[Manifest]) -> list[str]:
    wanted = service["spec"].get("selector") or {}
    space = service["metadata"].get("namespace")
    found = []
    for one in objects:
        if (
            one["kind"] in ("Deployment", "StatefulSet", "DaemonSet")
            and one["metadata"].get("namespace") == space
        ):
            labels = one["spec"]["template"]["metadata"]["labels"]
            if wanted and all(labels.get(key) == value for key, value in wanted.items()):
                found.append(entity(one))
    return found


def _calls(flow: Flow) -> list[tuple[str, str]]:
    return sorted(
        {(edge.source.workload, edge.target.workload) for edges in flow.edges.values() for edge in edges}
    )


def _workload(by_key: dict[tuple[str, str, str], str], key: str) -> str | None:
    namespace, _, name = key.partition("/")
    for kind in ("Deployment", "StatefulSet", "DaemonSet"):
        if (namespace, kind, name) in by_key:
            return by_key[(namespace, kind, name)]
    return None
