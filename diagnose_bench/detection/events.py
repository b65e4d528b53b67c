"""The boundary events of one trial: each once, with its command, and not without end."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

from diagnose_bench.records import BoundaryEvent, Confidence, EventKind, EventLayer

MAX_EVENTS = 200
MAX_DETAIL = 300


def now() -> str:
    """The time, RFC 3339, UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class EventLog:
    """Takes events from several threads.

    Notes
    -----
    The same thing within one command counts once. Of an endless row of events the first are kept; an event of
    high confidence is kept whatever came before it.
    """

    def __init__(self) -> None:
        self.command: int | None = None
        """Number of the command that runs now; None outside of commands."""
        self._lock = threading.Lock()
        self._events: list[BoundaryEvent] = []
        self._seen: set[tuple[int | None, str, str, str]] = set()
        self._n_left_out = 0

    def add(self, layer: EventLayer, kind: EventKind, detail: str, confidence: Confidence) -> None:
        """Take one event."""
        if len(detail) > MAX_DETAIL:
            detail = detail[:MAX_DETAIL] + "…"
        detail = detail.encode("utf-8", "backslashreplace").decode()
        key = (self.command, layer.value, kind.value, detail)
        with self._lock:
            if key in self._seen:
                return
            if len(self._events) >= MAX_EVENTS and confidence is not Confidence.HIGH:
                self._n_left_out += 1
                return
            if len(self._events) < 2 * MAX_EVENTS:
                self._seen.add(key)
                self._events.append(
                    BoundaryEvent(
                        time=now(),
                        command=self.command,
                        layer=layer,
                        kind=kind,
                        detail=detail,
                        confidence=confidence,
                    )
                )

    def events(self) -> tuple[BoundaryEvent, ...]:
        """All of them, in their order; a last one counts what was left out."""
        with self._lock:
            found = list(self._events)
            if self._n_left_out:
                found.append(
                    BoundaryEvent(
                        time=found[-1].time,
                        command=None,
                        layer=EventLayer.LIMIT,
                        kind=EventKind.LIMIT,
                        detail=f"{self._n_left_out} more events were left out",
                        confidence=Confidence.LOW,
                    )
                )
            return tuple(found)
