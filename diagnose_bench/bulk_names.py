"""Names of a bulk file as numbers: each distinct name of a scenario is resolved once. Reads no rows."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable

import numpy as np

import scoring
from diagnose_bench.grading_inputs import GradingInputs
from diagnose_bench.outcome import Profile
from diagnose_bench.resolver import Resolver

_FEWEST_KEPT = 50_000
_BYTES_PER_NAME = 2048
"""Names are kept while there is at most one for so many bytes of the file: what is known stays below it."""


class NameBook:
    """Numbers for the names of all scenarios, and what each one is under both profiles.

    Parameters
    ----------
    inputs : GradingInputs
        Truths and inventories.
    scenario_ids : sequence of str
        The suite's scenarios; a scenario is its place in here.
    file_bytes : int
        Size of the file, which bounds how many names are kept.
    """

    def __init__(self, inputs: GradingInputs, scenario_ids: Iterable[str], file_bytes: int) -> None:
        self._inputs = inputs
        self._ids = tuple(scenario_ids)
        self._most = max(_FEWEST_KEPT, file_bytes // _BYTES_PER_NAME)
        self.n_resolved = 0
        """How many names were resolved so far."""
        self._start()

    def _start(self) -> None:
        self._known: list[dict[str, int]] = [{} for _ in self._ids]
        self._units: list[dict[tuple[Profile, Hashable], int]] = [{} for _ in self._ids]
        self._resolvers: dict[int, Resolver | None] = {}
        self._columns = [array("i") for _ in range(4)]

    def forget_if_full(self) -> bool:
        """Let all names go when there are too many; numbers given out before mean nothing afterwards."""
        is_full = len(self._columns[0]) > self._most
        if is_full:
            self._start()
            self._inputs.forget()
        return is_full

    def numbers(self, scenario: int, names: Iterable[str]) -> list[int]:
        """The number of each name of a scenario."""
        known = self._known[scenario]
        try:
            return [known[name] for name in names]
        except KeyError:
            return [known[name] if name in known else self._add(scenario, name) for name in names]

    def number(self, scenario: int, name: str) -> int:
        """The number of one name of a scenario."""
        found = self._known[scenario].get(name)
        return self._add(scenario, name) if found is None else found

    def table(self) -> scoring.NameTable:
        """What each number is."""
        logical, logical_root, object_, object_root = (
            np.array(column, dtype=np.int32) for column in self._columns
        )
        return scoring.NameTable(logical, logical_root, object_, object_root)

    def n_root_causes(self, scenario: int) -> int:
        """Root-cause sets of a scenario; 0 where its truth is refused, since nothing of it is scored."""
        resolver = self._resolver(scenario)
        return 0 if resolver is None else resolver.n_root_causes

    def _resolver(self, scenario: int) -> Resolver | None:
        if scenario not in self._resolvers:
            self._resolvers[scenario] = self._inputs.resolver(self._ids[scenario])
        return self._resolvers[scenario]

    def _add(self, scenario: int, name: str) -> int:
        number = self._known[scenario][name] = len(self._columns[0])
        resolver = self._resolver(scenario)
        if resolver is None:
            for column, value in zip(self._columns, (0, -1, 0, -1), strict=True):
                column.append(value)
            return number
        self.n_resolved += 1
        units = self._units[scenario]
        found = resolver.identify(name)
        values = []
        for profile in (Profile.ITBENCH_AA, Profile.STRICT):
            root_set, key = found[profile].root_set, found[profile].key
            # By workload, whatever hits a root-cause set is that set; by object, each object is itself.
            unit = (
                ("set", root_set)
                if profile is Profile.ITBENCH_AA and root_set is not None
                else (root_set, key)
            )
            values += [units.setdefault((profile, unit), len(units)), -1 if root_set is None else root_set]
        for column, value in zip(self._columns, values, strict=True):
            column.append(value)
        return number
