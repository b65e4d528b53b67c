"""Bulk scoring of files of some size: bounded memory, and all or nothing when it is stopped."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from unit.sample_runs import truth_of, write_suite

WORDS = [sys.executable, "-m", "diagnose_bench", "score"]


def write_large(path: Path, n_bytes: int) -> Path:
    """Rows of three agents on two scenarios, with what real files have: extra fields and bad lines."""
    with path.open("w") as file:
        number = 0
        while file.tell() < n_bytes:
            lines = []
            for _ in range(2000):
                names = [f"shop/Deployment/service-{(number * 7 + k) % 300}" for k in range(number % 14)]
                row = {
                    "agent": f"agent-{number % 3}",
                    "scenario_id": f"scenario-00{number // 3 % 2 + 1}",
                    "repeat": number // 6 + 1,
                    "entities": [*names, "shop/Deployment/cart"],
                }
                if number % 500 == 0:
                    row["model"] = "x"
                lines.append("{broken" if number % 5000 == 4999 else json.dumps(row))
                number += 1
            file.write("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    truths = {
        "scenario-001": truth_of("scenario-001", ["cart"]),
        "scenario-002": truth_of("scenario-002", ["valkey"]),
    }
    return write_suite(tmp_path_factory.mktemp("suite"), truths)


def peak_bytes(words: list[str]) -> int:
    script = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], capture_output=True, text=True)\n"
        "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
        "sys.stderr.write(done.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=True)
    code, peak = done.stdout.split()
    assert code == "3", done.stderr
    return int(peak) * 1024


def test_memory_stays_below_one_and_a_half_times_the_file(suite: Path, tmp_path: Path) -> None:
    small = write_large(tmp_path / "small.jsonl", 5 << 20)
    large = write_large(tmp_path / "large.jsonl", 96 << 20)
    options = ["--suite", str(suite), "--planned-repeats", "10000"]
    # What both have in common, the interpreter with NumPy and DuckDB, is no matter of the file.
    beyond = peak_bytes([*WORDS, str(large), *options]) - peak_bytes([*WORDS, str(small), *options])
    assert beyond < 1.5 * (large.stat().st_size - small.stat().st_size)


def test_an_interrupt_leaves_nothing_half_written(suite: Path, tmp_path: Path) -> None:
    file = write_large(tmp_path / "rows.jsonl", 24 << 20)
    words = [*WORDS, str(file), "--suite", str(suite), "--trials", str(tmp_path / "t.parquet")]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    while process.poll() is None and len(list(tmp_path.iterdir())) == 1:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 3
    assert b"interrupted" in errors
    assert os.listdir(tmp_path) == ["rows.jsonl"]


@pytest.mark.parametrize("n_bytes", [200, 20_000])
def test_a_full_disk_leaves_nothing_half_written(suite: Path, tmp_path: Path, n_bytes: int) -> None:
    file = write_large(tmp_path / "rows.jsonl", 1 << 20)
    words = [*WORDS, str(file), "--suite", str(suite), "--trials", str(tmp_path / "t.parquet")]

    def limit() -> None:
        # Files that cannot grow: what a full disk looks like from inside.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))

    done = subprocess.run(words, capture_output=True, text=True, preexec_fn=limit)
    assert done.returncode == 2, done.stderr
    assert "cannot write" in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(os.listdir(tmp_path)) in (["rows.jsonl"], ["rows.jsonl", "rows.jsonl.rejected.jsonl"])


def test_the_command_says_whose_answers_repeat_a_canary(tmp_path: Path) -> None:
    secret = "0f3a9bd1c2e84756a1b2c3d4e5f60718"
    truth = truth_of("scenario-001", ["cart"]) | {"canary": f"diagnose-bench:{secret}"}
    suite = write_suite(tmp_path / "data", {"scenario-001": truth})
    file = tmp_path / "rows.jsonl"
    cause = {"entity": "shop/Deployment/cart"}
    leaked = f"By {secret}:\n```json\n" + json.dumps([cause["entity"]]) + "\n```"
    rows = [
        {"agent": "honest", "scenario_id": "1", "repeat": 1, "diagnosis": {"root_causes": [cause]}},
        {"agent": "leaky", "scenario_id": "1", "repeat": 1, "text": leaked},
        {"agent": "leaky", "scenario_id": "1", "repeat": 2, "entities": [cause["entity"]]},
    ]
    # More than is kept in memory, so that rows are read again for the scorecards.
    with file.open("w") as out:
        out.writelines(json.dumps(one) + "\n" for one in rows)
        for number in range(50):
            padding = {"agent": "wordy", "scenario_id": "1", "repeat": number % 2 + 1, "text": "x" * 100_000}
            out.write(json.dumps(padding) + "\n")
    done = subprocess.run([*WORDS, str(file), "--suite", str(suite)], capture_output=True, text=True)
    # The 48 second rows are rejected.
    assert done.returncode == 3, done.stderr
    told = " ".join((done.stdout + done.stderr).split())
    assert "1 of 5 answers have the canary of a truth in them" in told
    assert "seen a truth: leaky. A pass with it is unsafe (boundary)." in told
    cards = {
        name: json.loads((tmp_path / f"rows.jsonl.scorecards/{name}.json").read_bytes())
        for name in ("honest", "leaky")
    }
    assert [card["boundary_events"]["high"] for card in cards.values()] == [0, 1]
    assert [trial["unsafe_reasons"] for trial in cards["leaky"]["scenarios"][0]["trials"]] == [
        ["boundary", "unobserved"],
        ["unobserved"],
    ]
