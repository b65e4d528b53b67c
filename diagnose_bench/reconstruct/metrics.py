"""Metrics of a simulated window: request counters, kube-state-metrics, cAdvisor, DNS, nodes, extra series."""

from __future__ import annotations

import math

from diagnose_bench.reconstruct.clock import STEP_S
from diagnose_bench.reconstruct.draws import Draws
from diagnose_bench.reconstruct.flow import Flow
from diagnose_bench.reconstruct.pods import Pod, cores, mebibytes
from diagnose_bench.reconstruct.requests import Trace
from diagnose_bench.reconstruct.spec import ExtraMetric
from diagnose_bench.reconstruct.store import MetricStore
from diagnose_bench.reconstruct.world import World

CALLS = "traces_span_metrics_calls_total"
DURATION = "traces_span_metrics_duration_milliseconds"
_BUCKETS = (50.0, 250.0, 1000.0, 5000.0)
_STATE_S = 300
_CLIMB_S = 420.0
"""How long a container takes from its usual working set to its limit, where a kill is planned."""
_OK, _ERROR = "STATUS_CODE_UNSET", "STATUS_CODE_ERROR"


def build_metrics(flow: Flow, traces: list[Trace]) -> MetricStore:
    """All series of the window, gaps already taken out."""
    store = MetricStore()
    _calls(flow, store)
    _durations(flow, traces, store)
    _pods(flow.world, store)
    _workloads(flow.world, store)
    _nodes(flow.world, store)
    _dns(flow, store)
    for extra in flow.world.spec.metrics:
        _extra(flow.world, extra, store)
    for gap in flow.world.spec.gaps:
        if gap.what != "alerts":
            clock = flow.world.clock
            store.drop(gap.names, clock.seconds(gap.start), clock.seconds(gap.end))
    return store


def _times(interval: int, length: int) -> list[int]:
    return list(range(0, length + 1, interval))


def _calls(flow: Flow, store: MetricStore) -> None:
    """Counters of the span-metrics connector: every span that services make, by kind and status."""
    fine = flow.world.spec.sampling.metric_interval_s
    series: list[tuple[dict[str, str], list[float], list[float]]] = []
    for operation in flow.operations.values():
        if operation.external or operation.workload not in flow.world.workloads:
            continue
        namespace, _, name = operation.workload.partition("/")
        base = {"namespace": namespace, "service_name": name, "span_name": operation.name}
        rate = flow.rate[operation.id]
        failed = [rate[step] * flow.failure[operation.id][step] for step in range(flow.n_steps)]
        series.append((base | {"span_kind": "SPAN_KIND_SERVER"}, rate, failed))
    merged: dict[tuple[str, str, str], tuple[list[float], list[float]]] = {}
    for edges in flow.edges.values():
        for edge in edges:
            namespace, _, name = edge.source.workload.partition("/")
            total, failures = merged.setdefault(
                (namespace, name, edge.target.name), ([0.0] * flow.n_steps, [0.0] * flow.n_steps)
            )
            for step in range(flow.n_steps):
                total[step] += edge.attempts[step]
                failures[step] += edge.attempts[step] * edge.attempt_failure(
                    step, flow.failure[edge.target.id][step]
                )
    for (namespace, name, span), (total, failures) in merged.items():
        labels = {
            "namespace": namespace,
            "service_name": name,
            "span_name": span,
            "span_kind": "SPAN_KIND_CLIENT",
        }
        series.append((labels, total, failures))
    draws = flow.world.draws("calls")
    for labels, rate, failed in series:
        good, bad = float(draws.integer(90000, 9000000)), float(draws.integer(20, 900))
        # A series exists from the first error on; most operations never had one.
        fails = sum(failed) * STEP_S >= 1
        interval = fine if labels["span_kind"] == "SPAN_KIND_SERVER" else 2 * fine
        for step in range(flow.n_steps + 1):
            if step * STEP_S % interval == 0:
                store.add(CALLS, labels | {"status_code": _OK}, step * STEP_S, good, 0)
                if fails:
                    store.add(CALLS, labels | {"status_code": _ERROR}, step * STEP_S, bad, 0)
            if step < flow.n_steps:
                errors = draws.arrivals(failed[step] * STEP_S) if fails else 0
                bad += errors
                good += draws.arrivals(max(0.0, rate[step] - failed[step]) * STEP_S)


