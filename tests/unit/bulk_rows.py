"""Rows of bulk files and what becomes of them, for the tests of bulk scoring."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unit.sample_runs import truth_of

from diagnose_bench.bulk import BulkResult

TRUTHS = {
    "scenario-001": truth_of("scenario-001", ["cart"], ["checkout"]),
    "scenario-002": truth_of("scenario-002", ["cart", "valkey"]),
    "scenario-003": truth_of("scenario-003", []),
}
CART, VALKEY, CHECKOUT = (f"shop/Deployment/{name}" for name in ("cart", "valkey", "checkout"))
CART_POD = "shop/Pod/cart-5d8f7c9b6d-x2v5z"


def row(scenario: Any = "scenario-001", repeat: Any = 1, agent: Any = "a", **answer: Any) -> dict[str, Any]:
    return {"agent": agent, "scenario_id": scenario, "repeat": repeat, **(answer or {"entities": [CART]})}


def write_rows(path: Path, rows: Sequence[Mapping[str, Any] | bytes], end: bytes = b"\n") -> Path:
    lines = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in rows]
    path.write_bytes(end.join(lines) + end)
    return path


def scorecard(result: BulkResult, agent: str = "a") -> dict[str, Any]:
    path = next(one.path for one in result.agents if one.name == agent)
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


MIXED_ROWS: list[Mapping[str, Any] | bytes] = [
    row(entities=[CART, CHECKOUT, "Nothing/at-all", "Nothing/at-all"]),
    row(repeat=2, diagnosis={"root_causes": [{"entity": CART_POD, "confidence": 0.5}]}),
    row(repeat=3, text="I think:\n```json\n" + json.dumps([CART, CART]) + "\n```"),
    row("scenario-002", entities=[CHECKOUT, CART_POD, VALKEY, CART, CART_POD]),
    row("scenario-002", 2, entities=[VALKEY]),
    row("scenario-002", 3, entities=[]),
    row("scenario-003", entities=[]),
    row("scenario-003", 2, diagnosis=None),
    row("scenario-003", 3, diagnosis={"refused": True}),
    row("2", 4, diagnosis={"root_causes": [{"name": "no entity"}]}),
    row("Scenario-1", 4, text="no json here"),
    b'{"agent": "a", "scenario_id": 3, "repeat": 4, "entities": ["shop/Deployment/cart", 3]}',
    row(repeat=5, entities=["Service: cart (namespace shop)", 'say "hi", please', "caf\u00e9", CART]),
    row(repeat=6, entities=[CART], model="x", cost=[1, {"y": 2}]),
    b'{"agent": "a", "scenario_id": "scenario-001", "repeat": 7, '
    b'"diagnosis": {"root_causes": [], "root_causes": [{"entity": "x"}]}}',
    b'{"agent": "a", "scenario_id": "scenario-001", "repeat": 8, '
    b'"diagnosis": {"root_causes": [{"entity": "x", "confidence": NaN}]}}',
]
