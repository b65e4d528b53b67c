"""The cover around an agent's process holds against other runs, services of its user, and what it leaves."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from small_suite import write_small_suite

from diagnose_bench.agents.factory import make_agent
from diagnose_bench.run import RunOptions, run_suite
from diagnose_bench.sandbox import agent_process, doors
from diagnose_bench.sandbox.agent_process import confine, stop_confined
from diagnose_bench.sandbox.leftovers import AGENT_PREFIX, STORE_PREFIX

pytestmark = pytest.mark.sandbox

SECRET = "canary-of-the-truth-4410"


def bubblewrap_hidden(tmp_path):
    """A PATH as on a machine that lacks it."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in os.listdir("/usr/bin"):
        if name != "bwrap":
            (folder / name).symlink_to(f"/usr/bin/{name}")
    return str(folder)


@pytest.fixture(params=["confined", "landlock"])
def layer(request, tmp_path, monkeypatch):
    if request.param == "landlock":
        monkeypatch.setenv("PATH", bubblewrap_hidden(tmp_path))
    return request.param


def said_by_agent(tmp_path, command, layer):
    """What a program wrote to standard error in a whole run."""
    suite = write_small_suite(tmp_path / "data")
    program = tmp_path / "agent.sh"
    program.write_text(f"#!/bin/bash\n{command}\n")
    program.chmod(0o755)
    options = RunOptions(repeats=1, baselines=False, scenarios=("scenario-001",))
    summary = run_suite(suite, make_agent(str(program)), options, tmp_path / "run")
    assert summary.manifest.sandbox.agent_process == layer
    return "".join(log.read_text() for log in (tmp_path / "run").rglob("agent_stderr.log"))


def test_folders_of_other_runs_are_out_of_reach(tmp_path, layer):
    others = [
        Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        for prefix in (AGENT_PREFIX, STORE_PREFIX)
        for place in ("/tmp", "/var/tmp")
    ]
    try:
        for other in others:
            (other / "token").write_text(SECRET)
        files = " ".join(f"{other}/token" for other in others)
        said = said_by_agent(tmp_path, f"cat {files} >&2; echo searched >&2", layer)
    finally:
        for other in others:
            shutil.rmtree(other)
    assert SECRET not in said
    assert "searched\n" in said


