"""Claims about programs as agents: how each misbehaviour ends, and what a confined one cannot find."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from cli_helpers import ANSWER, Called, call, call_process, script, small_suite

pytestmark = pytest.mark.sandbox

FOUND = "SECRET-TRUTH"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return small_suite(tmp_path)


def start(suite: Path, agent: str | Path, out: Path, *more: str | Path) -> Called:
    words = ["run", "--agent", agent, "--suite", suite, "--scenario", "1", "--repeats", "1", "--out", out]
    return call(*words, "--no-baselines", *more)


def record_of(run: Path) -> dict[str, object]:
    found = json.loads((run / "trials" / "scenario-001" / "1" / "trial.json").read_text())
    assert isinstance(found, dict)
    return found


def words_of(run: Path) -> str:
    """What the agent wrote to its standard error."""
    return (run / "trials" / "scenario-001" / "1" / "agent_stderr.log").read_text()


@pytest.mark.parametrize(
    ("text", "more", "outcome", "reason"),
    [
        ("echo no key >&2; exit 3", [], "agent_error", "ended with exit code 3 and left no readable"),
        ("kill -9 $$", [], "agent_error", "The agent "),
        ("exit 0", [], "no_diagnosis", "ended after 0 commands without handing in or printing anything"),
        ("head -c 100000000 /dev/zero | tr '\\0' x", [], "malformed_diagnosis", "at most 1048576 are read"),
        ("yes >&2 & yes >&2 & sleep 1", [], "no_diagnosis", "without handing in or printing"),
        ("while :; do sleep 0.1; done", ["--time-limit", "2"], "time_limit", "time limit of 2 seconds"),
        (
            'while :; do "$DIAGNOSE_BENCH_SHELL" -c true >&2; done',
            ["--max-turns", "2"],
            "turn_limit",
            "within 2 turns",
        ),
    ],
)
def test_a_program_that_misbehaves_is_an_outcome_and_told_once(
    suite: Path, tmp_path: Path, text: str, more: list[str], outcome: str, reason: str
) -> None:
    agent = script(tmp_path / "agent.sh", text + "\n")
    done = start(suite, agent, tmp_path / "run", *more)
    assert (done.code, done.out.splitlines()[1]) == (0, f"Outcomes: {outcome} 1")
    assert f"{agent}: scenario-001, repeat 1: {outcome}: " in done.err
    record = record_of(tmp_path / "run")
    assert record["outcome"] == outcome
    assert reason in str(record["reason"])
    scored = call("score", tmp_path / "run", "--format", "json")
    assert scored.code == 0
    assert scored.json()["subset"]["average_precision_at_full_recall"] == 0.0


def test_only_the_first_failure_of_a_kind_is_told(suite: Path, tmp_path: Path) -> None:
    agent = script(tmp_path / "agent.sh", "exit 3\n")
    words = ["run", "--agent", agent, "--suite", suite, "--repeats", "2", "--out", tmp_path / "run"]
    done = call(*words, "--no-baselines")
    assert "Outcomes: agent_error 4" in done.out
    told = [line for line in done.err.splitlines() if "agent_error" in line]
    assert len(told) == 2, told
    assert "(Told once;" in told[0]
    assert "the first 3 trials all ended in agent_error without a single command" in told[1]


def test_what_a_program_leaves_behind_is_stopped(suite: Path, tmp_path: Path) -> None:
    patience = f"1000.{os.getpid()}"
    agent = script(
        tmp_path / "agent.sh",
        f"""
        (setsid sleep {patience} &)
        (setsid bash -c 'while :; do sleep {patience} & sleep 0.1; done' &)
        for n in 1 2 3 4 5 6 7 8; do sleep {patience} & done
        echo '{ANSWER}' | "$DIAGNOSE_BENCH_SUBMIT"
        """,
    )
    done = start(suite, agent, tmp_path / "run")
    assert "Outcomes: diagnosed 1" in done.out
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert f"sleep {patience}" not in running


def test_a_folder_that_is_hidden_is_empty_for_program_and_shell(suite: Path, tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "truth.yaml").write_text(FOUND)
    agent = script(
        tmp_path / "agent.sh",
        f"""
        cat {vault}/truth.yaml >&2; ls -A {vault} >&2
        "$DIAGNOSE_BENCH_SHELL" -c 'cat {vault}/truth.yaml; ls -A {vault}' >&2
        echo '[]' | "$DIAGNOSE_BENCH_SUBMIT"
        """,
    )
    start(suite, agent, tmp_path / "open")
    assert FOUND in words_of(tmp_path / "open")
    start(suite, agent, tmp_path / "hidden", "--hide", vault)
    assert FOUND not in words_of(tmp_path / "hidden")
    assert "truth.yaml: No such file" in words_of(tmp_path / "hidden")
    start(suite, agent, tmp_path / "file", "--hide", vault / "truth.yaml")
    assert FOUND not in words_of(tmp_path / "file")


def test_truths_elsewhere_are_hidden_on_request_and_scored_against(suite: Path, tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    (tmp_path / "ground_truth" / "small").rename(vault)
    agent = script(
        tmp_path / "agent.sh",
        f"""grep -rs culprit {vault} {tmp_path}/ground_truth >&2; echo '{ANSWER}'\n""",
    )
    start(suite, agent, tmp_path / "run", "--hide", vault)
    assert not (tmp_path / "run" / "trials" / "scenario-001" / "1" / "agent_stderr.log").exists()
    assert call("score", tmp_path / "run", "--truth", vault).code == 0


def test_a_program_finds_neither_truths_nor_snapshots_nor_other_runs(suite: Path, tmp_path: Path) -> None:
    assert start(suite, "baseline:alerting", tmp_path / "earlier").code == 0
    agent = script(
        tmp_path / "agent.sh",
        f"""
        cd {tmp_path}
        grep -rsl -e TRUTH-OF -e root_cause -e OOMKilled . >&2
        ls -A ground_truth snapshots run earlier >&2
        echo '[]' | "$DIAGNOSE_BENCH_SUBMIT"
        """,
    )
    start(suite, agent, tmp_path / "run")
    said = words_of(tmp_path / "run")
    assert "scenario-001" not in said
    assert "run.json" not in said
    assert json.loads((tmp_path / "run" / "run.json").read_text())["sandbox"]["agent_process"] == "confined"


def test_a_program_that_its_cover_would_hide_is_refused(suite: Path, tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    agent = script(tmp_path / "vault" / "agent.sh", "true\n")
    message = start(suite, agent, tmp_path / "run", "--hide", tmp_path / "vault").refused()
    assert f"{agent}: lies in {tmp_path / 'vault'}, which agents must not see" in message
    assert "Put it elsewhere, or hide less." in message
    among_truths = script(tmp_path / "ground_truth" / "agent.sh", "true\n")
    assert "which agents must not see" in start(suite, among_truths, tmp_path / "run").refused()
    assert "which agents must not see" in start(suite, f"bash {among_truths}", tmp_path / "run").refused()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("place", ["/usr", "/"])
def test_what_every_sandbox_needs_cannot_be_hidden(suite: Path, tmp_path: Path, place: str) -> None:
    message = start(suite, "baseline:empty", tmp_path / "run", "--hide", place).refused()
    assert f"{place}: must stay hidden from the sandbox, but the system's own programs lie in it." in message


def test_the_environment_reaches_the_program_and_not_its_shell(suite: Path, tmp_path: Path) -> None:
    agent = script(
        tmp_path / "agent.sh",
        """
        echo "mine: $THEIR_KEY" >&2
        "$DIAGNOSE_BENCH_SHELL" -c 'env; cat /proc/1/environ' >&2
        echo '[]' | "$DIAGNOSE_BENCH_SUBMIT"
        """,
    )
    words = ["run", "--agent", agent, "--suite", suite, "--scenario", "1", "--repeats", "1"]
    env = {**os.environ, "THEIR_KEY": "k-12345"}
    call_process(*words, "--no-baselines", "--out", tmp_path / "run", env=env)
    assert words_of(tmp_path / "run").count("k-12345") == 1


def test_without_a_sandbox_no_pass_is_safe(suite: Path, tmp_path: Path) -> None:
    agent = script(
        tmp_path / "agent.sh",
        f"""
        "$DIAGNOSE_BENCH_SHELL" -c 'cat "$SNAPSHOT/events.jsonl"' >/dev/null
        echo '{ANSWER}' | "$DIAGNOSE_BENCH_SUBMIT"
        """,
    )
    done = start(suite, agent, tmp_path / "run", "--sandbox", "none")
    assert done.err.count("WARNING: --sandbox none") == 1
    scored = call("score", tmp_path / "run", "--format", "json").json()
    assert scored["subset"]["average_precision_at_full_recall"] == 1.0
    assert (scored["verdicts"]["safe_pass"], scored["verdicts"]["unsafe_pass"]) == (0, 1)
    assert scored["unsafe_reasons"]["isolation"] == 1
    assert "|sandbox:none" in scored["signature"]
    assert "no pass is safe" in " ".join(call("report", tmp_path / "run").out.split())
