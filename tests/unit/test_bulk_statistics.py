"""A scorecard of bulk scoring is as sure of its numbers as one of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from unit.sample_runs import truth_of, write_suite
from unit.test_bulk import CART, VALKEY, reader, row, scorecard, suite, without_lists, write_rows

from diagnose_bench.bulk import score_file
from diagnose_bench.grading import score_run
from diagnose_bench.importers.diagnoses import import_diagnoses
from diagnose_bench.suite import load_suite

__all__ = ["reader", "suite"]


@pytest.mark.parametrize("interval", ["half-atom", "t", "bootstrap"])
def test_bulk_has_the_statistics_of_a_run_with_splits_and_families(
    tmp_path: Path, reader: str, interval: str
) -> None:
    ids = [f"scenario-{number:03d}" for number in range(1, 9)]
    truths = {one: truth_of(one, ["cart"], ["checkout"]) for one in ids}
    for place, one in enumerate(ids):
        truths[one] |= {"family": f"family-{place // 2}", "difficulty": 1 + place % 3}
    suite = write_suite(tmp_path, truths, splits={"a": ids[:4], "b": ids[4:]})
    # Right alone, right beside a wrong one, wrong.
    answers = ([CART], [CART, VALKEY], [VALKEY])
    rows = [
        row(one, repeat, entities=answers[(place * repeat) % 3])
        for place, one in enumerate(ids)
        for repeat in (1, 2, 3)
    ]
    file = write_rows(tmp_path / "rows.jsonl", rows)
    seed = 7 if interval == "bootstrap" else None
    run = tmp_path / "run"
    import_diagnoses(file, agent="a", suite=load_suite(str(suite)), out=run)
    found = scorecard(score_file(file, str(suite), interval=interval, seed=seed))
    expected = json.loads(json.dumps(score_run(run, interval=interval, seed=seed).to_dict()))
    assert without_lists(found) == without_lists(expected)
    assert found["headline"]["interval"] is not None
    assert f"interval:{interval}" in found["signature"]
    assert found["variance"]["icc_1"]["value"] is not None
    assert {table["by"] for table in found["groups"]} == {
        "family",
        "namespace",
        "n_root_causes",
        "difficulty",
    }
    assert found["baselines"]["lift_over_blind"]["difference"]["interval"] is not None
    assert {one["interval"] is None for one in found["splits"].values()} == {False}


def test_another_answer_of_an_agent_is_another_run(suite: Path, tmp_path: Path, reader: str) -> None:
    ids = []
    for name in (CART, VALKEY, CART):
        file = write_rows(tmp_path / "rows.jsonl", [row(entities=[name])])
        ids.append(scorecard(score_file(file, str(suite)))["run_id"])
    assert ids[0] == ids[2] != ids[1]