def test_whoever_knows_the_paths_of_a_trial_is_not_taken_for_its_agent(tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    go = tmp_path / "go"
    waits = f"while [ ! -e {go} ]; do sleep 0.05; done"
    run = threading.Thread(target=said_by_agent, args=(tmp_path, waits, "confined"))
    run.start()
    try:
        deadline = time.monotonic() + 120
        while not (found := list((tmp_path / "tmp").glob(f"{AGENT_PREFIX}*/*/tools/socket"))):
            assert time.monotonic() < deadline
            assert run.is_alive()
            time.sleep(0.05)
        trial = found[0].parent.parent
        forged = subprocess.run(
            [trial / "tools" / "submit"],
            input=b'{"root_causes": []}',
            env={"DIAGNOSE_BENCH_TASK": str(trial / "task.md")},
            capture_output=True,
            check=False,
        )
    finally:
        go.touch()
        run.join()
    assert forged.returncode == 125


def listening(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()
    return server


CONNECT = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print(sys.argv[1])"


def test_a_terminal_server_of_the_user_is_not_found_by_the_agent(tmp_path, monkeypatch):
    short = Path(tempfile.mkdtemp(dir="/tmp"))
    server = listening(short / "tmux-7" / "default")
    command = f"python3 -c '{CONNECT}' {short}/tmux-7/default 2>&1 | tail -n 1 >&2; echo ${{TMUX-unset}} >&2"
    try:
        monkeypatch.setenv("TMUX", f"{short}/tmux-7/default,1,0")
        said = said_by_agent(tmp_path, command, "confined")
    finally:
        server.close()
        shutil.rmtree(short)
    assert said == "FileNotFoundError: [Errno 2] No such file or directory\nunset\n"


def test_sockets_are_covered_but_for_the_keys_of_the_user(tmp_path, monkeypatch):
    short = Path(tempfile.mkdtemp(dir="/tmp"))
    names = ("mixed/one", "alone/two", "keys/agent", "keys/other")
    (short / "mixed").mkdir()
    (short / "mixed" / "file").write_text("kept\n")
    servers = [listening(short / name) for name in names]
    monkeypatch.setenv("SSH_AUTH_SOCK", str(short / "keys" / "agent"))
    calls = "; ".join(f"python3 -c '{CONNECT}' {short / name} 2> /dev/null" for name in names)
    try:
        confined = confine(["bash", "-c", f"{calls}; ls {short}/alone; cat {short}/mixed/file"], hidden=[])
        done = subprocess.run(confined.argv, capture_output=True, text=True, check=False)
        found = set(doors.listening_doors())
    finally:
        for server in servers:
            server.close()
        shutil.rmtree(short)
    assert done.stdout == f"{short}/keys/agent\nkept\n"
    assert {short / "mixed/one", short / "alone", short / "keys/other"} <= found


@pytest.mark.parametrize("name", ["tmux-7/default", "screen/S-me/7.tty", "emacs7/server", "dbus-aBc"])
def test_landlock_does_not_pretend_to_close_a_service_that_runs_programs(tmp_path, monkeypatch, name):
    monkeypatch.setenv("PATH", bubblewrap_hidden(tmp_path))
    short = Path(tempfile.mkdtemp(dir="/tmp"))
    server = listening(short / name)
    try:
        assert confine(["true"], hidden=[]) is None
        assert str(short / name) in agent_process.why_not()
    finally:
        server.close()
        shutil.rmtree(short)


def test_run_that_begins_later_and_results_beside_it_are_hidden(tmp_path, monkeypatch, layer):
    suite = write_small_suite(tmp_path / "data")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    program = tmp_path / "agent.sh"
    out = tmp_path / "runs" / "one"
    program.write_text(
        f"#!/bin/bash\ntouch {tmp_path}/elsewhere/begun\n"
        f"while [ ! -e {tmp_path}/elsewhere/more ]; do sleep 0.05; done\n"
        f"cat {tmp_path}/runs/two/run.json {tmp_path}/runs/report.html >&2; echo searched >&2\n"
    )
    program.chmod(0o755)
    options = RunOptions(repeats=1, baselines=False, scenarios=("scenario-001",))
    run = threading.Thread(target=run_suite, args=(suite, make_agent(str(program)), options, out))
    run.start()
    try:
        deadline = time.monotonic() + 120
        while not (tmp_path / "elsewhere" / "begun").exists():
            assert time.monotonic() < deadline
            assert run.is_alive()
            time.sleep(0.05)
        (tmp_path / "runs" / "two").mkdir()
        (tmp_path / "runs" / "two" / "run.json").write_text(SECRET)
        (tmp_path / "runs" / "report.html").write_text(SECRET)
    finally:
        (tmp_path / "elsewhere" / "more").touch()
        run.join()
    said = "".join(log.read_text() for log in out.rglob("agent_stderr.log"))
    assert "searched\n" in said
    assert SECRET not in said


DAEMON = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", sys.argv[1]], {})
    os._exit(0)
os.wait()
"""


def sleepers(seconds):
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == b"sleep\0" + seconds.encode() + b"\0":
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def test_daemon_without_parents_and_environment_does_not_outlive_its_trial(tmp_path, layer):
    seconds = f"86397.{os.getpid()}"
    (tmp_path / "daemon.py").write_text(DAEMON)
    said = said_by_agent(tmp_path, f"python3 {tmp_path}/daemon.py {seconds}; echo started >&2", layer)
    assert said.endswith("started\n")
    assert sleepers(seconds) == []


def test_stopped_agent_under_landlock_takes_its_daemons_along(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", bubblewrap_hidden(tmp_path))
    seconds = f"86396.{os.getpid()}"
    command = f"trap '' TERM; python3 -c '{DAEMON}' {seconds}; echo started; exec sleep {seconds}"
    confined = confine(["bash", "-c", command], hidden=[])
    with subprocess.Popen(confined.argv, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout.readline() == b"started\n"
        os.killpg(process.pid, signal.SIGTERM)
        stop_confined(process)
    assert process.returncode == -signal.SIGKILL
    assert sleepers(seconds) == []


@pytest.mark.parametrize(("end", "code"), [("exit 7", 7), ("kill -ABRT $$", -6), ("kill -KILL $$", -9)])
def test_end_of_an_agent_under_landlock_is_its_own(tmp_path, monkeypatch, end, code):
    monkeypatch.setenv("PATH", bubblewrap_hidden(tmp_path))
    confined = confine(["bash", "-c", f"cat; {end}"], hidden=[])
    done = subprocess.run(confined.argv, input=b"one", capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (code, b"one")


def test_agent_under_landlock_ends_with_a_killed_harness(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", bubblewrap_hidden(tmp_path))
    seconds = f"86395.{os.getpid()}"
    confined = confine(["bash", "-c", f"sleep {seconds} & echo started; wait"], hidden=[])
    start = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    with subprocess.Popen([sys.executable, "-c", start, *confined.argv], stdout=subprocess.PIPE) as harness:
        assert harness.stdout.readline() == b"started\n"
        harness.kill()
        # Its end is that of the last one that holds the pipe.
        assert harness.stdout.read() == b""
    assert sleepers(seconds) == []
