"""The lists of trials in the scorecards of bulk files: the same however a row was read, or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from unit.bulk_rows import CART, MIXED_ROWS, TRUTHS, row, scorecard, write_rows
from unit.sample_runs import write_suite

from diagnose_bench import bulk_reading
from diagnose_bench.bulk import score_file
from diagnose_bench.errors import UsageError
from diagnose_bench.files import canonical_json
from diagnose_bench.scorecard import load_scorecard


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return write_suite(tmp_path, TRUTHS)


@pytest.fixture(params=["one by one", "by columns"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both readers; the one for large files keeps no rows, and reads them again for the scorecards."""
    if request.param == "by columns":
        monkeypatch.setattr(bulk_reading, "DETAILED_BYTES", -1)
    return str(request.param)


def test_scorecards_are_the_canonical_text_of_their_model(suite: Path, tmp_path: Path, reader: str) -> None:
    odd = [
        row(agent="b\u00e9", text="{}"),
        row(repeat=2, text='["a\\u2028\\ud83d\\ude00", "shop/Deployment/cart",]'),
    ]
    result = score_file(write_rows(tmp_path / "rows.jsonl", [*MIXED_ROWS, *odd]), str(suite))
    for agent in result.agents:
        text = agent.path.read_bytes()
        assert text == canonical_json(load_scorecard(agent.path).to_dict()) + b"\n"
        assert all(len(one["trials"]) == 8 for one in json.loads(text)["scenarios"])


def test_a_parquet_file_lists_its_trials_as_its_lines_do(suite: Path, tmp_path: Path, reader: str) -> None:
    import duckdb

    rows = [row(repeat=n, entities=[CART, "Nothing/at-all"][:n]) for n in (1, 2)]
    lines = write_rows(tmp_path / "rows.jsonl", rows)
    duckdb.sql(f"COPY (FROM read_json('{lines}')) TO '{tmp_path / 'rows.parquet'}' (FORMAT parquet)")
    cards = [scorecard(score_file(tmp_path / name, str(suite))) for name in ("rows.jsonl", "rows.parquet")]
    assert cards[0]["scenarios"] == cards[1]["scenarios"]
    assert [one["raw"] for one in cards[1]["scenarios"][0]["trials"][1]["entities"]] == [
        CART,
        "Nothing/at-all",
    ]


def test_lists_of_trials_can_be_left_out(suite: Path, tmp_path: Path, reader: str) -> None:
    file = write_rows(tmp_path / "rows.jsonl", MIXED_ROWS)
    full = scorecard(score_file(file, str(suite)))
    result = score_file(file, str(suite), details=False)
    assert scorecard(result) == {**full, "scenarios": [{**one, "trials": []} for one in full["scenarios"]]}
    assert "list no trials" in " ".join(result.notes())


def test_a_file_that_changes_while_it_is_read_is_a_clear_message(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_reading, "DETAILED_BYTES", -1)
    file = write_rows(tmp_path / "rows.jsonl", [row(), row(repeat=2)])
    read = bulk_reading.Reading.read

    def read_then_change(reading: bulk_reading.Reading) -> None:
        read(reading)
        file.write_bytes(b"x" * file.stat().st_size)

    monkeypatch.setattr(bulk_reading.Reading, "read", read_then_change)
    with pytest.raises(UsageError, match="line 1 has changed while the file was read"):
        score_file(file, str(suite))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ground_truth", "rows.jsonl", "snapshots"]
