"""``baseline:recent-change`` names what changed last before the first symptom."""

from __future__ import annotations

from collections.abc import Sequence

from diagnose_bench.agents.baselines.baseline import Named
from diagnose_bench.agents.baselines.evidence import Evidence

# Controllers make, count and renew these all day long: a change of one is an echo of another.
_ECHOES = frozenset({"Pod", "ReplicaSet", "Job", "Endpoints", "EndpointSlice", "Lease", "Event", "Node"})


def name_recent_change(evidence: Evidence) -> Sequence[Named]:
    """The object of the last recorded revision, else of the last creation, else of the last normal event."""
    symptom = _first_symptom(evidence)
    start = evidence.window[0]
    created = sorted((time, entity) for entity, time in evidence.created.items() if start <= time <= symptom)
    for what, candidates in (
        ("changed", evidence.changes(symptom)),
        ("created", created),
        ("seen in an event", evidence.happened(symptom)),
    ):
        found = [(time, entity) for time, entity in candidates if entity.kind not in _ECHOES]
        if found:
            time, entity = found[-1]
            return [Named(entity, f"{what} at {time}, the last before the symptom at {symptom}")]
    return ()


def _first_symptom(evidence: Evidence) -> str:
    """When the first alert began that began in the window, else when the incident was detected."""
    start, detected, _ = evidence.window
    times = [alert.since for alert in evidence.alerts if start <= alert.since <= detected]
    return min(times, default=detected)
