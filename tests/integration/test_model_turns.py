"""Claims about what a model may do in its turns, against a real server: none of it ends in our failure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fake_model_server import KEY, completion, in_turn, shell, submit, tool_call
from model_stage import TASK, ModelStage, open_stage

from diagnose_bench.agents.model.loop import MOST_IDLE_TURNS
from diagnose_bench.outcome import Limit, Outcome

pytestmark = pytest.mark.sandbox
CART = "shop/Deployment/cart"
SUBMITTED = {"root_causes": [{"entity": CART}]}


@pytest.fixture(scope="module")
def module_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelStage]:
    with open_stage(tmp_path_factory.mktemp("stage")) as stage:
        yield stage


@pytest.fixture
def stage(module_stage: ModelStage, monkeypatch: pytest.MonkeyPatch) -> ModelStage:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return module_stage


def answers(request: dict[str, Any]) -> list[str]:
    """What the tools answered, as the server was sent it."""
    return [message["content"] for message in request["messages"] if message["role"] in ("tool", "function")]


def test_a_model_that_looks_and_submits_has_diagnosed(stage: ModelStage) -> None:
    record = stage.trial(
        in_turn(
            completion("I look.", [shell("grep -c OOMKilled /snapshot/events.jsonl")]),
            completion(calls=[submit(CART)]),
        )
    )
    assert (record.outcome, record.n_turns, record.n_commands) == (Outcome.DIAGNOSED, 2, 1)
    assert stage.diagnosis() == SUBMITTED
    assert [(c.command, c.output) for c in stage.commands()] == [
        ("grep -c OOMKilled /snapshot/events.jsonl", "1\n")
    ]
    first, second = stage.server.requests
    assert [message["role"] for message in first["messages"]] == ["system", "user"]
    assert first["messages"][1]["content"] == TASK
    assert answers(second) == ["1\n[exit code 0]"]
    assert stage.server.paths == ["/v1/chat/completions"] * 2
    assert stage.server.headers[0]["authorization"] == f"Bearer {KEY}"


def test_steps_hold_every_message_call_and_answer_with_its_usage(stage: ModelStage) -> None:
    usage = {
        "prompt_tokens": 1000,
        "completion_tokens": 50,
        "completion_tokens_details": {"reasoning_tokens": 30},
        "prompt_tokens_details": {"cached_tokens": 400},
    }
    thinking = completion("Look.", [shell("echo seen")], usage=usage, reasoning_content="Hm.")
    record = stage.trial(in_turn(thinking, completion(calls=[submit(CART)], usage=usage)))
    sources = [step.source for step in stage.steps]
    assert sources == ["system", "user", "agent", "agent"]
    looked, handed_in = stage.steps[2:]
    assert (looked.message, looked.reasoning) == ("Look.", "Hm.")
    (call,) = looked.tool_calls
    assert (call.name, json.loads(call.arguments), call.command) == ("shell", {"command": "echo seen"}, 1)
    assert call.answer == "seen\n[exit code 0]"
    assert handed_in.tool_calls[0].answer == "accepted"
    assert looked.usage.cached_tokens == 400
    assert (record.usage.input_tokens, record.usage.output_tokens) == (2000, 100)
    assert (record.usage.reasoning_tokens, record.usage.cached_tokens) == (60, 800)
    assert (record.usage.n_model_calls, record.usage.n_model_retries) == (2, 0)
    assert record.usage.cost_usd is None


def test_calls_in_parallel_are_run_and_answered_in_their_order(stage: ModelStage) -> None:
    calls = [shell("echo one", "a"), shell("echo two", "b"), shell("exit 3", "c")]
    record = stage.trial(in_turn(completion(calls=calls), completion(calls=[submit(CART)])))
    assert (record.n_turns, record.n_commands) == (2, 3)
    told = [m for m in stage.server.requests[1]["messages"] if m["role"] == "tool"]
    assert [(m["tool_call_id"], m["content"]) for m in told] == [
        ("a", "one\n[exit code 0]"),
        ("b", "two\n[exit code 0]"),
        ("c", "[exit code 3]"),
    ]


def test_calls_after_the_submission_in_one_message_are_not_run(stage: ModelStage) -> None:
    record = stage.trial(in_turn(completion(calls=[shell("true"), submit(CART), shell("echo late", "z")])))
    assert (record.outcome, record.n_commands) == (Outcome.DIAGNOSED, 1)
    assert [call.answer for call in stage.steps[2].tool_calls] == [
        "[exit code 0]",
        "accepted",
        "Not done: the trial was over before this call.",
    ]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (tool_call("shell", '{"command": "ls'), "its arguments are no JSON"),
        (tool_call("shell", ""), "its arguments are no JSON"),
        (tool_call("shell", "[1]"), 'must be an object with "command"'),
        (tool_call("shell", {"cmd": "ls"}), '"command" is missing'),
        (tool_call("shell", {"command": ["ls"]}), '"command" is missing'),
        (tool_call("shell", {"command": "ls", "timeout_s": "soon"}), '"timeout_s" must be a number'),
        (tool_call("shell", {"command": "ls", "timeout_s": -1}), '"timeout_s" must be a number'),
        (tool_call("python", {"code": "1"}), "There is no tool 'python'"),
        (tool_call("", {}), "There is no tool ''"),
        (tool_call("submit_diagnosis", ""), "There are no arguments"),
        (tool_call("submit_diagnosis", '{"root_causes": [{"ent'), "not JSON"),
        (tool_call("submit_diagnosis", {"causes": []}), 'an object without "root_causes"'),
        (
            tool_call("submit_diagnosis", {"root_causes": [{"why": "?"}]}),
            "$.root_causes[0].entity: is missing",
        ),
    ],
)
def test_a_wrong_call_is_told_and_not_fatal(stage: ModelStage, call: dict[str, Any], told: str) -> None:
    record = stage.trial(in_turn(completion(calls=[call]), completion(calls=[submit(CART)])))
    assert (record.outcome, record.n_turns, record.n_commands) == (Outcome.DIAGNOSED, 2, 0)
    assert told in answers(stage.server.requests[1])[0]
    for message in stage.server.requests[1]["messages"]:
        for sent in message.get("tool_calls", []):
            # Some servers fail on what their own model wrote.
            assert isinstance(json.loads(sent["function"]["arguments"]), dict)
            assert sent["function"]["name"]


def test_odd_texts_in_a_command_reach_the_record_and_harm_nothing(stage: ModelStage) -> None:
    raw = '{"command": "printf \'\\u00e4 \\ud83d\'; true"}'
    record = stage.trial(
        in_turn(
            completion(calls=[tool_call("shell", raw), tool_call("shell", '{"command": "a\\u0000b"}', "n")]),
            completion(calls=[submit(CART)]),
        )
    )
    assert record.outcome is Outcome.DIAGNOSED
    assert record.n_commands == 2


def test_equal_missing_and_odd_call_ids_become_different_ones(stage: ModelStage) -> None:
    calls = [shell("echo 1", "x"), shell("echo 2", "x"), shell("echo 3", None), shell("echo 4", "o d")]
    stage.trial(
        in_turn(
            completion(calls=calls),
            completion(calls=[shell("echo 5", "x")]),
            completion(calls=[submit(CART)]),
        )
    )
    messages = stage.server.requests[2]["messages"]
    asked = [call["id"] for message in messages for call in message.get("tool_calls", [])]
    told = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert asked == told
    assert len(set(asked)) == 5
    assert asked[0] == "x"
    assert [text.split("\n")[0] for text in answers(stage.server.requests[2])] == list("12345")


def test_arguments_that_are_an_object_itself_are_read(stage: ModelStage) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "shell", "arguments": {"command": "echo hi"}}}
    stage.trial(in_turn(completion(calls=[call]), completion(calls=[submit(CART)])))
    assert answers(stage.server.requests[1]) == ["hi\n[exit code 0]"]


def test_a_legacy_function_call_is_answered_in_its_form(stage: ModelStage) -> None:
    legacy = completion(function_call={"name": "shell", "arguments": '{"command": "echo old"}'})
    record = stage.trial(in_turn(legacy, completion(calls=[submit(CART)])))
    assert record.outcome is Outcome.DIAGNOSED
    asked, told = stage.server.requests[1]["messages"][2:]
    assert asked["function_call"]["name"] == "shell"
    assert (told["role"], told["name"], told["content"]) == ("function", "shell", "old\n[exit code 0]")


def test_what_a_server_wants_back_with_a_call_is_sent_back(stage: ModelStage) -> None:
    call = {**shell("true"), "extra_content": {"google": {"thought_signature": "s"}}}
    thinking = completion(calls=[call], reasoning_content="Hm.", reasoning_details=[{"id": 1}])
    stage.trial(in_turn(thinking, completion(calls=[submit(CART)])))
    message = stage.server.requests[1]["messages"][2]
    assert message["reasoning_content"] == "Hm."
    assert message["reasoning_details"] == [{"id": 1}]
    assert message["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "s"}}


@pytest.mark.parametrize("text", ["Let me think about it.", "", None, "   \n"])
def test_text_instead_of_a_call_is_told_to_go_on_and_ends_after_a_few(
    stage: ModelStage, text: str | None
) -> None:
    record = stage.trial(in_turn(completion(text)))
    assert record.n_turns == MOST_IDLE_TURNS
    blank = not (text or "").strip()
    assert record.outcome is (Outcome.NO_DIAGNOSIS if blank else Outcome.MALFORMED_DIAGNOSIS)
    assert "That was no tool call" in stage.server.requests[1]["messages"][-1]["content"]


def test_a_call_between_texts_starts_the_count_again(stage: ModelStage) -> None:
    talk, look = completion("Hm."), completion(calls=[shell("true")])
    record = stage.trial(in_turn(talk, talk, look, talk, talk, completion(calls=[submit(CART)])))
    assert (record.outcome, record.n_turns) == (Outcome.DIAGNOSED, 6)


@pytest.mark.parametrize(
    "text",
    [
        '{"root_causes": [{"entity": "shop/Deployment/cart"}]}',
        "It is the cart:\n```json\n{'root_causes': [{'entity': 'shop/Deployment/cart'},]}\n```\nThat is all.",
        '<think>Maybe {}</think>{"root_causes": [{"entity": "shop/Deployment/cart"}]}',
    ],
)
def test_an_answer_in_the_final_text_is_read(stage: ModelStage, text: str) -> None:
    record = stage.trial(in_turn(completion(text)))
    assert (record.outcome, record.n_turns) == (Outcome.DIAGNOSED, 1)
    assert record.reason == "The diagnosis was read from what the agent printed."


def test_text_in_parts_is_put_together(stage: ModelStage) -> None:
    parts: Any = [
        {"type": "text", "text": '{"root_causes"'},
        {"type": "text", "text": ": []}"},
        {"type": "image"},
    ]
    assert stage.trial(in_turn(completion(parts))).outcome is Outcome.DIAGNOSED


def test_a_refusal_field_is_the_outcome_refused(stage: ModelStage) -> None:
    record = stage.trial(in_turn(completion(None, refusal="I cannot help with that.")))
    assert (record.outcome, record.n_turns) == (Outcome.REFUSED, 1)
    assert stage.steps[-1].message == "I cannot help with that."


def test_prose_that_refuses_is_no_refusal(stage: ModelStage) -> None:
    assert stage.trial(in_turn(completion("I cannot help."))).outcome is Outcome.MALFORMED_DIAGNOSIS


def test_a_message_cut_at_its_length_is_told_so(stage: ModelStage) -> None:
    cut = completion("And so the", finish_reason="length")
    cut_call = completion(calls=[tool_call("shell", '{"command": "ec')], finish_reason="length")
    record = stage.trial(in_turn(cut, cut_call, completion(calls=[submit(CART)])))
    assert record.outcome is Outcome.DIAGNOSED
    assert "cut off at the limit" in stage.server.requests[1]["messages"][-1]["content"]
    assert "the call is incomplete" in answers(stage.server.requests[2])[0]


def test_a_filtered_message_is_told_so(stage: ModelStage) -> None:
    filtered = completion(None, finish_reason="content_filter")
    record = stage.trial(in_turn(filtered, completion(calls=[submit(CART)])))
    assert record.outcome is Outcome.DIAGNOSED
    assert "content filter" in stage.server.requests[1]["messages"][-1]["content"]


def test_the_last_twenty_turns_are_announced_and_the_turn_after_the_last_ends_it(stage: ModelStage) -> None:
    record = stage.trial(in_turn(completion(calls=[shell("true")])), max_turns=23)
    assert (record.outcome, record.limit_hit, record.n_turns) == (Outcome.TURN_LIMIT, Limit.TURNS, 23)
    told = answers(stage.server.requests[-1])
    assert len(stage.server.requests) == 23
    assert ["turns are left" in text or "turn is left" in text for text in told] == [False] * 2 + [True] * 20
    assert told[2].endswith("[diagnose-bench] 20 turns are left.")
    assert told[-1].endswith("1 turn is left. No command is run in it: hand in the diagnosis now.")
    # In the last turn nothing is run any more.
    assert record.n_commands == 22
    assert "It is time to submit" in stage.steps[-1].tool_calls[0].answer


def test_few_turns_are_announced_before_the_first_one(stage: ModelStage) -> None:
    record = stage.trial(in_turn(completion(calls=[submit(CART)])), max_turns=1)
    assert record.outcome is Outcome.DIAGNOSED
    assert "1 turn is left" in stage.server.requests[0]["messages"][-1]["content"]


def test_text_in_the_last_turn_is_the_turn_limit_unless_it_is_the_answer(stage: ModelStage) -> None:
    assert stage.trial(in_turn(completion("Hm.")), max_turns=1).outcome is Outcome.TURN_LIMIT
    answer = completion('{"root_causes": []}')
    assert stage.trial(in_turn(answer), max_turns=1).outcome is Outcome.DIAGNOSED


def test_settings_are_sent_and_what_is_not_set_is_left_to_the_server(stage: ModelStage) -> None:
    stage.trial(in_turn(completion(calls=[submit(CART)])))
    bare = stage.server.requests[0]
    assert set(bare) == {"model", "messages", "tools"}
    stage.trial(
        in_turn(completion(calls=[submit(CART)])),
        temperature=0.2,
        seed=7,
        max_output_tokens=500,
        reasoning_effort="low",
        repeat=3,
    )
    sent = stage.server.requests[0]
    # The third repeat: 7 + 3 - 1.
    assert (sent["temperature"], sent["seed"], sent["reasoning_effort"]) == (0.2, 9, "low")
    assert sent["max_tokens"] == 500
