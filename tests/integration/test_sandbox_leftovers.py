"""Nothing is left of a command that has ended, whichever backend ran it; limits of each backend by itself."""

import contextlib
import os
import threading

import pytest
from sandbox_helpers import as_ordinary_user, children_of_the_harness, passable_folder, sandbox_over

from diagnose_bench.sandbox import Limits
from diagnose_bench.sandbox.bubblewrap_process import Started

pytestmark = pytest.mark.sandbox

BACKENDS = ["bwrap", "landlock", "landlock-bare"]
N_SANDBOXES = 4
N_COMMANDS = 250
SMALL = Limits(
    command_s=5, scratch_mb=40, scratch_entries=500, file_mb=16, resident_mb=300, memory_mb=600, processes=24
)


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evidence")
    (folder / "a.txt").write_text("evidence\n")
    return folder


def test_caller_may_ask_for_more_time_up_to_the_maximum():
    limits = Limits(command_s=30, max_command_s=120)
    assert [limits.command_time(asked) for asked in (None, 5, 90, 1000)] == [30, 5, 90, 120]


@pytest.mark.parametrize("backend", BACKENDS)
def test_endless_output_ends_the_command(snapshot, backend):
    with sandbox_over(snapshot, Limits(output_kill=1 << 20), backend=backend) as sandbox:
        result = sandbox.run("yes")
    assert (result.exit_code, result.limit_hit) == (137, "output")
    assert result.n_bytes < 3 << 20
    assert len(result.shown) < 40_000


@pytest.mark.parametrize("backend", BACKENDS)
def test_processor_time_is_limited(snapshot, backend):
    with sandbox_over(snapshot, Limits(command_s=10, cpu_factor=0.1), backend=backend) as sandbox:
        result = sandbox.run("while :; do :; done")
    assert result.limit_hit == "cpu"
    assert result.exit_code in (137, 152)


def traces(folder):
    """All that commands could leave behind: descriptors, processes, mounts, folders, threads."""
    with open("/proc/self/mountinfo") as file:
        # Engines of containers mount what is theirs while other tests run.
        mounts = [line for line in file if str(folder) in line or "incident-" in line]
    return (
        sorted(os.listdir("/proc/self/fd")),
        children_of_the_harness(),
        mounts,
        os.listdir(folder),
        threading.active_count(),
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_is_left_after_a_thousand_commands(snapshot, monkeypatch, backend):
    with passable_folder() as folder:
        monkeypatch.setenv("TMPDIR", str(folder))
        with sandbox_over(snapshot, backend=backend) as first:
            first.run("true")
            assert first.scratch.parent == folder
        before = traces(folder)
        assert before[3] == []
        with contextlib.ExitStack() as stack:
            sandboxes = [
                stack.enter_context(sandbox_over(snapshot, backend=backend)) for _ in range(N_SANDBOXES)
            ]
            sandbox = sandboxes[0]
            sandbox.run("true")
            within = traces(folder)
            wrong = []

            def work(sandbox):
                for number in range(N_COMMANDS):
                    command = f"sleep 9 & setsid sleep 9 & echo {number}; touch ${{TMPDIR}}/left"
                    if (result := sandbox.run(command)).shown != b"%d\n" % number:
                        wrong.append(result)

            threads = [threading.Thread(target=work, args=(sandbox,)) for sandbox in sandboxes]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert wrong == []
            assert traces(folder) == within
            assert sandbox.run("ls $TMPDIR").shown == b""
            sandbox.run('cd "$HOME"; mkdir -p a/b; chmod 000 a/b a; mkdir x; touch x/y; chmod 500 x')
        assert traces(folder) == before


def test_process_one_of_a_sandbox_is_waited_for(snapshot):
    # The machine's first process may wait for nobody, as in a container without an init.
    with sandbox_over(snapshot) as sandbox:
        check_that_process_one_is_waited_for(sandbox)


def check_that_process_one_is_waited_for(sandbox):
    for command in ("sleep 9 & echo", "echo"):
        with Started(sandbox, ["/bin/bash", "-c", command], 5) as started:
            assert started.process.stdout.read() == b"\n"
            started.process.wait()
            pid = started.init_pid()
            started.process.stdout.close()
        assert pid is not None
        assert not os.path.exists(f"/proc/{pid}")


@pytest.mark.parametrize("backend", ["bwrap", "landlock"])
def test_limits_hold_for_an_ordinary_user_too(backend):
    def run(home):
        (home / "snapshot").mkdir()
        with sandbox_over(home / "snapshot", SMALL, backend=backend) as sandbox:
            scratch = sandbox.scratch
            results = [
                sandbox.run("sleep 60 & sleep 60", timeout_s=0.3),
                sandbox.run("bomb() { bomb | bomb & }; bomb; sleep 30", timeout_s=0.5),
                # A folder that its owner cannot enter hides nothing.
                sandbox.run(
                    "cd /scratch; mkdir h; for i in 1 2 3 4 5 6; do head -c 9000000 /dev/zero > h/$i; done;"
                    "chmod 000 h; sleep 30"
                ),
            ]
            sandbox.run("chmod 000 /scratch/h")
        return [(result.exit_code, result.limit_hit) for result in results], scratch.exists()

    results, is_left = as_ordinary_user(run)
    assert results == [(124, "wall"), (124, "wall"), (137, "scratch")]
    assert not is_left
