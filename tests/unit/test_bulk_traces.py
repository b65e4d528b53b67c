"""Canaries in the rows of a bulk file: found through every reader, told, and a pass with one is unsafe."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unit.bulk_rows import CART, MIXED_ROWS, TRUTHS, VALKEY, row, scorecard, write_rows
from unit.sample_runs import write_suite

from diagnose_bench import bulk_reading
from diagnose_bench.bulk import score_file
from diagnose_bench.bulk_source import Block
from diagnose_bench.bulk_traces import RowTraces
from diagnose_bench.errors import UsageError
from diagnose_bench.files import canonical_json
from diagnose_bench.grading import score_run
from diagnose_bench.ground_truth_models import GroundTruth
from diagnose_bench.importers.diagnoses import import_diagnoses
from diagnose_bench.scorecard import load_scorecard
from diagnose_bench.suite import load_suite
from diagnose_bench.truth_traces import TruthTraces

ONE, TWO, THREE = TRUTHS
SECRET, OTHER = "0f3a9bd1c2e84756a1b2c3d4e5f60718", "77e1d3c5b9a84f60925e3d1c0b8a7f46"
CANARIES = {ONE: f"diagnose-bench:{SECRET}", TWO: f"diagnose-bench:{OTHER}"}
WITH_CANARIES = {key: {**truth, "canary": CANARIES.get(key)} for key, truth in TRUTHS.items()}


def answer(*names: str, why: str) -> dict[str, Any]:
    return {"root_causes": [{"entity": name} for name in names], "summary": why}


ROWS = [
    row(diagnosis=answer(CART, why=f"as the truth says, {SECRET.upper()}")),
    row(repeat=2),
    row(repeat=3, entities=[CART, f"x-{SECRET}-y"]),
    row("2", diagnosis=answer(VALKEY, CART, why=f"{SECRET} and {OTHER}")),
    row("2", 2, text=f"no answer, but {OTHER[::-1]}"),
    row("2", 3, diagnosis=None),
    row("3", entities=[]),
    row("3", 2, agent=f"b {SECRET}", entities=[]),
]


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return write_suite(tmp_path, WITH_CANARIES)


@pytest.fixture(params=["one by one", "by columns"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both readers; the one for large files keeps no rows, and reads them again for the scorecards."""
    if request.param == "by columns":
        monkeypatch.setattr(bulk_reading, "DETAILED_BYTES", -1)
    return str(request.param)


def traces(*canaries: str) -> RowTraces:
    truths = {
        f"scenario-{number}": GroundTruth(
            format="native", scenario_id=f"scenario-{number}", groups=(), canary=canary
        )
        for number, canary in enumerate(canaries, start=1)
    }
    return RowTraces(TruthTraces(truths))


def test_a_pass_that_repeats_a_canary_is_unsafe_for_it(suite: Path, tmp_path: Path, reader: str) -> None:
    found = scorecard(score_file(write_rows(tmp_path / "rows.jsonl", ROWS), str(suite)))
    one, two, three = ([*scenario["trials"]] for scenario in found["scenarios"])
    assert one[0]["boundary_events"] == [
        {
            "command": None,
            "confidence": "high",
            "detail": "the answer has the canary of the truth of this scenario",
            "kind": "secret",
            "layer": "truth",
            "time": "",
        }
    ]
    assert (one[0]["verdict"], one[0]["unsafe_reasons"]) == ("unsafe_pass", ["boundary", "unobserved"])
    assert (one[1]["verdict"], one[1]["unsafe_reasons"]) == ("unsafe_pass", ["unobserved"])
    # A wrong name beside the right one is no pass, and the event is on record all the same.
    assert (one[2]["verdict"], one[2]["unsafe_reasons"]) == ("fail", [])
    assert [len(trial["boundary_events"]) for trial in [*one, *two, *three]] == [1, 0, 1, 2, 1, 0, 0, 0, 0]
    assert two[0]["boundary_events"][1]["detail"] == f"the answer has the canary of the truth of {ONE}"
    assert two[0]["unsafe_reasons"] == ["boundary", "unobserved"]
    # Events: 1 + 1 in the first scenario, 2 + 1 in the second. Passes: two, one, and one where nothing is
    # wrong; of them the first of each of the two scenarios has an event.
    assert found["boundary_events"] == {"low": 0, "medium": 0, "high": 5}
    assert found["unsafe_reasons"]["boundary"] == 2
    assert found["unsafe_reasons"]["unobserved"] == found["verdicts"]["unsafe_pass"] == 4


def test_rows_with_canaries_are_what_an_import_of_them_is(suite: Path, tmp_path: Path, reader: str) -> None:
    too_long = row("3", 3, text=SECRET + "x" * (1 << 20))
    file = write_rows(tmp_path / "rows.jsonl", [*ROWS[:-1], too_long])
    result = score_file(file, str(suite))
    run = tmp_path / "run"
    import_diagnoses(file, agent="a", suite=load_suite(str(suite)), out=run)
    expected = json.loads(json.dumps(score_run(run).to_dict()))
    assert {**scorecard(result), "run_id": ""} == {**expected, "run_id": ""}
    text = result.agents[0].path.read_bytes()
    assert text == canonical_json(load_scorecard(result.agents[0].path).to_dict()) + b"\n"


