"""objects.jsonl: all manifests of the cluster at the end of the window, and changes.jsonl beside it."""

from __future__ import annotations

import copy
import json
from typing import Any

from diagnose_bench.reconstruct import manifest_pods, manifests
from diagnose_bench.reconstruct.clock import parse_moment
from diagnose_bench.reconstruct.failing import failing_pods
from diagnose_bench.reconstruct.manifests import Manifest, metadata, owner_reference
from diagnose_bench.reconstruct.platform import standard
from diagnose_bench.reconstruct.rules import rule_groups, rule_manifest_groups
from diagnose_bench.reconstruct.spec import Failing, Node
from diagnose_bench.reconstruct.world import DEFAULT_AGE, World, created_at
from diagnose_bench.reconstruct.writes import stamp

_CLUSTER_SCOPED = {
    "Namespace", "Node", "PriorityClass", "StorageClass", "ClusterRole", "ClusterRoleBinding",
    "PersistentVolume", "CustomResourceDefinition", "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration", "ClusterPolicy", "IngressClass", "ClusterIssuer",
}  # fmt: skip
_CONDITIONS = (
    ("MemoryPressure", "KubeletHasSufficientMemory"),
    ("DiskPressure", "KubeletHasNoDiskPressure"),
    ("PIDPressure", "KubeletHasSufficientPID"),
    ("Ready", "KubeletReady"),
)


def build_objects(world: World) -> list[Manifest]:
    """Manifests at the end of the window, sorted by namespace, kind and name."""
    time = float(world.clock.length_s)
    made: list[Manifest] = [_node(world, node) for node in world.nodes]
    for key, workload in world.workloads.items():
        if workload.kind != "Static":
            made.append(manifests.controller(world, workload, time))
        if workload.kind == "Deployment":
            made.extend(manifests.replica_sets(world, workload, time))
        for pod in world.pods[key]:
            if pod.exists(time):
                made.append(manifest_pods.pod(world, pod, time))
                if workload.kind == "CronJob":
                    made.append(_job(world, key, pod.owner[1], pod.created, pod.completed))
        made.extend(manifests.volume_claims(world, workload, time))
        if key in world.addresses:
            made.append(manifests.service(world, workload))
        scaler = manifests.autoscaler(world, workload, time)
        if scaler:
            made.append(scaler)
        if workload.min_available is not None:
            made.append(_budget(world, key))
    for failing in world.spec.failing:
        for name, node, start, fine in failing_pods(world, failing):
            if not fine and start + failing.life_s > time:
                made.append(_waiting_pod(world, failing, name, node, start))
    groups = rule_groups(world.spec)
    for name in dict.fromkeys(group.object for group in groups):
        made.append(_rules(world, name, rule_manifest_groups(groups, name)))
    for raw in world.spec.objects:
        made.append(_declared(world, raw))
    made += _mounted(world, {(one["kind"], _space(one), one["metadata"]["name"]) for one in made})
    for namespace in sorted({one["metadata"].get("namespace", "") for one in made} - {""}):
        times = [one["metadata"]["creationTimestamp"] for one in made if _space(one) == namespace]
        created = (parse_moment(min(times)) - world.clock.start).total_seconds()
        labels = {"kubernetes.io/metadata.name": namespace}
        made.append(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": metadata(world, "Namespace", "", namespace, created - 60, labels=labels),
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            }
        )
    made.sort(key=lambda one: (one["metadata"].get("namespace", ""), one["kind"], one["metadata"]["name"]))
    stamp(world, made)
    return made


def object_lines(objects: list[Manifest]) -> list[str]:
    """One manifest per line."""
    return [json.dumps(one, separators=(",", ":")) for one in objects]


def change_lines(world: World) -> list[str]:
    """Object revisions in time order."""
    rows = sorted(((world.clock.seconds(one.at), one) for one in world.spec.changes), key=lambda row: row[0])
    return [
        json.dumps(
            {"time": world.clock.rfc3339(time), "entity": one.entity, "who": one.who, "patch": one.patch},
            separators=(",", ":"),
        )
        for time, one in rows
    ]


def _node(world: World, node: Node) -> Manifest:
    draws = world.draws("node", node.name)
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": node.instance,
        "topology.kubernetes.io/region": world.spec.cluster.region,
        "topology.kubernetes.io/zone": f"{world.spec.cluster.region}{node.zone}",
    }
    spec: Manifest = {"podCIDR": f"{world.spec.cluster.pod_network}.{world.nodes.index(node) + 1}.0/24"}
    if node.role == "control-plane":
        labels["node-role.kubernetes.io/control-plane"] = ""
        spec["taints"] = [{"effect": "NoSchedule", "key": "node-role.kubernetes.io/control-plane"}]
    length = float(world.clock.length_s)
    for drain in world.spec.drains:
        still = drain.uncordon_at is None or world.clock.seconds(drain.uncordon_at) > length
        if drain.node == node.name and still:
            spec["unschedulable"] = True
            taint = {"effect": "NoSchedule", "key": "node.kubernetes.io/unschedulable"}
            spec["taints"] = [*spec.get("taints", []), taint]
    beat = world.clock.rfc3339(length - draws.uniform(5, 200))
    capacity = {"cpu": str(node.cpu), "memory": f"{node.memory_gib * 1048576 - 262144}Ki", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata(world, "Node", "", node.name, -86400.0 * node.days_ago, labels=labels),
        "spec": spec,
        "status": {
            "addresses": [
                {"address": world.node_addresses[node.name], "type": "InternalIP"},
                {"address": node.name, "type": "Hostname"},
            ],
            "allocatable": capacity | {"cpu": f"{node.cpu * 1000 - 80}m"},
            "capacity": capacity,
            "conditions": [
                {"type": kind, "status": "True" if kind == "Ready" else "False", "reason": reason,
                 "lastHeartbeatTime": beat}
                for kind, reason in _CONDITIONS
            ],
            "nodeInfo": {
                "containerRuntimeVersion": "containerd://1.7.11", "kernelVersion": "5.15.0-91-generic",
                "kubeletVersion": world.spec.cluster.version, "osImage": "Ubuntu 22.04.3 LTS",
                "architecture": "amd64",
            },
        },
    }  # fmt: skip


