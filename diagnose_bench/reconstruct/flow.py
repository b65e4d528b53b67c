"""Request flow through the call graph at 15-second steps: load, failures, retries, memory, OOM kills.

Probabilities only: what single requests look like is drawn from them in `requests.py`, counters are their
integral, so that traces, logs and metrics agree by construction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from diagnose_bench.errors import SuiteError
from diagnose_bench.reconstruct.clock import STEP_S, Curve
from diagnose_bench.reconstruct.draws import Draws
from diagnose_bench.reconstruct.pods import Pod, cores, mebibytes
from diagnose_bench.reconstruct.spec_workload import Call, Operation
from diagnose_bench.reconstruct.world import World

_SYNC_LAG = 0.25
"""Share of requests to an unready Pod that still reach it (endpoints lag behind)."""
_MISSING = 0.46
"""Share of everybody else's queries that are answered with NXDOMAIN."""


@dataclass
class Edge:
    """One call of one operation, step by step."""

    source: Operation
    call: Call
    target: Operation
    attempts: list[float] = field(default_factory=list)
    """Attempts per second."""
    dns: list[float] = field(default_factory=list)
    connect: list[float] = field(default_factory=list)
    timeout: list[float] = field(default_factory=list)
    part: list[float] = field(default_factory=list)
    """Share of the caller's traffic that its Pods of the call's revision serve."""
    missing: float = 0.0
    """Share of the lookups that the search path answers with NXDOMAIN."""
    stalls: Curve = field(default_factory=lambda: Curve([(0.0, 0.0)]))

    def attempt_failure(self, step: int, server: float) -> float:
        """Probability that one attempt fails."""
        passes = (1 - self.dns[step]) * (1 - self.connect[step]) * (1 - self.timeout[step]) * (1 - server)
        return 1 - passes


@dataclass
class Flow:
    """The simulated window."""

    world: World
    operations: dict[str, Operation]
    edges: dict[str, list[Edge]]
    """By operation, in calling order."""
    entries: list[str]
    n_steps: int
    rate: dict[str, list[float]]
    """Requests per second that each operation serves."""
    own_failure: dict[str, list[float]]
    failure: dict[str, list[float]]
    slow: dict[str, list[float]]
    load: dict[str, list[float]]
    """Requests per second of each workload."""
    dns_rate: list[float] = field(default_factory=list)
    dns_failure: list[float] = field(default_factory=list)
    dns_missing: list[float] = field(default_factory=list)
    """Share of the queries that are answered with NXDOMAIN."""
    newest: dict[str, list[float]] = field(default_factory=dict)
    """Share of each rolled-out workload's ready Pods that have the newest template."""


def newest_template(world: World, pod: Pod) -> bool:
    """Whether a Pod has the template of its workload's last rollout."""
    revisions = world.revisions[f"{pod.workload.namespace}/{pod.workload.name}"]
    return len(revisions) > 1 and pod.revision == revisions[-1].number


def missing_share(host: str | None) -> float:
    """Share of the queries for a host name that the search path wastes (ndots 5, three cluster domains)."""
    if not host or host.endswith(".") or "." not in host:
        return 0.0
    if host.count(".") == 1:
        return 0.5
    return 0.75 if host.endswith("cluster.local") else 0.8


def simulate(world: World) -> Flow:
    """Run the window step by step.

    Raises
    ------
    SuiteError
        The call graph has a cycle.
    """
    flow = _prepare(world)
    order = _children_first(flow)
    draws = world.draws("flow")
    curves = {
        one.id: (world.curve(one.errors, 0), world.curve(one.slow, 1), world.curve(one.profile, 1))
        for one in flow.operations.values()
    }
    dns = world.spec.dns
    dns_extra = world.curve(dns.extra, 0) if dns else None
    models = {key: _PodModel(world, key, draws) for key in world.workloads}
    for step in range(flow.n_steps):
        time = (step + 0.5) * STEP_S
        ready = {key: [pod.ready_share(step) for pod in world.pods[key]] for key in world.workloads}
        n_ready = {key: sum(shares) for key, shares in ready.items()}
        _count_newest(flow, ready)
        alive = {
            key: max(1, sum(_in_service(pod, time) for pod in world.pods[key])) for key in world.workloads
        }
        dns_failure = 0.0
        if dns:
            capacity = world.workloads[dns.server].capacity_rps
            served = n_ready[dns.server]
            dns_failure = 1.0 - min(1.0, served / 1.0) if served < 1 else 0.0
            previous = flow.dns_rate[-1] if flow.dns_rate else 0.0
            if capacity and served >= 1 and previous > capacity * served:
                dns_failure = 1 - capacity * served / previous
            lost = 1 - served / alive[dns.server]
            dns_failure = min(1.0, max(dns_failure, _SYNC_LAG * lost))
        flow.dns_failure.append(dns_failure)
        for identifier in order:
            _failures(flow, identifier, step, time, curves[identifier], n_ready, alive, dns_failure)
        _rates(flow, order, step, time, curves)
        for key in world.workloads:
            flow.load[key].append(
                sum(flow.rate[one.id][step] for one in flow.operations.values() if one.workload == key)
            )
        if dns and dns_extra:
            base = (dns.background_rps + dns_extra(time)) * draws.uniform(0.97, 1.03)
            queries = missing = 0.0
            for edges in flow.edges.values():
                for edge in edges:
                    asked = edge.attempts[step] * edge.call.lookups
                    asked *= 1 + dns.retry_factor * dns_failure
                    queries += asked
                    missing += asked * edge.missing
            total = base + queries
            flow.dns_rate.append(total)
            flow.dns_missing.append((missing + base * _MISSING) / total if total else 0.0)
            flow.load[dns.server][step] = total * (1 - dns_failure)
        for key, model in models.items():
            model.advance(step, flow.load[key][step], ready[key])
    return flow


