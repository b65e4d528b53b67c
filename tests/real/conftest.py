"""Fixtures over the public data: truths, imported suites, recorded answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from real.published import (
    CONSTANT,
    PUBLIC,
    diagnose_bench,
    published_truths,
    scenario_two,
    write_answers,
    write_dataset,
)


@pytest.fixture(scope="module")
def truths(shared_data: Path) -> dict[int, dict[str, Any]]:
    return published_truths(shared_data)


@pytest.fixture(scope="module")
def suites(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The 40 scenarios imported twice, with and without the patch file beside the truths."""
    root = tmp_path_factory.mktemp("public")
    for name in ("patched", "plain"):
        source = write_dataset(shared_data, root / f"{name}-source", patched=name == "patched")
        diagnose_bench("import", "itbench", source, "--name", "public", "--out", root / name)
    return {name: root / name / "snapshots" / "public" for name in ("patched", "plain")}


@pytest.fixture(scope="module")
def constant_answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("answers") / "constant.jsonl"
    return write_answers(path, ((number, 1, [CONSTANT]) for number in PUBLIC))


@pytest.fixture(scope="module")
def real_suite(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scenario-2 with its snapshot, its truth given apart."""
    root = tmp_path_factory.mktemp("scenario-two")
    list_of_truths = shared_data / "itbench" / "ground_truth" / "ground_truths_evaluations.json"
    source = scenario_two(shared_data, root)
    diagnose_bench("import", "itbench", source, "--name", "real", "--truths", list_of_truths, "--out", root)
    return root / "snapshots" / "real"
