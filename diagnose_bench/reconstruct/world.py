"""The cluster as a specification describes it: workloads, nodes, Pods with their planned comings and goings.

Rollouts, scaling, drains and scripted kills are laid out here; what follows from load (out of memory) is the
flow simulation's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pydantic import ValidationError

from diagnose_bench.errors import SuiteError
from diagnose_bench.reconstruct.admission import admit
from diagnose_bench.reconstruct.clock import Clock, Curve
from diagnose_bench.reconstruct.draws import Draws
from diagnose_bench.reconstruct.history import earlier_template
from diagnose_bench.reconstruct.placement import Placement
from diagnose_bench.reconstruct.platform import platform_workloads
from diagnose_bench.reconstruct.pods import Pod
from diagnose_bench.reconstruct.spec import Kill, Node, Rollout, Specification
from diagnose_bench.reconstruct.spec_workload import Points, Workload


@dataclass(frozen=True)
class Revision:
    """One template of a workload: the ReplicaSet's (or ControllerRevision's) identity."""

    number: int
    hash: str
    workload: Workload
    created: float
    annotation: str | None = None


@dataclass
class World:
    """Everything that exists, before load is simulated."""

    spec: Specification
    clock: Clock
    workloads: dict[str, Workload]
    nodes: list[Node]
    placement: Placement
    pods: dict[str, list[Pod]] = field(default_factory=dict)
    revisions: dict[str, list[Revision]] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    """Cluster IP of each Service, by namespace/name."""
    node_addresses: dict[str, str] = field(default_factory=dict)
    created: dict[str, float] = field(default_factory=dict)
    """When each controller was created; its present template is younger."""
    pod_addresses: set[str] = field(default_factory=set)
    history: dict[str, list[Revision]] = field(default_factory=dict)
    """Templates from before `revisions` whose ReplicaSets are kept, oldest first."""
    history_limit: dict[str, int] = field(default_factory=dict)
    """``revisionHistoryLimit`` of each Deployment."""
    blocked: dict[str, tuple[float, str]] = field(default_factory=dict)
    """ReplicaSets whose Pods cannot be created: since when, and the API server's answer."""

    def draws(self, *names: str) -> Draws:
        """A stream of its own for a purpose."""
        return Draws(self.spec.seed, *names)

    def uid(self, entity: str) -> str:
        """The object's uid."""
        return self.draws("uid", entity).uuid()

    def curve(self, points: Points, default: float) -> Curve:
        """A specification's curve in seconds."""
        if not points:
            return Curve([(0.0, default)])
        timed = [(self.clock.seconds(clock), value) for clock, value in points]
        for (earlier, _), (later, _), (clock, _) in zip(timed, timed[1:], points[1:], strict=False):
            if later <= earlier:
                raise SuiteError(
                    f"{self.spec.scenario_id}: the point at {clock!r} of a curve is not later than the one "
                    "before it. Put the points in order."
                )
        return Curve(timed)

    def all_pods(self) -> list[Pod]:
        """Pods of all workloads, in the order of the workloads."""
        return [pod for key in self.workloads for pod in self.pods[key]]

    def current(self, key: str) -> Revision:
        """The newest template of a workload."""
        return self.revisions[key][-1]


DEFAULT_AGE = 60


def created_at(clock: Clock, created: str | float) -> float:
    """When a declared object was created: a clock string, or days ago."""
    return clock.seconds(created) if isinstance(created, str) else -86400.0 * float(created) - 7321.0


def key_of(workload: Workload) -> str:
    """``namespace/name``."""
    return f"{workload.namespace}/{workload.name}"


