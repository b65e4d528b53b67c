"""Claims about ``run --agent http://…``: the example on the bundled suite, one message before any trial."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_helpers import call, call_process, small_suite, tree
from fake_service import Asked, service
from live_trial import ANSWER

from diagnose_bench.layout import package_folder

pytestmark = pytest.mark.sandbox
EXAMPLE = package_folder().parent / "examples" / "http_agent.py"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return small_suite(tmp_path)


@pytest.fixture
def example() -> Iterator[str]:
    """The address of the example, which is running."""
    with subprocess.Popen(
        [sys.executable, "-u", EXAMPLE, "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().decode().strip()
        process.kill()


def test_the_example_diagnoses_the_bundled_suite(example: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["run", "--agent", example, "--scenario", "1", "--scenario", "2", "--repeats", "1"]
    done = call(*words, "--no-baselines", "--out", out)
    assert done.code == 0, done.err
    assert "Outcomes: diagnosed 2" in done.out
    assert "agent process hosted" in done.out
    assert call("score", out).code == 0
    manifest = json.loads((out / "run.json").read_text())
    assert manifest["agent"]["name"] == example
    assert manifest["sandbox"]["agent_process"] == "hosted"


def test_an_agent_that_cannot_be_reached_is_refused_before_the_first_trial(
    suite: Path, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    out = tmp_path / "run"
    words = ["run", "--suite", suite, "--out", out]
    message = call(*words, "--agent", f"http://127.0.0.1:{port}/x").refused()
    assert (
        f"--agent: http://127.0.0.1:{port}/x cannot be reached: Connection refused. Is it started" in message
    )
    assert "cannot be reached" in call(*words, "--agent", f"http://127.0.0.1:{port}/x", "--dry-run").refused()
    assert (
        "cannot be reached"
        in call(
            *words, "--agent", "http://no-such-host.invalid/", "--public-url", "http://127.0.0.1:1"
        ).refused()
    )
    assert not out.exists()


def test_a_listening_port_in_use_is_refused_before_the_first_trial(suite: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with socket.create_server(("127.0.0.1", 0)) as other:
        place = f"127.0.0.1:{other.getsockname()[1]}"
        words = ["run", "--suite", suite, "--out", out, "--agent", "http://127.0.0.1:1/", "--listen", place]
        assert f"--listen {place}: Address already in use. Give another address" in call(*words).refused()
    assert not out.exists()


def test_every_option_reaches_the_agent_and_no_key_reaches_the_disk(suite: Path, tmp_path: Path) -> None:
    words = tmp_path / "words"
    words.write_text("Kubernetes\n")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

    def behave(asked: Asked) -> None:
        asked.answer(200, ANSWER)

    out = tmp_path / "run"
    with service(behave) as running:
        done = call_process(
            *["run", "--agent", f"{running.url}?key=query-secret", "--suite", suite, "--repeats", "1"],
            *["--no-baselines", "--header", "X-Key: ${AGENT_KEY}", "--redact", words, "--out", out],
            *["--listen", f"127.0.0.1:{port}", "--public-url", f"http://localhost:{port}/"],
            env={**os.environ, "AGENT_KEY": "s3cret-key", "PYTHONPATH": str(package_folder().parent)},
        )
    assert done.code == 0, done.err
    for asked in running.asked:
        assert asked.headers["X-Key"] == "s3cret-key"
        assert asked.task["base_url"].startswith(f"http://localhost:{port}/trials/")
        assert "[redacted]" in asked.task["task"]
        assert "Kubernetes" not in asked.task["task"]
    assert len(running.asked) == 2
    for name, data in tree(out).items():
        assert b"s3cret-key" not in data, name
        assert b"query-secret" not in data, name
    assert b"s3cret-key" not in (done.out + done.err).encode()


def test_an_agent_that_is_gone_half_way_ends_as_its_error_and_the_run_goes_on(
    suite: Path, tmp_path: Path
) -> None:
    def behave(asked: Asked) -> None:
        if "10:00:00" in asked.task["task"] and len(running.asked) == 1:
            asked.answer(200, ANSWER)
        else:
            asked.handler.connection.close()

    with service(behave) as running:
        words = ["run", "--agent", running.url, "--suite", suite, "--repeats", "1", "--no-baselines"]
        done = call(*words, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert "Outcomes: agent_error 1, diagnosed 1" in done.out
