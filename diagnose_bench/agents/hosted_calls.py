"""Requests to a hosted agent: bounded, verified, never redirected; the agent's fault is a `CallFailed`.

Knows HTTP and TLS; what an answer means is `hosted`'s. No proxy of the environment is used.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from dataclasses import dataclass

from diagnose_bench import __version__
from diagnose_bench.agents.hosted_settings import Endpoint, HostedSettings
from diagnose_bench.text import visible

MAX_ANSWER = (1 << 20) + 1
"""One byte more than a diagnosis may have, so that a longer one is seen to be too long."""
CONNECT_S = 10.0
_QUOTED = 200


class CallFailed(Exception):
    """The agent cannot be reached, or answers what it must not; the message says what."""


@dataclass(frozen=True)
class Answer:
    """What came back, of a status below 300.

    Attributes
    ----------
    status : int
        2xx.
    body : bytes
        At most ``MAX_ANSWER`` bytes.
    location, retry_after : str
        Headers, or empty.
    """

    status: int
    body: bytes
    location: str = ""
    retry_after: str = ""


def connect(settings: HostedSettings, endpoint: Endpoint, timeout_s: float = CONNECT_S) -> socket.socket:
    """Open a connection; for https the certificate is verified.

    Raises
    ------
    CallFailed
        Nobody answers, or the certificate is not to be trusted.
    """
    place = endpoint.shown
    try:
        raw = socket.create_connection((endpoint.host, endpoint.port), timeout=timeout_s)
    except TimeoutError as error:
        raise CallFailed(f"{place} cannot be reached: no answer within {timeout_s:g} seconds.") from error
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CallFailed(
            f"{place} cannot be reached: {reason}. Is it started, and is that its address?"
        ) from error
    if settings.context is None:
        return raw
    try:
        return settings.context.wrap_socket(raw, server_hostname=endpoint.host)
    except ssl.SSLCertVerificationError as error:
        raw.close()
        raise CallFailed(
            f"{place}: its certificate is not trusted: {error.verify_message}. "
            "Give the certificate of the authority that signed it: --ca-file FILE."
        ) from error
    except (OSError, ValueError) as error:
        raw.close()
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise CallFailed(f"{place}: does not speak TLS as it should: {reason}.") from error


class Call(threading.Thread):
    """One request on its way, in a thread of its own, so that the end of a trial can cut it off."""

    def __init__(
        self, settings: HostedSettings, endpoint: Endpoint, *, body: bytes | None, timeout_s: float
    ) -> None:
        super().__init__(name="hosted-call", daemon=True)
        self._settings = settings
        self._endpoint = endpoint
        self._body = body
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._is_cut = False
        self._answer: Answer | None = None
        self._failure: CallFailed | None = None

    def run(self) -> None:
        """Send the request and keep what comes back."""
        try:
            self._answer = self._exchange()
        except CallFailed as failure:
            self._failure = failure
        except TimeoutError:
            self._failure = CallFailed(f"{self._endpoint.shown} did not answer in time.")
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            self._failure = CallFailed(f"{self._endpoint.shown} broke off its answer: {reason}.")

    def cut(self) -> None:
        """Stop waiting for the answer; the thread ends."""
        with self._lock:
            self._is_cut = True
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    # Of the plain socket, as that of TLS would wait for the other side.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def result(self) -> Answer:
        """What came back.

        Raises
        ------
        CallFailed
            Nothing, or what must not.
        """
        if self._answer is None:
            raise self._failure or CallFailed(f"{self._endpoint.shown} did not answer in time.")
        return self._answer

    def _exchange(self) -> Answer:
        place = self._endpoint
        connected = connect(self._settings, place, min(CONNECT_S, self._timeout_s))
        connected.settimeout(self._timeout_s)
        with self._lock:
            self._socket = connected
            if self._is_cut:
                connected.close()
                raise CallFailed(f"{place.shown} did not answer in time.")
        connection = http.client.HTTPConnection(place.host, place.port)
        connection.sock = connected
        try:
            method = "GET" if self._body is None else "POST"
            connection.request(method, place.target, body=self._body, headers=self._headers())
            reply = connection.getresponse()
            body = reply.read(MAX_ANSWER)
            return _checked(place, reply, body)
        finally:
            with self._lock:
                self._socket = None
                connection.close()
                connected.close()

    def _headers(self) -> dict[str, str]:
        headers = {
            "Accept": "application/json",
            "User-Agent": f"diagnose-bench/{__version__}",
            "Connection": "close",
            **self._settings.headers,
        }
        return headers if self._body is None else {"Content-Type": "application/json", **headers}


def _checked(place: Endpoint, reply: http.client.HTTPResponse, body: bytes) -> Answer:
    status = f"{reply.status} {reply.reason}".strip()
    location = reply.getheader("Location") or ""
    if 300 <= reply.status < 400:
        raise CallFailed(
            f"{place.shown} answered {visible(status)}, a redirect to {visible(location[:_QUOTED])!r}. "
            "Redirects are not followed: give the final address."
        )
    if not 200 <= reply.status < 300:
        raise CallFailed(f"{place.shown} answered {visible(status)}{_quoted(body)}.")
    kind = (reply.getheader("Content-Type") or "").lower()
    if "html" in kind or body.lstrip()[:1] == b"<":
        raise CallFailed(f"{place.shown} answered with HTML in place of JSON{_quoted(body)}.")
    return Answer(reply.status, body, location, reply.getheader("Retry-After") or "")


def _quoted(body: bytes) -> str:
    text = " ".join(body[: 4 * _QUOTED].decode("utf-8", "replace").split())[:_QUOTED]
    return f": {visible(text)!r}" if text else ""
