from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import scoring

TABLE = np.array(
    [[True, False, True, True], [False] * 4, [True] * 4, [False, True, False, False]],
    dtype=np.bool_,
)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_pass_k_is_the_share_of_all_draws_of_k_repeats(k: int) -> None:
    draws = [list(chosen) for chosen in combinations(range(4), k)]
    any_of = [np.mean([row[draw].any() for draw in draws]) for row in TABLE]
    all_of = [np.mean([row[draw].all() for draw in draws]) for row in TABLE]
    np.testing.assert_allclose(scoring.pass_at_k(TABLE, k), any_of, rtol=1e-15)
    np.testing.assert_allclose(scoring.pass_hat_k(TABLE, k), all_of, rtol=1e-15)


def test_pass_hat_k_is_free_of_the_bias_of_the_plug_in() -> None:
    # p = .5, n = k = 3: the truth is .125. Over the 8 equally likely rows the plug-in averages
    # (0 + 3 * 1/27 + 3 * 8/27 + 1) / 8 = .25.
    rows = np.array([[bool(i & 1), bool(i & 2), bool(i & 4)] for i in range(8)])
    assert scoring.pass_hat_k(rows, 3).mean() == 0.125
    assert np.mean(rows.mean(axis=1) ** 3) == pytest.approx(0.25)


def test_a_thousand_repeats_do_not_overflow() -> None:
    row = np.array([[True] * 900 + [False] * 100])
    # C(900, 500) / C(1000, 500) = product over i < 500 of (900 - i) / (1000 - i).
    expected = np.prod([(900 - i) / (1000 - i) for i in range(500)])
    assert scoring.pass_hat_k(row, 500)[0] == pytest.approx(expected, rel=1e-12)


def test_suite_values_carry_their_k() -> None:
    result = scoring.pass_k(TABLE, 2)
    assert result.k == 2
    # Chances of a pass in two: 1, 0, 1, 1 - 3/6; of two passes: 3/6, 0, 1, 0.
    assert result.any_passes.estimate == pytest.approx(2.5 / 4)
    assert result.all_pass.estimate == pytest.approx(1.5 / 4)
    assert result.all_pass.estimand.startswith("pass^2")
    assert result.any_passes.n_units == 4


def test_flips_are_scenarios_that_passed_and_failed() -> None:
    assert scoring.has_flipped(TABLE).tolist() == [True, False, False, True]
    share = scoring.flip_share(TABLE, level=0.9)
    assert share is not None
    assert (share.estimate, share.level) == (0.5, 0.9)
    assert "within 4 repeats" in share.estimand


def test_one_repeat_cannot_flip() -> None:
    assert scoring.flip_share(TABLE[:, :1]) is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: scoring.pass_at_k(TABLE, 5), "between 1 and the number of repeats, 4; it is 5"),
        (lambda: scoring.pass_hat_k(TABLE, 0), "it is 0"),
        (lambda: scoring.pass_at_k([[0, 1]], 1), "booleans"),
        (lambda: scoring.pass_at_k([True], 1), "scenarios x repeats"),
        (lambda: scoring.pass_at_k(np.zeros((0, 3), dtype=bool), 1), "scenarios x repeats"),
    ],
)
def test_what_cannot_be_estimated_is_refused(call: Any, message: str) -> None:
    with pytest.raises(scoring.ScoringError, match=message):
        call()
