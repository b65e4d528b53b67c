"""Recorded outputs of real agents, of two eras, imported as runs; what they hold was counted by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diagnose_bench.diagnosis_reader import read_diagnosis
from diagnose_bench.importers.diagnoses import ImportSummary, import_diagnoses
from diagnose_bench.outcome import Outcome
from diagnose_bench.records import PlannedTrial
from diagnose_bench.store import RunStore
from diagnose_bench.suite import load_suite


def import_outputs(source: Path, folder: Path) -> ImportSummary:
    suite = folder / "snapshots" / "itbench"
    suite.mkdir(parents=True)
    document = {
        "format_version": 1,
        "name": "itbench",
        "version": "1",
        "scenarios": [{"id": f"scenario-{number:03}", "digest": None} for number in (1, 2)],
    }
    (suite / "suite.json").write_text(json.dumps(document))
    return import_diagnoses(source, agent="recorded", suite=load_suite(str(suite)), out=folder / "run")


def entities(run: Path, scenario_id: str, repeat: int) -> tuple[str, ...]:
    data = RunStore.open(run).diagnosis_bytes(PlannedTrial(scenario_id=scenario_id, repeat=repeat))
    diagnosis = read_diagnosis(data or b"").diagnosis
    assert diagnosis is not None
    return diagnosis.entities()


def test_the_sample_of_december_2025_has_four_diagnoses(shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "itbench" / "agent_outputs" / "evaluations_sample_2025-12"
    summary = import_outputs(source, tmp_path)
    assert summary.outcomes == {"diagnosed": 4}
    assert (summary.n_planned, summary.n_rejected, summary.n_absent) == (4, 0, 0)
    assert summary.manifest.policy.repeats == 2


def test_the_committed_answer_to_scenario_2_is_imported_as_it_is(shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "itbench" / "agent_outputs" / "sre_agent_scenario2_2026-01"
    summary = import_outputs(source, tmp_path)
    assert summary.outcomes == {"diagnosed": 1}
    assert (summary.n_planned, summary.n_absent) == (2, 1)
    trial = PlannedTrial(scenario_id="scenario-002", repeat=1)
    kept = RunStore.open(tmp_path / "run").diagnosis_bytes(trial)
    assert kept == (source / "2" / "1" / "agent_output.json").read_bytes()
    document = json.loads(kept)
    claimed = [entity["name"] for entity in document["entities"] if entity["contributing_factor"] is True]
    assert list(entities(tmp_path / "run", "scenario-002", 1)) == claimed
    assert len(claimed) == 2


def test_the_folder_of_one_scenario_is_taken_as_that_scenario(shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "itbench" / "agent_outputs" / "sre_agent_scenario2_2026-01" / "2"
    import_outputs(source, tmp_path)
    record = RunStore.open(tmp_path / "run").record(PlannedTrial(scenario_id="scenario-002", repeat=1))
    assert record is not None
    assert record.outcome is Outcome.DIAGNOSED


@pytest.mark.parametrize("repeat", [1, 2])
def test_the_entities_of_the_sample_are_its_contributing_factors(
    shared_data: Path, tmp_path: Path, repeat: int
) -> None:
    source = shared_data / "itbench" / "agent_outputs" / "evaluations_sample_2025-12"
    import_outputs(source, tmp_path)
    for number in (1, 2):
        path = source / str(number) / str(repeat) / "outputs" / "agent_output.json"
        document = json.loads(path.read_text())
        claimed = [entity for entity in document["entities"] if entity.get("contributing_factor") is True]
        assert list(entities(tmp_path / "run", f"scenario-{number:03}", repeat)) == [
            entity["name"] for entity in claimed
        ]
