"""One model call through the OpenAI SDK: request out, answer in, bounded, and given up when asked.

Never tries again, reads no meaning into an answer, and lets no key into a message. The SDK is imported here
alone, and late.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
import sys
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from diagnose_bench.agents.model.failures import (
    FailureKind,
    ModelCallFailed,
    failure_of_body,
    failure_of_status,
    not_the_api,
)
from diagnose_bench.agents.model.secrets import Secrets
from diagnose_bench.agents.model.settings import check_base_url
from diagnose_bench.errors import UsageError

_MAX_ANSWER = 4 << 20
_MAX_ERROR = 64 << 10
_POLL_S = 0.2
_PLACEHOLDER = "unused"
"""Sent where no key is set and the server is the user's own; the SDK refuses to send none."""
_KEY_VARIABLES = ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY")
_SECRET_HEADER = re.compile("(?i)auth|key|token|secret|cookie")


class Stopped(Exception):
    """Nobody waits for the answer any more."""


class Connection:
    """Where the model's server is and what it is sent as proof; makes clients.

    Parameters
    ----------
    base_url : str or None
        None for ``OPENAI_BASE_URL``, or else the SDK's own.

    Raises
    ------
    UsageError
        The SDK is not installed, the address is none, or a key is missing.
    """

    def __init__(self, base_url: str | None) -> None:
        try:
            import openai
        except ImportError as error:
            raise UsageError(
                f"--agent openai:MODEL needs the OpenAI SDK: {sys.executable} -m pip install 'openai>=3.57'"
            ) from error
        asked = base_url or os.environ.get("OPENAI_BASE_URL")
        if asked:
            check_base_url(asked)
        key = os.environ.get("OPENAI_API_KEY")
        if key and not (key.isascii() and key.isprintable() and " " not in key):
            raise UsageError("OPENAI_API_KEY holds a blank or a line break, which no key has. Set it again.")
        if not key and not asked:
            raise UsageError(
                "--agent openai:MODEL: there is no key. Set OPENAI_API_KEY, or give --base-url for a server "
                "that needs none."
            )
        self._sdk: Any = openai
        self._asked = asked
        self._key = key or _PLACEHOLDER
        self.sdk_version = str(openai.__version__)
        self.base_url = str(asked or "https://api.openai.com/v1").rstrip("/")
        self.secrets = Secrets(_secret_values())

    def client(self, request_s: float) -> ModelClient:
        """A client for one trial; a context manager."""
        return ModelClient(self, request_s)

    def _open(self, request_s: float, hook: Callable[[Any], Any]) -> Any:
        http = self._sdk.DefaultAsyncHttpxClient(event_hooks={"response": [hook]}, timeout=request_s)
        return self._sdk.AsyncOpenAI(
            api_key=self._key, base_url=self._asked, max_retries=0, timeout=request_s, http_client=http
        )


