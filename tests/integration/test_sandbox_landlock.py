"""Landlock: the same work as in bubblewrap, nothing left whatever ends first, chosen only where needed."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from sandbox_helpers import as_ordinary_user, passable_folder, sandbox_over
from small_suite import write_small_suite

from diagnose_bench.agents.factory import make_agent
from diagnose_bench.detection.audit import AuditProbe
from diagnose_bench.errors import (
    SandboxEndedError,
    SandboxError,
    SandboxPolicyError,
    SandboxUnavailableError,
    UsageError,
)
from diagnose_bench.run import RunOptions, run_suite
from diagnose_bench.sandbox import Limits, SnapshotStore, landlock_kernel, open_sandbox
from diagnose_bench.sandbox.cgroup import delegated_folder
from diagnose_bench.sandbox.extras import Extras
from diagnose_bench.sandbox.landlock import outside_of
from diagnose_bench.sandbox.self_check import choose, self_check
from diagnose_bench.sandbox.user import dropped_id
from diagnose_bench.sandbox.watcher import process_tree
from diagnose_bench.signature import sandbox_label

pytestmark = pytest.mark.sandbox

FORMS = ["landlock", "landlock-bare"]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evidence")
    (folder / "events.jsonl").write_text('{"reason": "OOMKilled"}\n')
    return folder


@pytest.fixture(params=FORMS)
def sandbox(request, snapshot):
    with sandbox_over(snapshot, Limits(command_s=5), backend=request.param) as sandbox:
        yield sandbox


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ('cat "$S"/events.jsonl', '{"reason": "OOMKilled"}\n'),
        ('grep -c OOMKilled "$S"/*.jsonl', "1\n"),
        ("diff <(echo a) <(echo a) && echo same", "same\n"),
        ("cat <<< here", "here\n"),
        ("python3 -c 'import sqlite3, asyncio; print(asyncio.run(asyncio.sleep(0, 7)))'", "7\n"),
        ("echo kept > file; cat file", "kept\n"),
        ("sort --parallel=2 <(seq 3) | tail -1", "3\n"),
        ("echo x > ${TMPDIR}/t && cat ${TMPDIR}/t", "x\n"),
        ("awk 'BEGIN { print 1 + 1 }'", "2\n"),
        ("cd \"$S\" && find . -type f", "./events.jsonl\n"),
        ("yes | head -1", "y\n"),
        ("cat", ""),
        ("exit 3", ""),
    ],
)  # fmt: skip
def test_usual_commands_work(sandbox, command, shown):
    result = sandbox.run(f"S=${{SNAPSHOT:-/snapshot}}; {command}")
    assert result.text == shown
    assert (result.exit_code, result.limit_hit) == (3 if command == "exit 3" else 0, None)


def test_files_in_scratch_last_and_variables_do_not(sandbox):
    sandbox.run("echo first > kept; export LEFT=1; cd /")
    assert sandbox.run('cat kept; echo "[$LEFT]"').text == "first\n[]\n"
    assert (sandbox.scratch / "kept").read_text() == "first\n"


def test_paths_are_the_contracts_where_the_kernel_allows_it(snapshot):
    with sandbox_over(snapshot, backend="landlock") as sandbox:
        assert sandbox.backend == "landlock"
        assert (
            sandbox.run("pwd; ls /snapshot; id -un; uname -n").text
            == "/scratch\nevents.jsonl\nagent\nincident\n"
        )
        assert sandbox.capabilities.notice == ""
    with sandbox_over(snapshot, backend="landlock-bare") as sandbox:
        assert sandbox.backend == "landlock-bare"
        assert sandbox.run("test -e /snapshot").exit_code == 1
        assert sandbox.run("pwd").text == f"{sandbox.scratch}\n"
        assert "$SNAPSHOT" in sandbox.capabilities.notice


def test_memory_disks_are_small(snapshot):
    with sandbox_over(snapshot, Limits(tmp_mb=8, shm_mb=4), backend="landlock") as sandbox:
        for folder in ("/tmp", "/dev/shm"):
            assert sandbox.run(f"head -c 20000000 /dev/zero > {folder}/x").exit_code == 1


def test_commands_cannot_end_the_process_that_starts_them(sandbox):
    sandbox.run("kill -9 -1; kill -9 $PPID; kill -STOP $PPID; for i in $(seq 1 400); do kill -9 $i; done")
    assert sandbox.run("echo alive").text == "alive\n"


def test_no_descriptor_is_inherited(sandbox):
    code = (
        "import os\n"
        "for number in range(3, 1024):\n"
        "    try: os.fstat(number); print(number)\n"
        "    except OSError: pass"
    )
    assert sandbox.run(f"python3 -c '{code}'").text == ""


def test_fork_bomb_leaves_nothing(sandbox):
    result = sandbox.run("bomb() { bomb | bomb & }; bomb; sleep 30", timeout_s=1)
    assert result.limit_hit in ("wall", "processes")
    assert len(process_tree(sandbox.root_pid)) == 2
    assert sandbox.run("echo fine").text == "fine\n"


def test_stop_from_another_thread_ends_a_command(sandbox):
    timer = threading.Timer(0.2, sandbox.stop)
    timer.start()
    assert sandbox.run("sleep 30").limit_hit == "trial"
    timer.join()


def test_closed_sandbox_runs_nothing(sandbox):
    sandbox.close()
    sandbox.close()
    with pytest.raises(SandboxError, match="closed"):
        sandbox.run("true")


def test_too_little_memory_to_start_anything_is_told(snapshot):
    with (
        sandbox_over(snapshot, Limits(memory_mb=4), backend="landlock") as sandbox,
        pytest.raises(SandboxError, match="No sandbox"),
    ):
        sandbox.run("true")


def test_death_of_the_helper_ends_the_trial_and_leaves_nothing(sandbox):
    inner = [pid for pid in process_tree(sandbox.root_pid) if pid != sandbox.root_pid]
    timer = threading.Timer(0.3, os.kill, (inner[0], signal.SIGKILL))
    timer.start()
    with pytest.raises(SandboxEndedError, match="was killed"):
        sandbox.run("setsid sleep 86397.5 & sleep 86397.5")
    timer.join()
    sandbox.close()
    assert not alive("86397.5")


def alive(marker):
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if marker.encode() in words:
            found.append(int(name))
    return found


HARNESS = """
import sys
from pathlib import Path
from diagnose_bench.sandbox import SnapshotStore, open_sandbox
from diagnose_bench.sandbox.user import dropped_id
with SnapshotStore(uid=dropped_id()) as store:
    with open_sandbox(sys.argv[1], store.stage(Path(sys.argv[2]))) as sandbox:
        sandbox.run(f"touch started; setsid sleep {sys.argv[3]} & sleep {sys.argv[3]}", timeout_s=100)
