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


@pytest.mark.parametrize("n_root_causes", [1, 8, 9, 63, 64, 65])
def test_every_number_of_root_causes_has_its_bit(n_root_causes: int) -> None:
    codes = list(range(n_root_causes))
    assert one_trial([*codes, 500, 500], n_root_causes).precision_at_full_recall[0] == n_root_causes / (
        n_root_causes + 1
    )
    assert one_trial([*codes[1:], 500], n_root_causes).precision_at_full_recall[0] == 0.0
    assert one_trial(codes[::-1], n_root_causes).ranked_precision_at_full_recall[0] == 1.0


def test_a_batch_may_mix_few_and_many_root_causes() -> None:
    scores = scoring.score_trials(
        scoring.TrialBatch(
            codes=np.array([*range(64), 0, 1, *range(100)]),
            offsets=np.array([0, 64, 66, 166, 166]),
            n_root_causes=np.array([64, 1, 100, 0]),
            has_diagnosis=np.array([True] * 4),
        ),
        hits_at=(1, 50),
    )
    assert scores.precision_at_full_recall.tolist() == [1.0, 0.5, 1.0, 1.0]
    assert scores.hits_at[1].tolist() == [1, 1, 1, 0]
    assert scores.hits_at[50].tolist() == [50, 1, 50, 0]


@pytest.mark.parametrize("hits_at", [[0], [1.5], [-1]])
def test_a_k_that_is_no_rank_is_refused(hits_at: list[float]) -> None:
    with pytest.raises(scoring.ScoringError, match="hits_at"):
        scoring.score_trials(
            scoring.TrialBatch(np.array([0]), np.array([0, 1]), np.array([1]), np.array([True])),
            hits_at=hits_at,  # type: ignore[arg-type]
        )


def named(**changes: Any) -> scoring.NamedBatch:
    """One trial that names both rows of a table: a root cause, and something wrong."""
    columns = {"logical": [0, 5], "logical_root": [0, -1], "object_": [7, 8], "object_root": [0, -1]}
    table = scoring.NameTable(
        **{name: np.array(changes.pop(name, column)) for name, column in columns.items()}
    )
    good: dict[str, Any] = {
        "names": np.array([0, 1]),
        "offsets": np.array([0, 2]),
        "n_root_causes": np.array([1]),
        "has_diagnosis": np.array([True]),
    }
    return scoring.NamedBatch(**{**good, **changes}, table=table)


def test_a_second_object_of_a_root_cause_is_wrong_where_objects_count() -> None:
    batch = named(logical=[0, 0], logical_root=[0, 0], object_root=[0, 0])
    scores = scoring.score_profiles(batch)
    assert scores.logical.precision_at_full_recall.tolist() == [1.0]
    assert scores.strict.precision_at_full_recall.tolist() == [0.5]
    assert scores.strict.ranked_precision_at_full_recall.tolist() == [1.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"logical": [0, -1]}, "logical holds a number that is too small"),
        ({"object_root": [0, -2]}, "object_root holds a number that is too small"),
        ({"object_": [0]}, "object_ must have shape"),
        ({"logical": [0.5, 1]}, "must hold integers"),
        ({"names": np.array([0, 2])}, "names must lie in 0 .. 1"),
        ({"names": np.array([-1, 0])}, "names must lie in"),
        ({"object_root": [1, -1]}, "beyond those of its trial"),
        ({"n_root_causes": np.array([0])}, "beyond those of its trial"),
        ({"offsets": np.array([0, 1])}, "from 0 to the number of codes"),
        ({"has_diagnosis": np.array([False])}, "codes but no diagnosis"),
    ],
)
def test_names_that_fit_no_table_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(scoring.ScoringError, match=message):
        named(**changes)