def _count_newest(flow: Flow, ready: dict[str, list[float]]) -> None:
    for key, revisions in flow.world.revisions.items():
        if len(revisions) > 1:
            pods = flow.world.pods[key]
            new = sum(
                share
                for pod, share in zip(pods, ready[key], strict=True)
                if pod.revision == revisions[-1].number
            )
            flow.newest.setdefault(key, []).append(new / (sum(ready[key]) or 1.0))


def _in_service(pod: Pod, time: float) -> bool:
    """Whether a Pod has been among the endpoints: one that still starts takes no traffic away."""
    settled = pod.created + pod.start_delay + pod.workload.ready_after_s
    return pod.serves(time) and not pod.never_ready and time >= settled


def _prepare(world: World) -> Flow:
    spec = world.spec
    operations = {one.id: one for one in spec.operations}
    edges = {
        one.id: [_edge(world, one, call, operations[call.to]) for call in one.calls]
        for one in operations.values()
    }
    return Flow(
        world,
        operations,
        edges,
        [one.id for one in operations.values() if one.rps is not None],
        world.clock.n_steps,
        rate={name: [] for name in operations},
        own_failure={name: [] for name in operations},
        failure={name: [] for name in operations},
        slow={name: [] for name in operations},
        load={key: [] for key in world.workloads},
    )


def _edge(world: World, source: Operation, call: Call, target: Operation) -> Edge:
    return Edge(
        source, call, target,
        missing=missing_share(call.host), stalls=world.curve(call.stalls, 0),
    )  # fmt: skip


def _children_first(flow: Flow) -> list[str]:
    order: list[str] = []
    state: dict[str, int] = {}

    def visit(identifier: str) -> None:
        if state.get(identifier) == 2:
            return
        if state.get(identifier) == 1:
            raise SuiteError(f"$.operations.{identifier}: calls itself through others. Break the cycle.")
        state[identifier] = 1
        for edge in flow.edges[identifier]:
            visit(edge.target.id)
        state[identifier] = 2
        order.append(identifier)

    for identifier in flow.operations:
        visit(identifier)
    return order


def _failures(
    flow: Flow,
    identifier: str,
    step: int,
    time: float,
    curves: tuple[Curve, Curve, Curve],
    n_ready: dict[str, float],
    alive: dict[str, int],
    dns_failure: float,
) -> None:
    """Probabilities of one operation, its callees' being known."""
    own = min(1.0, max(0.0, curves[0](time)))
    flow.own_failure[identifier].append(own)
    flow.slow[identifier].append(curves[1](time))
    operation = flow.operations[identifier]
    newest = flow.newest.get(operation.workload, [0.0])[-1]
    if operation.trouble_of == "new":
        own = newest * own + (1 - newest) * min(1.0, max(0.0, curves[0](0)))
    works = 1 - own
    for edge in flow.edges[identifier]:
        target = edge.target
        edge.part.append({"new": newest, "old": 1 - newest, None: 1.0}[edge.call.revision])
        edge.dns.append(min(1.0, dns_failure * edge.call.fresh))
        edge.connect.append(_refused(flow, target, step, n_ready, alive))
        median = target.latency_ms * flow.slow[target.id][step]
        score = (math.log(edge.call.timeout_ms) - math.log(median)) / target.sigma
        late = 0.5 * math.erfc(score / math.sqrt(2))
        edge.timeout.append(max(late, min(1.0, max(0.0, edge.stalls(time)))))
        failed = edge.attempt_failure(step, flow.failure[target.id][step]) ** (edge.call.retries + 1)
        if not edge.call.optional:
            works *= 1 - edge.call.share * edge.part[step] * failed
    flow.failure[identifier].append(1 - works)


