"""Claims about the parts of the model agent that need no server: prices, waits, history, tools, keys."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from diagnose_bench.agents.model.failures import FailureKind, ModelCallFailed, failure_of_status
from diagnose_bench.agents.model.history import History
from diagnose_bench.agents.model.ledger import spent_usd
from diagnose_bench.agents.model.prices import Prices, read_prices
from diagnose_bench.agents.model.reply import ModelReply, RequestedCall, TokenCounts, read_reply
from diagnose_bench.agents.model.retry import RetryPolicy
from diagnose_bench.agents.model.secrets import Secrets
from diagnose_bench.agents.model.settings import read_prompt
from diagnose_bench.agents.model.tools import tool_definitions
from diagnose_bench.diagnosis import diagnosis_schema
from diagnose_bench.errors import UsageError

URL = "http://server/v1"


# --- prices ---


@pytest.mark.parametrize(
    ("tokens", "cost"),
    [
        # A million of each: 2 + 8.
        (TokenCounts(1_000_000, 1_000_000), 10.0),
        # All of the input from the cache: 0.5 + 8.
        (TokenCounts(1_000_000, 1_000_000, cached_tokens=1_000_000), 8.5),
        # Reasoning tokens are output tokens already.
        (TokenCounts(0, 500_000, reasoning_tokens=400_000), 4.0),
        (TokenCounts(0, 0), 0.0),
        (TokenCounts(None, 5), None),
        (TokenCounts(5, None), None),
    ],
)
def test_cost_is_arithmetic(tokens: TokenCounts, cost: float | None) -> None:
    assert Prices(2.0, 0.5, 8.0).cost_usd(tokens) == cost


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.json", '{\n\t"models": {"m": {"input": 2, "output": 8.5}, "n": {"input": 1}}}'),
        ("p.yaml", "models:\n  m: {input: 2, output: 8.5}\n  n: 3\n"),
    ],
)
def test_prices_are_read_from_json_and_yaml_and_only_for_the_model(
    tmp_path: Path, name: str, text: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert read_prices(path, "m") == Prices(2.0, 2.0, 8.5)
    assert read_prices(path, "absent") is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[]", "$.models is missing"),
        ("", "$.models is missing"),
        ("models: [1]", "$.models is missing"),
        ("models: {m: 3}", '$.models["m"]: must be an object'),
        ("models: {m: {input: 1}}", '$.models["m"].output: is missing'),
        ("models: {m: {input: 1, output: -1}}", '$.models["m"].output: give US dollars'),
        ("models: {m: {input: .nan, output: 1}}", '$.models["m"].input: give US dollars'),
        ("models: {m: {input: true, output: 1}}", '$.models["m"].input: give US dollars'),
        ("models: {m: {input: '1', output: 1}}", '$.models["m"].input: give US dollars'),
        ("models: {m: {input: 1, output: 1, euros: 2}}", "unknown 'euros'"),
        ("models: {m: {input: 1, output: 1}, m: {input: 2, output: 2}}", "'m' stands twice"),
        ("models: {m: {input: 1", "cannot be read"),
        ("!!python/object/apply:os.getcwd []", "cannot be read"),
        ("\x00", "cannot be read"),
    ],
)
def test_a_wrong_file_of_prices_is_refused_with_the_place(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_prices(path, "m")
    assert told in str(caught.value)
    assert str(path) in str(caught.value)


def test_what_a_run_has_spent_includes_unfinished_and_repeated_trials(tmp_path: Path) -> None:
    for place, costs in (("1", [1.0, 2.0]), ("2.unfinished-1", [4.0]), ("3", [None, "x", -5, True])):
        folder = tmp_path / "trials" / "scenario-001" / place
        folder.mkdir(parents=True)
        lines = "".join(json.dumps({"cost_usd": cost}) + "\n" for cost in costs)
        (folder / "model_calls.jsonl").write_text(lines + '{"cost_usd": 8')
        (folder / "model_calls.1.jsonl").write_text('{"cost_usd": 0.5}\n')
    assert spent_usd(tmp_path) == 1.0 + 2.0 + 4.0 + 3 * 0.5


# --- waits ---


def failed(kind: FailureKind = FailureKind.SERVER, after: float | None = None) -> ModelCallFailed:
    return ModelCallFailed(kind, "m", after)


def test_waits_double_with_chance_and_end_at_the_longest() -> None:
    random.seed(1)
    policy = RetryPolicy(attempts=20, first_s=1.0, longest_s=8.0)
    for n_failed, full in ((1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 8.0), (19, 8.0)):
        delays = [policy.delay_s(failed(), n_failed, 0.0) for _ in range(50)]
        assert all(delay is not None and full / 2 <= delay <= full for delay in delays)
        assert len(set(delays)) > 1


def test_the_servers_own_wait_is_kept_and_never_shortened() -> None:
    policy = RetryPolicy()
    for asked in (0.0, 0.5, 90.0):
        delay = policy.delay_s(failed(FailureKind.RATE_LIMIT, asked), 1, 0.0)
        assert delay is not None
        assert asked <= delay <= asked * 1.1


def test_tries_and_patience_end() -> None:
    policy = RetryPolicy(attempts=3, rate_limit_attempts=5, first_s=1.0, patience_s=10.0)
    assert policy.delay_s(failed(), 2, 0.0) is not None
    assert policy.delay_s(failed(), 3, 0.0) is None
    assert policy.delay_s(failed(FailureKind.RATE_LIMIT), 4, 0.0) is not None
    assert policy.delay_s(failed(FailureKind.RATE_LIMIT), 5, 0.0) is None
    assert policy.delay_s(failed(after=11.0), 1, 0.0) is None
    assert policy.delay_s(failed(after=5.0), 1, 5.5) is None
    assert policy.delay_s(failed(), 10**6, 0.0) is None


# --- failures ---


@pytest.mark.parametrize(
    "said",
    [
        {
            "message": "This model's maximum context length is 128000 tokens.",
            "code": "context_length_exceeded",
        },
        {"message": "the request exceeds the available context size, try increasing it", "code": 400},
        {"message": "prompt is too long: 210000 tokens > 200000 maximum", "type": "invalid_request_error"},
        {"message": "Input is too long for requested model: too many input tokens", "code": None},
        {"message": "litellm.ContextWindowExceededError: context window exceeded", "code": "400"},
    ],
)
def test_a_conversation_that_is_too_long_is_recognised_in_the_words_of_several_servers(said: Any) -> None:
    body = json.dumps({"error": said}).encode()
    assert failure_of_status(400, {}, body, model="m", url=URL).kind is FailureKind.CONTEXT


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"3",
        b'"text"',
        b"\xff\xfe",
        b"{",
        b'{"error": null}',
        b'{"error": [1]}',
        b"[" * 99_999,
    ],
)
@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 599])
def test_any_error_body_is_read(status: int, body: bytes) -> None:
    failure = failure_of_status(status, {}, body, model="m", url=URL)
    assert failure.message.startswith(f"{URL} answered {status}")
    assert len(failure.message) < 1000


def test_fastapis_form_of_an_error_is_read() -> None:
    body = b'{"detail": "no such model"}'
    assert "no such model" in failure_of_status(404, {}, body, model="m", url=URL).message


# --- replies ---


@pytest.mark.parametrize(
    "message",
    [
        {"content": 3, "tool_calls": 4, "refusal": [], "function_call": []},
        {"content": {"a": 1}, "tool_calls": [None, 3, "x"], "reasoning": {"x": 1}},
        {"content": [None, 3, {"text": 4}]},
        {},
    ],
)
def test_fields_of_the_wrong_type_are_as_if_absent(message: Any) -> None:
    reply = read_reply({"choices": [{"message": message, "finish_reason": 3}], "model": 4, "usage": "x"}, URL)
    assert (reply.text, reply.calls, reply.refusal, reply.model) == ("", (), "", "")


def test_a_call_without_a_function_is_a_call_of_nothing() -> None:
    message = {"tool_calls": [{"id": 3}, {"function": {"name": None, "arguments": None}}]}
    reply = read_reply({"choices": [{"message": message}]}, URL)
    assert [(call.id, call.name, call.arguments) for call in reply.calls] == [("", "", "")] * 2


@pytest.mark.parametrize(
    "body", [{}, {"choices": []}, {"choices": {}}, {"choices": [3]}, {"choices": [{"message": 1}]}]
)
def test_an_answer_without_a_message_is_the_servers_failure(body: Any) -> None:
    with pytest.raises(ModelCallFailed) as caught:
        read_reply(body, URL)
    assert caught.value.kind is FailureKind.SERVER


def test_halves_of_characters_become_writable() -> None:
    reply = read_reply({"choices": [{"message": {"content": "a\ud800b"}}]}, URL)
    assert reply.text.encode() == b"a?b"


# --- tools ---

DOCUMENTS: list[Any] = [
    {"root_causes": []},
    {"root_causes": [{"entity": "a/Deployment/b"}]},
    {
        "root_causes": [
            {"entity": "a", "reasoning": "r", "confidence": 0.5, "evidence": [{"file": "f", "line": 1}]}
        ]
    },
    {"root_causes": [{"entity": "a", "evidence": None}], "propagation": None, "remediation": None},
    {"root_causes": [{"entity": "a", "confidence": 2}]},
    {"root_causes": [{"entity": "a", "confidence": "0.5"}]},
    {"root_causes": [{"entity": "a", "evidence": [{"line": 0}]}]},
    {"root_causes": [{"entity": "a", "evidence": [{"line": "1"}]}]},
    {"root_causes": [{"reasoning": "none"}]},
    {"root_causes": ["a"]},
    {"root_causes": {}},
    {"root_causes": [], "title": "kept", "extra": {"x": 1}},
    {"root_causes": [], "propagation": [{"source": 1}]},
    {"root_causes": [], "propagation": [{"source": "a", "target": "b", "effect": "c"}]},
    {},
    [],
]


def test_the_tool_takes_what_the_schema_of_a_diagnosis_takes() -> None:
    native, shown = diagnosis_schema(), tool_definitions()[1]["function"]["parameters"]
    for document in DOCUMENTS:
        valid = [jsonschema.Draft202012Validator(schema).is_valid(document) for schema in (native, shown)]
        assert valid[0] == valid[1], document


def test_the_tool_has_no_references_and_says_what_each_field_is() -> None:
    text = json.dumps(tool_definitions())
    assert "$ref" not in text
    assert "$defs" not in text
    cause = tool_definitions()[1]["function"]["parameters"]["properties"]["root_causes"]["items"]
    assert set(cause["properties"]) == {"entity", "reasoning", "confidence", "evidence"}
    assert "[namespace/]Kind[.group]/name" in cause["properties"]["entity"]["description"]


# --- history ---


def grown(sizes: list[int]) -> History:
    history = History("prompt", "task")
    for number, size in enumerate(sizes):
        (call,) = history.add_reply(ModelReply(calls=(RequestedCall("", "shell", "{}"),)))
        history.add_answer(call, f"{number}" * size, f"output of command {number + 1}", is_legacy=False)
    return history


def test_shortening_takes_the_oldest_first_and_ends() -> None:
    history = grown([8000] * 4)
    assert history.shorten()[0].startswith("output of command 1: 8000 -> ")
    sizes = [len(m["content"]) for m in history.messages if m["role"] == "tool"]
    # A quarter of 32,000 is more than two of them give; the last one has not been seen yet.
    assert all(size < 4200 for size in sizes[:3])
    assert sizes[3] == 8000
    n_steps = 0
    while history.shorten():
        n_steps += 1
        assert n_steps < 50
    assert all(len(m["content"]) < 400 for m in history.messages if m["role"] == "tool")


def test_shortened_outputs_keep_both_ends_and_say_how_long_they_were() -> None:
    history = grown([10])
    (call,) = history.add_reply(ModelReply(calls=(RequestedCall("", "shell", "{}"),)))
    history.add_answer(call, "HEAD" + "x" * 50_000 + "TAIL", "output", is_legacy=False)
    while history.shorten():
        pass
    content = history.messages[-1]["content"]
    assert content.startswith("HEAD")
    assert content.endswith("TAIL")
    assert "shortened from 50008 characters" in content


def test_short_outputs_are_left_alone() -> None:
    history = grown([100] * 5)
    before = copy.deepcopy(history.messages)
    assert history.shorten() == ()
    assert history.messages == before


def test_a_message_without_calls_never_has_null_as_content() -> None:
    history = History("p", "t")
    history.add_reply(ModelReply(text=""))
    assert history.messages[-1] == {"role": "assistant", "content": ""}


# --- keys and prompt ---


def test_keys_are_removed_whole_even_where_one_is_part_of_another() -> None:
    secrets = Secrets(["abcdefgh", "abcdefgh-more", "", "short"])
    assert secrets.without("x abcdefgh-more y abcdefgh short") == "x [key removed] y [key removed] short"


@pytest.mark.parametrize(
    "text",
    ["sk-proj-abc***xyz", "sk-abcdefghijklmnopqrstuvwx", "Authorization: Bearer abc.def-ghi", "sk-1a…9z"],
)
def test_what_looks_like_a_key_is_removed_from_errors(text: str) -> None:
    assert "[key removed]" in Secrets([]).without_any_key(f"refused: {text} is wrong")


@pytest.mark.parametrize("text", ["task-queue is down", "disk-pressure", "sk-8s", "a bearer of news"])
def test_ordinary_words_stay_in_errors(text: str) -> None:
    assert Secrets([]).without_any_key(text) == text


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "blank"),
        (b" \n", "blank"),
        (b"\xff\xfe", "not UTF-8 at byte 0"),
        (b"x" * (300 << 10), "larger than"),
    ],
)
def test_a_prompt_that_cannot_be_used_is_refused(tmp_path: Path, data: bytes, told: str) -> None:
    path = tmp_path / "prompt.md"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=told):
        read_prompt(path)


def test_our_prompt_states_the_published_protocol() -> None:
    text, _ = read_prompt(None)
    for words in (
        "minimal set of independent root causes",
        "most specific object",
        "evidence",
        "submit_diagnosis",
    ):
        assert words in text
