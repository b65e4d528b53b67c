"""Which rows are plain enough to be read as columns: all ordinary ones, and none that needs a second look."""

from __future__ import annotations

import json

import numpy as np
import pytest

from diagnose_bench.bulk_columns import ColumnReader, PlainRows
from diagnose_bench.bulk_source import Block
from diagnose_bench.bulk_strings import Bytes, StringNumbers

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
def reader(names: Names) -> ColumnReader:
    return ColumnReader(names.agent, lambda text: SCENARIOS.get(text, -1), names.name)


def read(reader: ColumnReader, data: bytes) -> PlainRows:
    return reader.read(data, 1000, Block(data, 1, 0).edges)


def line(**changes: object) -> bytes:
    row = {"agent": "a", "scenario_id": "s1", "repeat": 1, "entities": ["x", "y", "x"], **changes}
    return json.dumps(row).encode() + b"\n"


def test_ordinary_rows_are_all_plain(reader: ColumnReader, names: Names) -> None:
    rows = [
        line(repeat=n % 900 + 1, agent=f"agent {n % 7}", entities=[f"é{n % 50}", "x"]) for n in range(5000)
    ]
    found = read(reader, b"".join(rows))
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
        line(entities=['a"b']),
        line(entities=["a\\b"]),
        line().replace(b'"y"', b'"\xff"'),
        line().replace(b'"y"', b'"a\tb"'),
        line().replace(b'"y"', b'"\\x"'),
        line().replace(b'"repeat": 1', b'"repeat": 01'),
        line().replace(b'"repeat": 1', b'"repeat": 1.0'),
        line().replace(b'"repeat": 1', b'"repeat": 1e0'),
        line().replace(b'"repeat": 1', b'"repeat": 12345678901'),
        line().replace(b'"a"', b'"a": "b"'),
        line().replace(b'"a", ', b'"a" '),
        line().replace(b"[", b"[["),
        line().replace(b'["x", ', b'["x" "z", '),
        line().replace(b"}", b"} x"),
        line().replace(b'{"', b'{{"'),
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
    found = read(reader, line() + odd + line(entities=[]))
    assert found.lines.tolist() == [0, 2]
    assert found.offsets.tolist() == [0, 3, 3]


def test_one_missing_key_is_not_made_up_for_by_one_too_many(reader: ColumnReader) -> None:
    without = b'{"scenario_id": "s1", "repeat": 1, "entities": []}\n'
    twice = b'{"agent": "a", "agent": "a", "scenario_id": "s1", "repeat": 1, "entities": []}\n'
    found = read(reader, without + twice + line())
    assert found.lines.tolist() == [2]


@pytest.mark.parametrize(
    "plain",
    [
        line(entities=["a:b", "a,b", "]}", "{", "é", "\U0001f600"]),
        b'{"repeat":7,"entities":["x"],"scenario_id":"s2","agent":"a"}\n',
        b'{"entities": ["x", "y"], "agent": "a", "scenario_id": "s2", "repeat": 999}\r\n',
        b'{"entities": [], "agent": "a", "repeat": 1, "scenario_id": "s2"}\n',
        b'{"agent": "a", "repeat": 1, "scenario_id": "s2", "entities": []}\n',
        line(entities=["x" * 1000, "x" * 1000 + "y"]),
        line(entities=[""]),
    ],
)
def test_whatever_the_order_and_the_spaces_a_row_reads_as_json_does(
    reader: ColumnReader, names: Names, plain: bytes
) -> None:
    found = read(reader, line() + plain + line(entities=[]))
    row = json.loads(plain)
    assert found.lines.tolist() == [0, 1, 2]
    assert found.agents.tolist() == [names.agents[row["agent"]]] * 3
    assert (found.scenarios[1], found.repeats[1]) == (SCENARIOS[row["scenario_id"]], row["repeat"])
    own = found.names[found.offsets[1] : found.offsets[2]].tolist()
    assert own == [names.known[SCENARIOS[row["scenario_id"]], name] for name in row["entities"]]


def test_strings_with_one_hash_are_not_taken_for_one_another(
    reader: ColumnReader, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        StringNumbers, "_hash", lambda self, parts, lengths, salts: np.zeros(lengths.size, dtype=np.uint64)
    )
    texts = [f"n{n % 30:0{1 + n % 20}}" for n in range(100)]
    found = read(reader, line(entities=texts) + line(scenario_id="s2", entities=texts))
    assert found.lines.tolist() == [0, 1]
    assert found.names.tolist() == [names.known[scenario, text] for scenario in (0, 1) for text in texts]


def test_names_with_one_hash_have_their_own_numbers() -> None:
    asked: list[tuple[int, bytes]] = []

    def number(salt: int, text: bytes) -> int:
        asked.append((salt, text))
        return 10 * salt + len(text)

    known = StringNumbers(number)
    known._hash = lambda parts, lengths, salts: np.zeros(lengths.size, dtype=np.uint64)  # type: ignore[method-assign]
    data = b"abcdefghijklmnop"
    starts, lengths = np.array([0, 1, 0, 4]), np.array([3, 12, 3, 3])
    found = known.of(Bytes(data), starts, lengths, np.array([0, 0, 1, 0]))
    assert found.tolist() == [3, 12, 13, 3]
    assert set(asked) == {(0, b"abc"), (0, b"bcdefghijklm"), (1, b"abc"), (0, b"efg")}


def test_words_that_begin_anywhere_are_those_of_the_bytes() -> None:
    data = bytes(range(1, 60))
    run = Bytes(data).words(np.arange(len(data) - 16))
    for number in (0, 8):
        expected = [int.from_bytes(data[at + number :][:8], "little") for at in range(len(data) - 16)]
        assert run.next().tolist() == expected
