"""The agent's own process keeps network, home and PATH, and does not find truths and runs."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from sandbox_helpers import as_ordinary_user

from diagnose_bench import layout
from diagnose_bench.sandbox import agent_process
from diagnose_bench.sandbox.agent_process import agent_hidden_paths, code_folders, confine, stop_confined

pytestmark = pytest.mark.sandbox

SECRET = "canary-of-the-truth-5177"


class World:
    """A checkout's truths, a copy of the package with its data, and a run with two trials."""

    def __init__(self, top):
        self.top = top
        self.truths = self.write("data/ground_truth/suite/scenario-001.yaml").parent.parent
        self.installed = self.write("venv/site-packages/diagnose_bench/_data/ground_truth/s/1.yaml").parents[
            2
        ]
        self.run = self.write("runs/one/run.json").parent
        self.other = self.write("runs/one/trials/scenario-001/2/diagnosis.json")
        self.single = self.write("answers.json")
        self.work = top / "runs/one/trials/scenario-001/1/work"
        self.work.mkdir(parents=True)
        (self.work / "task.md").write_text("the task\n")
        (top / "shortcut").symlink_to(self.truths)

    def write(self, name):
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SECRET)
        return path

    def hidden(self):
        return [
            self.top / "shortcut",
            self.installed,
            self.run,
            self.single,
            self.top / "missing",
            self.other,
        ]

    def ask(self, command, **options):
        confined = confine(
            ["bash", "-c", command], hidden=self.hidden(), visible=[self.work], cwd=self.work, **options
        )
        assert confined is not None
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.run(confined.argv, check=False, **streams).stdout.decode()


def everywhere(function):
    """The answer of `function(world)` for the caller and for an ordinary user."""

    def run(home):
        (home / "world").mkdir()
        return function(World(home / "world"))

    def as_caller():

        home = Path(tempfile.mkdtemp(dir="/var/tmp"))
        try:
            return run(home)
        finally:
            shutil.rmtree(home)

    return [as_caller(), as_ordinary_user(run)]


SEARCH = (
    "grep -rs {secret} {top} /proc/{harness}/root{top} /proc/self/root{top} /proc/1/root{top}; echo searched"
)


def test_truths_and_other_trials_are_not_found():
    def search(world):
        command = SEARCH.format(secret=SECRET, top=world.top, harness=os.getpid())
        outside = subprocess.run(["bash", "-c", command], capture_output=True, cwd=world.work, check=False)
        return outside.stdout.decode(), world.ask(command)

    for outside, inside in everywhere(search):
        assert outside.count(SECRET) > 5
        assert inside.endswith("searched\n")
        assert SECRET not in inside


def test_what_is_covered_is_empty_and_closed():
    def look(world):
        return world.ask(
            f"ls -A {world.truths} {world.installed}; ls -A {world.run} {world.run}/trials/scenario-001;"
            f"touch {world.truths}/x; echo x > {world.single}; cat {world.single} | wc -c"
        ).replace(str(world.top), "")

    for shown in everywhere(look):
        assert "/data/ground_truth:\n\n" in shown
        assert "/runs/one:\ntrials\n" in shown
        assert "/runs/one/trials/scenario-001:\n1\n" in shown
        assert "Read-only file system" in shown
        assert shown.splitlines()[-1] != str(len(SECRET))


def test_working_folder_inside_a_covered_run_stays_writable():
    def work(world):
        shown = world.ask("pwd; cat task.md; echo done > out; cat out").replace(str(world.top), "")
        return shown, (world.work / "out").read_text()

    for shown, left in everywhere(work):
        assert shown == "/runs/one/trials/scenario-001/1/work\nthe task\ndone\n"
        assert left == "done\n"


def test_cover_cannot_be_taken_away():
    def attack(world):
        truths = world.truths
        return world.ask(
            f"umount {truths}; umount -l {truths};"
            f"unshare -Urm umount {truths}; unshare -Urm umount -l {truths};"
            f"unshare -m umount {truths};"
            f"mkdir seen; search='grep -rs {SECRET}';"
            f'unshare -Urm bash -c "mount --bind / seen; $search seen{world.top}";'
            f'unshare -Urm bash -c "mount --rbind / seen; umount -R seen{truths}; $search seen{world.top}";'
            f"chroot /proc/1/root $search {world.top}; nsenter -t 1 -m $search {world.top};"
            f"$search {world.top}; echo tried"
        )

    for shown in everywhere(attack):
        assert shown.endswith("tried\n")
        assert SECRET not in shown


def test_harness_process_is_out_of_reach(monkeypatch):
    monkeypatch.setenv("KEPT_VARIABLE", "needed-by-the-agent")

    def look(world):
        marker = f"{os.getpid()}"
        return world.ask(
            f"ls -d /proc/[0-9]* | wc -l; readlink /proc/{marker}/exe | grep -c python;"
            f"kill -0 {marker} && echo alive;"
            "echo $KEPT_VARIABLE; ls /dev | grep -c -E '^(vd|sd|nvme|mem)'"
        ).splitlines()

    for lines in everywhere(look):
        assert int(lines[0]) < 6
        assert lines[1] == "0"
        assert "alive" not in lines
        assert lines[-2:] == ["needed-by-the-agent", "0"]


