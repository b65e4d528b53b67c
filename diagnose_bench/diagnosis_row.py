"""One row of recorded answers, as ``import diagnoses`` takes it: its keys, an example, its JSON Schema."""

from __future__ import annotations

import json
from typing import Any

ANSWER_KEYS = ("diagnosis", "entities", "text")
EXAMPLE: dict[str, Any] = {"scenario_id": "scenario-001", "repeat": 1, "entities": ["shop/Deployment/cart"]}
_KEYS = f"scenario_id, repeat, and exactly one of {', '.join(ANSWER_KEYS)}"
HINT = f"a row has {_KEYS}, such as {json.dumps(EXAMPLE)}"


def diagnosis_row_schema() -> dict[str, Any]:
    """The JSON Schema of a row; other keys are passed over.

    Notes
    -----
    What stands under the answer's key is read as tolerantly as what an agent prints: a wrong one is a trial
    with the outcome ``malformed_diagnosis``, not a rejected row.
    """
    return {
        "title": "diagnose-bench row of recorded answers",
        "description": "One line of the JSONL file for import diagnoses: the answer to one trial.",
        "type": "object",
        "required": ["scenario_id", "repeat"],
        "properties": {
            "scenario_id": {
                "description": "The scenario's id, or its number.",
                "anyOf": [{"type": "string", "minLength": 1}, {"type": "integer", "minimum": 0}],
            },
            "repeat": {
                "description": "Which trial of the scenario, from 1.",
                "type": "integer",
                "minimum": 1,
            },
            "diagnosis": {
                "description": "A diagnosis as in the schema diagnosis; null where there was no answer."
            },
            "entities": {
                "description": "The root causes alone, most likely first; null where there was no answer.",
                "type": ["array", "null"],
                "items": {"type": "string"},
            },
            "text": {
                "description": "All that the agent printed; null where there was no answer.",
                "type": ["string", "null"],
            },
        },
        "oneOf": [{"required": [key]} for key in ANSWER_KEYS],
        "examples": [EXAMPLE],
    }
