"""When ITBench's recorder looked at the alerts, and which look was the one that matters.

``detected_at`` of an import is, in this order: the time of the first ``alerts_in_alerting_state`` file (the
recorder writes it when it sees the scenario alerting); else of the first capture with a firing alert that is
not the platform's own noise; else of the first capture.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diagnose_bench.importers.itbench_tables import Span, read_time

_MAX_BYTES = 64 << 20
# Alerts of any cluster of these recordings, whatever happens in it.
_PLATFORM_ALERTS = frozenset(
    {
        "Watchdog",
        "InfoInhibitor",
        "KubeSchedulerDown",
        "KubeControllerManagerDown",
        "KubeProxyDown",
        "etcdMembersDown",
        "KubeClientCertificateExpiration",
        "PrometheusNotConnectedToAlertmanagers",
        "CPUThrottlingHigh",
    }
)
_PLATFORM_NAMESPACES = frozenset(
    {
        "agent",
        "clickhouse",
        "data-recorders",
        "ingress-nginx",
        "kube-node-lease",
        "kube-public",
        "kube-system",
        "monitoring",
        "opentelemetry-operator-system",
        "prometheus",
    }
)


@dataclass(frozen=True)
class AlertTimes:
    """What the captures say about time."""

    captures: Span
    detected_at: str | None
    warnings: tuple[str, ...]


def read_alert_times(files: Iterable[Path]) -> AlertTimes:
    """Read the captures one by one; each is small, their number does not matter."""
    span, warnings = Span(), []
    in_alerting_state, firing = Span(), Span()
    for path in files:
        document = _read(path)
        time = capture_time(path.name, document)
        if document is None or time is None:
            warnings.append(f"{path.name}: no alerts or no time can be read; it is kept as it is")
            continue
        span.see(time)
        if path.name.startswith("alerts_in_alerting_state"):
            in_alerting_state.see(time)
        if any(_is_symptom(alert) for alert in alerts_of(document)):
            firing.see(time)
    return AlertTimes(span, in_alerting_state.first or firing.first or span.first, tuple(warnings))


def alerts_of(document: Any) -> Iterator[dict[str, Any]]:
    """Yield the alerts of a capture: a bare list, an API answer with ``data.alerts``, or one alert."""
    if isinstance(document, dict):
        data = document.get("data")
        if isinstance(data, dict):
            document = data.get("alerts")
        elif "alerts" in document:
            document = document["alerts"]
        elif "labels" in document:
            document = [document]
    if isinstance(document, list):
        yield from (alert for alert in document if isinstance(alert, dict))


def capture_time(name: str, document: Any) -> str | None:
    """Return when a capture was made: its own ``timestamp``, its file name, or else its youngest alert's."""
    if isinstance(document, dict) and isinstance(document.get("timestamp"), str):
        time = read_time(document["timestamp"])
        if time is not None:
            return time
    time = read_time(name)
    if time is not None:
        return time
    active = Span()
    for alert in alerts_of(document):
        active.see(str(alert.get("activeAt", "")))
    return active.last


def _is_symptom(alert: dict[str, Any]) -> bool:
    labels = alert.get("labels")
    if not isinstance(labels, dict) or alert.get("state") != "firing":
        return False
    namespace = labels.get("namespace")
    return (
        isinstance(namespace, str)
        and namespace not in _PLATFORM_NAMESPACES
        and labels.get("alertname") not in _PLATFORM_ALERTS
    )


def _read(path: Path) -> Any:
    if path.stat().st_size > _MAX_BYTES:
        return None
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None
