from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from property.strategies import PlainTrial, batches, plain_trials, score_tables
from unit.reference import reference_scores

import scoring
from scoring import _tally

MEASURES = ("precision_at_full_recall", "ranked_precision_at_full_recall", "precision", "recall", "f1")


def batch_of(plain: Sequence[PlainTrial]) -> scoring.TrialBatch:
    lengths = [len(trial.codes) for trial in plain]
    return scoring.TrialBatch(
        codes=np.array([code for trial in plain for code in trial.codes], dtype=np.int64),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        n_root_causes=np.array([trial.n_root_causes for trial in plain], dtype=np.int64),
        has_diagnosis=np.array([trial.has_diagnosis for trial in plain], dtype=bool),
    )


def score_of(trial: PlainTrial, measure: str = "precision_at_full_recall") -> float:
    return float(getattr(scoring.score_trials(batch_of([trial])), measure)[0])


@given(batches)
def test_every_measure_agrees_with_the_reference(plain: list[PlainTrial]) -> None:
    scores = scoring.score_trials(batch_of(plain))
    for index, trial in enumerate(plain):
        expected = reference_scores(trial.codes, trial.n_root_causes, trial.has_diagnosis)
        for measure in MEASURES:
            assert getattr(scores, measure)[index] == pytest.approx(expected[measure], abs=1e-12)
        assert bool(scores.exact[index]) == (expected["precision_at_full_recall"] == 1.0)
        assert bool(scores.full_recall[index]) == (expected["precision_at_full_recall"] > 0.0)


@given(batches)
def test_a_batch_equals_its_rows_bit_for_bit(plain: list[PlainTrial]) -> None:
    together = scoring.score_trials(batch_of(plain))
    for index, trial in enumerate(plain):
        alone = scoring.score_trials(batch_of([trial]))
        for measure in (*MEASURES, "full_recall", "exact"):
            assert getattr(together, measure)[index] == getattr(alone, measure)[0]


@given(
    plain=st.lists(plain_trials(max_size=40), max_size=8),
    n_trials=st.integers(1, 3),
    n_codes=st.integers(1, 9),
)
def test_the_size_of_a_block_changes_nothing(plain: list[PlainTrial], n_trials: int, n_codes: int) -> None:
    whole = scoring.score_trials(batch_of(plain))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_tally, "_BLOCK_TRIALS", n_trials)
        patch.setattr(_tally, "_BLOCK_CODES", n_codes)
        cut = scoring.score_trials(batch_of(plain))
    for measure in (*MEASURES, "full_recall", "exact"):
        np.testing.assert_array_equal(getattr(whole, measure), getattr(cut, measure))


@given(plain_trials())
def test_every_measure_lies_between_zero_and_one(trial: PlainTrial) -> None:
    for measure in MEASURES:
        assert 0.0 <= score_of(trial, measure) <= 1.0


@given(plain_trials(), st.data())
def test_order_does_not_move_the_headline_measure(trial: PlainTrial, data: st.DataObject) -> None:
    shuffled = tuple(data.draw(st.permutations(trial.codes)))
    assert score_of(PlainTrial(shuffled, trial.n_root_causes, trial.has_diagnosis)) == score_of(trial)


@given(plain_trials(), st.data())
def test_naming_an_entity_again_changes_nothing(trial: PlainTrial, data: st.DataObject) -> None:
    if not trial.codes:
        return
    again = data.draw(st.sampled_from(trial.codes))
    longer = PlainTrial((*trial.codes, again), trial.n_root_causes, trial.has_diagnosis)
    for measure in MEASURES:
        assert score_of(longer, measure) == score_of(trial, measure)


@given(plain_trials(), st.data())
def test_another_wrong_entity_never_raises_a_score(trial: PlainTrial, data: st.DataObject) -> None:
    if not trial.has_diagnosis:
        return
    place = data.draw(st.integers(0, len(trial.codes)))
    wrong = trial.n_root_causes + 99
    worse = PlainTrial(
        (*trial.codes[:place], wrong, *trial.codes[place:]), trial.n_root_causes, trial.has_diagnosis
    )
    for measure in MEASURES:
        assert score_of(worse, measure) <= score_of(trial, measure)


@given(plain_trials())
def test_a_missed_root_cause_scores_zero(trial: PlainTrial) -> None:
    if trial.n_root_causes == 0:
        return
    missed = PlainTrial(
        tuple(code for code in trial.codes if code != 0), trial.n_root_causes, trial.has_diagnosis
    )
    assert score_of(missed) == 0.0
    assert score_of(missed, "ranked_precision_at_full_recall") == 0.0


@given(plain_trials(), st.data())
def test_renaming_root_causes_and_wrong_entities_changes_nothing(
    trial: PlainTrial, data: st.DataObject
) -> None:
    roots = data.draw(st.permutations(range(trial.n_root_causes)))
    renamed = tuple(roots[c] if c < trial.n_root_causes else 1000 + 7 * c for c in trial.codes)
    for measure in MEASURES:
        other = PlainTrial(renamed, trial.n_root_causes, trial.has_diagnosis)
        assert score_of(other, measure) == score_of(trial, measure)


@given(st.floats(0, 1), st.integers(2, 9))
def test_equal_repeats_have_no_spread(score: float, n_repeats: int) -> None:
    assert scoring.repeat_spread([[score] * n_repeats]).tolist() == [0.0]


@settings(max_examples=50)
@given(score_tables, st.data())
def test_bounds_enclose_whatever_the_unscored_trials_would_have_given(
    table: list[list[float]], data: st.DataObject
) -> None:
    scores = np.array(table)
    is_scored = np.array([[data.draw(st.booleans()) for _ in row] for row in table], dtype=bool)
    low, high = scoring.suite_bounds(np.where(is_scored, scores, np.nan), is_scored)
    complete = scoring.suite_mean(scoring.scenario_means(scores)).mean
    assert 0.0 <= low <= complete + 1e-12
    assert complete - 1e-12 <= high <= 1.0
    if is_scored.all():
        assert low == high == complete
