"""Claims about what a model costs, its key, and agents that are shared by trials."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fake_model_server import (
    KEY,
    Answer,
    FakeModelServer,
    Raw,
    completion,
    error,
    in_turn,
    shell,
    submit,
)
from model_stage import ModelStage, agent_for, open_stage

from diagnose_bench.agents.model.failures import ModelServerError
from diagnose_bench.agents.model.prices import Budget, Prices
from diagnose_bench.errors import SpendCapError
from diagnose_bench.outcome import Outcome

pytestmark = pytest.mark.sandbox
CART = "shop/Deployment/cart"
DONE = completion(calls=[submit(CART)])
QUICK_HEADER = {"Retry-After-Ms": "10"}


@pytest.fixture(scope="module")
def module_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelStage]:
    with open_stage(tmp_path_factory.mktemp("stage")) as stage:
        yield stage


@pytest.fixture
def stage(module_stage: ModelStage, monkeypatch: pytest.MonkeyPatch) -> ModelStage:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return module_stage


PRICES = Prices(input=2.0, cached_input=0.5, output=10.0)
USAGE = {
    "prompt_tokens": 1_000_000,
    "completion_tokens": 100_000,
    "prompt_tokens_details": {"cached_tokens": 400_000},
}


def test_cost_is_counted_by_the_prices(stage: ModelStage) -> None:
    look, done = completion(calls=[shell("true")], usage=USAGE), completion(calls=[submit(CART)], usage=USAGE)
    record = stage.trial(in_turn(look, done), prices=PRICES)
    # A call: 600,000 fresh at 2.0, 400,000 cached at 0.5, 100,000 out at 10.0 = 1.2 + 0.2 + 1.0 = 2.4.
    assert record.usage.cost_usd == pytest.approx(4.8, rel=1e-12)
    assert [line["cost_usd"] for line in stage.ledger()] == pytest.approx([2.4, 2.4], rel=1e-12)


def test_no_call_is_made_once_the_cap_is_reached(stage: ModelStage) -> None:
    look = completion(calls=[shell("true")], usage=USAGE)
    with pytest.raises(SpendCapError, match=r"--max-cost 4 is reached: 4\.8000 US dollars are spent"):
        stage.trial(in_turn(look), prices=PRICES, cap_usd=4.0)
    assert len(stage.server.requests) == 2
    # Pending: nothing was finished, and what was spent is on record.
    assert stage.store.record(stage.planned) is None
    assert len(stage.ledger()) == 2


def test_a_cap_needs_a_server_that_counts(stage: ModelStage) -> None:
    silent = {**DONE, "usage": None}
    record = stage.trial(in_turn(silent), prices=PRICES, cap_usd=4.0)
    assert record.outcome is Outcome.HARNESS_ERROR
    assert "does not say how many tokens a call took" in record.reason
    with FakeModelServer(lambda request: silent) as server:
        agent = agent_for(server.url, prices=PRICES, budget=Budget(PRICES, 4.0))
        with pytest.raises(ModelServerError, match="Run without --max-cost"):
            agent.check()


@pytest.mark.parametrize(
    "usage", [None, [], {"prompt_tokens": "many"}, {"prompt_tokens": -3}, {"prompt_tokens": True}]
)
def test_nonsense_for_usage_is_as_if_it_were_absent(stage: ModelStage, usage: Any) -> None:
    record = stage.trial(in_turn({**DONE, "usage": usage}), prices=PRICES)
    assert record.outcome is Outcome.DIAGNOSED
    assert (record.usage.input_tokens, record.usage.cost_usd) == (None, None)


def test_the_key_is_in_no_file_and_no_message_even_if_the_server_repeats_it(stage: ModelStage) -> None:
    masked = "sk-abcd********wxyz"

    def answer(request: dict[str, Any]) -> Answer:
        n = len(request["messages"])
        if n == 2:
            return completion(f"Your key is {KEY}", [shell(f"echo {KEY}")], reasoning_content=f"key: {KEY}")
        return Raw(401, error(f"Incorrect API key provided: {KEY} or {masked} (Bearer {KEY})"))

    record = stage.trial(answer)
    assert record.outcome is Outcome.HARNESS_ERROR
    texts = [path.read_text() for path in stage.path.rglob("*") if path.is_file()]
    texts += [repr(stage.steps), record.reason, repr(agent_for(stage.server.url).info)]
    assert sum("[key removed]" in text for text in texts) >= 3
    for text in texts:
        assert KEY not in text
        assert masked not in text


def test_a_short_placeholder_of_a_local_server_is_no_secret(
    stage: ModelStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "ollama")
    stage.trial(in_turn(completion("ollama says hello", [submit(CART)])))
    assert stage.steps[2].message == "ollama says hello"


def test_a_local_server_needs_no_key(stage: ModelStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    assert stage.trial(in_turn(DONE)).outcome is Outcome.DIAGNOSED


def test_trials_side_by_side_share_an_agent_and_mix_nothing(stage: ModelStage, tmp_path: Path) -> None:
    n_trials = 8
    gate = threading.Barrier(n_trials, timeout=60)

    def answer(request: dict[str, Any]) -> Answer:
        names = [m["content"].split("\n")[0] for m in request["messages"] if m["role"] == "tool"]
        mark = request["messages"][1]["content"]
        if len(names) < 3:
            return completion(calls=[shell(mark)], usage=USAGE)
        assert names == [f"ran {mark}"] * 3
        return completion(calls=[submit(f"shop/Deployment/{mark}")], usage=USAGE)

    with FakeModelServer(answer) as server:
        budget = Budget(PRICES, 1000.0)
        agent = agent_for(server.url, prices=PRICES, budget=budget)
        sessions = [_Session(f"m{number}", tmp_path / str(number), gate) for number in range(n_trials)]
        with ThreadPoolExecutor(n_trials) as pool:
            results = list(pool.map(agent.diagnose, sessions))
    for number, (session, result) in enumerate(zip(sessions, results, strict=True)):
        assert session.submitted == [{"root_causes": [{"entity": f"shop/Deployment/m{number}"}]}]
        assert result.usage.n_model_calls == 4
        assert result.usage.cost_usd == pytest.approx(4 * 2.4)
    # 8 trials of 4 calls of 2.4 dollars: none lost, none counted twice.
    assert budget.spent_usd == pytest.approx(76.8)


class _Session:
    """A trial without a sandbox, that waits until all others have begun: so they are at work together."""

    scenario_id = "scenario-001"
    repeat = 1
    hidden = ()

    def __init__(self, mark: str, folder: Path, gate: threading.Barrier) -> None:
        folder.mkdir()
        self.task, self.log_folder, self.gate = mark, folder, gate
        self.submitted: list[Any] = []
        self.n_commands = 0

    def begin_turn(self) -> int:
        if not self.n_commands:
            self.gate.wait()
        return 50

    def is_over(self) -> bool:
        return bool(self.submitted)

    def time_left_s(self) -> float:
        return 60.0

    def run_command(self, command: str, timeout_s: float | None = None) -> Any:
        from diagnose_bench.agents.base import CommandReply

        self.n_commands += 1
        time.sleep(0)
        return CommandReply(f"ran {command}\n".encode(), 0)

    def submit(self, data: bytes) -> Any:
        from diagnose_bench.agents.base import SubmitReply

        self.submitted.append(json.loads(data))
        return SubmitReply(True, "accepted")
