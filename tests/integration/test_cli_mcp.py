"""Claims about ``diagnose-bench mcp``: the SDK's client drives the real command over both transports."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import httpx2
import pytest
from cli_helpers import COMMAND, call, small_suite
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from diagnose_bench.layout import package_folder

pytestmark = pytest.mark.sandbox
ANSWER = {"root_causes": [{"entity": "shop/Deployment/cart"}]}
CLIENT = {"name": "by-hand", "version": "1"}
PATIENCE_S = 300.0


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return small_suite(tmp_path)


async def diagnosed(client: Client) -> str:
    async with client:
        (task,) = (await client.read_resource("task://task.md")).contents
        assert "2025-03-01T10:30:00Z" in task.text  # type: ignore[union-attr]
        result = await client.call_tool("read_file", {"path": "/snapshot/events.jsonl"})
        await client.call_tool("submit_diagnosis", ANSWER)
        return result.content[0].text  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_scenario_is_tried_over_standard_streams(suite: Path, tmp_path: Path, mode: str) -> None:
    out, log = tmp_path / "diagnosis.json", tmp_path / "log"
    environment = {**os.environ, "PYTHONPATH": str(package_folder().parent)}
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "diagnose_bench", "mcp", "1", "--suite", str(suite), "--out", str(out)],
        env=environment,
    )
    with log.open("w") as errors:
        client = Client(stdio_client(parameters, errlog=errors), mode=mode)
        assert "OOMKilled" in asyncio.run(diagnosed(client))
    assert json.loads(out.read_bytes()) == ANSWER
    assert log.read_text() == f"The diagnosis: {out}\n"


def test_a_diagnosis_is_kept_though_the_client_is_gone_before_the_answer(suite: Path, tmp_path: Path) -> None:
    out = tmp_path / "diagnosis.json"
    words = [*COMMAND, "mcp", "1", "--suite", str(suite), "--out", str(out)]
    calls = [
        ("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT}),
        ("tools/call", {"name": "submit_diagnosis", "arguments": ANSWER}),
    ]
    requests = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        for number, (method, params) in enumerate(calls)
    ]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(b"".join(json.dumps(request).encode() + b"\n" for request in requests))
        process.stdin.flush()
        process.stdin.close()
        assert process.stderr.read().decode() == f"The diagnosis: {out}\n"
    assert json.loads(out.read_bytes()) == ANSWER
    assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_on_standard_streams_ends_with_a_signal_though_its_client_stays(
    suite: Path, number: int
) -> None:
    words = [*COMMAND, "mcp", "1", "--suite", str(suite)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        hello = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": CLIENT,
            },
        }
        process.stdin.write(json.dumps(hello).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["protocolVersion"] == "2025-06-18"
        process.send_signal(number)
        # Standard input stays open.
        assert process.stderr is not None
        assert process.stderr.read() == b"No diagnosis was handed in.\n"
        assert process.stdout.read() == b""
    assert process.returncode == 0


def started(suite: Path, *more: str) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    """The command with http, and the configuration that it prints."""
    words = [*COMMAND, "mcp", "1", "--suite", str(suite), "--transport", "http", *more]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stderr is not None
    lines = list(_until_closed(process.stderr))
    (entry,) = json.loads("".join(lines[1:]))["mcpServers"].values()
    return process, entry


def _until_closed(stream: IO[bytes]) -> list[str]:
    lines = []
    while not lines or lines[-1] != "}\n":
        line = stream.readline().decode()
        assert line, lines
        lines.append(line)
    return lines


def test_a_scenario_is_tried_over_http_and_ends_with_the_diagnosis(suite: Path) -> None:
    process, entry = started(suite)

    async def work() -> str:
        async with httpx2.AsyncClient(headers=entry["headers"], timeout=PATIENCE_S) as http:
            return await diagnosed(Client(streamable_http_client(entry["url"], http_client=http)))

    with process:
        assert "OOMKilled" in asyncio.run(work())
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, json.loads(out), err) == (0, ANSWER, b"")


@pytest.mark.parametrize(("more", "ends"), [([], signal.SIGINT), (["--time-limit", "2"], None)])
def test_the_server_ends_with_ctrl_c_or_the_time_limit(
    suite: Path, more: list[str], ends: int | None
) -> None:
    process, _ = started(suite, *more)
    with process:
        if ends is not None:
            process.send_signal(ends)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (0, b"", b"No diagnosis was handed in.\n")


def test_a_wrong_call_is_one_message(suite: Path, tmp_path: Path) -> None:
    assert "there is no folder" in call("mcp", "1", "--out", tmp_path / "no" / "file").refused()
    assert "--port 70000" in call("mcp", "1", "--port", "70000").refused()
    assert "--max-turns 0" in call("mcp", "1", "--max-turns", "0").refused()
    assert "no-such" in call("mcp", "no-such", "--suite", suite).refused()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        words = ["mcp", "1", "--suite", suite, "--transport", "http", "--port", str(port)]
        assert "Address already in use. Give another port" in call(*words).refused()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name a SCENARIO of the suite, or inside of a trial give --trial"),
        (["--trial"], "DIAGNOSE_BENCH_MCP_STDIO is not set, so no trial started this program"),
        (["1", "--trial"], "a trial has one scenario. Leave 1 out"),
    ],
)
def test_which_server_is_meant_must_be_said_in_one_way(words: list[str], said: str) -> None:
    done = call("mcp", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