class ModelClient:
    """Calls of one trial over one connection; used by one thread."""

    def __init__(self, connection: Connection, request_s: float) -> None:
        self.base_url = connection.base_url
        self._connection = connection
        self._request_s = request_s

    def __enter__(self) -> ModelClient:
        self._runner = asyncio.Runner()
        try:
            self._client = self._connection._open(self._request_s, self._refuse_errors)
        except BaseException:
            self._runner.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._runner:
            self._runner.run(self._client.close())

    def complete(self, request: Mapping[str, Any], must_stop: Callable[[], bool]) -> dict[str, Any]:
        """Make one call.

        Parameters
        ----------
        request : mapping
            Arguments of a chat completion.
        must_stop : callable
            Asked a few times a second; the call is given up once it says so.

        Raises
        ------
        ModelCallFailed
            There is no answer.
        Stopped
            It was given up.
        """
        self._model = str(request["model"])
        try:
            body = self._runner.run(self._attend(request, must_stop))
        except ModelCallFailed as failure:
            hidden = self._connection.secrets.without_any_key(failure.message)
            # Without its context: the SDK's errors carry the request with its headers.
            raise ModelCallFailed(failure.kind, hidden, failure.retry_after_s) from None
        return self._read(body)

    def _read(self, body: bytes) -> dict[str, Any]:
        text = self._connection.secrets.without(body.decode("utf-8", "replace"))
        try:
            value = json.loads(text, parse_constant=lambda name: None)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise not_the_api(body, self.base_url)
        failure = failure_of_body(value, model=self._model, url=self.base_url)
        if failure is not None:
            hidden = self._connection.secrets.without_any_key(failure.message)
            raise ModelCallFailed(failure.kind, hidden, failure.retry_after_s)
        return value

    async def _attend(self, request: Mapping[str, Any], must_stop: Callable[[], bool]) -> bytes:
        """Wait for the call, the end of its time, or until nobody waits for it any more."""
        end = time.monotonic() + self._request_s
        task = asyncio.ensure_future(self._call(request))
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=_POLL_S)
                if task.done():
                    break
                if must_stop():
                    raise Stopped
                if time.monotonic() >= end:
                    raise self._timed_out()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=1.0)
        return task.result()

    async def _call(self, request: Mapping[str, Any]) -> bytes:
        sdk, url = self._connection._sdk, self.base_url
        try:
            async with self._client.chat.completions.with_streaming_response.create(**request) as response:
                return await _bounded(response, _MAX_ANSWER, url)
        except (ModelCallFailed, asyncio.CancelledError):
            raise
        except sdk.APITimeoutError:
            raise self._timed_out() from None
        except sdk.APIConnectionError as error:
            raise self._not_connected(error) from None
        except sdk.OpenAIError as error:
            raise ModelCallFailed(FailureKind.SETUP, f"{url}: {error}") from None

    async def _refuse_errors(self, response: Any) -> None:
        """Judge an error status before the SDK does: it would read the body whole, however long."""
        if response.status_code < 400:
            return
        try:
            body = await _bounded(response, _MAX_ERROR, self.base_url, cut=True)
        except ModelCallFailed:
            body = b""
        headers = {name.lower(): value for name, value in response.headers.items()}
        raise failure_of_status(
            response.status_code, headers, body, model=self._model, url=self.base_url
        ) from None

    def _timed_out(self) -> ModelCallFailed:
        return ModelCallFailed(
            FailureKind.SERVER, f"{self.base_url} gave no answer within {self._request_s:g} seconds."
        )

    def _not_connected(self, error: BaseException) -> ModelCallFailed:
        chain: list[BaseException] = []
        cause: BaseException | None = error
        while cause is not None and len(chain) < 10:
            chain.append(cause)
            cause = cause.__cause__ or cause.__context__
        for link in chain:
            if isinstance(link, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in str(link):
                return ModelCallFailed(
                    FailureKind.SETUP,
                    f"{self.base_url}: the certificate is not trusted: {link}. Point SSL_CERT_FILE to the "
                    "authority that signed it.",
                )
        reasons = [str(link) for link in chain[1:] if str(link)]
        said = reasons[0] if reasons else type(chain[-1]).__name__
        return ModelCallFailed(
            FailureKind.SERVER, f"{self.base_url} cannot be reached: {said}. Is the server running there?"
        )


async def _bounded(response: Any, most: int, url: str, *, cut: bool = False) -> bytes:
    """A body up to so many bytes; more is a failure, or cut off."""
    chunks = response.iter_bytes() if hasattr(response, "iter_bytes") and not cut else response.aiter_bytes()
    body = bytearray()
    try:
        async for chunk in chunks:
            body += chunk
            if len(body) > most:
                break
    except Exception as error:
        # Whatever the HTTP library calls it: the connection broke before the answer was complete.
        raise ModelCallFailed(
            FailureKind.SERVER, f"{url} broke off in the middle of an answer ({type(error).__name__})."
        ) from None
    if len(body) > most and not cut:
        raise ModelCallFailed(FailureKind.SERVER, f"{url}: an answer of more than {most} bytes was not read.")
    return bytes(body[:most])


def _secret_values() -> list[str]:
    values = [os.environ.get(name, "") for name in _KEY_VARIABLES]
    # Lines of "name: value" that the SDK sends along.
    for line in os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n"):
        name, _, value = line.partition(":")
        if _SECRET_HEADER.search(name):
            values += [value.strip(), value.strip().removeprefix("Bearer ")]
    return values
