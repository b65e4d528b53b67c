"""Short-lived Pods that a controller outside Kubernetes' own makes, and what happens when no image comes."""

from __future__ import annotations

from diagnose_bench.reconstruct.draws import KUBE_ALPHABET
from diagnose_bench.reconstruct.events_pods import Event, pulled_text
from diagnose_bench.reconstruct.spec import Failing
from diagnose_bench.reconstruct.world import World

_ALPHANUMERIC = "abcdefghijklmnopqrstuvwxyz0123456789"


def failing_pods(world: World, failing: Failing) -> list[tuple[str, str, float, bool]]:
    """Short-lived Pods of a controller outside Kubernetes' own: name, node, start, whether the image came."""
    draws = world.draws("failing", failing.prefix)
    start = world.clock.seconds(failing.start)
    nodes = [node.name for node in world.nodes if node.role == "worker"]
    made = []
    time = -240.0 if failing.success_before else start
    while time < world.clock.length_s - 20:
        job, suffix = draws.text(9, _ALPHANUMERIC), draws.text(8, KUBE_ALPHABET)
        name = f"{failing.prefix}-{job}-{suffix}"
        made.append((name, draws.choice(nodes), time, time < start))
        time += draws.uniform(0.5, 1.5) * failing.every_s
    return made


def failing_events(world: World, failing: Failing) -> list[Event]:
    """Events of these Pods."""
    length = float(world.clock.length_s)
    events = []
    for name, node, time, fine in failing_pods(world, failing):
        uid = world.uid(f"{failing.namespace}/Pod/{name}")

        def add(
            reason: str,
            message: str,
            first: float,
            last: float,
            count: int = 1,
            type_: str = "Normal",
            *,
            pod: tuple[str, str, str] = (name, node, uid),
        ) -> None:
            scheduled = reason == "Scheduled"
            events.append(
                Event(
                    "Pod", failing.namespace, pod[0], reason, message,
                    "default-scheduler" if scheduled else "kubelet", first, min(last, length), count, type_,
                    "" if scheduled else pod[1], "" if scheduled else "build", pod[2],
                )
            )  # fmt: skip

        text = f"Successfully assigned {failing.namespace}/{name} to {node}"
        add("Scheduled", text, time, time)
        if fine:
            took = world.draws("pull", failing.image, name).lognormal(1.4, 0.45)
            came = time + 1 + took
            add("Pulling", f'Pulling image "{failing.image}"', time + 1, time + 1)
            add("Pulled", pulled_text(failing.image, took), came, came)
            add("Created", "Created container build", came + 0.2, came + 0.2)
            add("Started", "Started container build", came + 0.4, came + 0.4)
            continue
        end = time + failing.life_s
        tries = 4
        last = time + 1 + failing.life_s * 0.55
        add("Pulling", f'Pulling image "{failing.image}"', time + 1, last, tries)
        add(
            "Failed",
            f'Failed to pull image "{failing.image}": {failing.message}',
            time + 2,
            last + 1,
            tries,
            "Warning",
        )
        add("Failed", "Error: ErrImagePull", time + 2, last + 1, tries, "Warning")
        add("BackOff", f'Back-off pulling image "{failing.image}"', time + 16, end - 3, 6, "Warning")
        add("Failed", "Error: ImagePullBackOff", time + 16, end - 3, 6, "Warning")
    return events
