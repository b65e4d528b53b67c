"""A small folder as ITBench publishes them, written by the tests that import it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TRUTH = "id: 2\ngroups:\n- {id: cart, kind: Deployment, namespace: shop, filter: [cart], root_cause: true}\n"
LOG_COLUMNS = ["Timestamp", "TimestampTime", "Body", "ResourceAttributes", "LogAttributes"]
SPAN_COLUMNS = [
    "Timestamp",
    "TraceId",
    "SpanId",
    "ParentSpanId",
    "ServiceName",
    "ResourceAttributes",
    "StatusMessage",
]


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a table as ClickHouse exports it: tabs, quotes where needed."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter="\t", lineterminator="\n")
    writer.writerows([columns, *rows])
    return text.getvalue()


def observed(time: str, value: Any) -> list[str]:
    body = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return [time, time[:19], body, "{'k8s.namespace.name': 'shop'}", "{'k8s.resource.name': 'pods'}"]


def manifest(kind: str, name: str, **more: Any) -> dict[str, Any]:
    version = "apps/v1" if kind in ("Deployment", "ReplicaSet") else "v1"
    metadata = {"name": name, "namespace": "shop", **more.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def deployment(replicas: int, version: str, available: int = 1) -> dict[str, Any]:
    pod = {
        "volumes": [{"name": "config", "configMap": {"name": "cart-config"}}],
        "containers": [{"name": "cart", "envFrom": [{"secretRef": {"name": "cart-key"}}]}],
    }
    return manifest(
        "Deployment",
        "cart",
        metadata={
            "resourceVersion": version,
            "managedFields": [{"manager": "helm"}],
            "labels": {"app": "cart"},
        },
        spec={"replicas": replicas, "template": {"metadata": {"labels": {"app": "cart"}}, "spec": pod}},
        status={"availableReplicas": available},
    )


def alert(name: str, state: str = "firing", **labels: str) -> dict[str, Any]:
    labels = {"alertname": name, **labels}
    return {
        "labels": labels,
        "annotations": {},
        "state": state,
        "activeAt": "2025-12-15T17:00:00.5Z",
        "value": "1e+00",
    }


def write_scenario(folder: Path, *, truth: str | None = TRUTH) -> Path:
    """Write a Scenario-N folder."""
    (folder / "alerts").mkdir(parents=True)
    (folder / "metrics").mkdir()
    captures = {
        "alerts_at_2025-12-15T17-30-49.329092.json": [
            alert("Watchdog"),
            alert("Slow", "pending", namespace="shop"),
        ],
        "alerts_at_2025-12-15T17-31-49.323285.json": [alert("KubePodCrashLooping", namespace="kube-system")],
        "alerts_at_2025-12-15T17-32-49.323223.json": [alert("RequestErrorRate", namespace="shop")],
        "alerts_at_2025-12-15T17-33-49.323960.json": [alert("RequestErrorRate", namespace="shop")],
    }
    for name, alerts in captures.items():
        (folder / "alerts" / name).write_text(json.dumps(alerts))
    pod = manifest(
        "Pod",
        "cart-5d8f7c9b6d-x2v5z",
        metadata={
            "labels": {"app": "cart", "tier": "back"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "cart-5d8f7c9b6d"}],
        },
        spec={"nodeName": "node-1"},
    )
    replica_set = manifest(
        "ReplicaSet",
        "cart-5d8f7c9b6d",
        metadata={"ownerReferences": {"cart": {"apiVersion": "apps/v1", "kind": "Deployment"}}},
    )
    scaled = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "cart"}
    scaler = manifest("HorizontalPodAutoscaler", "cart", spec={"scaleTargetRef": scaled})
    scaler["apiVersion"] = "autoscaling/v2"
    rows = [
        observed("2025-12-15 17:28:25.780858895", deployment(1, "10")),
        observed("2025-12-15 17:28:25.9", pod),
        observed("2025-12-15 17:28:26", replica_set),
        observed(
            "2025-12-15 17:28:26", manifest("ConfigMap", "cart-config", data={"text": "tab\there\nnewline"})
        ),
        observed(
            "2025-12-15 17:28:26", manifest("Secret", "cart-key", data={"key": "aHVudGVyMg=="}, type="Opaque")
        ),
        observed("2025-12-15 17:28:26", manifest("Service", "cart", spec={"selector": {"app": "cart"}})),
        observed("2025-12-15 17:28:26", manifest("Service", "all", spec={"selector": {}})),
        observed("2025-12-15 17:28:26", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}),
        observed("2025-12-15 17:28:26", scaler),
        # in the order of no clock, with a change of status alone, and one of the specification
        observed("2025-12-15 17:38:25", deployment(0, "12", 0)),
        observed("2025-12-15 17:33:25", deployment(1, "11", 0)),
        # what holds no object
        observed("2025-12-15 17:39:00", "{broken"),
        observed("2025-12-15 17:39:00", '{"apiVersion": "v1", "kind": "Pod", "metadata": {}, "x": NaN}'),
        observed("2025-12-15 17:39:00", '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x y"}}'),
        observed(
            "2025-12-15 17:39:00",
            '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "y": 1e999}',
        ),
        observed(
            "2025-12-15 17:39:00",
            json.dumps(manifest("Pod", "deep"))[:-1] + ', "z": ' + "[" * 150 + "]" * 150 + "}",
        ),
        observed("2025-12-15 17:39:00", "[" * 100_000),
        observed("no time", manifest("Pod", "timeless")),
        observed("2025-12-15 17:39:00", manifest("Event", "an-event")),
    ]
    (folder / "k8s_objects_raw.tsv").write_text(table(LOG_COLUMNS, rows))
    event = {"object": {"kind": "Event", "reason": "Killing", "message": "two\nlines"}, "type": "DELETED"}
    rows = [
        observed("2025-12-15 17:24:44.327494932", event),
        observed("2025-12-15 17:24:44.327494962", event),
    ]
    (folder / "k8s_events_raw.tsv").write_text(table([*LOG_COLUMNS, "EventName"], rows))
    (folder / "otel_logs_raw.tsv").write_text(
        table(LOG_COLUMNS, [observed("1970-01-01 00:00:00", "a log line")])
    )
    attributes = [
        f"{{'k8s.deployment.name': '{name}', 'k8s.namespace.name': 'shop'}}" for name in ("cart", "frontend")
    ]
    spans = [
        ["2025-12-15 17:17:08", "t1", "s1", "", "cart", attributes[0], 'has "quotes"\nand\tlines'],
        ["2025-12-15 17:17:09", "t1", "s2", "s1", "frontend", attributes[1], ""],
        ["2025-12-15 17:17:09", "t2", "s3", "s1", "cart", attributes[0], ""],
    ]
    (folder / "otel_traces_raw.tsv").write_text(table(SPAN_COLUMNS, spans))
    (folder / "metrics" / "service_cart_raw.tsv").write_text(
        table(["metric_name", "timestamp", "value"], [["up", "2025-12-15 17:45:02.949", "1.0"]] * 2)
    )
    (folder / "status.json").write_text('{"state": "done"}')
    if truth is not None:
        (folder / "ground_truth.yaml").write_text(truth)
    return folder


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]
