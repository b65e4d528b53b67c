"""Score models to simulate runs from, with their true means. Knows no interval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Generator = np.random.Generator


@dataclass(frozen=True)
class Model:
    """A population of scenarios, and how trials score on one of them."""

    name: str
    draw_scenarios: Callable[[int, Generator], FloatArray]
    """(n, rng) -> parameters of n scenarios, shape (n, n_parameters)."""
    draw_scores: Callable[[FloatArray, int, Generator], FloatArray]
    """(parameters, n_repeats, rng) -> scores, shape (n, n_repeats)."""

    def draw(self, n_scenarios: int, n_repeats: int, rng: Generator) -> FloatArray:
        """Scores of one run, shape (n_scenarios, n_repeats)."""
        return self.draw_scores(self.draw_scenarios(n_scenarios, rng), n_repeats, rng)

    def truth(self, rng: Generator, n_scenarios: int = 2_000_000) -> tuple[float, float, float]:
        """Mean, variance between and variance within, from many scenarios with two trials each."""
        first, second = self.draw(n_scenarios, 2, rng).T
        mean = 0.5 * float(first.mean() + second.mean())
        between = float(((first - mean) * (second - mean)).mean())
        return mean, between, float(0.5 * ((first - second) ** 2).mean())


def full_recall_model(name: str, draw_chance: Callable[[int, Generator], FloatArray], wrong: float) -> Model:
    """Full recall with a chance of the scenario's own, then G / (G + u): G root causes, u wrong entities."""

    def scenarios(n: int, rng: Generator) -> FloatArray:
        roots = rng.integers(1, 5, n).astype(np.float64)
        mean_wrong = wrong * rng.gamma(2.0, 0.5, n)
        return np.stack([draw_chance(n, rng), roots, mean_wrong], axis=1)

    return Model(name, scenarios, full_recall_scores)


def full_recall_scores(parameters: FloatArray, n_repeats: int, rng: Generator) -> FloatArray:
    """Scores of scenarios with (chance of full recall, root causes, mean number of wrong entities)."""
    chance, roots, mean_wrong = (column[:, None] for column in parameters.T)
    shape = (parameters.shape[0], n_repeats)
    is_full = rng.random(shape) < chance
    if not mean_wrong.any():
        return np.asarray(is_full, dtype=np.float64)
    n_wrong = rng.geometric(np.broadcast_to(1.0 / (1.0 + mean_wrong), shape)) - 1
    return np.asarray(np.where(is_full, roots / (roots + n_wrong), 0.0))


def beta(a: float, b: float) -> Callable[[int, Generator], FloatArray]:
    """Chances that are Beta(a, b) over scenarios."""
    return lambda n, rng: rng.beta(a, b, n)


def one_of(*values: float) -> Callable[[int, Generator], FloatArray]:
    """Chances that are one of a few values, all as likely."""
    return lambda n, rng: rng.choice(np.array(values), n)


def _unit_beta(n: int, rng: Generator) -> FloatArray:
    return rng.beta(4.0, 2.0, n)[:, None]


def _smooth_scores(parameters: FloatArray, n_repeats: int, rng: Generator) -> FloatArray:
    means = np.broadcast_to(parameters, (parameters.shape[0], n_repeats))
    return np.asarray(rng.beta(5.0 * means, 5.0 * (1.0 - means)))


def _uniform(n: int, rng: Generator) -> FloatArray:
    return rng.random((n, 1))


def _quarter_scores(parameters: FloatArray, n_repeats: int, rng: Generator) -> FloatArray:
    return rng.binomial(4, np.broadcast_to(parameters, (parameters.shape[0], n_repeats))) / 4.0


BASES = {
    ".04": ((0.12, 2.2), 1.0),
    ".15": ((0.30, 1.3), 1.0),
    ".31": ((0.45, 0.75), 0.9),
    ".51": ((0.70, 0.50), 0.5),
}
"""Beta parameters of full recall, and mean number of wrong entities, by mean score."""

FIRST = (
    *(full_recall_model(name, beta(*chance), wrong) for name, (chance, wrong) in BASES.items()),
    full_recall_model(".94", beta(6.0, 0.25), 0.06),
    full_recall_model("coin, ICC 1", one_of(0.0, 1.0), 0.0),
    full_recall_model("coin, ICC 0", one_of(0.5), 0.0),
    full_recall_model("binary .95", beta(9.5, 0.5), 0.0),
)
"""The eight models on which the default interval was chosen."""

FRESH = (
    full_recall_model("solved .80", beta(2.0, 0.5), 0.5),
    full_recall_model("all or nothing, many wrong", beta(0.3, 0.3), 2.0),
    full_recall_model("binary .02, ICC .5", beta(0.02, 0.98), 0.0),
    full_recall_model("binary .10, ICC 1", one_of(1.0, *[0.0] * 9), 0.0),
    full_recall_model("hopeless, even, sure", one_of(0.0, 0.5, 1.0), 0.3),
    Model("smooth Beta(4, 2)", _unit_beta, _smooth_scores),
    Model("quarters of a uniform", _uniform, _quarter_scores),
    full_recall_model("ceiling .98, ICC .07", beta(12.0, 0.25), 0.0),
)
"""Eight models fixed before any interval was run on them."""

DESIGNS = ((20, 3), (59, 3), (40, 3), (20, 1), (20, 10))
"""Scenarios x repeats."""


def paired_scores(
    chance: tuple[float, float], wrong: float, n: int, n_repeats: int, rng: Generator, shift: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Two agents on the same scenarios: a shared logit, an own normal interaction each, and a shift."""
    common = full_recall_model("", beta(*chance), wrong).draw_scenarios(n, rng)
    base = np.clip(common[:, 0], 1e-12, 1.0 - 1e-12)
    logit = np.log(base) - np.log1p(-base)
    runs = []
    for move in (0.0, shift):
        own = common.copy()
        own[:, 0] = 1.0 / (1.0 + np.exp(-(logit + rng.normal(size=n) + move)))
        runs.append(full_recall_scores(own, n_repeats, rng))
    return runs[0], runs[1]


def half_shared(model: Model, n: int, n_repeats: int, rng: Generator) -> tuple[FloatArray, FloatArray]:
    """Two agents alike: each scenario is the same for both with chance 1/2, else its own for each."""
    first, other = model.draw_scenarios(n, rng), model.draw_scenarios(n, rng)
    second = np.where(rng.random(n)[:, None] < 0.5, first, other)
    return model.draw_scores(first, n_repeats, rng), model.draw_scores(second, n_repeats, rng)
