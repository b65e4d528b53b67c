"""Single requests drawn from the step-by-step probabilities of the flow: spans, visits, failed attempts.

A fixed share of the traffic is drawn, so the drawn requests are an unbiased sample of what is counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from diagnose_bench.reconstruct.clock import STEP_S
from diagnose_bench.reconstruct.draws import Draws
from diagnose_bench.reconstruct.flow import Edge, Flow, newest_template
from diagnose_bench.reconstruct.pods import Pod
from diagnose_bench.reconstruct.spec_workload import Operation

PROXIES = ("nginx-ingress", "traefik", "balancer")
"""Voices of components that pass the path on and answer what they were answered."""

_CAUSE_STATUS = {"dns": 502, "nxdomain": 502, "connect": 502, "timeout": 504, "server": 502}


@dataclass
class Span:
    """One span before it is written."""

    span_id: str
    parent_id: str
    name: str
    kind: str
    service: str
    namespace: str
    pod: Pod | None
    start_s: float
    duration_ms: float
    error: bool
    attributes: dict[str, str | int]


@dataclass
class Failure:
    """One failed attempt as its caller saw it."""

    time: float
    pod: Pod
    operation: Operation
    edge: Edge
    cause: str
    status: int
    upstream: Pod | None
    trace_id: str
    duration_ms: float
    attempt: int
    path: str
    host: str


@dataclass
class Visit:
    """One request as the server's access log has it."""

    time: float
    pod: Pod
    operation: Operation
    status: int
    failed: bool
    own_failure: bool
    duration_ms: float
    trace_id: str
    path: str
    upstream: Pod | None


@dataclass
class Trace:
    """One drawn request."""

    trace_id: str
    time: float
    step: int
    spans: list[Span] = field(default_factory=list)
    visits: list[Visit] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    keep: float = 0.0
    """Uniform draw that decides whether the tracing pipeline keeps it."""


def draw_requests(flow: Flow) -> list[Trace]:
    """Requests of the whole window, in time order."""
    total = sum(flow.rate[entry][step] for entry in flow.entries for step in range(flow.n_steps)) * STEP_S
    if not total:
        return []
    ratio = flow.world.spec.sampling.requests / total
    traces: list[Trace] = []
    for entry in flow.entries:
        draws = flow.world.draws("requests", entry)
        operation = flow.operations[entry]
        for step in range(flow.n_steps):
            for _ in range(draws.count(flow.rate[entry][step] * STEP_S * ratio)):
                time = (step + draws.random()) * STEP_S
                trace = Trace(draws.hex(32), time, step, keep=draws.random())
                _Request(flow, trace, draws).serve(operation, time, "", operation.paths)
                traces.append(trace)
    traces.sort(key=lambda trace: (trace.time, trace.trace_id))
    return traces


