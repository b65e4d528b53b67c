"""Why a call of a model's server failed, and what follows: wait, shorten, stop. Sends nothing itself."""

from __future__ import annotations

import email.utils
import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from diagnose_bench.agents.base import TrialFailed

_MESSAGE_LENGTH = 500
_QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
_FILTER_CODES = frozenset(
    {"content_filter", "content_policy_violation", "invalid_prompt", "ResponsibleAIPolicyViolation"}
)
_CONTEXT = re.compile(
    r"context[ _]?(?:length|window|size)|maximum context|too many (?:input |prompt )?tokens|"
    r"(?:prompt|input|request)(?: is)? too (?:long|large)|"
    r"exceeds? (?:the )?(?:model'?s )?(?:max|limit).{0,40}token|"
    r"input length and `?max_(?:completion_)?tokens`? exceed",
    re.IGNORECASE,
)
_TOKEN_FIELD = re.compile(r"max_(?:completion_)?tokens")
_OUTPUT_CUT = re.compile(r"max_tokens or model output limit was reached", re.IGNORECASE)
_TEMPORARY = frozenset({408, 409, 425})


class ModelServerError(TrialFailed):
    """The server of a model fails, refuses the key, or does not know the model: not the agent's fault."""


class FailureKind(StrEnum):
    """What follows from a failure."""

    RATE_LIMIT = "rate_limit"
    SERVER = "server"
    SETUP = "setup"
    """Key, model, address or a parameter are wrong: trying again changes nothing."""
    CONTEXT = "context"
    FILTER = "filter"
    TOKEN_FIELD = "token_field"
    """The server wants the other name for the most tokens of an answer."""
    OUTPUT_LIMIT = "output_limit"
    """The model ran out of output tokens before it said anything."""

    @property
    def is_temporary(self) -> bool:
        """Whether the same call may succeed later."""
        return self in (FailureKind.RATE_LIMIT, FailureKind.SERVER)


class ModelCallFailed(Exception):
    """One call failed.

    Parameters
    ----------
    kind : FailureKind
        What follows.
    message : str
        What a person is told; keys are removed before it is shown.
    retry_after_s : float or None
        What the server asks to wait.
    """

    def __init__(self, kind: FailureKind, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.retry_after_s = retry_after_s


@dataclass(frozen=True)
class _Said:
    """What the body of an error says."""

    text: str
    code: str
    is_json: bool


def failure_of_status(
    status: int, headers: Mapping[str, str], body: bytes, *, model: str, url: str
) -> ModelCallFailed:
    """The failure that an answer with an error status is.

    Parameters
    ----------
    status : int
        HTTP status.
    headers : mapping
        With names in lower case.
    body : bytes
        The beginning of the body.
    model, url : str
        What was asked for, and where, for messages.
    """
    said = _read(body)
    where = f"{url} answered {status}"
    told = f"{where}: {said.text}" if said.text else f"{where}."
    wait_s = _retry_after(headers)
    if status in (401, 403):
        return ModelCallFailed(
            FailureKind.SETUP, f"{told}\nThe key is wrong or may not use {model!r}. Check OPENAI_API_KEY."
        )
    if status == 402 or said.code in _QUOTA_CODES:
        return ModelCallFailed(FailureKind.SETUP, f"{told}\nThe account has no credit left. Add some.")
    if status == 404:
        return ModelCallFailed(FailureKind.SETUP, _not_found(told, said, model))
    if status == 429:
        return ModelCallFailed(FailureKind.RATE_LIMIT, told, wait_s)
    if said.code in _FILTER_CODES:
        return ModelCallFailed(FailureKind.FILTER, told)
    if _OUTPUT_CUT.search(said.text):
        return ModelCallFailed(FailureKind.OUTPUT_LIMIT, told)
    if status == 413 or said.code == "context_length_exceeded" or _CONTEXT.search(said.text):
        return ModelCallFailed(FailureKind.CONTEXT, told)
    if status >= 500 or status in _TEMPORARY:
        return ModelCallFailed(FailureKind.SERVER, told, wait_s)
    if _TOKEN_FIELD.search(said.text):
        return ModelCallFailed(FailureKind.TOKEN_FIELD, told)
    if said.code == "model_not_found":
        return ModelCallFailed(FailureKind.SETUP, _not_found(told, said, model))
    return ModelCallFailed(
        FailureKind.SETUP,
        f"{told}\nThe server refuses the request. Leave out the option that it names, or take another model.",
    )


def failure_of_body(body: Mapping[str, Any], *, model: str, url: str) -> ModelCallFailed | None:
    """The failure that an answer with status 200 may hold all the same."""
    error = body.get("error")
    if error is None or body.get("choices"):
        return None
    code = error.get("code") if isinstance(error, dict) else None
    status = code if isinstance(code, int) and 400 <= code < 600 else 500
    return failure_of_status(status, {}, json.dumps({"error": error}).encode(), model=model, url=url)


def not_the_api(body: bytes, url: str) -> ModelCallFailed:
    """The failure that an answer is which is no JSON object."""
    if body.lstrip()[:1] == b"<":
        what = "answered with a web page and not with the API"
    elif not body.strip():
        what = "answered with an empty body"
    else:
        what = "answered with something that is no JSON object, or was cut off"
    return ModelCallFailed(FailureKind.SERVER, f"{url} {what}. Check --base-url: it usually ends in /v1.")


def _not_found(told: str, said: _Said, model: str) -> str:
    if said.is_json and "model" in f"{said.text} {said.code}".lower():
        return f"{told}\nThe server knows no model {model!r}. Check the name after openai:."
    return f"{told}\nEither the address or the model {model!r} is wrong: --base-url usually ends in /v1."


def _read(body: bytes) -> _Said:
    """Message and code of an error; servers have several shapes for it."""
    text = body.decode("utf-8", "replace").strip()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        page = re.search(r"(?is)<title[^>]*>(.{1,200}?)</title>", text)
        if page is not None:
            return _Said(f"a web page, {_line(page.group(1))!r}", "", False)
        return _Said("a web page" if text[:1] == "<" else _line(text), "", False)
    error = value.get("error", value) if isinstance(value, dict) else value
    if not isinstance(error, dict):
        return _Said(_line(str(error)), "", True)
    message = error.get("message") or error.get("detail") or error.get("msg") or json.dumps(error)
    codes = [error.get("code"), error.get("type")]
    inner = error.get("innererror")
    if isinstance(inner, dict):
        codes.insert(0, inner.get("code"))
    known = _QUOTA_CODES | _FILTER_CODES | {"context_length_exceeded", "model_not_found"}
    named = [code for code in codes if isinstance(code, str)]
    code = next((code for code in named if code in known), named[0] if named else "")
    return _Said(_line(message if isinstance(message, str) else json.dumps(message)), code, True)


def _line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MESSAGE_LENGTH else text[: _MESSAGE_LENGTH - 1] + "…"


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait: in milliseconds, in seconds, or as a date."""
    for name, divisor in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) / divisor
        except (KeyError, ValueError):
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    try:
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, date.timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None
