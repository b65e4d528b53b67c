"""One trial as a hosted agent calls it: task, run_command, submit; what leaves is redacted and counted.

From a parsed request to a status and a JSON value. Knows no sockets.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

from diagnose_bench.agents.base import TrialOver, TrialSession, is_seconds
from diagnose_bench.agents.redaction import RedactionList

MAX_SUBMISSION = (1 << 20) + 1
"""One byte more than a diagnosis may have: the session then says that it is too large."""
MAX_COMMAND = 1 << 20
_GONE = {"error": "The trial is over."}

Reply = tuple[int, dict[str, Any]]


class HostedTrial:
    """What one token opens, while the trial lasts.

    Parameters
    ----------
    session : TrialSession
        What the calls go to.
    redaction : RedactionList
        What is cut out of texts that leave.
    """

    def __init__(self, session: TrialSession, redaction: RedactionList) -> None:
        self.token = secrets.token_urlsafe(24)
        self.n_redacted = 0
        self.requests: Counter[str] = Counter()
        self._session: TrialSession | None = session
        self._redaction = redaction
        self._task = self.redacted(session.task)
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._n_working = 0

    @property
    def task(self) -> str:
        """The task's text as it leaves."""
        return self._task

    def redacted(self, text: str) -> str:
        """The text as it may leave; what was cut out is counted."""
        text, n = self._redaction.redact(text)
        self.n_redacted += n
        return text

    def end(self) -> None:
        """Take nothing more, end a command that runs, and wait until no call is at work."""
        with self._lock:
            session, self._session = self._session, None
            self._task = ""
        if session is not None:
            session.close()
        with self._idle:
            self._idle.wait_for(lambda: self._n_working == 0)

    def answer(self, name: str, body: bytes) -> Reply:
        """Answer one call; ``name`` is one of task, run_command, submit."""
        with self._working() as session:
            may_better = session is not None and name == "submit" and session.grace_left_s() > 0
            if session is None or (session.is_over() and not may_better):
                return 410, _GONE
            if name == "task":
                return 200, {"task": self.task, "time_left_s": session.time_left_s()}
            if name == "submit":
                return _submit(session, body)
            return self._run_command(session, body)

    @contextlib.contextmanager
    def _working(self) -> Iterator[TrialSession | None]:
        with self._lock:
            session = self._session
            self._n_working += 1
        try:
            yield session
        finally:
            with self._idle:
                self._n_working -= 1
                self._idle.notify_all()

    def _run_command(self, session: TrialSession, body: bytes) -> Reply:
        try:
            asked = json.loads(body)
        except (ValueError, RecursionError):
            return 400, {"error": 'The body is no JSON. Give {"command": "…"}.'}
        if not isinstance(asked, dict) or not isinstance(asked.get("command"), str) or not asked["command"]:
            return 400, {"error": "`command` is missing or no text."}
        timeout_s = asked.get("timeout_s")
        if timeout_s is not None and not is_seconds(timeout_s):
            return 400, {"error": "`timeout_s` is no number of seconds above 0."}
        try:
            reply = session.run_command(asked["command"], timeout_s)
        except TrialOver as over:
            return 410, {"error": str(over)}
        with self._lock:
            output = self.redacted(reply.output.decode("utf-8", "replace"))
        return 200, {"output": output, "exit_code": reply.exit_code, "notice": reply.notice}


def _submit(session: TrialSession, body: bytes) -> Reply:
    reply = session.submit(body)
    status = 200 if reply.accepted else 413 if len(body) >= MAX_SUBMISSION else 422
    if not reply.accepted and session.is_over() and not session.grace_left_s():
        status = 410
    return status, {"accepted": reply.accepted, "message": reply.message}
