"""Manifests of Pods with the status they have at a time."""

from __future__ import annotations

from diagnose_bench.reconstruct.manifests import (
    Manifest,
    metadata,
    owner_reference,
    pod_labels,
    pod_spec,
    resources,
)
from diagnose_bench.reconstruct.pods import Pod
from diagnose_bench.reconstruct.world import World, key_of


def pod(world: World, one: Pod, time: float) -> Manifest:
    """A Pod with its status at a time."""
    workload = one.workload
    labels = pod_labels(workload)
    if one.owner[0] == "ReplicaSet":
        labels = {**labels, "pod-template-hash": one.owner[1].removeprefix(f"{workload.name}-")}
    annotations = dict(workload.pod_annotations)
    if one.owner[0] == "Node":
        annotations["kubernetes.io/config.source"] = "file"
    spec = pod_spec(workload) | {"nodeName": one.node}
    if one.admitted.annotation:
        annotations["kubernetes.io/limit-ranger"] = one.admitted.annotation
        stored = resources(one.admitted.requests, one.admitted.limits)
        spec["containers"] = [{**spec["containers"][0], "resources": stored}, *spec["containers"][1:]]
    if workload.storage:
        claim = {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{one.name}"}}
        spec["volumes"] = [claim, *spec.get("volumes", [])]
    revision = next((r for r in world.revisions[key_of(workload)] if r.number == one.revision), None)
    if revision and revision.annotation:
        annotations["kubectl.kubernetes.io/restartedAt"] = revision.annotation
    kind, owner = one.owner
    owners = owner_reference(world, kind, "" if kind == "Node" else workload.namespace, owner)
    meta = metadata(
        world, "Pod", workload.namespace, one.name, one.created,
        labels=labels, annotations=annotations, ownerReferences=owners,
    )  # fmt: skip
    meta["uid"] = one.uid
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": spec,
        "status": _pod_status(world, one, time),
    }


def _pod_status(world: World, one: Pod, time: float) -> Manifest:
    clock = world.clock
    ready = one.ready(time)
    done = one.completed is not None and time >= one.completed
    statuses = [_container_status(world, one, one.container, one.workload.image, time, ready)]
    for sidecar in one.workload.sidecars:
        statuses.append(_container_status(world, one, sidecar.name, sidecar.image, time, True))
    all_ready = ready and not done
    conditions = [
        {"type": "Initialized", "status": "True"},
        {"type": "Ready", "status": str(all_ready)},
        {"type": "ContainersReady", "status": str(all_ready)},
        {"type": "PodScheduled", "status": "True"},
    ]
    if not all_ready and not done:
        for condition in conditions[1:3]:
            condition |= {
                "reason": "ContainersNotReady",
                "message": f"containers with unready status: [{one.container}]",
            }
    return {
        "phase": "Succeeded" if done else "Running",
        "conditions": conditions,
        "hostIP": world.node_addresses[one.node],
        "podIP": one.ip,
        "qosClass": _qos(one),
        "startTime": clock.rfc3339(one.created),
        "containerStatuses": statuses,
    }


def _qos(one: Pod) -> str:
    if not one.workload.requests.model_dump(exclude_none=True) and not one.limits.model_dump(
        exclude_none=True
    ):
        return "BestEffort"
    same = (
        one.workload.requests == one.limits and one.limits.cpu is not None and one.limits.memory is not None
    )
    return "Guaranteed" if same and not one.workload.sidecars else "Burstable"


def _container_status(world: World, one: Pod, name: str, image: str, time: float, ready: bool) -> Manifest:
    clock = world.clock
    draws = world.draws("container", one.workload.namespace, one.name, name)
    status: Manifest = {"name": name, "image": image, "restartCount": one.n_restarts(time, name)}
    status["imageID"] = f"{image.rsplit(':', 1)[0]}@sha256:{world.draws('image', image).hex(64)}"
    last = one.last_restart(time, name)
    started = one.created + one.start_delay
    if last is not None:
        previous = [r for r in one.restarts if r.container == name and r.at < last.at]
        status["lastState"] = {
            "terminated": {
                "exitCode": last.exit_code,
                "reason": last.reason,
                "startedAt": clock.rfc3339(previous[-1].back_at if previous else started),
                "finishedAt": clock.rfc3339(last.at),
                "containerID": f"containerd://{draws.hex(64)}",
            }
        }
        started = last.back_at
    if one.completed is not None and time >= one.completed:
        status |= {
            "ready": False,
            "started": False,
            "state": {
                "terminated": {
                    "exitCode": 0, "reason": "Completed", "startedAt": clock.rfc3339(started),
                    "finishedAt": clock.rfc3339(one.completed),
                }
            },
        }  # fmt: skip
        return status
    if last is not None and time < last.back_at:
        back_off = (
            f"back-off {round(last.back_at - last.at)}s restarting failed container={name} "
            f"pod={one.name}_{one.workload.namespace}({one.uid})"
        )
        status |= {
            "ready": False,
            "started": False,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": back_off}},
        }
        return status
    status |= {
        "ready": ready,
        "started": True,
        "state": {"running": {"startedAt": clock.rfc3339(started)}},
        "containerID": f"containerd://{draws.hex(64)}",
    }
    return status
