"""A suite as a task of Inspect: a sample per scenario, our task text, sandbox and score. No truth here."""

from __future__ import annotations

from inspect_ai import Epochs, Task, task
from inspect_ai.agent import AgentPrompt, AgentSubmit, react
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.util import SandboxEnvironmentSpec

from diagnose_bench.inspect_task.sandbox import NAME, SnapshotConfig
from diagnose_bench.inspect_task.scorer import precision_at_full_recall
from diagnose_bench.inspect_task.tools import run_command, submit_diagnosis
from diagnose_bench.layout import BUNDLED_SUITE
from diagnose_bench.sandbox.limits import Limits
from diagnose_bench.suite import Scenario, load_suite, verify_scenario
from diagnose_bench.task import render_task


@task
def incidents(
    suite: str = BUNDLED_SUITE,
    truth: str | None = None,
    repeats: int = 3,
    max_turns: int = 100,
    time_limit: int = 1800,
    sandbox: str = "auto",
    profile: str = "itbench-aa",
) -> Task:
    """Find the root causes of the frozen incidents of a suite.

    Parameters
    ----------
    suite : str
        A bundled suite's name, or a suite's folder.
    truth : str, optional
        Folder of the truths, when they are not beside the suite.
    repeats : int
        Epochs; the score of a scenario is the mean over them.
    max_turns, time_limit : int
        Model calls and seconds of a sample.
    sandbox : str
        As after ``--sandbox``.
    profile : str
        How entities are matched and collapsed.
    """
    loaded = load_suite(suite)
    samples = [_sample(scenario, suite, sandbox, max_turns, time_limit) for scenario in loaded.scenarios]
    return Task(
        name="incidents",
        dataset=MemoryDataset(samples, name=loaded.name),
        solver=react(
            prompt=AgentPrompt(instructions=None),
            tools=[run_command()],
            submit=AgentSubmit(tool=submit_diagnosis(), answer_only=True, keep_in_messages=True),
        ),
        scorer=precision_at_full_recall(suite, truth, profile),
        epochs=Epochs(repeats, "mean"),
        turn_limit=max_turns,
        time_limit=time_limit,
        version=loaded.version,
        metadata={"suite": loaded.name, "suite_digest": loaded.digest},
    )


def _sample(scenario: Scenario, suite: str, backend: str, max_turns: int, time_limit: int) -> Sample:
    window = verify_scenario(scenario, lambda _message: None).window
    limits = Limits()
    text = render_task(
        detected_at=str(window.detected_at),
        window_start=str(window.start),
        window_end=str(window.end),
        max_turns=max_turns,
        time_limit_s=time_limit,
        command_s=limits.command_s,
        max_command_s=limits.max_command_s,
    )
    config = SnapshotConfig(suite=suite, scenario_id=scenario.id, backend=backend)
    return Sample(id=scenario.id, input=text, target="", sandbox=SandboxEnvironmentSpec(NAME, config))
