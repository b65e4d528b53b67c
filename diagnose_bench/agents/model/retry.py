"""How long to wait before a failed call is tried again, and when to give up. Knows no server."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from diagnose_bench.agents.model.failures import FailureKind, ModelCallFailed

_TRUSTED = 3
_SLICE_S = 0.25
"""So often a wait looks whether anybody still waits for it."""


@dataclass(frozen=True)
class RetryPolicy:
    """Bounds of the tries of one model call.

    Attributes
    ----------
    attempts, rate_limit_attempts : int
        Tries in all when a server fails, and when it says that it is asked too often.
    first_s, longest_s : float
        The wait after the first failure, doubled each time, and where doubling ends.
    patience_s : float
        All waits of one call together.
    request_s : float
        One try, from the request to the last byte of the answer.
    """

    attempts: int = 8
    rate_limit_attempts: int = 40
    first_s: float = 1.0
    longest_s: float = 60.0
    patience_s: float = 1800.0
    request_s: float = 600.0

    def delay_s(self, failure: ModelCallFailed, n_failed: int, waited_s: float) -> float | None:
        """Seconds until the next try; None to give up.

        Parameters
        ----------
        failure : ModelCallFailed
            The last one.
        n_failed : int
            Failures of this call, with the last one.
        waited_s : float
            Spent on waiting for this call already.
        """
        is_rate = failure.kind is FailureKind.RATE_LIMIT
        if n_failed >= (self.rate_limit_attempts if is_rate else self.attempts):
            return None
        backoff = min(self.first_s * 2.0 ** min(n_failed - 1, 30), self.longest_s)
        # Trials side by side fail together; without chance they would come back together.
        delay = backoff * random.uniform(0.5, 1.0)
        if failure.retry_after_s is not None:
            asked = failure.retry_after_s * random.uniform(1.0, 1.1)
            # A server that says "at once" again and again is not taken at its word for ever.
            delay = max(asked, delay) if n_failed > _TRUSTED else asked
        return delay if waited_s + delay <= self.patience_s else None


NORMAL = RetryPolicy()
"""How it is done unless asked otherwise."""


def wait(seconds: float, must_stop: Callable[[], bool]) -> None:
    """Wait, or return early once ``must_stop`` says so."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and not must_stop():
        time.sleep(min(left, _SLICE_S))
