"""Scores of single trials against arithmetic written out, and what the door refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unit.reference import reference_scores

import scoring

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "trial_scores.json").read_text())


def one_trial(codes: list[int], n_root_causes: int, has_diagnosis: bool = True) -> scoring.TrialScores:
    return scoring.score_trials(
        scoring.TrialBatch(
            codes=np.array(codes, dtype=np.int64),
            offsets=np.array([0, len(codes)]),
            n_root_causes=np.array([n_root_causes]),
            has_diagnosis=np.array([has_diagnosis]),
        )
    )


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["claim"])
def test_golden_trial(case: dict[str, Any]) -> None:
    scores = one_trial(case["codes"], case["n_root_causes"], case["has_diagnosis"])
    for measure, (numerator, denominator) in case["expected"].items():
        assert getattr(scores, measure)[0] == pytest.approx(numerator / denominator, abs=1e-15), measure


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["claim"])
def test_reference_agrees_with_the_golden_arithmetic(case: dict[str, Any]) -> None:
    expected = reference_scores(case["codes"], case["n_root_causes"], case["has_diagnosis"])
    for measure, value in expected.items():
        numerator, denominator = case["expected"][measure]
        assert value == pytest.approx(numerator / denominator, abs=1e-15), measure


def test_empty_trial_between_two_hits_takes_nothing_from_its_neighbour() -> None:
    batch = scoring.TrialBatch(
        codes=np.array([0, 0]),
        offsets=np.array([0, 1, 1, 2, 2]),
        n_root_causes=np.array([1, 1, 1, 1]),
        has_diagnosis=np.array([True, True, True, False]),
    )
    scores = scoring.score_trials(batch)
    assert scores.precision_at_full_recall.tolist() == [1.0, 0.0, 1.0, 0.0]
    assert scores.counts.n_submitted.tolist() == [1, 0, 1, 0]


def test_batch_without_trials_has_no_scores() -> None:
    scores = scoring.score_trials(
        scoring.TrialBatch(
            codes=np.array([]), offsets=np.array([0]), n_root_causes=np.array([]), has_diagnosis=np.array([])
        )
    )
    assert scores.precision_at_full_recall.shape == (0,)


def test_trial_with_ten_thousand_entities_counts_like_any_other() -> None:
    # 10,000 names, 5,000 distinct: roots 0 and 1 at ranks 1 and 2, and 4,998 wrong ones.
    codes = [*range(5000), *range(5000)]
    scores = one_trial(codes, n_root_causes=2)
    assert scores.precision_at_full_recall[0] == 2 / 5000
    assert scores.ranked_precision_at_full_recall[0] == 1.0
    assert scores.counts.n_wrong[0] == 4998


def test_more_than_sixty_four_root_causes_are_counted() -> None:
    assert one_trial(list(range(100)), n_root_causes=100).precision_at_full_recall[0] == 1.0
    assert one_trial(list(range(99)), n_root_causes=100).precision_at_full_recall[0] == 0.0


def test_callers_array_stays_writable_and_the_batch_does_not() -> None:
    codes = np.array([0], dtype=np.int64)
    batch = scoring.TrialBatch(codes, np.array([0, 1]), np.array([1]), np.array([True]))
    assert codes.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        batch.codes[0] = 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"codes": np.array([0.5, 1.0])}, "codes must hold integers"),
        ({"codes": np.array([True, False])}, "codes must hold integers"),
        ({"codes": np.array([[0, 1]])}, "one axis"),
        ({"codes": np.array([-1, 0])}, "codes must lie in"),
        ({"codes": np.array([2**31, 0])}, "codes must lie in"),
        ({"codes": np.array([2**63, 0], dtype=np.uint64)}, "beyond int64"),
        ({"offsets": np.array([], dtype=np.int64)}, "at least one"),
        ({"offsets": np.array([1, 1, 2])}, "from 0 to the number of codes"),
        ({"offsets": np.array([0, 1, 1])}, "from 0 to the number of codes"),
        ({"offsets": np.array([0, 3, 2])}, "go back after trial 1"),
        ({"n_root_causes": np.array([1])}, r"shape \(2,\)"),
        ({"n_root_causes": np.array([1, -1])}, "n_root_causes must lie in"),
        ({"has_diagnosis": np.array([1, 0])}, "must hold booleans"),
        ({"has_diagnosis": np.array([False, True])}, "trial 0 has codes but no diagnosis"),
    ],
)
def test_arrays_that_are_no_trials_are_refused(changes: dict[str, Any], message: str) -> None:
    good = {
        "codes": np.array([0, 1]),
        "offsets": np.array([0, 1, 2]),
        "n_root_causes": np.array([1, 1]),
        "has_diagnosis": np.array([True, True]),
    }
    with pytest.raises(scoring.ScoringError, match=message):
        scoring.TrialBatch(**{**good, **changes})