"""


@pytest.mark.parametrize("backend", ["bwrap", *FORMS])
def test_harness_that_is_killed_leaves_no_process(snapshot, backend, monkeypatch):
    marker = f"86396.{FORMS.index(backend) + 1 if backend in FORMS else 0}"
    with passable_folder() as folder:
        harness = subprocess.Popen(
            [sys.executable, "-c", HARNESS, backend, str(snapshot), marker],
            env={**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(ROOT)},
        )
        wait_until(lambda: len(alive(marker)) >= 2)
        harness.kill()
        harness.wait()
        wait_until(lambda: not alive(marker))


NICE = """
import os, sys
from pathlib import Path
from diagnose_bench.sandbox import SnapshotStore, open_sandbox
from diagnose_bench.sandbox.user import dropped_id
os.nice(10)
with SnapshotStore(uid=dropped_id()) as store:
    with open_sandbox(sys.argv[1], store.stage(Path(sys.argv[2]))) as sandbox:
        result = sandbox.run("echo fine; nice")
        print(result.exit_code, *result.text.split())
"""


@pytest.mark.parametrize("backend", ["bwrap", *FORMS])
def test_commands_of_a_harness_with_a_low_priority_work_and_get_no_higher_one(snapshot, backend):
    with passable_folder() as folder:
        done = subprocess.run(
            [sys.executable, "-c", NICE, backend, str(snapshot)],
            env={**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
    nice = os.getpriority(os.PRIO_PROCESS, 0) + 10
    assert done.stdout.split() == ["0", "fine", str(min(nice, 19))], done.stderr


def wait_until(holds, at_most_s=30.0):
    deadline = time.monotonic() + at_most_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_self_check_passes_for_everybody():
    for backend in FORMS:
        assert all(check.passed for check in self_check(backend))
    counts = as_ordinary_user(lambda home: [len(self_check(backend)) for backend in FORMS])
    assert counts == [10, 10]


def test_self_check_names_what_leaks(snapshot, monkeypatch):
    # A sandbox that reads a forbidden folder, as after a mistake in the rules.
    with passable_folder() as folder:
        (folder / "truth.yaml").write_text("canary")
        monkeypatch.setattr("diagnose_bench.sandbox.landlock._READABLE_ETC", (str(folder),))
        with pytest.raises(SandboxUnavailableError, match="cannot be read"):
            self_check("landlock-bare", forbidden=[folder])


@pytest.fixture
def no_bubblewrap(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))


def test_auto_takes_bubblewrap_where_it_works():
    assert (choose().backend, choose().note) == ("bwrap", "")


def test_auto_takes_landlock_where_bubblewrap_is_missing_and_says_so(snapshot, no_bubblewrap, capsys):
    choice = choose()
    assert choice.backend == "landlock"
    assert "weaker" in choice.note
    assert "bubblewrap (bwrap) is not installed" in choice.note
    with SnapshotStore(uid=dropped_id()) as store, open_sandbox("auto", store.stage(snapshot)) as sandbox:
        assert sandbox.backend == "landlock"
    assert "weaker" in capsys.readouterr().err


def test_auto_refuses_where_neither_works(no_bubblewrap, monkeypatch):
    monkeypatch.setattr(landlock_kernel, "abi_version", lambda: 4)
    with pytest.raises(SandboxUnavailableError) as refused:
        choose()
    assert "apt-get install bubblewrap" in str(refused.value)
    assert "ABI 4, and 6 is needed" in str(refused.value)


def test_bubblewrap_that_was_asked_for_is_never_replaced(no_bubblewrap):
    with pytest.raises(SandboxUnavailableError, match="not installed"):
        choose("bwrap")


def test_backend_is_on_record(tmp_path, no_bubblewrap):
    suite = write_small_suite(tmp_path)
    options = RunOptions(repeats=1, sandbox="auto")
    notes = []

    class Told:
        begin = trial_started = trial_ended = lambda *_: None
        note = staticmethod(notes.append)

    summary = run_suite(suite, make_agent("baseline:loudest"), options, tmp_path / "run", Told())
    assert summary.is_complete
    assert summary.manifest.sandbox.backend == "landlock"
    assert summary.manifest.host["isolation"] == {
        "has_own_paths": True,
        "hides_names": True,
        "hides_processes": False,
        "shows_decoys": True,
        "limits_by_cgroup": delegated_folder() is not None,
    }
    assert sandbox_label(summary.manifest.sandbox) == "landlock"
    assert any("weaker" in note for note in notes)


def test_unknown_backend_is_refused_at_once(snapshot):
    for name in ("firejail", "docker:", "docker", "lxc:image", ""):
        with pytest.raises(UsageError, match="unknown"):
            RunOptions(sandbox=name)
        with pytest.raises(UsageError, match="unknown"):
            open_sandbox(name, snapshot)


def test_scratch_folder_that_must_not_be_one_is_refused(snapshot):
    with pytest.raises(SandboxPolicyError):
        open_sandbox("landlock", snapshot, scratch=snapshot)


def test_what_is_cut_out_of_a_folder_leaves_all_the_rest(tmp_path):
    for name in ("a/x", "a/y/deep", "b/z", "c"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a" / "file").write_text("")
    (tmp_path / "a" / "link").symlink_to("file")
    found = outside_of(str(tmp_path), [str(tmp_path / "a" / "y"), str(tmp_path / "c"), "/elsewhere"])
    assert found == [str(tmp_path / name) for name in ("a/file", "a/x", "b")]
    assert outside_of(str(tmp_path), []) == [str(tmp_path)]
    assert outside_of(str(tmp_path), [str(tmp_path)]) == []


@pytest.fixture
def passable():
    with passable_folder() as folder:
        yield folder


def test_decoys_lie_where_there_is_a_file_tree_and_the_audit_is_refused(snapshot, passable):
    folder = passable
    (folder / "bait").write_text("not the answer\n")
    extras = Extras(decoys=(("/srv/benchmark/ground_truth.json", folder / "bait"),))
    with SnapshotStore(uid=dropped_id()) as store:
        copy = store.stage(snapshot, None)
        with open_sandbox("landlock", copy, extras=extras) as sandbox:
            assert sandbox.capabilities.shows_decoys
            assert sandbox.run("cat $(find /srv -type f)").text == "not the answer\n"
            assert sandbox.run("echo x > /srv/benchmark/ground_truth.json").exit_code != 0
        with open_sandbox("landlock-bare", copy, extras=extras) as sandbox:
            assert not sandbox.capabilities.shows_decoys
        with pytest.raises(SandboxUnavailableError, match="--audit needs the bwrap sandbox"):
            open_sandbox("landlock", copy, extras=Extras(observer=AuditProbe()))


@pytest.mark.parametrize("form", FORMS)
def test_a_toolbox_is_on_the_path_and_cannot_be_written(snapshot, passable, form):
    folder = passable / "toolbox"
    (folder / "bin").mkdir(parents=True)
    (folder / "shown.py").write_text("print('from the toolbox')\n")
    tool = folder / "bin" / "tool"
    tool.write_text("#!/bin/bash\necho tool\n")
    for path, mode in ((folder, 0o755), (folder / "bin", 0o755), (tool, 0o755)):
        path.chmod(mode)
    with SnapshotStore(uid=dropped_id()) as store:
        copy = store.stage(snapshot, None)
        with open_sandbox(form, copy, extras=Extras(toolbox=folder)) as sandbox:
            assert sandbox.run("tool && python3 -m shown").text == "tool\nfrom the toolbox\n"
            assert sandbox.run('echo x > "${PYTHONPATH}/new"').exit_code != 0
