"""Claims about answers of every kind: through a program's output, through SUBMIT, and through an import.

The expected outcomes are those of the rules for answers: JSON that validates is a diagnosis, blank text is
none, a refusal is one only by its field, and everything else is malformed; nothing crashes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from cli_helpers import ANSWER, call, script, small_suite, write_answers

pytestmark = pytest.mark.sandbox

CART = '{"entity": "shop/Deployment/cart"}'


@dataclass(frozen=True)
class Case:
    """An answer, what becomes of it when it is printed or recorded, and whether SUBMIT takes it."""

    data: bytes
    outcome: str
    accepted: bool = False
    entities: tuple[str, ...] | None = None
    repairs: bool = False


CASES = {
    "empty": Case(b"", "no_diagnosis"),
    "blank": Case(b" \n\t\n", "no_diagnosis"),
    "nothing is wrong": Case(b'{"root_causes": []}', "diagnosed", True, ()),
    "plain": Case(ANSWER.encode(), "diagnosed", True, ("shop/Deployment/cart",)),
    "two": Case(
        f'{{"root_causes": [{CART}, {{"entity": "b"}}]}}'.encode(),
        "diagnosed",
        True,
        ("shop/Deployment/cart", "b"),
    ),
    "a list of strings": Case(b'["shop/Deployment/cart"]', "diagnosed", True, ("shop/Deployment/cart",)),
    "another harness's shape": Case(
        b'{"contributing_factors": [{"name": "shop/Deployment/cart"}]}',
        "diagnosed",
        True,
        ("shop/Deployment/cart",),
    ),
    "refused in prose": Case(b"I am sorry, but I cannot help with that.", "malformed_diagnosis"),
    "refused by its field": Case(b'{"refused": true}', "refused", True),
    "fenced": Case(
        f"It was the cart.\n```json\n{ANSWER}\n```\nDone.".encode(),
        "diagnosed",
        entities=("shop/Deployment/cart",),
        repairs=True,
    ),
    "two objects, the last counts": Case(
        f'{{"root_causes": [{{"entity": "x/Pod/y"}}]}}\n{ANSWER}'.encode(),
        "diagnosed",
        entities=("shop/Deployment/cart",),
        repairs=True,
    ),
    "an entry without an entity": Case(b'{"root_causes": [{"reasoning": "x"}]}', "malformed_diagnosis"),
    "10,000 entities": Case(
        json.dumps({"root_causes": [{"entity": f"e{n}"} for n in range(10_000)]}).encode(), "diagnosed", True
    ),
    "10,001 entities": Case(
        json.dumps({"root_causes": [{"entity": f"e{n}"} for n in range(10_001)]}).encode(),
        "malformed_diagnosis",
    ),
    "depth 100,000": Case(b"[" * 100_000 + b"]" * 100_000, "malformed_diagnosis"),
    "depth 100,000, not closed": Case(b'{"a":' * 100_000, "malformed_diagnosis"),
    "duplicate keys that differ": Case(
        f'{{"root_causes": [], "root_causes": [{CART}]}}'.encode(), "malformed_diagnosis"
    ),
    "not a number": Case(b'{"root_causes": [{"entity": "a", "confidence": NaN}]}', "malformed_diagnosis"),
    "a lone surrogate": Case(b'{"root_causes": [{"entity": "a\\ud800"}]}', "malformed_diagnosis"),
    "a byte-order mark": Case(
        b"\xef\xbb\xbf" + ANSWER.encode(), "diagnosed", entities=("shop/Deployment/cart",), repairs=True
    ),
    "a number of 5,000 digits elsewhere": Case(
        f'{{"root_causes": [{CART}], "note": {"9" * 5000}}}'.encode(), "diagnosed", True
    ),
    "truncated": Case(ANSWER[:-3].encode(), "malformed_diagnosis"),
    "no text": Case(b"\x00\xff\xfe" * 100, "malformed_diagnosis"),
    "1 MiB and a byte": Case(ANSWER.encode() + b" " * (1 << 20), "malformed_diagnosis"),
}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_suite(tmp_path_factory.mktemp("diagnoses"))


def record_of(run: Path, repeat: int) -> dict[str, object]:
    found = json.loads((run / "trials" / "scenario-001" / str(repeat) / "trial.json").read_text())
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def printed(suite: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run of a program that prints the answer of each case in turn, a repeat each."""
    folder = tmp_path_factory.mktemp("printed")
    for number, case in enumerate(CASES.values(), start=1):
        (folder / f"answer-{number}").write_bytes(case.data)
    agent = script(
        folder / "agent.sh",
        f"""
        exec 9<>{folder}/count; read -r n <&9; n=$((n + 1)); echo $n >{folder}/count
        cat {folder}/answer-$n
        """,
    )
    (folder / "count").write_text("0\n")
    words = ["run", "--agent", agent, "--suite", suite, "--scenario", "1", "--repeats", str(len(CASES))]
    assert call(*words, "--no-baselines", "--out", folder / "run").code == 0
    return folder / "run"


@pytest.mark.parametrize("name", CASES)
def test_what_a_program_prints_is_read(printed: Path, name: str) -> None:
    case, repeat = CASES[name], list(CASES).index(name) + 1
    record = record_of(printed, repeat)
    assert record["outcome"] == case.outcome, record["reason"]
    assert record["reason"]
    assert bool(record["repairs"]) == case.repairs, record["repairs"]
    if case.outcome == "diagnosed":
        kept = printed / "trials" / "scenario-001" / str(repeat) / "diagnosis.json"
        assert kept.read_bytes() == case.data


