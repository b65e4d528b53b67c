"""Claims about the MCP server of a trial over HTTP: the SDK's own client, and clients that misbehave."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from live_trial import ANSWER, TASK, LiveTrial, LiveTrials, live_trials
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from diagnose_bench.agents.mcp_http import McpHttpServer
from diagnose_bench.agents.mcp_server import serve_streams
from diagnose_bench.agents.mcp_tools import READ_BYTES, TASK_URI
from diagnose_bench.agents.socket_server import TrialServer
from diagnose_bench.errors import UsageError

pytestmark = pytest.mark.sandbox
PATIENCE_S = 300.0
TOOLS = {"run_command", "read_file", "submit_diagnosis"}


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveTrials]:
    with live_trials(tmp_path_factory.mktemp("trials")) as opened:
        yield opened


@pytest.fixture
def trial(trials: LiveTrials) -> Iterator[LiveTrial]:
    with trials.opened() as opened:
        yield opened


@asynccontextmanager
async def connected(server: McpHttpServer, mode: str = "auto") -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {server.token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http,
        Client(streamable_http_client(server.url, http_client=http), mode=mode) as client,
    ):
        yield client


async def text_of(client: Client, tool: str, arguments: dict[str, Any]) -> tuple[str, bool]:
    result = await client.call_tool(tool, arguments)
    return "".join(part.text for part in result.content if part.type == "text"), result.is_error


def asked(trial: LiveTrial, *calls: tuple[str, dict[str, Any]]) -> list[tuple[str, bool]]:
    """Answers of one client to calls, one after another."""

    async def ask() -> list[tuple[str, bool]]:
        async with connected(server) as client:
            return [await text_of(client, *call) for call in calls]

    with McpHttpServer(trial.session) as server:
        answers = asyncio.run(ask())
        trial.session.close()
    return answers


@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
def test_a_client_of_each_protocol_era_diagnoses(trial: LiveTrial, mode: str) -> None:
    async def work() -> None:
        async with connected(server, mode) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
            assert [resource.name for resource in (await client.list_resources()).resources] == ["task"]
            (task,) = (await client.read_resource(TASK_URI)).contents
            assert task.text == TASK  # type: ignore[union-attr]
            text, failed = await text_of(client, "run_command", {"command": "ls /snapshot; exit 3"})
            assert not failed
            assert "events.jsonl" in text
            assert text.endswith("[exit code 3]")
            assert await text_of(client, "submit_diagnosis", ANSWER) == ("accepted", False)

    with McpHttpServer(trial.session) as server:
        asyncio.run(work())
    assert json.loads(trial.session.submission or b"") == ANSWER
    assert [command.command for command in trial.commands()] == ["ls /snapshot; exit 3"]


@pytest.mark.parametrize(
    ("offered", "answered"), [("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-11-25")]
)
def test_a_client_of_another_protocol_version_is_offered_one_that_works(
    trial: LiveTrial, offered: str, answered: str
) -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": offered,
            "capabilities": {},
            "clientInfo": {"name": "old", "version": "0"},
        },
    }
    with McpHttpServer(trial.session) as server:
        headers = {
            "Authorization": f"Bearer {server.token}",
            "Accept": "application/json, text/event-stream",
        }
        with httpx2.Client(timeout=PATIENCE_S) as http:
            reply = http.post(server.url, json=hello, headers=headers)
        trial.session.close()
    assert reply.status_code == 200
    (data,) = [line for line in reply.text.splitlines() if line.startswith("data: {")]
    assert json.loads(data[6:])["result"]["protocolVersion"] == answered


def test_an_unknown_protocol_version_of_the_new_era_is_refused_with_the_versions_that_work(
    trial: LiveTrial,
) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    with McpHttpServer(trial.session) as server:
        headers = {
            "Authorization": f"Bearer {server.token}",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2099-01-01",
            "Mcp-Method": "tools/list",
        }
        with httpx2.Client(timeout=PATIENCE_S) as http:
            reply = http.post(server.url, json=request, headers=headers)
        trial.session.close()
    assert reply.status_code == 400
    assert "error" in reply.json()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "TOKEN", "Host": "evil.example"}, 421),
        ({"Authorization": "TOKEN", "Origin": "http://evil.example"}, 403),
    ],
)
def test_a_wrong_token_host_or_origin_is_refused(
    trial: LiveTrial, headers: dict[str, str], status: int
) -> None:
    with McpHttpServer(trial.session) as server, httpx2.Client(timeout=PATIENCE_S) as http:
        given = {name: value.replace("TOKEN", f"Bearer {server.token}") for name, value in headers.items()}
        reply = http.post(server.url, json={}, headers=given)
        trial.session.close()
    assert reply.status_code == status
    assert trial.commands() == []


def test_connections_that_ask_for_nothing_shut_nobody_out(trial: LiveTrial) -> None:
    with McpHttpServer(trial.session) as server, ExitStack() as stack:
        place = ("127.0.0.1", int(server.url.rsplit(":", 1)[1].split("/")[0]))
        # More than the 64 who may ask at the same time; a part of a header is none.
        strangers = [stack.enter_context(socket.create_connection(place)) for _ in range(80)]
        for stranger in strangers[:10]:
            stranger.sendall(b"POST /mcp HTTP/1.1\r\nHost: ")
        headers = {"Authorization": "Bearer wrong"}
        with httpx2.Client(timeout=PATIENCE_S) as http:
            assert http.post(server.url, json={}, headers=headers).status_code == 401

        async def ask() -> str:
            async with connected(server) as client:
                return (await text_of(client, "run_command", {"command": "echo fine"}))[0]

        assert "fine" in asyncio.run(ask())
        for stranger in strangers:
            stranger.settimeout(PATIENCE_S)
            with suppress(ConnectionResetError):
                assert stranger.recv(100) == b""
        trial.session.close()


def test_two_clients_at_once_share_the_trial_and_its_files(trial: LiveTrial) -> None:
    async def work() -> list[str]:
        async with connected(server) as one, connected(server, "legacy") as two:
            calls = [
                text_of(client, "run_command", {"command": f"echo {name} >> /scratch/log; echo done"})
                for client, name in [(one, "one"), (two, "two")] * 3
            ]
            assert {text for text, _ in await asyncio.gather(*calls)} == {"done\n[exit code 0]"}
            return sorted((await text_of(one, "run_command", {"command": "cat /scratch/log"}))[0].split())

    with McpHttpServer(trial.session) as server:
        words = asyncio.run(work())
    assert words == sorted(["one", "two"] * 3 + ["[exit", "code", "0]"])
    assert trial.session.n_turns == 7


DYING = """
import asyncio, sys
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

