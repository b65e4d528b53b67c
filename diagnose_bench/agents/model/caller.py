"""One answer of the model out of as many calls as it takes: waiting, shortening, giving up; each on record.

Knows the trial's clock and the run's budget. What the answer means is the loop's business.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from diagnose_bench.agents.base import TrialOver, TrialSession
from diagnose_bench.agents.model.client import ModelClient, Stopped
from diagnose_bench.agents.model.failures import FailureKind, ModelCallFailed, ModelServerError
from diagnose_bench.agents.model.history import History
from diagnose_bench.agents.model.ledger import CallLedger
from diagnose_bench.agents.model.prices import Budget
from diagnose_bench.agents.model.reply import ModelReply, read_reply
from diagnose_bench.agents.model.retry import RetryPolicy, wait
from diagnose_bench.agents.model.settings import TOKEN_FIELDS, ModelSettings
from diagnose_bench.detection.events import now
from diagnose_bench.records import Usage

NO_USAGE = (
    "{url} does not say how many tokens a call took, so --max-cost cannot be held. Run without --max-cost."
)
_MOST_FAILURES_KEPT = 50


@dataclass
class Dialect:
    """What was learnt about a server; shared by the trials, so that each is asked once."""

    token_field: str


@dataclass(frozen=True)
class Answered:
    """An answer and what it took."""

    reply: ModelReply
    usage: Usage


class DoesNotFit(Exception):
    """The conversation is too long for the model, and nothing is left that could be shortened."""


class Blocked(Exception):
    """A filter of the model's server takes the request as it is."""


@dataclass
class Caller:
    """Makes the model calls of one trial; used by one thread.

    Attributes
    ----------
    n_calls, n_retries : int
        Calls that were answered, and calls that failed.
    """

    client: ModelClient
    settings: ModelSettings
    dialect: Dialect
    policy: RetryPolicy
    budget: Budget
    ledger: CallLedger
    session: TrialSession
    tools: list[dict[str, Any]]
    on_shortened: Callable[[tuple[str, ...]], None] = lambda steps: None
    n_calls: int = 0
    n_retries: int = 0
    _failures: list[str] = field(default_factory=list)
    _token_field: str = ""
    _is_switched: bool = False

    def ask(self, history: History) -> Answered:
        """Get the next answer.

        Raises
        ------
        ModelServerError
            The server does not do its part.
        DoesNotFit, Blocked
            It cannot be asked this.
        TrialOver
            The trial ended while the call went on.
        """
        began, started_at = time.monotonic(), now()
        self._failures = []
        self._is_switched = False
        reply: ModelReply | None = None
        usage = Usage()
        try:
            reply = self._reply(history)
            usage = self._account(reply)
        finally:
            self._record(started_at, time.monotonic() - began, reply, usage)
        self.n_calls += 1
        return Answered(reply, usage)

    def _reply(self, history: History) -> ModelReply:
        waited_s, n_failed = 0.0, 0
        while True:
            began = time.monotonic()
            try:
                return self._try(history)
            except ModelCallFailed as failure:
                # The agent pays for no call that failed.
                self.session.give_back(time.monotonic() - began)
                if failure.kind is FailureKind.OUTPUT_LIMIT:
                    return ModelReply(finish_reason="length")
                self.n_retries += 1
                if len(self._failures) < _MOST_FAILURES_KEPT:
                    self._failures.append(failure.message)
                if not failure.kind.is_temporary:
                    self._adapt(failure, history)
                    continue
                n_failed += 1
                delay_s = self.policy.delay_s(failure, n_failed, waited_s)
                if delay_s is None:
                    raise ModelServerError(_gave_up(failure, n_failed)) from None
                with self.session.paused():
                    wait(delay_s, self.session.is_over)
                waited_s += delay_s

    def _try(self, history: History) -> ModelReply:
        self._token_field = self.dialect.token_field
        request = {
            **self.settings.parameters(self.session.repeat, self._token_field),
            "messages": history.messages,
            "tools": self.tools,
        }
        try:
            if self.session.is_over():
                raise Stopped
            return read_reply(self.client.complete(request, self.session.is_over), self.client.base_url)
        except Stopped:
            if self.n_calls == 0 and self.session.time_left_s() <= 0:
                raise ModelServerError(
                    f"{self.client.base_url} gave no answer at all within the trial's time limit."
                ) from None
            raise TrialOver("The trial ended while the model was asked.") from None

    def _adapt(self, failure: ModelCallFailed, history: History) -> None:
        """Change what is sent so that the next call can succeed, or raise."""
        if failure.kind is FailureKind.CONTEXT:
            steps = history.shorten()
            if not steps:
                raise DoesNotFit(failure.message) from None
            self.on_shortened(steps)
        elif failure.kind is FailureKind.FILTER:
            raise Blocked(failure.message) from None
        elif failure.kind is FailureKind.TOKEN_FIELD and self._other_token_field():
            pass
        else:
            raise ModelServerError(failure.message) from None

    def _other_token_field(self) -> bool:
        """Switch to the name that was not sent; False where this call was refused with both."""
        if self._is_switched or self.settings.max_output_tokens is None:
            return False
        first, second = TOKEN_FIELDS
        self.dialect.token_field = second if self._token_field == first else first
        self._is_switched = True
        return True

    def _account(self, reply: ModelReply) -> Usage:
        tokens = reply.tokens
        cost = self.budget.add(tokens)
        if cost is None and self.budget.needs_usage:
            raise ModelServerError(NO_USAGE.format(url=self.client.base_url))
        return Usage(
            input_tokens=tokens.input_tokens,
            output_tokens=tokens.output_tokens,
            reasoning_tokens=tokens.reasoning_tokens,
            cached_tokens=tokens.cached_tokens,
            n_model_calls=1,
            n_model_retries=len(self._failures),
            cost_usd=cost,
        )

    def _record(self, started_at: str, seconds: float, reply: ModelReply | None, usage: Usage) -> None:
        self.ledger.append(
            {
                "started_at": started_at,
                "seconds": seconds,
                "answered": reply is not None,
                "model": None if reply is None else reply.model,
                "finish_reason": None if reply is None else reply.finish_reason,
                "failures": self._failures,
                **usage.model_dump(mode="json", exclude={"n_model_calls", "n_model_retries"}),
            }
        )


def total(usages: list[Usage], n_retries: int) -> Usage:
    """Usage of a trial; a number that one of its calls lacks is not known for the whole."""

    def summed(values: list[int | None]) -> int | None:
        known = [value for value in values if value is not None]
        return sum(known) if known and len(known) == len(values) else None

    costs = [usage.cost_usd for usage in usages if usage.cost_usd is not None]
    return Usage(
        input_tokens=summed([usage.input_tokens for usage in usages]),
        output_tokens=summed([usage.output_tokens for usage in usages]),
        reasoning_tokens=summed([usage.reasoning_tokens for usage in usages]),
        cached_tokens=summed([usage.cached_tokens for usage in usages]),
        n_model_calls=len(usages),
        n_model_retries=n_retries,
        cost_usd=sum(costs) if costs and len(costs) == len(usages) else None,
    )


def _gave_up(failure: ModelCallFailed, n_failed: int) -> str:
    asked = failure.retry_after_s
    if asked is not None and n_failed == 1:
        tries = f"It asks to wait {asked:.0f} seconds, which is more than is waited for one call."
    else:
        tries = f"It was tried {n_failed} times." if n_failed > 1 else "It was tried once."
    return f"{failure.message}\n{tries} The trial is no answer of the agent; try again with --resume."
