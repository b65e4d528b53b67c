"""Manifests of workloads as the API server returns them: controllers, ReplicaSets, Services, autoscalers."""

from __future__ import annotations

from typing import Any

from diagnose_bench.reconstruct.pods import cores
from diagnose_bench.reconstruct.spec_workload import Probe, Resources, Workload
from diagnose_bench.reconstruct.world import Revision, World, key_of

Manifest = dict[str, Any]

API_VERSIONS = {
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
    "PodDisruptionBudget": "policy/v1",
    "EndpointSlice": "discovery.k8s.io/v1",
    "Lease": "coordination.k8s.io/v1",
}


def metadata(world: World, kind: str, namespace: str, name: str, created: float, **more: Any) -> Manifest:
    """Metadata with uid and creation time; the resource version is stamped when all objects are there."""
    entity = f"{namespace}/{kind}/{name}"
    made: Manifest = {"name": name}
    if namespace:
        made["namespace"] = namespace
    made |= {
        "uid": world.uid(entity),
        "creationTimestamp": world.clock.rfc3339(created),
        "resourceVersion": "0",
    }
    made |= {key: value for key, value in more.items() if value}
    return made


def owner_reference(world: World, kind: str, namespace: str, name: str) -> list[Manifest]:
    """The controlling owner."""
    return [
        {
            "apiVersion": API_VERSIONS.get(kind, "v1"),
            "kind": kind,
            "name": name,
            "uid": world.uid(f"{namespace}/{kind}/{name}"),
            "controller": True,
            **({} if kind == "Node" else {"blockOwnerDeletion": True}),
        }
    ]


def selector_labels(workload: Workload) -> dict[str, str]:
    """Labels that select a workload's Pods."""
    for label in ("k8s-app", "component"):
        if label in workload.labels:
            return {label: workload.labels[label]}
    return {"app.kubernetes.io/name": workload.name}


def pod_labels(workload: Workload) -> dict[str, str]:
    """Labels of a Pod, without what the controllers add."""
    return {**selector_labels(workload), **workload.labels}


def resources(requests: Resources, limits: Resources) -> Manifest:
    """Requests and limits of a container."""
    made: Manifest = {}
    if limits.model_dump(exclude_none=True):
        made["limits"] = limits.model_dump(exclude_none=True)
    if requests.model_dump(exclude_none=True):
        made["requests"] = requests.model_dump(exclude_none=True)
    return made


def _probe(workload: Workload, probe: Probe, path: str) -> Manifest:
    port: int | str = workload.port_name if probe.port in (None, workload.port) else workload.probe_port
    return {
        "failureThreshold": 3,
        "httpGet": {"path": path, "port": port, "scheme": probe.scheme},
        "periodSeconds": 10,
        "successThreshold": 1,
        "timeoutSeconds": probe.timeout_s,
    }


def _ports(workload: Workload) -> list[Manifest]:
    protocol = "UDP" if workload.port == 53 else "TCP"
    ports: list[Manifest] = [
        {"containerPort": workload.port, "name": workload.port_name, "protocol": protocol}
    ]
    if workload.port == 53:
        ports.append({"containerPort": 53, "name": "dns-tcp", "protocol": "TCP"})
    if workload.probe and workload.probe.port not in (None, workload.port):
        ports.append({"containerPort": workload.probe.port, "name": "health", "protocol": "TCP"})
    return ports


def pod_spec(workload: Workload) -> Manifest:
    """The template's spec."""
    main: Manifest = {"name": workload.container or workload.name, "image": workload.image}
    main["imagePullPolicy"] = "IfNotPresent"
    if workload.command:
        main["command"] = list(workload.command)
    if workload.args:
        main["args"] = list(workload.args)
    if workload.env:
        main["env"] = [{"name": key, "value": value} for key, value in workload.env.items()]
    if workload.env_from:
        main["envFrom"] = [{"configMapRef": {"name": name}} for name in workload.env_from]
    if workload.port:
        main["ports"] = _ports(workload)
    if workload.probe:
        path = workload.probe.path
        main["livenessProbe"] = _probe(workload, workload.probe, workload.probe.liveness_path or path)
        main["readinessProbe"] = _probe(workload, workload.probe, path)
    main["resources"] = resources(workload.requests, workload.limits)
    main["terminationMessagePath"] = "/dev/termination-log"
    main["terminationMessagePolicy"] = "File"
    volumes: list[Manifest] = []
    mounts: list[Manifest] = []
    for name in workload.config_maps:
        volumes.append({"name": name, "configMap": {"defaultMode": 420, "name": name}})
        mounts.append({"mountPath": f"/etc/{name}", "name": name, "readOnly": True})
    for name in workload.secrets:
        volumes.append({"name": name, "secret": {"defaultMode": 420, "secretName": name}})
        mounts.append({"mountPath": f"/etc/secrets/{name}", "name": name, "readOnly": True})
    if workload.storage:
        mounts.append({"mountPath": "/data", "name": "data"})
    if mounts:
        main["volumeMounts"] = mounts
    containers = [main]
    for sidecar in workload.sidecars:
        containers.append(
            {
                "name": sidecar.name,
                "image": sidecar.image,
                "imagePullPolicy": "IfNotPresent",
                **({"args": list(sidecar.args)} if sidecar.args else {}),
                **(
                    {"ports": [{"containerPort": sidecar.port, "name": "http", "protocol": "TCP"}]}
                    if sidecar.port
                    else {}
                ),
                "resources": resources(sidecar.requests, sidecar.limits),
            }
        )
    spec: Manifest = {
        "containers": containers,
        "dnsPolicy": "Default" if workload.port == 53 else "ClusterFirst",
        "restartPolicy": "OnFailure" if workload.kind == "CronJob" else "Always",
        "schedulerName": "default-scheduler",
        "serviceAccountName": workload.name,
        "terminationGracePeriodSeconds": 30,
    }
    if workload.host_network or workload.kind == "Static":
        spec["hostNetwork"] = True
    if workload.nodes == "control-plane":
        spec["nodeSelector"] = {"node-role.kubernetes.io/control-plane": ""}
    if workload.priority_class:
        spec["priorityClassName"] = workload.priority_class
    if volumes:
        spec["volumes"] = volumes
    return {**spec, **workload.pod_spec}


