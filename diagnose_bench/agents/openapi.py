"""The OpenAPI document of the one-trial interface for hosted agents. Describes; `hosted_server` does."""

from __future__ import annotations

from typing import Any

from diagnose_bench import __version__
from diagnose_bench.diagnosis_model import diagnosis_schema

_ERROR = {"$ref": "#/components/schemas/Error"}


def openapi_document(public_url: str) -> dict[str, Any]:
    """The document, for the address by which agents reach us.

    Parameters
    ----------
    public_url : str
        Without a slash at its end.
    """
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "One trial of diagnose-bench",
            "version": __version__,
            "description": (
                "What a hosted agent calls while it works on one incident. `base_url` and `token` stand in "
                "the task that it was sent, and are of one trial: after its end every call answers 410."
            ),
        },
        "servers": [
            {
                "url": f"{public_url}/trials/{{trial}}",
                "description": "`base_url` of the task.",
                "variables": {"trial": {"default": "TRIAL", "description": "The last part of `base_url`."}},
            }
        ],
        "security": [{"token": []}],
        "paths": {
            "/task": {
                "get": {
                    "operationId": "task",
                    "summary": "The task, and the time that is left.",
                    "responses": {"200": _json("The task.", "#/components/schemas/Task"), **_failures()},
                }
            },
            "/run_command": {
                "post": {
                    "operationId": "run_command",
                    "summary": "Run one bash command in the sandbox; a turn.",
                    "requestBody": {
                        "required": True,
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Command"}}},
                    },
                    "responses": {
                        "200": _json("How it ended.", "#/components/schemas/CommandResult"),
                        **_failures(400, 413),
                    },
                }
            },
            "/submit": {
                "post": {
                    "operationId": "submit",
                    "summary": "Hand in the diagnosis; an accepted one ends the shell.",
                    "requestBody": {
                        "required": True,
                        "content": {
                            "application/json": {"schema": {"$ref": "#/components/schemas/Diagnosis"}}
                        },
                    },
                    "responses": {
                        "200": _json(
                            "Accepted. Never whether it is right.", "#/components/schemas/Submission"
                        ),
                        "422": _json("What is wrong with its form.", "#/components/schemas/Submission"),
                        **_failures(413),
                    },
                }
            },
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Task": _object(
                    {"task": {"type": "string"}, "time_left_s": {"type": "number", "minimum": 0}},
                    required=["task", "time_left_s"],
                ),
                "Command": _object(
                    {
                        "command": {"type": "string"},
                        "timeout_s": {"type": "number", "exclusiveMinimum": 0},
                    },
                    required=["command"],
                ),
                "CommandResult": _object(
                    {
                        "output": {
                            "type": "string",
                            "description": "Of a long output the beginning and the end.",
                        },
                        "exit_code": {"type": "integer"},
                        "notice": {"type": "string", "description": "From the harness: turns that are left."},
                    },
                    required=["output", "exit_code", "notice"],
                ),
                "Submission": _object(
                    {"accepted": {"type": "boolean"}, "message": {"type": "string"}},
                    required=["accepted", "message"],
                ),
                "Error": _object({"error": {"type": "string"}}, required=["error"]),
                "Diagnosis": _diagnosis(),
            },
        },
    }


def _diagnosis() -> dict[str, Any]:
    """The schema of a diagnosis with its parts inside, as references lead elsewhere in this document."""
    schema = dict(diagnosis_schema())
    for key in ("$schema", "$id"):
        schema.pop(key, None)
    parts = schema.pop("$defs", {})
    return _inlined(schema, parts)  # type: ignore[no-any-return]


def _inlined(value: Any, parts: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_inlined(item, parts) for item in value]
    if not isinstance(value, dict):
        return value
    name = str(value.get("$ref", "")).removeprefix("#/$defs/")
    if name in parts:
        rest = {key: item for key, item in value.items() if key != "$ref"}
        return {**_inlined(parts[name], parts), **_inlined(rest, parts)}
    return {key: _inlined(item, parts) for key, item in value.items()}


def _object(properties: dict[str, Any], *, required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


def _json(description: str, schema: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": {"$ref": schema}}}}


def _failures(*more: int) -> dict[str, Any]:
    texts = {
        400: "The request makes no sense; the message says why.",
        401: "No trial, or not its token.",
        410: "The trial is over.",
        413: "The body is too large.",
        503: "Too many calls at once.",
    }
    return {
        str(status): {"description": texts[status], "content": {"application/json": {"schema": _ERROR}}}
        for status in sorted({401, 410, 503, *more})
    }
