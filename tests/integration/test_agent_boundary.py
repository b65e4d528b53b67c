"""An agent's process without bubblewrap, who may use SHELL and SUBMIT, and a snapshot that is changed."""

import json
import os
import resource
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from sandbox_helpers import as_ordinary_user
from small_suite import write_small_suite

from diagnose_bench.agents.base import AgentResult, SubmitReply
from diagnose_bench.agents.command import _private_folder
from diagnose_bench.agents.factory import make_agent
from diagnose_bench.agents.socket_server import TrialServer, descends_from
from diagnose_bench.errors import SandboxError
from diagnose_bench.outcome import Outcome
from diagnose_bench.records import AgentInfo
from diagnose_bench.run import RunOptions, run_suite
from diagnose_bench.sandbox import SnapshotStore, agent_process, doors
from diagnose_bench.sandbox.agent_process import code_folders, confine

pytestmark = pytest.mark.sandbox

SECRET = "canary-of-the-truth-9931"
ROOT = Path(__file__).resolve().parents[2]


def programs_without_bubblewrap(folder):
    """A PATH as on a machine that lacks it."""
    folder.mkdir()
    for name in os.listdir("/usr/bin"):
        if name != "bwrap":
            (folder / name).symlink_to(f"/usr/bin/{name}")
    return str(folder)


