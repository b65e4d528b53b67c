"""What a sandbox costs, each as a ratio to the same work without it, measured side by side in one process."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.measure import Line
from diagnose_bench.sandbox import Limits, SnapshotStore, open_sandbox
from diagnose_bench.sandbox.arguments import BASH, ENVIRONMENT
from diagnose_bench.sandbox.base import Sandbox
from diagnose_bench.sandbox.bubblewrap import BubblewrapSandbox
from diagnose_bench.sandbox.bubblewrap_process import Started
from diagnose_bench.sandbox.limits import NICENESS
from diagnose_bench.sandbox.user import dropped_id
from diagnose_bench.sandbox.watcher import process_tree

N_COMMANDS = 200
N_MANY = 1000
GREP_BYTES = 200 << 20
N_SEARCHES = 15
_SEARCH = "TIMEFORMAT=%R; time grep -c OOMKilled "
N_SIDE_BY_SIDE = 16
N_EACH = 12


@dataclass(frozen=True)
class Row:
    """One line: what was measured, in which unit, and the most that it may be (None: for information)."""

    name: str
    value: float
    unit: str
    target: float | None

    @property
    def holds(self) -> bool:
        """Whether the target is kept."""
        return self.target is None or self.value <= self.target


def sandbox() -> Iterator[Line]:
    """All of them for the table; what is for information only stands below the next line."""
    known = []
    for row in rows():
        if row.target is None:
            known.append(f"{row.name}: {row.value:.1f} {row.unit}")
            continue
        # Nothing is cheaper than no sandbox at all.
        best = 1.0 if row.unit == "x" else row.target
        yield Line(row.name, row.value, ship=row.target, moonshot=best, detail="; ".join(known))
        known.clear()


def rows() -> list[Row]:
    """Measure everything: about two minutes."""
    return [
        *command_through_bubblewrap(),
        *command_through_landlock(),
        *grep_through_sandboxes(),
        *side_by_side(),
        *nothing_left(),
    ]


@contextmanager
def _snapshot(n_bytes: int = 0) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        line = b'{"reason": "Pulled", "message": "Container image already present on machine"}\n'
        with (Path(folder) / "events.jsonl").open("wb") as file:
            for _ in range(1 + n_bytes // (len(line) * 10_000)):
                file.write(line * 10_000 if n_bytes else line)
        with SnapshotStore(uid=dropped_id()) as store:
            yield store.stage(Path(folder))


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _alternate(n: int, *works: Callable[[], object]) -> list[list[float]]:
    """Times of each, taken in turns, so that a busy moment of the machine meets all of them."""
    times: list[list[float]] = [[] for _ in works]
    for work in works:
        work()
    for _ in range(n):
        for collected, work in zip(times, works, strict=True):
            collected.append(_seconds(work))
    return [sorted(collected) for collected in times]


def _percentile(times: list[float], percent: int) -> float:
    return times[min(len(times) - 1, len(times) * percent // 100)]


def _succeed(sandbox: Sandbox, command: str = "true") -> None:
    """Run a command that has to work: what one that could not be started took or left says nothing."""
    result = sandbox.run(command)
    if result.exit_code != 0:
        raise RuntimeError(f"a command ended with {result.exit_code}: {result.text[:500]}")


def _bare_bash() -> None:
    """Bash as a command gets it: its environment, its priority, a session of its own."""
    with subprocess.Popen(
        [BASH, "-c", "true"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # Linux shares the processor by sessions
        env=dict(ENVIRONMENT),
    ) as process:
        os.setpriority(os.PRIO_PROCESS, process.pid, NICENESS)
        process.communicate()


def command_through_bubblewrap() -> list[Row]:
    """One command through the backend, and the bare process with the same arguments."""
    with _snapshot() as snapshot, open_sandbox("bwrap", snapshot) as sandbox:
        if not isinstance(sandbox, BubblewrapSandbox):
            raise TypeError("bwrap gave another sandbox")

        def bare() -> None:
            with Started(sandbox, [BASH, "-c", "true"], 30.0) as started:
                started.process.communicate()

        ours, its = _alternate(N_COMMANDS, partial(_succeed, sandbox), bare)
    return [
        Row("bwrap: a command, p50", 1000 * _percentile(ours, 50), "ms", None),
        Row("bwrap: a command, p95", 1000 * _percentile(ours, 95), "ms", None),
        Row("bwrap: p95 to the bare process's", _percentile(ours, 95) / _percentile(its, 95), "x", 1.3),
    ]


def command_through_landlock() -> list[Row]:
    """One command through Landlock, in both forms, and a bare bash."""
    found = []
    with _snapshot() as snapshot:
        for backend in ("landlock", "landlock-bare"):
            with open_sandbox(backend, snapshot) as sandbox:
                ours, its = _alternate(N_COMMANDS, partial(_succeed, sandbox), _bare_bash)
            found += [
                Row(f"{backend}: a command, p50", 1000 * _percentile(ours, 50), "ms", None),
                Row(
                    f"{backend}: p50 to a bare bash's", _percentile(ours, 50) / _percentile(its, 50), "x", 2.0
                ),
                Row(
                    f"{backend}: p95 to a bare bash's", _percentile(ours, 95) / _percentile(its, 95), "x", 2.0
                ),
            ]
    return found


def grep_through_sandboxes() -> list[Row]:
    """A search through 200 MB inside and outside: what bash says that the search took, without any start."""
    found = []
    with _snapshot(GREP_BYTES) as snapshot:
        for backend in ("bwrap", "landlock"):
            inside, outside = [], []
            with open_sandbox(backend, snapshot) as sandbox:
                for _ in range(N_SEARCHES):
                    inside.append(_told(sandbox.run(_SEARCH + "/snapshot/events.jsonl").text))
                    outside.append(_told(_on_the_host(f"{_SEARCH}{snapshot}/events.jsonl")))
            ratio = _percentile(sorted(inside), 50) / _percentile(sorted(outside), 50)
            found.append(Row(f"{backend}: grep over 200 MB to outside", ratio, "x", 1.05))
    return found


def _told(output: str) -> float:
    return float(output.split()[-1])


def _on_the_host(command: str) -> str:
    done = subprocess.run(
        ["nice", "-n", str(NICENESS), BASH, "-c", command],
        env=dict(ENVIRONMENT),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # as a command: Linux shares the processor by sessions
        check=False,  # nothing is found: that is 1
    )
    return done.stdout.decode()


def side_by_side() -> list[Row]:
    """Sixteen trials at once: every command has to come back with its own output."""
    found = []
    with _snapshot() as snapshot:
        for backend in ("bwrap", "landlock"):
            lost: list[str] = []

            def trial(number: int, backend: str = backend, lost: list[str] = lost) -> None:
                with open_sandbox(backend, snapshot) as sandbox:
                    for turn in range(N_EACH):
                        result = sandbox.run(f"echo {number}-{turn}; cat /snapshot/* | wc -l")
                        if result.exit_code != 0 or result.text.split() != [f"{number}-{turn}", "1"]:
                            lost.append(f"{number}-{turn}: {result}")

            threads = [threading.Thread(target=trial, args=(number,)) for number in range(N_SIDE_BY_SIDE)]
            seconds = _seconds(lambda threads=threads: [thread.start() for thread in threads])  # type: ignore[misc]
            seconds += _seconds(lambda threads=threads: [thread.join() for thread in threads])  # type: ignore[misc]
            found += [
                Row(f"{backend}: lost commands of {N_SIDE_BY_SIDE * N_EACH} side by side", len(lost), "", 0),
                Row(
                    f"{backend}: commands a second side by side",
                    N_SIDE_BY_SIDE * N_EACH / seconds,
                    "/s",
                    None,
                ),
            ]
    return found


def nothing_left() -> list[Row]:
    """Processes, descriptors, mounts and folders that are there after many commands and were not before."""
    found = []
    for backend in ("bwrap", "landlock"):
        with _snapshot() as snapshot, _own_temporary_folder() as folder:
            before = _traces(folder)
            with open_sandbox(backend, snapshot, limits=Limits()) as sandbox:
                for _ in range(N_MANY):
                    _succeed(sandbox, "sleep 9 & setsid sleep 9 & touch $TMPDIR/left")
            left = len(_traces(folder) ^ before)
        found.append(Row(f"{backend}: left after {N_MANY} commands", left, "", 0))
    return found


@contextmanager
def _own_temporary_folder() -> Iterator[Path]:
    before = os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        os.environ["TMPDIR"] = folder
        try:
            yield Path(folder)
        finally:
            if before is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = before


def _traces(folder: Path) -> frozenset[str]:
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    own = {f"process {pid}" for pid in process_tree(os.getpid())}
    descriptors = {f"descriptor {name}" for name in os.listdir("/proc/self/fd")}
    folders = {f"folder {name}" for name in os.listdir(folder)}
    return frozenset({*own, *descriptors, *folders, *mounts})


if __name__ == "__main__":
    for row in rows():
        mark = (
            "" if row.target is None else f"  (at most {row.target:g}: {'holds' if row.holds else 'FAILS'})"
        )
        print(f"{row.name:<50} {row.value:10.2f} {row.unit}{mark}")