def build_world(spec: Specification) -> World:
    """Lay out workloads, Pods and their planned events.

    Raises
    ------
    SuiteError
        The specification names a workload or node that does not exist.
    """
    workloads: dict[str, Workload] = {}
    for workload in [*platform_workloads(spec.cluster), *spec.workloads]:
        workloads[key_of(workload)] = workload
    clock = spec.clock()
    world = World(spec, clock, workloads, spec.cluster.nodes, Placement(spec, clock))
    network = world.draws("addresses")
    for index, node in enumerate(world.nodes):
        named = re.fullmatch(r"ip-(\d+)-(\d+)-(\d+)-(\d+)", node.name)
        drawn = f"10.20.{index // 3 + 10}.{network.integer(4, 250)}"
        world.node_addresses[node.name] = ".".join(named.groups()) if named else drawn
    for key, workload in workloads.items():
        if workload.service and workload.port:
            prefix = spec.cluster.service_network
            # The workload's place in the third part keeps addresses apart.
            world.addresses[key] = f"{prefix}.{len(world.addresses) + 1}.{network.integer(2, 250)}"
    if "kube-system/coredns" in world.addresses:
        world.addresses["kube-system/coredns"] = f"{spec.cluster.service_network}.0.10"
    for key in workloads:
        _first_pods(world, key)
    _check_names(world)
    actions: list[tuple[float, Callable[[], None]]] = [
        *((clock.seconds(one.at), partial(_roll_out, world, one)) for one in spec.rollouts),
        *(
            (clock.seconds(one.at), partial(_scale, world, one.workload, clock.seconds(one.at), one.to))
            for one in spec.scales
        ),
        *(
            (clock.seconds(one.at), partial(_drain, world, one.node, clock.seconds(one.at), one.pace_s))
            for one in spec.drains
        ),
    ]
    for _, action in sorted(actions, key=lambda one: one[0]):
        action()
    for kill in spec.kills:
        _kill(world, kill)
    for window in spec.not_ready:
        draws = world.draws("not-ready", window.workload, window.start)
        for pod in world.pods[window.workload]:
            if draws.chance(window.share):
                start = clock.seconds(window.start) + draws.uniform(0, 20)
                message = window.message.replace("{probe}", pod.probe_url())
                pod.unready.append((start, clock.seconds(window.end), message))
    for key in workloads:
        _remember(world, key)
    return world


def _kill(world: World, kill: Kill) -> None:
    draws = world.draws("kill", kill.workload, kill.at[0])
    for at in kill.at:
        for pod in _alive(world, kill.workload, world.clock.seconds(at)):
            if kill.pods is None or pod.index in kill.pods:
                moment = world.clock.seconds(at) + draws.uniform(0, 6)
                limit = pod.memory_limit(kill.container or pod.container)
                pod.kill(
                    moment, kill.reason, kill.exit_code, container=kill.container, probe=kill.probe,
                    memory_mib=limit or 0.0, planned=True, last_words=kill.last_words,
                )  # fmt: skip


def _remember(world: World, key: str) -> None:
    """The ReplicaSets that a Deployment keeps from before the window."""
    workload = world.workloads[key]
    if workload.kind != "Deployment":
        return
    draws = world.draws("history", key)
    first = world.revisions[key][0]
    limit = draws.integer(1, 3)
    kept = max(0, min(limit - (len(world.revisions[key]) - 1), first.number - 1))
    world.history_limit[key] = limit
    template, moment = first.workload, first.created
    made: list[Revision] = []
    for back in range(1, kept + 1):
        moment -= (moment - world.created[key]) * draws.uniform(0.06, 0.4)
        template, restarted = earlier_template(template, draws)
        annotation = world.clock.rfc3339(moment) if restarted else None
        made.insert(0, Revision(first.number - back, draws.template_hash(), template, moment, annotation))
    world.history[key] = made


def _check_names(world: World) -> None:
    spec = world.spec
    known = set(world.workloads)
    named: list[tuple[str, str]] = [
        *((f"operations.{one.id}.workload", one.workload) for one in spec.operations if not one.external),
        *((f"rollouts[{i}]", one.workload) for i, one in enumerate(spec.rollouts)),
        *((f"kills[{i}]", one.workload) for i, one in enumerate(spec.kills)),
        *((f"scales[{i}]", one.workload) for i, one in enumerate(spec.scales)),
        *((f"not_ready[{i}]", one.workload) for i, one in enumerate(spec.not_ready)),
    ]
    for where, key in named:
        if key not in known:
            raise SuiteError(f"{spec.scenario_id}: $.{where}: unknown workload {key!r}. Declare it first.")
    operations = {one.id for one in spec.operations}
    for operation in spec.operations:
        for call in operation.calls:
            if call.to not in operations:
                raise SuiteError(
                    f"{spec.scenario_id}: $.operations.{operation.id}: unknown operation {call.to!r}. "
                    "Declare it first."
                )
    nodes = {node.name for node in world.nodes}
    for index, drain in enumerate(spec.drains):
        if drain.node not in nodes:
            raise SuiteError(f"{spec.scenario_id}: $.drains[{index}]: unknown node {drain.node!r}.")