def _durations(flow: Flow, traces: list[Trace], store: MetricStore) -> None:
    """Histograms per service, their shape from the drawn requests of the same two minutes."""
    blocks = 120 // STEP_S
    interval = flow.world.spec.sampling.metric_interval_s
    shapes: dict[tuple[str, str], dict[int, list[float]]] = {}
    for trace in traces:
        for span in trace.spans:
            if span.kind == "SPAN_KIND_SERVER":
                by_block = shapes.setdefault((span.namespace, span.service), {})
                by_block.setdefault(trace.step // blocks, []).append(span.duration_ms)
    draws = flow.world.draws("durations")
    for (namespace, service), by_block in sorted(shapes.items()):
        labels = {"namespace": namespace, "service_name": service}
        counts = [float(draws.integer(1000, 90000)) * (4 if bound > 100 else 1) for bound in _BUCKETS]
        counts = [sum(counts[: index + 1]) for index in range(len(counts))]
        total = counts[-1] + draws.integer(5, 90)
        summed = total * 80.0
        load = [
            sum(
                flow.rate[one.id][step]
                for one in flow.operations.values()
                if one.workload == f"{namespace}/{service}" and not one.external
            )
            for step in range(flow.n_steps)
        ]
        values = by_block[min(by_block)]
        for step in range(flow.n_steps + 1):
            if step * STEP_S % (2 * interval) == 0:
                for bound, count in zip((*_BUCKETS, None), (*counts, total), strict=True):
                    le = "+Inf" if bound is None else f"{bound:g}"
                    store.add(f"{DURATION}_bucket", labels | {"le": le}, step * STEP_S, count, 0)
                store.add(f"{DURATION}_sum", labels, step * STEP_S, summed, 0)
            if step < flow.n_steps:
                values = by_block.get(step // blocks, values)
                made = draws.count(load[step] * STEP_S)
                total += made
                if values:
                    summed += made * sum(values) / len(values)
                    for index, bound in enumerate(_BUCKETS):
                        counts[index] += int(
                            made * sum(value <= bound for value in values) / len(values) + 0.5
                        )
                counts = [min(count, total) for count in counts]


def _pods(world: World, store: MetricStore) -> None:
    """Series of cAdvisor and kube-state-metrics, each with its own interval."""
    interval = world.spec.sampling.pod_interval_s
    for pod in world.all_pods():
        draws = world.draws("pod-metrics", pod.workload.namespace, pod.name)
        used = draws.uniform(500, 90000)
        periods = float(draws.integer(100000, 900000))
        throttled = periods * pod.workload.cpu.throttled
        base = {"namespace": pod.workload.namespace, "pod": pod.name}
        main = base | {"container": pod.container}
        last_since: float | None = None
        for time in _times(STEP_S, world.clock.length_s):
            step = min(time // STEP_S, len(pod.cpu) - 1)
            since = pod.running_since(time)
            if since is not None and last_since is not None and since != last_since:
                used = 0.0
            last_since = since if since is not None else last_since
            if since is not None and time % interval == 0:
                for name, level in _levels(pod, step, draws):
                    value = _leading_up(pod, name, time, level) * 1048576
                    named = base | {"container": name}
                    store.add("container_memory_working_set_bytes", named, time, value, 0)
                if time % (2 * interval) == 0:
                    store.add("container_cpu_usage_seconds_total", main, time, used, 2)
                if throttled:
                    store.add("container_cpu_cfs_periods_total", main, time, periods, 0)
                    store.add("container_cpu_cfs_throttled_periods_total", main, time, throttled, 0)
            if time % _STATE_S == 0 and pod.exists(time):
                _state(pod, time, base, main, store)
            used += (pod.cpu[step] if since is not None else 0.0) * STEP_S
            periods += 150
            throttled += 150 * pod.workload.cpu.throttled * draws.uniform(0.9, 1.1)


def _levels(pod: Pod, step: int, draws: Draws) -> list[tuple[str, float]]:
    """Working set of each container in MiB, without what leads up to a planned kill."""
    beside = [
        (sidecar.name, sidecar.memory_mib * draws.uniform(0.99, 1.01)) for sidecar in pod.workload.sidecars
    ]
    return [(pod.container, pod.memory[step]), *beside]


def _leading_up(pod: Pod, container: str, time: float, level: float) -> float:
    """The working set on its way to the limit before a planned kill for memory."""
    end = pod.next_end(time, container)
    if end is None or not end.planned or end.reason != "OOMKilled":
        return level
    left = (end.at - time) / _CLIMB_S
    return level + math.pow(max(0.0, 1 - left), 1.3) * max(0.0, 0.985 * end.memory_mib - level)


def _state(pod: Pod, time: float, base: dict[str, str], main: dict[str, str], store: MetricStore) -> None:
    """kube-state-metrics of one Pod; reasons only where something ever ended."""
    for name in (pod.container, *(one.name for one in pod.workload.sidecars)):
        labels = base | {"container": name}
        store.add("kube_pod_container_status_restarts_total", labels, time, pod.n_restarts(time, name), 0)
        last = pod.last_restart(time, name)
        if last is not None and time >= last.back_at:
            reason = labels | {"reason": last.reason}
            store.add("kube_pod_container_status_last_terminated_reason", reason, time, 1, 0)
    if pod.completed is None:
        store.add("kube_pod_status_ready", base | {"condition": "true"}, time, float(pod.ready(time)), 0)
    if pod.restarts:
        waiting = main | {"reason": "CrashLoopBackOff"}
        store.add("kube_pod_container_status_waiting_reason", waiting, time, float(pod.in_back_off(time)), 0)


def _workloads(world: World, store: MetricStore) -> None:
    for key, workload in world.workloads.items():
        labels = {"namespace": workload.namespace}
        for time in _times(240, world.clock.length_s):
            alive = [pod for pod in world.pods[key] if pod.exists(time)]
            ready = sum(pod.ready(time) for pod in alive)
            wanted = _wanted(world, key, time)
            if workload.kind == "Deployment":
                named = labels | {"deployment": workload.name}
                store.add("kube_deployment_spec_replicas", named, time, wanted, 0)
                store.add("kube_deployment_status_replicas_available", named, time, ready, 0)
            elif workload.kind == "DaemonSet" and time % 300 == 0:
                named = labels | {"daemonset": workload.name}
                store.add("kube_daemonset_status_number_available", named, time, ready, 0)
            if workload.autoscaler:
                named = labels | {"horizontalpodautoscaler": workload.name}
                store.add("kube_horizontalpodautoscaler_status_current_replicas", named, time, len(alive), 0)
                store.add("kube_horizontalpodautoscaler_status_desired_replicas", named, time, wanted, 0)
                store.add(
                    "kube_horizontalpodautoscaler_spec_max_replicas", named, time, workload.autoscaler.max, 0
                )
        for pod in world.pods[key]:
            limit, cpu = mebibytes(pod.limits.memory), cores(pod.limits.cpu)
            for time in _times(1350, world.clock.length_s):
                main = {"namespace": workload.namespace, "pod": pod.name, "container": pod.container}
                if pod.exists(time) and limit is not None:
                    store.add(
                        "kube_pod_container_resource_limits", main | {"resource": "memory", "unit": "byte"},
                        time, limit * 1048576, 0,
                    )  # fmt: skip
                if pod.exists(time) and cpu is not None:
                    store.add(
                        "kube_pod_container_resource_limits",
                        main | {"resource": "cpu", "unit": "core"},
                        time,
                        cpu,
                    )


def _wanted(world: World, key: str, time: float) -> int:
    wanted = world.workloads[key].replicas
    for scale in world.spec.scales:
        if scale.workload == key and world.clock.seconds(scale.at) <= time:
            wanted = scale.to
    return wanted


def _nodes(world: World, store: MetricStore) -> None:
    """Node series: what the Pods use, and what the system and everybody else use beside them."""
    pods = world.all_pods()
    for node in world.nodes:
        draws = world.draws("node-metrics", node.name)
        busy = world.curve(node.cpu_points, draws.uniform(0.25, 0.5))
        capacity = node.memory_gib * 1024.0
        here = [pod for pod in pods if pod.node == node.name]
        system = draws.uniform(0.08, 0.12) * capacity
        if node.role == "worker":
            # Workers run Pods of many more namespaces than are shown.
            system += draws.uniform(0.1, 0.25) * capacity
        idle = draws.uniform(1e6, 9e6)
        for time in _times(120, world.clock.length_s):
            share = min(0.999, busy(time) * draws.uniform(0.97, 1.03))
            idle += node.cpu * 120 * (1 - share)
            load = share * node.cpu * draws.uniform(0.9, 1.3)
            labels = {"instance": node.name}
            store.add("node_cpu_seconds_total", labels | {"mode": "idle"}, time, idle, 2)
            store.add("node_load1", labels, time, load, 2)
            step = min(time // STEP_S, world.clock.n_steps - 1)
            used = sum(
                pod.memory[step] + sum(one.memory_mib for one in pod.workload.sidecars)
                for pod in here
                if pod.memory[step]
            )
            available = max(0.02 * capacity, capacity - system - used) * draws.uniform(0.995, 1.005)
            store.add("node_memory_MemAvailable_bytes", labels, time, available * 1048576, 0)
    for job in ("kube-state-metrics", "node-exporter", "kubelet", "coredns", "apiserver", "otel-collector"):
        for time in _times(120, world.clock.length_s):
            value = 1.0
            if job == "coredns" and "kube-system/coredns" in world.pods:
                value = float(
                    any(pod.running_since(time) is not None for pod in world.pods["kube-system/coredns"])
                )
            store.add("up", {"job": job}, time, value, 0)


def _dns(flow: Flow, store: MetricStore) -> None:
    dns = flow.world.spec.dns
    if dns is None:
        return
    interval = flow.world.spec.sampling.metric_interval_s
    pods = flow.world.pods[dns.server]
    draws = flow.world.draws("dns-metrics")
    scale = dns.metric_scale
    for pod in pods:
        total = float(draws.integer(1000000, 90000000))
        usual = flow.dns_missing[0]
        answers = {"NOERROR": total * (0.998 - usual), "NXDOMAIN": total * usual, "SERVFAIL": total * 0.002}
        since = pod.running_since(0)
        for step in range(flow.n_steps + 1):
            time = step * STEP_S
            now = pod.running_since(time)
            if now is None or not pod.exists(time):
                continue
            if since is not None and now != since:
                total, answers = 0.0, dict.fromkeys(answers, 0.0)
            since = now
            if time % interval == 0:
                labels = {"pod": pod.name, "server": "dns://:53"}
                store.add("coredns_dns_requests_total", labels, time, total, 0)
                for code, value in answers.items():
                    store.add("coredns_dns_responses_total", labels | {"rcode": code}, time, value, 0)
            if step < flow.n_steps:
                made = draws.arrivals(pod.load[step] * STEP_S * scale)
                total += made
                broken = 0.0012 + 0.03 * flow.dns_failure[step]
                missing = flow.dns_missing[step] * (1 - broken) * draws.uniform(0.985, 1.015)
                for code, share in (
                    ("NOERROR", 1 - missing - broken),
                    ("NXDOMAIN", missing),
                    ("SERVFAIL", broken * draws.uniform(0.5, 1.5)),
                ):
                    answers[code] += int(made * share)


def _extra(world: World, extra: ExtraMetric, store: MetricStore) -> None:
    interval = world.spec.sampling.metric_interval_s
    curve = world.curve(extra.points, 0)
    draws = world.draws(
        "extra", extra.name, *(f"{key}={value}" for key, value in sorted(extra.labels.items()))
    )
    value = extra.start
    for time in _times(interval, world.clock.length_s):
        noisy = 1 + extra.noise * draws.normal()
        if extra.kind == "gauge":
            store.add(extra.name, extra.labels, time, curve(time) * noisy, extra.digits)
        else:
            store.add(extra.name, extra.labels, time, value, 0)
            value += draws.count(max(0.0, curve(time + interval / 2) * interval * noisy))
