"""What a pooled difference hides: how fault families differ, and who would have won without each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import scoring
from diagnose_bench.comparison_settings import Settings

FloatArray = NDArray[np.float64]
_SAME = 1e-9


@dataclass(frozen=True)
class FamilyDifference:
    """Whether one difference holds for every family."""

    prediction: scoring.Prediction | None
    """Where the difference on a family not seen yet may lie; null with fewer than three families, or where no
    family has two scenarios that differ."""
    interaction_p_value: float | None
    """Permutation p-value for "the same in every family"; null where each has one scenario."""
    method: str


@dataclass(frozen=True)
class LeftOutFamily:
    """Who wins without one family, and what that choice costs on it."""

    family: str | None
    """Null for the scenarios that declare none."""
    n_scenarios: int
    means: dict[str, float]
    winner: tuple[str, ...]
    """Best mean over the scenarios of all other families; several where they tie."""
    best: tuple[str, ...]
    """Best mean on the family itself; several where they tie."""
    regret: float
    """Mean of the best one on the family minus that of the (first) winner."""


@dataclass(frozen=True)
class FamilyWinners:
    """The winner, pooled and with each family left out; plain means over scenarios."""

    pooled: tuple[str, ...]
    families: tuple[LeftOutFamily, ...]

    @property
    def holds(self) -> bool:
        """Whether the pooled winner wins whichever family is left out."""
        return all(one.winner == self.pooled for one in self.families)


def family_difference(
    differences: FloatArray, families: Sequence[str | None], settings: Settings
) -> FamilyDifference | None:
    """Heterogeneity of a difference over families; None for fewer than two families."""
    group_of, names = _groups(families)
    if len(names) < 2:
        return None
    return FamilyDifference(
        prediction=scoring.prediction_interval(
            differences, group_of, level=settings.level, bounds=(-1.0, 1.0)
        ),
        interaction_p_value=scoring.interaction_p_value(
            differences, group_of, settings.rng(), n_resamples=settings.n_resamples
        )
        if len(names) < len(families)
        else None,
        method=f"permutation of scenarios over families, {settings.n_resamples} draws, seed {settings.seed}; "
        "prediction by random effects (DerSimonian and Laird)",
    )


def family_winners(
    scores: FloatArray, families: Sequence[str | None], labels: Sequence[str]
) -> FamilyWinners | None:
    """Choose the winner without each family in turn; None for fewer than two families.

    Parameters
    ----------
    scores : ndarray, float64, shape (n_runs, n_scenarios)
        Scenario means.
    families : sequence of str or None
        Family of each scenario.
    labels : sequence of str
        What the runs are called.
    """
    group_of, names = _groups(families)
    if len(names) < 2:
        return None
    found = scoring.leave_one_group_out(scores, group_of)
    groups = np.array(group_of)
    rows = []
    for place, name in enumerate(names):
        inside = groups == place
        rows.append(
            LeftOutFamily(
                family=name,
                n_scenarios=int(inside.sum()),
                means=dict(zip(labels, scores[:, inside].mean(axis=1).tolist(), strict=True)),
                winner=_leaders(scores[:, ~inside].mean(axis=1), labels),
                best=_leaders(scores[:, inside].mean(axis=1), labels),
                regret=float(found.regret[place]),
            )
        )
    return FamilyWinners(pooled=_leaders(scores.mean(axis=1), labels), families=tuple(rows))


def _leaders(means: FloatArray, labels: Sequence[str]) -> tuple[str, ...]:
    best = float(means.max())
    return tuple(label for label, mean in zip(labels, means, strict=True) if mean >= best - _SAME)


def _groups(families: Sequence[str | None]) -> tuple[list[int], tuple[str | None, ...]]:
    """Number of each scenario's family, families by name and the undeclared ones last."""
    names = sorted(set(families), key=lambda name: (name is None, name or ""))
    return [names.index(family) for family in families], tuple(names)
