"""Lines about resampling: 30 agents and their 435 pairs on 59 scenarios, against SciPy and a plain loop."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

import scoring
from bench.measure import Line, interleaved, milliseconds
from scoring.flips import random_flip_p_values

_N_AGENTS = 30
_N_SCENARIOS = 59
_N_RESAMPLES = 10_000
_N_PEER_SERIES = 5
"""The peers take each series alone, so a few are timed and counted up to all of them."""
_N_LOOP_RESAMPLES = 500
"""So is the loop, over its resamples as well."""

FloatArray = NDArray[np.float64]


def _series() -> tuple[FloatArray, FloatArray]:
    """Scenario means of the agents (as often 0 and 1 as real ones), and their differences."""
    rng = np.random.default_rng(59)
    agents = rng.choice(
        [0.0, 1 / 6, 1 / 3, 1 / 2, 2 / 3, 1.0], (_N_AGENTS, _N_SCENARIOS), p=[0.4, 0.1, 0.1, 0.1, 0.1, 0.2]
    )
    pairs = np.stack([agents[a] - agents[b] for a, b in combinations(range(_N_AGENTS), 2)])
    return agents, pairs


def bootstrap_of_all() -> Iterator[Line]:
    """Percentile intervals of 30 means and 435 differences of means."""
    from scipy import stats

    agents, pairs = _series()
    everything = np.concatenate([agents, pairs])
    first, second = np.array(list(combinations(range(_N_AGENTS), 2))).T
    ones = np.ones(_N_SCENARIOS)

    def ours() -> FloatArray:
        means = scoring.bootstrap_means(agents, ones, np.random.default_rng(1), n_resamples=_N_RESAMPLES)
        both = np.concatenate([means, means[first] - means[second]])
        return np.asarray(np.quantile(both, [0.025, 0.975], axis=1))

    def by_scipy() -> FloatArray:
        found = [
            stats.bootstrap(
                (row,), np.mean, n_resamples=_N_RESAMPLES, method="percentile", rng=np.random.default_rng(1)
            ).confidence_interval
            for row in everything[:_N_PEER_SERIES]
        ]
        return np.array(found).T

    def by_loop() -> list[float]:
        draw = random.Random(1)
        found = []
        for row in everything[:_N_PEER_SERIES].tolist():
            means = sorted(
                sum(draw.choices(row, k=_N_SCENARIOS)) / _N_SCENARIOS for _ in range(_N_LOOP_RESAMPLES)
            )
            found.append(means[int(0.025 * _N_LOOP_RESAMPLES)])
        return found

    # Both draw: the ends agree to the error of the draws.
    np.testing.assert_allclose(by_scipy(), ours()[:, :_N_PEER_SERIES], atol=0.02)
    np.testing.assert_allclose(by_loop(), ours()[0, :_N_PEER_SERIES], atol=0.06)
    seconds = interleaved({"ours": ours, "SciPy": by_scipy, "plain loop": by_loop})
    share = len(everything) / _N_PEER_SERIES
    seconds["SciPy"] *= share
    seconds["plain loop"] *= share * _N_RESAMPLES / _N_LOOP_RESAMPLES
    name = "bootstrap of 30 agents + 435 pairs, 10,000 resamples"
    detail = f"{milliseconds(seconds)}; peers counted up from {_N_PEER_SERIES} series"
    yield Line(f"SciPy / {name}", seconds["SciPy"] / seconds["ours"], 15, 60, at_most=False, detail=detail)
    yield Line(f"plain loop / {name}", seconds["plain loop"] / seconds["ours"], 300, 1500, at_most=False)


def sign_flips_of_all() -> Iterator[Line]:
    """Sign-flip p-values of 435 pairs, 10,000 random patterns."""
    from scipy import stats

    _, pairs = _series()

    def ours() -> FloatArray:
        return random_flip_p_values(np.ascontiguousarray(pairs.T), np.random.default_rng(1), _N_RESAMPLES)

    def by_scipy() -> FloatArray:
        return np.array(
            [
                stats.permutation_test(
                    (row,),
                    np.mean,
                    permutation_type="samples",
                    n_resamples=_N_RESAMPLES,
                    rng=np.random.default_rng(1),
                ).pvalue
                for row in pairs[:_N_PEER_SERIES]
            ]
        )

    # SciPy doubles the smaller tail: the same law, other draws.
    np.testing.assert_allclose(by_scipy(), ours()[:_N_PEER_SERIES], atol=0.03)
    seconds = interleaved({"ours": ours, "SciPy": by_scipy})
    seconds["SciPy"] *= len(pairs) / _N_PEER_SERIES
    yield Line(
        "SciPy / sign-flip of 435 pairs, 10,000 patterns",
        seconds["SciPy"] / seconds["ours"],
        500,
        2000,
        at_most=False,
        detail=f"{milliseconds(seconds)}; SciPy counted up from {_N_PEER_SERIES} pairs",
    )


LINES: tuple[Callable[[], Iterator[Line]], ...] = (bootstrap_of_all, sign_flips_of_all)
