"""Which node a Pod goes to: role, age and cordon of the nodes. Knows nothing of load."""

from __future__ import annotations

from diagnose_bench.reconstruct.clock import Clock
from diagnose_bench.reconstruct.draws import Draws
from diagnose_bench.reconstruct.spec import Node, Specification
from diagnose_bench.reconstruct.spec_workload import Workload

_SETTLED_S = 3600.0
"""A younger node got its Pods in the window or shortly before, one by one."""


class Placement:
    """The nodes over time.

    Parameters
    ----------
    spec : Specification
        Nodes and drains.
    clock : Clock
        The window.
    """

    def __init__(self, spec: Specification, clock: Clock) -> None:
        self._nodes = spec.cluster.nodes
        self._cordons: dict[str, tuple[float, float]] = {}
        for drain in spec.drains:
            until = clock.seconds(drain.uncordon_at) if drain.uncordon_at else float("inf")
            self._cordons[drain.node] = (clock.seconds(drain.at) - 3, until)

    @staticmethod
    def created(node: Node) -> float:
        """When a node joined, in seconds from the window's start."""
        return -86400.0 * node.days_ago

    def cordoned(self, name: str, time: float) -> bool:
        """Whether a node takes no new Pods."""
        start, end = self._cordons.get(name, (0.0, 0.0))
        return start <= time < end

    def of_role(self, workload: Workload) -> list[Node]:
        """Nodes that a workload may ever run on."""
        if workload.nodes == "all" or workload.kind == "DaemonSet":
            return self._nodes
        role = "control-plane" if workload.nodes == "control-plane" or workload.kind == "Static" else "worker"
        return [node for node in self._nodes if node.role == role] or self._nodes

    def open(self, workload: Workload, time: float) -> list[Node]:
        """Nodes that take a new Pod at a time."""
        found = self.of_role(workload)
        return [
            node for node in found if self.created(node) + 60 <= time and not self.cordoned(node.name, time)
        ] or found

    def long_ago(self, workload: Workload, number: int, wanted: float, draws: Draws) -> tuple[Node, float]:
        """Node and creation time of a Pod from before the window: never older than its node.

        A Pod that would be came again when its node was replaced.
        """
        nodes = self.of_role(workload)
        if workload.kind in ("DaemonSet", "Static"):
            node = nodes[number % len(nodes)]
            return node, max(wanted, self.created(node) + draws.uniform(25, 80))
        settled = [node for node in nodes if self.created(node) < -_SETTLED_S] or nodes
        older = [node for node in settled if self.created(node) + 300 <= wanted]
        if 2 * len(older) >= len(settled):
            return older[number % len(older)], wanted
        node = settled[number % len(settled)]
        return node, max(wanted, self.created(node) + draws.uniform(300, 2800))
