"""``baseline:alerting`` names every entity that alerts when the incident is detected."""

from __future__ import annotations

from collections.abc import Sequence

from diagnose_bench.agents.baselines.baseline import Named
from diagnose_bench.agents.baselines.evidence import Evidence


def name_alerting(evidence: Evidence) -> Sequence[Named]:
    """Every entity with a firing alert, those that alert latest first."""
    alerts = sorted(evidence.alerts, key=lambda alert: (alert.since, alert.name), reverse=True)
    return [
        Named(alert.entity, f"{alert.name} fires since {alert.since}")
        for alert in alerts
        if alert.entity is not None
    ]