def _alive(world: World, key: str, time: float) -> list[Pod]:
    return [pod for pod in world.pods[key] if pod.serves(time)]


def _first_pods(world: World, key: str) -> None:
    workload = world.workloads[key]
    draws = world.draws("pods", key)
    created = -86400.0 * workload.days_ago - draws.uniform(0, 40000)
    number, template = 1 + draws.integer(0, 30), draws.template_hash()
    world.created[key] = created
    world.revisions[key] = [Revision(number, template, workload, created)]
    world.pods[key] = []
    if workload.kind == "CronJob":
        _cron_pods(world, key)
        return
    everywhere = workload.kind in ("DaemonSet", "Static")
    replicas = len(world.placement.of_role(workload)) if everywhere else workload.replicas
    offset = 0 if everywhere else draws.integer(0, 30)
    ages = workload.pods_days_ago
    rolled_out = 0.0
    for index in range(replicas):
        if ages is None:
            moment = -86400.0 * workload.days_ago * 0.6 * draws.uniform(0.97, 1.0)
        else:
            age = ages[min(index, len(ages) - 1)] if isinstance(ages, list) else ages
            moment = -86400.0 * age - 37.0 * index - draws.uniform(0, 9)
        rolled_out = min(rolled_out, moment - 2.0)
        node, moment = world.placement.long_ago(workload, index + offset, moment, draws)
        pod = _new_pod(world, key, index, node.name, moment)
        pod.initial_restarts = workload.restarts[index] if index < len(workload.restarts) else 0
    world.revisions[key] = [Revision(number, template, workload, max(created, rolled_out))]


def _new_pod(world: World, key: str, index: int, node: str, created: float, ready: bool = True) -> Pod:
    workload = world.workloads[key]
    revision = world.current(key)
    number = len(world.pods[key])
    draws = world.draws("pod", key, str(number))
    owner: tuple[str, str] = (workload.kind, workload.name)
    if workload.kind == "Deployment":
        owner = ("ReplicaSet", f"{workload.name}-{revision.hash}")
        name = f"{owner[1]}-{draws.pod_suffix()}"
    elif workload.kind == "StatefulSet":
        name = f"{workload.name}-{index}"
    elif workload.kind == "Static":
        name, owner = f"{workload.name}-{node}", ("Node", node)
    else:
        name = f"{workload.name}-{draws.pod_suffix()}"
    host = workload.host_network or workload.kind == "Static"
    node_number = [one.name for one in world.nodes].index(node)
    address = (
        world.node_addresses[node]
        if host
        else _free_address(world, f"{world.spec.cluster.pod_network}.{node_number + 1}", draws)
    )
    ranges = [
        one
        for one in world.spec.objects
        if one.get("kind") == "LimitRange"
        and one["metadata"].get("namespace") == workload.namespace
        and created_at(world.clock, one["metadata"].get("created", DEFAULT_AGE)) <= created
    ]
    pod = Pod(
        workload, index, name, node, address, draws.uuid(), created, owner, revision.number,
        admit(workload, ranges),
        never_ready=not ready, start_delay=round(draws.uniform(1.2, 3.5), 3),
    )  # fmt: skip
    _pull(world, pod, draws)
    world.pods[key].append(pod)
    return pod


def _pull(world: World, pod: Pod, draws: Draws) -> None:
    """Images that the node does not have yet; a CronJob's were pulled by its runs before."""
    if pod.created < -3600 or pod.workload.kind == "CronJob":
        return
    there = {
        image
        for key in world.workloads
        for other in world.pods.get(key, [])
        if other.node == pod.node and other.created < pod.created
        for _, image in other.workload.images
    }
    for container, image in pod.workload.images:
        if image not in there:
            seconds = world.draws("pull", image).uniform(1.6, 9.0) * draws.uniform(0.75, 1.4)
            pod.pulls[container] = round(seconds, 3)
            there.add(image)
    pod.start_delay += sum(pod.pulls.values())


def _free_address(world: World, prefix: str, draws: Draws) -> str:
    while True:
        address = f"{prefix}.{draws.integer(4, 250)}"
        if address not in world.pod_addresses:
            world.pod_addresses.add(address)
            return address