def _refused(
    flow: Flow, target: Operation, step: int, n_ready: dict[str, float], alive: dict[str, int]
) -> float:
    if target.workload not in flow.world.workloads:
        return 0.0
    served = n_ready[target.workload]
    if served < 0.05:
        return 1.0
    lost = max(0.0, 1 - served / alive[target.workload])
    refused = _SYNC_LAG * lost if served >= 1 else max(1 - served, _SYNC_LAG * lost)
    capacity = flow.world.workloads[target.workload].capacity_rps
    if capacity and step:
        offered = flow.load[target.workload][step - 1]
        if offered > capacity * served:
            refused = max(refused, 1 - capacity * served / offered)
    return min(1.0, refused)


def _rates(
    flow: Flow, order: list[str], step: int, time: float, curves: dict[str, tuple[Curve, Curve, Curve]]
) -> None:
    """Request rates, callers first."""
    for identifier in flow.operations:
        flow.rate[identifier].append(0.0)
    for identifier in flow.entries:
        operation = flow.operations[identifier]
        failed = flow.failure[identifier][step - 1] if step else 0.0
        base = (operation.rps or 0.0) * curves[identifier][2](time)
        flow.rate[identifier][step] += base * (1 + operation.client_retry * failed)
    for identifier in reversed(order):
        reached = flow.rate[identifier][step]
        for edge in flow.edges[identifier]:
            single = edge.attempt_failure(step, flow.failure[edge.target.id][step])
            tries = edge.call.retries + 1
            expected = tries if single >= 1 else (1 - single**tries) / (1 - single)
            share = edge.call.share * edge.part[step]
            edge.attempts.append(reached * share * expected)
            arrived = (1 - edge.dns[step]) * (1 - edge.connect[step])
            flow.rate[edge.target.id][step] += edge.attempts[step] * arrived
            if not edge.call.optional:
                reached *= 1 - share * single**tries


class _PodModel:
    """Memory and CPU of the Pods of one workload; memory beyond the limit ends the container."""

    def __init__(self, world: World, key: str, draws: Draws) -> None:
        self._workload = world.workloads[key]
        self._pods: list[Pod] = world.pods[key]
        self._draws = draws
        self._memory_extra = world.curve(self._workload.memory.extra, 0)
        self._cpu_extra = world.curve(self._workload.cpu.extra, 0)
        self._level: dict[int, tuple[float, float | None]] = {}
        """Working set, and the start of the life it belongs to."""
        self._weights: dict[str, float] = {}

    def advance(self, step: int, load: float, ready: list[float]) -> None:
        """One step for every Pod."""
        weights = [self._weights.setdefault(pod.name, self._draws.uniform(0.9, 1.1)) for pod in self._pods]
        total = sum(share * weight for share, weight in zip(ready, weights, strict=True)) or 1.0
        for number, pod in enumerate(self._pods):
            time = (step + 0.5) * STEP_S
            since = pod.running_since(time)
            if since is None:
                self._level.pop(number, None)
                pod.memory.append(0.0)
                pod.cpu.append(0.0)
                pod.load.append(0.0)
                continue
            share = load * ready[number] * weights[number] / total if ready[number] else 0.0
            pod.load.append(share)
            self._memory(step, number, pod, since, share)
            model = self._workload.cpu
            used = (model.base + model.per_rps * share + self._cpu_extra(time)) * (
                1 + model.noise * self._draws.normal()
            )
            limit = cores(pod.limits.cpu)
            pod.cpu.append(max(0.001, used if limit is None else min(used, limit * 0.995)))

    def _memory(self, step: int, number: int, pod: Pod, since: float, share: float) -> None:
        model = self._workload.memory
        time = (step + 0.5) * STEP_S
        target = model.base + model.per_rps * share + self._memory_extra(time)
        target += min(model.leak_max, model.leak_per_min * max(0.0, (time - since) / 60))
        begun, level = self._level.get(number, (since, None))
        if level is None or begun != since:
            fresh = since > 0
            level = model.started if fresh and model.started is not None else target
        level += model.pace * (target - level)
        level *= 1 + model.noise * 0.3 * self._draws.normal()
        self._level[number] = (since, level)
        limit = mebibytes(pod.limits.memory)
        if limit is not None and level > limit:
            # In the next step, so that its callers feel it; what is planned for then suffices.
            moment = (step + 1) * STEP_S + self._draws.uniform(0, 0.9 * STEP_S)
            if not any(time <= one.at < moment + STEP_S for one in pod.restarts):
                pod.kill(max(since + 0.8, moment), "OOMKilled", 137, memory_mib=limit)
            level = limit * 0.993
        pod.memory.append(level)
