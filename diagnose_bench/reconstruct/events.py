"""Kubernetes Events that the cluster's components would have written for what happened in the window."""

from __future__ import annotations

import json
from typing import Any

from diagnose_bench.reconstruct.events_pods import Event, pod_events
from diagnose_bench.reconstruct.failing import failing_events
from diagnose_bench.reconstruct.manifests import API_VERSIONS
from diagnose_bench.reconstruct.spec import Node
from diagnose_bench.reconstruct.world import World, key_of

_GROUPS = {
    "HorizontalPodAutoscaler": "autoscaling/v2",
    "Ingress": "networking.k8s.io/v1",
    "Certificate": "cert-manager.io/v1",
    "Application": "argoproj.io/v1alpha1",
    "PodDisruptionBudget": "policy/v1",
    "ClusterPolicy": "kyverno.io/v1",
    "Policy": "kyverno.io/v1",
    "Lease": "coordination.k8s.io/v1",
}


def build_events(world: World) -> list[Event]:
    """All Events, by their last time."""
    events: list[Event] = []
    for pod in world.all_pods():
        events += pod_events(world, pod)
    for key in world.workloads:
        events += _controller_events(world, key)
    for node in world.nodes:
        events += _node_events(world, node)
    for failing in world.spec.failing:
        events += failing_events(world, failing)
    for extra in world.spec.events:
        namespace, _, rest = extra.entity.rpartition("/")[0].rpartition("/")
        kind = (rest or namespace).split(".")[0]
        space = extra.entity.split("/")[0] if extra.entity.count("/") == 2 else ""
        first = world.clock.seconds(extra.first)
        last = world.clock.seconds(extra.last) if extra.last else first
        events.append(
            Event(kind, space, extra.entity.rsplit("/", 1)[1], extra.reason, extra.message, extra.component,
                  first, last, extra.count, extra.type, extra.host or "")
        )  # fmt: skip
    length = world.clock.length_s
    kept = [event for event in events if -1800 <= event.last <= length]
    return sorted(kept, key=lambda event: (event.last, event.namespace, event.name, event.reason))


def _node_events(world: World, node: Node) -> list[Event]:
    """A node that joins, is cordoned or opened again."""

    def about(reason: str, text: str, at: float, component: str = "kubelet") -> Event:
        host = node.name if component == "kubelet" else ""
        return Event("Node", "", node.name, reason, text, component, at, at, host=host)

    events = []
    joined = world.placement.created(node)
    status = f"Node {node.name} status is now: "
    if joined >= -1800:
        events += [
            about("Starting", "Starting kubelet.", joined - 2),
            about("NodeHasSufficientMemory", f"{status}NodeHasSufficientMemory", joined),
            about(
                "RegisteredNode", f"Node {node.name} event: Registered Node {node.name} in Controller",
                joined + 3, "node-controller",
            ),
            about("NodeReady", f"{status}NodeReady", joined + 21),
        ]  # fmt: skip
    for drain in world.spec.drains:
        if drain.node == node.name:
            at = world.clock.seconds(drain.at)
            events.append(about("NodeNotSchedulable", f"{status}NodeNotSchedulable", at + 6))
            if drain.uncordon_at:
                back = world.clock.seconds(drain.uncordon_at)
                events.append(about("NodeSchedulable", f"{status}NodeSchedulable", back + 5))
    return events


def event_lines(world: World, events: list[Event]) -> list[str]:
    """core/v1 Events, one per line."""
    lines = []
    for number, event in enumerate(events):
        draws = world.draws("event", str(number), event.name, event.reason)
        space = event.namespace or "default"
        involved: dict[str, Any] = {
            "apiVersion": API_VERSIONS.get(event.kind, _GROUPS.get(event.kind, "v1")),
            "kind": event.kind,
            "name": event.name,
        }
        if event.namespace:
            involved["namespace"] = event.namespace
        involved["uid"] = event.uid or (
            event.name if event.kind == "Node" else world.uid(f"{event.namespace}/{event.kind}/{event.name}")
        )
        if event.container:
            involved["fieldPath"] = f"spec.containers{{{event.container}}}"
        first = max(event.first, -3600.0)
        source = {"component": event.component} | ({"host": event.host} if event.host else {})
        record = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{event.name}.{draws.hex(16)}",
                "namespace": space,
                "uid": draws.uuid(),
                "creationTimestamp": world.clock.rfc3339(first),
            },
            "involvedObject": involved,
            "type": event.type,
            "reason": event.reason,
            "message": event.message,
            "source": source,
            "firstTimestamp": world.clock.rfc3339(first),
            "lastTimestamp": world.clock.rfc3339(event.last),
            "count": event.count,
        }
        lines.append(json.dumps(record, separators=(",", ":")))
    return lines