def _roll_out(world: World, rollout: Rollout) -> None:
    key = rollout.workload
    at = world.clock.seconds(rollout.at)
    old = world.revisions[key][-1]
    present = world.workloads[key]
    previous: dict[str, Any] = present.model_dump() | rollout.previous
    try:
        before = Workload.model_validate(previous)
    except ValidationError as error:
        raise SuiteError(
            f"{world.spec.scenario_id}: $.rollouts: previous of {key}: {error.errors()[0]['msg']}."
        ) from error
    draws = world.draws("rollout", key, rollout.at)
    world.revisions[key][-1] = Revision(old.number, old.hash, before, old.created, old.annotation)
    annotation = world.clock.rfc3339(at) if rollout.why == "restart" else None
    made_hash = draws.template_hash()
    world.revisions[key].append(Revision(old.number + 1, made_hash, present, at, annotation))
    alive = _alive(world, key, at)
    for pod in alive:
        pod.workload = before if before.kind != "StatefulSet" else pod.workload
    if rollout.blocked:
        world.blocked[f"{present.namespace}/{present.name}-{made_hash}"] = (at, rollout.blocked)
        return
    offset = draws.integer(0, 5)
    begun = at + 1.0
    for number, pod in enumerate(alive):
        start = begun + draws.uniform(0, 2)
        begun += rollout.pace_s * draws.uniform(0.85, 1.15)
        ready = rollout.ready_after is None or number < rollout.ready_after
        same_node = present.kind in ("DaemonSet", "StatefulSet", "Static")
        if same_node:
            pod.end(start, draws.uniform(2, 9))
            start = (pod.deleted or start) + draws.uniform(0.2, 0.9)
            node = pod.node
        else:
            nodes = world.placement.open(present, start)
            node = nodes[(number + offset) % len(nodes)].name
        made = _new_pod(world, key, pod.index, node, start, ready)
        if not same_node and ready:
            pod.end(made.started + present.ready_after_s + draws.uniform(0.5, 2), draws.uniform(1.3, 14))
        if not ready:
            break


def _scale(world: World, key: str, at: float, to: int) -> None:
    alive = _alive(world, key, at)
    draws = world.draws("scale", key, str(at))
    nodes = world.placement.open(world.workloads[key], at)
    for index in range(len(alive), to):
        node = nodes[(index + draws.integer(0, 1)) % len(nodes)].name
        _new_pod(world, key, index, node, at + draws.uniform(0.2, 0.8))
    for pod in alive[to:]:
        pod.end(at + draws.uniform(0.2, 2), draws.uniform(1.3, 14))


def _drain(world: World, node: str, at: float, pace_s: float) -> None:
    draws = world.draws("drain", node)
    moment = at + 4
    for key in world.workloads:
        workload = world.workloads[key]
        if workload.kind in ("DaemonSet", "Static", "CronJob"):
            continue
        for pod in _alive(world, key, at):
            if pod.node == node:
                moment += draws.uniform(0.15, 1.9) * pace_s
                pod.end(moment, draws.uniform(1.5, 24))
                # A StatefulSet's Pod has its name back only when the old one is gone.
                again = moment + draws.uniform(0.1, 0.4)
                if workload.kind == "StatefulSet" and pod.deleted is not None:
                    again = pod.deleted + draws.uniform(0.2, 0.9)
                target = draws.choice(world.placement.open(workload, again)).name
                _new_pod(world, key, pod.index, target, again)


def _cron_pods(world: World, key: str) -> None:
    workload = world.workloads[key]
    minutes = int((workload.schedule or "*/15").split()[0].lstrip("*/") or 15)
    draws = world.draws("cron", key)
    first = int(world.clock.unix(0)) // 60
    for minute in range(first - 3 * minutes, int(world.clock.unix(world.clock.length_s)) // 60):
        if minute % minutes:
            continue
        created = minute * 60 - world.clock.unix(0) + draws.uniform(0.1, 0.6)
        pod = _new_pod(world, key, 0, draws.choice(world.placement.open(workload, created)).name, created)
        job = f"{workload.name}-{minute}"
        pod.owner = ("Job", job)
        pod.name = f"{job}-{draws.pod_suffix()}"
        pod.completed = created + draws.uniform(9, 30)
        pod.deleted = created + 3 * minutes * 60 + 20