async def main(address, token, command):
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=300) as http:
        if address.startswith("http"):
            client = Client(streamable_http_client(address, http_client=http))
        else:
            client = Client(StdioServerParameters(command=address))
        async with client:
            await client.call_tool("run_command", {"command": command})

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_a_client_that_dies_in_the_middle_of_a_call_disturbs_no_other(
    trial: LiveTrial, tmp_path: Path, transport: str
) -> None:
    async def work() -> str:
        async with connected(server) as client:
            return (await text_of(client, "run_command", {"command": "ls /scratch"}))[0]

    command = "touch /scratch/a; sleep 1"
    converse = partial(serve_streams, trial.session)
    with (
        McpHttpServer(trial.session) as server,
        TrialServer(tmp_path, trial.session, marker="NO=BODY", converse=converse) as sockets,
    ):
        sockets.expect(os.getpid())
        address = server.url if transport == "http" else str(sockets.bridge)
        with subprocess.Popen([sys.executable, "-c", DYING, address, server.token, command]) as client:
            while trial.session.n_turns == 0:
                assert client.poll() is None
                time.sleep(0.02)
            client.kill()
        assert asyncio.run(work()) == "a\n[exit code 0]"
    # The command of the dead client went on to its end, and is on record.
    assert [record.command for record in trial.commands()] == [command, "ls /scratch"]


def test_a_long_output_is_cut_and_says_how_to_page(trial: LiveTrial) -> None:
    command = "yes 0123456789abcde | head -c 50000000"
    ((text, failed),) = asked(trial, ("run_command", {"command": command}))
    assert not failed
    # What the sandbox shows of a long output, and a note; never the output.
    assert len(text) < 40_000
    assert "bytes of output cut here" in text
    assert "read_file" in text
    assert [record.n_bytes for record in trial.commands()] == [50_000_000]


def test_after_the_submission_no_command_is_run_and_a_better_diagnosis_replaces_it(trial: LiveTrial) -> None:
    answers = asked(
        trial,
        ("submit_diagnosis", ANSWER),
        ("run_command", {"command": "ls"}),
        ("read_file", {"path": "/snapshot/events.jsonl"}),
        ("submit_diagnosis", {"root_causes": []}),
    )
    assert answers[0] == ("accepted", False)
    assert [failed for _, failed in answers[1:]] == [True, True, False]
    assert all("no more commands are run" in text for text, _ in answers[1:3])
    assert json.loads(trial.session.submission or b"") == {"root_causes": []}
    assert trial.commands() == []


def test_a_call_after_the_end_is_told_that_the_trial_is_over(trial: LiveTrial) -> None:
    trial.session.close()
    answers = asked(trial, ("run_command", {"command": "ls"}), ("submit_diagnosis", ANSWER))
    assert [failed for _, failed in answers] == [True, True]
    assert all("The trial is over" in text for text, _ in answers)
    assert trial.session.submission is None


