"""``baseline:upstream`` walks from what alerts along its dependencies to the deepest abnormal one."""

from __future__ import annotations

from collections.abc import Sequence

from diagnose_bench.agents.baselines.baseline import Named
from diagnose_bench.agents.baselines.evidence import Evidence
from diagnose_bench.entity import Entity

_MIN_ERROR_SHARE = 0.02  # of the spans; any system has some
_MIN_ERRORS = 5


def name_upstream(evidence: Evidence) -> Sequence[Named]:
    """The abnormal dependency that is the most steps from an alerting entity, over abnormal ones only.

    Of several as deep, the one that most alerting entities lead to, then the first by name. Where nothing
    alerts the walk starts at everything abnormal.
    """
    alerting = {evidence.workload(alert.entity) for alert in evidence.alerts if alert.entity is not None}
    abnormal = alerting | _with_errors(evidence)
    reached: dict[Entity, tuple[int, int]] = {}
    for start in sorted(alerting or abnormal):
        for entity, depth in _walk(start, abnormal, evidence.dependencies).items():
            deepest, n_starts = reached.get(entity, (0, 0))
            reached[entity] = (max(deepest, depth), n_starts + 1)
    if not reached:
        return ()
    found = min(reached, key=lambda entity: (-reached[entity][0], -reached[entity][1], entity))
    depth, n_starts = reached[found]
    return [
        Named(
            found, f"abnormal, {depth} steps along the dependencies; {n_starts} alerting entities lead here"
        )
    ]


def _with_errors(evidence: Evidence) -> set[Entity]:
    found = set()
    for count in evidence.errors:
        is_frequent = count.n_errors >= _MIN_ERRORS and count.n_errors >= _MIN_ERROR_SHARE * count.n_total
        if count.source == "events" or is_frequent:
            found.add(count.entity)
    return found


def _walk(start: Entity, abnormal: set[Entity], dependencies: dict[Entity, set[Entity]]) -> dict[Entity, int]:
    """Steps from the start to each abnormal entity that is reached over abnormal ones."""
    depths = {start: 0}
    queue = [start]
    for entity in queue:
        for target in sorted(dependencies.get(entity, set()) & abnormal):
            if target not in depths:
                depths[target] = depths[entity] + 1
                queue.append(target)
    return depths
