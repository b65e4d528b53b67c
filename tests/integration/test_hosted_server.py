"""Claims about the listener that hosted agents call: tokens, sizes, slow and many callers, its document."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jsonschema
import pytest
from fake_service import PATIENCE_S, call_trial
from live_trial import ANSWER, TASK, LiveTrial, LiveTrials, live_trials
from openapi_spec_validator import OpenAPIV31SpecValidator

from diagnose_bench.agents import hosted_server
from diagnose_bench.agents.hosted_server import MAX_CONNECTIONS, HostedServer
from diagnose_bench.agents.hosted_trial import HostedTrial
from diagnose_bench.agents.openapi import openapi_document
from diagnose_bench.agents.redaction import RedactionList
from diagnose_bench.errors import UsageError

pytestmark = pytest.mark.sandbox


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveTrials]:
    with live_trials(tmp_path_factory.mktemp("trials")) as opened:
        yield opened


@dataclass
class Open:
    """A trial that is served."""

    task: dict[str, Any]
    live: LiveTrial
    server: HostedServer

    def connection(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.server.port), timeout=PATIENCE_S)

    def raw(self, request: str) -> bytes:
        """All that is answered to bytes as they stand; PATH and TOKEN are filled in."""
        path = self.task["base_url"].split(str(self.server.port))[1]
        data = request.replace("PATH", path).replace("TOKEN", self.task["token"]).replace("\n", "\r\n")
        with self.connection() as connection:
            connection.sendall(data.encode())
            return b"".join(iter(lambda: connection.recv(1 << 16), b""))


@contextmanager
def serving(trials: LiveTrials, **limits: Any) -> Iterator[Open]:
    server = HostedServer("127.0.0.1", 0, None)
    try:
        with trials.opened(**limits) as live:
            trial = HostedTrial(live.session, RedactionList())
            with server.serving(trial) as base_url:
                yield Open({"base_url": base_url, "token": trial.token}, live, server)
    finally:
        server.close()


@pytest.fixture
def served(trials: LiveTrials) -> Iterator[Open]:
    with serving(trials) as opened:
        yield opened


def test_the_document_is_valid_and_describes_what_is_answered(served: Open) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.server.port, timeout=PATIENCE_S)
    connection.request("GET", "/openapi.json")
    document = json.load(connection.getresponse())
    connection.close()
    OpenAPIV31SpecValidator(document).validate()
    assert document == openapi_document(served.server.public_url)
    assert document["openapi"] == "3.1.0"
    assert document["servers"][0]["url"].replace("{trial}", "x").startswith(served.server.public_url)

    def conforms(value: Any, name: str) -> None:
        jsonschema.Draft202012Validator(
            {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        ).validate(value)

    conforms(ANSWER, "Diagnosis")
    conforms({"command": "true", "timeout_s": 3}, "Command")
    assert call_trial(served.task, "task").json()["task"] == TASK
    conforms(call_trial(served.task, "task").json(), "Task")
    conforms(call_trial(served.task, "run_command", {"command": "true"}).json(), "CommandResult")
    conforms(call_trial(served.task, "run_command", {}).json(), "Error")
    conforms(call_trial(served.task, "submit", {}).json(), "Submission")
    conforms(call_trial(served.task, "submit", ANSWER).json(), "Submission")
    conforms(call_trial(served.task, "run_command", {"command": "true"}).json(), "Error")


@pytest.mark.parametrize("what", ["task", "run_command", "submit", "nothing"])
def test_an_unknown_token_or_trial_is_refused(served: Open, what: str) -> None:
    value = None if what == "task" else {"command": "true"}
    for token in ("", "wrong", "ü"):
        assert call_trial(served.task, what, value, token=token.encode().decode("latin-1")).status == 401
    elsewhere = {**served.task, "base_url": served.server.public_url + "/trials/0123456789abcdef"}
    assert call_trial(elsewhere, what, value).status == 401
    assert served.live.session.n_turns == 0


@pytest.mark.parametrize(
    ("what", "value", "method", "status"),
    [
        ("nothing", None, "GET", 404),
        ("task/more", None, "GET", 404),
        ("task", b"", "POST", 405),
        ("submit", None, "GET", 405),
        ("run_command", b"ls", "POST", 400),
        ("run_command", b"[" * 100_000, "POST", 400),
        ("run_command", {"command": 7}, "POST", 400),
        ("run_command", {"command": "ls", "timeout_s": "long"}, "POST", 400),
        ("run_command", {"command": "ls", "timeout_s": -1}, "POST", 400),
        ("run_command", {"command": "ls", "timeout_s": 10**400}, "POST", 400),
        ("run_command", b'{"command": "ls", "timeout_s": NaN}', "POST", 400),
        ("run_command", b'{"command": "ls", "timeout_s": 1' + b"0" * 9999 + b"}", "POST", 400),
        ("run_command", b" " * (3 << 20), "POST", 413),
        ("submit", b"", "POST", 422),
        ("submit", b"nonsense", "POST", 422),
        ("submit", b" " * (2 << 20), "POST", 413),
    ],
)
def test_a_wrong_call_is_told_what_is_wrong_and_costs_no_turn(
    served: Open, what: str, value: Any, method: str, status: int
) -> None:
    reply = call_trial(served.task, what, value, method=method)
    assert reply.status == status
    assert reply.json().get("error") or reply.json()["message"]
    assert served.live.session.n_turns == 0
    assert call_trial(served.task, "submit", ANSWER).status == 200


def test_two_megabytes_are_kept_as_a_diagnosis_that_is_too_large(served: Open) -> None:
    reply = call_trial(served.task, "submit", b'{"root_causes": "' + b"x" * (2 << 20))
    assert (reply.status, reply.json()["accepted"]) == (413, False)
    assert "at most 1048576" in reply.json()["message"]
    assert "at most 1048576" in served.live.session.rejected_reason


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (
            "POST PATH/submit HTTP/1.1\nAuthorization: Bearer TOKEN\nTransfer-Encoding: chunked\n\n0\n\n",
            b"411",
        ),
        ("POST PATH/submit HTTP/1.1\nAuthorization: Bearer TOKEN\nContent-Length: -5\n\n", b"400"),
        ("POST PATH/submit HTTP/1.1\nAuthorization: Bearer TOKEN\nContent-Length: ٣\n\n", b"400"),
        ("PUT PATH/submit HTTP/1.1\nAuthorization: Bearer TOKEN\n\n", b"501"),
        ("nonsense\n\n", b"400"),
        ("nonsense / HTTP/x\n\n", b"400"),
        ("GET /" + "x" * 70_000 + " HTTP/1.1\n\n", b"414"),
        ("GET / HTTP/1.1\n" + "X: y\n" * 200 + "\n", b"431"),
    ],
)
def test_what_is_no_proper_request_is_refused_and_disturbs_nobody(
    served: Open, request_: str, status: bytes
) -> None:
    assert status in served.raw(request_).splitlines()[0]
    assert call_trial(served.task, "task").status == 200


def test_a_caller_that_drips_is_cut_off(served: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosted_server, "REQUEST_S", 1.0)
    stop = threading.Event()
    with served.connection() as connection:

        def drip() -> None:
            while not stop.wait(0.1):
                try:
                    connection.sendall(b"X")
                except OSError:
                    return

        dripping = threading.Thread(target=drip)
        dripping.start()
        # The end of the stream, or its reset.
        try:
            assert connection.recv(1) == b""
        except ConnectionResetError:
            pass
        finally:
            stop.set()
            dripping.join()
    assert call_trial(served.task, "task").status == 200


def test_too_many_callers_are_told_so_and_the_others_go_on(served: Open) -> None:
    waiting = [served.connection() for _ in range(MAX_CONNECTIONS)]
    try:
        assert b"503 Service Unavailable" in served.raw("GET /openapi.json HTTP/1.1\n\n")
    finally:
        for connection in waiting:
            connection.close()
    status = 503
    while status == 503:
        # Those who left are noticed one after another.
        try:
            status = call_trial(served.task, "task").status
        except OSError:
            continue
    assert status == 200


def test_a_caller_that_dies_in_the_middle_of_a_command_disturbs_nobody(served: Open) -> None:
    path = served.task["base_url"].split(str(served.server.port))[1]
    body = json.dumps({"command": "touch /scratch/a; sleep 1"})
    with served.connection() as connection:
        head = f"POST {path}/run_command HTTP/1.1\r\nAuthorization: Bearer {served.task['token']}\r\n"
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        while served.live.session.n_turns == 0:
            threading.Event().wait(0.02)
    assert call_trial(served.task, "run_command", {"command": "ls /scratch"}).json()["output"] == "a\n"


def test_a_long_output_is_cut(served: Open) -> None:
    command = "yes 0123456789abcde | head -c 50000000"
    reply = call_trial(served.task, "run_command", {"command": command})
    assert len(reply.body) < 80_000
    assert "bytes of output cut here" in reply.json()["output"]


def test_after_the_end_every_call_is_told_that_it_is_over(trials: LiveTrials) -> None:
    server = HostedServer("127.0.0.1", 0, None)
    try:
        with trials.opened() as live:
            trial = HostedTrial(live.session, RedactionList())
            with server.serving(trial) as base_url:
                task = {"base_url": base_url, "token": trial.token}
                assert call_trial(task, "submit", ANSWER).status == 200
                for what, value in (("task", None), ("run_command", {"command": "ls"})):
                    assert call_trial(task, what, value).status == 410
                # For some seconds a better diagnosis is taken; then the trial is closed.
                assert call_trial(task, "submit", ANSWER).status == 200
                live.session.close()
                assert call_trial(task, "submit", ANSWER).status == 410
            for what, value in (("task", None), ("run_command", {"command": "ls"}), ("submit", ANSWER)):
                assert call_trial(task, what, value).status == 410
                assert call_trial(task, what, value, token="wrong").status == 401
    finally:
        server.close()
    with pytest.raises(OSError, match="Connection refused"):
        call_trial(task, "task")


def test_the_end_stops_a_command_that_runs(trials: LiveTrials) -> None:
    replies = []
    with serving(trials) as opened:
        call = threading.Thread(
            target=lambda: replies.append(call_trial(opened.task, "run_command", {"command": "sleep 100"}))
        )
        call.start()
        while opened.live.session.n_turns == 0:
            threading.Event().wait(0.02)
    call.join(PATIENCE_S)
    assert [reply.status for reply in replies] in ([410], [])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_port_in_use_is_one_clear_message(host: str) -> None:
    first = HostedServer(host, 0, None)
    try:
        with pytest.raises(UsageError, match=r"Address already in use\. Give another address"):
            HostedServer(host, first.port, None)
    finally:
        first.close()


def test_the_public_address_is_what_agents_are_told() -> None:
    server = HostedServer("0.0.0.0", 0, None)
    assert server.public_url == f"http://127.0.0.1:{server.port}"
    server.close()
    server = HostedServer("127.0.0.1", 0, "https://bench.example/x")
    assert server.public_url == "https://bench.example/x"
    assert json.loads(server.document)["servers"][0]["url"] == "https://bench.example/x/trials/{trial}"
    server.close()
