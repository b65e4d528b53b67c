"""Lines of any kind: both readers of bulk rows take and reject the same ones, as an import would."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.sample_runs import truth_of, write_suite

from diagnose_bench import bulk_reading, bulk_source
from diagnose_bench.bulk import score_file
from diagnose_bench.bulk_row import Row, read_row
from diagnose_bench.errors import UsageError
from diagnose_bench.importers.diagnosis_sources import BadRow, read_rows

NAMES = ("shop/Deployment/cart", "shop/Pod/cart-5d8f7c9b6d-x2v5z", "a:b", "x, y", 'q"', "\\", "é\u2028", "")
_ANSWERS = st.one_of(
    st.fixed_dictionaries({"entities": st.lists(st.sampled_from(NAMES), max_size=4)}),
    st.fixed_dictionaries({"entities": st.lists(st.sampled_from([*NAMES, 3, None, ["x"]]), max_size=3)}),
    st.fixed_dictionaries(
        {"diagnosis": st.fixed_dictionaries({"root_causes": st.just([{"entity": NAMES[0], "x": 1.5}])})}
    ),
    st.fixed_dictionaries({"text": st.sampled_from(["", "none", '["a/Pod/b"]'])}),
    st.fixed_dictionaries(
        {"diagnosis": st.sampled_from([None, {"refused": True}, 3, [], {"root_causes": 1}])}
    ),
    st.just({}),
)
_HEADS = st.fixed_dictionaries(
    {
        "agent": st.sampled_from(["a", "a", "b", "a b", "é", "", 1]),
        "scenario_id": st.sampled_from(["scenario-001", "scenario-002", "2", 2, "nowhere", None]),
        "repeat": st.sampled_from([1, 2, 3, 4, 5, 6, 7, 0, "1", 1.0, 10**12]),
    },
    optional={"model": st.sampled_from(["m", {"a": {"b": 1}}, ":"])},
)
_MUTATIONS = (
    "none",
    "none",
    "none",
    "none",
    "cut",
    "double",
    "comma",
    "space",
    "return",
    "byte",
    "nan",
    "two",
)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """A row, most often a good one, sometimes with its text damaged."""
    fields: dict[str, Any] = {**draw(_HEADS), **draw(_ANSWERS)}
    keys = draw(st.permutations(sorted(fields)))
    text = json.dumps({key: fields[key] for key in keys}, ensure_ascii=draw(st.booleans()))
    match draw(st.sampled_from(_MUTATIONS)):
        case "cut":
            text = text[: draw(st.integers(0, len(text)))]
        case "double":
            text = text[:-1] + ', "repeat": 2}'
        case "comma":
            text = text[:-1] + ",}"
        case "space":
            text = " " + text.replace(":", " :") + " "
        case "return":
            text += "\r"
        case "byte":
            return text.encode()[:-1] + b"\xff}"
        case "nan":
            text = text[:-1] + ', "z": NaN}'
        case "two":
            text += text
    return text.encode()


def outcome_of(file: Path, suite: Path) -> tuple[Any, ...]:
    try:
        result = score_file(file, str(suite))
    except UsageError as error:
        return (str(error),)
    rejected = result.rejected_path.read_bytes() if result.rejected_path.exists() else b""
    cards = []
    for agent in result.agents:
        card = json.loads(agent.path.read_bytes())
        cards.append({**card, "scenarios": [{**one, "trials": []} for one in card["scenarios"]]})
    return result.n_rows, result.n_repeats, rejected, cards


def read_or_reason(line: bytes) -> tuple[Row | None, str]:
    try:
        return read_row(line), ""
    except ValueError as error:
        return None, str(error)


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    truths = {
        "scenario-001": truth_of("scenario-001", ["cart"]),
        "scenario-002": truth_of("scenario-002", []),
    }
    return write_suite(tmp_path_factory.mktemp("bulk"), truths)


@settings(max_examples=40)
@given(rows=st.lists(lines(), min_size=1, max_size=12), block=st.integers(40, 2000))
def test_both_readers_and_every_size_of_block_agree(suite: Path, rows: list[bytes], block: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        file = Path(folder) / "rows.jsonl"
        file.write_bytes(b"\n".join(rows))
        one_by_one = outcome_of(file, suite)
        patch.setattr(bulk_source, "block_bytes", lambda size: block)
        assert outcome_of(file, suite) == one_by_one
        patch.setattr(bulk_reading, "DETAILED_BYTES", -1)
        assert outcome_of(file, suite) == one_by_one


@given(rows=st.lists(lines(), min_size=1, max_size=8))
def test_a_row_is_read_as_an_import_reads_it(rows: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.jsonl"
        for line in rows:
            file.write_bytes(line)
            imported = list(read_rows(file))
            if not line.strip():
                assert imported == []
                continue
            row, reason = read_or_reason(line)
            (answer,) = imported
            if row is None:
                # An import knows the agent already.
                assert "agent" in reason or answer == BadRow("line 1", reason)
            else:
                assert not isinstance(answer, BadRow)
                assert (answer.scenario, answer.repeat) == (row.scenario, row.repeat)
