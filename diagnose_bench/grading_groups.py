"""Scores by group of scenarios: what a pooled number hides. Knows no truths, only the traits they gave."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import scoring
from diagnose_bench.grading_sample import FloatArray, Sample, mean_statistic, relabelled
from diagnose_bench.grading_traits import NO_FAULT
from diagnose_bench.scorecard_statistics import GroupScore, GroupTable, PredictedGroup

_PREDICTION = (
    "random effects between groups (DerSimonian and Laird), variance of scenarios pooled over groups, "
    "t with n_groups - 2 degrees of freedom"
)


def group_tables(sample: Sample, means: FloatArray) -> tuple[GroupTable, ...]:
    """Tables by everything that some truth states.

    Parameters
    ----------
    sample : Sample
        The scenarios.
    means : ndarray, float64, shape (n_scenarios,)
        Their scores.

    Notes
    -----
    Families are the units inside the other tables too; inside a family the scenarios are.
    """
    traits = sample.traits
    tables = [
        _table(sample, means, "family", [one.family for one in traits], is_ordered=False),
        _table(sample, means, "namespace", [one.subsystem for one in traits], is_ordered=False),
        _table(sample, means, "n_root_causes", [one.n_root_causes for one in traits], is_ordered=True),
        _table(sample, means, "difficulty", [one.difficulty for one in traits], is_ordered=True),
    ]
    return tuple(table for table in tables if table is not None)


def _table(
    sample: Sample, means: FloatArray, by: str, keys: Sequence[str | int | None], *, is_ordered: bool
) -> GroupTable | None:
    """One table; None where no scenario says to which group it belongs."""
    stated = {key for key in keys if key is not None}
    if not stated:
        return None
    # One table has keys of one kind; scenarios that do not say come last.
    order: list[str | int | None] = [
        *sorted(stated, key=lambda key: (key, "") if isinstance(key, int) else (0, key))
    ]
    order += [None] * (None in keys)
    groups = []
    for key in order:
        chosen = np.array([other == key for other in keys], dtype=np.bool_)
        families = sample.family_of if by != "family" else None
        groups.append(
            GroupScore(
                name=None if key is None else str(key),
                score=mean_statistic(
                    means[chosen],
                    "mean score over scenarios like those of the group",
                    sample.choice,
                    family_of=None if families is None else relabelled(families[chosen]),
                ),
                n_scenarios=int(chosen.sum()),
                scenario_ids=tuple(
                    name for name, is_in in zip(sample.scenario_ids, chosen, strict=True) if is_in
                ),
            )
        )
    prediction = None if is_ordered else _prediction(sample, means, keys)
    return GroupTable(by=by, groups=tuple(groups), prediction=prediction)


def _prediction(sample: Sample, means: FloatArray, keys: Sequence[str | int | None]) -> PredictedGroup | None:
    names = np.array(["" if key is None or key == NO_FAULT else str(key) for key in keys])
    stated = names != ""
    if not stated.any():
        return None
    labels = np.unique(names[stated], return_inverse=True)[1].astype(np.int64)
    found = scoring.prediction_interval(means[stated], labels, level=sample.choice.level)
    if found is None:
        return None
    return PredictedGroup(
        mean=found.mean,
        interval=(found.low, found.high),
        level=found.level,
        between_sd=found.between_sd,
        n_groups=found.n_groups,
        n_scenarios=found.n_scenarios,
        method=_PREDICTION,
    )
