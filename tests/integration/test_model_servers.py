"""Claims about model servers that misbehave: retried, told apart, and never a zero of the agent."""

from __future__ import annotations

import email.utils
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from fake_model_server import (
    KEY,
    Answer,
    FakeModelServer,
    Raw,
    completion,
    error,
    in_turn,
    is_check,
    shell,
    submit,
)
from model_stage import QUICK, ModelStage, agent_for, open_stage

from diagnose_bench.agents.model.failures import ModelServerError
from diagnose_bench.agents.openai_agent import OpenAIAgent
from diagnose_bench.errors import RunError
from diagnose_bench.outcome import Limit, Outcome

pytestmark = pytest.mark.sandbox
CART = "shop/Deployment/cart"
DONE = completion(calls=[submit(CART)])
QUICK_HEADER = {"Retry-After-Ms": "10"}


@pytest.fixture(scope="module")
def module_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelStage]:
    with open_stage(tmp_path_factory.mktemp("stage")) as stage:
        yield stage


@pytest.fixture
def stage(module_stage: ModelStage, monkeypatch: pytest.MonkeyPatch) -> ModelStage:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return module_stage


BROKEN = {
    "rate limit in milliseconds": Raw(429, error("slow down"), {"Retry-After-Ms": "5"}),
    "rate limit in seconds": Raw(429, error("slow down"), {"Retry-After": "0.01"}),
    "rate limit until a date": Raw(429, error("slow down"), {"Retry-After": email.utils.formatdate(0)}),
    "rate limit that says nothing": Raw(429, error("slow down")),
    "rate limit with nonsense": Raw(429, error("slow down"), {"Retry-After": "soon"}),
    "overloaded": Raw(503, error("busy"), QUICK_HEADER),
    "internal error": Raw(500, error("oops")),
    "bad gateway as a page": Raw(502, b"<html><title>502</title></html>", content_type="text/html"),
    "unknown status": Raw(529, b"overloaded"),
    "request time-out": Raw(408, b""),
    "conflict": Raw(409, error("locked")),
    "a page with status 200": Raw(200, b"<!doctype html><title>Welcome</title>", content_type="text/html"),
    "no JSON": Raw(200, b"OK"),
    "half of the JSON": Raw(200, json.dumps(DONE).encode()[:-30]),
    "breaks in the middle": Raw(200, json.dumps(DONE).encode()[:50], declared=5000),
    "closes at once": Raw(drop=True),
    "an empty body": Raw(200, b""),
    "a list": Raw(200, b"[]"),
    "no choices": {**DONE, "choices": []},
    "choices that are null": {**DONE, "choices": None},
    "a choice without a message": {**DONE, "choices": [{"index": 0}]},
    "an error with status 200": {"error": {"message": "provider failed", "code": 502}},
    "much too long": Raw(200, b" " * (4 << 20) + b" {}"),
    "deeply nested": Raw(200, b"[" * 200_000),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_failure_of_the_server_is_tried_again_and_costs_no_turn(stage: ModelStage, kind: str) -> None:
    record = stage.trial(in_turn(BROKEN[kind], DONE))
    assert (record.outcome, record.n_turns) == (Outcome.DIAGNOSED, 1)
    assert (record.usage.n_model_calls, record.usage.n_model_retries) == (1, 1)
    (line,) = stage.ledger()
    assert (line["answered"], len(line["failures"])) == (True, 1)


@pytest.mark.parametrize("kind", BROKEN)
def test_a_server_that_goes_on_failing_is_our_error_and_no_zero(stage: ModelStage, kind: str) -> None:
    record = stage.trial(in_turn(completion(calls=[shell("true")]), BROKEN[kind]))
    assert record.outcome is Outcome.HARNESS_ERROR
    n_tries = QUICK.rate_limit_attempts if "rate limit" in kind else QUICK.attempts
    assert len(stage.server.requests) == 1 + n_tries
    assert f"It was tried {n_tries} times" in record.reason
    assert stage.server.url in record.reason
    # What was done until then is on record.
    assert (record.n_commands, record.usage.n_model_calls, record.usage.input_tokens) == (1, 1, 100)
    assert len(stage.steps) == 3
    assert stage.ledger()[-1]["answered"] is False


def test_nobody_listening_is_our_error_and_says_where(stage: ModelStage) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    record = stage.run(agent_for(f"http://127.0.0.1:{port}/v1"))
    assert record.outcome is Outcome.HARNESS_ERROR
    assert f"http://127.0.0.1:{port}/v1 cannot be reached" in record.reason
    assert "Is the server running there?" in record.reason


def test_a_call_that_hangs_is_given_up_and_tried_again(stage: ModelStage) -> None:
    release = threading.Event()
    try:
        record = stage.trial(in_turn(Raw(hang=release), DONE), policy=replace(QUICK, request_s=1.0))
    finally:
        release.set()
    assert record.outcome is Outcome.DIAGNOSED
    assert "gave no answer within 1 seconds" in stage.ledger()[0]["failures"][0]


def test_an_answer_that_trickles_without_end_is_given_up_and_tried_again(stage: ModelStage) -> None:
    release = threading.Event()
    slow = Raw(body=b"{", trickle=release, declared=1 << 20)
    try:
        record = stage.trial(in_turn(slow, DONE), policy=replace(QUICK, request_s=1.0))
    finally:
        release.set()
    assert record.outcome is Outcome.DIAGNOSED
    assert "gave no answer within 1 seconds" in stage.ledger()[0]["failures"][0]


def test_a_record_that_cannot_be_written_ends_the_run_and_not_the_agent(stage: ModelStage) -> None:
    def answer(request: dict[str, Any]) -> Answer:
        if len(request["messages"]) > 2:
            # Where the record of the calls is, the disk takes nothing any more.
            path = stage.store.trial_folder(stage.planned) / "model_calls.jsonl"
            path.unlink()
            path.mkdir()
            return DONE
        return completion(calls=[shell("true")])

    with pytest.raises(RunError, match=r"model_calls\.jsonl: cannot write"):
        stage.trial(answer)


def test_a_server_that_never_answers_within_the_time_limit_is_our_error(stage: ModelStage) -> None:
    release = threading.Event()
    try:
        record = stage.trial(in_turn(Raw(hang=release)), time_limit_s=1.0)
    finally:
        release.set()
    assert (record.outcome, record.limit_hit) == (Outcome.HARNESS_ERROR, Limit.TIME)
    assert "gave no answer at all within the trial's time limit" in record.reason


def test_a_model_that_is_still_busy_at_the_time_limit_hits_it(stage: ModelStage) -> None:
    release = threading.Event()
    try:
        record = stage.trial(in_turn(completion(calls=[shell("true")]), Raw(hang=release)), time_limit_s=3.0)
    finally:
        release.set()
    assert (record.outcome, record.n_commands) == (Outcome.TIME_LIMIT, 1)
    assert record.usage.n_model_calls == 1


def test_waiting_for_a_server_is_not_the_agents_time(stage: ModelStage) -> None:
    record = stage.trial(in_turn(Raw(503, error("busy"), {"Retry-After": "3"}), DONE), time_limit_s=2.0)
    assert record.outcome is Outcome.DIAGNOSED
    assert record.seconds < 3.0


def test_a_server_that_asks_for_an_hour_is_not_waited_for(stage: ModelStage) -> None:
    record = stage.trial(in_turn(Raw(429, error("slow down"), {"Retry-After": "3600"})))
    assert record.outcome is Outcome.HARNESS_ERROR
    assert "asks to wait 3" in record.reason
    assert len(stage.server.requests) == 1


def test_a_trial_that_is_closed_ends_its_call(stage: ModelStage) -> None:
    release, began = threading.Event(), threading.Event()

    def answer(request: dict[str, Any]) -> Answer:
        began.set()
        return Raw(hang=release)

    with FakeModelServer(answer) as server:
        agent = _Closing(agent_for(server.url), began)
        record = stage.run(agent)  # type: ignore[arg-type]
        release.set()
    assert record.outcome is Outcome.NO_DIAGNOSIS


class _Closing:
    """Closes the session from another thread once the model was asked, as an interrupted run does."""

    kind = "model"

    def __init__(self, agent: OpenAIAgent, began: threading.Event) -> None:
        self.agent, self.began, self.info = agent, began, agent.info

    def diagnose(self, session: Any) -> Any:
        def close() -> None:
            self.began.wait()
            session.close()

        thread = threading.Thread(target=close)
        thread.start()
        try:
            return self.agent.diagnose(session)
        finally:
            thread.join()


FATAL = {
    "wrong key": (
        Raw(401, error(f"Incorrect API key provided: {KEY}.", "invalid_api_key")),
        "The key is wrong",
    ),
    "no right": (Raw(403, error("not for you")), "may not use 'some-model'"),
    "unknown model": (
        Raw(404, error("The model `some-model` does not exist", "model_not_found")),
        "The server knows no model 'some-model'. Check the name after openai:.",
    ),
    "no such place": (
        Raw(404, b"<html><head><title>404 Not Found</title></head></html>", content_type="text/html"),
        "--base-url usually ends in /v1",
    ),
    "unknown model as a bad request": (
        Raw(400, error("no model 'some-model'", "model_not_found")),
        "The server knows no model",
    ),
    "no credit": (Raw(429, error("You exceeded your quota", "insufficient_quota")), "no credit left"),
    "payment required": (Raw(402, error("Insufficient credits")), "no credit left"),
    "unknown option": (
        Raw(400, error("Unsupported value: 'temperature'", "unsupported_value")),
        "Leave out the option that it names",
    ),
}


@pytest.mark.parametrize("kind", FATAL)
def test_what_cannot_mend_itself_is_not_tried_again(stage: ModelStage, kind: str) -> None:
    answer, told = FATAL[kind]
    record = stage.trial(in_turn(answer))
    assert record.outcome is Outcome.HARNESS_ERROR
    assert told in record.reason
    assert len(stage.server.requests) == 1


@pytest.mark.parametrize("kind", FATAL)
def test_the_check_before_a_run_says_the_same(stage: ModelStage, kind: str) -> None:
    answer, told = FATAL[kind]
    with FakeModelServer(lambda request: answer) as server, pytest.raises(ModelServerError) as caught:
        agent_for(server.url).check()
    assert told in str(caught.value)
    assert KEY not in str(caught.value)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        completion("ready"),
        completion(None),
        Raw(429, error("slow down")),
        Raw(400, error("Could not finish the message because max_tokens or model output limit was reached.")),
    ],
)
def test_the_check_passes_where_key_and_model_are_right(stage: ModelStage, answer: Answer) -> None:
    with FakeModelServer(lambda request: answer) as server:
        agent_for(server.url).check()
    assert is_check(server.requests[0])
    assert len(server.requests) == 1


