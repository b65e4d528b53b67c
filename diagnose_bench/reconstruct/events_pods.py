"""Events of single Pods: placed, pulled, started, unready, killed, backing off."""

from __future__ import annotations

from dataclasses import dataclass

from diagnose_bench.reconstruct.draws import Draws
from diagnose_bench.reconstruct.pods import Pod, Restart
from diagnose_bench.reconstruct.world import World

_BACK_OFF_PERIOD_S = 13.0


@dataclass
class Event:
    """One Event object in its last state."""

    kind: str
    namespace: str
    name: str
    reason: str
    message: str
    component: str
    first: float
    last: float
    count: int = 1
    type: str = "Normal"
    host: str = ""
    container: str = ""
    uid: str = ""


def pulled_text(image: str, seconds: float) -> str:
    """The kubelet's message about a pull."""
    return f'Successfully pulled image "{image}" in {seconds:.9g}s'


def pod_events(world: World, pod: Pod) -> list[Event]:
    """Events about one Pod, as the scheduler and the kubelet of its node would have written them."""
    length = float(world.clock.length_s)
    events: list[Event] = []

    def add(
        reason: str, message: str, first: float, last: float | None = None, count: int = 1, **more: str
    ) -> None:
        end = min(first if last is None else last, length)
        if first <= length:
            events.append(
                Event(
                    "Pod", pod.workload.namespace, pod.name, reason, message,
                    more.get("component", "kubelet"), first, end, count, more.get("type", "Normal"),
                    more.get("host", pod.node), more.get("container", ""), pod.uid,
                )
            )  # fmt: skip

    born = pod.created >= -1800 and pod.workload.kind != "Static"
    if born and pod.workload.kind != "DaemonSet":
        text = f"Successfully assigned {pod.workload.namespace}/{pod.name} to {pod.node}"
        add("Scheduled", text, pod.created, component="default-scheduler", host="")
    pulled = pod.started - sum(pod.pulls.values()) - 0.2
    for name, image in pod.workload.images:
        ends = [one for one in pod.restarts if one.container == name and one.back_at <= length]
        starts = [one.back_at for one in ends]
        there = list(starts)
        took = pod.pulls.get(name)
        if born:
            starts = [pod.started, *starts]
            if took is None:
                there = list(starts)
            else:
                add("Pulling", f'Pulling image "{image}"', pulled, container=name)
                pulled += took
                add("Pulled", pulled_text(image, took), pulled, container=name)
        if there:
            text = f'Container image "{image}" already present on machine'
            add("Pulled", text, there[0] - 0.15, there[-1] - 0.15, len(there), container=name)
        if starts:
            begin, last, count = starts[0], starts[-1], len(starts)
            add("Created", f"Created container {name}", begin - 0.1, last - 0.1, count, container=name)
            add("Started", f"Started container {name}", begin, last, count, container=name)
        events += _restart_events(world, pod, name)
    for start, end, message in unready_windows(world, pod):
        if end > start and pod.exists(start):
            last = min(end, length, pod.deleted or length)
            count = max(1, int((last - start) / 10))
            add("Unhealthy", message, start + 4, last - 2, count, type="Warning", container=pod.container)
    if pod.stopping is not None and pod.stopping >= -1800:
        for name, _ in pod.workload.images:
            add("Killing", f"Stopping container {name}", pod.stopping + 0.3, container=name)
    return events


def unready_windows(world: World, pod: Pod) -> list[tuple[float, float, str]]:
    """When the readiness probe of a Pod fails, and with which message."""
    found = list(pod.unready)
    if pod.never_ready:
        message = (
            f'Readiness probe failed: Get "{pod.probe_url()}": context deadline exceeded '
            "(Client.Timeout exceeded while awaiting headers)"
        )
        found.append((pod.started + 5, float(world.clock.length_s) - 2, message))
    return found


def oom_text(pod: Pod, container: str, restart: Restart, draws: Draws) -> str:
    """The kernel's line about a container that ran into its limit."""
    rss = int((restart.memory_mib or 64) * 1024 * draws.uniform(0.93, 0.97))
    user = Draws(0, "user", pod.workload.namespace, container).choice(("0", "1000", "65532"))
    return (
        f"Memory cgroup out of memory: Killed process {draws.integer(12000, 990000)} "
        f"({container[:15]}) total-vm:{rss * 7 + draws.integer(0, 4000)}kB, anon-rss:{rss}kB, "
        f"file-rss:{draws.integer(800, 800 + rss // 50)}kB, shmem-rss:0kB, UID:{user} "
        f"pgtables:{240 + rss // 256 + draws.integer(0, 90)}kB oom_score_adj:{draws.integer(930, 998)}"
    )


def _restart_events(world: World, pod: Pod, container: str) -> list[Event]:
    length = float(world.clock.length_s)
    events: list[Event] = []
    waits = []
    for restart in [one for one in pod.restarts if one.container == container and one.at <= length]:
        if restart.back_at - restart.at > 5:
            waits.append((restart.at + 1.5, min(restart.back_at, length)))
        if restart.reason == "OOMKilled":
            draws = world.draws("oom", pod.name, str(round(restart.at, 3)))
            text = oom_text(pod, container, restart, draws)
            events.append(
                Event(
                    "Node",
                    "",
                    pod.node,
                    "OOMKilling",
                    text,
                    "kernel-monitor",
                    restart.at,
                    restart.at,
                    1,
                    "Warning",
                    pod.node,
                )
            )
        if restart.probe:
            text = f"Container {container} failed liveness probe, will be restarted"
            events.append(_kubelet_event(pod, container, "Killing", text, restart.at, restart.at))
            text = (
                f'Liveness probe failed: Get "{pod.probe_url(liveness=True)}": '
                "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            )
            events.append(
                _kubelet_event(pod, container, "Unhealthy", text, restart.at - 20, restart.at, 3, "Warning")
            )
    if waits:
        count = sum(max(1, int((end - start) / _BACK_OFF_PERIOD_S)) for start, end in waits)
        where = f"{pod.name}_{pod.workload.namespace}({pod.uid})"
        text = f"Back-off restarting failed container {container} in pod {where}"
        events.append(
            _kubelet_event(pod, container, "BackOff", text, waits[0][0], waits[-1][1] - 0.5, count, "Warning")
        )
    return events


def _kubelet_event(
    pod: Pod,
    container: str,
    reason: str,
    message: str,
    first: float,
    last: float,
    count: int = 1,
    type_: str = "Normal",
) -> Event:
    return Event(
        "Pod", pod.workload.namespace, pod.name, reason, message, "kubelet", first, last, count, type_,
        pod.node, container, pod.uid,
    )  # fmt: skip
