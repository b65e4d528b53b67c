"""An agent that runs elsewhere: it is sent the task, and calls us through an address of one trial.

It may answer at once, name a place to ask for its answer, or hand it in itself. It never sees a file. What it
does wrong is its outcome; what a person got wrong is refused before the first trial.
"""

from __future__ import annotations

import json
import math
import re
import threading
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from diagnose_bench.agents.base import AgentKind, AgentResult, TrialSession
from diagnose_bench.agents.hosted_calls import MAX_ANSWER, Answer, Call, CallFailed, connect
from diagnose_bench.agents.hosted_server import HostedServer
from diagnose_bench.agents.hosted_settings import Endpoint, HostedSettings, make_settings, parse_url
from diagnose_bench.agents.hosted_trial import HostedTrial
from diagnose_bench.agents.options import AgentOptions
from diagnose_bench.errors import UsageError
from diagnose_bench.files import pretty_json, write_atomic
from diagnose_bench.records import AgentInfo

GRACE_S = 2.0
"""What the request that carried the task gets to end by itself once the diagnosis is in."""
_POLL_S = 2.0
_LONGEST_POLL_S = 60.0
_STEP_S = 0.2
_POLLS_FAILED = 3
_RUNNING = ("running", "pending", "queued", "in_progress")


def make_hosted_agent(url: str, name: str | None, options: AgentOptions) -> HostedAgent:
    """Make the agent of ``http://…`` or ``https://…``.

    Raises
    ------
    UsageError
        The address or an option cannot be.
    """
    return HostedAgent(make_settings(url, options), name=name)


