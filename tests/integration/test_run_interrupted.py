"""Claims about runs that are interrupted, killed or short of disk: nothing is lost, and they are resumed."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from run_process import in_another_process
from small_suite import write_small_suite

from diagnose_bench.suite import Suite

pytestmark = pytest.mark.sandbox


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return write_small_suite(tmp_path)


# An agent that answers at once, but in the second trial that it ever sees waits until it is killed.
SLOW = """
    script = '''
    n=$(cat {folder}/count 2>/dev/null || echo 0); echo $((n + 1)) >{folder}/count
    if [ "$n" = 1 ]; then touch {folder}/waiting; sleep 1000; fi
    echo "[]"
    '''.format(folder=folder)
    (folder / "agent.sh").write_text("#!/bin/bash\\n" + script)
    (folder / "agent.sh").chmod(0o755)
    agent = make_agent(str(folder / "agent.sh"))
    options = RunOptions(repeats=2, baselines=False, resume=out.exists())
    try:
        print(run_suite(suite, agent, options, out).outcomes)
    except DiagnoseBenchError as error:
        print(error.exit_code, error)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_what_is_finished_and_is_resumed(
    suite: Suite, tmp_path: Path, number: signal.Signals
) -> None:
    process = in_another_process(tmp_path, SLOW, wait=False)
    while not (tmp_path / "waiting").exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(number)
    said, complaint = process.communicate(timeout=60)
    assert said.startswith("3 "), complaint
    assert "interrupted; 1 of 4 trials are finished and kept" in said
    assert "--resume" in said
    assert complaint == ""
    assert not (tmp_path / "run" / "trials" / "scenario-001" / "2" / "trial.json").exists()
    first = (tmp_path / "run" / "trials" / "scenario-001" / "1" / "trial.json").read_bytes()
    said, complaint = in_another_process(tmp_path, SLOW).communicate()
    assert said == "Counter({'diagnosed': 4})\n", complaint
    assert (tmp_path / "run" / "trials" / "scenario-001" / "2.unfinished-1").is_dir()
    assert (tmp_path / "run" / "trials" / "scenario-001" / "1" / "trial.json").read_bytes() == first
    # 1 finished, 1 interrupted, 3 resumed.
    assert (tmp_path / "count").read_text() == "5\n"


def test_a_run_that_is_killed_is_resumed(suite: Suite, tmp_path: Path) -> None:
    process = in_another_process(tmp_path, SLOW, wait=False)
    while not (tmp_path / "waiting").exists() and process.poll() is None:
        time.sleep(0.02)
    process.kill()
    process.communicate()
    said, complaint = in_another_process(tmp_path, SLOW).communicate()
    assert said == "Counter({'diagnosed': 4})\n", complaint


def test_two_runs_on_one_folder_are_refused(suite: Suite, tmp_path: Path) -> None:
    process = in_another_process(tmp_path, SLOW, wait=False)
    while not (tmp_path / "waiting").exists() and process.poll() is None:
        time.sleep(0.02)
    said, _ = in_another_process(tmp_path, SLOW).communicate()
    process.kill()
    process.communicate()
    assert said.startswith("2 ")
    assert "another process is running here" in said


def test_a_disk_that_runs_full_is_one_message_and_the_run_is_resumed(suite: Suite, tmp_path: Path) -> None:
    # A limit on the size of files stands for the full disk: writing fails in the same place.
    body = """
        import resource
        from diagnose_bench.agents.base import AgentResult
        from diagnose_bench.records import AgentInfo
        class Hoarder:
            kind, info = "builtin", AgentInfo(name="hoarder")
            def diagnose(self, session):
                if (session.scenario_id, session.repeat) == ("scenario-001", 2) and not resume:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
                for _ in range(5):
                    session.run_command("yes | head -c 40000")
                session.submit(b"[]")
                return AgentResult()
        resume = out.exists()
        try:
            print(run_suite(suite, Hoarder(), RunOptions(repeats=2, resume=resume), out).outcomes)
        except DiagnoseBenchError as error:
            print(error.exit_code, error)
    """
    said, complaint = in_another_process(tmp_path, body).communicate()
    assert said.startswith("2 "), complaint
    assert "commands.jsonl: cannot write: File too large" in said
    assert "--resume" in said
    finished = sorted(path.parent.name for path in (tmp_path / "run").rglob("trial.json"))
    assert finished == ["1"]
    said, complaint = in_another_process(tmp_path, body).communicate()
    assert said == "Counter({'diagnosed': 4})\n", complaint
