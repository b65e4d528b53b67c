"""A small incident for tests of the generator."""

from __future__ import annotations

from typing import Any

from diagnose_bench.reconstruct.admission import admit
from diagnose_bench.reconstruct.pods import Pod
from diagnose_bench.reconstruct.spec_workload import Workload


def small_spec(**more: Any) -> dict[str, Any]:
    """A shop of two services, for 45 minutes."""
    document: dict[str, Any] = {
        "format_version": 1,
        "scenario_id": "scenario-090",
        "seed": 7,
        "canary": "diagnose-bench:00000000000000000000000000000090",
        "window": {
            "start": "2024-05-01T10:00:00Z",
            "detected_at": "2024-05-01T10:20:00Z",
            "end": "2024-05-01T10:45:00Z",
        },
        "cluster": {"nodes": [{"name": "n1"}, {"name": "n2"}], "platform": ["coredns"]},
        "workloads": [
            {"namespace": "shop", "name": "front", "replicas": 2, "image": "front:1", "port": 80},
            {"namespace": "shop", "name": "back", "replicas": 2, "image": "back:1", "port": 80},
        ],
        "operations": [
            {
                "id": "front.get",
                "workload": "shop/front",
                "name": "GET /",
                "latency_ms": 10,
                "rps": 10,
                "calls": [{"to": "back.get", "share": 0.5, "timeout_ms": 100000, "retries": 1}],
            },
            {
                "id": "back.get",
                "workload": "shop/back",
                "name": "GET /b",
                "latency_ms": 5,
                "errors": [["10:00", 0.2]],
            },
        ],
        "truth": {},
    }
    document.update(more)
    return document


def make_pod() -> Pod:
    workload = Workload(namespace="a", name="b", image="c", ready_after_s=5)
    return Pod(workload, 0, "b-x", "n", "10.0.0.1", "u", -1000.0, ("ReplicaSet", "b"), 1, admit(workload, []))
