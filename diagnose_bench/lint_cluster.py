"""Could the objects, events and kubelet lines of a snapshot exist together: ages, places, versions."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from typing import Any

from diagnose_bench.lint_files import SnapshotFiles, seconds
from diagnose_bench.lint_finding import LintFinding, judge

MIN_REMEMBERED = 0.6
"""Share of the Deployments that keep a ReplicaSet of a template before the present one."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_PROBED = re.compile(r'"(https?)://([0-9.]+):(\d+)(/[^"]*)"')
_POD_REFERENCE = re.compile(r'pods?="?\[?"([a-z0-9-]+)/([a-z0-9.-]+)"')
_REWRITTEN = {"Node", "Pod", "ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "CronJob", "Job",
              "HorizontalPodAutoscaler", "Certificate", "Lease"}  # fmt: skip
"""Kinds whose status is written without a trace in the manifest."""

Manifest = dict[str, Any]


class _Cluster:
    """The objects of a snapshot, indexed."""

    def __init__(self, files: SnapshotFiles) -> None:
        self.objects = list(files.records("objects.jsonl"))
        self.by_key = {
            (one.get("kind"), one["metadata"].get("namespace", ""), one["metadata"]["name"]): one
            for one in self.objects
        }
        self.changed: dict[str, list[float]] = defaultdict(list)
        for change in files.records("changes.jsonl"):
            self.changed[str(change["entity"])].append(seconds(str(change["time"])))

    def of_kind(self, *kinds: str) -> list[Manifest]:
        return [one for one in self.objects if one.get("kind") in kinds]

    def name_of(self, one: Manifest) -> str:
        space = one["metadata"].get("namespace")
        return (
            f"{space}/{one['kind']}/{one['metadata']['name']}"
            if space
            else f"{one['kind']}/{one['metadata']['name']}"
        )

    def written(self, one: Manifest, end: float) -> float:
        """The last write that the manifest or the changes show."""
        times = [seconds(text) for text in _times(one)]
        space = one["metadata"].get("namespace")
        version = str(one.get("apiVersion", ""))
        for kind in (one["kind"], f"{one['kind']}.{version.split('/')[0]}"):
            entity = f"{kind}/{one['metadata']['name']}"
            times += self.changed.get(f"{space}/{entity}" if space else entity, [])
        return max(time for time in times if time <= end)


def check_cluster(scenario_id: str, files: SnapshotFiles) -> list[LintFinding]:
    """Whether the cluster is physically possible, and whether its history tells on the changed objects."""
    if not files.is_native or not files.has("objects.jsonl"):
        return [LintFinding(scenario_id, "cluster", None, "no objects of the native layout")]
    cluster = _Cluster(files)
    return [
        _ages(scenario_id, cluster),
        _cordons(scenario_id, cluster, files),
        _versions(scenario_id, cluster, files),
        _probes(scenario_id, cluster, files),
        _references(scenario_id, cluster, files),
        _mounts(scenario_id, cluster),
        _addresses(scenario_id, cluster),
        _remembered(scenario_id, cluster),
        _pulls(scenario_id, cluster, files),
    ]


