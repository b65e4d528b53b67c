"""A suite of two small snapshots for tests of runs: each has one event that names the broken object."""

from __future__ import annotations

import json
from pathlib import Path

from diagnose_bench.suite import Suite, load_suite
from diagnose_bench.suite_digest import digest_suite

SCENARIO_IDS = ("scenario-001", "scenario-002")
CULPRITS = {"scenario-001": "shop/Deployment/cart", "scenario-002": "shop/Deployment/billing"}
WINDOW = {
    "start": "2025-03-01T10:00:00Z",
    "detected_at": "2025-03-01T10:30:00Z",
    "end": "2025-03-01T10:45:00Z",
}


def write_small_suite(root: Path, *, snapshots: bool = True) -> Suite:
    """Write the suite with its digests, and truths where truths lie; return it loaded."""
    folder = root / "snapshots" / "small"
    folder.mkdir(parents=True)
    for scenario_id in SCENARIO_IDS if snapshots else ():
        _write_snapshot(folder / scenario_id, CULPRITS[scenario_id])
    document = {
        "format_version": 1,
        "name": "small",
        "version": "1.0",
        "pass_score": 1.0,
        "scenarios": [{"id": scenario_id, "digest": None} for scenario_id in SCENARIO_IDS],
    }
    (folder / "suite.json").write_text(json.dumps(document))
    if snapshots:
        digest_suite(str(folder), write=True)
    truths = root / "ground_truth" / "small"
    truths.mkdir(parents=True)
    for scenario_id, culprit in CULPRITS.items():
        text = (
            f"format_version: 1\nscenario_id: {scenario_id}\ntitle: It runs out of memory\n"
            f"groups: [{{id: culprit, entities: [{culprit}], root_cause: true}}]\n"
            f"canary: TRUTH-OF-{scenario_id}\n"
        )
        (truths / f"{scenario_id}.yaml").write_text(text)
    return load_suite(str(folder))


def _write_snapshot(folder: Path, culprit: str) -> None:
    folder.mkdir()
    namespace, kind, name = culprit.split("/")
    event = {
        "reason": "OOMKilled",
        "type": "Warning",
        "involvedObject": {"kind": kind, "namespace": namespace, "name": name},
        "lastTimestamp": WINDOW["detected_at"],
    }
    alert = {
        "labels": {
            "alertname": "TargetDown",
            "namespace": namespace,
            "deployment": name,
            "severity": "critical",
        },
        "annotations": {},
        "startsAt": WINDOW["detected_at"],
        "endsAt": "0001-01-01T00:00:00Z",
        "status": {"state": "active", "silencedBy": [], "inhibitedBy": []},
        "observedAt": WINDOW["detected_at"],
    }
    workload = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"namespace": namespace, "name": name}}
    for file, row in (("events.jsonl", event), ("alerts.jsonl", alert), ("objects.jsonl", workload)):
        (folder / file).write_text(json.dumps(row) + "\n")
    node = {"id": culprit, "kind": kind, "namespace": namespace, "name": name, "labels": {}}
    (folder / "topology.json").write_text(json.dumps({"nodes": [node], "edges": []}))
    manifest = {"format_version": 1, "window": WINDOW, "files": [], "sources": []}
    (folder / "snapshot.json").write_text(json.dumps(manifest))
