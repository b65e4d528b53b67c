"""The declarative incident: what a specification may say. Validation only; nothing is simulated here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from diagnose_bench.errors import SuiteError
from diagnose_bench.files import read_bytes
from diagnose_bench.reconstruct.clock import Clock, parse_moment

Points = list[tuple[str, float]]
"""A curve as [clock, value] pairs, the clock as ``HH:MM[:SS]``."""


def _check_key(text: str) -> str:
    if text.count("/") != 1:
        raise ValueError("a workload is written namespace/name")
    return text


WorkloadKey = Annotated[str, AfterValidator(_check_key)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Resources(_Model):
    """Quantities as Kubernetes writes them."""

    cpu: str | None = None
    memory: str | None = None


class Memory(_Model):
    """Working set of one Pod in MiB: base + per_rps x load + leak x uptime + extra(t), with noise."""

    base: float = 64
    per_rps: float = 0
    leak_per_min: float = 0
    leak_max: float = 1e9
    extra: Points = []
    noise: float = 0.01
    started: float | None = None
    """Working set just after a start, where it differs from the base."""


class Cpu(_Model):
    """Cores of one Pod: base + per_rps x load + extra(t), with noise."""

    base: float = 0.02
    per_rps: float = 0
    extra: Points = []
    noise: float = 0.05
    throttled: float = 0
    """Share of throttled CFS periods; 0 writes no throttling series."""


class Probe(_Model):
    """HTTP readiness and liveness probe."""

    path: str = "/healthz"
    port: int | str = "http"
    timeout_s: int = 1


class Container(_Model):
    """A second container of a Pod."""

    name: str
    image: str
    requests: Resources = Resources()
    limits: Resources = Resources()
    args: list[str] = []
    memory_mib: float = 40


class Autoscaler(_Model):
    """HorizontalPodAutoscaler on CPU."""

    min: int
    max: int
    target_cpu: int = 70


class Workload(_Model):
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
    pods_days_ago: float | None = None
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
    injected_limits: Resources | None = None
    """Limits that admission gives the Pods while the template has none."""
    injected_from: int = 0
    """First Pod (by index) that has them."""


class Call(_Model):
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
    dns_profile: Points = []
    """Factor on `lookups` and `fresh` over time."""
    host: str | None = None
    """Host name the caller uses, for its messages."""
    host_changes: list[tuple[str, str]] = []
    """[clock, host]: later values of `host`."""


class Operation(_Model):
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
    error_cause: Literal["server", "dns", "connect", "timeout"] = "server"
    """How a failure of an uninstrumented operation looks to its caller."""
    slow: Points = []
    """Factor on the latency over time."""
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


class Dns(_Model):
    """The cluster's resolver."""

    server: WorkloadKey = "kube-system/coredns"
    background_rps: float = 200
    extra: Points = []
    retry_factor: float = 1.0
    """Extra queries per failed one."""
    metric_scale: float = 1.0


class Rollout(_Model):
    """A new ReplicaSet replaces the Pods one by one."""

    at: str
    workload: WorkloadKey
    pace_s: float = 20
    previous: dict[str, Any] = {}
    """Fields of the workload as they were before (image, env, limits ...)."""
    ready_after: int | None = None
    """Number of new Pods that still become ready; later ones hang until the end."""
    why: Literal["rollout", "restart"] = "rollout"
    revision: int | None = None


class Kill(_Model):
    """Containers that end, and start again with back-off."""

    workload: WorkloadKey
    at: list[str]
    pods: list[int] | None = None
    container: str | None = None
    reason: Literal["OOMKilled", "Error", "Completed"] = "OOMKilled"
    exit_code: int = 137
    probe: bool = False
    """Killed by the kubelet after failed liveness probes."""


class Scale(_Model):
    """The number of replicas changes."""

    at: str
    workload: WorkloadKey
    to: int
    by_autoscaler: bool = True


class Drain(_Model):
    """A node is cordoned and its Pods move."""

    at: str
    node: str
    pace_s: float = 12
    uncordon_at: str | None = None


class NotReady(_Model):
    """Pods that run but fail their readiness probe for a while."""

    workload: WorkloadKey
    start: str
    end: str
    share: float = 1.0
    message: str = "Readiness probe failed: HTTP probe failed with statuscode: 503"


class Failing(_Model):
    """Short-lived Pods that cannot start (image pull), made by another workload."""

    namespace: str
    prefix: str
    image: str
    start: str
    every_s: float
    message: str
    labels: dict[str, str] = {}
    success_before: bool = True
    life_s: float = 150


class Change(_Model):
    """One revision of an object."""

    at: str
    entity: str
    who: str
    patch: list[dict[str, Any]]


