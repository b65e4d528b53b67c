"""Runs programs as agents for tests: one trial after another, each in a run folder of its own."""

from __future__ import annotations

import shlex
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from small_suite import write_small_suite

from diagnose_bench.agents.command import CommandAgent, parse_command_line
from diagnose_bench.layout import package_folder
from diagnose_bench.records import (
    AgentInfo,
    PlannedTrial,
    Policy,
    RunManifest,
    SandboxInfo,
    SuiteInfo,
    TrialRecord,
)
from diagnose_bench.run_shells import RunShells
from diagnose_bench.sandbox.agent_process import agent_hidden_paths
from diagnose_bench.sandbox.limits import Limits
from diagnose_bench.store import RunStore
from diagnose_bench.suite import Suite
from diagnose_bench.trial import TrialSetting, run_trial
from diagnose_bench.trial_session import TrialLimits

TRIAL = PlannedTrial(scenario_id="scenario-001", repeat=1)
ACCEPTED = '{"root_causes": [{"entity": "shop/Deployment/cart"}]}'
EXAMPLES = package_folder().parent / "examples"


class Stage:
    """Runs one trial after another, each in a run folder of its own."""

    def __init__(self, folder: Path, suite: Suite, shells: RunShells, copy: Path) -> None:
        self.folder = folder
        self.suite = suite
        self.shells = shells
        self.copy = copy
        self.n_runs = 0
        self.store: RunStore

    def bash(self, script: str, **changes: Any) -> TrialRecord:
        return self.program(["bash", "-c", textwrap.dedent(script)], **changes)

    def python(self, script: str, **changes: Any) -> TrialRecord:
        return self.program([sys.executable, "-c", textwrap.dedent(script)], **changes)

    def program(self, argv: list[str], **changes: Any) -> TrialRecord:
        return self.agent(CommandAgent(parse_command_line(shlex.join(argv)), name="program"), **changes)

    def agent(
        self,
        agent: CommandAgent,
        *,
        max_turns: int = 100,
        time_limit_s: float = 60.0,
        forced_final: bool = False,
        confined: bool = True,
    ) -> TrialRecord:
        agent.confined = confined
        self.n_runs += 1
        run = self.folder / f"run-{self.n_runs}"
        self.store = RunStore.create(run, manifest())
        truths = [self.folder / "ground_truth"]
        hidden = [*agent_hidden_paths(self.suite.path, truths, run, agent.argv), self.shells.folder]
        setting = TrialSetting(
            task="# The task\n",
            limits=TrialLimits(max_turns, time_limit_s, forced_final),
            repair=True,
            open_sandbox=lambda: self.shells.opened(self.copy),
            hidden=tuple(hidden),
        )
        with self.store:
            return run_trial(TRIAL, agent, setting, self.store)

    def diagnosis(self) -> bytes | None:
        return self.store.diagnosis_bytes(TRIAL)

    def outputs(self) -> list[str]:
        return [command.output for command in self.store.commands(TRIAL)]

    def errors(self) -> str:
        return (self.store.trial_folder(TRIAL) / "agent_stderr.log").read_text()


def manifest() -> RunManifest:
    return RunManifest(
        run_id="0",
        agent=AgentInfo(name="program"),
        suite=SuiteInfo(name="small", version="1", digest="d", path="p"),
        policy=Policy(repeats=1, max_turns=100, time_limit_s=60.0, task_digest="t"),
        sandbox=SandboxInfo(backend="bwrap"),
        plan=(TRIAL,),
        version="0",
        started_at="t",
    )


@contextmanager
def open_stage(folder: Path) -> Iterator[Stage]:
    suite = write_small_suite(folder)
    with RunShells("bwrap", Limits(), ()) as shells, shells.staged(suite.scenarios[0]) as copy:
        yield Stage(folder, suite, shells, copy)
