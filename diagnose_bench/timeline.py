"""What the commands of a trial showed, in order: which objects' names an output has for the first time.

Knows the snapshot's inventory and the recorded commands, and no truth. A name is found where it stands as a
whole name; that an agent has read it nobody knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from diagnose_bench.entity import Entity
from diagnose_bench.inventory import Inventory
from diagnose_bench.records import CommandRecord

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
_LINE_BREAK = re.compile(r"\\[nrt]")
_LONGEST_NAME = 253


@dataclass(frozen=True)
class Revealed:
    """An object that an output names for the first time.

    Attributes
    ----------
    entity : str
        The object; of a workload with its Pods and ReplicaSets, the workload.
    name : str
        The name that was there: its own, or that of one of its Pods or ReplicaSets.
    """

    entity: str
    name: str


@dataclass(frozen=True)
class TimelineCommand:
    """One command and what it showed.

    Attributes
    ----------
    at_s : float or None
        Seconds after the trial began; None where a time is no time.
    revealed : tuple of Revealed
        In the order in which the output has them.
    root_causes : tuple of str
        Groups whose name no earlier output has; empty where the truth is not known.
    """

    n: int
    at_s: float | None
    seconds: float
    command: str
    exit_code: int
    n_bytes: int
    limit_hit: str | None
    revealed: tuple[Revealed, ...]
    root_causes: tuple[str, ...] = ()


class Revealing:
    """Looks for names in one output after the other.

    Parameters
    ----------
    inventory : Inventory
        Whose names.
    """

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._seen: set[str] = set()

    def first_seen(self, output: str) -> tuple[Revealed, ...]:
        """The objects that this output names and none before it did."""
        found = []
        for name in _names_in(output):
            for entity in self._inventory.named(name):
                shown = str(self._inventory.workload(entity))
                if shown not in self._seen:
                    self._seen.add(shown)
                    found.append(Revealed(shown, name))
        return tuple(found)


def timeline_of(
    commands: Iterable[CommandRecord], inventory: Inventory, started_at: str
) -> Iterator[tuple[CommandRecord, TimelineCommand]]:
    """Each command as recorded, and as the time line has it; one at a time."""
    revealing = Revealing(inventory)
    for command in commands:
        yield (
            command,
            TimelineCommand(
                n=command.n,
                at_s=seconds_between(started_at, command.started_at),
                seconds=command.seconds,
                command=command.command,
                exit_code=command.exit_code,
                n_bytes=command.n_bytes,
                limit_hit=command.limit_hit,
                revealed=revealing.first_seen(command.output),
            ),
        )


def names_of_workload(inventory: Inventory, entity: Entity) -> tuple[str, ...]:
    """The names under which an object is seen: its own and that of its workload."""
    return tuple(dict.fromkeys((entity.name, inventory.workload(entity).name)))


def seconds_between(start: str, end: str) -> float | None:
    """Seconds from one recorded time to another, or None where one of them is no time."""
    try:
        return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
    except (ValueError, TypeError):
        return None


def later(start: str, seconds: float) -> str:
    """A recorded time and so many seconds, as a time; empty where it is no time."""
    try:
        end = datetime.fromisoformat(start) + timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        return ""
    return end.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _names_in(output: str) -> dict[str, None]:
    """Texts that could be names, in order, each once; a host name counts with each of its parts."""
    # An escaped line break of JSON ends in a letter that belongs to no name.
    text = _LINE_BREAK.sub(" ", output)
    found: dict[str, None] = {}
    for token in _NAME.findall(text):
        if len(token) <= _LONGEST_NAME:
            found[token] = None
            if "." in token:
                found.update(dict.fromkeys(token.split(".")))
    return found