def _times(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _times(item)
    elif isinstance(value, list):
        for item in value:
            yield from _times(item)
    elif isinstance(value, str) and _TIME.fullmatch(value):
        yield value


def _created(one: Manifest) -> float:
    return seconds(one["metadata"]["creationTimestamp"])


def _ages(scenario_id: str, cluster: _Cluster) -> LintFinding:
    """Nothing is older than what owns or carries it."""
    problems = []
    for one in cluster.objects:
        space = one["metadata"].get("namespace", "")
        older = [
            (owner["kind"], space if owner["kind"] != "Node" else "", owner["name"])
            for owner in one["metadata"].get("ownerReferences", [])
        ]
        if one["kind"] == "Pod":
            older.append(("Node", "", one["spec"].get("nodeName")))
        if space:
            older.append(("Namespace", "", space))
        for key in older:
            other = cluster.by_key.get(key)
            if other and _created(one) + 1 < _created(other):
                problems.append(f"{cluster.name_of(one)} is older than {key[0]}/{key[2]}")
    return judge(
        scenario_id, "ages", problems, f"{len(cluster.objects)} objects are younger than their owners"
    )


def _cordons(scenario_id: str, cluster: _Cluster, files: SnapshotFiles) -> LintFinding:
    """No Pod is placed on a node that takes none."""
    closed: dict[str, tuple[float, float]] = {}
    for change in files.records("changes.jsonl"):
        for step in change["patch"]:
            if step.get("path") == "/spec/unschedulable":
                node, time = str(change["entity"]).rpartition("/")[2], seconds(str(change["time"]))
                start, _ = closed.get(node, (time, float("inf")))
                closed[node] = (start, float("inf")) if step.get("value") else (start, time)
    problems = []
    for event in files.records("events.jsonl"):
        if event.get("reason") != "Scheduled":
            continue
        node = str(event["message"]).rpartition(" to ")[2]
        start, end = closed.get(node, (0.0, 0.0))
        if start < seconds(str(event["lastTimestamp"])) < end:
            problems.append(f"{event['involvedObject']['name']} is placed on {node}, which is cordoned")
        known = cluster.by_key.get(("Node", "", node))
        if known is None or seconds(str(event["lastTimestamp"])) < _created(known):
            problems.append(f"{event['involvedObject']['name']} is placed on {node}, which is not there")
    return judge(scenario_id, "placement", problems, "every new Pod went to a node that took it")


def _versions(scenario_id: str, cluster: _Cluster, files: SnapshotFiles) -> LintFinding:
    """Resource versions grow with the time of the last write."""
    end = files.window[2]
    rows = sorted(cluster.objects, key=lambda one: -int(one["metadata"]["resourceVersion"]))
    problems = []
    latest, witness = end, "the window's end"
    for one in rows:
        written = cluster.written(one, end)
        if written > latest + 1:
            problems.append(
                f"{cluster.name_of(one)} has an older resourceVersion than {witness}, written before"
            )
        if one["kind"] not in _REWRITTEN and written < latest:
            latest, witness = written, cluster.name_of(one)
    if len({one["metadata"]["resourceVersion"] for one in rows}) < len(rows):
        problems.append("two objects have one resourceVersion")
    return judge(scenario_id, "versions", problems, f"{len(rows)} resource versions follow the writes")


def _probes(scenario_id: str, cluster: _Cluster, files: SnapshotFiles) -> LintFinding:
    """Probes name ports that exist, and failed probes are those of the Pod."""
    problems = []
    asked: dict[tuple[str, str], tuple[str, set[tuple[str, str, str]]]] = {}
    for pod in cluster.of_kind("Pod"):
        found = set()
        for container in pod["spec"]["containers"]:
            ports = {one.get("name"): one["containerPort"] for one in container.get("ports", [])}
            for kind in ("livenessProbe", "readinessProbe"):
                get = container.get(kind, {}).get("httpGet")
                if get is None:
                    continue
                port = ports.get(get["port"], get["port"])
                if not isinstance(port, int):
                    problems.append(f"{cluster.name_of(pod)}: {kind} names no port: {port!r}")
                elif port not in ports.values():
                    problems.append(f"{cluster.name_of(pod)}: {kind} asks port {port}, which is not declared")
                found.add((str(get["scheme"]).lower(), str(port), str(get["path"])))
        meta = pod["metadata"]
        asked[meta["namespace"], meta["name"]] = (str(pod.get("status", {}).get("podIP")), found)
    n_checked = 0
    for event in files.records("events.jsonl"):
        about = event["involvedObject"]
        match = _PROBED.search(str(event.get("message")))
        known = asked.get((str(about.get("namespace")), str(about.get("name"))))
        if event.get("reason") != "Unhealthy" or not match or not known:
            continue
        n_checked += 1
        scheme, address, port, path = match.groups()
        if address != known[0] or (scheme, port, path) not in known[1]:
            problems.append(f"{about['name']}: the failed probe {match[0]} is not one of its own")
    return judge(scenario_id, "probes", problems, f"{n_checked} failed probes are those of their Pods")


def _references(scenario_id: str, cluster: _Cluster, files: SnapshotFiles) -> LintFinding:
    """Pods that kubelets name exist or existed."""
    known = {(one["metadata"]["namespace"], one["metadata"]["name"]) for one in cluster.of_kind("Pod")}
    for event in files.records("events.jsonl"):
        about = event["involvedObject"]
        if about.get("kind") == "Pod":
            known.add((str(about.get("namespace")), str(about.get("name"))))
        if event.get("reason") in ("SuccessfulCreate", "SuccessfulDelete"):
            known.add((str(about.get("namespace")), str(event["message"]).rpartition(" ")[2]))
    name = "logs/kube-system_kubelet.log"
    if not files.has(name):
        return LintFinding(scenario_id, "kubelet", None, f"no {name}")
    problems, n_named = [], 0
    for line in files.lines(name):
        for match in _POD_REFERENCE.finditer(line):
            n_named += 1
            if match.groups() not in known:
                problems.append(f"no Pod {match[1]}/{match[2]}")
    return judge(scenario_id, "kubelet", problems, f"{n_named} Pods that kubelets name were there")


def _mounts(scenario_id: str, cluster: _Cluster) -> LintFinding:
    """What Pods mount is a volume of theirs, and what volumes name is there."""
    problems, n_mounts = [], 0
    for pod in cluster.of_kind("Pod"):
        space = pod["metadata"]["namespace"]
        volumes = {one["name"]: one for one in pod["spec"].get("volumes", [])}
        for container in pod["spec"]["containers"]:
            for mount in container.get("volumeMounts", []):
                n_mounts += 1
                if mount["name"] not in volumes:
                    problems.append(
                        f"{cluster.name_of(pod)} mounts {mount['name']}, which is no volume of it"
                    )
        for volume in volumes.values():
            for kind, field, name in (
                ("ConfigMap", "configMap", "name"),
                ("Secret", "secret", "secretName"),
                ("PersistentVolumeClaim", "persistentVolumeClaim", "claimName"),
            ):
                if field in volume and (kind, space, volume[field][name]) not in cluster.by_key:
                    problems.append(f"{cluster.name_of(pod)}: no {kind} {volume[field][name]}")
    return judge(scenario_id, "mounts", problems, f"{n_mounts} mounts have what they name")


def _addresses(scenario_id: str, cluster: _Cluster) -> LintFinding:
    """Node addresses lie outside the Pods' networks and agree with names that spell an address."""
    problems = []
    networks = [
        ip_network(one["spec"]["podCIDR"]) for one in cluster.of_kind("Node") if "podCIDR" in one["spec"]
    ]
    for node in cluster.of_kind("Node"):
        name = node["metadata"]["name"]
        address = next(one["address"] for one in node["status"]["addresses"] if one["type"] == "InternalIP")
        if re.fullmatch(r"ip(-\d+){4}", name) and name[3:].replace("-", ".") != address:
            problems.append(f"Node/{name} has the address {address}")
        problems += [
            f"Node/{name} lies in the Pod network {one}" for one in networks if ip_address(address) in one
        ]
    pods: dict[str, str] = {}
    for pod in cluster.of_kind("Pod"):
        address = pod.get("status", {}).get("podIP")
        if address and not pod["spec"].get("hostNetwork"):
            if address in pods:
                problems.append(f"{cluster.name_of(pod)} and {pods[address]} share {address}")
            pods[address] = cluster.name_of(pod)
    return judge(
        scenario_id, "addresses", problems, f"{len(pods)} Pods and their nodes have their own addresses"
    )


def _remembered(scenario_id: str, cluster: _Cluster) -> LintFinding:
    """Old ReplicaSets do not single out the Deployments that changed in the window."""
    sets: dict[tuple[str, str], int] = defaultdict(int)
    templates: dict[str, str] = {}
    problems = []
    for one in cluster.of_kind("ReplicaSet"):
        for owner in one["metadata"].get("ownerReferences", []):
            sets[one["metadata"]["namespace"], owner["name"]] += 1
        template = json.loads(json.dumps(one["spec"]["template"]))
        template["metadata"].get("labels", {}).pop("pod-template-hash", None)
        text = json.dumps([one["metadata"]["namespace"], template], sort_keys=True)
        if text in templates:
            problems.append(f"{cluster.name_of(one)} has the template of {templates[text]}")
        templates[text] = cluster.name_of(one)
    deployments = cluster.of_kind("Deployment")
    with_history = [
        one for one in deployments if sets[one["metadata"]["namespace"], one["metadata"]["name"]] > 1
    ]
    for one in deployments:
        limit = one["spec"].get("revisionHistoryLimit", 10)
        count = sets[one["metadata"]["namespace"], one["metadata"]["name"]]
        if count > limit + 1:
            problems.append(f"{cluster.name_of(one)} keeps {count - 1} old ReplicaSets of {limit}")
    if deployments and len(with_history) < MIN_REMEMBERED * len(deployments):
        problems.append(f"only {len(with_history)} of {len(deployments)} Deployments have an old ReplicaSet")
    return judge(
        scenario_id, "history", problems,
        f"{len(with_history)} of {len(deployments)} Deployments have an old ReplicaSet",
    )  # fmt: skip


def _pulls(scenario_id: str, cluster: _Cluster, files: SnapshotFiles) -> LintFinding:
    """An image that came with the window is pulled; how long that takes varies."""
    start = files.window[0]
    fresh: set[str] = set()
    usual: set[str] = set()
    for one in cluster.of_kind("ReplicaSet", "StatefulSet", "DaemonSet", "CronJob"):
        spec = one["spec"].get("template") or one["spec"]["jobTemplate"]["spec"]["template"]
        images = {container["image"] for container in spec["spec"]["containers"]}
        (fresh if _created(one) > start else usual).update(images)
    pulled: set[tuple[str, str]] = set()
    durations: list[str] = []
    problems = []
    events = sorted(files.records("events.jsonl"), key=lambda one: str(one["firstTimestamp"]))
    for event in events:
        host = str(event.get("source", {}).get("host", ""))
        message = str(event["message"])
        name = str(event["involvedObject"].get("name"))
        image = next(iter(re.findall(r'image "([^"]+)"', message)), "")
        if event.get("reason") == "Pulled" and message.startswith("Successfully"):
            pulled.add((host, image))
            durations.append(message.rpartition(" in ")[2])
        elif event.get("reason") == "Pulled" and image in fresh - usual and (host, image) not in pulled:
            problems.append(f"{name}: the new image {image} is on {host} before anybody pulled it")
    if len(durations) > 3 and len(set(durations)) < len(durations):
        problems.append("pulls take exactly as long as one another")
    return judge(scenario_id, "pulls", problems, f"{len(durations)} pulls, each as long as it took")
