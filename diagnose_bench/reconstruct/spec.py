"""The declarative incident: what a specification may say. Validation only; nothing is simulated here."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, ValidationError, model_validator

from diagnose_bench.errors import SuiteError
from diagnose_bench.files import read_bytes
from diagnose_bench.reconstruct.clock import Clock, parse_moment
from diagnose_bench.reconstruct.spec_workload import (
    ClockText,
    Operation,
    Points,
    SpecModel,
    Workload,
    WorkloadKey,
)


class Dns(SpecModel):
    """The cluster's resolver."""

    server: WorkloadKey = "kube-system/coredns"
    background_rps: float = 200
    extra: Points = Field(default_factory=list)
    retry_factor: float = 1.0
    """Extra queries per failed one."""
    metric_scale: float = 1.0


class Rollout(SpecModel):
    """A new ReplicaSet replaces the Pods one by one."""

    at: ClockText
    workload: WorkloadKey
    pace_s: float = 20
    previous: dict[str, Any] = Field(default_factory=dict)
    """Fields of the workload as they were before (image, env, limits ...)."""
    ready_after: int | None = None
    """Number of new Pods that still become ready; later ones hang until the end."""
    why: Literal["rollout", "restart"] = "rollout"
    blocked: str | None = None
    """No Pod of the new ReplicaSet can be created: the API server's message."""


class Kill(SpecModel):
    """Containers that end, and start again with back-off."""

    workload: WorkloadKey
    at: list[ClockText]
    pods: list[int] | None = None
    container: str | None = None
    reason: Literal["OOMKilled", "Error", "Completed"] = "OOMKilled"
    exit_code: int = 137
    probe: bool = False
    """Killed by the kubelet after failed liveness probes."""
    last_words: str = ""
    """The line that the container writes before it ends."""


class Scale(SpecModel):
    """The number of replicas changes."""

    at: ClockText
    workload: WorkloadKey
    to: int
    by_autoscaler: bool = True


class Drain(SpecModel):
    """A node is cordoned and its Pods move."""

    at: ClockText
    node: str
    pace_s: float = 12
    uncordon_at: ClockText | None = None


class NotReady(SpecModel):
    """Pods that run but fail their readiness probe for a while."""

    workload: WorkloadKey
    start: ClockText
    end: ClockText
    share: float = 1.0
    message: str = "Readiness probe failed: HTTP probe failed with statuscode: 503"
    """``{probe}`` stands for the URL of the Pod's own probe."""


class Failing(SpecModel):
    """Short-lived Pods that cannot start (image pull), made by another workload."""

    namespace: str
    prefix: str
    image: str
    start: ClockText
    every_s: float
    message: str
    labels: dict[str, str] = Field(default_factory=dict)
    success_before: bool = True
    life_s: float = 150


class Change(SpecModel):
    """One revision of an object."""

    at: ClockText
    entity: str
    who: str
    patch: list[dict[str, Any]]


class ExtraEvent(SpecModel):
    """Kubernetes Events that follow from no mechanism of the engine."""

    entity: str
    type: Literal["Normal", "Warning"] = "Normal"
    reason: str
    message: str
    component: str
    host: str | None = None
    first: ClockText
    last: ClockText | None = None
    count: int = 1


class ExtraMetric(SpecModel):
    """A series that follows from no mechanism of the engine."""

    name: str
    labels: dict[str, str] = Field(default_factory=dict)
    kind: Literal["gauge", "counter"] = "gauge"
    points: Points
    """Value of a gauge, rate per second of a counter."""
    noise: float = 0
    digits: int = 3
    start: float = 0
    """Value of the counter at the window's start."""


class ExtraLog(SpecModel):
    """Log lines that follow from no simulated request."""

    workload: str
    """namespace/workload of the file."""
    level: str = ""
    texts: list[str]
    every_s: float | None = None
    """Mean interval, constant over the window ..."""
    rate: Points = Field(default_factory=list)
    """... or lines per second over time."""
    jitter: bool = True
    sequence: bool = False
    """Take the texts in turn, not at random."""
    pods: Literal["all", "old", "new"] = "all"
    """Pods of the template before, or after, the window's rollout."""
    watches: WorkloadKey | None = None
    """Health checks of another workload: `texts` while its Pod is ready ({ip} is that Pod's) ..."""
    down_texts: list[str] = Field(default_factory=list)
    """... and these when it is not."""


