"""A command can be ended from another thread without ending the sandbox."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

import pytest
from sandbox_helpers import sandbox_over

pytestmark = pytest.mark.sandbox
COMMAND = "echo begun; touch $SCRATCH/started /scratch/started 2>/dev/null; sleep 25; echo done"


@pytest.mark.parametrize("backend", ["bwrap", "landlock", "landlock-bare", "none"])
def test_a_command_that_is_cancelled_ends_and_the_next_one_runs(tmp_path: Path, backend: str) -> None:
    evidence = tmp_path / "evidence"
    evidence.mkdir()
    with sandbox_over(evidence, backend=backend) as sandbox:
        started = sandbox.scratch / "started"

        def cancel() -> None:
            while not started.exists():
                time.sleep(0.01)
            sandbox.cancel()

        canceller = threading.Thread(target=cancel)
        canceller.start()
        ended = sandbox.run(COMMAND)
        canceller.join()
        assert ended.limit_hit == "cancelled"
        assert ended.shown == b"begun\n[command stopped: it was cancelled]\n"
        assert ended.exit_code != 0
        assert sandbox.run("echo again").shown == b"again\n"


def test_a_cancellation_of_no_command_ends_none(tmp_path: Path) -> None:
    evidence = tmp_path / "evidence"
    evidence.mkdir()
    with sandbox_over(evidence) as sandbox:
        sandbox.cancel()
        assert sandbox.run("echo on").shown == b"on\n"


def test_a_sandbox_that_was_stopped_stays_stopped_and_leaves_no_process(tmp_path: Path) -> None:
    evidence = tmp_path / "evidence"
    evidence.mkdir()
    with sandbox_over(evidence) as sandbox:
        sandbox.stop()
        # Each is ended right at its start, whatever it was about to do.
        for _ in range(20):
            assert sandbox.run("sleep 25.125").limit_hit == "trial"
    assert not any(b"sleep 25.125" in one for one in _command_lines())


def _command_lines() -> list[bytes]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(path.read_bytes())
    return found
