"""The coverage study itself, small: the same parts that ``make coverage-study`` runs for an hour."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from studies.coverage import HERE, SMALL, document, one_row_per_line, parts

STUDY = parts(SMALL)
CELLS = 40


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    return {name: run() for name, run in STUDY.items()}


def pooled(rows: list[dict[str, Any]], name: str) -> float:
    return float(np.mean([row["rate"] for row in rows if row["name"] == name]))


@pytest.mark.parametrize("models", ["first", "fresh"])
@pytest.mark.parametrize("name", ["half-atom", "strict", "sequential"])
def test_intervals_cover_what_they_promise(results: dict[str, Any], models: str, name: str) -> None:
    rows = [row for row in results[models] if row["name"] == name]
    assert len(rows) == CELLS
    # One-sided. 40 cells x 24 data sets at .95 have a standard error of .007; the wide ones have 6 each.
    assert pooled(rows, name) >= 0.94


def test_the_default_is_that_of_jeffreys_on_zeros_and_ones(results: dict[str, Any]) -> None:
    assert results["jeffreys"] <= 1e-6


def test_tests_of_agents_alike_keep_their_level(results: dict[str, Any]) -> None:
    rows = [row for row in results["type_one"] if row["model"] in (".15", ".31", ".51")]
    # 6 cells x 24 data sets at .05: a standard error of .018.
    for name in ("t", "sign-flip"):
        assert pooled(rows, name) <= 0.05 + 3 * 0.018
    assert np.mean([row["rate"] for row in results["family_wise"]]) <= 0.05 + 3 * 0.018


def test_icc_is_not_biased(results: dict[str, Any]) -> None:
    for row in results["icc"]:
        assert abs(row["mean"] - row["truth"]) <= 0.01 + 3 * row["error"]


def test_the_study_writes_the_page(results: dict[str, Any]) -> None:
    page = document(json.loads(one_row_per_line(results)))
    assert "$" not in page
    assert page.count("| 20 x 3 |") >= 14


def test_the_page_is_the_one_of_the_results_that_lie_beside_the_study() -> None:
    results = json.loads((HERE / "coverage.json").read_text())
    assert (Path(HERE).parent / "docs" / "statistics.md").read_text() == document(results)


def test_the_study_that_lies_there_meets_what_is_promised() -> None:
    results = json.loads((HERE / "coverage.json").read_text())
    default = [row["rate"] for row in results["first"] if row["name"] == "half-atom"]
    assert len(default) == CELLS
    assert min(default) >= 0.94
    assert results["jeffreys"] <= 1e-6
    paired = [row for row in results["type_one"] if row["model"] in (".15", ".31", ".51")]
    # Each has 4,000 data sets: a standard error of .0034.
    assert all(0.03 <= row["rate"] <= 0.06 for row in paired)
    assert all(abs(row["mean"] - row["truth"]) <= 0.01 for row in results["icc"])
