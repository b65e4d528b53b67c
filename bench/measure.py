"""What a line of the table is, and how its ratio is taken."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

N_ROUNDS = 5


@dataclass(frozen=True)
class Line:
    """One line: a ratio, and what it should be. ``at_most`` False means that larger is better."""

    name: str
    ratio: float | None
    ship: float
    moonshot: float
    at_most: bool = True
    detail: str = ""

    @property
    def verdict(self) -> str:
        if self.ratio is None:
            return "not run"
        if self._reaches(self.moonshot):
            return "moonshot"
        return "ship" if self._reaches(self.ship) else "MISSED"

    def _reaches(self, target: float) -> bool:
        assert self.ratio is not None
        return self.ratio <= target if self.at_most else self.ratio >= target

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}


def interleaved(
    tasks: Mapping[str, Callable[[], Any]], n_rounds: int = N_ROUNDS, settle: Callable[[], Any] | None = None
) -> dict[str, float]:
    """Median seconds of each task; one round runs each task once, after one warm-up round."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for number in range(n_rounds + 1):
        for name, task in tasks.items():
            if settle is not None:
                settle()
            start = time.perf_counter()
            task()
            if number:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def peak_bytes_of(code: str, *arguments: str) -> int:
    """What a script took beyond what it had before: it prints both numbers itself, before and after."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    before, after = done.stdout.split()[-2:]
    return int(after) - int(before)


PEAK = (
    "def peak():\n"
    "    high = [line for line in open('/proc/self/status') if line.startswith('VmHWM')][0]\n"
    "    return int(high.split()[1]) * 1024\n"
)
"""Start of a script for `peak_bytes_of`."""


def milliseconds(seconds: Mapping[str, float]) -> str:
    """Medians for the detail of a line."""
    return ", ".join(f"{name} {1000 * value:.1f} ms" for name, value in seconds.items())