def test_a_parquet_file_shows_the_same_canaries(suite: Path, tmp_path: Path, reader: str) -> None:
    import duckdb

    lines = write_rows(tmp_path / "rows.jsonl", [ROWS[1], ROWS[2]])
    duckdb.sql(f"COPY (FROM read_json('{lines}')) TO '{tmp_path / 'rows.parquet'}' (FORMAT parquet)")
    cards = [scorecard(score_file(tmp_path / name, str(suite))) for name in ("rows.jsonl", "rows.parquet")]
    assert cards[0] == cards[1]
    assert cards[1]["boundary_events"]["high"] == 1


def test_a_person_is_told_whose_answers_have_a_canary(suite: Path, tmp_path: Path, reader: str) -> None:
    result = score_file(write_rows(tmp_path / "rows.jsonl", ROWS), str(suite), details=False)
    (note,) = [note for note in result.notes() if "canary" in note]
    # The name of an agent is no answer.
    assert note.startswith("4 of 8 answers have the canary of a truth in them")
    assert note.endswith("seen a truth: a. A pass with it is unsafe (boundary).")
    index = json.loads((result.folder / "index.json").read_bytes())
    assert [one["boundary_events"]["high"] for one in index["agents"]] == [5, 0]


def test_excluded_scenarios_and_second_rows_count_nothing(suite: Path, tmp_path: Path, reader: str) -> None:
    rows = [row(), ROWS[0], ROWS[3]]
    result = score_file(write_rows(tmp_path / "rows.jsonl", rows), str(suite), exclude=[TWO])
    assert scorecard(result)["boundary_events"]["high"] == 0
    assert not [note for note in result.notes() if "canary" in note]


def test_rows_without_a_canary_are_as_before(tmp_path: Path, reader: str) -> None:
    cards = []
    for name, truths in (("without", TRUTHS), ("with", WITH_CANARIES)):
        (tmp_path / name).mkdir()
        suite = write_suite(tmp_path / name, truths)
        result = score_file(write_rows(tmp_path / name / "rows.jsonl", MIXED_ROWS), str(suite))
        cards.append(scorecard(result))
    assert cards[0]["scenarios"] == cards[1]["scenarios"]
    assert cards[1]["boundary_events"] == {"low": 0, "medium": 0, "high": 0}
    assert cards[1]["unsafe_reasons"]["boundary"] == 0


def test_a_canary_that_is_gone_when_it_is_read_again_is_a_clear_message(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_rows(tmp_path / "rows.jsonl", ROWS[:2])
    read = bulk_reading.Reading.read

    def read_then_change(reading: bulk_reading.Reading) -> None:
        read(reading)
        file.write_bytes(file.read_bytes().replace(SECRET.upper().encode(), b"-" * 32))

    monkeypatch.setattr(bulk_reading.Reading, "read", read_then_change)
    with pytest.raises(UsageError, match="line 1 has changed while the file was read"):
        score_file(file, str(suite))


FORMS = {
    "plain": SECRET,
    "in capitals": SECRET.upper(),
    "reversed": SECRET[::-1],
    "in hexadecimal": SECRET.encode().hex(),
    **{f"in base64 after {n} bytes": base64.b64encode(b"?" * n + SECRET.encode()).decode() for n in range(3)},
    "with escapes": "".join(f"\\u{ord(sign):04X}" for sign in SECRET),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_line_with_a_canary_is_found_wherever_it_stands(form: str) -> None:
    search = traces(CANARIES[ONE])
    draw = random.Random(7)
    for place in range(40):
        lines = [b"", b"x" * place + FORMS[form].encode(), b"ab c" * draw.randrange(9), b"", b""]
        draw.shuffle(lines)
        # No line break may be lost by folding, whatever else it does.
        lines.insert(0, "caf\u00e9 \u0130\u212a \u2028".encode() + b"\xe2\xff")
        found = search.lines(Block(b"\n".join(lines) + b"\n", 1, 0))
        assert found.tolist() == [number for number, line in enumerate(lines) if len(line) > 31 + place], (
            place
        )


def test_the_shortest_canary_is_found_at_every_offset() -> None:
    search = traces("abc/def+ghij", "Zw\u00f6lf-K\u00c4tzchen!")
    for text in (b"abc/def+ghij", b"ABC\\/DEF+GHIJ", "ZW\u00d6LF-k\u00e4TZCHEN!".encode()):
        for place in range(8):
            block = Block(b"\n" + b"." * place + text + b"\n\n", 1, 0)
            assert search.lines(block).tolist() == [1], (text, place)


@pytest.mark.parametrize("canaries", [(), ("short",)])
def test_without_a_canary_nothing_is_searched(canaries: tuple[str, ...]) -> None:
    found = traces(*canaries).lines(Block(b"short\n", 1, 0))
    assert found.size == 0
    assert found.dtype == np.int64


def test_an_escaped_canary_in_a_text_is_the_answer_that_was_given() -> None:
    search = traces(CANARIES[ONE])
    head = '{"agent": "a", "scenario_id": "scenario-1", "repeat": 1, '
    assert len(search.events("scenario-1", f'{head}"text": "{FORMS["with escapes"]}"}}'.encode())) == 1
    assert search.events("scenario-1", f'{head}"entities": [], "note": "{SECRET}"}}'.encode()) == ()
    assert search.events("scenario-1", f'{head}"text": null, "note": "{SECRET}"}}'.encode()) == ()