def test_the_check_gives_a_failing_server_three_tries(stage: ModelStage) -> None:
    told = "answered with a web page and not with the API"
    with FakeModelServer(lambda request: BROKEN["a page with status 200"]) as server:
        agent = agent_for(server.url)
        with pytest.raises(ModelServerError, match=told):
            agent.check()
    assert len(server.requests) == 3


def _by_length(limit: int) -> Any:
    """A model that looks five times and then submits, on a server whose context is so many characters."""

    def answer(request: dict[str, Any]) -> Answer:
        told = [message for message in request["messages"] if message["role"] == "tool"]
        if sum(len(str(message["content"])) for message in request["messages"]) > limit:
            message = "This model's maximum context length is 8192 tokens."
            return Raw(400, error(message, "context_length_exceeded"))
        if len(told) == 5:
            return DONE
        return completion(calls=[shell(f"head -c 6000 /dev/zero | tr '\\0' {len(told)}", f"c{len(told)}")])

    return answer


def test_a_conversation_that_is_too_long_loses_its_oldest_outputs_on_record(stage: ModelStage) -> None:
    record = stage.trial(_by_length(20_000))
    assert (record.outcome, record.n_turns, record.n_commands) == (Outcome.DIAGNOSED, 6, 5)
    sent = [m["content"] for m in stage.server.requests[-1]["messages"] if m["role"] == "tool"]
    # Oldest first: what the model has just seen stays whole.
    assert len(sent[0]) < 6000
    assert "shortened from" in sent[0]
    assert sent[-1] == "4" * 6000 + "\n[exit code 0]"
    notes = [step.message for step in stage.steps if step.source == "system" and "too long" in step.message]
    assert notes
    assert "output of command 1: 6014 -> " in notes[0]
    # The record of the commands is not touched by it.
    assert [command.n_bytes for command in stage.commands()] == [6000] * 5


