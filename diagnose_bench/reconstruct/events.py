"""Kubernetes Events that the cluster's components would have written for what happened in the window."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from diagnose_bench.reconstruct.draws import KUBE_ALPHABET
from diagnose_bench.reconstruct.manifests import API_VERSIONS
from diagnose_bench.reconstruct.pods import Pod
from diagnose_bench.reconstruct.spec import Failing
from diagnose_bench.reconstruct.world import World, key_of

_BACK_OFF_PERIOD_S = 13.0
_ALPHANUMERIC = "abcdefghijklmnopqrstuvwxyz0123456789"
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


@dataclass
class Event:
    """One Event object in its last state."""

    kind: str
    namespace: str
    name: str
    reason: str
    message: str
    component: str
    first: float
    last: float
    count: int = 1
    type: str = "Normal"
    host: str = ""
    container: str = ""
    uid: str = ""


def build_events(world: World) -> list[Event]:
    """All Events, by their last time."""
    events: list[Event] = []
    for pod in world.all_pods():
        events += _pod_events(world, pod)
    for key in world.workloads:
        events += _controller_events(world, key)
    for node in world.nodes:
        for drain in world.spec.drains:
            if drain.node == node.name:
                at = world.clock.seconds(drain.at)
                text = f"Node {node.name} status is now: NodeNotSchedulable"
                events.append(
                    Event(
                        "Node",
                        "",
                        node.name,
                        "NodeNotSchedulable",
                        text,
                        "kubelet",
                        at + 6,
                        at + 6,
                        host=node.name,
                    )
                )
                if drain.uncordon_at:
                    back = world.clock.seconds(drain.uncordon_at)
                    text = f"Node {node.name} status is now: NodeSchedulable"
                    events.append(
                        Event(
                            "Node",
                            "",
                            node.name,
                            "NodeSchedulable",
                            text,
                            "kubelet",
                            back + 5,
                            back + 5,
                            host=node.name,
                        )
                    )
    for failing in world.spec.failing:
        events += _failing_events(world, failing)
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


def _pod_events(world: World, pod: Pod) -> list[Event]:
    length = float(world.clock.length_s)
    events: list[Event] = []

    def add(
        reason: str, message: str, first: float, last: float | None = None, count: int = 1, **more: str
    ) -> None:
        end = min(first if last is None else last, length)
        if first <= length:
            events.append(
                Event(
                    "Pod", pod.workload.namespace, pod.name, reason, message,
                    more.get("component", "kubelet"), first, end, count, more.get("type", "Normal"),
                    more.get("host", pod.node), more.get("container", ""), pod.uid,
                )
            )  # fmt: skip

    containers = [
        (pod.container, pod.workload.image),
        *((one.name, one.image) for one in pod.workload.sidecars),
    ]
    born = pod.created >= -1800 and pod.workload.kind != "Static"
    if born and pod.workload.kind != "DaemonSet":
        text = f"Successfully assigned {pod.workload.namespace}/{pod.name} to {pod.node}"
        add("Scheduled", text, pod.created, component="default-scheduler", host="")
    for name, image in containers:
        ends = [one for one in pod.restarts if one.container == name and one.back_at <= length]
        starts = [one.back_at for one in ends]
        first = pod.created + pod.start_delay
        if born:
            starts = [first, *starts]
        if starts:
            begin, last, count = starts[0], starts[-1], len(starts)
            text = f'Container image "{image}" already present on machine'
            add("Pulled", text, begin - 0.4, last - 0.4, count, container=name)
            add("Created", f"Created container {name}", begin - 0.3, last - 0.3, count, container=name)
            add("Started", f"Started container {name}", begin, last, count, container=name)
        events += _restart_events(world, pod, name)
    for start, end, message in pod.unready:
        if end > start and pod.exists(start):
            last = min(end, length, pod.deleted or length)
            count = max(1, int((last - start) / 10))
            add("Unhealthy", message, start + 4, last - 2, count, type="Warning", container=pod.container)
    if pod.never_ready and pod.created <= length:
        start = pod.created + pod.start_delay + 9
        path = pod.workload.probe.path if pod.workload.probe else "/healthz"
        port = pod.workload.port or 8080
        message = (
            f'Readiness probe failed: Get "http://{pod.ip}:{port}{path}": context deadline exceeded '
            "(Client.Timeout exceeded while awaiting headers)"
        )
        add(
            "Unhealthy",
            message,
            start,
            length - 4,
            max(1, int((length - start) / 10)),
            type="Warning",
            container=pod.container,
        )
    if pod.deleted is not None and pod.deleted >= -1800 and pod.completed is None:
        for name, _ in containers:
            add("Killing", f"Stopping container {name}", pod.deleted, container=name)
    return events


def _restart_events(world: World, pod: Pod, container: str) -> list[Event]:
    length = float(world.clock.length_s)
    events: list[Event] = []
    waits = []
    for restart in [one for one in pod.restarts if one.container == container and one.at <= length]:
        if restart.back_at - restart.at > 5:
            waits.append((restart.at + 1.5, min(restart.back_at, length)))
        if restart.reason == "OOMKilled":
            draws = world.draws("oom", pod.name, str(round(restart.at, 3)))
            rss = int((restart.memory_mib or 64) * 1024 * draws.uniform(0.955, 0.985))
            text = (
                f"Memory cgroup out of memory: Killed process {draws.integer(12000, 990000)} "
                f"({container[:15]}) total-vm:{rss * 7 + draws.integer(0, 4000)}kB, anon-rss:{rss}kB, "
                f"file-rss:{draws.integer(20000, 42000)}kB, shmem-rss:0kB, "
                f"UID:{draws.choice(['0', '1000', '65532'])} "
                f"pgtables:{draws.integer(240, 900)}kB oom_score_adj:{draws.integer(930, 998)}"
            )
            events.append(
                Event(
                    "Node",
                    "",
                    pod.node,
                    "OOMKilling",
                    text,
                    "kernel-monitor",
                    restart.at,
                    restart.at,
                    1,
                    "Warning",
                    pod.node,
                )
            )
        if restart.probe:
            text = f"Container {container} failed liveness probe, will be restarted"
            events.append(_kubelet_event(pod, container, "Killing", text, restart.at, restart.at))
            path = pod.workload.probe.path if pod.workload.probe else "/healthz"
            text = (
                f'Liveness probe failed: Get "http://{pod.ip}:{pod.workload.port or 8080}{path}": '
                "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            )
            events.append(
                _kubelet_event(pod, container, "Unhealthy", text, restart.at - 20, restart.at, 3, "Warning")
            )
    if waits:
        count = sum(max(1, int((end - start) / _BACK_OFF_PERIOD_S)) for start, end in waits)
        where = f"{pod.name}_{pod.workload.namespace}({pod.uid})"
        text = f"Back-off restarting failed container {container} in pod {where}"
        events.append(
            _kubelet_event(pod, container, "BackOff", text, waits[0][0], waits[-1][1] - 0.5, count, "Warning")
        )
    return events


def _kubelet_event(
    pod: Pod,
    container: str,
    reason: str,
    message: str,
    first: float,
    last: float,
    count: int = 1,
    type_: str = "Normal",
) -> Event:
    return Event(
        "Pod", pod.workload.namespace, pod.name, reason, message, "kubelet", first, last, count, type_,
        pod.node, container, pod.uid,
    )  # fmt: skip


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
        elif pod.deleted is not None and pod.deleted >= -1800 and kind != "Job":
            text = f"Deleted pod: {pod.name}"
            events.append(
                Event(
                    kind,
                    workload.namespace,
                    owner,
                    "SuccessfulDelete",
                    text,
                    component,
                    pod.deleted,
                    pod.deleted,
                )
            )
    if workload.kind == "Deployment":
        events += _scaling_events(world, key)
    return events


def _scaling_events(world: World, key: str) -> list[Event]:
    workload = world.workloads[key]
    events = []
    revisions = world.revisions[key]
    for revision in revisions[1:]:
        pods = [pod for pod in world.pods[key] if pod.revision == revision.number]
        before = [pod for pod in world.pods[key] if pod.revision == revision.number - 1]
        for number, pod in enumerate(pods):
            text = f"Scaled up replica set {workload.name}-{revision.hash} to {number + 1}"
            events.append(Event("Deployment", workload.namespace, workload.name, "ScalingReplicaSet", text,
                                "deployment-controller", pod.created - 0.2, pod.created - 0.2))  # fmt: skip
        gone = sorted(pod.deleted for pod in before if pod.deleted is not None)
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
            name = f"{workload.name}-{revisions[-1].hash}"
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


def failing_pods(world: World, failing: Failing) -> list[tuple[str, str, float, bool]]:
    """Short-lived Pods of a controller outside Kubernetes' own: name, node, start, whether the image came."""
    draws = world.draws("failing", failing.prefix)
    start = world.clock.seconds(failing.start)
    nodes = [node.name for node in world.nodes if node.role == "worker"]
    made = []
    time = -240.0 if failing.success_before else start
    while time < world.clock.length_s - 20:
        job, suffix = draws.text(9, _ALPHANUMERIC), draws.text(8, KUBE_ALPHABET)
        name = f"{failing.prefix}-{job}-{suffix}"
        made.append((name, draws.choice(nodes), time, time < start))
        time += draws.uniform(0.5, 1.5) * failing.every_s
    return made


