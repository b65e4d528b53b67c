"""Bulk scoring: equal to import and score, nothing dropped in silence, the same through both readers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner
from unit.bulk_rows import CART, CART_POD, CHECKOUT, MIXED_ROWS, TRUTHS, VALKEY, row, scorecard, write_rows
from unit.sample_runs import write_suite

from diagnose_bench import bulk_files, bulk_reading
from diagnose_bench.bulk import BulkResult, score_file
from diagnose_bench.cli import app
from diagnose_bench.errors import DiagnoseBenchError, UsageError
from diagnose_bench.grading import score_run
from diagnose_bench.importers.diagnoses import import_diagnoses
from diagnose_bench.outcome import Profile
from diagnose_bench.suite import load_suite


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return write_suite(tmp_path, TRUTHS)


@pytest.fixture(params=["one by one", "by columns"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both readers; the one for large files keeps no rows, and reads them again for the scorecards."""
    if request.param == "by columns":
        monkeypatch.setattr(bulk_reading, "DETAILED_BYTES", -1)
    return str(request.param)


def rejected(result: BulkResult) -> list[tuple[int, str]]:
    text = result.rejected_path.read_text() if result.rejected_path.exists() else ""
    found = [json.loads(line) for line in text.splitlines()]
    assert len(found) == result.n_rejected
    return [(one["line"], one["reason"]) for one in found]


def without_lists(card: dict[str, Any]) -> dict[str, Any]:
    return {**card, "run_id": "", "scenarios": [{**one, "trials": []} for one in card["scenarios"]]}


@pytest.mark.parametrize("profile", list(Profile))
def test_bulk_equals_import_and_score(suite: Path, tmp_path: Path, reader: str, profile: Profile) -> None:
    file = write_rows(tmp_path / "rows.jsonl", MIXED_ROWS)
    result = score_file(file, str(suite), profile=profile)
    assert rejected(result) == []
    run = tmp_path / "run"
    import_diagnoses(file, agent="a", suite=load_suite(str(suite)), out=run)
    expected = score_run(run, profile=profile).to_dict()
    found = scorecard(result)
    assert without_lists(found) == without_lists(json.loads(json.dumps(expected)))
    assert found["scenarios"] == json.loads(json.dumps(expected["scenarios"]))


def test_each_agent_gets_its_scorecard_over_one_plan(suite: Path, tmp_path: Path, reader: str) -> None:
    rows = [row(agent="b", repeat=2), row(agent="a/1"), row("scenario-003", agent="a/1", entities=[])]
    result = score_file(write_rows(tmp_path / "rows.jsonl", rows), str(suite))
    assert [agent.name for agent in result.agents] == ["a/1", "b"]
    assert result.n_repeats == 2
    # a/1: one of two repeats right in scenarios 1 and 3; b: one of two in scenario 1.
    assert scorecard(result, "a/1")["headline"]["average_precision_at_full_recall"] == pytest.approx(1 / 3)
    assert scorecard(result, "b")["headline"]["average_precision_at_full_recall"] == pytest.approx(1 / 6)
    assert "12 planned" in " ".join(result.notes())
    index = json.loads((result.folder / "index.json").read_bytes())
    assert [one["agent"] for one in index["agents"]] == ["a/1", "b"]
    assert "sandbox:-|" in scorecard(result, "b")["signature"]


BAD_ROWS: list[tuple[Any, str]] = [
    (b'{"agent": "a", "scenario_id": "scenario-001", ', "no JSON"),
    (b"[1, 2]", "no JSON object"),
    (b"null", "no JSON object"),
    (b'{"agent": "\xff", "scenario_id": "scenario-001", "repeat": 9, "entities": []}', "utf-8"),
    (row("scenario-999", 9), "unknown scenario"),
    (row(None, 9), "scenario_id"),
    (row(repeat=0), "repeat"),
    (row(repeat="9"), "repeat"),
    (row(repeat=True), "repeat"),
    (row(repeat=9.0), "repeat"),
    (row(repeat=1001), "above 1000"),
    (b'{"agent": "a", "scenario_id": "scenario-001", "repeat": NaN, "entities": []}', "repeat"),
    (row(agent=None, repeat=9), "agent"),
    (row(agent=" ", repeat=9), "agent"),
    (row(agent=7, repeat=9), "agent"),
    (row(agent="x\u202ey", repeat=9), "agent"),
    (row(agent="x" * 1001, repeat=9), "agent"),
    ({"scenario_id": "scenario-001", "repeat": 9, "entities": []}, "agent"),
    ({"agent": "a", "scenario_id": "scenario-001", "repeat": 9}, "exactly one of"),
    (row(repeat=9, entities=[], text="x"), "exactly one of"),
    (row(repeat=9, text=3), "text is no text"),
    (
        b'{"agent": "a", "repeat": 9, "repeat": 9, "scenario_id": "scenario-001", "entities": []}',
        "'repeat' twice",
    ),
    (
        b'{"agent":"a","scenario_id":"scenario-001","repeat":9,"entities":[],"entities":["x"]}',
        "'entities' twice",
    ),
    (
        b'{"agent":"a","scenario_id":"scenario-001","repeat":9,"r\\u0065peat":9,"entities":[]}',
        "'repeat' twice",
    ),
    (b'{"agent":"a","scenario_id":"scenario-001","repeat":9,"entities":["x",]}', "no JSON"),
    (b'{"agent":"a","scenario_id":"scenario-001","repeat":9,"entities":[],}', "no JSON"),
    (b'{"agent":"a","scenario_id":"scenario-001","repeat":9,"entities":[]} {"b": 1}', "no JSON"),
    (row(), "was there already"),
]


