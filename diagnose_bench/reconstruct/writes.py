"""Resource versions: they grow with the time of each object's last write, as etcd counts them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from diagnose_bench.reconstruct.clock import parse_moment
from diagnose_bench.reconstruct.manifests import Manifest
from diagnose_bench.reconstruct.pods import Pod
from diagnose_bench.reconstruct.topology import entity
from diagnose_bench.reconstruct.world import World

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


class Revisions:
    """The cluster's revision counter over time.

    Parameters
    ----------
    world : World
        Its oldest object begins the count.
    """

    def __init__(self, world: World) -> None:
        draws = world.draws("revisions")
        self._end = draws.integer(81_400_000, 81_900_000)
        oldest = max(400.0, *(node.days_ago for node in world.nodes)) * 86400 + 9_000_000
        self._rate = (self._end - 2_000_000) / oldest

    def at(self, seconds: float) -> int:
        """The revision at a time, in seconds from the window's start."""
        return max(1000, int(self._end + self._rate * seconds))


def stamp(world: World, objects: list[Manifest]) -> None:
    """Enter the resource version into every manifest."""
    changed: dict[str, float] = {}
    for change in world.spec.changes:
        time = world.clock.seconds(change.at)
        changed[change.entity] = max(time, changed.get(change.entity, time))
    pods = _transitions(world)
    rows = []
    for number, manifest in enumerate(objects):
        times = [parse_moment(text).timestamp() - world.clock.unix(0) for text in visible_times(manifest)]
        length = float(world.clock.length_s)
        seen = [time for time in times if time <= length]
        meta = manifest["metadata"]
        key = (meta.get("namespace", ""), manifest["kind"], meta["name"])
        last = max([*seen, changed.get(entity(manifest), seen[0]), *pods.get(key, [])])
        if manifest["kind"] == "HorizontalPodAutoscaler":
            last = max(last, length - world.draws("hpa", *key).uniform(1, 15))
        rows.append((min(last, length), number))
    revisions = Revisions(world)
    previous = 0
    for time, number in sorted(rows):
        previous = max(previous + 1, revisions.at(time))
        objects[number]["metadata"]["resourceVersion"] = str(previous)


def visible_times(value: Any) -> Iterator[str]:
    """Every time stamp that stands in a manifest."""
    if isinstance(value, dict):
        for item in value.values():
            yield from visible_times(item)
    elif isinstance(value, list):
        for item in value:
            yield from visible_times(item)
    elif isinstance(value, str) and _TIME.fullmatch(value):
        yield value


def _transitions(world: World) -> dict[tuple[str, str, str], list[float]]:
    """When the status of each Pod and of its owners was last written."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for key, workload in world.workloads.items():
        for pod in world.pods[key]:
            moments = [one for one in _moments(pod) if one <= world.clock.length_s]
            if not moments:
                continue
            last = max(moments)
            space = workload.namespace
            found.setdefault((space, workload.kind, workload.name), []).append(last)
            if pod.owner[0] == "ReplicaSet":
                found.setdefault((space, "ReplicaSet", pod.owner[1]), []).append(last)
            if pod.exists(world.clock.length_s):
                found.setdefault((space, "Pod", pod.name), []).append(last)
    for name, (since, _) in world.blocked.items():
        space, _, short = name.partition("/")
        found.setdefault((space, "ReplicaSet", short), []).append(since + 1)
    return found


def _moments(pod: Pod) -> Iterator[float]:
    yield pod.started
    if not pod.never_ready:
        yield pod.started + pod.workload.ready_after_s
    for time in (pod.stopping, pod.deleted, pod.completed):
        if time is not None:
            yield time
    for restart in pod.restarts:
        yield restart.at
        yield restart.back_at
        yield restart.back_at + pod.workload.ready_after_s
    for start, end, _ in pod.unready:
        yield start
        yield end
