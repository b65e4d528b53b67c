"""A suite as a task of Inspect, with its mock model: run in our sandbox, scored as we score, logged by it."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from cli_helpers import call, small_suite
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.util import SandboxUserUnsupportedError
from inspect_ai.util._sandbox import self_check
from unit.scored_runs import scored, suite_of

from diagnose_bench.inspect_task.sandbox import DiagnoseBenchSandbox, SnapshotConfig

pytestmark = pytest.mark.sandbox
CHECKOUT = Path(__file__).resolve().parents[2]
ANSWER = {"root_causes": [{"entity": "shop/Deployment/cart"}]}


Turn = tuple[str, dict[str, str]]


def tool_call(name: str, **arguments: str) -> Turn:
    return name, arguments


def submit(value: Any) -> Turn:
    return tool_call("submit_diagnosis", diagnosis=value if isinstance(value, str) else json.dumps(value))


def evaluate(root: Path, turns: list[Turn], **options: Any) -> EvalLog:
    """Evaluate both scenarios with a model that makes these turns in each of them."""
    suite = root / "snapshots" / "small"
    if not suite.exists():
        small_suite(root)
    logs = root / f"logs-{len(list(root.glob('logs-*')))}"
    settings = {
        "turns": turns,
        "log_dir": str(logs),
        "options": {"repeats": 1, "suite": str(suite)} | options,
    }
    runner = CHECKOUT / "tests" / "inspect_runner.py"
    run([str(runner), json.dumps(settings)], root)
    (path,) = logs.glob("*.eval")
    return read_eval_log(str(path))


def run(words: list[str], folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def tool_texts(log: EvalLog) -> list[str]:
    assert log.samples is not None
    return [message.text for message in log.samples[0].messages if message.role == "tool"]


def test_a_model_works_in_our_sandbox_and_is_scored_as_by_us(tmp_path: Path) -> None:
    log = evaluate(
        tmp_path,
        [tool_call("run_command", command="cat /snapshot/events.jsonl; cat /nope"), submit(ANSWER)],
        repeats=2,
    )
    assert (log.status, log.eval.sandbox) == ("success", None)
    assert log.samples is not None
    assert log.results is not None
    values = {(sample.id, sample.epoch): sample.scores for sample in log.samples}
    # The Deployment cart is the cause in scenario-001 and not in scenario-002.
    assert {key: scores and scores["precision_at_full_recall"].value for key, scores in values.items()} == {
        ("scenario-001", 1): 1.0,
        ("scenario-001", 2): 1.0,
        ("scenario-002", 1): 0.0,
        ("scenario-002", 2): 0.0,
    }
    assert log.results.scores[0].metrics["mean"].value == 0.5
    shown = tool_texts(log)[0]
    assert shown.startswith("exit code 1\n")
    assert "OOMKilled" in shown
    assert "No such file" in shown


def test_a_diagnosis_of_the_wrong_form_is_told_and_does_not_end_the_work(tmp_path: Path) -> None:
    log = evaluate(tmp_path, [submit("nonsense"), submit(ANSWER)])
    assert log.samples is not None
    (first, second) = [message for message in log.samples[0].messages if message.role == "tool"]
    assert first.error is not None
    assert "the diagnosis is not accepted" in first.error.message
    assert second.error is None
    assert log.samples[0].scores is not None
    assert log.samples[0].scores["precision_at_full_recall"].value == 1.0


def test_no_answer_scores_zero(tmp_path: Path) -> None:
    log = evaluate(tmp_path, [tool_call("run_command", command="true")], max_turns=3)
    assert log.status == "success"
    assert log.samples is not None
    for sample in log.samples:
        assert sample.scores is not None
        assert sample.scores["precision_at_full_recall"].value == 0.0
        assert sample.limit is not None


def test_the_truth_is_nowhere_but_in_the_scorer(tmp_path: Path) -> None:
    look = "grep -rs TRUTH-O[F]- / --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr"
    log = evaluate(tmp_path, [tool_call("run_command", command=look), submit(ANSWER)])
    assert "TRUTH-OF-" not in "".join(tool_texts(log))
    with zipfile.ZipFile(log.location) as archive:
        for name in archive.namelist():
            assert b"TRUTH-OF-" not in archive.read(name)
    # Without truths everything goes on until an answer is to be scored.
    log = evaluate(tmp_path, [submit(ANSWER)], truth=str(tmp_path / "nowhere"))
    assert log.status == "error"
    assert log.error is not None
    assert "the folder of truths does not exist" in log.error.message


SOLVER = """
import json
from inspect_ai.solver import solver
from inspect_ai.util import sandbox

@solver
def answering():
    async def solve(state, generate):
        assert "OOMKilled" in await sandbox().read_file("/snapshot/events.jsonl")
        state.output.completion = json.dumps({"root_causes": [{"entity": "shop/Deployment/cart"}]})
        return state
    return solve
