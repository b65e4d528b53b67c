"""Which rows are plain enough to be read as columns: all ordinary ones, and none that needs a second look."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest

from diagnose_bench import bulk_columns
from diagnose_bench.bulk_columns import ColumnReader

SCENARIOS = {"s1": 0, "s2": 1}


class Names:
    """Numbers in the order of asking, as the name book gives them."""

    def __init__(self) -> None:
        self.agents: dict[str, int] = {}
        self.known: dict[tuple[int, str], int] = {}

    def agent(self, text: str) -> int:
        return self.agents.setdefault(text, len(self.agents))

    def name(self, scenario: int, text: str) -> int:
        return self.known.setdefault((scenario, text), len(self.known))


@pytest.fixture
def names() -> Names:
    return Names()


@pytest.fixture
def reader(names: Names) -> Iterator[ColumnReader]:
    opened = ColumnReader(names.agent, lambda text: SCENARIOS.get(text, -1), names.name)
    yield opened
    opened.close()


def line(**changes: object) -> bytes:
    row = {"agent": "a", "scenario_id": "s1", "repeat": 1, "entities": ["x", "y", "x"], **changes}
    return json.dumps(row).encode() + b"\n"


def test_ordinary_rows_are_all_plain(reader: ColumnReader, names: Names) -> None:
    rows = [
        line(repeat=n % 900 + 1, agent=f"agent {n % 7}", entities=[f"é{n % 50}", "x"]) for n in range(5000)
    ]
    found = reader.read(b"".join(rows), 1000)
    assert found is not None
    assert found.lines.tolist() == list(range(5000))
    assert found.repeats.tolist() == [n % 900 + 1 for n in range(5000)]
    assert found.agents.tolist() == [names.agents[f"agent {n % 7}"] for n in range(5000)]
    assert found.names.tolist() == [names.known[0, text] for n in range(5000) for text in (f"é{n % 50}", "x")]


@pytest.mark.parametrize(
    "odd",
    [
        line(repeat=2000),
        line(repeat=0),
        line(repeat="1"),
        line(scenario_id="s9"),
        line(scenario_id=1),
        line(agent=None),
        line(model="m"),
        line(entities=["a:b"]),
        line(entities=["a,b"]),
        line(entities=["a", 1]),
        line(entities=["a", None]),
        line(entities="a"),
        line(entities=[f"n{n}" for n in range(10_001)]),
        line(entities=["x" * 300_000]),
        line().replace(b'"repeat": 1', b'"repeat": 1, "repeat": 1'),
        line().replace(b'"x"]', b'"x",]'),
        line().replace(b"}", b",}"),
        b" " + line(),
        b"\n",
        b"{broken\n",
    ],
)
def test_a_row_that_needs_a_second_look_is_left_out_and_the_others_are_not(
    reader: ColumnReader, odd: bytes
) -> None:
    found = reader.read(line() + odd + line(entities=[]), 1000)
    assert found is not None
    assert found.lines.tolist() == [0, 2]
    assert found.offsets.tolist() == [0, 3, 3]


def test_one_missing_key_is_not_made_up_for_by_one_too_many(reader: ColumnReader) -> None:
    without = b'{"scenario_id": "s1", "repeat": 1, "entities": []}\n'
    twice = b'{"agent": "a", "agent": "a", "scenario_id": "s1", "repeat": 1, "entities": []}\n'
    found = reader.read(without + twice + line(), 1000)
    assert found is not None
    assert found.lines.tolist() == [2]


def test_texts_with_one_hash_are_not_taken_for_one_another(
    reader: ColumnReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        bulk_columns,
        "_spread",
        lambda hashes, distinct, numbers: spread(hashes & np.uint64(1), distinct & np.uint64(1), numbers),
    )
    rows = line(entities=[f"n{n}" for n in range(100)])
    assert reader.read(rows, 1000) is None


spread = bulk_columns._spread