def test_a_submission_of_the_wrong_form_is_told_what_is_wrong_and_no_more(trial: LiveTrial) -> None:
    big = {"root_causes": [{"entity": "a/Pod/b", "reasoning": "x" * (2 << 20)}]}
    answers = asked(
        trial,
        ("submit_diagnosis", {"root_causes": [{"name": "cart"}]}),
        ("submit_diagnosis", big),
        ("submit_diagnosis", ANSWER),
    )
    assert [failed for _, failed in answers] == [True, True, False]
    assert "entity" in answers[0][0]
    assert "at most 1048576" in answers[1][0]


def test_a_wrong_call_costs_no_turn(trial: LiveTrial) -> None:
    answers = asked(
        trial,
        ("run_command", {}),
        ("run_command", {"command": "ls", "timeout_s": -1}),
        ("run_command", {"command": "ls", "timeout_s": 10**400}),
        ("run_command", {"command": "ls", "cwd": "/"}),
        ("no_such_tool", {}),
        ("read_file", {"path": "/etc/passwd"}),
        ("read_file", {"path": "/snapshot/../etc/passwd"}),
        ("read_file", {"path": "/snapshot"}),
        ("read_file", {"path": "/snapshot/events.jsonl", "first_line": 0}),
        ("read_file", {"path": "/snapshot/events.jsonl", "first_line": 1, "n_bytes": 5}),
    )
    assert [failed for _, failed in answers] == [True] * 10
    assert trial.session.n_turns == 0


def test_a_file_is_read_in_pages_of_lines_and_of_bytes(trial: LiveTrial) -> None:
    name = "/scratch/it's a $file"
    make = "seq 1 20000 > \"/scratch/it's a \\$file\"; printf 'x%.0s' $(seq 40000) > /scratch/long"
    missing, beyond, part, end, start, rest, long, bytes_, relative = asked(
        trial,
        ("run_command", {"command": make}),
        ("read_file", {"path": "/snapshot/none.jsonl"}),
        ("read_file", {"path": name, "first_line": 30000}),
        ("read_file", {"path": name, "first_line": 10, "n_lines": 2}),
        ("read_file", {"path": name, "first_line": 19999}),
        ("read_file", {"path": name, "n_lines": 20000}),
        ("read_file", {"path": name, "first_byte": 108_892}),
        ("read_file", {"path": "/scratch/long"}),
        ("read_file", {"path": "/scratch/long", "first_byte": 39_998}),
        ("read_file", {"path": "topology.json", "n_bytes": 1}),
    )[1:]
    assert missing == ("There is no such file.\n[exit code 1]", True)
    assert beyond == ("[The file has no line 30000.]", False)
    assert part == ("10\n11\n[There is more. Go on with first_line=12.]", False)
    assert end == ("19999\n20000\n[This is the end of the file.]", False)
    # 9 x 2 + 90 x 3 + 900 x 4 bytes are lines 1 to 999; (30000 - 3888) / 5 = 5222 more lines fit.
    assert start[0].endswith("\n6221\n[There is more. Go on with first_line=6222.]")
    # 20000 lines are 3888 + 9000 x 5 + 10001 x 6 = 108894 bytes.
    assert rest == ("0\n[This is the end of the file.]", False)
    assert long[0].startswith("x" * READ_BYTES + "\n[Line 1 is longer")
    assert bytes_ == ("xx\n[This is the end of the file.]", False)
    assert relative == ("{\n[There is more. Go on with first_byte=1.]", False)
    assert trial.session.n_turns == 10
    # Through the sandbox, so on record as any command.
    assert len(trial.commands()) == 10


def test_a_link_out_of_scratch_shows_the_sandbox_and_not_the_host(trial: LiveTrial, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("host")
    answers = asked(
        trial,
        ("run_command", {"command": f"ln -s {secret} /scratch/link"}),
        ("read_file", {"path": "/scratch/link"}),
    )
    assert answers[1] == ("There is no such file.\n[exit code 1]", True)


def test_a_port_in_use_is_one_clear_message(trial: LiveTrial) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match=f"127.0.0.1:{port}: Address already in use. Give another port"):
            McpHttpServer(trial.session, port=port)


def test_the_end_of_the_trial_answers_a_call_that_still_runs(trial: LiveTrial) -> None:
    async def work() -> tuple[str, bool]:
        async with connected(server) as client:
            call = asyncio.create_task(text_of(client, "run_command", {"command": "sleep 100"}))
            while trial.session.n_turns == 0:
                await asyncio.sleep(0.02)
            await asyncio.to_thread(trial.session.close)
            return await call

    with McpHttpServer(trial.session) as server:
        assert asyncio.run(work()) == ("The trial is over.", True)
