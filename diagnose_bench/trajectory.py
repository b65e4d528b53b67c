"""trajectory.json: one trial in the Agent Trajectory Interchange Format, for tools that know nothing of us.

Built from what the harness recorded, so that it exists for closed agents too; where the agent's loop is ours,
its messages are joined with the recorded commands. ``commands.jsonl`` stays the truth. Opens no truth of a
scenario and judges nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from diagnose_bench import __version__
from diagnose_bench.agents.base import AgentStep, ToolCall
from diagnose_bench.errors import RunFormatError
from diagnose_bench.files import pretty_json
from diagnose_bench.records import AgentInfo, CommandRecord, PlannedTrial, TrialRecord, Usage
from diagnose_bench.redaction import Redactor
from diagnose_bench.store import RunStore

FILE = "trajectory.json"
SCHEMA_VERSION = "ATIF-v1.7"
"""The oldest version that has all we write, so that readers of that one and of newer ones take it."""
MAX_TEXT = 32 << 20
"""Characters of recorded output in one file; more stays in commands.jsonl alone."""
SHELL_TOOL = "run_command"
SUBMIT_TOOL = "submit_diagnosis"
_MAX_ANSWER = 1 << 20


def write_trajectory(
    store: RunStore,
    trial: PlannedTrial,
    record: TrialRecord,
    *,
    agent: AgentInfo,
    task: str,
    steps: Sequence[AgentStep],
    answer: bytes | None = None,
    was_submitted: bool = False,
    redactor: Redactor | None = None,
) -> None:
    """Write the trajectory of a trial that has ended; before its ``trial.json``.

    Parameters
    ----------
    store : RunStore
        The run; the trial's commands are read back from it.
    trial : PlannedTrial
        Which one.
    record : TrialRecord
        How it ended.
    agent : AgentInfo
        Who worked.
    task : str
        What the agent was told; empty where it was told nothing.
    steps : sequence of AgentStep
        The agent's own loop where it is ours; else empty, and each command becomes a step.
    answer : bytes or None
        What the agent handed in or printed.
    was_submitted : bool
        Whether it was handed in.
    redactor : Redactor, optional
        Takes secrets out of the texts that the record of the commands does not have.

    Raises
    ------
    RunError
        The file cannot be written.
    """
    document = trajectory_of(
        store.manifest.run_id,
        record,
        agent=agent,
        task=task,
        steps=steps,
        commands=list(_commands(store, trial)),
        answer=answer,
        was_submitted=was_submitted,
    )
    cleaned = (redactor or Redactor()).tree(document)
    store.write_file(f"trials/{trial.scenario_id}/{trial.repeat}/{FILE}", pretty_json(cleaned))


def trajectory_of(
    run_id: str,
    record: TrialRecord,
    *,
    agent: AgentInfo,
    task: str,
    steps: Sequence[AgentStep],
    commands: Sequence[CommandRecord],
    answer: bytes | None,
    was_submitted: bool,
) -> dict[str, Any]:
    """The document as a JSON value; the parameters are those of `write_trajectory`."""
    texts = _Texts()
    if steps:
        written = _own_loop(steps, commands, texts)
    else:
        written = _from_commands(record, task, commands, answer, was_submitted, texts)
    notes = [
        "Written by the harness that ran the trial: commands and outputs are its own record, and not what "
        "the agent says of itself."
    ]
    if not steps:
        notes.append("What the agent thought or said between its commands is not known.")
    if texts.n_left_out:
        notes.append(f"{texts.n_left_out} outputs were left out here; commands.jsonl has them.")
    return {
        "schema_version": SCHEMA_VERSION,
        "session_id": run_id,
        "trajectory_id": f"{run_id}/{record.scenario_id}/{record.repeat}",
        "agent": _without_none(
            {
                "name": _text(agent.name),
                "version": _text(agent.version or "unknown"),
                "model_name": None if agent.model is None else _text(agent.model),
                "tool_definitions": _tools(steps),
                "extra": None if agent.config_digest is None else {"config_digest": agent.config_digest},
            }
        ),
        "steps": [{"step_id": number, **step} for number, step in enumerate(written, start=1)],
        "notes": " ".join(notes),
        "final_metrics": _final_metrics(record, len(written)),
        "extra": {
            "harness": f"diagnose-bench {__version__}",
            "scenario_id": record.scenario_id,
            "repeat": record.repeat,
            "outcome": record.outcome.value,
            "reason": _text(record.reason),
            "limit_hit": record.limit_hit,
        },
    }


class _Texts:
    """How much recorded output the document still takes."""

    def __init__(self) -> None:
        self.n_left_out = 0
        self._left = MAX_TEXT

    def taken(self, text: str) -> str:
        if len(text) > self._left:
            self.n_left_out += 1
            return "[left out here: see commands.jsonl]"
        self._left -= len(text)
        return _text(text)


def _commands(store: RunStore, trial: PlannedTrial) -> Iterator[CommandRecord]:
    """What was recorded, as far as it can be read: a trial may have ended because a line could not be."""
    try:
        yield from store.commands(trial)
    except RunFormatError:
        return


def _from_commands(
    record: TrialRecord,
    task: str,
    commands: Sequence[CommandRecord],
    answer: bytes | None,
    was_submitted: bool,
    texts: _Texts,
) -> list[dict[str, Any]]:
    written = [_step("user", record.started_at, task)] if task else []
    written += [_command_step(command, texts) for command in commands]
    end = _end_of(record)
    if answer is not None and was_submitted:
        call = {
            "tool_call_id": "submission",
            "function_name": SUBMIT_TOOL,
            "arguments": {"diagnosis": _answer(answer)},
        }
        observation = {"results": [{"source_call_id": "submission", "content": "accepted"}]}
        written.append(_step("agent", end, "", tool_calls=[call], observation=observation))
    elif answer is not None:
        written.append(_step("agent", end, answer[:_MAX_ANSWER].decode("utf-8", "replace")))
    else:
        written.append(_step("system", end, f"The trial ended: {record.outcome.value}. {record.reason}"))
    return written


def _command_step(command: CommandRecord, texts: _Texts) -> dict[str, Any]:
    identity = f"command-{command.n}"
    call = {
        "tool_call_id": identity,
        "function_name": SHELL_TOOL,
        "arguments": {"command": _text(command.command)},
    }
    result = {
        "source_call_id": identity,
        "content": texts.taken(command.output),
        "extra": _about(command),
    }
    return _step("agent", command.started_at, "", tool_calls=[call], observation={"results": [result]})


def _own_loop(
    steps: Sequence[AgentStep], commands: Sequence[CommandRecord], texts: _Texts
) -> list[dict[str, Any]]:
    waiting = {command.n: command for command in commands}
    written = []
    for step in steps:
        if step.source != "agent":
            written.append(_step(step.source, step.at, step.message))
            continue
        calls, results = _calls(step.tool_calls, waiting, texts)
        n_calls = step.usage.n_model_calls
        metrics = None if n_calls == 0 else _metrics(step.usage)
        written.append(
            _step(
                "agent",
                step.at,
                step.message,
                reasoning_content=_text(step.reasoning) if step.reasoning and n_calls != 0 else None,
                tool_calls=calls or None,
                observation={"results": results} if results else None,
                metrics=metrics,
                llm_call_count=1 if n_calls is None else n_calls,
            )
        )
    # A command that no message asked for was still run.
    return written + [_command_step(command, texts) for command in waiting.values()]


def _calls(
    tool_calls: Sequence[ToolCall], waiting: dict[int, CommandRecord], texts: _Texts
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    calls: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    seen: set[str] = set()
    for place, call in enumerate(tool_calls, start=1):
        identity = _text(call.id)
        if not identity or identity in seen:
            identity = f"{identity or 'call'}-{place}"
        seen.add(identity)
        calls.append(
            {
                "tool_call_id": identity,
                "function_name": _text(call.name),
                "arguments": _arguments(call.arguments),
            }
        )
        command = None if call.command is None else waiting.pop(call.command, None)
        shown = call.answer if call.answer or command is None else command.output
        result: dict[str, Any] = {"source_call_id": identity, "content": texts.taken(shown)}
        if command is not None:
            result["extra"] = _about(command)
        results.append(result)
    return calls, results


def _about(command: CommandRecord) -> dict[str, Any]:
    return {
        "command": command.n,
        "exit_code": command.exit_code,
        "seconds": command.seconds,
        "n_bytes": command.n_bytes,
        "sha256": command.sha256,
        "limit_hit": command.limit_hit,
    }


def _step(source: str, at: str, message: str, **more: Any) -> dict[str, Any]:
    step = {"source": source, "timestamp": at if _is_time(at) else None, "message": _text(message), **more}
    return _without_none(step)


def _arguments(text: str) -> dict[str, Any]:
    """The arguments as an object; what the model wrote instead of one is kept as text."""
    try:
        value = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        value = None
    return _clean(value) if isinstance(value, dict) else {"text": _text(text)}


def _answer(data: bytes) -> Any:
    text = data[:_MAX_ANSWER].decode("utf-8", "replace")
    try:
        return _clean(json.loads(text, parse_constant=str))
    except (ValueError, RecursionError):
        return text


def _clean(value: Any) -> Any:
    """The same JSON value without half characters and without numbers that JSON has not."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {_text(name): _clean(item) for name, item in value.items()}
    return value