class HostedAgent:
    """A product that runs elsewhere.

    Parameters
    ----------
    settings : HostedSettings
        Where it is and how it reaches us.
    name : str, optional
        What it is called in results; its address without the query by default.
    """

    kind: AgentKind = "hosted"

    def __init__(self, settings: HostedSettings, *, name: str | None = None) -> None:
        self._settings = settings
        self._info = AgentInfo(name=name or settings.endpoint.shown, config_digest=settings.config_digest())
        self._lock = threading.Lock()
        self._server: HostedServer | None = None

    @property
    def info(self) -> AgentInfo:
        """Its address, and a digest over that, the names of headers and the redaction list."""
        return self._info

    def check(self) -> None:
        """Begin to listen, and see that the agent can be reached; nothing is sent.

        Raises
        ------
        UsageError
            One of them does not work.
        """
        self._listening()
        try:
            connect(self._settings, self._settings.endpoint).close()
        except CallFailed as failure:
            self.close()
            raise UsageError(f"--agent: {self._settings.mask(str(failure))}") from failure

    def close(self) -> None:
        """Listen no more."""
        with self._lock:
            server, self._server = self._server, None
        if server is not None:
            server.close()

    def diagnose(self, session: TrialSession) -> AgentResult:
        """Post the task and wait for the diagnosis, in whichever way it comes."""
        server = self._listening()
        trial = HostedTrial(session, self._settings.redaction)
        report = _Report()
        try:
            with server.serving(trial) as base_url:
                self._work(session, trial, base_url, server.public_url, report)
        except CallFailed as failure:
            reason = self._settings.mask(f"The agent at {failure}").replace(trial.token, "***")
            report.failure = reason
        finally:
            document = {
                "format_version": 1,
                "answered": report.answered,
                "failure": report.failure,
                "n_redacted": trial.n_redacted,
                "n_requests": dict(trial.requests),
            }
            write_atomic(session.log_folder / "hosted.json", session.redactor.data(pretty_json(document)))
        return AgentResult(error=report.failure)

    def _listening(self) -> HostedServer:
        with self._lock:
            if self._server is None:
                known = self._settings
                self._server = HostedServer(known.listen_host, known.listen_port, known.public_url)
            return self._server

    def _work(
        self, session: TrialSession, trial: HostedTrial, base_url: str, public_url: str, report: _Report
    ) -> None:
        task = {
            "format_version": 1,
            "task": trial.task,
            "base_url": base_url,
            "token": trial.token,
            "time_limit_s": session.time_left_s(),
            "openapi_url": f"{public_url}/openapi.json",
        }
        answer = self._call(session, self._settings.endpoint, json.dumps(task).encode())
        if answer is None:
            report.answered = "callback"
            return
        document = _json(self._settings.endpoint, answer)
        if answer.status != 202:
            report.answered = "at once"
            _take(session, answer.body, document)
            return
        place = document.get("status_url") if isinstance(document, dict) else None
        if place is None and not answer.location:
            report.answered = "callback"
            while not session.wait_over(_LONGEST_POLL_S):
                pass
            # Nothing tells that such an agent has ended, and it may still hand in a better diagnosis.
            while session.grace_left_s() > 0:
                time.sleep(_STEP_S)
            return
        report.answered = "poll"
        self._poll(session, self._status_place(place if place is not None else answer.location), answer)

    def _poll(self, session: TrialSession, place: Endpoint, answer: Answer) -> None:
        n_failed = 0
        while not session.wait_over(_pause(answer.retry_after)):
            try:
                found = self._call(session, place, None)
            except CallFailed:
                # A service that is started anew must not cost the trial, one that is gone must.
                n_failed += 1
                if n_failed == _POLLS_FAILED:
                    raise
                continue
            if found is None:
                return
            n_failed, answer = 0, found
            document = _json(place, answer)
            state = document.get("status") if isinstance(document, dict) else None
            if answer.status == 202 or (isinstance(state, str) and state.lower() in _RUNNING):
                continue
            if isinstance(state, str) and state.lower() in ("failed", "error"):
                reason = str(document.get("error") or "no reason given")[:500]
                raise CallFailed(f"{place.shown} says that it failed: {reason}.")
            _take(session, answer.body, document)
            return

    def _call(self, session: TrialSession, place: Endpoint, body: bytes | None) -> Answer | None:
        """One request; None if the trial was over before the answer came."""
        call = Call(self._settings, place, body=body, timeout_s=session.time_left_s() + GRACE_S)
        call.start()
        try:
            while call.is_alive():
                call.join(_STEP_S)
                if session.is_over():
                    call.join(GRACE_S if session.has_submission() else 0.0)
                    break
        finally:
            call.cut()
            # Looking up a name cannot be cut off; such a thread ends by itself and touches nothing of ours.
            call.join(GRACE_S)
        return None if session.is_over() else call.result()

    def _status_place(self, text: object) -> Endpoint:
        known = self._settings.endpoint
        if not isinstance(text, str):
            raise CallFailed(f"{known.shown} answered 202 with a status_url that is no text.")
        try:
            place = parse_url(urljoin(known.shown, text), "status_url")
        except (UsageError, ValueError) as error:
            raise CallFailed(f"{known.shown} answered 202 with a status_url that is no address.") from error
        if place.origin != known.origin:
            # It would get our headers, and could be any service that only this machine reaches.
            raise CallFailed(
                f"{known.shown} answered 202 with a status_url on another server, {place.shown}. "
                "It must be on its own."
            )
        return place


@dataclass
class _Report:
    """What is known of the exchange, for the trial's folder."""

    answered: str | None = None
    failure: str | None = None


def _pause(retry_after: str) -> float:
    if re.fullmatch(r"\d{1,6}", retry_after):
        return min(max(float(retry_after), _STEP_S), _LONGEST_POLL_S)
    return _POLL_S


def _json(place: Endpoint, answer: Answer) -> Any:
    if not answer.body.strip():
        return None
    if len(answer.body) >= MAX_ANSWER:
        # Too large for a diagnosis, which the session says.
        return math.nan
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError) as error:
        raise CallFailed(f"{place.shown} answered {answer.status} with what is no JSON.") from error


def _take(session: TrialSession, body: bytes, document: Any) -> None:
    """Hand in the diagnosis of an answer: its `diagnosis`, or all of it; nothing at all is no diagnosis."""
    if document in (None, {}) or session.has_submission():
        return
    if isinstance(document, dict) and "diagnosis" in document:
        inner = document["diagnosis"]
        if inner is None:
            return
        body = json.dumps(inner).encode()
    session.submit(body)
