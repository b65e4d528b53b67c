"""Containers of real engines: the same doors hold, the same limits are named, and nothing is left."""

import os
import subprocess
import threading
import time

import pytest
from container_helpers import own_image
from sandbox_helpers import passable_folder, sandbox_over

from diagnose_bench.sandbox import Limits
from diagnose_bench.sandbox.attacks import ATTACKS
from diagnose_bench.sandbox.container import ENGINES
from diagnose_bench.sandbox.doctor import try_doors
from diagnose_bench.sandbox.extras import Extras
from diagnose_bench.sandbox.self_check import self_check

pytestmark = pytest.mark.sandbox

SMALL = Limits(
    command_s=5,
    scratch_mb=40,
    scratch_entries=500,
    file_mb=16,
    resident_mb=300,
    memory_mb=600,
    processes=24,
    output_kill=4 << 20,
)
HOARD = "import time; hoard = bytearray(b'x') * (130 << 20); time.sleep(60)"


@pytest.fixture(scope="module", params=ENGINES)
def backend(request):
    with own_image(request.param) as image:
        yield f"{request.param}:{image}"


@pytest.fixture(scope="module")
def sandbox(backend, tmp_path_factory):
    folder = tmp_path_factory.mktemp("evidence")
    (folder / "a.txt").write_text("evidence\n")
    with sandbox_over(folder, SMALL, backend=backend) as sandbox:
        yield sandbox


def containers(backend):
    engine = backend.partition(":")[0]
    listed = subprocess.run([engine, "ps", "--all", "--quiet"], capture_output=True, text=True, check=True)
    return listed.stdout.split()


def test_every_check_of_a_container_passes(backend):
    checks = self_check(backend)
    assert len(checks) == 10
    assert all(check.passed for check in checks)


def test_no_attack_gets_out_of_a_container(backend):
    results = try_doors(backend)
    assert [(result.attack.name, result.detail) for result in results if result.is_open] == []
    assert [result.attack for result in results] == list(ATTACKS)


def test_command_works_and_its_exit_code_is_its_own(sandbox):
    result = sandbox.run(
        "cat /snapshot/a.txt; echo one; echo two >&2; echo three; touch /scratch/kept; exit 7"
    )
    assert (result.exit_code, result.shown) == (7, b"evidence\none\ntwo\nthree\n")
    assert (sandbox.scratch / "kept").exists()
    # The codes with which an engine says that it has failed.
    assert [sandbox.run(f"exit {code}").exit_code for code in (125, 126, 127)] == [125, 126, 127]
    assert sandbox.run("kill -9 $$").exit_code == 137


@pytest.mark.parametrize(
    ("command", "limit"),
    [
        ("sleep 60", "wall"),
        ("yes", "output"),
        ("for i in $(seq 600); do : > /scratch/$i; done; sleep 60", "scratch"),
        (f'for i in 1 2 3; do python3 -c "{HOARD}" & done; wait', "memory"),
    ],
)
def test_limit_ends_the_command_and_is_named(sandbox, command, limit):
    result = sandbox.run(command, timeout_s=1 if limit == "wall" else 60)
    assert result.limit_hit == limit
    sandbox.run("rm -rf /scratch/*")


def test_processor_time_is_limited(backend, tmp_path):
    with sandbox_over(tmp_path, Limits(command_s=20, cpu_factor=0.05), backend=backend) as sandbox:
        assert sandbox.run("while :; do :; done").limit_hit == "cpu"


def test_processes_and_memory_of_one_process_are_limited(sandbox):
    count = sandbox.run(
        "python3 -c '\nimport os, time\nn = 0\ntry:\n  while n < 200:\n    n += 1\n"
        "    if os.fork() == 0: time.sleep(30)\nexcept OSError: print(n)'"
    )
    assert 10 < int(count.text) <= SMALL.processes
    assert "MemoryError" in sandbox.run("python3 -c 'bytearray(10**9)'").text


def test_stopped_container_ends_and_nothing_of_any_is_left(backend, tmp_path):
    before = containers(backend)
    with passable_folder() as folder:
        scratch = folder / "scratch"
        with sandbox_over(tmp_path, backend=backend, scratch=scratch) as sandbox:
            sandbox.run("(sleep 600 &) ; sleep 600 & echo x")
            results = []
            thread = threading.Thread(
                target=lambda: results.append(sandbox.run("echo > /scratch/begun; sleep 600", timeout_s=100))
            )
            thread.start()
            while not os.path.exists(scratch / "begun"):
                time.sleep(0.05)
            sandbox.stop()
            thread.join()
        assert results[0].limit_hit == "trial"
        assert containers(backend) == before


def test_decoy_lies_where_it_belongs_and_cannot_be_changed(backend, tmp_path):
    with passable_folder() as folder:
        decoy = folder / "decoy"
        decoy.write_text("bait\n")
        place = "/srv/benchmark/ground_truth.json"
        with sandbox_over(tmp_path, backend=backend, extras=Extras(decoys=((place, decoy),))) as sandbox:
            assert sandbox.run(f"cat {place}").shown == b"bait\n"
            assert sandbox.run(f"echo x > {place} || rm -f {place}").exit_code != 0
        assert decoy.read_text() == "bait\n"