class Rule(SpecModel):
    """An alerting rule, as in a PrometheusRule."""

    alert: str
    expr: str
    wait: str = Field(alias="for", default="0s")
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class RuleGroup(SpecModel):
    """Rules of one PrometheusRule object."""

    object: str
    """namespace/name of the PrometheusRule."""
    group: str
    rules: list[Rule]


class Gap(SpecModel):
    """Telemetry that is missing."""

    what: Literal["metrics", "alerts", "both"]
    start: ClockText
    end: ClockText
    names: list[str] = Field(default_factory=list)
    """Metrics concerned; all when empty."""


class Window(SpecModel):
    """RFC 3339, UTC."""

    start: str
    detected_at: str
    end: str


class Node(SpecModel):
    """A machine of the cluster."""

    name: str
    role: Literal["worker", "control-plane"] = "worker"
    instance: str = "m5.xlarge"
    cpu: int = 4
    memory_gib: int = 16
    zone: str = "a"
    days_ago: float = 35
    cpu_points: Points = Field(default_factory=list)
    """Busy share over time."""


class Cluster(SpecModel):
    """Nodes and the parts that every cluster has."""

    version: str = "v1.27.8"
    region: str = "eu-central-1"
    domain: str = "internal"
    nodes: list[Node]
    platform: list[str]
    """Standard workloads to include, by their name in the platform module."""
    override: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Fields of standard workloads that differ here."""
    pod_network: str = "10.244"
    service_network: str = "10.96"


class Sampling(SpecModel):
    """How much of the traffic the pipelines kept."""

    requests: int = 4200
    """Requests drawn; histograms and logs come from them, a part is kept as traces."""
    spans: int = 2150
    access_lines: int = 1400
    errors_per_min: int = 10
    """Cap of error lines per workload and minute (the log shipper's throttle)."""
    metric_interval_s: int = 60
    pod_interval_s: int = 150


class Specification(SpecModel):
    """One incident, from cluster to truth."""

    format_version: Literal[1]
    scenario_id: str
    seed: int
    canary: str
    window: Window
    cluster: Cluster
    workloads: list[Workload]
    operations: list[Operation] = Field(default_factory=list)
    dns: Dns | None = None
    objects: list[dict[str, Any]] = Field(default_factory=list)
    rollouts: list[Rollout] = Field(default_factory=list)
    kills: list[Kill] = Field(default_factory=list)
    scales: list[Scale] = Field(default_factory=list)
    drains: list[Drain] = Field(default_factory=list)
    not_ready: list[NotReady] = Field(default_factory=list)
    failing: list[Failing] = Field(default_factory=list)
    changes: list[Change] = Field(default_factory=list)
    events: list[ExtraEvent] = Field(default_factory=list)
    metrics: list[ExtraMetric] = Field(default_factory=list)
    logs: list[ExtraLog] = Field(default_factory=list)
    rules: list[RuleGroup] = Field(default_factory=list)
    omit_rules: list[str] = Field(default_factory=list)
    """Standard alerts that this cluster does not have."""
    since: dict[str, ClockText] = Field(default_factory=dict)
    """Alerts that fired before the window: alert name -> start."""
    gaps: list[Gap] = Field(default_factory=list)
    topology: list[tuple[str, str, str]] = Field(default_factory=list)
    """Further edges (source, relation, target) that an inventory tool would know."""
    sampling: Sampling = Sampling()
    truth: dict[str, Any]

    @model_validator(mode="after")
    def _detected_inside(self) -> Specification:
        clock = self.clock()
        if not clock.start < clock.detected_at < clock.end:
            raise ValueError("window: start < detected_at < end does not hold")
        return self

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
        return Specification.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SuiteError(f"{path}: $.{where}: {first['msg']}. Correct the specification.") from error