def _template(workload: Workload, revision: Revision | None = None, with_hash: bool = False) -> Manifest:
    labels = pod_labels(workload)
    if with_hash and revision:
        labels = {**labels, "pod-template-hash": revision.hash}
    made: Manifest = {"labels": labels}
    annotations = dict(workload.pod_annotations)
    if revision and revision.annotation:
        annotations["kubectl.kubernetes.io/restartedAt"] = revision.annotation
    if annotations:
        made["annotations"] = annotations
    return {"metadata": made, "spec": pod_spec(workload)}


def volume_claim(size: str) -> Manifest:
    """What a StatefulSet asks for, and what its claims have."""
    return {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "storageClassName": "standard",
        "volumeMode": "Filesystem",
    }


def volume_claims(world: World, workload: Workload, time: float) -> list[Manifest]:
    """The claims of a StatefulSet's Pods."""
    if workload.kind != "StatefulSet" or not workload.storage:
        return []
    made = []
    names = sorted({pod.name for pod in world.pods[key_of(workload)] if pod.exists(time)})
    for number, name in enumerate(names):
        claim = f"data-{name}"
        volume = f"pvc-{world.uid(f'{workload.namespace}/Volume/{claim}')}"
        moment = world.created[key_of(workload)] + 3 + 40 * number
        made.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": metadata(
                    world, "PersistentVolumeClaim", workload.namespace, claim, moment,
                    labels=selector_labels(workload),
                ),
                "spec": {**volume_claim(workload.storage), "volumeName": volume},
                "status": {"phase": "Bound", "capacity": {"storage": workload.storage}},
            }
        )  # fmt: skip
    return made


def controller(world: World, workload: Workload, time: float) -> Manifest:
    """The Deployment, StatefulSet, DaemonSet or CronJob itself."""
    key = key_of(workload)
    revisions = world.revisions[key]
    newest = revisions[-1]
    labels = {"app.kubernetes.io/name": workload.name, **workload.labels}
    annotations = dict(workload.annotations)
    if workload.kind == "Deployment":
        annotations["deployment.kubernetes.io/revision"] = str(newest.number)
    meta = metadata(
        world, workload.kind, workload.namespace, workload.name, world.created[key],
        generation=newest.number + 2, labels=labels, annotations=annotations,
    )  # fmt: skip
    alive = [pod for pod in world.pods[key] if pod.exists(time)]
    ready = sum(pod.ready(time) for pod in alive)
    selector = {"matchLabels": selector_labels(workload)}
    spec: Manifest
    if workload.kind == "CronJob":
        spec = {
            "schedule": workload.schedule,
            "concurrencyPolicy": "Forbid",
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
            "jobTemplate": {"spec": {"backoffLimit": 2, "template": _template(workload)}},
        }
        done = [pod.created for pod in world.pods[key] if pod.created <= time]
        status: Manifest = {"lastScheduleTime": world.clock.rfc3339(max(done))} if done else {}
    elif workload.kind == "DaemonSet":
        spec = {
            "selector": selector,
            "template": _template(workload, newest),
            "updateStrategy": {"type": "RollingUpdate"},
        }
        status = {
            "currentNumberScheduled": len(alive), "desiredNumberScheduled": len(alive), "numberReady": ready,
            "numberAvailable": ready, "observedGeneration": newest.number + 2,
        }  # fmt: skip
    elif workload.kind == "StatefulSet":
        spec = {
            "replicas": workload.replicas, "selector": selector, "serviceName": workload.name,
            "template": _template(workload, newest),
        }  # fmt: skip
        if workload.storage:
            spec["volumeClaimTemplates"] = [
                {"metadata": {"name": "data"}, "spec": volume_claim(workload.storage)}
            ]
        status = {"replicas": len(alive), "readyReplicas": ready, "currentReplicas": len(alive)}
    else:
        spec = {
            "replicas": _replicas(world, workload, time),
            "revisionHistoryLimit": world.history_limit[key],
            "selector": selector,
            "strategy": {
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
                "type": "RollingUpdate",
            },
            "template": _template(workload, newest),
        }
        status = {
            "observedGeneration": newest.number + 2,
            "replicas": len(alive),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "updatedReplicas": sum(pod.revision == newest.number for pod in alive),
            **({"unavailableReplicas": len(alive) - ready} if ready < len(alive) else {}),
            "conditions": [
                {
                    "type": "Available",
                    "status": "True" if ready >= 0.75 * len(alive) else "False",
                    "reason": "MinimumReplicasAvailable"
                    if ready >= 0.75 * len(alive)
                    else "MinimumReplicasUnavailable",
                }
            ],
        }
    return {
        "apiVersion": API_VERSIONS[workload.kind],
        "kind": workload.kind,
        "metadata": meta,
        "spec": spec,
        "status": status,
    }


