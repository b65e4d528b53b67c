"""A limit ends the command, never the run; and nothing is left of a command that has ended."""

import hashlib
import os
import threading
import time

import pytest
from sandbox_helpers import children_of_the_harness, sandbox_over

from diagnose_bench.sandbox import Limits

pytestmark = pytest.mark.sandbox

SMALL = Limits(
    command_s=5, scratch_mb=40, scratch_entries=500, file_mb=16, resident_mb=300, memory_mb=600, processes=24
)


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evidence")
    (folder / "a.txt").write_text("evidence\n")
    return folder


@pytest.fixture(scope="module", params=["bwrap", "landlock"])
def sandbox(request, snapshot):
    with sandbox_over(snapshot, SMALL, backend=request.param) as sandbox:
        yield sandbox


@pytest.fixture(autouse=True)
def _still_usable(sandbox):
    yield
    assert sandbox.run("rm -rf /scratch/* /scratch/.[!.]*; echo fine").text.endswith("fine\n")


def test_command_that_runs_too_long_ends_with_124(sandbox):
    result = sandbox.run("echo begun; sleep 60", timeout_s=0.3)
    assert (result.exit_code, result.limit_hit) == (124, "wall")
    assert result.shown == b"begun\n[command stopped: it ran longer than 0.3 s]\n"
    assert result.n_bytes == len("begun\n")


@pytest.mark.parametrize(
    "command",
    [
        "trap '' TERM INT HUP; while :; do :; done",
        "kill -STOP $$",
        "exec sleep 60",
        "exec >&- 2>&-; sleep 60",
        "setsid sleep 60 & wait",
    ],
)
def test_no_command_outlives_its_time(sandbox, command):
    result = sandbox.run(command, timeout_s=0.3)
    assert (result.exit_code, result.limit_hit) == (124, "wall")


def test_daemon_does_not_outlive_its_command(sandbox):
    before = children_of_the_harness()
    marker = "86399.5"
    result = sandbox.run(f"(setsid sleep {marker} &) ; sleep {marker} & disown; echo started")
    assert (result.exit_code, result.shown) == (0, b"started\n")
    assert children_of_the_harness() == before
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                assert marker.encode() not in file.read().split(b"\0")
        except OSError:
            continue


def test_child_that_keeps_the_output_open_does_not_hold_up_the_command(sandbox):
    result = sandbox.run("(while :; do echo noise; sleep 0.01; done) & echo done", timeout_s=4)
    assert (result.exit_code, result.limit_hit) == (0, None)
    assert b"done\n" in result.shown


def test_fork_bomb_is_contained(sandbox):
    result = sandbox.run("bomb() { bomb | bomb & }; bomb; sleep 30", timeout_s=1)
    assert (result.exit_code, result.limit_hit) == (124, "wall")
    count = sandbox.run(
        "python3 -c '\nimport os, time\nn = 0\ntry:\n  while n < 200:\n    n += 1\n"
        "    if os.fork() == 0: time.sleep(30)\nexcept OSError: print(n)'"
    )
    assert 10 < int(count.text) <= SMALL.processes


def test_one_process_cannot_take_all_memory(sandbox):
    result = sandbox.run("python3 -c 'bytearray(10**9)'")
    assert result.exit_code == 1
    assert "MemoryError" in result.text


def test_many_processes_together_cannot_take_all_memory(sandbox):
    hoard = 'python3 -c "import time; b = bytearray(b\\"x\\") * (150 << 20); time.sleep(30)" &'
    result = sandbox.run(f"for i in 1 2 3 4; do {hoard} done; wait")
    assert (result.exit_code, result.limit_hit) == (137, "memory")


def test_memory_disks_are_small(sandbox):
    assert sandbox.run("head -c 100000000 /dev/zero | split -b 10000000 - /tmp/x").exit_code == 1
    assert sandbox.run("head -c 100000000 /dev/zero | split -b 10000000 - /dev/shm/x").exit_code == 1