class ExtraEvent(_Model):
    """Kubernetes Events that follow from no mechanism of the engine."""

    entity: str
    type: Literal["Normal", "Warning"] = "Normal"
    reason: str
    message: str
    component: str
    host: str | None = None
    first: str
    last: str | None = None
    count: int = 1


class ExtraMetric(_Model):
    """A series that follows from no mechanism of the engine."""

    name: str
    labels: dict[str, str] = {}
    kind: Literal["gauge", "counter"] = "gauge"
    points: Points
    """Value of a gauge, rate per second of a counter."""
    noise: float = 0
    digits: int = 3
    start: float = 0
    """Value of the counter at the window's start."""


class ExtraLog(_Model):
    """Log lines that follow from no simulated request."""

    workload: str
    """namespace/workload of the file."""
    level: str = ""
    texts: list[str]
    every_s: float | None = None
    """Mean interval, constant over the window ..."""
    rate: Points = []
    """... or lines per second over time."""
    jitter: bool = True
    sequence: bool = False
    """Take the texts in turn, not at random."""


class Rule(_Model):
    """An alerting rule, as in a PrometheusRule."""

    alert: str
    expr: str
    wait: str = Field(alias="for", default="0s")
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class RuleGroup(_Model):
    """Rules of one PrometheusRule object."""

    object: str
    """namespace/name of the PrometheusRule."""
    group: str
    rules: list[Rule]


class Gap(_Model):
    """Telemetry that is missing."""

    what: Literal["metrics", "alerts", "both"]
    start: str
    end: str
    names: list[str] = []
    """Metrics concerned; all when empty."""


class Window(_Model):
    """RFC 3339, UTC."""

    start: str
    detected_at: str
    end: str


class Node(_Model):
    """A machine of the cluster."""

    name: str
    role: Literal["worker", "control-plane"] = "worker"
    instance: str = "m5.xlarge"
    cpu: int = 4
    memory_gib: int = 16
    zone: str = "a"
    days_ago: float = 35
    cpu_points: Points = []
    """Busy share over time."""


class Cluster(_Model):
    """Nodes and the parts that every cluster has."""

    version: str = "v1.27.8"
    region: str = "eu-central-1"
    domain: str = "internal"
    nodes: list[Node]
    platform: list[str]
    """Standard workloads to include, by their name in the platform module."""
    override: dict[str, dict[str, Any]] = {}
    """Fields of standard workloads that differ here."""
    pod_network: str = "10.244"
    service_network: str = "10.96"


class Sampling(_Model):
    """How much of the traffic the pipelines kept."""

    requests: int = 4200
    """Requests drawn; histograms and logs come from them, a part is kept as traces."""
    spans: int = 2150
    access_lines: int = 1400
    errors_per_min: int = 10
    """Cap of error lines per workload and minute (the log shipper's throttle)."""
    metric_interval_s: int = 60
    pod_interval_s: int = 150


class Specification(_Model):
    """One incident, from cluster to truth."""

    format_version: Literal[1]
    scenario_id: str
    seed: int
    canary: str
    window: Window
    cluster: Cluster
    workloads: list[Workload]
    operations: list[Operation] = []
    dns: Dns | None = None
    objects: list[dict[str, Any]] = []
    rollouts: list[Rollout] = []
    kills: list[Kill] = []
    scales: list[Scale] = []
    drains: list[Drain] = []
    not_ready: list[NotReady] = []
    failing: list[Failing] = []
    changes: list[Change] = []
    events: list[ExtraEvent] = []
    metrics: list[ExtraMetric] = []
    logs: list[ExtraLog] = []
    rules: list[RuleGroup] = []
    omit_rules: list[str] = []
    """Standard alerts that this cluster does not have."""
    since: dict[str, str] = {}
    """Alerts that fired before the window: alert name -> start."""
    gaps: list[Gap] = []
    topology: list[tuple[str, str, str]] = []
    """Further edges (source, relation, target) that an inventory tool would know."""
    sampling: Sampling = Sampling()
    truth: dict[str, Any]

    def clock(self) -> Clock:
        """The window."""
        return Clock(
            parse_moment(self.window.start),
            parse_moment(self.window.detected_at),
            parse_moment(self.window.end),
        )


def load_specification(path: Path) -> Specification:
    """Read a specification.

    Raises
    ------
    SuiteError
        No YAML, or not of the model; the message has the path inside the file.
    """
    data = read_bytes(path, "specification")
    try:
        document = yaml.safe_load(data)
    except yaml.YAMLError as error:
        raise SuiteError(f"{path}: the specification is not YAML: {error}") from error
    try:
        specification = Specification.model_validate(document)
        specification.clock()
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SuiteError(f"{path}: $.{where}: {first['msg']}. Correct the specification.") from error
    except ValueError as error:
        raise SuiteError(f"{path}: $.window: {error}. Write RFC 3339 with a zone.") from error
    return specification
