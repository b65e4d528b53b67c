"""Scores by group of scenarios: what a pooled number hides. Knows no truths, only the traits they gave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

import scoring
from diagnose_bench.grading_sample import FloatArray, Request, Sample, relabelled, statistic_for
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
    tables = [_table(sample, means, by, keys) for by, keys in _keys(sample)]
    return tuple(table for table in tables if table is not None)


def group_requests(sample: Sample, means: FloatArray) -> Iterator[Request]:
    """The intervals that the tables need."""
    for by, keys in _keys(sample):
        for key in _order(keys):
            yield _request(sample, means, by, _chosen(keys, key))


def _keys(sample: Sample) -> tuple[tuple[str, Sequence[str | int | None]], ...]:
    traits = sample.traits
    return (
        ("family", [one.family for one in traits]),
        ("namespace", [one.subsystem for one in traits]),
        ("n_root_causes", [one.n_root_causes for one in traits]),
        ("difficulty", [one.difficulty for one in traits]),
    )


def _order(keys: Sequence[str | int | None]) -> list[str | int | None]:
    """The groups of a table, none where no scenario says to which it belongs."""
    stated = {key for key in keys if key is not None}
    if not stated:
        return []
    # One table has keys of one kind; scenarios that do not say come last.
    order: list[str | int | None] = [
        *sorted(stated, key=lambda key: (key, "") if isinstance(key, int) else (0, key))
    ]
    return order + [None] * (None in keys)


def _chosen(keys: Sequence[str | int | None], key: str | int | None) -> NDArray[np.bool_]:
    return np.array([other == key for other in keys], dtype=np.bool_)


def _request(sample: Sample, means: FloatArray, by: str, chosen: NDArray[np.bool_]) -> Request:
    families = sample.family_of if by != "family" else None
    return Request.of(
        means[chosen], None, None if families is None else relabelled(families[chosen]), sample.choice
    )


def _table(sample: Sample, means: FloatArray, by: str, keys: Sequence[str | int | None]) -> GroupTable | None:
    """One table; None where no scenario says to which group it belongs."""
    groups = []
    for key in _order(keys):
        chosen = _chosen(keys, key)
        groups.append(
            GroupScore(
                name=None if key is None else str(key),
                score=statistic_for(
                    _request(sample, means, by, chosen), "mean score over scenarios like those of the group"
                ),
                n_scenarios=int(chosen.sum()),
                scenario_ids=tuple(
                    name for name, is_in in zip(sample.scenario_ids, chosen, strict=True) if is_in
                ),
            )
        )
    if not groups:
        return None
    prediction = _prediction(sample, means, keys) if by in ("family", "namespace") else None
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
