"""Plain rows of a block as columns, through DuckDB; every other row is named, to be read one by one.

DuckDB reads fast and forgives much: a key that stands twice, a trailing comma, a number in quotes, a line
that is no JSON. So every value is taken as the JSON text that it is, each row must have exactly the
punctuation of a plain row, and what has not is left to `bulk_row`. Strings are encoded inside DuckDB; Python
sees each one once in a block.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from diagnose_bench.diagnosis import MAX_ENTITIES

_LONGEST_LINE = 1 << 18
_N_KEYS = 4
_UNSEEN = -2
_REPEAT = re.compile(r"[1-9][0-9]{0,8}")
_OBJECT_BYTES = 1 << 20
_READ = (
    "CREATE OR REPLACE TEMP TABLE block AS SELECT agent, scenario_id, repeat, entities FROM read_json("
    "'/proc/self/fd/{}', format = 'newline_delimited', records = 'true', ignore_errors = true, "
    "compression = 'none', maximum_object_size = {}, columns = {{agent: 'JSON', scenario_id: 'JSON', "
    "repeat: 'JSON', entities: 'JSON[]'}})"
)
_NEWLINE, _COLON, _COMMA, _BRACE = 10, 58, 44, 123


@dataclass(frozen=True)
class PlainRows:
    """Rows of a block that are plain; ``lines`` are their places in the block, from 0.

    ``texts`` of agents, scenarios and repeats, and which one each row has; ``pairs`` are the distinct
    (scenario's place, name); row ``i`` owns ``names[offsets[i]:offsets[i + 1]]``, each a place in ``pairs``.
    """

    lines: NDArray[np.int64]
    agents: NDArray[np.int64]
    scenarios: NDArray[np.int64]
    repeats: NDArray[np.int64]
    names: NDArray[np.int64]
    offsets: NDArray[np.int64]


class _NotPlain(Exception):
    """The block has to be read line by line."""


class ColumnReader:
    """Reads blocks with DuckDB.

    Parameters
    ----------
    agent, scenario : callable
        The number of an agent and of a scenario; -1 where a row of it needs a closer look.
    name : callable
        The number of a name of a scenario.
    """

    def __init__(
        self,
        agent: Callable[[str], int],
        scenario: Callable[[str], int],
        name: Callable[[int, str], int],
    ) -> None:
        self._agent, self._scenario, self._name = agent, scenario, name
        self._connection = duckdb.connect(config={"threads": 2})
        self._pairs: dict[tuple[str | None, str | None], int] = {}

    def forget(self) -> None:
        """Forget the numbers of names."""
        self._pairs.clear()

    def close(self) -> None:
        """Give DuckDB's memory back."""
        self._connection.close()

    def read(self, data: bytes, highest_repeat: int) -> PlainRows | None:
        """The plain rows of a block; None where DuckDB cannot tell its lines apart.

        Parameters
        ----------
        data : bytes
            Whole lines.
        highest_repeat : int
            Rows with a repeat above it need a closer look.
        """
        try:
            return self._read(data, highest_repeat)
        except (_NotPlain, duckdb.Error):
            return None

    def _read(self, data: bytes, highest_repeat: int) -> PlainRows:
        flat = np.frombuffer(data, dtype=np.uint8)
        ends = np.flatnonzero(flat == _NEWLINE)
        starts = np.concatenate([[0], ends[:-1] + 1])
        usable = (flat[starts] == _BRACE) & (ends - starts <= _LONGEST_LINE)
        lines = np.flatnonzero(usable)
        if not lines.size:
            return _no_rows()
        if lines.size < starts.size:
            data = b"".join(data[starts[line] : ends[line] + 1] for line in lines.tolist())
            flat = np.frombuffer(data, dtype=np.uint8)
            ends = np.flatnonzero(flat == _NEWLINE)
            starts = np.concatenate([[0], ends[:-1] + 1])
        self._load(data)
        found = self._fetch(
            "SELECT coalesce(len(entities), -1), hash(agent), hash(scenario_id), hash(repeat) FROM block", 4
        )
        lengths = found[0].astype(np.int64)
        if lengths.size != lines.size:
            raise _NotPlain
        agents = self._encode("agent", found[1], self._agent_number)
        scenarios = self._encode("scenario_id", found[2], self._scenario_number)
        repeats = self._encode("repeat", found[3], _repeat_number)
        good = (lengths >= 0) & (lengths <= MAX_ENTITIES) & (agents >= 0) & (scenarios >= 0)
        good &= (repeats >= 1) & (repeats <= highest_repeat)
        offsets = np.concatenate([[0], np.cumsum(np.maximum(lengths, 0))])
        names = self._names()
        if names.size != offsets[-1]:
            raise _NotPlain
        odd = np.concatenate([[0], np.cumsum(names < 0)])
        good &= odd[offsets[1:]] == odd[offsets[:-1]]
        good &= _has_plain_punctuation(flat, starts, lengths, bool(good.all()))
        if not good.all():
            names = names[np.repeat(good, np.maximum(lengths, 0))]
            kept = np.flatnonzero(good)
            lines, agents, scenarios, repeats = lines[kept], agents[kept], scenarios[kept], repeats[kept]
            offsets = np.concatenate([[0], np.cumsum(lengths[kept])])
        return PlainRows(lines, agents, scenarios, repeats, names, offsets)

    def _load(self, data: bytes) -> None:
        # The block lies in memory, under a name that DuckDB can open.
        descriptor = os.memfd_create("block")
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(data)
            self._connection.execute(_READ.format(descriptor, _OBJECT_BYTES))
        finally:
            os.close(descriptor)

    def _fetch(self, query: str, n_columns: int) -> list[NDArray[Any]]:
        columns = self._connection.execute(query).fetchnumpy()
        found = [np.ma.filled(column, 0) for column in columns.values()]
        if len(found) != n_columns:
            raise _NotPlain
        return found

    def _encode(
        self, column: str, hashes: NDArray[np.uint64], number: Callable[[str | None], int]
    ) -> NDArray[np.int64]:
        columns = self._connection.execute(
            f"SELECT {column} AS value, hash({column}) AS h FROM block GROUP BY {column}"
        ).fetchnumpy()
        values = [number(value) for value in _objects(columns["value"])]
        return _spread(hashes, np.asarray(columns["h"]), np.array(values, dtype=np.int64))

    def _names(self) -> NDArray[np.int64]:
        source = "(SELECT scenario_id, unnest(entities) AS name FROM block)"
        (hashes,) = self._fetch(f"SELECT hash(scenario_id, name) FROM {source}", 1)
        pairs = self._connection.execute(
            f"SELECT scenario_id, name, hash(scenario_id, name) AS h FROM {source} GROUP BY scenario_id, name"
        ).fetchnumpy()
        texts = list(zip(_objects(pairs["scenario_id"]), _objects(pairs["name"]), strict=True))
        numbers = [self._pairs.get(pair, _UNSEEN) for pair in texts]
        for place, pair in enumerate(texts):
            if numbers[place] == _UNSEEN:
                numbers[place] = self._pairs[pair] = self._pair_number(*pair)
        return _spread(hashes, np.asarray(pairs["h"]), np.array(numbers, dtype=np.int64))

    def _pair_number(self, scenario_text: str | None, name_text: str | None) -> int:
        scenario = self._scenario_number(scenario_text)
        if scenario < 0 or name_text is None or not name_text.startswith('"'):
            return -1
        return self._name(scenario, from_json(name_text))

    def _agent_number(self, text: str | None) -> int:
        return self._agent(from_json(text)) if text is not None and text.startswith('"') else -1

    def _scenario_number(self, text: str | None) -> int:
        return self._scenario(from_json(text)) if text is not None and text.startswith('"') else -1


def _repeat_number(text: str | None) -> int:
    return int(text) if text is not None and _REPEAT.fullmatch(text) else -1


def _objects(column: Any) -> list[str | None]:
    return [None if value is np.ma.masked else value for value in np.ma.asarray(column).tolist()]


def _spread(
    hashes: NDArray[np.uint64], distinct: NDArray[np.uint64], numbers: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The number of each entry, found by the hash of its text.

    Two texts with one hash would be taken for one another: such a block is read line by line.
    """
    order = np.argsort(distinct, kind="stable")
    ordered, numbers = distinct[order], numbers[order]
    if bool(np.any(ordered[1:] == ordered[:-1])):
        raise _NotPlain
    if not hashes.size:
        return np.zeros(0, dtype=np.int64)
    # Most entries are found at once in a table by their low bits; those that share a place are searched.
    n_bits = max(8, int(ordered.size).bit_length() + 2)
    places = np.zeros(1 << n_bits, dtype=np.int64)
    mask = np.uint64((1 << n_bits) - 1)
    places[ordered & mask] = np.arange(ordered.size)
    found = places[hashes & mask]
    missed = np.flatnonzero(ordered[found] != hashes)
    found[missed] = np.searchsorted(ordered, hashes[missed])
    spread: NDArray[np.int64] = numbers[found]
    return spread


def _has_plain_punctuation(
    flat: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64], all_complete: bool
) -> NDArray[np.bool_]:
    """Whether each row has the four keys once each, and as many commas as that takes.

    A key that stands twice or beside the four has a colon more, a trailing comma is one more; so has a string
    with one of them in it, which is no fault, but is looked at more closely.
    """
    n_commas = _N_KEYS - 1 + np.maximum(lengths - 1, 0)
    is_colon, is_comma = flat == _COLON, flat == _COMMA
    n_rows = starts.size
    if (
        all_complete
        and np.count_nonzero(is_colon) == _N_KEYS * n_rows
        and np.count_nonzero(is_comma) == n_commas.sum()
    ):
        # Complete rows have at least these, so the sums can only be right if every row is.
        return np.ones(n_rows, dtype=np.bool_)
    colons = np.add.reduceat(is_colon, starts, dtype=np.int64)
    commas = np.add.reduceat(is_comma, starts, dtype=np.int64)
    plain: NDArray[np.bool_] = (colons == _N_KEYS) & (commas == n_commas)
    return plain


def _no_rows() -> PlainRows:
    nothing = np.zeros(0, dtype=np.int64)
    return PlainRows(nothing, nothing, nothing, nothing, nothing, np.zeros(1, dtype=np.int64))