def _text(text: str) -> str:
    """A text that every reader of JSON takes: without halves of characters."""
    return text.encode("utf-8", "replace").decode()


def _metrics(usage: Usage) -> dict[str, Any] | None:
    extra = {} if usage.reasoning_tokens is None else {"reasoning_tokens": usage.reasoning_tokens}
    return (
        _without_none(
            {
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "cached_tokens": usage.cached_tokens,
                "cost_usd": _finite(usage.cost_usd),
                "extra": extra or None,
            }
        )
        or None
    )


def _final_metrics(record: TrialRecord, n_steps: int) -> dict[str, Any]:
    usage = record.usage
    return _without_none(
        {
            "total_prompt_tokens": usage.input_tokens,
            "total_completion_tokens": usage.output_tokens,
            "total_cached_tokens": usage.cached_tokens,
            "total_cost_usd": _finite(usage.cost_usd),
            "total_steps": n_steps,
            "extra": {
                "seconds": record.seconds,
                "n_turns": record.n_turns,
                "n_commands": record.n_commands,
                "n_model_calls": usage.n_model_calls,
                "n_model_retries": usage.n_model_retries,
                "reasoning_tokens": usage.reasoning_tokens,
                "reported_by_agent": usage.reported_by_agent,
            },
        }
    )


def _tools(steps: Sequence[AgentStep]) -> list[dict[str, Any]] | None:
    """What the harness offers, where it is called by these names."""
    if steps:
        return None
    return [
        _tool(SHELL_TOOL, "Run one command in the sandbox.", "command", {"type": "string"}),
        _tool(SUBMIT_TOOL, "Hand in the diagnosis.", "diagnosis", {"type": "object"}),
    ]


def _tool(name: str, description: str, parameter: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {parameter: schema}, "required": [parameter]}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


def _end_of(record: TrialRecord) -> str:
    try:
        end = datetime.fromisoformat(record.started_at) + timedelta(seconds=record.seconds)
    except (ValueError, OverflowError):
        return ""
    return end.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