"""


def test_inspects_own_command_runs_it_with_anybodys_solver(tmp_path: Path) -> None:
    suite = small_suite(tmp_path)
    (tmp_path / "solver.py").write_text(SOLVER)
    task = CHECKOUT / "diagnose_bench" / "inspect_task" / "task.py"
    words = ["-m", "inspect_ai", "eval", f"{task}@incidents", "--model", "none", "--display", "plain"]
    words += ["-T", f"suite={suite}", "-T", "repeats=1", "--log-dir", str(tmp_path / "logs")]
    run([*words, "--solver", str(tmp_path / "solver.py@answering")], tmp_path)
    (path,) = (tmp_path / "logs").glob("*.eval")
    log = read_eval_log(str(path))
    assert log.status == "success"
    assert log.results is not None
    assert log.results.scores[0].metrics["mean"].value == 0.5


def test_the_entry_point_leads_to_what_inspect_looks_for() -> None:
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    module = importlib.import_module(settings["project"]["entry-points"]["inspect_ai"]["diagnose_bench"])
    assert module.DiagnoseBenchSandbox is DiagnoseBenchSandbox
    assert module.incidents.__module__ == "diagnose_bench.inspect_task.task"


@contextmanager
def sandbox_of(root: Path, backend: str = "auto") -> Iterator[Callable[..., Any]]:
    """A function that lets a coroutine work on an open sandbox."""
    config = SnapshotConfig(suite=str(small_suite(root)), scenario_id="scenario-001", backend=backend)

    def work(function: Callable[[Any], Any]) -> Any:
        async def opened() -> Any:
            environments = await DiagnoseBenchSandbox.sample_init("incidents", config, {})
            try:
                return await function(environments["default"])
            finally:
                await DiagnoseBenchSandbox.sample_cleanup("incidents", config, environments, False)

        return anyio.run(opened)

    yield work


# What ours forbids on purpose: another user, files outside of /scratch that stay, one command of megabytes.
NOT_OURS = {
    "test_cwd_absolute",
    "test_exec_as_user",
    "test_exec_large_command",
    "test_read_and_write_file_including_directory_absolute",
    "test_write_binary_file_is_directory",
    "test_write_text_file_is_directory",
}
# Files of 50 MB go through many commands: right, and too slow for here.
SLOW = {"test_read_and_write_large_file_binary", "test_exec_input_large"}
CHECKS = sorted({name for name in dir(self_check) if name.startswith("test_")} - NOT_OURS - SLOW)


@pytest.mark.parametrize("backend", ["bwrap", "landlock"])
def test_the_sandbox_holds_what_inspect_asks_of_one(tmp_path: Path, backend: str) -> None:
    async def all_checks(environment: DiagnoseBenchSandbox) -> None:
        for name in CHECKS:
            try:
                await getattr(self_check, name)(environment)
            except BaseException as error:
                raise AssertionError(f"{name}: {error!r}") from error

    with sandbox_of(tmp_path, backend) as work:
        work(all_checks)


def test_a_file_of_several_commands_comes_back_as_it_was(tmp_path: Path) -> None:
    data = bytes(range(256)) * 2_000

    async def checks(environment: DiagnoseBenchSandbox) -> None:
        await environment.write_file("folder/of mine/file", data)
        assert await environment.read_file("folder/of mine/file", text=False) == data
        assert (await environment.exec(["wc", "-c"], input=data)).stdout.strip() == str(len(data))

    with sandbox_of(tmp_path) as work:
        work(checks)


def test_what_the_sandbox_forbids_is_an_error_of_its_kind(tmp_path: Path) -> None:
    async def checks(environment: DiagnoseBenchSandbox) -> None:
        for path in ("/snapshot/mine", "/etc/mine", "/nowhere/mine"):
            with pytest.raises(PermissionError):
                await environment.write_file(path, "mine")
        with pytest.raises(FileNotFoundError):
            await environment.read_file(str(tmp_path / "ground_truth" / "small" / "scenario-001.yaml"))
        with pytest.raises(SandboxUserUnsupportedError):
            await environment.exec(["true"], user="root")
        await environment.exec(["ln", "-s", str(tmp_path), "link"])
        with pytest.raises((PermissionError, FileNotFoundError)):
            await environment.write_file("link/escaped", "mine")
        assert not (tmp_path / "escaped").exists()

    with sandbox_of(tmp_path) as work:
        work(checks)


def test_a_command_that_nobody_waits_for_is_ended(tmp_path: Path) -> None:
    async def checks(environment: DiagnoseBenchSandbox) -> None:
        with anyio.move_on_after(1.0) as scope:
            await environment.exec(["sleep", "100"])
        assert scope.cancelled_caught
        # The next one is not behind it for a hundred seconds.
        with anyio.fail_after(60):
            assert (await environment.exec(["echo", "on"])).stdout == "on\n"

    with sandbox_of(tmp_path) as work:
        work(checks)


def test_a_run_of_ours_is_a_log_that_inspect_reads(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, 2)
    run = scored(tmp_path / "run", suite, [[1.0, 0.5], [0.0, None]], agent="mine")
    out = tmp_path / "run.eval"
    done = call("export", "inspect", run, "--out", out)
    assert done.code == 3, done.err
    log = read_eval_log(str(out))
    assert (log.status, log.eval.dataset.samples, log.eval.config.epochs) == ("cancelled", 2, 2)
    assert log.samples is not None
    found = {
        (sample.id, sample.epoch): sample.scores and sample.scores["precision_at_full_recall"].value
        for sample in log.samples
    }
    assert found == {
        ("scenario-001", 1): 1.0,
        ("scenario-001", 2): 0.5,
        ("scenario-002", 1): 0.0,
        ("scenario-002", 2): None,
    }
    failed = next(sample for sample in log.samples if (sample.id, sample.epoch) == ("scenario-002", 2))
    assert failed.error is not None
    assert [message.role for message in log.samples[0].messages] == ["assistant", "tool", "assistant"]


def test_without_inspect_one_message_says_what_to_install(tmp_path: Path) -> None:
    run = scored(tmp_path / "run", suite_of(tmp_path, 1), [[1.0]])
    blocked = "import sys; sys.modules['inspect_ai'] = None; from diagnose_bench.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", blocked, "export", "inspect", str(run)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2
    assert "-m pip install 'inspect-ai>=0.3.285'" in done.stderr
    assert done.stderr.count("\n") == 1
