"""The backend without isolation: asked for by name, loud, and bounded all the same."""

import os

import pytest

from diagnose_bench.errors import SandboxError
from diagnose_bench.sandbox import Limits, open_sandbox

pytestmark = pytest.mark.sandbox


@pytest.fixture
def shell(tmp_path, capfd):
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "a.txt").write_text("evidence\n")
    with open_sandbox("none", tmp_path / "snapshot", limits=Limits(output_kill=1 << 20, file_mb=1)) as shell:
        assert "no pass from it is safe" in capfd.readouterr().err
        yield shell
    assert not shell.scratch.exists()


def test_paths_come_by_variables(shell):
    assert shell.backend == "none"
    assert shell.run("cat $SNAPSHOT/a.txt; pwd").text == f"evidence\n{shell.scratch}\n"
    assert shell.run("echo x > note").exit_code == 0
    assert shell.run("cat $SCRATCH/note; exit 3").exit_code == 3


def test_environment_of_the_caller_stays_out(shell, monkeypatch):
    monkeypatch.setenv("LLM_API_KEY", "secret")
    assert "secret" not in shell.run("env").text


def test_limits_hold(shell):
    result = shell.run("sleep 60 & sleep 60", timeout_s=0.2)
    assert (result.exit_code, result.limit_hit) == (124, "wall")
    assert shell.run("yes").limit_hit == "output"
    assert shell.run("head -c 5000000 /dev/zero > big").exit_code != 0
    assert shell.run("kill -9 $$").exit_code == 137
    assert shell.run("a\0b").exit_code == 126


def test_silent_child_does_not_hold_up_the_command(shell):
    result = shell.run("sleep 60 & echo done", timeout_s=30)
    assert (result.exit_code, result.shown) == (0, b"done\n")
    assert result.seconds < 20


def test_closed_shell_runs_nothing(shell, tmp_path):
    with open_sandbox("none", tmp_path / "snapshot") as other:
        pass
    with pytest.raises(SandboxError, match="closed"):
        other.run("true")
    assert os.path.isdir(tmp_path / "snapshot")
