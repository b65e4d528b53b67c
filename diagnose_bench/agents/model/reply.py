"""What a model said, read out of the JSON of a chat completion, whichever server wrote it.

Believes nothing: a field of the wrong type is as if it were absent. Only an answer without any message is a
failure of the server.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from diagnose_bench.agents.model.failures import FailureKind, ModelCallFailed

_MOST_TOKENS = 10**12
_REASONING_FIELDS = ("reasoning_content", "reasoning")
_RETURNED = ("reasoning_content", "reasoning", "reasoning_details")
"""Fields beside the standard that some servers want back with the message, or the model forgets."""


@dataclass(frozen=True)
class RequestedCall:
    """One tool call as the model wrote it.

    Attributes
    ----------
    id, name, arguments : str
        Empty where absent; the arguments are text that should be JSON.
    extra : mapping
        Fields beside the standard, which the server wants back.
    """

    id: str
    name: str
    arguments: str
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TokenCounts:
    """Tokens of one call; None where the server does not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None


@dataclass(frozen=True)
class ModelReply:
    """One answer.

    Attributes
    ----------
    text, reasoning, refusal : str
        Empty where absent.
    calls : tuple of RequestedCall
        In the order of the answer.
    finish_reason : str
        As the server says it.
    model : str
        The model that the server says has answered.
    is_legacy : bool
        Whether the call came as ``function_call``, and has to be answered in that form.
    """

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: tuple[RequestedCall, ...] = ()
    finish_reason: str = ""
    model: str = ""
    tokens: TokenCounts = TokenCounts()
    is_legacy: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)


def read_reply(body: Mapping[str, Any], url: str) -> ModelReply:
    """Read one answer.

    Raises
    ------
    ModelCallFailed
        There is no message in it.
    """
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise ModelCallFailed(FailureKind.SERVER, f"{url} answered without any message (no choices).")
    calls, is_legacy = _calls(message)
    extra = {name: _clean(message[name]) for name in _RETURNED if message.get(name)}
    reasoning = next((text for name in _REASONING_FIELDS if (text := _text(message.get(name)))), "")
    return ModelReply(
        text=_text(message.get("content")),
        reasoning=reasoning,
        refusal=_text(message.get("refusal")),
        calls=calls,
        finish_reason=_text(choice.get("finish_reason")),
        model=_text(body.get("model"))[:200],
        tokens=_tokens(body.get("usage")),
        is_legacy=is_legacy,
        extra=extra,
    )


def _calls(message: Mapping[str, Any]) -> tuple[tuple[RequestedCall, ...], bool]:
    listed = message.get("tool_calls")
    found = [_call(entry) for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    if found:
        return tuple(found), False
    legacy = message.get("function_call")
    if isinstance(legacy, dict):
        return (RequestedCall("", _text(legacy.get("name")), _arguments(legacy.get("arguments"))),), True
    return (), False


def _call(entry: Mapping[str, Any]) -> RequestedCall:
    function = entry.get("function")
    if not isinstance(function, dict):
        custom = entry.get("custom")
        function = custom if isinstance(custom, dict) else {}
    extra = {name: _clean(value) for name, value in entry.items() if name not in ("id", "type", "function")}
    extra.pop("index", None)
    return RequestedCall(
        _text(entry.get("id")),
        _text(function.get("name")),
        _arguments(function.get("arguments", function.get("input"))),
        extra,
    )


def _arguments(value: Any) -> str:
    """Arguments as text: some servers give the object itself."""
    if value is None:
        return ""
    return _encodable(value) if isinstance(value, str) else json.dumps(_clean(value))


def _text(value: Any) -> str:
    """A text, also one that comes in parts."""
    if isinstance(value, str):
        return _encodable(value)
    if isinstance(value, list):
        parts = [part.get("text") if isinstance(part, dict) else part for part in value]
        return "".join(_encodable(part) for part in parts if isinstance(part, str))
    return ""


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return _encodable(value)
    if isinstance(value, list):
        return [_clean(entry) for entry in value]
    if isinstance(value, dict):
        return {_encodable(name): _clean(entry) for name, entry in value.items()}
    return value


def _encodable(text: str) -> str:
    """A text that can be written as UTF-8: JSON can name halves of characters."""
    return text.encode("utf-8", "replace").decode()


def _tokens(usage: Any) -> TokenCounts:
    if not isinstance(usage, dict):
        return TokenCounts()
    sent, made = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    cached = sent.get("cached_tokens") if isinstance(sent, dict) else None
    thought = made.get("reasoning_tokens") if isinstance(made, dict) else None
    if cached is None:
        cached = usage.get("prompt_cache_hit_tokens")
    input_tokens, cached_tokens = _count(usage.get("prompt_tokens")), _count(cached)
    if cached_tokens is not None:
        cached_tokens = min(cached_tokens, input_tokens or 0)
    return TokenCounts(input_tokens, _count(usage.get("completion_tokens")), _count(thought), cached_tokens)


def _count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
    return value if is_count else None