def _job(world: World, key: str, name: str, created: float, completed: float | None) -> Manifest:
    workload = world.workloads[key]
    done = completed is not None and completed <= world.clock.length_s
    status: Manifest = {"startTime": world.clock.rfc3339(created)}
    if done and completed is not None:
        status |= {
            "completionTime": world.clock.rfc3339(completed),
            "succeeded": 1,
            "conditions": [{"type": "Complete", "status": "True"}],
        }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(
            world, "Job", workload.namespace, name, created,
            ownerReferences=owner_reference(world, "CronJob", workload.namespace, workload.name),
        ),
        "spec": {"backoffLimit": 2, "completions": 1, "parallelism": 1,
                 "template": {"spec": manifests.pod_spec(workload)}},
        "status": status,
    }  # fmt: skip


def _waiting_pod(world: World, failing: Failing, name: str, node: str, start: float) -> Manifest:
    text = f'Back-off pulling image "{failing.image}"'
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(world, "Pod", failing.namespace, name, start, labels=failing.labels),
        "spec": {
            "containers": [
                {"name": "build", "image": failing.image, "imagePullPolicy": "Always", "resources": {}}
            ],
            "nodeName": node,
            "restartPolicy": "Never",
        },
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}],
            "containerStatuses": [
                {"name": "build", "image": failing.image, "ready": False, "restartCount": 0,
                 "state": {"waiting": {"reason": "ImagePullBackOff", "message": text}}}
            ],
            "startTime": world.clock.rfc3339(start),
        },
    }  # fmt: skip


def _space(manifest: Manifest) -> str:
    return str(manifest["metadata"].get("namespace", ""))


def _mounted(world: World, present: set[tuple[str, str, str]]) -> list[Manifest]:
    """ConfigMaps and Secrets that Pods mount and the specification does not declare."""
    made: dict[tuple[str, str, str], Manifest] = {}
    for workload in world.workloads.values():
        wanted = [("ConfigMap", name) for name in (*workload.config_maps, *workload.env_from)]
        wanted += [("Secret", name) for name in workload.secrets]
        for kind, name in wanted:
            key = (kind, workload.namespace, name)
            if key in present or key in made:
                continue
            created = -86400.0 * workload.days_ago - 9000
            meta = metadata(world, kind, workload.namespace, name, created)
            made[key] = {"apiVersion": "v1", "kind": kind, "metadata": meta}
            if kind == "Secret":
                made[key] |= {"type": "Opaque", "data": {"config": "REDACTED"}}
            else:
                made[key]["data"] = standard("configs").get(name, {"LOG_LEVEL": "info"})
    return list(made.values())


def _budget(world: World, key: str) -> Manifest:
    workload = world.workloads[key]
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(
            world,
            "PodDisruptionBudget",
            workload.namespace,
            workload.name,
            world.created[key] + 90,
        ),
        "spec": {
            "minAvailable": workload.min_available,
            "selector": {"matchLabels": manifests.selector_labels(workload)},
        },
    }


def _rules(world: World, name: str, groups: list[dict[str, Any]]) -> Manifest:
    namespace, _, short = name.partition("/")
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": metadata(
            world,
            "PrometheusRule",
            namespace,
            short,
            -86400.0 * 150,
            labels={"prometheus": "k8s", "role": "alert-rules"},
        ),
        "spec": {"groups": groups},
    }


def _declared(world: World, raw: dict[str, Any]) -> Manifest:
    """A manifest from the specification; `metadata.created` (a clock or days ago) becomes its time stamp."""
    made = copy.deepcopy(raw)
    given: dict[str, Any] = made["metadata"]
    seconds = created_at(world.clock, given.pop("created", DEFAULT_AGE))
    namespace = given.pop("namespace", "")
    if not namespace and made["kind"] not in _CLUSTER_SCOPED:
        namespace = "default"
    base = metadata(world, made["kind"], namespace, given.pop("name"), seconds)
    if given.pop("applied", False):
        # kubectl apply keeps what it was given.
        short = {key: base[key] for key in ("name", "namespace") if key in base}
        applied: Manifest = {**made, "metadata": {"annotations": {}, **short}}
        text = json.dumps(applied, separators=(",", ":"), sort_keys=True) + "\n"
        given["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": text}
    made["metadata"] = {**base, **given}
    return made