def _replicas(world: World, workload: Workload, time: float) -> int:
    wanted = workload.replicas
    for scale in world.spec.scales:
        if scale.workload == key_of(workload) and world.clock.seconds(scale.at) <= time:
            wanted = scale.to
    return wanted


def replica_sets(world: World, workload: Workload, time: float) -> list[Manifest]:
    """ReplicaSets of a Deployment, the old one kept at zero."""
    made = []
    key = key_of(workload)
    for revision in [*world.history[key], *world.revisions[key]]:
        name = f"{workload.name}-{revision.hash}"
        wanted = 1 if f"{workload.namespace}/{name}" in world.blocked else 0
        pods = [pod for pod in world.pods[key] if pod.revision == revision.number and pod.exists(time)]
        labels = {**pod_labels(revision.workload), "pod-template-hash": revision.hash}
        made.append(
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": metadata(
                    world, "ReplicaSet", workload.namespace, name, revision.created,
                    generation=2, labels=labels,
                    annotations={"deployment.kubernetes.io/revision": str(revision.number)},
                    ownerReferences=owner_reference(world, "Deployment", workload.namespace, workload.name),
                ),
                "spec": {
                    "replicas": max(wanted, len(pods)),
                    "selector": {
                        "matchLabels": {**selector_labels(workload), "pod-template-hash": revision.hash}
                    },
                    "template": _template(revision.workload, revision, with_hash=True),
                },
                "status": {
                    "replicas": len(pods),
                    "readyReplicas": sum(pod.ready(time) for pod in pods),
                    "observedGeneration": 2,
                },
            }
        )  # fmt: skip
    return made


def service(world: World, workload: Workload) -> Manifest:
    """The Service in front of a workload."""
    key = key_of(workload)
    name = "kube-dns" if key == "kube-system/coredns" else workload.name
    port = workload.port or 80
    ports: list[Manifest]
    if port == 53:
        ports = [
            {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
            {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53},
        ]
    else:
        name_of_port = "http" if any(one.port for one in workload.sidecars) else workload.port_name
        ports = [
            {
                "name": name_of_port,
                "port": workload.serving_port,
                "protocol": "TCP",
                "targetPort": name_of_port,
            }
        ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(
            world, "Service", workload.namespace, name, world.created[key] + 1,
            labels={"app.kubernetes.io/name": workload.name, **workload.labels},
        ),
        "spec": {
            "clusterIP": world.addresses[key], "ports": ports, "selector": selector_labels(workload),
            "sessionAffinity": "None", "type": "ClusterIP",
        },
        "status": {"loadBalancer": {}},
    }  # fmt: skip


def autoscaler(world: World, workload: Workload, time: float) -> Manifest | None:
    """The HorizontalPodAutoscaler, if the workload has one."""
    if workload.autoscaler is None:
        return None
    model = workload.autoscaler
    pods = [pod for pod in world.pods[key_of(workload)] if pod.exists(time)]
    step = max(0, min(len(pods[0].cpu) - 1, int(time // 15))) if pods and pods[0].cpu else 0
    request = cores(workload.requests.cpu) or 1.0
    used = [pod.cpu[step] for pod in pods if step < len(pod.cpu)]
    percent = round(100 * sum(used) / len(used) / request) if used else 0
    scales = [
        s for s in world.spec.scales if s.workload == key_of(workload) and world.clock.seconds(s.at) <= time
    ]
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata(
            world, "HorizontalPodAutoscaler", workload.namespace, workload.name,
            world.created[key_of(workload)] + 60,
            labels={"app.kubernetes.io/name": workload.name},
        ),
        "spec": {
            "minReplicas": model.min, "maxReplicas": model.max,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": workload.kind, "name": workload.name},
            "metrics": [{"type": "Resource", "resource": {
                "name": "cpu", "target": {"type": "Utilization", "averageUtilization": model.target_cpu}}}],
        },
        "status": {
            "currentReplicas": len(pods), "desiredReplicas": _replicas(world, workload, time),
            "currentMetrics": [{"type": "Resource", "resource": {
                "name": "cpu", "current": {"averageUtilization": percent}}}],
            **({"lastScaleTime": world.clock.rfc3339(world.clock.seconds(scales[-1].at))} if scales else {}),
        },
    }  # fmt: skip
