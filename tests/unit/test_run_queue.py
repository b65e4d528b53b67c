"""Which trial comes next: fair to the scenarios, each opened once, few at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from diagnose_bench.records import PlannedTrial
from diagnose_bench.run_queue import Ticket, TrialQueue


class Scenarios:
    """Opens scenarios that are their own names, and remembers it."""

    def __init__(self, n_scenarios: int, n_repeats: int, most_open: int) -> None:
        self.log: list[str] = []
        self.is_open: set[str] = set()
        self.most_seen_open = 0
        self.queue = TrialQueue[str](
            [(self._opener(f"s{n}"), trials(f"s{n}", n_repeats)) for n in range(1, n_scenarios + 1)],
            most_open,
        )

    def _opener(self, name: str):  # type: ignore[no-untyped-def]
        @contextmanager
        def opened() -> Iterator[str]:
            self.log.append(f"open {name}")
            self.is_open.add(name)
            self.most_seen_open = max(self.most_seen_open, len(self.is_open))
            yield name
            self.is_open.discard(name)
            self.log.append(f"close {name}")

        def opener() -> AbstractContextManager[str]:
            return opened()

        return opener

    def take(self) -> Ticket[str]:
        ticket = self.queue.take()
        assert ticket is not None
        assert ticket.setting() == ticket.trial.scenario_id
        return ticket


def trials(name: str, n_repeats: int) -> list[PlannedTrial]:
    return [PlannedTrial(scenario_id=name, repeat=repeat) for repeat in range(1, n_repeats + 1)]


def named(ticket: Ticket[str]) -> str:
    return f"{ticket.trial.scenario_id}.{ticket.trial.repeat}"


def test_one_at_a_time_they_come_in_the_order_of_the_plan() -> None:
    world = Scenarios(2, 2, most_open=1)
    order = []
    while (ticket := world.queue.take()) is not None:
        ticket.setting()
        order.append(named(ticket))
        world.queue.give_back(ticket)
    assert order == ["s1.1", "s1.2", "s2.1", "s2.2"]
    assert world.log == ["open s1", "close s1", "open s2", "close s2"]


def test_side_by_side_each_scenario_has_its_share() -> None:
    world = Scenarios(3, 3, most_open=4)
    first = [world.take() for _ in range(4)]
    assert [named(ticket) for ticket in first] == ["s1.1", "s2.1", "s3.1", "s1.2"]
    # s2 has none running now, so it is its turn.
    world.queue.give_back(first[1])
    assert named(world.take()) == "s2.2"


def test_no_more_scenarios_are_open_than_may_be_and_a_slow_one_holds_up_no_other() -> None:
    world = Scenarios(4, 2, most_open=2)
    slow = world.take()
    order = []
    for _ in range(7):
        ticket = world.take()
        order.append(named(ticket))
        world.queue.give_back(ticket)
    assert named(slow) == "s1.1"
    # s1 is one of the two that are open; the others take turns in the second place.
    assert order == ["s2.1", "s2.2", "s3.1", "s3.2", "s4.1", "s4.2", "s1.2"]
    assert world.most_seen_open == 2
    world.queue.give_back(slow)
    assert world.is_open == set()


def test_a_trial_that_comes_back_waits_behind_the_others_of_its_open_scenario() -> None:
    world = Scenarios(1, 2, most_open=1)
    ticket = world.take()
    world.queue.give_back(ticket, again=True)
    order = []
    for _ in range(2):
        ticket = world.take()
        order.append(named(ticket))
        world.queue.give_back(ticket)
    assert order == ["s1.2", "s1.1"]
    assert world.queue.take() is None
    assert world.log == ["open s1", "close s1"]


def test_who_asks_while_the_last_trial_runs_waits_until_it_cannot_come_back() -> None:
    world = Scenarios(1, 1, most_open=2)
    ticket = world.take()
    got: list[Ticket[str] | None] = []
    asking = threading.Thread(target=lambda: got.append(world.queue.take()))
    asking.start()
    world.queue.give_back(ticket, again=True)
    asking.join()
    assert [named(one) for one in got if one is not None] == ["s1.1"]


def test_a_stop_hands_out_nothing_more_and_wakes_who_waits() -> None:
    world = Scenarios(1, 1, most_open=2)
    ticket = world.take()
    got: list[Ticket[str] | None] = []
    asking = threading.Thread(target=lambda: got.append(world.queue.take()))
    asking.start()
    world.queue.stop()
    asking.join()
    assert got == [None]
    world.queue.give_back(ticket, again=True)
    assert world.queue.take() is None
    assert world.is_open == set()


def test_many_threads_lose_and_double_nothing() -> None:
    world = Scenarios(5, 40, most_open=8)
    done: list[str] = []
    lock = threading.Lock()

    def work() -> None:
        while (ticket := world.queue.take()) is not None:
            ticket.setting()
            with lock:
                done.append(named(ticket))
            world.queue.give_back(ticket)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == sorted(f"s{s}.{r}" for s in range(1, 6) for r in range(1, 41))
    assert world.is_open == set()
