"""Baselines work through the real sandbox on a small snapshot whose evidence is written out here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from diagnose_bench.agents.base import CommandReply, SubmitReply
from diagnose_bench.agents.baselines import BASELINES, make_baseline
from diagnose_bench.diagnosis import validate_submission
from diagnose_bench.errors import UsageError
from diagnose_bench.sandbox.base import Sandbox
from diagnose_bench.sandbox.opening import open_shell

pytestmark = pytest.mark.sandbox

DETECTED = "2025-03-01T10:30:00Z"
Diagnose = Callable[[str], list[str]]


class SandboxSession:
    """A session of one sandbox without limits of a trial; it keeps what was run and handed in."""

    scenario_id = "scenario-001"
    repeat = 1
    task = ""
    log_folder = Path()
    hidden: tuple[Path, ...] = ()

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.outputs: list[bytes] = []
        self.submitted: list[bytes] = []

    def time_left_s(self) -> float:
        return 1_800.0

    def is_over(self) -> bool:
        return bool(self.submitted)

    def wait_over(self, timeout_s: float) -> bool:
        return self.is_over()

    def has_submission(self) -> bool:
        return bool(self.submitted)

    def run_command(self, command: str, timeout_s: float | None = None) -> CommandReply:
        result = self._sandbox.run(command, timeout_s=timeout_s)
        self.outputs.append(result.shown)
        return CommandReply(result.shown, result.exit_code)

    def close(self) -> None:
        pass

    def submit(self, data: bytes) -> SubmitReply:
        self.submitted.append(data)
        return SubmitReply(True, "accepted")


def alert(since: str = "10:28:00", observed: str = DETECTED, **labels: str) -> dict[str, Any]:
    return {
        "labels": {"alertname": "Slow", "severity": "warning", **labels},
        "startsAt": f"2025-03-01T{since}.123456789Z",
        "status": {"state": "active", "silencedBy": [], "inhibitedBy": []},
        "observedAt": observed,
    }


def manifest(kind: str, name: str, owner: tuple[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    references = (
        [{"apiVersion": "apps/v1", "kind": owner[0], "name": owner[1], "controller": True}] if owner else []
    )
    version = "v1" if kind in ("Pod", "Service", "ConfigMap") else "apps/v1"
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"namespace": "shop", "name": name, "ownerReferences": references, **metadata},
    }


def span(service: str, status: str) -> dict[str, Any]:
    return {"service": service, "statusCode": status, "resource": {"k8s.namespace.name": "shop"}}


def workload(name: str) -> list[dict[str, Any]]:
    return [
        manifest("Deployment", name),
        manifest("ReplicaSet", f"{name}-5d8f7c9b6d", ("Deployment", name)),
        manifest("Pod", f"{name}-5d8f7c9b6d-x2v5z", ("ReplicaSet", f"{name}-5d8f7c9b6d")),
        manifest("Service", name),
    ]


def edge(source: str, relation: str, target: str) -> dict[str, str]:
    return {"source": f"shop/{source}", "relation": relation, "target": f"shop/{target}"}


def event(kind: str, name: str, n: int, type_: str = "Warning", time: str = "10:20:00") -> dict[str, Any]:
    return {
        "metadata": {"name": f"{name}.{n}", "namespace": "shop"},
        "involvedObject": {"kind": kind, "namespace": "shop", "name": name},
        "type": type_,
        "count": n,
        "firstTimestamp": f"2025-03-01T{time}Z",
    }


FILES: dict[str, Any] = {
    "snapshot.json": {
        "window": {"start": "2025-03-01T10:00:00Z", "detected_at": DETECTED, "end": "2025-03-01T10:45:00Z"}
    },
    "alerts.jsonl": [
        alert(deployment="frontend", namespace="shop"),
        alert(pod="cart-5d8f7c9b6d-x2v5z", namespace="shop", service="kube-state-metrics", since="10:29:00"),
        alert(node="worker-1", since="10:27:00"),
        alert(alertname="Watchdog", severity="none"),
        alert(deployment="later", namespace="shop", observed="2025-03-01T10:35:00Z"),
        alert(deployment="earlier", namespace="shop", observed="2025-03-01T10:25:00Z"),
        alert(deployment="silenced", namespace="shop")
        | {"status": {"state": "suppressed", "silencedBy": ["x"]}},
    ],
    "objects.jsonl": [
        *workload("frontend"),
        *workload("cart"),
        *workload("db"),
        manifest("ConfigMap", "db-config"),
    ],
    "topology.json": {
        "nodes": [],
        "edges": [
            edge("Deployment/frontend", "calls", "Deployment/cart"),
            edge("Deployment/cart", "calls", "Deployment/db"),
            edge("Deployment/db", "uses", "ConfigMap/db-config"),
            edge("Deployment/frontend", "owns", "ReplicaSet/frontend-5d8f7c9b6d"),
        ],
    },
    "traces.jsonl": [
        *[span("frontend", "STATUS_CODE_ERROR")] * 30,
        *[span("frontend", "STATUS_CODE_UNSET")] * 70,
        *[span("cart", "STATUS_CODE_ERROR")] * 9,
        *[span("db", "STATUS_CODE_UNSET")] * 100,
    ],
    # 3 + 2 warnings about pods of db, and one normal event.
    "events.jsonl": [
        event("Pod", "db-5d8f7c9b6d-x2v5z", 3),
        event("Pod", "db-5d8f7c9b6d-x2v5z", 2),
        event("Deployment", "cart", 1, "Normal"),
    ],
    "logs/shop_cart.log": "2025-03-01T10:20:00Z ERROR no answer\n2025-03-01T10:20:01Z fine, terror averted\n",
    "changes.jsonl": [
        {"time": "2025-03-01T10:10:00Z", "entity": "shop/Deployment/frontend", "patch": []},
        {"time": "2025-03-01T10:20:00Z", "entity": "shop/ConfigMap/db-config", "patch": []},
        {"time": "2025-03-01T10:21:00Z", "entity": "shop/Pod/cart-5d8f7c9b6d-x2v5z", "patch": []},
        {"time": "2025-03-01T10:40:00Z", "entity": "shop/Deployment/db", "patch": []},
    ],
}


def write(folder: Path, files: Mapping[str, Any]) -> Path:
    folder.mkdir()
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        if isinstance(content, str):
            path.write_text(content)
        elif name.endswith(".jsonl"):
            path.write_text("".join(json.dumps(row) + "\n" for row in content))
        else:
            path.write_text(json.dumps(content))
    return folder


@pytest.fixture
def diagnose(tmp_path: Path) -> Iterator[Callable[[str, Mapping[str, Any]], tuple[list[str], list[bytes]]]]:
    def run(name: str, files: Mapping[str, Any]) -> tuple[list[str], list[bytes]]:
        with open_shell(write(tmp_path / "snapshot", files), unchecked=True) as sandbox:
            session = SandboxSession(sandbox)
            result = make_baseline(name).diagnose(session)
        assert result.error is None
        (submitted,) = session.submitted
        return list(validate_submission(submitted).entities()), session.outputs

    return run  # type: ignore[return-value]


def test_empty_names_nothing_and_runs_nothing(diagnose: Any) -> None:
    assert diagnose("empty", FILES) == ([], [])


def test_alerting_names_what_fires_at_detection_the_latest_first(diagnose: Any) -> None:
    entities, outputs = diagnose("alerting", FILES)
    assert entities == ["shop/Pod/cart-5d8f7c9b6d-x2v5z", "shop/Deployment/frontend", "Node/worker-1"]
    assert b"cart-5d8f7c9b6d-x2v5z" in b"".join(outputs)


def test_loudest_adds_spans_lines_and_events_of_a_workload(diagnose: Any) -> None:
    # frontend 30 spans; cart 9 spans + 1 line = 10; db 5 events.
    assert diagnose("loudest", FILES)[0] == ["shop/Deployment/frontend"]


def test_loudest_counts_the_events_of_pods_for_their_workload(diagnose: Any) -> None:
    # Without spans: db 3 + 2 warning events, cart 1 line.
    assert diagnose("loudest", {**FILES, "traces.jsonl": []})[0] == ["shop/Deployment/db"]


def test_upstream_ends_at_the_deepest_abnormal_dependency(diagnose: Any) -> None:
    # frontend alerts -> cart alerts -> db has warning events; its ConfigMap shows nothing.
    assert diagnose("upstream", FILES)[0] == ["shop/Deployment/db"]


def test_upstream_does_not_take_the_node_of_a_pod_for_a_dependency(diagnose: Any) -> None:
    topology = json.loads(json.dumps(FILES["topology.json"]))
    # The Node alerts in FILES and is the place of db's Pods, so it would be one step deeper.
    topology["nodes"].append({"id": "Node/worker-1", "kind": "Node", "name": "worker-1"})
    topology["edges"].append(
        {"source": "shop/Deployment/db", "target": "Node/worker-1", "relation": "runs_on"}
    )
    assert diagnose("upstream", {**FILES, "topology.json": topology})[0] == ["shop/Deployment/db"]


def test_upstream_passes_nothing_normal(diagnose: Any) -> None:
    files = {**FILES, "events.jsonl": [], "alerts.jsonl": [alert(deployment="frontend", namespace="shop")]}
    # cart has 9 errors of 9 spans, db 0 of 100: the walk ends at cart.
    assert diagnose("upstream", files)[0] == ["shop/Deployment/cart"]


def test_recent_change_names_the_last_revision_before_the_first_symptom(diagnose: Any) -> None:
    # First alert 10:27; a Pod's revision is an echo, and 10:40 is later.
    assert diagnose("recent-change", FILES)[0] == ["shop/ConfigMap/db-config"]


def test_recent_change_without_a_history_takes_creations_then_events(diagnose: Any, tmp_path: Path) -> None:
    files = {name: content for name, content in FILES.items() if name != "changes.jsonl"}
    assert diagnose("recent-change", files)[0] == ["shop/Deployment/cart"]


def test_recent_change_takes_the_latest_creation(diagnose: Any) -> None:
    files = {name: content for name, content in FILES.items() if name != "changes.jsonl"}
    files["objects.jsonl"] = [
        manifest("Deployment", "cart", creationTimestamp="2025-03-01T10:05:00Z"),
        manifest("Service", "new", creationTimestamp="2025-03-01T10:15:00Z"),
        manifest("Service", "old", creationTimestamp="2025-02-01T10:15:00Z"),
    ]
    assert diagnose("recent-change", files)[0] == ["shop/Service/new"]


def test_recent_change_falls_back_to_what_changed_before_the_detection(diagnose: Any) -> None:
    late = {"time": "2025-03-01T10:29:30Z", "entity": "shop/ConfigMap/db-config", "patch": []}
    assert diagnose("recent-change", {**FILES, "changes.jsonl": [late]})[0] == ["shop/ConfigMap/db-config"]


def test_a_row_of_another_shape_hides_no_other_row(diagnose: Any) -> None:
    strange = [{"metadata": "x", "involvedObject": 1, "resource": [], "status": "up", "labels": None}]
    files = {
        name: [*strange, *content] if name.endswith(".jsonl") else content for name, content in FILES.items()
    }
    assert diagnose("loudest", files)[0] == ["shop/Deployment/frontend"]


RAW: dict[str, Any] = {
    "snapshot.json": FILES["snapshot.json"],
    "objects.jsonl": FILES["objects.jsonl"],
    "raw/alerts_in_alerting_state_2025-03-01T103000.904312Z.json": {
        "data": {
            "alerts": [
                {
                    "labels": {"alertname": "Errors", "namespace": "shop", "service_name": "cart"},
                    "state": "firing",
                    "activeAt": "2025-03-01T10:28:00.488970782Z",
                },
                {"labels": {"alertname": "Errors", "service_name": "frontend"}, "state": "pending"},
            ]
        },
        "timestamp": "2025-03-01T10:30:00Z",
    },
    "raw/alerts_at_2025-03-01T10-29-49.329092.json": [
        {"labels": {"alertname": "Errors", "service_name": "frontend"}, "state": "firing"}
    ],
    "raw/otel_traces_raw.tsv": "ServiceName\tResourceAttributes\tStatusCode\n"
    "db\t{'k8s.namespace.name': 'shop'}\tError\n"
    "db\t{'k8s.namespace.name': 'shop', 'x': \"\ty\n\"}\tError\n".replace('"', ""),
    "raw/k8s_events_raw.tsv": 'Timestamp\tBody\nx\t"{""type"": ""ADDED"", ""object"": {""metadata"": {}}}"\n',
}


def test_alerting_reads_the_captures_of_an_imported_snapshot(diagnose: Any) -> None:
    assert diagnose("alerting", RAW)[0] == ["shop/Deployment/cart"]


def test_loudest_reads_the_tables_of_an_imported_snapshot(diagnose: Any) -> None:
    assert diagnose("loudest", RAW)[0] == ["shop/Deployment/db"]


@pytest.mark.parametrize("name", sorted(BASELINES))
@pytest.mark.parametrize(
    "files",
    [
        {},
        {"snapshot.json": FILES["snapshot.json"]},
        {name: "no JSON\n[1]\n{\n\x00\n" for name in FILES},
        {name: "[]" if name.endswith(".json") else '{"metadata": null, "labels": 1}\n' for name in FILES},
    ],
    ids=["nothing", "manifest", "damaged", "other shapes"],
)
def test_a_snapshot_without_evidence_gives_the_empty_list(diagnose: Any, name: str, files: Any) -> None:
    assert diagnose(name, files)[0] == []


def test_output_longer_than_a_reply_is_read_page_by_page(diagnose: Any) -> None:
    many = [row for number in range(400) for row in workload(f"service-number-{number:04d}")]
    files = {
        **FILES,
        "objects.jsonl": [*many, *workload("zz-last")],
        "traces.jsonl": [span("zz-last", "STATUS_CODE_ERROR")] * 50,
    }
    entities, outputs = diagnose("loudest", files)
    assert entities == ["shop/Deployment/zz-last"]
    assert max(map(len, outputs)) <= 32 * 1024


def test_an_unknown_baseline_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="recent-change"):
        make_baseline("oracle")
