"""Options of the container backends, read by the engine's own parser where one is installed."""

import shutil
import subprocess
from pathlib import Path

import pytest

from diagnose_bench.errors import SandboxUnavailableError
from diagnose_bench.sandbox import Limits, open_sandbox
from diagnose_bench.sandbox.container import ENGINES, container_arguments, engine_problem, find_engine
from diagnose_bench.sandbox.self_check import self_check

MISSING = "localhost/no-such-image-of-diagnose-bench:none"


def options(engine, folder, **changes):
    paths = {"snapshot": folder / "snapshot", "scratch": folder / "scratch", "id_file": folder / "id"}
    for path in (paths["snapshot"], paths["scratch"]):
        path.mkdir(exist_ok=True)
    return container_arguments(
        engine,
        MISSING,
        name="diagnose-bench-test",
        user=(61000, 61000),
        limits=Limits(),
        command_s=30,
        **paths,
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_container_has_no_network_no_capability_and_nothing_to_write(engine, tmp_path):
    found = options(engine, tmp_path)
    assert {"--network=none", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges"} <= set(
        found
    )
    # Process 1 is ours; memory is 2048 for processes, 64 for /tmp and 32 for /dev/shm.
    assert {"--pull=never", "--rm", "--user=61000:61000", "--pids-limit=129", "--memory=2144m"} <= set(found)
    assert {"--memory-swap=2144m", "--shm-size=32m", "--log-driver=none"} <= set(found)
    assert f"--volume={tmp_path}/snapshot:/snapshot:ro" in found
    assert f"--volume={tmp_path}/scratch:/scratch:rw" in found
    assert sum(option.startswith(("--volume", "--mount", "--device")) for option in found) == 2
    assert {"--ulimit=core=1:1", "--ulimit=cpu=60:61", "--ulimit=nofile=256:256"} <= set(found)
    assert found[-2:] == ["--entrypoint=python3", MISSING]
    assert not any("privileged" in option and "no-new" not in option for option in found)


@pytest.mark.parametrize("engine", ENGINES)
def test_engine_reads_every_option(engine, tmp_path):
    program = shutil.which(engine)
    if program is None:
        with pytest.raises(SandboxUnavailableError, match=f"{engine} is not installed"):
            find_engine(engine)
        assert "not installed" in engine_problem(engine)
        return

    def said(arguments):
        done = subprocess.run(
            [program, *arguments, "-c", "true"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 125
        return done.stderr

    # It gets as far as asking for its service or its image; with a wrong option it does not.
    found = options(engine, tmp_path)
    for complaint in ("unknown flag", "invalid argument", "Usage:"):
        assert complaint not in said(found)
    assert "unknown flag" in said(["run", "--no-such-option", *found[1:]])


def test_engine_that_cannot_run_anything_is_refused_with_what_it_said(tmp_path, monkeypatch):
    (tmp_path / "snapshot").mkdir()
    with pytest.raises(SandboxUnavailableError, match="docker"):
        self_check(f"docker:{MISSING}")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailableError, match="apt-get install podman"):
        open_sandbox("podman:debian", Path(tmp_path / "snapshot"))