def test_large_file_is_refused(sandbox):
    result = sandbox.run("head -c 100000000 /dev/zero > /scratch/large")
    assert result.exit_code != 0
    assert (sandbox.scratch / "large").stat().st_size == SMALL.file_mb << 20
    assert sandbox.run("truncate -s 1T /scratch/sparse").exit_code != 0


def test_scratch_folder_does_not_grow_without_end(sandbox):
    result = sandbox.run("for i in $(seq 1000); do head -c 8000000 /dev/zero > /scratch/$i; sleep 0.02; done")
    assert (result.exit_code, result.limit_hit) == (137, "scratch")
    assert b"/scratch may hold 40 MiB" in result.shown


def test_full_scratch_folder_can_be_emptied(sandbox):
    filled = sandbox.run("for i in $(seq 6); do head -c 8000000 /dev/zero > /scratch/$i; done")
    assert filled.limit_hit == "scratch"
    freed = sandbox.run("sleep 0.3; rm /scratch/*; echo freed")
    assert (freed.exit_code, freed.limit_hit, freed.shown) == (0, None, b"freed\n")


def test_number_of_files_is_limited(sandbox):
    result = sandbox.run("cd /scratch; for i in $(seq 100000); do : > $i; done")
    assert (result.exit_code, result.limit_hit) == (137, "scratch")


def test_deep_folders_are_limited(sandbox):
    result = sandbox.run("cd /scratch; for i in $(seq 300); do mkdir d && cd d; done; sleep 2")
    assert result.limit_hit == "scratch"


def test_files_without_a_name_count(sandbox):
    code = "import os, time\nheld = []\nfor i in range(100):\n  f = open('x', 'wb'); os.unlink('x')\n"
    code += "  f.write(bytes(8000000)); f.flush(); held.append(f); time.sleep(0.02)"
    result = sandbox.run(f'python3 -c "{code}"')
    assert (result.exit_code, result.limit_hit) == (137, "scratch")


def test_space_cannot_be_reserved_past_the_watcher(sandbox):
    assert sandbox.run("fallocate -l 8M /scratch/reserved").exit_code == 1


def test_long_output_is_cut_in_the_middle_and_hashed_whole(sandbox):
    whole = "".join(f"{i}\n" for i in range(1, 100_001)).encode()
    result = sandbox.run("seq 100000")
    assert (result.n_bytes, result.sha256) == (len(whole), hashlib.sha256(whole).hexdigest())
    assert result.shown.startswith(whole[: 16 * 1024])
    assert result.shown.endswith(whole[-16 * 1024 :])
    assert b"\n[... %d bytes of output cut here ...]\n" % (len(whole) - 32 * 1024) in result.shown


def test_output_that_just_fits_is_not_cut(sandbox):
    assert sandbox.run("head -c 32768 /dev/zero | tr '\\0' x").shown == b"x" * 32768


def test_command_that_no_shell_can_take_is_answered(sandbox):
    for command, word in (
        ("echo a\0b", b"NUL"),
        ("#" * (128 * 1024), b"131072 bytes"),
        ("echo \ud800", b"character 6"),
    ):
        result = sandbox.run(command)
        assert (result.exit_code, result.limit_hit, result.n_bytes) == (126, "command", 0)
        assert word in result.shown
    longest = "echo fine #" + "x" * (128 * 1024 - 1 - len("echo fine #"))
    assert sandbox.run(longest).shown == b"fine\n"


def test_command_ends_with_the_thread_that_runs_it_and_not_with_another(sandbox):
    results = []
    thread = threading.Thread(target=lambda: results.append(sandbox.run("sleep 0.2; echo whole")))
    thread.start()
    other = threading.Thread(target=time.sleep, args=(0.05,))
    other.start()
    other.join()
    thread.join()
    assert results[0].shown == b"whole\n"