def test_a_conversation_that_cannot_be_shortened_enough_is_the_agents_error(stage: ModelStage) -> None:
    def answer(request: dict[str, Any]) -> Answer:
        if len(request["messages"]) > 2:
            return Raw(413, b"too large")
        return completion(calls=[shell("head -c 6000 /dev/zero")])

    record = stage.trial(answer)
    assert record.outcome is Outcome.AGENT_ERROR
    assert "does not fit the model any more" in record.reason


def test_a_filter_that_blocks_the_conversation_is_the_agents_error(stage: ModelStage) -> None:
    body = error("filtered", "content_filter", innererror={"code": "ResponsibleAIPolicyViolation"})
    record = stage.trial(in_turn(Raw(400, body)))
    assert record.outcome is Outcome.AGENT_ERROR
    assert "filter of the model's server" in record.reason


def test_the_name_of_the_token_limit_is_found_out_once(stage: ModelStage) -> None:
    def answer(request: dict[str, Any]) -> Answer:
        if "max_tokens" in request:
            message = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
            return Raw(400, error(message, "unsupported_parameter"))
        assert request["max_completion_tokens"] == 300
        if len(request["messages"]) < 4:
            return completion(calls=[shell("true")])
        return DONE

    record = stage.trial(answer, max_output_tokens=300)
    assert record.outcome is Outcome.DIAGNOSED
    assert len(stage.server.requests) == 3


def test_a_server_that_refuses_both_names_is_not_asked_for_ever(stage: ModelStage) -> None:
    refused = Raw(400, error("max_tokens and max_completion_tokens are not allowed"))
    record = stage.trial(in_turn(refused), max_output_tokens=300)
    assert record.outcome is Outcome.HARNESS_ERROR
    assert len(stage.server.requests) == 2
