"""Claims about agents that run elsewhere, against real local services: answers, failures, secrets."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_service import Asked, call_trial, certificate, service
from live_trial import ANSWER, TASK, LiveTrials, live_trials

from diagnose_bench.agents.hosted import HostedAgent, make_hosted_agent
from diagnose_bench.agents.options import AgentOptions
from diagnose_bench.errors import UsageError
from diagnose_bench.records import TrialRecord

pytestmark = pytest.mark.sandbox


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveTrials]:
    with live_trials(tmp_path_factory.mktemp("trials")) as opened:
        yield opened


class Ended:
    """A trial of a hosted agent, and what was left of it."""

    def __init__(self, record: TrialRecord, folder: Path, asked: list[Asked]) -> None:
        self.record = record
        self.folder = folder
        self.asked = asked
        self.outcome = record.outcome.value

    def report(self) -> dict[str, Any]:
        found = json.loads((self.folder / "hosted.json").read_text())
        assert isinstance(found, dict)
        return found

    def diagnosis(self) -> Any:
        return json.loads((self.folder / "diagnosis.json").read_bytes())


def measured(
    trials: LiveTrials, behave: Callable[[Asked], None], options: AgentOptions | None = None, **limits: Any
) -> Ended:
    with service(behave) as running:
        agent = make_hosted_agent(running.url, None, options or AgentOptions())
        try:
            agent.check()
            record, folder = trials.run(agent, **limits)
        finally:
            agent.close()
    return Ended(record, folder, running.asked)


def in_background(
    work: Callable[[dict[str, Any]], Any], status: int = 202, body: Any = b""
) -> Callable[[Asked], None]:
    """A service that answers at once and goes on by itself."""

    def behave(asked: Asked) -> None:
        task = asked.task
        asked.answer(status, body)
        threading.Thread(target=work, args=(task,), daemon=True).start()

    return behave


def test_the_task_is_posted_with_all_that_an_agent_needs(trials: LiveTrials) -> None:
    ended = measured(trials, lambda asked: asked.answer(200, ANSWER), time_limit_s=77)
    (asked,) = ended.asked
    assert (asked.method, asked.path) == ("POST", "/agent")
    assert asked.headers["Content-Type"] == "application/json"
    task = asked.task
    assert task["task"] == TASK
    assert task["format_version"] == 1
    assert 0 < task["time_limit_s"] <= 77
    assert task["base_url"].startswith("http://127.0.0.1:")
    assert task["openapi_url"] == task["base_url"].split("/trials/")[0] + "/openapi.json"
    assert len(task["token"]) >= 32
    # Nothing says which scenario it is.
    assert "scenario" not in asked.body.decode()


@pytest.mark.parametrize(
    ("answer", "diagnosis"),
    [(ANSWER, ANSWER), ({"diagnosis": ANSWER}, ANSWER), (["shop/Deployment/cart"], ["shop/Deployment/cart"])],
)
def test_an_answer_at_once_is_the_diagnosis(trials: LiveTrials, answer: Any, diagnosis: Any) -> None:
    ended = measured(trials, lambda asked: asked.answer(200, answer))
    assert ended.outcome == "diagnosed"
    assert ended.diagnosis() == diagnosis
    assert ended.report()["answered"] == "at once"


def test_an_agent_works_during_the_request_and_answers_with_it(trials: LiveTrials) -> None:
    def behave(asked: Asked) -> None:
        found = call_trial(asked.task, "run_command", {"command": "cat /snapshot/events.jsonl"}).json()
        assert found["exit_code"] == 0
        named = json.loads(found["output"].splitlines()[0])["involvedObject"]
        entity = f"{named['namespace']}/{named['kind']}/{named['name']}"
        asked.answer(200, {"root_causes": [{"entity": entity}]})

    ended = measured(trials, behave)
    assert ended.outcome == "diagnosed"
    assert ended.diagnosis() == ANSWER
    assert (ended.record.n_commands, ended.record.observed) == (1, True)


def test_an_agent_calls_back_with_its_diagnosis(trials: LiveTrials) -> None:
    replies = []

    def work(task: dict[str, Any]) -> None:
        replies.append(call_trial(task, "run_command", {"command": "exit 7"}).json())
        replies.append(call_trial(task, "submit", {"root_causes": [{"name": "cart"}]}))
        replies.append(call_trial(task, "submit", ANSWER))

    ended = measured(trials, in_background(work))
    assert ended.outcome == "diagnosed"
    assert replies[0] == {"exit_code": 7, "notice": "", "output": ""}
    assert (replies[1].status, replies[1].json()["accepted"]) == (422, False)
    assert "entity" in replies[1].json()["message"]
    assert (replies[2].status, replies[2].json()) == (200, {"accepted": True, "message": "accepted"})
    assert ended.report()["answered"] == "callback"
    assert ended.report()["n_requests"] == {"run_command": 1, "submit": 2}


@pytest.mark.parametrize("place", ["body", "relative", "header"])
@pytest.mark.parametrize("answer", [{"status": "done", "diagnosis": ANSWER}, ANSWER])
def test_an_agent_is_asked_for_its_answer(trials: LiveTrials, place: str, answer: Any) -> None:
    states = iter([(202, b""), (200, {"status": "running"}), (503, b"restarting"), (200, answer)])

    def behave(asked: Asked) -> None:
        if asked.method == "GET":
            assert asked.path == "/status/7?job=1"
            status, body = next(states)
            asked.answer(status, body, Retry_After="0")
        elif place == "header":
            asked.answer(202, Location="/status/7?job=1", Retry_After="0")
        else:
            base = f"http://{asked.headers['Host']}" if place == "body" else ""
            asked.answer(202, {"status_url": f"{base}/status/7?job=1"}, Retry_After="0")

    ended = measured(trials, behave)
    assert ended.outcome == "diagnosed", ended.record.reason
    assert ended.diagnosis() == ANSWER
    assert [asked.method for asked in ended.asked] == ["POST"] + ["GET"] * 4
    assert ended.report()["answered"] == "poll"


def answering(status: int, body: Any = b"", **headers: str) -> Callable[[Asked], None]:
    return lambda asked: asked.answer(status, body, **headers)


def breaking_off(asked: Asked) -> None:
    asked.handler.wfile.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
    )


def hanging_up(asked: Asked) -> None:
    asked.handler.connection.close()


def speaking_no_http(asked: Asked) -> None:
    asked.handler.wfile.write(b"220 mail.example ESMTP\r\n")


def polled(status: int, body: Any = b"") -> Callable[[Asked], None]:
    def behave(asked: Asked) -> None:
        if asked.method == "GET":
            asked.answer(status, body, Retry_After="0")
        else:
            asked.answer(202, {"status_url": "/status"}, Retry_After="0")

    return behave


@pytest.mark.parametrize(
    ("behave", "reason"),
    [
        (
            answering(200, b"<html><body>Log in</body></html>", Content_Type="text/html"),
            "with HTML in place of JSON",
        ),
        (answering(200, b"I think it is the cart.", Content_Type="text/plain"), "with what is no JSON"),
        (answering(200, b"[" * 100_000), "with what is no JSON"),
        (
            answering(404, {"detail": "no such agent"}),
            'answered 404 Not Found: \'{"detail": "no such agent"}\'',
        ),
        (answering(500, b"out of\nmemory"), "answered 500 Internal Server Error: 'out of memory'"),
        (answering(401), "answered 401 Unauthorized."),
        (answering(307, Location="http://127.0.0.1:1/other"), "a redirect to 'http://127.0.0.1:1/other'"),
        (breaking_off, "with what is no JSON"),
        (hanging_up, "broke off its answer"),
        (speaking_no_http, "broke off its answer"),
        (answering(202, {"status_url": 7}), "a status_url that is no text"),
        (answering(202, {"status_url": "file:///etc/passwd"}), "a status_url that is no address"),
        (answering(202, {"status_url": "http://169.254.169.254/latest"}), "a status_url on another server"),
        (polled(500, b"boom"), "answered 500 Internal Server Error: 'boom'"),
        (polled(200, {"status": "failed", "error": "no quota"}), "says that it failed: no quota"),
        (polled(200, b"<html>"), "with HTML in place of JSON"),
    ],
)
def test_a_wrong_answer_is_the_agents_error_with_its_reason(
    trials: LiveTrials, behave: Callable[[Asked], None], reason: str
) -> None:
    ended = measured(trials, behave)
    assert ended.outcome == "agent_error"
    assert ended.record.reason.startswith("The agent at http://127.0.0.1:")
    assert reason in ended.record.reason
    assert ended.report()["failure"] == ended.record.reason


@pytest.mark.parametrize(
    ("behave", "outcome", "reason"),
    [
        (answering(200), "no_diagnosis", "without handing in or printing anything"),
        (answering(204), "no_diagnosis", "without handing in or printing anything"),
        (answering(200, {}), "no_diagnosis", "without handing in or printing anything"),
        (answering(200, {"diagnosis": None}), "no_diagnosis", "without handing in or printing anything"),
        (answering(200, {"root_causes": [{"name": "cart"}]}), "malformed_diagnosis", "entity"),
        (answering(200, {"root_causes": "x" * (2 << 20)}), "malformed_diagnosis", "at most 1048576"),
        (answering(200, {"refused": True}), "refused", "refused"),
        (polled(200, {"status": "done"}), "malformed_diagnosis", "root_causes"),
        (polled(200, {"status": "done", "diagnosis": None}), "no_diagnosis", "without handing in"),
    ],
)
def test_an_answer_without_a_diagnosis_is_an_outcome(
    trials: LiveTrials, behave: Callable[[Asked], None], outcome: str, reason: str
) -> None:
    ended = measured(trials, behave)
    assert ended.outcome == outcome, ended.record.reason
    assert reason in ended.record.reason


def test_an_agent_that_goes_silent_runs_into_the_time_limit(trials: LiveTrials) -> None:
    done = threading.Event()
    for behave in (lambda asked: done.wait(300), answering(202), polled(200, {"status": "running"})):
        ended = measured(trials, behave, time_limit_s=1.5)  # type: ignore[arg-type]
        assert ended.outcome == "time_limit"
    done.set()


def test_an_answer_that_drips_is_cut_off_by_the_time_limit(trials: LiveTrials) -> None:
    def drip(asked: Asked) -> None:
        asked.handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while True:
            asked.handler.wfile.write(b" ")
            time.sleep(0.05)

    assert measured(trials, drip, time_limit_s=1.5).outcome == "time_limit"


def test_a_submission_counts_though_the_request_fails_afterwards(trials: LiveTrials) -> None:
    def behave(asked: Asked) -> None:
        assert call_trial(asked.task, "submit", ANSWER).status == 200
        asked.answer(500)

    assert measured(trials, behave).outcome == "diagnosed"


def test_the_turn_limit_holds(trials: LiveTrials) -> None:
    replies = []

    def behave(asked: Asked) -> None:
        replies.extend(call_trial(asked.task, "run_command", {"command": "true"}) for _ in range(4))
        asked.answer(200)

    ended = measured(trials, behave, max_turns=3)
    assert ended.outcome == "turn_limit"
    assert [reply.status for reply in replies] == [200, 200, 200, 410]
    assert "It is time to submit" in replies[2].json()["output"]


def test_what_is_on_the_redaction_list_never_leaves_and_is_counted(
    trials: LiveTrials, tmp_path: Path
) -> None:
    words = tmp_path / "words"
    words.write_text('Find it\nOOMKilled\n\nOOM\nsay "it"\n', encoding="utf-8")
    replies = []

    def behave(asked: Asked) -> None:
        for command in ("cat /snapshot/events.jsonl", """echo '"say \\"it\\""'""", "echo fine"):
            replies.append(call_trial(asked.task, "run_command", {"command": command}).json()["output"])
        asked.answer(200, ANSWER)

    ended = measured(trials, behave, AgentOptions(redact=words))
    assert ended.asked[0].task["task"] == "# The task\n\n[redacted].\n"
    assert "[redacted]" in replies[0]
    assert "OOM" not in replies[0]
    assert replies[1:] == ['"[redacted]"\n', "fine\n"]
    assert ended.report()["n_redacted"] == 2 + replies[0].count("[redacted]")
    # Our own record is whole.
    assert "OOMKilled" in (ended.folder / "commands.jsonl").read_text()


def test_keys_reach_the_agent_and_no_file(
    trials: LiveTrials, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AGENT_KEY", "s3cret-key")
    options = AgentOptions(headers=("Authorization: Bearer ${AGENT_KEY}", "X-Team: sre"))

    def behave(asked: Asked) -> None:
        asked.answer(403, f"wrong: {asked.headers['Authorization']}, {asked.path}".encode())

    with service(behave) as running:
        agent = make_hosted_agent(f"{running.url}?key=query-secret", None, options)
        try:
            record, folder = trials.run(agent)
        finally:
            agent.close()
    assert running.asked[0].headers["Authorization"] == "Bearer s3cret-key"
    assert running.asked[0].headers["X-Team"] == "sre"
    assert running.asked[0].path == "/agent?key=query-secret"
    assert "403" in record.reason
    assert agent.info.name == running.url
    for path in folder.rglob("*"):
        assert b"s3cret-key" not in path.read_bytes()
        assert b"query-secret" not in path.read_bytes()


def test_a_certificate_is_verified(trials: LiveTrials, tmp_path: Path) -> None:
    public, context = certificate(tmp_path)
    with service(lambda asked: asked.answer(200, ANSWER), context) as running:
        stranger = make_hosted_agent(running.url, None, AgentOptions())
        with pytest.raises(UsageError, match=r"its certificate is not trusted: .*--ca-file FILE") as caught:
            stranger.check()
        assert len(str(caught.value).splitlines()) == 1
        assert running.asked == []
        known = make_hosted_agent(running.url, None, AgentOptions(ca_file=public))
        try:
            known.check()
            record, _ = trials.run(known)
        finally:
            known.close()
        assert record.outcome.value == "diagnosed"
        plain = make_hosted_agent(running.url.replace("https:", "http:"), None, AgentOptions())
        try:
            record, _ = trials.run(plain)
        finally:
            plain.close()
        assert record.outcome.value == "agent_error"


def test_a_certificate_of_another_host_is_refused(tmp_path: Path) -> None:
    public, context = certificate(tmp_path, host="10.0.0.9")
    with service(lambda asked: asked.answer(200, ANSWER), context) as running:
        agent = make_hosted_agent(running.url, None, AgentOptions(ca_file=public))
        with pytest.raises(UsageError, match="its certificate is not trusted: IP address mismatch"):
            agent.check()


def test_a_server_that_speaks_no_tls_is_one_clear_message() -> None:
    with service(lambda asked: asked.answer(200, ANSWER)) as running:
        agent = make_hosted_agent(running.url.replace("http:", "https:"), None, AgentOptions())
        with pytest.raises(UsageError, match="does not speak TLS as it should"):
            agent.check()


def test_trials_side_by_side_do_not_mix(trials: LiveTrials) -> None:
    """Two at once through one listener: each token opens its own trial alone."""
    tasks: list[dict[str, Any]] = []
    both = threading.Barrier(2, timeout=300)

    def behave(asked: Asked) -> None:
        tasks.append(asked.task)
        both.wait()
        mine = asked.task
        (other,) = [task for task in tasks if task["token"] != mine["token"]]
        assert call_trial(mine, "run_command", {"command": "ls"}, token=other["token"]).status == 401
        call_trial(mine, "run_command", {"command": f"echo {mine['token']} > /scratch/mine"})
        both.wait()
        kept = call_trial(mine, "run_command", {"command": "cat /scratch/mine"}).json()["output"]
        asked.answer(200, ANSWER if kept.strip() == mine["token"] else {})

    outcomes = []
    with service(behave) as running:
        agent = make_hosted_agent(running.url, None, AgentOptions())
        try:
            threads = [
                threading.Thread(target=lambda: outcomes.append(trials.run(agent)[0].outcome.value))
                for _ in range(2)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            agent.close()
    assert outcomes == ["diagnosed", "diagnosed"]


def test_an_agent_is_of_the_kind_hosted() -> None:
    agent = make_hosted_agent("http://127.0.0.1:1/x?key=1", "mine", AgentOptions())
    assert isinstance(agent, HostedAgent)
    assert (agent.kind, agent.info.name) == ("hosted", "mine")