def _failing_events(world: World, failing: Failing) -> list[Event]:
    length = float(world.clock.length_s)
    events = []
    for name, node, time, fine in failing_pods(world, failing):
        uid = world.uid(f"{failing.namespace}/Pod/{name}")

        def add(
            reason: str,
            message: str,
            first: float,
            last: float,
            count: int = 1,
            type_: str = "Normal",
            *,
            pod: tuple[str, str, str] = (name, node, uid),
        ) -> None:
            scheduled = reason == "Scheduled"
            events.append(
                Event(
                    "Pod", failing.namespace, pod[0], reason, message,
                    "default-scheduler" if scheduled else "kubelet", first, min(last, length), count, type_,
                    "" if scheduled else pod[1], "" if scheduled else "build", pod[2],
                )
            )  # fmt: skip

        text = f"Successfully assigned {failing.namespace}/{name} to {node}"
        add("Scheduled", text, time, time)
        if fine:
            text = f'Successfully pulled image "{failing.image}" in {700 + len(name) * 31}ms'
            add("Pulling", f'Pulling image "{failing.image}"', time + 1, time + 1)
            add("Pulled", text, time + 2.1, time + 2.1)
            add("Created", "Created container build", time + 2.3, time + 2.3)
            add("Started", "Started container build", time + 2.5, time + 2.5)
            continue
        end = time + failing.life_s
        tries = 4
        last = time + 1 + failing.life_s * 0.55
        add("Pulling", f'Pulling image "{failing.image}"', time + 1, last, tries)
        add(
            "Failed",
            f'Failed to pull image "{failing.image}": {failing.message}',
            time + 2,
            last + 1,
            tries,
            "Warning",
        )
        add("Failed", "Error: ErrImagePull", time + 2, last + 1, tries, "Warning")
        add("BackOff", f'Back-off pulling image "{failing.image}"', time + 16, end - 3, 6, "Warning")
        add("Failed", "Error: ImagePullBackOff", time + 16, end - 3, 6, "Warning")
    return events
