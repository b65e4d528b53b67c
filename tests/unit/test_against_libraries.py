"""Numbers of `scoring` against the libraries that others compute them with; the product uses none of them.

SciPy's bootstrap and exact permutations stand with the intervals and the comparisons.
"""

from __future__ import annotations

import warnings
from types import ModuleType

import numpy as np
import pytest
import scipy.stats

import scoring
from bench import data
from studies.models import FIRST

N_RESAMPLES = 20_000


def imported(name: str) -> ModuleType:
    """A library that is slow to import and may warn about itself when it is; our own warnings stay errors."""
    import importlib

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(name)


def scenario_means(model: int, n: int, seed: int, repeats: int = 3) -> np.ndarray:
    return FIRST[model].draw(n, repeats, np.random.default_rng(seed)).mean(axis=1)


def test_drawn_sign_flips_against_scipy() -> None:
    before, after = scenario_means(2, 59, 6), scenario_means(3, 59, 7)
    theirs = scipy.stats.permutation_test(
        (before, after),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        n_resamples=N_RESAMPLES,
        vectorized=True,
        rng=np.random.default_rng(8),
    )
    ours = scoring.paired_difference(before, after, rng=np.random.default_rng(9), n_resamples=N_RESAMPLES)
    assert not ours.test.is_exact
    # Four standard errors of the difference of two drawn shares.
    error = np.sqrt(2 * theirs.pvalue * (1 - theirs.pvalue) / N_RESAMPLES)
    assert ours.p_value == pytest.approx(theirs.pvalue, abs=4 * error)


def test_paired_t_against_scipy() -> None:
    before, after = scenario_means(2, 40, 10), scenario_means(3, 40, 11)
    theirs = scipy.stats.ttest_rel(after, before).confidence_interval(0.95)
    ours = scoring.paired_difference(before, after, rng=np.random.default_rng(0)).interval
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_holm_against_statsmodels() -> None:
    multitest = imported("statsmodels.stats.multitest")
    raw = np.random.default_rng(12).random(40) ** 3
    raw[7] = raw[11]
    theirs = multitest.multipletests(raw, method="holm")[1]
    np.testing.assert_allclose(scoring.holm(raw), theirs, rtol=1e-12)


@pytest.mark.parametrize(("n", "repeats", "model"), [(20, 3, 2), (59, 3, 1), (40, 10, 3)])
def test_icc_against_pingouin(n: int, repeats: int, model: int) -> None:
    pingouin = imported("pingouin")
    import pandas as pd

    table = FIRST[model].draw(n, repeats, np.random.default_rng(13))
    scenario, repeat = np.indices(table.shape)
    frame = pd.DataFrame({"s": scenario.ravel(), "r": repeat.ravel(), "score": table.ravel()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pingouin.intraclass_corr(frame, targets="s", raters="r", ratings="score")
    found = found.set_index("Type")["ICC"]
    ours = scoring.repeat_variance(table)
    single, average = (label for label in found.index if label.startswith(("ICC1", "ICC(1")))
    assert ours.icc_1.estimate == pytest.approx(found[single], abs=1e-9)
    assert ours.icc_k.estimate == pytest.approx(found[average], abs=1e-9)


def test_ranked_precision_at_full_recall_against_trec_eval() -> None:
    pytrec_eval = imported("pytrec_eval")
    drawn = data.trials(3_000, 20)
    judged, ranked = {}, {}
    for number, (codes, n_roots) in enumerate(zip(drawn.lists(), drawn.n_root_causes.tolist(), strict=True)):
        judged[str(number)] = {str(code): 1 for code in range(n_roots)}
        ranked[str(number)] = {str(code): -float(rank) for rank, code in enumerate(dict.fromkeys(codes))}
    found = pytrec_eval.RelevanceEvaluator(judged, {"map", "recall_1000"}).evaluate(ranked)
    expected = [
        one["map"] if one["recall_1000"] == 1.0 else 0.0
        for one in (found[str(number)] for number in range(drawn.n_trials))
    ]
    scores = scoring.score_trials(drawn.batch())
    # It computes in single precision.
    np.testing.assert_allclose(scores.ranked_precision_at_full_recall, expected, rtol=1e-5)
    np.testing.assert_allclose(
        scores.recall, [found[str(number)]["recall_1000"] for number in range(drawn.n_trials)], rtol=1e-5
    )
    assert 0.2 < np.mean(np.array(expected) > 0) < 0.5


@pytest.mark.parametrize(("model", "seed"), [(2, 14), (3, 15), (2, 16), (3, 17), (6, 18)])
def test_default_interval_lies_by_the_logit_t_of_evalstats(model: int, seed: int) -> None:
    resampling = imported("evalstats.core.resampling")
    scores = scenario_means(model, 59, seed)
    low, high = resampling.logit_t_ci_1d(scores, 0.05)
    ours = scoring.mean_interval(scores)
    # Two unlike recipes of one interval; in the middle, at 59 units, they differ by little of their width.
    assert (ours.low, ours.high) == pytest.approx((low, high), abs=0.1 * (high - low))