def test_home_path_and_network_stay(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setenv("HOME", os.environ.get("HOME", "/tmp"))

        def use(world):
            return world.ask(
                f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected; echo $PATH;"
                "cd ~ && touch .probe && rm .probe && echo home"
            )

        for shown in everywhere(use):
            assert shown == f"connected\n{os.environ['PATH']}\nhome\n"


def test_code_can_be_run_and_not_changed():
    def use(world):
        package = world.write("venv/site-packages/diagnose_bench/grading.py").parent
        return world.ask(
            f"wc -c < {package}/grading.py; echo x >> {package}/grading.py; ls -A {package}/_data",
            read_only=[package],
        )

    for shown in everywhere(use):
        assert shown.splitlines()[0] == str(len(SECRET))
        assert "Read-only file system" in shown
        assert "ground_truth" not in shown


def test_everything_that_the_agent_started_ends_with_it():
    confined = confine(["bash", "-c", "setsid sleep 86398.5 & trap '' TERM; sleep 86398.5"], hidden=[])
    process = subprocess.Popen(confined.argv)
    deadline = time.monotonic() + 10
    while len(sleeping()) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(sleeping()) == 2
    stop_confined(process)
    while sleeping() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sleeping() == []
    assert process.returncode is not None
    stop_confined(process)  # a second call is harmless


def sleeping():
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", b"86398.5"]:
            found.append(pid)
    return found


def test_exit_code_and_output_are_the_agents():
    confined = confine(["bash", "-c", "cat; echo two >&2; exit 7"], hidden=[])
    done = subprocess.run(confined.argv, input=b"one", capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (7, b"one", b"two\n")


def test_machine_that_cannot_confine_says_why(monkeypatch, tmp_path):
    assert agent_process.why_not() is None
    monkeypatch.setenv("PATH", str(tmp_path))
    # Without bubblewrap Landlock covers, without both nothing does.
    assert confine(["/bin/true"], hidden=[]).layer == "landlock"
    monkeypatch.setattr("diagnose_bench.sandbox.landlock_kernel.abi_version", lambda: 0)
    assert confine(["/bin/true"], hidden=[]) is None
    assert "not installed" in agent_process.why_not()
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: Creating new namespace failed' >&2; exit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    assert confine(["true"], hidden=[]) is None
    assert "user namespaces" in agent_process.why_not()


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    folders = ("diagnose_bench/_data", "scoring", "examples", "docs", ".git", "tests", "dist")
    for name in (*folders, "snapshots/own", "ground_truth/own", "my_agent", "runs/old", ".venv"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", ".venv/pyvenv.cfg", "runs/old/run.json", "my_agent/main.py"):
        (tmp_path / name).touch()
    monkeypatch.setattr(layout, "_PACKAGE", tmp_path / "diagnose_bench")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_checkout_is_hidden_but_for_what_an_agent_needs(checkout):
    hidden = agent_hidden_paths(None, [], None, ["python", "my_agent/main.py", "--config=README.md"])
    names = {path.relative_to(checkout).as_posix() for path in hidden if path.is_relative_to(checkout)}
    assert names == {
        *(".git", "tests", "dist", "docs", "runs", "pyproject.toml", "snapshots", "ground_truth"),
        "diagnose_bench/_data",
    }


def test_naming_the_truths_does_not_uncover_them(checkout):
    argv = ["cat", "ground_truth/own", str(checkout), "tests/x", "--root=snapshots"]
    hidden = agent_hidden_paths(None, [], None, argv)
    assert {checkout / "ground_truth", checkout / "tests", checkout / "snapshots"} <= set(hidden)


def test_suites_truths_and_runs_elsewhere_are_hidden(tmp_path, monkeypatch):
    elsewhere = tmp_path / "mine"
    for name in ("snapshots/suite", "ground_truth/suite", "extra", "runs/now", "runs/before", "runs/notes"):
        (elsewhere / name).mkdir(parents=True)
    (elsewhere / "runs/before/run.json").touch()
    copy = tmp_path / "site" / "diagnose_bench" / "_data"
    copy.mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "site")])
    hidden = agent_hidden_paths(
        elsewhere / "snapshots/suite", [elsewhere / "extra"], elsewhere / "runs/now", ["agent"]
    )
    named = {elsewhere / name for name in ("snapshots", "ground_truth", "extra", "runs/now", "runs/before")}
    assert named <= set(hidden)
    assert copy in hidden
    # All of a folder for runs, as others may begin.
    assert elsewhere / "runs" in hidden


def test_code_folders_hold_the_package():
    assert layout.package_folder() in code_folders()