@pytest.fixture
def no_bubblewrap(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", programs_without_bubblewrap(tmp_path / "programs"))


def ask(home, command, **options):
    for name in ("truths/1.yaml", "runs/other/run.json"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(SECRET)
    (home / "work").mkdir(exist_ok=True)
    (home / "notes.txt").write_text("a file of the user\n")
    (home / "shortcut").symlink_to(home / "truths")
    confined = confine(
        ["bash", "-c", f"cd {home}; {command}"],
        hidden=[home / "shortcut", home / "runs", home / "missing"],
        visible=[home / "work"],
        read_only=code_folders(),
        cwd=home / "work",
        **options,
    )
    assert confined is not None
    assert confined.layer == "landlock"
    done = subprocess.run(confined.argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return (done.stdout + done.stderr).decode()


HELD = [
    "cat truths/1.yaml shortcut/1.yaml runs/other/run.json",
    "cp -r truths work/copy; cat work/copy/*",
    "ln truths/1.yaml work/hard; cat work/hard",
    "mv truths work/moved; cat work/moved/*",
    "cat /proc/self/root/$PWD/truths/1.yaml",
    "tr '\\0' '\\n' < /proc/HARNESS/environ",
    "cat /proc/HARNESS/cwd/truths/1.yaml; cat /proc/HARNESS/root/$PWD/truths/1.yaml",
    "unshare -Urm cat truths/1.yaml",
    "mount --bind truths work; cat work/*",
]


@pytest.mark.parametrize("command", HELD)
def test_content_of_truths_and_runs_cannot_be_read(no_bubblewrap, tmp_path, monkeypatch, command):
    monkeypatch.setenv("LLM_API_KEY_OF_THE_RUN", SECRET)
    home = tmp_path / "home"
    home.mkdir()
    command = command.replace("HARNESS", str(os.getpid()))
    assert SECRET not in ask(home, f"unset LLM_API_KEY_OF_THE_RUN; {command}")


def test_all_the_rest_works(no_bubblewrap, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    said = ask(
        home,
        "cat notes.txt; echo more >> notes.txt; echo made > work/new; cat work/new; cat <(echo piped); "
        "python3 -c 'import socket; socket.socket(); print(\"network\")'; echo x > /dev/null; "
        "env | grep -c ^PATH=",
    )
    assert said == "a file of the user\nmade\npiped\nnetwork\n1\n"


def test_what_is_refused_under_landlock(no_bubblewrap, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    said = ask(
        home,
        f"kill -0 {os.getpid()} && echo signalled; : > {code_folders()[0]}/probe && echo wrote; "
        "echo x > truths/new && echo wrote; rm truths/1.yaml && echo removed; "
        ": > /proc/sys/kernel/core_pattern && echo wrote; true",
    )
    assert not {"signalled", "wrote", "removed"} & set(said.split())


def test_names_can_be_seen_and_that_is_documented(no_bubblewrap, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    assert ask(home, "ls truths") == "1.yaml\n"
    assert "**names and sizes** of the same" in (ROOT / "docs" / "threat-model.md").read_text()


def test_cover_holds_for_an_ordinary_user():
    def look(home):
        os.environ["PATH"] = programs_without_bubblewrap(home / "programs")
        return ask(home, "cat truths/1.yaml; cat notes.txt; id -u")

    said = as_ordinary_user(look)
    assert SECRET not in said
    assert "a file of the user\n" in said


def test_open_door_of_a_container_engine_leaves_the_agent_unconfined(no_bubblewrap, tmp_path, monkeypatch):
    door = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(door))
        monkeypatch.setattr(doors, "known_doors", lambda: [door])
        assert confine(["true"], hidden=[]) is None
        assert str(door) in agent_process.why_not()


def test_run_with_an_agent_under_landlock_is_complete_and_on_record(no_bubblewrap, tmp_path):
    suite = write_small_suite(tmp_path / "data")
    program = tmp_path / "agent.sh"
    program.write_text(
        "#!/bin/bash\n"
        f"cat {tmp_path}/data/ground_truth/small/* >&2\n"
        'echo kept > "$TMPDIR/mine"\n'
        "line=$(\"$DIAGNOSE_BENCH_SHELL\" -c 'cat /snapshot/events.jsonl')\n"
        'name=$(sed "s/.*\\"name\\": \\"\\([a-z]*\\)\\".*/\\1/" <<< "$line")\n'
        'echo "[\\"shop/Deployment/$name\\"]" | "$DIAGNOSE_BENCH_SUBMIT"\n'
    )
    program.chmod(0o755)
    options = RunOptions(repeats=1, baselines=False)
    summary = run_suite(suite, make_agent(str(program)), options, tmp_path / "run")
    assert summary.outcomes == {"diagnosed": 2}
    assert summary.manifest.sandbox.agent_process == "landlock"
    assert summary.manifest.sandbox.backend == "landlock"
    for log in (tmp_path / "run").rglob("agent_stderr.log"):
        assert "TRUTH-OF" not in log.read_text()
        assert "Permission denied" in log.read_text()


class Answers:
    """A session that says that a call arrived."""

    def __init__(self):
        self.calls = []

    def run_command(self, command, timeout_s=None):
        self.calls.append(command)
        raise AssertionError

    def submit(self, data):
        self.calls.append(data)
        return SubmitReply(True, "accepted")

    def close(self): ...


def call(folder, token):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(folder / "socket"))
        header = {"kind": "submit", "token": token, "n_bytes": 2}
        try:
            # Whoever is no agent may be hung up on before anything was sent.
            connection.sendall(json.dumps(header).encode() + b"\n{}")
            return connection.recv(100)
        except OSError:
            return b""


def test_only_the_agent_is_answered_though_others_know_the_token(tmp_path):
    session = Answers()
    marker = f"DIAGNOSE_BENCH_TASK={tmp_path}/task.md"
    with TrialServer(tmp_path, session, marker=marker) as server:
        agent = subprocess.Popen(["sleep", "600"])
        try:
            server.expect(agent.pid)
            # This process is the agent's parent, and no descendant of it.
            assert call(tmp_path, (tmp_path / "token").read_text()) == b""
            assert session.calls == []
            server.expect(os.getpid())
            assert call(tmp_path, "wrong") == b""
            assert b"exit_code" in call(tmp_path, (tmp_path / "token").read_text())
        finally:
            agent.kill()
            agent.wait()
    assert session.calls == [b"{}"]


def test_a_token_that_is_no_ascii_is_a_wrong_one(tmp_path):
    session = Answers()
    with TrialServer(tmp_path, session, marker="DIAGNOSE_BENCH_TASK=/the/task.md") as server:
        server.expect(os.getpid())
        # What is raised in the server's thread is a warning here, and a warning is an error.
        assert call(tmp_path, "\u00e9" * 32) == b""
        assert call(tmp_path, "\ud800" * 32) == b""
        assert b"exit_code" in call(tmp_path, (tmp_path / "token").read_text())
    assert session.calls == [b"{}"]


def test_a_caller_for_whom_no_thread_is_left_holds_up_no_later_one(tmp_path):
    session = Answers()
    with TrialServer(tmp_path, session, marker="DIAGNOSE_BENCH_TASK=/the/task.md") as server:
        server.expect(os.getpid())
        token = (tmp_path / "token").read_text()
        # No stack of this size can be had: no thread can be started.
        usual = threading.stack_size(1 << 46)
        try:
            assert call(tmp_path, token) == b""
        finally:
            threading.stack_size(usual)
        assert b"exit_code" in call(tmp_path, token)
    assert session.calls == [b"{}"]


def test_orphan_of_the_agent_is_known_by_its_environment(tmp_path):
    session = Answers()
    marker = "DIAGNOSE_BENCH_TRIAL=a1b2"
    with TrialServer(tmp_path, session, marker=marker) as server:
        agent = subprocess.Popen(["sleep", "600"])
        try:
            server.expect(agent.pid)
            for value, code in (("c3d4", 125), ("a1b2", 0)):
                done = subprocess.run(
                    [server.submit],
                    input=b"{}",
                    env={"DIAGNOSE_BENCH_TRIAL": value},
                    capture_output=True,
                    check=False,
                )
                assert done.returncode == code
        finally:
            agent.kill()
            agent.wait()


def test_descent_is_followed_to_the_top():
    assert descends_from(os.getpid(), os.getppid())
    assert descends_from(os.getpid(), os.getpid())
    assert not descends_from(os.getppid(), os.getpid())
    assert not descends_from(2**22 + 1, os.getpid())


def stage(tmp_path):
    source = tmp_path / "source"
    (source / "logs").mkdir(parents=True)
    (source / "events.jsonl").write_text("one\n")
    (source / "logs" / "a.log").write_text("two\n")
    store = SnapshotStore()
    return store, store.stage(source)


def replaced(path, text):
    path.unlink()
    path.write_text(text)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda copy: replaced(copy / "events.jsonl", "eno\n"), "events.jsonl was changed"),
        (lambda copy: (copy / "new").write_text(""), "new was added"),
        (lambda copy: (copy / "logs" / "a.log").unlink(), "logs/a.log is gone"),
        (lambda copy: (copy / "logs" / "b").symlink_to("/etc"), "logs/b was added"),
        (
            lambda copy: ((copy / "events.jsonl").unlink(), (copy / "events.jsonl").symlink_to("logs/a.log")),
            "events.jsonl became something else",
        ),
    ],
)
def test_change_of_a_staged_snapshot_is_found(tmp_path, change, word):
    store, copy = stage(tmp_path)
    with store:
        store.check(copy)
        change(copy)
        with pytest.raises(SandboxError, match=word):
            store.check(copy)


def test_change_that_keeps_size_and_times_is_found(tmp_path):
    store, copy = stage(tmp_path)
    with store:
        path = copy / "events.jsonl"
        before = path.stat()
        path.chmod(0o644)
        path.write_text("eno\n")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        with pytest.raises(SandboxError, match="was changed"):
            store.check(copy)


def test_change_of_times_and_mode_alone_is_no_tampering(tmp_path):
    store, copy = stage(tmp_path)
    with store:
        os.utime(copy / "events.jsonl")
        (copy / "events.jsonl").chmod(stat.S_IRUSR)
        store.check(copy)
        store.check(copy)


class Tampers:
    """A builtin agent that changes the copy of the snapshot, as only a hole in the sandbox would let it."""

    kind = "builtin"
    info = AgentInfo(name="tampers")

    def diagnose(self, session):
        if session.scenario_id == "scenario-001":
            path = session._sandbox.snapshot / "events.jsonl"
            path.chmod(0o644)
            path.write_text("{}\n")
        session.submit(b'{"root_causes": []}')
        return AgentResult()


def test_trial_on_a_changed_snapshot_does_not_count(tmp_path):
    suite = write_small_suite(tmp_path)
    summary = run_suite(suite, Tampers(), RunOptions(repeats=1), tmp_path / "run")
    record = json.loads((tmp_path / "run" / "trials" / "scenario-001" / "1" / "trial.json").read_text())
    assert record["outcome"] == Outcome.HARNESS_ERROR
    assert "events.jsonl was changed" in record["reason"]
    assert summary.outcomes == {"harness_error": 1, "diagnosed": 1}


RUN = """
import sys
from pathlib import Path
from diagnose_bench.agents.factory import make_agent
from diagnose_bench.run import RunOptions, run_suite
from diagnose_bench.suite import load_suite
suite = load_suite(sys.argv[1])
run_suite(suite, make_agent("bash -c 'touch started; sleep 600'"), RunOptions(repeats=1), Path(sys.argv[2]))
"""


def test_terminated_harness_cleans_up(tmp_path):
    suite = write_small_suite(tmp_path)
    (tmp_path / "tmp").mkdir()
    tmp_path.chmod(0o755)
    with subprocess.Popen(
        [sys.executable, "-c", RUN, str(suite.path), str(tmp_path / "run")],
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
    ) as harness:
        deadline = time.monotonic() + 60
        while not list((tmp_path / "tmp").rglob("started")):
            assert time.monotonic() < deadline
            assert harness.poll() is None, harness.stderr.read().decode()
            time.sleep(0.05)
        harness.terminate()
        harness.stderr.read()
    assert os.listdir(tmp_path / "tmp") == []


def test_private_folders_of_other_trials_are_out_of_reach(tmp_path):
    with _private_folder() as one, _private_folder() as two:
        assert one.parent == two.parent
        (two / "token").write_text(SECRET)
        confined = confine(
            ["bash", "-c", f"cat {two}/token; ls {one.parent} | wc -l"], hidden=[one.parent], visible=[one]
        )
        done = subprocess.run(confined.argv, capture_output=True, text=True, check=False)
    assert SECRET not in done.stdout
    assert done.stdout == "1\n"
    assert not one.parent.exists()


EXHAUSTING = """#!/usr/bin/python3
import json, os, socket, sys, threading, time
threading.stack_size(65536)
try:
    while True:
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
except RuntimeError:
    pass
os.chdir(os.path.dirname(os.environ["DIAGNOSE_BENCH_SHELL"]))
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect("socket")
    header = {"kind": "shell", "token": open("token").read(), "n_bytes": 7}
    connection.sendall(json.dumps(header).encode() + b"\\necho hi")
    print(connection.makefile("rb").read(), file=sys.stderr, flush=True)
os._exit(0)
"""


def test_an_agent_that_starts_what_it_can_leaves_the_harness_enough_to_go_on():
    def run(home):
        suite = write_small_suite(home)
        program = home / "agent"
        program.write_text(EXHAUSTING)
        program.chmod(0o755)
        resource.setrlimit(resource.RLIMIT_NPROC, (400, 400))
        options = RunOptions(repeats=1, baselines=False, scenarios=("scenario-001",))
        summary = run_suite(suite, make_agent(str(program)), options, home / "run")
        return dict(summary.outcomes), [log.read_text() for log in (home / "run").rglob("agent_stderr.log")]

    outcomes, errors = as_ordinary_user(run)
    assert outcomes == {"no_diagnosis": 1}
    assert "hi" in errors[0]
