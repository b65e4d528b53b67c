"""Pods over time: identity, when they run and are ready, container restarts with Kubernetes' back-off."""

from __future__ import annotations

from dataclasses import dataclass, field

from diagnose_bench.reconstruct.admission import Admitted
from diagnose_bench.reconstruct.clock import STEP_S
from diagnose_bench.reconstruct.spec_workload import Probe, Resources, Workload

BACK_OFF_S = (1.5, 11.0, 22.0, 43.0, 84.0, 166.0, 305.0)
"""Seconds until the kubelet starts a container again: at once, then 10 s doubled up to five minutes."""

BACK_OFF_RESET_S = 600.0

_UNITS = {"Ki": 1 / 1024, "Mi": 1.0, "Gi": 1024.0, "M": 1e6 / 1048576, "G": 1e9 / 1048576}


def mebibytes(quantity: str | None) -> float | None:
    """A Kubernetes memory quantity in MiB."""
    if quantity is None:
        return None
    for unit, factor in _UNITS.items():
        if quantity.endswith(unit):
            return float(quantity[: -len(unit)]) * factor
    return float(quantity) / 1048576


def cores(quantity: str | None) -> float | None:
    """A Kubernetes CPU quantity in cores."""
    if quantity is None:
        return None
    return float(quantity[:-1]) / 1000 if quantity.endswith("m") else float(quantity)


@dataclass
class Restart:
    """One end of a container and its next start."""

    at: float
    back_at: float
    container: str
    reason: str
    exit_code: int
    probe: bool = False
    memory_mib: float = 0.0
    planned: bool = False
    """Scripted, not found by the simulation: what leads up to it is drawn by the metrics."""
    last_words: str = ""


@dataclass
class Pod:
    """One Pod; times are seconds from the window's start."""

    workload: Workload
    index: int
    name: str
    node: str
    ip: str
    uid: str
    created: float
    owner: tuple[str, str]
    """Kind and name of the controlling object."""
    revision: int
    admitted: Admitted
    initial_restarts: int = 0
    stopping: float | None = None
    """When it was told to end; the object stays until `deleted`."""
    deleted: float | None = None
    never_ready: bool = False
    restarts: list[Restart] = field(default_factory=list)
    unready: list[tuple[float, float, str]] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    load: list[float] = field(default_factory=list)
    """Requests per second, step by step."""
    start_delay: float = 2.0
    completed: float | None = None
    """When a Job's Pod was done."""
    pulls: dict[str, float] = field(default_factory=dict)
    """Seconds that pulling a container's image took; images that the node had are not in it."""

    @property
    def limits(self) -> Resources:
        """Limits of the main container as stored."""
        return self.admitted.limits

    @property
    def container(self) -> str:
        """Name of the main container."""
        return self.workload.container or self.workload.name

    @property
    def started(self) -> float:
        """First start of the containers."""
        return self.created + self.start_delay

    def probe_url(self, *, liveness: bool = False) -> str:
        """What the kubelet asks."""
        probe = self.workload.probe or Probe()
        path = (probe.liveness_path if liveness else None) or probe.path
        return f"{probe.scheme.lower()}://{self.ip}:{self.workload.probe_port}{path}"

    def memory_limit(self, container: str) -> float | None:
        """Limit of a container in MiB."""
        if container == self.container:
            return mebibytes(self.limits.memory)
        found = [one for one in self.workload.sidecars if one.name == container]
        return mebibytes(found[0].limits.memory) if found else None

    def end(self, at: float, lasting: float) -> None:
        """Tell the Pod to end, unless it was told already."""
        if self.stopping is None:
            self.stopping, self.deleted = at, at + lasting

    def serves(self, time: float) -> bool:
        """Whether the Pod is there and was not told to end."""
        return self.exists(time) and (self.stopping is None or time < self.stopping)

    def exists(self, time: float) -> bool:
        """Whether the object is there."""
        return self.created <= time and (self.deleted is None or time < self.deleted)

    def running_since(self, time: float) -> float | None:
        """Start of the main container's present life, None while it is down."""
        if not self.exists(time):
            return None
        since = self.started
        for restart in self.restarts:
            if restart.container != self.container or restart.at > time:
                continue
            if time < restart.back_at:
                return None
            since = max(since, restart.back_at)
        return since if since <= time and (self.completed is None or time < self.completed) else None

    def ready(self, time: float) -> bool:
        """Whether the Pod takes traffic."""
        if self.never_ready:
            return False
        since = self.running_since(time)
        if since is None or time < since + self.workload.ready_after_s or not self.serves(time):
            return False
        return not any(start <= time < end for start, end, _ in self.unready)

    def ready_share(self, step: int) -> float:
        """Share of a step during which the Pod was ready."""
        start = step * STEP_S
        if not self.restarts and not self.unready and not self.never_ready and self.created < -600:
            if self.stopping is None or self.stopping > start + STEP_S:
                return 1.0
            if self.stopping < start:
                return 0.0
        return sum(self.ready(start + second + 0.5) for second in range(0, STEP_S, 3)) / 5

    def n_restarts(self, time: float, container: str | None = None) -> int:
        """Restart count of a container at a time."""
        name = container or self.container
        base = self.initial_restarts if name == self.container else 0
        return base + sum(
            1 for restart in self.restarts if restart.container == name and restart.back_at <= time
        )

    def last_restart(self, time: float, container: str | None = None) -> Restart | None:
        """The latest end of a container before a time."""
        name = container or self.container
        found = [restart for restart in self.restarts if restart.container == name and restart.at <= time]
        return found[-1] if found else None

    def next_end(self, time: float, container: str) -> Restart | None:
        """The next end of a container."""
        found = [one for one in self.restarts if one.container == container and one.at >= time]
        return min(found, key=lambda one: one.at, default=None)

    def in_back_off(self, time: float) -> bool:
        """Whether the main container waits in CrashLoopBackOff."""
        restart = self.last_restart(time)
        return restart is not None and restart.at + 3 < time < restart.back_at

    def kill(
        self,
        at: float,
        reason: str,
        exit_code: int,
        *,
        container: str | None = None,
        probe: bool = False,
        memory_mib: float = 0.0,
        planned: bool = False,
        last_words: str = "",
    ) -> Restart:
        """End a container; it starts again after the back-off that its recent ends have earned."""
        name = container or self.container
        recent = 0
        previous = None
        for restart in self.restarts:
            if restart.container == name:
                long_life = previous is not None and restart.at - previous.back_at > BACK_OFF_RESET_S
                recent = 1 if long_life or previous is None else recent + 1
                previous = restart
        if previous is not None and at - previous.back_at > BACK_OFF_RESET_S:
            recent = 0
        delay = BACK_OFF_S[min(recent, len(BACK_OFF_S) - 1)]
        made = Restart(at, at + delay, name, reason, exit_code, probe, memory_mib, planned, last_words)
        self.restarts.append(made)
        return made