def test_every_printed_answer_is_scored_and_named_in_the_report(printed: Path, tmp_path: Path) -> None:
    done = call("score", printed, "--format", "json")
    assert done.code == 0
    trials = {trial["repeat"]: trial for trial in done.json()["scenarios"][0]["trials"]}
    for repeat, case in enumerate(CASES.values(), start=1):
        if case.entities is not None:
            assert tuple(entity["raw"] for entity in trials[repeat]["entities"]) == case.entities
        if case.outcome != "diagnosed":
            assert trials[repeat]["precision_at_full_recall"] == 0.0
    assert call("report", printed, "--html", tmp_path / "r.html", "--markdown", tmp_path / "r.md").code == 0
    for repeat in range(1, len(CASES) + 1):
        assert call("explain", printed, "1", str(repeat)).code == 0


def test_submit_takes_what_the_schema_takes_and_says_what_is_wrong(suite: Path, tmp_path: Path) -> None:
    for number, case in enumerate(CASES.values(), start=1):
        (tmp_path / f"answer-{number}").write_bytes(case.data)
    agent = script(
        tmp_path / "agent.sh",
        f"""
        exec 9<>{tmp_path}/count; read -r n <&9; n=$((n + 1)); echo $n >{tmp_path}/count
        "$DIAGNOSE_BENCH_SUBMIT" <{tmp_path}/answer-$n >{tmp_path}/said-$n 2>&1
        """,
    )
    (tmp_path / "count").write_text("0\n")
    words = ["run", "--agent", agent, "--suite", suite, "--scenario", "1", "--repeats", str(len(CASES))]
    assert call(*words, "--no-baselines", "--out", tmp_path / "run").code == 0
    for repeat, (name, case) in enumerate(CASES.items(), start=1):
        said = (tmp_path / f"said-{repeat}").read_text()
        record = record_of(tmp_path / "run", repeat)
        if case.accepted:
            assert said == "accepted\n", name
            assert record["outcome"] == case.outcome, name
        else:
            assert said.strip(), name
            assert "Traceback" not in said, name
            assert record["outcome"] in ("malformed_diagnosis", "agent_error"), (name, record)


def test_the_same_answers_in_an_import_end_the_same(suite: Path, tmp_path: Path) -> None:
    rows = []
    for repeat, case in enumerate(CASES.values(), start=1):
        text = case.data.decode("utf-8", "surrogateescape")
        if not any(0xD800 <= ord(character) < 0xE000 for character in text):
            rows.append({"scenario_id": "scenario-001", "repeat": repeat, "text": text})
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["import", "diagnoses", source, "--agent", "a", "--suite", suite, "--out", tmp_path / "run"]
    assert call(*words).code == 0
    for repeat, (name, case) in enumerate(CASES.items(), start=1):
        if repeat in {row["repeat"] for row in rows}:
            assert record_of(tmp_path / "run", repeat)["outcome"] == case.outcome, name


def test_the_same_answers_replayed_end_the_same(suite: Path, tmp_path: Path) -> None:
    answers = {f"scenario-001/{repeat}": case.data for repeat, case in enumerate(CASES.values(), start=1)}
    write_answers(tmp_path / "answers", answers)
    words = ["run", "--agent", f"replay:{tmp_path / 'answers'}", "--suite", suite, "--scenario", "1"]
    assert call(*words, "--repeats", str(len(CASES)), "--out", tmp_path / "run").code == 0
    for repeat, (name, case) in enumerate(CASES.items(), start=1):
        assert record_of(tmp_path / "run", repeat)["outcome"] == case.outcome, name


@pytest.mark.parametrize(
    ("row", "outcome"),
    [
        ('"diagnosis": {"root_causes": [], "root_causes": [{"entity": "a"}]}', "malformed_diagnosis"),
        ('"diagnosis": ' + "[" * 100_000 + "]" * 100_000, "malformed_diagnosis"),
        ('"diagnosis": {"root_causes": [{"entity": "a", "confidence": NaN}]}', "malformed_diagnosis"),
        ('"diagnosis": {"root_causes": [{"entity": "a"}], "x": ' + "9" * 5000 + "}", "diagnosed"),
        ('"diagnosis": null', "no_diagnosis"),
        ('"entities": ["a\\ud800"]', "malformed_diagnosis"),
        ('"entities": []', "diagnosed"),
        ('"entities": "a"', "malformed_diagnosis"),
    ],
)
def test_what_is_odd_about_an_answer_in_a_row_is_seen(
    suite: Path, tmp_path: Path, row: str, outcome: str
) -> None:
    source = tmp_path / "rows.jsonl"
    source.write_text(f'{{"scenario_id": "1", "repeat": 1, {row}}}\n')
    words = ["import", "diagnoses", source, "--agent", "a", "--suite", suite, "--out", tmp_path / "run"]
    done = call(*words)
    assert done.code == 0, done.err
    assert record_of(tmp_path / "run", 1)["outcome"] == outcome


def test_without_repair_only_plain_json_counts(suite: Path, tmp_path: Path) -> None:
    data = f"```json\n{ANSWER}\n```".encode()
    answers = write_answers(tmp_path / "answers", {"scenario-001/1": data})
    words = ["run", "--agent", f"replay:{answers}", "--suite", suite, "--scenario", "1", "--repeats", "1"]
    assert call(*words, "--out", tmp_path / "mended").code == 0
    assert call(*words, "--no-repair", "--out", tmp_path / "plain").code == 0
    assert record_of(tmp_path / "mended", 1)["outcome"] == "diagnosed"
    assert record_of(tmp_path / "plain", 1)["outcome"] == "malformed_diagnosis"
    signature = call("score", tmp_path / "plain", "--format", "json").json()["signature"]
    assert "|repair:0|" in signature
