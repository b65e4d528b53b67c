"""The two tools that a model has: what it is told of them, and what its calls do. Sends nothing."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from diagnose_bench.agents.base import TrialSession
from diagnose_bench.diagnosis import diagnosis_schema
from diagnose_bench.files import canonical_json, sha256_of_bytes

SHELL = "shell"
SUBMIT = "submit_diagnosis"
_NOT_A_SCHEMA = ("$schema", "$defs", "title", "default", "maxItems")


class _Malformed(ValueError):
    """Arguments that cannot be used; the message goes to the model."""


@dataclass(frozen=True)
class ToolAnswer:
    """What one tool call answers.

    Attributes
    ----------
    text : str
        For the model.
    command : int or None
        Number of the command that was run.
    """

    text: str
    command: int | None = None


def tool_definitions() -> list[dict[str, Any]]:
    """The tools in the form of the API.

    Notes
    -----
    The schema of a diagnosis is the native one with its references written out, since some servers know none,
    and without the bound on entities, of which some build a grammar of ten thousand parts. The submission is
    held against the whole schema.
    """
    schema = diagnosis_schema()
    shell = {
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "The bash command."},
            "timeout_s": {
                "type": "number",
                "description": "Seconds after which it is stopped, where the usual limit is too short.",
            },
        },
        "required": ["command"],
    }
    return [
        _function(
            SHELL,
            "Run one bash command in the sandbox, where the snapshot is. Each command is a fresh sandbox: "
            "the working directory and shell variables do not last, files in /scratch do.",
            shell,
        ),
        _function(
            SUBMIT,
            "Hand in the diagnosis: the minimal set of independent root causes, the surest first, each the "
            "most specific object, with its evidence. The first accepted one is final.",
            _written_out(schema, schema.get("$defs", {})),
        ),
    ]


def tools_digest() -> str:
    """Hex SHA-256 of the tools: they are part of what a model is told."""
    return sha256_of_bytes(canonical_json(tool_definitions()))


def run_tool(session: TrialSession, name: str, arguments: str) -> ToolAnswer:
    """Do what one call asks for; what is wrong with it is said to the model.

    Raises
    ------
    TrialOver
        The trial has ended.
    """
    if name == SUBMIT:
        if not arguments.strip():
            return ToolAnswer("There are no arguments: give the diagnosis as the arguments of this tool.")
        return ToolAnswer(session.submit(arguments.encode("utf-8", "replace")).message)
    if name != SHELL:
        return ToolAnswer(f"There is no tool {name[:100]!r}. The tools are {SHELL} and {SUBMIT}.")
    try:
        command, timeout_s = _shell_arguments(arguments)
    except _Malformed as error:
        return ToolAnswer(f"The command was not run: {error}")
    before = session.n_commands
    reply = session.run_command(command, timeout_s)
    was_run = session.n_commands > before
    output = reply.output.decode("utf-8", "replace")
    end = "" if not output or output.endswith("\n") else "\n"
    lines = f"{output}{end}[exit code {reply.exit_code}]" if was_run else output
    return ToolAnswer("\n".join(filter(None, (lines, reply.notice))), session.n_commands if was_run else None)


def _shell_arguments(text: str) -> tuple[str, float | None]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _Malformed(f"its arguments are no JSON ({error}). Call it again with valid JSON.") from None
    if not isinstance(value, dict):
        raise _Malformed('its arguments must be an object with "command".')
    command, timeout_s = value.get("command"), value.get("timeout_s")
    if not isinstance(command, str) or not command.strip():
        raise _Malformed('"command" is missing, or no text.')
    if timeout_s is None:
        return command, None
    is_number = isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool)
    if not is_number or not 0 < timeout_s < math.inf:
        raise _Malformed('"timeout_s" must be a number of seconds above 0.')
    return command, float(timeout_s)


def _function(name: str, description: str, parameters: Any) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


def _written_out(value: Any, parts: dict[str, Any], *, names_fields: bool = False) -> Any:
    """A schema without references; below ``properties`` the keys are names of fields and all stay."""
    if isinstance(value, list):
        return [_written_out(entry, parts) for entry in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value and not names_fields:
        value = {**parts[value["$ref"].rpartition("/")[2]], **{k: v for k, v in value.items() if k != "$ref"}}
    return {
        name: _written_out(entry, parts, names_fields=name == "properties" and not names_fields)
        for name, entry in value.items()
        if names_fields or name not in _NOT_A_SCHEMA
    }
