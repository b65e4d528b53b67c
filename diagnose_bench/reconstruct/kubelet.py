"""What the kubelets write about the Pods of their nodes: arrivals, back-offs, failed probes, departures."""

from __future__ import annotations

from collections.abc import Iterator

from diagnose_bench.reconstruct.draws import Draws
from diagnose_bench.reconstruct.events_pods import unready_windows
from diagnose_bench.reconstruct.failing import failing_pods
from diagnose_bench.reconstruct.pods import Pod, Restart
from diagnose_bench.reconstruct.world import World

_SYNC_S = 14.0
"""Mean time between two attempts to sync a Pod whose container waits."""
_KEPT = 0.3
"""Share of the repeated lines that the log shipper lets through."""
_STEPS = (10, 20, 40, 80, 160, 300)


def process_id(world: World, node: str) -> int:
    """The kubelet's process on a node."""
    return world.draws("kubelet", node).integer(640, 2900)


def kubelet_lines(world: World) -> list[tuple[float, str]]:
    """Lines of all nodes, with their time in seconds from the window's start."""
    found: list[tuple[float, str]] = []
    for pod in world.all_pods():
        draws = world.draws("kubelet-log", pod.uid)
        for time, level, source, text in _about(world, pod, draws):
            if 0 <= time <= world.clock.length_s:
                found.append((time, _line(world, pod.node, time, level, source, text)))
    for failing in world.spec.failing:
        for name, node, start, fine in failing_pods(world, failing):
            if fine:
                continue
            uid = world.uid(f"{failing.namespace}/Pod/{name}")
            draws = world.draws("kubelet-log", uid)
            time = start + 16
            while time < min(start + failing.life_s, world.clock.length_s):
                text = (
                    f'"Error syncing pod, skipping" err="failed to \\"StartContainer\\" for \\"build\\" with '
                    f'ImagePullBackOff: \\"Back-off pulling image \\\\\\"{failing.image}\\\\\\"\\"" '
                    f'pod="{failing.namespace}/{name}" podUID={uid}'
                )
                found.append((time, _line(world, node, time, "E", "pod_workers.go:1294", text)))
                time += draws.uniform(20, 60)
    return found


def _line(world: World, node: str, time: float, level: str, source: str, text: str) -> str:
    moment = world.clock.at(time)
    pid = process_id(world, node)
    stamp = f"{moment:%m%d %H:%M:%S.%f}"
    return f"{node} kubelet[{pid}]: {level}{stamp} {pid:>7} {source}] {text}"


def _about(world: World, pod: Pod, draws: Draws) -> Iterator[tuple[float, str, str, str]]:
    name = f"{pod.workload.namespace}/{pod.name}"
    if pod.created >= 0 and pod.workload.kind != "Static":
        text = f'"SyncLoop ADD" source="api" pods=["{name}"]'
        yield pod.created + draws.uniform(0.01, 0.1), "I", "kubelet.go:2219", text
        took = pod.start_delay + (0 if pod.never_ready else pod.workload.ready_after_s)
        if not pod.never_ready and pod.serves(pod.created + took):
            text = f'"Observed pod startup duration" pod="{name}" podStartSLOduration={took:.3f}'
            yield pod.created + took + 0.3, "I", "pod_startup_latency_tracker.go:102", text
    if pod.stopping is not None:
        text = f'"SyncLoop DELETE" source="api" pods=["{name}"]'
        yield pod.stopping + draws.uniform(0.01, 0.1), "I", "kubelet.go:2235", text
    for start, end, message in unready_windows(world, pod):
        time = start + draws.uniform(4, 10)
        kind, _, output = message.partition(" probe failed: ")
        while time < min(end, pod.deleted or end):
            quoted = output.replace('"', '\\"')
            text = (
                f'"Probe failed" probeType="{kind}" pod="{name}" podUID={pod.uid} '
                f'containerName="{pod.container}" probeResult=failure output="{quoted}"'
            )
            if draws.chance(0.25):
                yield time, "I", "prober.go:109", text
            time += 10
    ends: dict[str, int] = {}
    for restart in sorted(pod.restarts, key=lambda one: one.at):
        recent = restart.back_at - restart.at > 5
        ends[restart.container] = ends.get(restart.container, 0) + 1 if recent else 0
        text = (
            f'"SyncLoop (PLEG): event for pod" pod="{name}" event=&{{ID:{pod.uid} Type:ContainerDied '
            f"Data:{draws.hex(64)}}}"
        )
        yield restart.at + 0.8, "I", "kubelet.go:2250", text
        if recent:
            yield from _waits(pod, restart, ends[restart.container], draws)


def _waits(pod: Pod, restart: Restart, number: int, draws: Draws) -> Iterator[tuple[float, str, str, str]]:
    seconds = _STEPS[min(number, len(_STEPS)) - 1]
    spelled = f"{seconds}s" if seconds < 60 else f"{seconds // 60}m{seconds % 60}s"
    text = (
        f'"Error syncing pod, skipping" err="failed to \\"StartContainer\\" for \\"{restart.container}\\" '
        f'with CrashLoopBackOff: \\"back-off {spelled} restarting failed container={restart.container} '
        f'pod={pod.name}_{pod.workload.namespace}({pod.uid})\\"" '
        f'pod="{pod.workload.namespace}/{pod.name}" podUID={pod.uid}'
    )
    time = restart.at + 1.2
    while time < restart.back_at:
        if draws.chance(_KEPT):
            yield time, "E", "pod_workers.go:1294", text
        time += draws.uniform(0.8, 1.2) * _SYNC_S
