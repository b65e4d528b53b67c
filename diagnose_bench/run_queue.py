"""Which trial comes next when several go on at the same time: no scenario waits for another one to be done.

Hands out trials and what they share; runs none. At most as many scenarios are open (their snapshot copied) as
trials can go on, and each lends its copy to all of its trials.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from diagnose_bench.records import PlannedTrial

_Setting = TypeVar("_Setting")


@dataclass(eq=False)
class _Place(Generic[_Setting]):
    """One scenario: its trials that wait, and what they share while it is open."""

    open: Callable[[], AbstractContextManager[_Setting]]
    waiting: deque[PlannedTrial]
    n_running: int = 0
    stack: ExitStack | None = None
    setting: _Setting | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_open(self) -> bool:
        return self.n_running > 0 or self.stack is not None


@dataclass(frozen=True)
class Ticket(Generic[_Setting]):
    """A trial that was handed out; give it back with `TrialQueue.give_back`."""

    trial: PlannedTrial
    place: _Place[_Setting]

    def setting(self) -> _Setting:
        """What the trials of its scenario have in common; the first one that asks makes it."""
        place = self.place
        with place.lock:
            if place.setting is None:
                stack = ExitStack()
                place.setting = stack.enter_context(place.open())
                place.stack = stack
            return place.setting


class TrialQueue(Generic[_Setting]):
    """The trials of a run that wait.

    Parameters
    ----------
    scenarios : sequence of (callable, sequence of PlannedTrial)
        In their order: how to open a scenario, and its trials.
    most_open : int
        So many scenarios are open at the same time.
    """

    def __init__(
        self,
        scenarios: Sequence[tuple[Callable[[], AbstractContextManager[_Setting]], Sequence[PlannedTrial]]],
        most_open: int,
    ) -> None:
        self._places = [_Place(opener, deque(trials)) for opener, trials in scenarios]
        self._most_open = most_open
        self._change = threading.Condition()
        self._is_stopped = False

    def take(self) -> Ticket[_Setting] | None:
        """The next trial; waits while one that runs may still come back. None when all is done or stopped.

        Notes
        -----
        It is of the scenario that has the fewest running, in the scenarios' order.
        """
        with self._change:
            while not self._is_stopped:
                if (place := self._next()) is not None:
                    place.n_running += 1
                    return Ticket(place.waiting.popleft(), place)
                if not any(place.n_running for place in self._places):
                    return None
                self._change.wait()
            return None

    def give_back(self, ticket: Ticket[_Setting], *, again: bool = False) -> None:
        """Say that a trial has ended; with `again` it waits anew, behind the others of its scenario."""
        place = ticket.place
        stack = None
        with self._change:
            place.n_running -= 1
            if again and not self._is_stopped:
                place.waiting.append(ticket.trial)
            if not place.n_running and (not place.waiting or self._is_stopped):
                stack, place.stack, place.setting = place.stack, None, None
            self._change.notify_all()
        if stack is not None:
            stack.close()

    def stop(self) -> None:
        """Hand out nothing more."""
        with self._change:
            self._is_stopped = True
            self._change.notify_all()

    def close(self) -> None:
        """Give up what scenarios still hold open."""
        self.stop()
        for place in self._places:
            with self._change:
                stack, place.stack, place.setting = place.stack, None, None
            if stack is not None:
                stack.close()

    def _next(self) -> _Place[_Setting] | None:
        n_open = sum(place.is_open for place in self._places)
        ready = [
            place for place in self._places if place.waiting and (place.is_open or n_open < self._most_open)
        ]
        return min(ready, key=lambda place: place.n_running, default=None)
