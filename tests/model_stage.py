"""Runs trials of the model agent in a real sandbox against the local server; keeps what they leave."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fake_model_server import Answer, FakeModelServer
from small_suite import write_small_suite

from diagnose_bench.agents.base import Agent, AgentResult, AgentStep, TrialSession
from diagnose_bench.agents.model.client import Connection
from diagnose_bench.agents.model.failures import ModelServerError
from diagnose_bench.agents.model.prices import Budget, Prices
from diagnose_bench.agents.model.retry import RetryPolicy
from diagnose_bench.agents.model.settings import ModelSettings
from diagnose_bench.agents.openai_agent import OpenAIAgent
from diagnose_bench.records import (
    AgentInfo,
    CommandRecord,
    PlannedTrial,
    Policy,
    RunManifest,
    SandboxInfo,
    SuiteInfo,
    TrialRecord,
)
from diagnose_bench.run_shells import RunShells
from diagnose_bench.sandbox.limits import Limits
from diagnose_bench.store import RunStore
from diagnose_bench.trial import TrialSetting, run_trial
from diagnose_bench.trial_session import TrialLimits

TRIAL = PlannedTrial(scenario_id="scenario-001", repeat=1)
TASK = "# The task\n"
QUICK = RetryPolicy(attempts=4, rate_limit_attempts=5, first_s=0.01, longest_s=0.02, patience_s=5.0)


class Kept:
    """An agent that keeps what it returned."""

    def __init__(self, agent: OpenAIAgent) -> None:
        self.agent = agent
        self.kind = agent.kind
        self.info = agent.info
        self.result: AgentResult | None = None

    def diagnose(self, session: TrialSession) -> AgentResult:
        try:
            self.result = self.agent.diagnose(session)
        except ModelServerError as error:
            self.result = AgentResult(usage=error.usage, steps=error.steps)
            raise
        return self.result


class ModelStage:
    """One trial after another, each in a run folder of its own."""

    def __init__(self, folder: Path, shells: RunShells, copy: Path) -> None:
        self.folder = folder
        self.shells = shells
        self.copy = copy
        self.n_runs = 0
        self.store: RunStore
        self.server: FakeModelServer
        self.result: AgentResult | None = None

    def trial(
        self,
        answer: Callable[[dict[str, Any]], Answer],
        *,
        max_turns: int = 100,
        time_limit_s: float = 120.0,
        policy: RetryPolicy = QUICK,
        prices: Prices | None = None,
        cap_usd: float | None = None,
        repeat: int = 1,
        **settings: Any,
    ) -> TrialRecord:
        with FakeModelServer(answer) as self.server:
            agent = agent_for(
                self.server.url,
                policy=policy,
                prices=prices,
                budget=Budget(prices, cap_usd),
                **settings,
            )
            return self.run(agent, max_turns=max_turns, time_limit_s=time_limit_s, repeat=repeat)

    def run(
        self, agent: OpenAIAgent, *, max_turns: int = 100, time_limit_s: float = 120.0, repeat: int = 1
    ) -> TrialRecord:
        self.n_runs += 1
        self.planned = PlannedTrial(scenario_id="scenario-001", repeat=repeat)
        self.store = RunStore.create(self.folder / f"run-{self.n_runs}", manifest(self.planned))
        setting = TrialSetting(
            task=TASK,
            limits=TrialLimits(max_turns, time_limit_s),
            repair=True,
            open_sandbox=lambda: self.shells.opened(self.copy),
        )
        kept = Kept(agent)
        as_agent: Agent = kept
        try:
            with self.store:
                return run_trial(self.planned, as_agent, setting, self.store)
        finally:
            self.result = kept.result

    @property
    def path(self) -> Path:
        return self.store.path

    @property
    def steps(self) -> tuple[AgentStep, ...]:
        assert self.result is not None
        return self.result.steps

    def commands(self) -> list[CommandRecord]:
        return list(self.store.commands(self.planned))

    def diagnosis(self) -> Any:
        data = self.store.diagnosis_bytes(self.planned)
        return None if data is None else json.loads(data)

    def ledger(self) -> list[dict[str, Any]]:
        path = self.store.trial_folder(self.planned) / "model_calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]


def agent_for(url: str, **options: Any) -> OpenAIAgent:
    """An agent with short waits, for one server."""
    names = ("temperature", "seed", "max_output_tokens", "reasoning_effort", "prompt", "model")
    chosen = {name: options.pop(name) for name in names if name in options}
    settings = ModelSettings(
        **{"model": "some-model", "prompt": "# The prompt\n", "prompt_digest": "d", **chosen}
    )
    return OpenAIAgent(settings, Connection(url), **{"policy": QUICK, **options})


def manifest(trial: PlannedTrial) -> RunManifest:
    return RunManifest(
        run_id="0",
        agent=AgentInfo(name="model"),
        suite=SuiteInfo(name="small", version="1", digest="d", path="p"),
        policy=Policy(repeats=1, max_turns=100, time_limit_s=60.0, task_digest="t"),
        sandbox=SandboxInfo(backend="bwrap"),
        plan=(trial,),
        version="0",
        started_at="t",
    )


@contextmanager
def open_stage(folder: Path) -> Iterator[ModelStage]:
    """A stage over the first scenario of the small suite."""
    suite = write_small_suite(folder)
    with RunShells("bwrap", Limits(), ()) as shells, shells.staged(suite.scenarios[0]) as copy:
        yield ModelStage(folder, shells, copy)
