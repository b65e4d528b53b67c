"""The scenario's time line: seconds from the window's start, clock strings, and piecewise linear curves."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

STEP_S = 15
"""Length of one simulation step."""


@dataclass(frozen=True)
class Clock:
    """Window of a scenario; every other module counts in seconds from its start."""

    start: datetime
    detected_at: datetime
    end: datetime

    @property
    def length_s(self) -> int:
        """Seconds from start to end."""
        return int((self.end - self.start).total_seconds())

    @property
    def n_steps(self) -> int:
        """Number of simulation steps in the window."""
        return self.length_s // STEP_S

    @property
    def detected_s(self) -> float:
        """Seconds from start to detection."""
        return (self.detected_at - self.start).total_seconds()

    def seconds(self, clock: str) -> float:
        """Seconds from start of ``HH:MM[:SS]`` (the day that lies nearest to the window) or RFC 3339."""
        if "T" in clock:
            return (datetime.fromisoformat(clock) - self.start).total_seconds()
        parts = [int(part) for part in clock.split(":")]
        time_of_day = timedelta(hours=parts[0], minutes=parts[1], seconds=parts[2] if len(parts) > 2 else 0)
        midnight = self.start.replace(hour=0, minute=0, second=0, microsecond=0)
        offset = (midnight + time_of_day - self.start).total_seconds()
        if offset < -43200:
            return offset + 86400
        return offset - 86400 if offset > 43200 else offset

    def at(self, seconds: float) -> datetime:
        """The moment, to the microsecond."""
        return self.start + timedelta(microseconds=round(seconds * 1_000_000))

    def unix(self, seconds: float) -> float:
        """Seconds since 1970."""
        return self.start.timestamp() + seconds

    def rfc3339(self, seconds: float) -> str:
        """``2025-01-01T00:00:00Z``, as in object metadata."""
        return self.at(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")

    def rfc3339_ms(self, seconds: float) -> str:
        """``2025-01-01T00:00:00.000Z``, as in log streams and Alertmanager."""
        moment = self.at(seconds)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def parse_moment(text: str) -> datetime:
    """RFC 3339 with a zone, as UTC."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return moment.astimezone(UTC)


class Curve:
    """Piecewise linear function of the seconds; constant before the first and after the last point."""

    def __init__(self, points: Sequence[tuple[float, float]]) -> None:
        self._times = [time for time, _ in points]
        self._values = [value for _, value in points]

    def __call__(self, seconds: float) -> float:
        """Value at a time."""
        index = bisect_right(self._times, seconds)
        if index == 0:
            return self._values[0]
        if index == len(self._times):
            return self._values[-1]
        before, after = self._times[index - 1], self._times[index]
        share = (seconds - before) / (after - before)
        return self._values[index - 1] + share * (self._values[index] - self._values[index - 1])
