"""The messages of one conversation as the model's server gets them, valid whatever the model wrote.

Shortens the oldest tool outputs when the server says that they do not fit. Sends nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any

from diagnose_bench.agents.model.reply import ModelReply, RequestedCall

_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")
_STAGES = (4000, 1000, 200)
"""Characters that are left of an old output, one stage after the other."""
_SHARE = 4
"""A step takes away at least a quarter of what all outputs hold, so that few calls are lost on the way."""


@dataclass(frozen=True)
class _Output:
    """Where a tool output stands, whole, and which call it was of."""

    message: dict[str, Any]
    whole: str
    what: str
    turn: int


class History:
    """The conversation.

    Parameters
    ----------
    prompt, task : str
        What the model is told first.
    """

    def __init__(self, prompt: str, task: str) -> None:
        self.messages: list[dict[str, Any]] = [
            {"role": "system", "content": prompt},
            {"role": "user", "content": task},
        ]
        self._outputs: list[_Output] = []
        self._ids: set[str] = set()
        self._turn = 0

    def add_user(self, text: str) -> None:
        """Say something to the model."""
        self.messages.append({"role": "user", "content": text})

    def add_reply(self, reply: ModelReply) -> tuple[RequestedCall, ...]:
        """Take an answer into the conversation.

        Returns
        -------
        calls : tuple of RequestedCall
            Its tool calls, each with an id of its own, whatever ids the server gave.
        """
        self._turn += 1
        calls = tuple(replace(call, id=self._own_id(call.id)) for call in reply.calls)
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, **reply.extra}
        if not calls:
            message["content"] = reply.text
        elif reply.is_legacy:
            message["function_call"] = _function(calls[0])
        else:
            message["tool_calls"] = [
                {**call.extra, "id": call.id, "type": "function", "function": _function(call)}
                for call in calls
            ]
        self.messages.append(message)
        return calls

    def add_answer(self, call: RequestedCall, text: str, what: str, *, is_legacy: bool) -> None:
        """Take the answer of one tool call into the conversation."""
        if is_legacy:
            message = {"role": "function", "name": _safe_name(call.name), "content": text}
        else:
            message = {"role": "tool", "tool_call_id": call.id, "content": text}
        self.messages.append(message)
        self._outputs.append(_Output(message, text, what, self._turn))

    def shorten(self) -> tuple[str, ...]:
        """Take a good part of the oldest tool outputs away.

        Returns
        -------
        steps : tuple of str
            What was shortened, from how many characters to how many; nothing if nothing is left to take.

        Notes
        -----
        Those of the last turn come last, since the model has not seen them yet.
        """
        old = [output for output in self._outputs if output.turn < self._turn]
        new = [output for output in self._outputs if output.turn == self._turn]
        goal = sum(len(output.message["content"]) for output in self._outputs) // _SHARE
        steps: list[str] = []
        taken = 0
        for outputs, most in [(group, most) for group in (old, new) for most in _STAGES]:
            for output in outputs:
                content = output.message["content"]
                short = _shortened(output.whole, most)
                if len(short) >= len(content):
                    continue
                output.message["content"] = short
                taken += len(content) - len(short)
                steps.append(f"{output.what}: {len(content)} -> {len(short)} characters")
                if taken >= goal:
                    return tuple(steps)
        return tuple(steps)

    def _own_id(self, given: str) -> str:
        """An id that no other call has; nine letters and digits, which the strictest servers ask for."""
        found = given if re.fullmatch(r"[A-Za-z0-9_.:|-]{1,64}", given) else ""
        number = len(self._ids)
        while not found or found in self._ids:
            found = f"call{number:05d}"
            number += 1
        self._ids.add(found)
        return found


def _function(call: RequestedCall) -> dict[str, str]:
    """Name and arguments as a server takes them back: some fail on what their own model wrote."""
    try:
        is_object = isinstance(json.loads(call.arguments, parse_constant=_refuse), dict)
    except (ValueError, RecursionError):
        is_object = False
    arguments = call.arguments if is_object else json.dumps({"malformed": call.arguments})
    return {"name": _safe_name(call.name), "arguments": arguments}


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _safe_name(name: str) -> str:
    return _NOT_IN_NAME.sub("_", name)[:64] or "unnamed"


def _shortened(text: str, most: int) -> str:
    note = f"\n[diagnose-bench: shortened from {len(text)} characters, as the conversation became too long]\n"
    if len(text) <= most + len(note):
        return text
    return text[: most * 3 // 4] + note + text[len(text) - most // 4 :]
