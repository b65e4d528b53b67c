"""Claims about the import of recorded answers: what is taken, what is rejected and why, all or nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from small_suite import write_small_suite

from diagnose_bench.errors import UsageError
from diagnose_bench.importers.diagnoses import ImportSummary, import_diagnoses
from diagnose_bench.outcome import Outcome
from diagnose_bench.records import PlannedTrial
from diagnose_bench.schemas import schema
from diagnose_bench.store import RunStore
from diagnose_bench.suite import Suite

CART = {"root_causes": [{"entity": "shop/Deployment/cart"}]}


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return write_small_suite(tmp_path)


class Import:
    """Imports rows into a run beside the suite."""

    def __init__(self, suite: Suite, folder: Path) -> None:
        self.suite = suite
        self.folder = folder
        self.out = folder / "run"

    def rows(self, *rows: Any, **options: Any) -> ImportSummary:
        lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
        self.folder.mkdir(exist_ok=True)
        source = self.folder / "answers.jsonl"
        source.write_bytes(b"\n".join(lines) + b"\n")
        return self.source(source, **options)

    def source(self, source: Path, **options: Any) -> ImportSummary:
        return import_diagnoses(source, agent="some-agent", suite=self.suite, out=self.out, **options)

    def outcomes(self) -> dict[tuple[str, int], Outcome]:
        trials = RunStore.open(self.out).trials()
        return {(trial.scenario_id, trial.repeat): record.outcome for trial, record in trials if record}

    def answer(self, scenario_id: str, repeat: int) -> bytes | None:
        trial = PlannedTrial(scenario_id=scenario_id, repeat=repeat)
        return RunStore.open(self.out).diagnosis_bytes(trial)


@pytest.fixture
def importing(suite: Suite, tmp_path: Path) -> Import:
    return Import(suite, tmp_path)


def row(scenario_id: Any = "scenario-001", repeat: Any = 1, **answer: Any) -> dict[str, Any]:
    return {"scenario_id": scenario_id, "repeat": repeat, **(answer or {"diagnosis": CART})}


def test_the_three_forms_of_a_row_are_taken(importing: Import) -> None:
    summary = importing.rows(
        row(repeat=1, diagnosis=CART),
        row(repeat=2, entities=["shop/Deployment/cart"]),
        row(repeat=3, text="The answer:\n```json\n" + json.dumps(CART) + "\n```"),
    )
    assert set(importing.outcomes().values()) == {Outcome.DIAGNOSED}
    assert summary.n_rejected == 0
    assert not (importing.out / "rejected.jsonl").exists()


def test_the_default_plan_is_the_highest_repeat_seen_and_it_says_so(importing: Import) -> None:
    summary = importing.rows(row(repeat=2))
    assert summary.manifest.policy.repeats == 2
    assert len(summary.manifest.plan) == 4
    assert summary.n_absent == 3
    assert summary.notes()[0].startswith("Planned repeats of each scenario: 2, the highest one seen.")
    assert summary.manifest.imported


def test_a_run_of_imports_claims_no_shell_and_no_limits(importing: Import) -> None:
    manifest = importing.rows(row()).manifest
    assert manifest.sandbox.backend is None
    assert (manifest.policy.max_turns, manifest.policy.time_limit_s) == (None, None)
    assert manifest.policy.task_digest is None


def test_the_number_of_a_scenario_is_enough(importing: Import) -> None:
    importing.rows(row("Scenario-1"), row(2))
    assert set(importing.outcomes()) == {("scenario-001", 1), ("scenario-002", 1)}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b'{"scenario_id": "scenario-001", "repeat": 1, ', "no JSON"),
        (b"[1, 2]", "no JSON object"),
        (b'"text"', "no JSON object"),
        (b"\xff\xfe", "utf-8"),
        (row("scenario-999"), "unknown scenario"),
        (row(None), "scenario_id"),
        (row(repeat=0), "repeat"),
        (row(repeat="1"), "repeat"),
        (row(repeat=True), "repeat"),
        (row(repeat=1.5), "repeat"),
        (row(repeat=3), "above the 2"),
        (
            {"scenario_id": "scenario-001", "repeat": 1},
            "the row has no answer; a row has scenario_id, repeat",
        ),
        (row(diagnosis=CART, text="x"), "the row has diagnosis and text; a row has scenario_id, repeat"),
        (row(text=["x"]), "text is no text"),
        (b'{"repeat": 1, "repeat": 1, "scenario_id": "scenario-001", "text": ""}', "'repeat' twice"),
    ],
)
def test_a_row_that_cannot_be_taken_is_rejected_and_listed(importing: Import, bad: Any, reason: str) -> None:
    summary = importing.rows(row("scenario-002"), bad, row(), planned_repeats=2)
    assert set(importing.outcomes()) == {("scenario-001", 1), ("scenario-002", 1)}
    assert summary.n_rejected == 1
    listed = [json.loads(line) for line in (importing.out / "rejected.jsonl").read_bytes().splitlines()]
    assert [entry["where"] for entry in listed] == ["line 2"]
    assert reason in listed[0]["reason"]


def test_of_a_trial_that_comes_twice_the_first_counts(importing: Import) -> None:
    summary = importing.rows(row(entities=["shop/Deployment/cart"]), row(entities=[]))
    assert importing.answer("scenario-001", 1) == b'["shop/Deployment/cart"]'
    assert "was there already" in summary.rejected[0].reason


def test_a_huge_repeat_makes_no_huge_plan(importing: Import) -> None:
    summary = importing.rows(row(), row(repeat=10**9))
    assert len(summary.manifest.plan) == 2
    assert "--planned-repeats" in summary.rejected[0].reason


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ('{"root_causes": [{"entity": "a/Pod/b", "entity": "a/Pod/c"}]}', Outcome.MALFORMED_DIAGNOSIS),
        ('{"root_causes": [{"entity": "a/Pod/b", "confidence": NaN}]}', Outcome.MALFORMED_DIAGNOSIS),
        ("[" * 100_000 + "]" * 100_000, Outcome.MALFORMED_DIAGNOSIS),
        ('{"root_causes": [], "cost": ' + "9" * 5000 + "}", Outcome.DIAGNOSED),
        ('"' + "x" * (2 << 20) + '"', Outcome.MALFORMED_DIAGNOSIS),
        ("null", Outcome.NO_DIAGNOSIS),
        ('{"refused": true}', Outcome.REFUSED),
        ('{"entities": [{"name": "shop/Deployment/cart", "contributing_factor": true}]}', Outcome.DIAGNOSED),
    ],
)
def test_what_is_odd_inside_an_answer_is_the_answers_fault_and_not_the_rows(
    importing: Import, answer: str, outcome: Outcome
) -> None:
    text = '{"scenario_id": "scenario-001", "diagnosis": ANSWER, "repeat": 1}'
    summary = importing.rows(text.replace("ANSWER", answer).encode())
    assert summary.n_rejected == 0
    assert importing.outcomes() == {("scenario-001", 1): outcome}


def test_lone_surrogates_and_a_byte_order_mark_are_read(importing: Import) -> None:
    text = b'{"scenario_id": "scenario-001", "repeat": 1, "text": "\\ud800 [] {\\"root_causes\\": []}"}'
    assert importing.rows(b"\xef\xbb\xbf" + text).n_rejected == 0
    assert importing.outcomes() == {("scenario-001", 1): Outcome.DIAGNOSED}


def test_the_bytes_of_an_answer_are_kept_as_they_stood(importing: Import) -> None:
    importing.rows(
        b'{"repeat":1,"scenario_id":"scenario-001","diagnosis": {"root_causes" : [ ] , "n":1.50} }'
    )
    assert importing.answer("scenario-001", 1) == b'{"root_causes" : [ ] , "n":1.50}'


def test_an_import_without_any_answer_leaves_nothing_behind(importing: Import) -> None:
    with pytest.raises(UsageError, match=r"(?s)no answer could be taken.*line 1.*unknown scenario"):
        importing.rows(row("scenario-999"))
    assert not importing.out.exists()
    assert not [name for name in os.listdir(importing.folder) if "importing" in name]


def test_with_planned_repeats_an_empty_file_is_a_run_of_absent_answers(importing: Import) -> None:
    summary = importing.rows(planned_repeats=3)
    assert (summary.n_planned, summary.n_absent) == (6, 6)


def test_a_folder_that_is_taken_is_refused(importing: Import) -> None:
    importing.rows(row())
    with pytest.raises(UsageError, match="a run is here already"):
        importing.rows(row())


def test_a_missing_source_is_named(importing: Import) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        importing.source(importing.folder / "nowhere")


def write_output(root: Path, relative: str, text: str = json.dumps(CART)) -> None:
    path = root / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    "name", ["1", "scenario_1", "Scenario-1", "scenario1", "incident-1", "scenario-i1", "scenario-001"]
)
@pytest.mark.parametrize("file", ["outputs/agent_output.json", "agent_response.json"])
def test_folders_of_outputs_are_found_in_their_variants(importing: Import, name: str, file: str) -> None:
    root = importing.folder / "outputs-of-agent"
    write_output(root, f"{name}/2/{file}")
    write_output(root, "notes/readme.txt", "not an answer")
    summary = importing.source(root)
    assert importing.outcomes() == {("scenario-001", 2): Outcome.DIAGNOSED}
    assert summary.n_rejected == 0


def test_the_first_of_several_files_wins(importing: Import) -> None:
    root = importing.folder / "answers"
    write_output(root, "1/1/agent_output.json", "[]")
    write_output(root, "1/1/outputs/agent_response.json", '["shop/Deployment/cart"]')
    importing.source(root)
    assert importing.answer("scenario-001", 1) == b'["shop/Deployment/cart"]'


def test_a_trial_folder_without_an_answer_is_no_diagnosis(importing: Import) -> None:
    root = importing.folder / "answers"
    write_output(root, "1/1/agent_output.json")
    write_output(root, "1/3/session.log", "crashed")
    summary = importing.source(root)
    assert importing.outcomes()[("scenario-001", 3)] is Outcome.NO_DIAGNOSIS
    assert summary.manifest.policy.repeats == 3


def test_the_folder_of_one_scenario_is_taken_too(importing: Import) -> None:
    write_output(importing.folder / "answers", "1/1/agent_output.json")
    importing.source(importing.folder / "answers" / "1")
    assert importing.outcomes() == {("scenario-001", 1): Outcome.DIAGNOSED}


def test_outputs_of_unknown_scenarios_and_of_trial_0_are_rejected(importing: Import) -> None:
    root = importing.folder / "answers"
    write_output(root, "1/0/agent_output.json")
    write_output(root, "1/1/agent_output.json")
    write_output(root, "77/1/agent_output.json")
    summary = importing.source(root)
    assert [bad.where for bad in summary.rejected] == ["1/0", "77/1/agent_output.json"]


def test_two_folders_of_one_scenario_do_not_overwrite_each_other(importing: Import) -> None:
    root = importing.folder / "answers"
    write_output(root, "1/1/agent_output.json", "[]")
    write_output(root, "scenario-001/1/agent_output.json", '["shop/Deployment/cart"]')
    assert importing.source(root).n_rejected == 1
    assert importing.answer("scenario-001", 1) == b"[]"


def test_a_folder_without_outputs_says_what_was_expected(importing: Import) -> None:
    (importing.folder / "empty").mkdir()
    with pytest.raises(UsageError, match=r"agent_output\.json"):
        importing.source(importing.folder / "empty")


def test_a_row_of_another_shape_is_told_the_keys_and_an_example_that_works(
    importing: Import, tmp_path: Path
) -> None:
    summary = importing.rows(row(), {"id": 1, "answer": "x"}, {"id": 2, "answer": "x"})
    told = [note for note in summary.notes() if "scenario_id is missing" in note]
    assert len(told) == 1
    assert told[0].startswith("  line 2, line 3: ")
    assert "scenario_id, repeat, and exactly one of diagnosis, entities, text" in told[0]
    example = json.loads(told[0][told[0].index("{") :])
    assert Import(importing.suite, tmp_path / "other").rows(example).n_rejected == 0


def test_an_unknown_scenario_is_told_once_with_those_there_are(importing: Import) -> None:
    summary = importing.rows(row(), row("scenario-009"))
    assert summary.notes()[-1] == (
        "  line 2: unknown scenario: suite \"small\" has no scenario 'scenario-009'. "
        "It has scenario-001, scenario-002."
    )


@pytest.mark.parametrize(
    ("document", "n_rejected"),
    [
        (row(), 0),
        (row(7), 1),
        (row("x", 0), 1),
        (row(entities=["a"]), 0),
        (row(text=None), 0),
        (row(text="a", entities=[]), 1),
        ({"scenario_id": "scenario-001", "repeat": 1}, 1),
        ({"repeat": 1, "text": "a"}, 1),
        (row() | {"more": 1}, 0),
    ],
)
def test_the_schema_of_a_row_takes_what_the_import_takes(
    importing: Import, document: dict[str, Any], n_rejected: int
) -> None:
    assert importing.rows(row("scenario-002"), document).n_rejected == n_rejected
    # Which scenarios exist is the suite's matter.
    is_valid = jsonschema.Draft202012Validator(schema("diagnosis-row")).is_valid(document)
    assert is_valid == (not n_rejected or document.get("scenario_id") == 7)
