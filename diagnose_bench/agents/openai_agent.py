"""``openai:MODEL``: our own loop around any server that speaks the OpenAI Chat Completions API.

Holds what the trials of a run share: connection, settings, prices, budget. A trial's state is its own.
"""

from __future__ import annotations

from typing import Any

from diagnose_bench.agents.base import AgentKind, AgentResult, TrialSession
from diagnose_bench.agents.model.caller import NO_USAGE, Caller, Dialect
from diagnose_bench.agents.model.client import Connection, ModelClient
from diagnose_bench.agents.model.failures import FailureKind, ModelCallFailed, ModelServerError
from diagnose_bench.agents.model.history import History
from diagnose_bench.agents.model.ledger import CallLedger, spent_usd
from diagnose_bench.agents.model.loop import Loop
from diagnose_bench.agents.model.prices import Budget, Prices, check_cap, read_prices
from diagnose_bench.agents.model.reply import read_reply
from diagnose_bench.agents.model.retry import NORMAL, RetryPolicy, wait
from diagnose_bench.agents.model.settings import (
    TOKEN_FIELDS,
    ModelSettings,
    finite,
    first_token_field,
    read_prompt,
)
from diagnose_bench.agents.model.tools import tool_definitions, tools_digest
from diagnose_bench.agents.options import NO_OPTIONS, AgentOptions
from diagnose_bench.files import canonical_json, sha256_of_bytes
from diagnose_bench.records import AgentInfo

LOOP_VERSION = 1
"""Counts up when the loop itself changes so that a score can change."""
CHECK_TEXT = "This is a test of the connection before a measurement. Answer with the one word ready."
_CHECK_ATTEMPTS = 3
_PROVE_NOTHING_WRONG = (
    FailureKind.RATE_LIMIT,
    FailureKind.CONTEXT,
    FailureKind.FILTER,
    FailureKind.OUTPUT_LIMIT,
)
"""Failures that only a right key and a known model get."""


class OpenAIAgent:
    """A model behind an API, with a shell and a way to submit.

    Parameters
    ----------
    settings : ModelSettings
        What is sent with each call.
    connection : Connection
        Where to.
    name : str or None
        What it is called in results; ``openai:MODEL`` by default.
    prices : Prices or None
        Of the model.
    budget : Budget or None
        Shared by all trials; none caps nothing.
    policy : RetryPolicy
        How failed calls are tried again.
    """

    kind: AgentKind = "model"

    def __init__(
        self,
        settings: ModelSettings,
        connection: Connection,
        *,
        name: str | None = None,
        prices: Prices | None = None,
        budget: Budget | None = None,
        policy: RetryPolicy = NORMAL,
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._budget = budget or Budget(prices, None)
        self._policy = policy
        self._tools = tool_definitions()
        self._dialect = Dialect(first_token_field(connection.base_url))
        self._info = AgentInfo(
            name=name or f"openai:{settings.model}",
            model=settings.model,
            config_digest=sha256_of_bytes(canonical_json(self._config())),
            config={
                **self._config(),
                "sdk": f"openai {connection.sdk_version}",
                "prices_usd_per_million": None if prices is None else prices.as_dict(),
            },
        )

    @property
    def info(self) -> AgentInfo:
        """The model, and every setting of ours that can move its score."""
        return self._info

    def check(self) -> None:
        """Make one short call: key, model, address and options are tried before the first trial.

        Raises
        ------
        ModelServerError
            The server does not answer, or refuses; the message says what to mend.
        """
        fields = [self._dialect.token_field]
        fields += [field for field in TOKEN_FIELDS if field not in fields]
        with self._connection.client(self._policy.request_s) as client:
            for n_failed in range(1, _CHECK_ATTEMPTS + 1):
                try:
                    self._check_once(client, self._dialect.token_field)
                except ModelCallFailed as failure:
                    if failure.kind is FailureKind.TOKEN_FIELD and n_failed == 1:
                        self._dialect.token_field = fields[1]
                    elif failure.kind in _PROVE_NOTHING_WRONG:
                        return
                    elif failure.kind is not FailureKind.SERVER or n_failed == _CHECK_ATTEMPTS:
                        raise ModelServerError(failure.message) from None
                    else:
                        wait(self._policy.first_s * n_failed, lambda: False)
                else:
                    return

    def _check_once(self, client: ModelClient, token_field: str) -> None:
        request = {
            **self._settings.parameters(1, token_field),
            "messages": [{"role": "user", "content": CHECK_TEXT}],
            "tools": self._tools,
        }
        reply = read_reply(client.complete(request, lambda: False), client.base_url)
        if self._budget.add(reply.tokens) is None and self._budget.needs_usage:
            raise ModelCallFailed(FailureKind.SETUP, NO_USAGE.format(url=client.base_url))

    def diagnose(self, session: TrialSession) -> AgentResult:
        """Ask the model turn by turn.

        Raises
        ------
        ModelServerError
            The server does not do its part: no answer of the agent.
        SpendCapError
            The run's money is spent.
        """
        history = History(self._settings.prompt, session.task)
        with self._connection.client(self._policy.request_s) as client:
            caller = Caller(
                client=client,
                settings=self._settings,
                dialect=self._dialect,
                policy=self._policy,
                budget=self._budget,
                ledger=CallLedger(session.log_folder),
                session=session,
                tools=self._tools,
            )
            return Loop(session, history, caller).run()

    def _config(self) -> dict[str, Any]:
        settings = self._settings
        return {
            "loop": LOOP_VERSION,
            "base_url": self._connection.base_url,
            "model": settings.model,
            "temperature": settings.temperature,
            "seed": settings.seed,
            "max_output_tokens": settings.max_output_tokens,
            "reasoning_effort": settings.reasoning_effort,
            "prompt_digest": settings.prompt_digest,
            "tools_digest": tools_digest(),
        }


def make_openai_agent(model: str, name: str | None = None, options: AgentOptions = NO_OPTIONS) -> OpenAIAgent:
    """Make the agent ``openai:MODEL``; everything that can be checked without the server is.

    Raises
    ------
    UsageError
        An option cannot be, a file cannot be read, or the SDK or a key is missing.
    """
    finite(options.temperature, "--temperature")
    prompt, digest = read_prompt(options.prompt)
    settings = ModelSettings(
        model=model,
        prompt=prompt,
        prompt_digest=digest,
        temperature=options.temperature,
        seed=options.seed,
        max_output_tokens=options.max_output_tokens,
        reasoning_effort=options.reasoning_effort,
    )
    prices = None if options.prices is None else read_prices(options.prices, model)
    check_cap(options.max_cost_usd, prices, options.prices, model)
    counts = options.spent_in if options.max_cost_usd is not None else None
    spent = 0.0 if counts is None else spent_usd(counts)
    return OpenAIAgent(
        settings,
        Connection(options.base_url),
        name=name,
        prices=prices,
        budget=Budget(prices, options.max_cost_usd, spent),
    )
