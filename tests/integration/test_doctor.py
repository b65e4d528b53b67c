"""doctor says of each backend whether it works here, why not and what to type; open doors are named."""

import json

import pytest
from typer.testing import CliRunner

from diagnose_bench.cli import app
from diagnose_bench.sandbox import doctor, landlock_kernel
from diagnose_bench.sandbox.attacks import ATTACKS, AttackResult
from diagnose_bench.sandbox.container import engine_problem
from diagnose_bench.sandbox.doctor import BackendReport, Examination, examine

pytestmark = pytest.mark.sandbox

NAMES = ["bwrap", "landlock", "docker", "podman", "agent process", "cgroup v2", "none"]


def test_every_backend_is_examined():
    found = examine()
    assert [backend.name for backend in found.backends] == NAMES
    assert found.works
    works = {backend.name: backend for backend in found.backends if backend.works}
    assert "9 checks passed" in works["bwrap"].detail
    assert "10 checks passed" in works["landlock"].detail
    assert "covered by bubblewrap" in works["agent process"].detail
    assert "bash" in found.text()


def test_machine_without_any_sandbox_is_told_what_to_type(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(landlock_kernel, "abi_version", lambda: 0)
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 2
    assert "sudo apt-get install bubblewrap" in result.output
    assert "no Landlock" in result.output
    assert "sudo apt-get install podman" in result.output
    assert "unconfined" in result.output


def test_engine_that_does_not_answer_says_what_to_type(monkeypatch, tmp_path):
    for engine in ("docker", "podman"):
        (tmp_path / engine).write_text("#!/bin/sh\necho no service here >&2\nexit 1\n")
        (tmp_path / engine).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "sudo systemctl start docker" in (engine_problem("docker") or "")
    assert "uidmap" in (engine_problem("podman") or "")
    assert "no service here" in (engine_problem("podman") or "")


def test_landlock_alone_is_enough(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    result = CliRunner().invoke(app, ["doctor", "--format", "json"])
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["works"] is True
    assert [backend["works"] for backend in document["backends"]][:2] == [False, True]


def test_open_door_is_named_and_exits_with_1(monkeypatch):
    def opened(backend):
        return [AttackResult(ATTACKS[0], backend == "landlock", "OPEN canary")]

    monkeypatch.setattr(doctor, "try_doors", opened)
    result = CliRunner().invoke(app, ["doctor", "--deep"])
    assert result.exit_code == 1
    assert "bwrap: 1 of 1 doors held" in result.output
    assert "landlock: 0 of 1 doors held" in result.output
    assert f"OPEN landlock: {ATTACKS[0].door}: {ATTACKS[0].name}" in result.output


def test_nothing_works_without_tools():
    backends = (BackendReport("bwrap", True, ""), BackendReport("landlock", False, ""))
    assert not Examination(backends, None, "python3 is missing").works
