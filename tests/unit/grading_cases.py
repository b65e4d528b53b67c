"""Small answers that the tests of grading have in common."""

from __future__ import annotations

from typing import Any

from unit.sample_runs import Trial

from diagnose_bench.records import BoundaryEvent
from diagnose_bench.scorecard import Scorecard

CART, CHECKOUT, FRONTEND, VALKEY = (
    f"shop/Deployment/{name}" for name in ("cart", "checkout", "frontend", "valkey")
)
ONE, TWO, CALM = "scenario-001", "scenario-002", "scenario-003"


def all_right(repeats: int = 1) -> dict[tuple[str, int], Trial]:
    answers = {ONE: [CART], TWO: [CART, VALKEY], CALM: []}
    return {(one, k): Trial(names) for one, names in answers.items() for k in range(1, repeats + 1)}


def event(confidence: str) -> dict[str, Any]:
    found = BoundaryEvent(time="", command=1, layer="decoy", kind="decoy", detail="", confidence=confidence)
    return {"boundary_events": (found,)}


def trial_of(scorecard: Scorecard, scenario_id: str, repeat: int = 1) -> Any:
    scenario = next(one for one in scorecard.scenarios if one.scenario_id == scenario_id)
    return scenario.trials[repeat - 1]
