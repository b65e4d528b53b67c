"""Limits by cgroup v2 where this machine delegates it, the same limits without where it does not."""

import pytest
from sandbox_helpers import sandbox_over

from diagnose_bench.sandbox import Limits
from diagnose_bench.sandbox.cgroup import delegated_folder
from diagnose_bench.sandbox.doctor import sandbox_report
from diagnose_bench.sandbox.landlock_kernel import MIN_ABI, abi_version

pytestmark = pytest.mark.sandbox

SMALL = Limits(
    command_s=60, resident_mb=200, memory_mb=900, processes=40, tmp_mb=16, shm_mb=16, scratch_mb=40
)
# Past the limit in one go, faster than anybody looks.
HOARD = "hoard = bytearray(b'x') * (800 << 20)"
BACKENDS = ["bwrap", *(["landlock", "landlock-bare"] if abi_version() >= MIN_ABI else [])]


def groups():
    folder = delegated_folder()
    return set() if folder is None else {path.name for path in folder.glob("diagnose-bench-*")}


@pytest.mark.parametrize("backend", BACKENDS)
def test_memory_and_processes_of_a_command_are_kept_and_the_next_command_works(tmp_path, backend):
    is_delegated = delegated_folder() is not None
    before = groups()
    with sandbox_over(tmp_path, SMALL, backend=backend) as sandbox:
        assert sandbox.capabilities.limits_by_cgroup == is_delegated
        for _ in range(3):
            result = sandbox.run(f'python3 -c "{HOARD}; import time; time.sleep(60)" & wait; sleep 60')
            assert (result.exit_code, result.limit_hit) == (137, "memory")
            assert sandbox.run("echo fine").shown == b"fine\n"
        count = sandbox.run(
            "for i in $(seq 100); do sleep 30 & done 2>/dev/null; jobs -p | wc -l; kill -9 $$"
        )
        assert count.limit_hit in (None, "processes")
        if backend == "bwrap":
            assert ("diagnose-bench-" in sandbox.run("cat /proc/self/cgroup").text) == is_delegated
        if is_delegated:
            assert groups() - before or backend == "bwrap"
    assert groups() == before


def test_doctor_says_whether_the_kernel_keeps_limits():
    found = {report.name: report for report in sandbox_report()}["cgroup v2"]
    assert found.works == (delegated_folder() is not None)
    assert ("groups in" if found.works else "not delegated") in found.detail