def test_bad_rows_are_listed_with_their_line_and_reason(suite: Path, tmp_path: Path, reader: str) -> None:
    rows: list[Any] = [row(), b"", row("scenario-002", entities=[VALKEY, CART]), b"  \t"]
    expected = []
    for bad, reason in BAD_ROWS:
        rows.append(bad)
        expected.append((len(rows), reason))
        rows.append(row("scenario-003", len(rows), entities=[]))
    result = score_file(write_rows(tmp_path / "rows.jsonl", rows), str(suite))
    found = rejected(result)
    assert [line for line, _ in found] == [line for line, _ in expected]
    for (_, reason), (_, part) in zip(found, expected, strict=True):
        assert part in reason
    assert result.exit_code == 3
    assert result.n_rows == 2 + 2 * len(BAD_ROWS)
    assert sum(agent.n_trials for agent in result.agents) == 2 + len(BAD_ROWS)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"\xef\xbb\xbf{R1}\n{R1}\n", [2]),
        (b"{R1}\r\n\r\n{R1}\r\n", [3]),
        (b"{R1}\n\n\n{R1}", [4]),
        (b"\n\n{R1}\nx", [4]),
        (b"{R1}\r{R1}\n", [1]),
    ],
)
def test_lines_are_counted_whatever_stands_between_them(
    suite: Path, tmp_path: Path, reader: str, text: bytes, lines: list[int]
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(
        text.replace(b"{R1}", json.dumps(row()).encode()) + b"\n" + json.dumps(row(repeat=2)).encode()
    )
    assert [line for line, _ in rejected(score_file(file, str(suite)))] == lines


def test_a_long_line_is_read_and_one_beyond_all_bounds_is_rejected(
    suite: Path, tmp_path: Path, reader: str
) -> None:
    long = row(repeat=2, entities=["x" * (5 << 20)])
    rows = [row(), long, b"{" + b" " * (17 << 20) + b"}", row(repeat=3), b"x" * (40 << 20), row(repeat=4)]
    result = score_file(write_rows(tmp_path / "rows.jsonl", rows), str(suite))
    assert [line for line, _ in rejected(result)] == [3, 5]
    assert all("longer than 16 MiB" in reason for _, reason in rejected(result))
    card = scorecard(result)
    # More than 1 MiB is no diagnosis, as everywhere.
    assert (card["outcomes"]["diagnosed"], card["outcomes"]["malformed_diagnosis"]) == (3, 1)


def test_ten_thousand_entities_are_a_diagnosis_and_one_more_are_none(
    suite: Path, tmp_path: Path, reader: str
) -> None:
    names = [CART, *(f"shop/Pod/p{number}" for number in range(9_999))]
    rows = [row(entities=names), row(repeat=2, entities=[*names, "x"])]
    card = scorecard(score_file(write_rows(tmp_path / "rows.jsonl", rows), str(suite)))
    assert (card["outcomes"]["diagnosed"], card["outcomes"]["malformed_diagnosis"]) == (1, 1)
    # Half of one scenario of three, whose one right name stands among 10,000.
    assert card["headline"]["average_precision_at_full_recall"] == pytest.approx(1 / 10_000 / 2 / 3)


def test_the_plan_can_be_given(suite: Path, tmp_path: Path, reader: str) -> None:
    file = write_rows(tmp_path / "rows.jsonl", [row(), row(repeat=3)])
    result = score_file(file, str(suite), planned_repeats=2)
    assert [(line, "above the 2" in reason) for line, reason in rejected(result)] == [(2, True)]
    assert (result.n_repeats, result.plan_is_guessed) == (2, False)
    assert scorecard(result)["headline"]["average_precision_at_full_recall"] == pytest.approx(1 / 2 / 3)


def test_an_excluded_scenario_leaves_the_denominator(suite: Path, tmp_path: Path, reader: str) -> None:
    file = write_rows(tmp_path / "rows.jsonl", [row(), row("scenario-002", entities=[])])
    result = score_file(file, str(suite), exclude=["scenario-002", "3"])
    card = scorecard(result)
    assert card["headline"]["average_precision_at_full_recall"] == 1.0
    assert card["outcomes"]["diagnosed"] == 1
    assert "exclude:scenario-002,scenario-003" in card["signature"]


def test_a_refused_truth_leaves_the_number_open(tmp_path: Path, reader: str) -> None:
    suite = write_suite(tmp_path, {**TRUTHS, "scenario-004": "groups: []\n"})
    file = write_rows(tmp_path / "rows.jsonl", [row(), row("scenario-004")])
    result = score_file(file, str(suite), trials=tmp_path / "t.parquet")
    card = scorecard(result)
    assert card["headline"]["average_precision_at_full_recall"] is None
    assert card["headline"]["bounds"] == [0.25, 0.5]
    assert result.exit_code == 3
    rows = duckdb.sql(f"SELECT scenario_id, precision FROM '{tmp_path}/t.parquet' WHERE line IS NOT NULL")
    assert rows.fetchall() == [("scenario-001", 1.0), ("scenario-004", None)]


def test_the_same_rows_give_the_same_bytes(suite: Path, tmp_path: Path, reader: str) -> None:
    rows = [
        row(agent=f"agent-{n % 5}", repeat=n // 5 + 1, entities=[f"shop/Pod/x{n}", CART]) for n in range(50)
    ]
    file = write_rows(tmp_path / "rows.jsonl", rows)
    first = score_file(file, str(suite), trials=tmp_path / "1.parquet")
    bytes_of = {path.name: path.read_bytes() for path in first.folder.iterdir()}
    again = score_file(file, str(suite), trials=tmp_path / "2.parquet")
    assert bytes_of == {path.name: path.read_bytes() for path in again.folder.iterdir()}
    assert (tmp_path / "1.parquet").read_bytes() == (tmp_path / "2.parquet").read_bytes()


def test_trials_have_one_row_for_each_that_was_planned(suite: Path, tmp_path: Path, reader: str) -> None:
    out = tmp_path / "it's.parquet"
    rows = [row(entities=[CHECKOUT, CART]), row("scenario-002", 2, entities=[CART, CART_POD, VALKEY])]
    score_file(write_rows(tmp_path / "rows.jsonl", rows), str(suite), trials=out)
    found = duckdb.read_parquet(str(out)).select(
        "scenario_id, repeat, line, outcome, n_correct, n_wrong, precision_at_full_recall, strict_n_wrong"
    )
    assert found.fetchall() == [
        ("scenario-001", 1, 1, "diagnosed", 1, 1, 0.5, 1),
        ("scenario-001", 2, None, "no_diagnosis", 0, 0, 0.0, 0),
        ("scenario-002", 1, None, "no_diagnosis", 0, 0, 0.0, 0),
        ("scenario-002", 2, 2, "diagnosed", 2, 0, 1.0, 1),
        ("scenario-003", 1, None, "no_diagnosis", 0, 0, 0.0, 0),
        ("scenario-003", 2, None, "no_diagnosis", 0, 0, 0.0, 0),
    ]


def test_parquet_equals_the_same_rows_as_lines(suite: Path, tmp_path: Path, reader: str) -> None:
    file = tmp_path / "rows.parquet"
    duckdb.execute(
        f"""COPY (SELECT * FROM (VALUES
            ('a', 'scenario-001', 1, ['{CART}', 'say "hi": x'], NULL, NULL),
            ('a', 'scenario-002', 1, NULL, '{{"root_causes": [{{"entity": "{CART}"}}]}}', NULL),
            ('a', 'scenario-003', 1, NULL, NULL, NULL),
            ('a', 'scenario-003', 2, [], NULL, NULL),
            ('a', 'scenario-002', 2, NULL, NULL, '["{CART}", "{VALKEY}"]'),
            (NULL, 'scenario-002', 3, NULL, NULL, ''),
            ('a', 'scenario-001', 2, [], '{{}}', NULL)
        ) AS t(agent, scenario_id, repeat, entities, diagnosis, text)) TO '{file}' (FORMAT parquet)"""
    )
    result = score_file(file, str(suite))
    assert [(line, reason[:10]) for line, reason in rejected(result)] == [
        (6, "agent is m"),
        (7, "the row ha"),
    ]
    lines = [
        row(entities=[CART, 'say "hi": x']),
        row("scenario-002", diagnosis={"root_causes": [{"entity": CART}]}),
        row("scenario-003", diagnosis=None),
        row("scenario-003", 2, entities=[]),
        row("scenario-002", 2, text=json.dumps([CART, VALKEY])),
    ]
    other = score_file(write_rows(tmp_path / "rows.jsonl", lines), str(suite))
    assert without_lists(scorecard(result)) == without_lists(scorecard(other))


@pytest.mark.parametrize(
    ("content", "message"), [(b"no parquet", "cannot be read as Parquet"), (None, "has no column agent")]
)
def test_what_is_no_parquet_of_rows_is_refused(
    suite: Path, tmp_path: Path, content: bytes | None, message: str
) -> None:
    file = tmp_path / "rows.parquet"
    if content is None:
        duckdb.execute(f"COPY (SELECT 1 AS x) TO '{file}'")
    else:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        score_file(file, str(suite))


def test_a_file_without_a_row_that_can_be_taken_is_refused_and_says_why(suite: Path, tmp_path: Path) -> None:
    file = write_rows(tmp_path / "rows.jsonl", [b"x"])
    with pytest.raises(UsageError, match=r"no row could be taken. line 1: the row is no JSON"):
        score_file(file, str(suite))
    assert not (tmp_path / "rows.jsonl.scorecards").exists()
    assert (tmp_path / "rows.jsonl.rejected.jsonl").exists()
    empty = tmp_path / "empty.jsonl"
    empty.write_bytes(b"")
    with pytest.raises(UsageError, match="It is empty"):
        score_file(empty, str(suite))


def test_names_that_agree_but_for_odd_letters_get_files_of_their_own(suite: Path, tmp_path: Path) -> None:
    names = ["A", "a", "a b", "a/b", "../..", "index", "x" * 300]
    rows = [row(agent=name) for name in names]
    result = score_file(write_rows(tmp_path / "rows.jsonl", rows), str(suite))
    paths = {agent.path.name.lower() for agent in result.agents}
    assert len(paths) == len(names)
    assert {path.name for path in result.folder.iterdir()} >= {agent.path.name for agent in result.agents}


def test_a_folder_of_other_things_is_left_alone(suite: Path, tmp_path: Path) -> None:
    file = write_rows(tmp_path / "rows.jsonl", [row()])
    out = tmp_path / "mine"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="holds other things"):
        score_file(file, str(suite), out=out)
    assert (out / "thesis.txt").read_text() == "years of work"


def test_an_earlier_list_of_rejected_rows_goes_when_none_is_left(suite: Path, tmp_path: Path) -> None:
    file = write_rows(tmp_path / "rows.jsonl", [row(), b"x"])
    assert score_file(file, str(suite)).rejected_path.exists()
    write_rows(file, [row()])
    assert not score_file(file, str(suite)).rejected_path.exists()


def test_nothing_half_written_is_left_when_the_disk_is_full(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_rows(tmp_path / "rows.jsonl", [row(), row(agent="b")])
    before = sorted(path.name for path in tmp_path.iterdir())
    real = bulk_files.write_parts
    monkeypatch.setattr(
        bulk_files,
        "write_parts",
        lambda path, parts: real(path if path.name != "b.json" else Path("/dev/full"), parts),
    )
    with pytest.raises(DiagnoseBenchError, match="cannot write: No space left"):
        score_file(file, str(suite), trials=tmp_path / "t.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_command_line_prints_the_agents_and_leaves_with_three_for_rejected_rows(
    suite: Path, tmp_path: Path
) -> None:
    file = write_rows(tmp_path / "rows.jsonl", [row(), row("scenario-002"), b"x"])
    words = ["score", str(file), "--suite", str(suite)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 3
    assert "Average precision at full recall: 3 scenarios x 1 repeats" in result.stdout
    assert "33.3 %" in result.stdout
    assert "line 3: the row is no JSON" in result.stderr
    as_json = CliRunner().invoke(app, [*words, "--format", "json"])
    assert json.loads(as_json.stdout)["n_rejected"] == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["score", "rows.jsonl"], "say with --suite"),
        (["score", "nowhere", "--suite", "x"], "does not exist"),
        (["score", ".", "--trials", "t.parquet"], "is for files of rows"),
        (["score", "rows.jsonl", "--suite", "{suite}", "--planned-repeats", "0"], "from 1 to 10000"),
        (["score", "rows.jsonl", "--suite", "{suite}", "--trials", "rows.jsonl"], "different places"),
    ],
)
def test_what_cannot_be_is_said(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "rows.jsonl", [row()])
    result = CliRunner().invoke(app, [word.replace("{suite}", str(suite)) for word in words])
    assert result.exit_code == 2
    assert message in result.stderr
    assert (tmp_path / "rows.jsonl").read_bytes() == json.dumps(row()).encode() + b"\n"
