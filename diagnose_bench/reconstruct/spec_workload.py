"""The part of a specification about workloads and the requests between them. Validation only."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict

from diagnose_bench.reconstruct.clock import parse_moment


def _check_clock(text: str) -> str:
    if "T" in text:
        parse_moment(text)
    elif not re.fullmatch(r"([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?", text):
        raise ValueError("a clock is written HH:MM or HH:MM:SS, in quotes")
    return text


ClockText = Annotated[str, AfterValidator(_check_clock)]
"""``HH:MM[:SS]`` of the day nearest the window, or RFC 3339."""

Points = list[tuple[ClockText, float]]
"""A curve as [clock, value] pairs, the clock as ``HH:MM[:SS]``."""


def _check_key(text: str) -> str:
    if text.count("/") != 1:
        raise ValueError("a workload is written namespace/name")
    return text


WorkloadKey = Annotated[str, AfterValidator(_check_key)]


class SpecModel(BaseModel):
    """A part of a specification; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Resources(SpecModel):
    """Quantities as Kubernetes writes them."""

    cpu: str | None = None
    memory: str | None = None


class Memory(SpecModel):
    """Working set of one Pod in MiB: base + per_rps x load + leak x uptime + extra(t), with noise."""

    base: float = 64
    per_rps: float = 0
    leak_per_min: float = 0
    leak_max: float = 1e9
    extra: Points = []
    noise: float = 0.01
    started: float | None = None
    """Working set just after a start, where it differs from the base."""
    pace: float = 0.6
    """Share of the way to its target that the working set goes in one simulation step."""


class Cpu(SpecModel):
    """Cores of one Pod: base + per_rps x load + extra(t), with noise."""

    base: float = 0.02
    per_rps: float = 0
    extra: Points = []
    noise: float = 0.05
    throttled: float = 0
    """Share of throttled CFS periods; 0 writes no throttling series."""


class Probe(SpecModel):
    """HTTP readiness and liveness probe."""

    path: str = "/healthz"
    liveness_path: str | None = None
    """Where it differs from the readiness probe's."""
    port: int | None = None
    """The main container's own port when not given, by its name."""
    scheme: Literal["HTTP", "HTTPS"] = "HTTP"
    timeout_s: int = 1


class Container(SpecModel):
    """A second container of a Pod."""

    name: str
    image: str
    requests: Resources = Resources()
    limits: Resources = Resources()
    args: list[str] = []
    memory_mib: float = 40
    port: int | None = None
    """The port behind the Service, where a second container serves it."""


class Autoscaler(SpecModel):
    """HorizontalPodAutoscaler on CPU."""

    min: int
    max: int
    target_cpu: int = 70


_PORT_NAMES = {
    53: "dns", 443: "https", 2222: "ssh", 4317: "otlp-grpc", 5432: "postgresql", 6379: "redis",
    6443: "https", 8075: "grpc", 8443: "https", 9000: "fastcgi", 9443: "https", 10250: "https",
    11211: "memcache", 11213: "memcache",
}  # fmt: skip


class Workload(SpecModel):
    """A controller and its Pods."""

    namespace: str
    name: str
    kind: Literal["Deployment", "StatefulSet", "DaemonSet", "CronJob", "Static"] = "Deployment"
    replicas: int = 1
    image: str
    container: str | None = None
    port: int | None = None
    service: bool = True
    requests: Resources = Resources()
    limits: Resources = Resources()
    env: dict[str, str] = {}
    env_from: list[str] = []
    command: list[str] = []
    args: list[str] = []
    config_maps: list[str] = []
    secrets: list[str] = []
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    probe: Probe | None = None
    sidecars: list[Container] = []
    days_ago: float = 40
    """Age of the controller; Pods are younger."""
    pods_days_ago: float | list[float] | None = None
    """Age of the Pods, or of each Pod."""
    priority_class: str | None = None
    nodes: Literal["workers", "control-plane", "all"] = "workers"
    host_network: bool = False
    memory: Memory = Memory()
    cpu: Cpu = Cpu()
    capacity_rps: float | None = None
    """Load that one Pod can serve; more is turned away."""
    ready_after_s: float = 8
    voice: str = "logfmt"
    autoscaler: Autoscaler | None = None
    min_available: int | None = None
    schedule: str | None = None
    restarts: list[int] = []
    """Restart counts before the window, Pod by Pod."""
    pod_annotations: dict[str, str] = {}
    pod_spec: dict[str, Any] = {}
    """Merged into the pod template's spec as it is."""
    storage: str | None = None
    """Size of each Pod's volume; StatefulSets only."""

    @property
    def port_name(self) -> str:
        """Name of the main container's port."""
        return _PORT_NAMES.get(self.port or 0, "http")

    @property
    def serving_port(self) -> int:
        """Port that clients reach."""
        behind = [one.port for one in self.sidecars if one.port]
        return behind[0] if behind else self.port or 8080

    @property
    def probe_port(self) -> int:
        """Port that the kubelet asks."""
        return (self.probe.port if self.probe else None) or self.port or 8080

    @property
    def images(self) -> list[tuple[str, str]]:
        """Containers with their images, the main one first."""
        return [(self.container or self.name, self.image), *((one.name, one.image) for one in self.sidecars)]


class Call(SpecModel):
    """One call that an operation makes."""

    to: str
    share: float = 1.0
    timeout_ms: float = 2000
    retries: int = 0
    optional: bool = False
    """A failed optional call does not fail the caller."""
    lookups: float = 0
    """DNS queries per attempt."""
    fresh: float = 0
    """Share of attempts that cannot go on without a fresh DNS answer."""
    host: str | None = None
    """Host name the caller uses, for its messages."""
    failing_host: str | None = None
    """Host name of the attempts that the target fails, where it is another one."""
    revision: Literal["old", "new"] | None = None
    """Only Pods of the template before, or after, the window's rollout make this call."""
    stalls: Points = []
    """Share of attempts that the caller itself is too slow for: the target answers, the time is over."""


class Operation(SpecModel):
    """A request handler of a workload."""

    id: str
    workload: WorkloadKey
    name: str
    latency_ms: float
    sigma: float = 0.5
    calls: list[Call] = []
    rps: float | None = None
    """Requests per second from outside; only for entry operations."""
    profile: Points = []
    """Factor on `rps` over time."""
    client_retry: float = 0
    """Extra requests per failed one, of the clients outside."""
    errors: Points = []
    error_status: int = 500
    error_text: str = ""
    error_cause: Literal["server", "dns", "nxdomain", "connect", "timeout"] = "server"
    """How a failure of an uninstrumented operation looks to its caller."""
    slow: Points = []
    """Factor on the latency over time."""
    trouble_of: Literal["all", "new"] = "all"
    """Whether `errors` and `slow` concern all Pods or only those of the newest template."""
    success_status: int = 200
    other_status: int = 404
    other_share: Points = []
    """Share of requests that are answered with `other_status`, which is no server error."""
    size: int = 1500
    external: bool = False
    """Not instrumented or outside the cluster: no server span."""
    agents: list[str] = []
    """User agents of the clients, for access logs."""
    paths: list[str] = []
    """Paths for access logs, where the name's own is a pattern."""
