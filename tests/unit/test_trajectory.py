"""trajectory.json is what another tool's models of the format accept, and says what the harness recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import atif
import pytest
from unit.sample_runs import Trial, truth_of, write_run, write_suite

from diagnose_bench.agents.base import AgentStep, ToolCall
from diagnose_bench.outcome import Limit, Outcome
from diagnose_bench.records import AgentInfo, CommandRecord, PlannedTrial, TrialRecord, Usage
from diagnose_bench.redaction import Redactor
from diagnose_bench.store import RunStore
from diagnose_bench.trajectory import trajectory_of, write_trajectory

START = "2025-01-01T00:00:00.000Z"
AGENT = AgentInfo(name="closed agent", version="2.1", model="model-x", config_digest="c" * 64)


def command(n: int, text: str = "ls", output: str = "alerts.jsonl\n", **changes: Any) -> CommandRecord:
    values = {
        "n": n,
        "started_at": START,
        "seconds": 0.5,
        "command": text,
        "exit_code": 0,
        "n_bytes": len(output.encode("utf-8", "replace")),
        "output": output,
        "sha256": "a" * 64,
    }
    return CommandRecord(**(values | changes))


def record(**changes: Any) -> TrialRecord:
    values = {
        "scenario_id": "scenario-001",
        "repeat": 2,
        "outcome": Outcome.DIAGNOSED,
        "reason": "The diagnosis was submitted.",
        "n_turns": 2,
        "n_commands": 2,
        "observed": True,
        "started_at": START,
        "seconds": 12.5,
    }
    return TrialRecord(**(values | changes))


def written(**changes: Any) -> tuple[dict[str, Any], atif.Trajectory]:
    """The document, through JSON, and what the other package reads of it."""
    values: dict[str, Any] = {
        "agent": AGENT,
        "task": "Find the cause.",
        "steps": (),
        "commands": [command(1), command(2, "grep OOM events.jsonl", "OOMKilled\n", exit_code=1)],
        "answer": b'{"root_causes": []}',
        "was_submitted": True,
    }
    found = trajectory_of("run-1", changes.pop("record", record()), **(values | changes))
    text = json.dumps(found, allow_nan=False)
    return json.loads(text), atif.Trajectory.model_validate_json(text)


def test_each_command_of_a_closed_agent_is_a_step_with_its_recorded_output() -> None:
    _, read = written()
    assert read.schema_version == "ATIF-v1.7"
    assert (read.session_id, read.trajectory_id) == ("run-1", "run-1/scenario-001/2")
    assert (read.agent.name, read.agent.version, read.agent.model_name) == ("closed agent", "2.1", "model-x")
    assert [step.source for step in read.steps] == ["user", "agent", "agent", "agent"]
    assert read.steps[0].message == "Find the cause."
    second = read.steps[2]
    assert second.tool_calls is not None
    assert second.observation is not None
    assert second.tool_calls[0].arguments == {"command": "grep OOM events.jsonl"}
    (result,) = second.observation.results
    assert result.content == "OOMKilled\n"
    assert result.extra is not None
    assert (result.extra["command"], result.extra["exit_code"], result.extra["n_bytes"]) == (2, 1, 10)


def test_the_submission_is_the_last_step_at_the_time_it_was_made() -> None:
    _, read = written()
    last = read.steps[-1]
    assert last.timestamp == "2025-01-01T00:00:12.500Z"
    assert last.tool_calls is not None
    assert last.tool_calls[0].function_name == "submit_diagnosis"
    assert last.tool_calls[0].arguments == {"diagnosis": {"root_causes": []}}


def test_a_printed_answer_is_a_message() -> None:
    _, read = written(answer=b"I think it is shop/Deployment/cart \xff", was_submitted=False)
    assert read.steps[-1].message == "I think it is shop/Deployment/cart \ufffd"
    assert read.steps[-1].tool_calls is None


def test_a_trial_without_an_answer_says_how_it_ended() -> None:
    ended = record(outcome=Outcome.TIME_LIMIT, reason="No diagnosis within 5 seconds.", limit_hit=Limit.TIME)
    _, read = written(record=ended, answer=None)
    assert read.steps[-1].source == "system"
    assert read.steps[-1].message == "The trial ended: time_limit. No diagnosis within 5 seconds."
    assert read.extra is not None
    assert (read.extra["outcome"], read.extra["limit_hit"]) == ("time_limit", "time")


def test_a_replay_that_was_told_nothing_still_has_a_step() -> None:
    _, read = written(task="", commands=[], answer=None, record=record(outcome=Outcome.NO_DIAGNOSIS))
    assert [step.step_id for step in read.steps] == [1]


OWN_LOOP = (
    AgentStep("system", START, "You find causes."),
    AgentStep("user", START, "Find the cause."),
    AgentStep(
        "agent",
        "2025-01-01T00:00:03Z",
        "Let me look.",
        reasoning="Events first.",
        tool_calls=(
            ToolCall("call-a", "shell", '{"command": "ls"}', answer="exit 0\nalerts.jsonl", command=1),
            ToolCall("call-a", "shell", "{not json", answer="The arguments are no JSON."),
        ),
        usage=Usage(
            input_tokens=100,
            output_tokens=20,
            reasoning_tokens=5,
            cached_tokens=60,
            cost_usd=0.25,
            n_model_calls=1,
        ),
    ),
)


def test_the_loop_of_a_model_is_joined_with_the_recorded_commands() -> None:
    used = Usage(input_tokens=100, output_tokens=20, reasoning_tokens=5, cached_tokens=60, cost_usd=0.25)
    _, read = written(steps=OWN_LOOP, record=record(usage=used))
    assert [step.source for step in read.steps] == ["system", "user", "agent", "agent"]
    step = read.steps[2]
    assert (step.message, step.reasoning_content, step.llm_call_count) == ("Let me look.", "Events first.", 1)
    assert step.metrics is not None
    assert (step.metrics.prompt_tokens, step.metrics.completion_tokens) == (100, 20)
    assert (step.metrics.cached_tokens, step.metrics.cost_usd) == (60, 0.25)
    assert step.metrics.extra == {"reasoning_tokens": 5}
    assert step.tool_calls is not None
    assert step.observation is not None
    assert [call.tool_call_id for call in step.tool_calls] == ["call-a", "call-a-2"]
    assert [call.arguments for call in step.tool_calls] == [{"command": "ls"}, {"text": "{not json"}]
    first, second = step.observation.results
    assert first.content == "exit 0\nalerts.jsonl"
    assert first.extra is not None
    assert first.extra["sha256"] == "a" * 64
    assert second.extra is None
    assert read.final_metrics is not None
    assert (read.final_metrics.total_prompt_tokens, read.final_metrics.total_cost_usd) == (100, 0.25)
    assert read.final_metrics.total_steps == 4


def test_a_command_that_no_message_asked_for_is_kept() -> None:
    _, read = written(steps=OWN_LOOP)
    last = read.steps[-1]
    assert last.tool_calls is not None
    assert last.tool_calls[0].arguments == {"command": "grep OOM events.jsonl"}


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), None])
def test_a_cost_that_is_no_number_is_absent(cost: float | None) -> None:
    document, _ = written(record=record(usage=Usage(cost_usd=cost)))
    assert "total_cost_usd" not in document["final_metrics"]


def test_what_no_reader_of_json_takes_does_not_get_in() -> None:
    odd = AgentStep(
        "agent",
        "yesterday",
        "half \ud83d",
        tool_calls=(ToolCall("", "shell\udcff", '{"a": NaN, "b\\ud800": [Infinity]}', answer="\udc80"),),
    )
    document, read = written(steps=(odd,), commands=[command(1, output="\ud800")])
    assert read.steps[0].timestamp is None
    assert read.steps[0].message == "half ?"
    assert document["steps"][0]["tool_calls"][0]["arguments"] == {"a": "NaN", "b?": ["Infinity"]}


def test_output_beyond_the_bound_is_left_out_and_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diagnose_bench.trajectory.MAX_TEXT", 15)
    _, read = written()
    contents = [step.observation.results[0].content for step in read.steps[1:3] if step.observation]
    assert contents == ["alerts.jsonl\n", "[left out here: see commands.jsonl]"]
    assert read.notes is not None
    assert "1 outputs were left out" in read.notes


def test_the_file_is_read_back_from_the_record_and_has_no_secret(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, {"scenario-001": truth_of("scenario-001", ["cart"])})
    run = write_run(tmp_path / "run", suite, {("scenario-001", 1): Trial(["shop/Deployment/cart"])})
    store, trial = RunStore.open(run), PlannedTrial(scenario_id="scenario-001", repeat=1)
    redactor = Redactor.of_environment({"MY_TOKEN": "open-sesame"})
    step = AgentStep("agent", START, "The token is open-sesame.")
    write_trajectory(store, trial, record(), agent=AGENT, task="", steps=[step], redactor=redactor)
    data = (store.trial_folder(trial) / "trajectory.json").read_bytes()
    read = atif.Trajectory.model_validate_json(data)
    assert read.steps[0].message == "The token is [redacted:environment]."
    assert redactor.n_redactions == 1
    observation = read.steps[1].observation
    assert observation is not None
    assert observation.results[0].content == "cart checkout frontend valkey"