class _Request:
    """One request on its way through the graph."""

    def __init__(self, flow: Flow, trace: Trace, draws: Draws) -> None:
        self._flow = flow
        self._trace = trace
        self._draws = draws

    def serve(
        self, operation: Operation, time: float, parent: str, paths: list[str]
    ) -> tuple[float, int, bool, Pod | None]:
        """Serve one request; returns duration in ms, status, whether it failed, and the Pod."""
        flow, draws, step = self._flow, self._draws, self._trace.step
        pod = self._pick(operation, time)
        newest = pod is not None and not operation.external and newest_template(flow.world, pod)
        slow, own_failure = flow.slow[operation.id][step], flow.own_failure[operation.id][step]
        if operation.trouble_of == "new" and not newest:
            slow, own_failure = flow.slow[operation.id][0], flow.own_failure[operation.id][0]
        own_time = draws.lognormal(operation.latency_ms * slow, operation.sigma)
        if operation.external or pod is None:
            failed = draws.chance(flow.failure[operation.id][step])
            return own_time, operation.error_status if failed else operation.success_status, failed, pod
        span_id = draws.hex(16)
        path = self._path(operation, paths)
        position = len(self._trace.spans)
        clock = time + own_time * 0.0004
        cause, upstream, failed = "", None, False
        status = operation.success_status
        if operation.other_share and draws.chance(self._flow.world.curve(operation.other_share, 0)(time)):
            status = operation.other_status
        for edge in flow.edges[operation.id]:
            if edge.call.revision and (edge.call.revision == "new") != newest:
                continue
            if not draws.chance(edge.call.share):
                continue
            elapsed, call_cause, called, answered = self._call(edge, pod, clock, span_id, path)
            clock += elapsed / 1000
            if pod.workload.voice in PROXIES and answered:
                status = answered
            upstream = called or upstream
            if call_cause and not edge.call.optional:
                cause, failed = call_cause, True
                break
        duration = (clock - time) * 1000 + own_time * 0.6
        # Own failures are independent of the calls' in the flow, so they are drawn always.
        own = draws.chance(own_failure)
        if failed:
            status = self._status(operation, cause)
        elif own:
            status = operation.error_status
        failed = failed or own
        attributes: dict[str, str | int] = {
            "http.response.status_code": status,
        }
        if own and operation.error_text:
            attributes["error.message"] = operation.error_text
        self._trace.spans.insert(
            position,
            Span(
                span_id,
                parent,
                operation.name,
                "SPAN_KIND_SERVER",
                pod.workload.name,
                pod.workload.namespace,
                pod,
                time,
                duration,
                failed,
                attributes,
            ),
        )
        self._trace.visits.append(
            Visit(
                time + duration / 1000, pod, operation, status, failed, own, duration,
                self._trace.trace_id, path, upstream,
            )
        )  # fmt: skip
        return duration, status, failed, pod

    def _call(
        self, edge: Edge, caller: Pod, time: float, parent: str, path: str
    ) -> tuple[float, str, Pod | None, int]:
        """All attempts of one call: elapsed ms, cause of the final failure or '', serving Pod, its status."""
        elapsed = 0.0
        cause = ""
        upstream: Pod | None = None
        answered = 0
        for attempt in range(edge.call.retries + 1):
            start = time + elapsed / 1000
            took, cause, upstream, answered = self._attempt(edge, caller, start, parent, attempt, path)
            elapsed += took + 2.0
            if not cause:
                break
        return elapsed, cause, upstream, answered

    def _attempt(
        self, edge: Edge, caller: Pod, time: float, parent: str, attempt: int, path: str
    ) -> tuple[float, str, Pod | None, int]:
        draws, step = self._draws, self._trace.step
        span_id = draws.hex(16)
        position = len(self._trace.spans)
        upstream: Pod | None = None
        cause = ""
        answered = 0
        if draws.chance(edge.dns[step]):
            cause, took = "dns", min(edge.call.timeout_ms, draws.lognormal(60, 1.3))
        elif draws.chance(edge.connect[step]):
            cause, took = "connect", min(edge.call.timeout_ms, draws.lognormal(8, 1.2))
            upstream = self._lost(edge.target, time)
        else:
            timed_out = draws.chance(edge.timeout[step])
            passed_on = [path] if caller.workload.voice in PROXIES else []
            served, answered, failed, upstream = self.serve(edge.target, time + 0.0006, span_id, passed_on)
            if timed_out:
                cause, took = "timeout", edge.call.timeout_ms + draws.uniform(0.2, 4)
            else:
                took = min(served + draws.uniform(0.3, 2.5), edge.call.timeout_ms * 0.995)
                cause = edge.target.error_cause if failed else ""
                answered = answered if not edge.target.external else 0
        host = edge.call.host or _host(edge.target)
        if cause == edge.target.error_cause and edge.call.failing_host:
            host = edge.call.failing_host
        attributes: dict[str, str | int] = {"server.address": host}
        if edge.target.external:
            attributes["peer.service"] = edge.target.workload.split("/")[-1]
        if cause == "server":
            attributes["http.response.status_code"] = answered or edge.target.error_status
        elif cause:
            attributes["error.type"] = _error_type(cause)
            attributes["exception.message"] = _message(cause, host)
        self._trace.spans.insert(
            position,
            Span(
                span_id,
                parent,
                edge.target.name,
                "SPAN_KIND_CLIENT",
                caller.workload.name,
                caller.workload.namespace,
                caller,
                time,
                took,
                bool(cause),
                attributes,
            ),
        )
        if cause:
            self._trace.failures.append(
                Failure(
                    time + took / 1000, caller, edge.source, edge, cause, edge.target.error_status,
                    upstream, self._trace.trace_id, took, attempt, path, host,
                )
            )  # fmt: skip
        return took, cause, upstream, answered

    def _status(self, operation: Operation, cause: str) -> int:
        workload = self._flow.world.workloads[operation.workload]
        if workload.voice in PROXIES:
            return _CAUSE_STATUS[cause]
        return 504 if cause == "timeout" and operation.error_status == 504 else operation.error_status

    def _pick(self, operation: Operation, time: float) -> Pod | None:
        pods = self._flow.world.pods.get(operation.workload, [])
        ready = [pod for pod in pods if pod.ready(time)]
        if not ready:
            ready = [pod for pod in pods if pod.exists(time)]
        return self._draws.choice(ready) if ready else None

    def _lost(self, operation: Operation, time: float) -> Pod | None:
        pods = [pod for pod in self._flow.world.pods.get(operation.workload, []) if pod.serves(time)]
        away = [pod for pod in pods if not pod.ready(time)]
        return self._draws.choice(away or pods) if pods else None

    def _path(self, operation: Operation, paths: list[str]) -> str:
        path = self._draws.choice(paths) if paths else operation.name.split()[-1]
        while "{" in path and "}" in path:
            head, rest = path.split("{", 1)
            path = f"{head}{self._draws.integer(1000, 98000)}{rest.split('}', 1)[1]}"
        return path


def _host(operation: Operation) -> str:
    namespace, _, name = operation.workload.partition("/")
    return f"{name}.{namespace}.svc.cluster.local"


def _error_type(cause: str) -> str:
    return {"dns": "EAI_AGAIN", "nxdomain": "ENOTFOUND", "connect": "ECONNREFUSED", "timeout": "ETIMEDOUT"}[
        cause
    ]


def _message(cause: str, host: str) -> str:
    return {
        "dns": f"getaddrinfo EAI_AGAIN {host}",
        "nxdomain": f"getaddrinfo ENOTFOUND {host}",
        "connect": f"connect ECONNREFUSED {host}",
        "timeout": f"deadline exceeded while waiting for {host}",
    }[cause]
