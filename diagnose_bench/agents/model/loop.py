"""The turns of one trial: ask the model, do what its tools ask for, until a diagnosis or a limit.

Follows the published protocol: a turn is one model call, and the last twenty are announced. What the model
does wrong is said to it, a bounded number of times; what its server does wrong is raised.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from diagnose_bench.agents.base import AgentResult, AgentStep, ToolCall, TrialOver, TrialSession
from diagnose_bench.agents.model.caller import Answered, Blocked, Caller, DoesNotFit, total
from diagnose_bench.agents.model.failures import ModelServerError
from diagnose_bench.agents.model.history import History
from diagnose_bench.agents.model.reply import ModelReply, RequestedCall
from diagnose_bench.agents.model.tools import SHELL, SUBMIT, ToolAnswer, run_tool
from diagnose_bench.detection.events import now
from diagnose_bench.diagnosis_reader import read_diagnosis
from diagnose_bench.outcome import Outcome
from diagnose_bench.records import Usage

REMINDED_TURNS = 20
MOST_IDLE_TURNS = 4
"""So many turns in a row without a tool call end the trial with the last text as the answer."""
_REFUSED = b'{"refused": true}'
_GO_ON = (
    f"[diagnose-bench] That was no tool call. Go on with {SHELL}, or hand in the diagnosis with {SUBMIT}: "
    "nobody else reads this."
)
_CUT = (
    "[diagnose-bench] Your message was cut off at the limit of its length before any tool call. Be brief "
    f"and call {SHELL} or {SUBMIT}."
)
_FILTERED = (
    "[diagnose-bench] Your message was withheld by a content filter of the model's server. Go on with "
    f"{SHELL}, or hand in the diagnosis with {SUBMIT}."
)
_CUT_CALL = (
    "\n[diagnose-bench] Your message was cut off at the limit of its length, so the call is incomplete."
)
_NOT_RUN = "Not done: the trial was over before this call."


@dataclass
class Loop:
    """One trial's turns."""

    session: TrialSession
    history: History
    caller: Caller
    steps: list[AgentStep] = field(default_factory=list)
    _usages: list[Usage] = field(default_factory=list)
    _n_idle: int = 0

    def __post_init__(self) -> None:
        self.caller.on_shortened = self.note_shortened

    def run(self) -> AgentResult:
        """Work until a diagnosis is in, the trial is over, or the model gives up.

        Raises
        ------
        ModelServerError
            With what had been done until then.
        SpendCapError
            The run's money is spent.
        """
        for message in self.history.messages:
            self._say("system" if message["role"] == "system" else "user", message["content"])
        try:
            while True:
                result = self._turn()
                if result is not None:
                    return result
        except TrialOver:
            return self.result()
        except DoesNotFit as error:
            return self.result(error=f"The conversation does not fit the model any more. {error}")
        except Blocked as error:
            return self.result(error=f"A filter of the model's server blocks the conversation. {error}")
        except ModelServerError as error:
            done = self.result()
            raise ModelServerError(str(error), usage=done.usage, steps=done.steps) from error

    def result(self, final_output: bytes | None = None, error: str | None = None) -> AgentResult:
        """What has been done until now."""
        usage = total(self._usages, self.caller.n_retries)
        return AgentResult(final_output, error, usage, tuple(self.steps))

    def note_shortened(self, done: tuple[str, ...]) -> None:
        """Put on record that old outputs were shortened."""
        listed = "; ".join(done)
        self._say(
            "system",
            f"[diagnose-bench] The conversation was too long for the model. Shortened: {listed}.",
        )

    def _turn(self) -> AgentResult | None:
        left = self.session.begin_turn()
        self.caller.budget.check()
        if not self._usages and left < REMINDED_TURNS:
            self._announce(left)
        answered = self.caller.ask(self.history)
        self._usages.append(answered.usage)
        reply = answered.reply
        if reply.refusal and not reply.calls:
            self._keep(answered, ())
            return self.result(final_output=_REFUSED)
        if not reply.calls:
            return self._text_turn(answered, left)
        self._n_idle = 0
        self._tool_turn(answered, left)
        return self.result() if self.session.is_over() else None

    def _tool_turn(self, answered: Answered, left: int) -> None:
        reply = answered.reply
        calls = self.history.add_reply(reply)
        kept: list[ToolCall] = []
        for number, call in enumerate(calls, 1):
            answer = self._answer(call)
            is_last = number == len(calls)
            text = answer.text
            if is_last and reply.finish_reason == "length":
                text += _CUT_CALL
            if is_last and 0 < left <= REMINDED_TURNS:
                text += f"\n{turns_left(left)}"
            what = f"answer to {call.name[:40] or 'a call'}"
            if answer.command is not None:
                what = f"output of command {answer.command}"
            self.history.add_answer(call, text, what, is_legacy=reply.is_legacy)
            kept.append(ToolCall(call.id, call.name, call.arguments, text, answer.command))
        self._keep(answered, tuple(kept))

    def _answer(self, call: RequestedCall) -> ToolAnswer:
        if self.session.is_over():
            return ToolAnswer(_NOT_RUN)
        before = self.session.n_commands
        try:
            return run_tool(self.session, call.name, call.arguments)
        except TrialOver as over:
            # Also after a command: the time may have ended while it ran.
            n = self.session.n_commands
            return ToolAnswer(str(over), n if n > before else None)

    def _text_turn(self, answered: Answered, left: int) -> AgentResult | None:
        reply = answered.reply
        self.history.add_reply(reply)
        self._keep(answered, ())
        text = reply.text.encode()
        self._n_idle += 1
        is_answer = bool(text.strip()) and read_diagnosis(text).outcome in (
            Outcome.DIAGNOSED,
            Outcome.REFUSED,
        )
        if is_answer or self._n_idle >= MOST_IDLE_TURNS:
            return self.result(final_output=text)
        if left == 0:
            return None
        note = _advice(reply)
        if left <= REMINDED_TURNS:
            note += f"\n{turns_left(left)}"
        self.history.add_user(note)
        self._say("user", note)
        return None

    def _announce(self, left: int) -> None:
        """Say at once that there are few turns: the first answer may be the last."""
        note = turns_left(left + 1)
        self.history.add_user(note)
        self._say("user", note)

    def _keep(self, answered: Answered, calls: tuple[ToolCall, ...]) -> None:
        reply = answered.reply
        message = reply.text or reply.refusal
        self.steps.append(AgentStep("agent", now(), message, reply.reasoning, calls, answered.usage))

    def _say(self, source: str, message: str) -> None:
        self.steps.append(AgentStep("system" if source == "system" else "user", now(), message))


def turns_left(left: int) -> str:
    """What a model is told when turns become few."""
    if left == 1:
        return "[diagnose-bench] 1 turn is left. No command is run in it: hand in the diagnosis now."
    return f"[diagnose-bench] {left} turns are left."


def _advice(reply: ModelReply) -> str:
    if reply.finish_reason == "length":
        return _CUT
    return _FILTERED if reply.finish_reason == "content_filter" else _GO_ON
