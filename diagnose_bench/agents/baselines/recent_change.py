"""``baseline:recent-change`` names what changed last before the first symptom."""

from __future__ import annotations

from collections.abc import Sequence

from diagnose_bench.agents.baselines.baseline import Named
from diagnose_bench.agents.baselines.evidence import Evidence
from diagnose_bench.entity import Entity

# Controllers make, count and renew these all day long: a change of one is an echo of another.
_ECHOES = frozenset({"Pod", "ReplicaSet", "Job", "Endpoints", "EndpointSlice", "Lease", "Event", "Node"})


def name_recent_change(evidence: Evidence) -> Sequence[Named]:
    """The object of the last recorded revision, else of the last creation, else of the last event.

    Where nothing of a kind came before the first symptom, the last until the detection counts: alerts may
    have other reasons, and an object's change is recorded late.
    """
    symptom, detected = _first_symptom(evidence), evidence.window[1]
    for what, look in (
        ("changed", evidence.changes),
        ("created", lambda until: _created(evidence, until)),
        ("seen in an event", evidence.happened),
    ):
        for until in dict.fromkeys((symptom, detected)):
            found = [(time, entity) for time, entity in look(until) if entity.kind not in _ECHOES]
            if found:
                time, entity = found[-1]
                return [Named(entity, f"{what} at {time}, the last until {until}")]
    return ()


def _created(evidence: Evidence, until: str) -> list[tuple[str, Entity]]:
    created = [(time, entity) for entity, time in evidence.created.items()]
    return sorted((time, entity) for time, entity in created if evidence.window[0] <= time <= until)


def _first_symptom(evidence: Evidence) -> str:
    """When the first alert began that began in the window, else when the incident was detected."""
    start, detected, _ = evidence.window
    times = [alert.since for alert in evidence.alerts if start <= alert.since <= detected]
    return min(times, default=detected)
