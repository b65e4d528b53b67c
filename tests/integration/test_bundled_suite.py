"""The bundled suite comes out of its specifications, byte for byte, and keeps every rule of a fair suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from diagnose_bench.ground_truth import load_truths
from diagnose_bench.layout import snapshots_root, truth_folder_of
from diagnose_bench.lint import lint_suite
from diagnose_bench.reconstruct.engine import reconstruct, truth_bytes
from diagnose_bench.reconstruct.spec import load_specification
from diagnose_bench.snapshot import load_manifest, manifest_digest
from diagnose_bench.suite import Suite, load_suite

MAX_BYTES = 15_000_000
REGENERATED = "scenario-005"


@pytest.fixture(scope="module")
def suite() -> Suite:
    return load_suite("postmortems")


@pytest.fixture(scope="module")
def truths() -> Path:
    return truth_folder_of(snapshots_root() / "postmortems")


def test_suite_keeps_every_rule(suite: Suite, truths: Path) -> None:
    findings = lint_suite(suite, truths)
    assert [one.line() for one in findings if one.ok is False] == []
    # The control has no cause to point at; without a sandbox the two baselines cannot run either.
    not_checked = {(one.scenario_id, one.check) for one in findings if one.ok is None}
    assert not_checked <= {
        ("scenario-003", "evidence"),
        ("*", "baseline:loudest"),
        ("*", "baseline:alerting"),
    }


def test_specification_gives_the_bytes_on_record(suite: Suite, truths: Path, tmp_path: Path) -> None:
    spec = load_specification(truths / "specs" / f"{REGENERATED}.yaml")
    reconstruct(spec, tmp_path / REGENERATED)
    assert manifest_digest(load_manifest(tmp_path / REGENERATED)) == suite.scenario(REGENERATED).digest


def test_truths_are_those_of_the_specifications(suite: Suite, truths: Path) -> None:
    for scenario in suite.scenarios:
        spec = load_specification(truths / "specs" / f"{scenario.id}.yaml")
        assert (truths / f"{scenario.id}.yaml").read_bytes() == truth_bytes(spec)


def test_suite_is_five_faults_and_a_control(suite: Suite, truths: Path) -> None:
    loaded = load_truths(truths, [scenario.id for scenario in suite.scenarios]).truths
    n_roots = sorted(len(one.truth.root_groups) for one in loaded.values())
    assert n_roots == [0, 1, 1, 1, 1, 2]
    roots = [
        entity for one in loaded.values() for group in one.truth.root_groups for entity in group.entities
    ]
    assert len(set(roots)) == len(roots) == 6
    assert suite.pass_score == 1.0
    assert suite.splits is None


def test_suite_is_small(suite: Suite) -> None:
    n_bytes = sum(path.stat().st_size for path in suite.path.rglob("*") if path.is_file())
    assert n_bytes < MAX_BYTES


def test_every_scenario_has_innocent_changes(suite: Suite) -> None:
    for scenario in suite.scenarios:
        assert scenario.snapshot is not None
        lines = (scenario.snapshot / "changes.jsonl").read_text().splitlines()
        assert len(lines) >= 4
