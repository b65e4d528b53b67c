"""Recorded answers of real agents go through the reader: two eras of shapes, and files that are no answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from diagnose_bench.diagnosis_reader import read_diagnosis
from diagnose_bench.outcome import Outcome

EVALUATIONS = "evaluations_sample_2025-12"
SRE_AGENT = "sre_agent_scenario2_2026-01"

# file -> number of entries whose contributing_factor is true (counted with grep), first and last of them
DIAGNOSES = {
    f"{EVALUATIONS}/1/1/outputs/agent_output.json": (9, "flagd-config ConfigMap", "cart Service"),
    f"{EVALUATIONS}/1/2/outputs/agent_output.json": (6, "currency Service", "cart-9fd895bb7-4crmc Pod"),
    f"{EVALUATIONS}/2/1/outputs/agent_output.json": (8, "ad Service", "cart-9fd895bb7-qvql9 Pod"),
    f"{EVALUATIONS}/2/2/outputs/agent_output.json": (4, "flagd Service", "cart Service"),
    f"{SRE_AGENT}/2/1/agent_output.json": (
        2,
        "otel-demo/ConfigMap/flagd-config",
        "otel-demo/Deployment/flagd",
    ),
    f"{SRE_AGENT}/attempts/attempt_final.json": (
        2,
        "otel-demo/ConfigMap/flagd-config",
        "otel-demo/Deployment/flagd",
    ),
    f"{SRE_AGENT}/attempts/attempt_controlplane_misdiagnosis.json": (
        2,
        "unknown/Cluster/api-server",
        "otel-demo/ConfigMap/flagd-config",
    ),
    f"{SRE_AGENT}/attempts/attempt_gptoss_trial.json": (
        1,
        "otel-demo/Service/fraud-detection",
        "otel-demo/Service/fraud-detection",
    ),
}

NO_DIAGNOSES = {
    f"{SRE_AGENT}/2/1/agent_remediation.json": 'an object without "root_causes"',
    f"{SRE_AGENT}/2/1/app.json": '(its keys: "nodes", "edges")',
    f"{SRE_AGENT}/2/1/operational_topology.json": '(its keys: "nodes", "edges")',
    # The message of a shell wrapper that quotes the command it could not start.
    f"{SRE_AGENT}/attempts/attempt_empty.txt": "JSON in quotes inside other text is a quotation",
    # A judge's results, not an agent's answer.
    "judge_outputs/evaluations_evaluation_results_2026-01-13.json": 'an object without "root_causes"',
}


@pytest.fixture
def agent_outputs(shared_data: Path) -> Path:
    return shared_data / "itbench" / "agent_outputs"


@pytest.mark.parametrize("name", sorted(DIAGNOSES))
def test_recorded_diagnosis_is_read_without_repairs(agent_outputs: Path, name: str) -> None:
    n_entities, first, last = DIAGNOSES[name]
    result = read_diagnosis((agent_outputs / name).read_bytes())
    assert (result.outcome, result.repairs) == (Outcome.DIAGNOSED, ())
    assert result.diagnosis is not None
    entities = result.diagnosis.entities()
    assert (len(entities), entities[0], entities[-1]) == (n_entities, first, last)


@pytest.mark.parametrize("name", sorted(NO_DIAGNOSES))
def test_other_files_are_malformed_with_the_reason(agent_outputs: Path, name: str) -> None:
    result = read_diagnosis((agent_outputs / name).read_bytes())
    assert result.outcome is Outcome.MALFORMED_DIAGNOSIS
    assert NO_DIAGNOSES[name] in result.reason


def test_the_two_tables_are_all_files(agent_outputs: Path) -> None:
    files = {str(path.relative_to(agent_outputs)) for path in agent_outputs.rglob("*") if path.is_file()}
    assert files == DIAGNOSES.keys() | NO_DIAGNOSES.keys()
    assert len(DIAGNOSES) == 8
