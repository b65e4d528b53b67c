"""How a command is ended from another thread: with the trial, or just this one. Kills nothing itself."""

from __future__ import annotations

import threading

CANCELLED = "cancelled"
TRIAL_OVER = "trial"


class CommandSwitch:
    """Asked a few times a second by whoever waits for a command."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._cancelled = threading.Event()

    def begin(self) -> None:
        """A command starts: what was meant for an earlier one is forgotten."""
        self._cancelled.clear()

    def stop(self) -> None:
        """End the command that runs, and every later one at once."""
        self._over.set()

    def cancel(self) -> None:
        """End the command that runs, and no other one."""
        self._cancelled.set()

    def reason(self) -> str | None:
        """Why the command has to end now, as its ``limit_hit``; None while it may go on."""
        if self._over.is_set():
            return TRIAL_OVER
        return CANCELLED if self._cancelled.is_set() else None