def _controller_events(world: World, key: str) -> list[Event]:
    workload = world.workloads[key]
    events: list[Event] = []
    for pod in world.pods[key]:
        kind, owner = pod.owner
        if kind in ("Node",):
            continue
        component = {
            "ReplicaSet": "replicaset-controller", "StatefulSet": "statefulset-controller",
            "DaemonSet": "daemonset-controller", "Job": "job-controller",
        }[kind]  # fmt: skip
        if pod.created >= -1800:
            text = f"Created pod: {pod.name}"
            events.append(
                Event(
                    kind,
                    workload.namespace,
                    owner,
                    "SuccessfulCreate",
                    text,
                    component,
                    pod.created,
                    pod.created,
                )
            )
        if pod.completed is not None and pod.completed >= -1800:
            text = "Job completed"
            events.append(
                Event(
                    kind,
                    workload.namespace,
                    owner,
                    "Completed",
                    text,
                    component,
                    pod.completed,
                    pod.completed,
                )
            )
        elif pod.stopping is not None and pod.stopping >= -1800 and kind != "Job":
            text = f"Deleted pod: {pod.name}"
            events.append(
                Event(
                    kind,
                    workload.namespace,
                    owner,
                    "SuccessfulDelete",
                    text,
                    component,
                    pod.stopping,
                    pod.stopping,
                )
            )
    if workload.kind == "Deployment":
        events += _scaling_events(world, key)
    return events


def _scaling_events(world: World, key: str) -> list[Event]:
    workload = world.workloads[key]
    events = []
    revisions = world.revisions[key]
    scaled = [world.clock.seconds(one.at) for one in world.spec.scales if one.workload == key]
    for revision in revisions[1:]:
        name = f"{workload.name}-{revision.hash}"
        if f"{workload.namespace}/{name}" in world.blocked:
            since, answer = world.blocked[f"{workload.namespace}/{name}"]
            text = f"Scaled up replica set {name} to 1"
            events.append(Event("Deployment", workload.namespace, workload.name, "ScalingReplicaSet", text,
                                "deployment-controller", since + 0.4, since + 0.4))  # fmt: skip
            until = float(world.clock.length_s) - 21
            events.append(Event("ReplicaSet", workload.namespace, name, "FailedCreate",
                                f"Error creating: {answer}", "replicaset-controller", since + 11, until,
                                max(1, int((until - since) / 48)), "Warning"))  # fmt: skip
        pods = [
            pod
            for pod in world.pods[key]
            if pod.revision == revision.number and not any(0 <= pod.created - at < 1 for at in scaled)
        ]
        before = [pod for pod in world.pods[key] if pod.revision == revision.number - 1]
        for number, pod in enumerate(pods):
            text = f"Scaled up replica set {workload.name}-{revision.hash} to {number + 1}"
            events.append(Event("Deployment", workload.namespace, workload.name, "ScalingReplicaSet", text,
                                "deployment-controller", pod.created - 0.2, pod.created - 0.2))  # fmt: skip
        gone = sorted(pod.stopping for pod in before if pod.stopping is not None)
        for number, time in enumerate(gone):
            name = f"{workload.name}-{revisions[revisions.index(revision) - 1].hash}"
            text = f"Scaled down replica set {name} to {len(before) - number - 1}"
            events.append(Event("Deployment", workload.namespace, workload.name, "ScalingReplicaSet", text,
                                "deployment-controller", time - 0.2, time - 0.2))  # fmt: skip
    present = workload.replicas
    for scale in world.spec.scales:
        if scale.workload == key_of(workload):
            time = world.clock.seconds(scale.at)
            direction = "up" if scale.to > present else "down"
            then = [one for one in revisions if one is revisions[0] or one.created <= time][-1]
            name = f"{workload.name}-{then.hash}"
            text = f"Scaled {direction} replica set {name} to {scale.to} from {present}"
            events.append(Event("Deployment", workload.namespace, workload.name, "ScalingReplicaSet", text,
                                "deployment-controller", time, time))  # fmt: skip
            if scale.by_autoscaler:
                why = "cpu resource utilization (percentage of request) above target"
                if direction == "down":
                    why = "All metrics below target"
                text = f"New size: {scale.to}; reason: {why}"
                events.append(
                    Event("HorizontalPodAutoscaler", workload.namespace, workload.name, "SuccessfulRescale",
                          text, "horizontal-pod-autoscaler", time - 0.3, time - 0.3)
                )  # fmt: skip
            present = scale.to
    return events
