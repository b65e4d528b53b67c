"""How sure the numbers of a scorecard are: scores through ``scoring`` into statistics with their units.

Knows no files and no truths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import scoring
from diagnose_bench.errors import UsageError
from diagnose_bench.grading_groups import group_requests, group_tables
from diagnose_bench.grading_numbers import Grid, number_or_none
from diagnose_bench.grading_sample import (
    FloatArray,
    Request,
    Sample,
    about,
    mean_statistic,
    prepare,
    relabelled,
    statistic_of,
)
from diagnose_bench.scorecard_statistics import (
    GroupTable,
    LiftOverBlind,
    PassAtK,
    Passes,
    Statistic,
    Variance,
)

MAX_TRIES = 10


@dataclass(frozen=True)
class Statistics:
    """Everything about the certainty of one run's numbers."""

    number: Statistic
    splits: tuple[Statistic, ...] | None
    metrics: dict[str, Statistic]
    profiles: dict[str, Statistic]
    variance: Variance
    groups: tuple[GroupTable, ...]


def statistics_of(sample: Sample, grid: Grid, grids: Mapping[str, Grid]) -> Statistics | None:
    """Compute the intervals and the variance of a run; None while a trial is unscored.

    Parameters
    ----------
    sample : Sample
        The scenarios.
    grid : Grid
        Scores of the profile that the headline is taken from.
    grids : mapping
        Scores by profile.

    Raises
    ------
    UsageError
        The method that was asked for cannot be used on this suite.
    """
    if not grid.complete:
        return None
    try:
        return _statistics(sample, grid, grids)
    except scoring.ScoringError as error:
        raise UsageError(f"--interval {sample.choice.method}: {error}") from error


def method_line(sample: Sample, number: Statistic | None) -> str:
    """What a number is a mean of, and what its interval is about."""
    n_splits = 1 if sample.split_of is None else int(sample.split_of.max()) + 1
    n, repeats = len(sample.scenario_ids), sample.n_repeats
    each = f"{_count(n, 'scenario')} of the mean over {_count(repeats, 'planned repeat')}"
    what = f"mean over {each}" if sample.split_of is None else f"mean of {n_splits} split means, over {each}"
    if number is None:
        return f"{what}; no interval while trials are unscored"
    return f"{what}; interval at level {number.level} for the {about(number)}"


def lift_of(sample: Sample, grid: Grid, blind_scenarios: Mapping[str, float], value: float) -> LiftOverBlind:
    """Lift over the blind answer on the same scenarios; every trial is scored, and so is blind.

    Parameters
    ----------
    sample : Sample
        The scenarios.
    grid : Grid
        The run's scores.
    blind_scenarios : mapping
        The blind answer's score of each scenario.
    value : float
        The lift as it stands elsewhere already.

    Notes
    -----
    Its interval is the half-atom one whatever method was asked for: it is the one that knows of pairs.
    """
    lift = scoring.lift_over_blind(
        scoring.scenario_means(grid.scores),
        np.array([blind_scenarios[scenario_id] for scenario_id in sample.scenario_ids]),
        split_of=sample.split_of,
        family_of=sample.family_of,
        level=sample.choice.level,
    )
    return LiftOverBlind(
        difference=statistic_of(lift.difference, f"score minus blind over {sample.population}").model_copy(
            update={"value": value}
        ),
        share=statistic_of(lift.share, f"(score - blind) / (1 - blind) over {sample.population}"),
    )


def requests_of(sample: Sample, grid: Grid, grids: Mapping[str, Grid]) -> Iterator[Request]:
    """The intervals of means that a run needs, so that those of many runs can be made at once.

    Parameters
    ----------
    sample, grid, grids
        As for `statistics_of`.
    """
    if not grid.complete:
        return
    for other in (grid, *grids.values()):
        yield sample.request(scoring.scenario_means(other.scores), by_split=True)
    for values in grid.metric_tables().values():
        yield sample.request(values.mean(axis=1))
    for has_passed in (grid.has_full_recall, grid.is_exact):
        if sample.n_repeats > 1:
            yield sample.request(scoring.has_flipped(has_passed).astype(np.float64))
        for _, any_passes, all_pass in _tries(has_passed):
            yield sample.request(any_passes)
            yield sample.request(all_pass)
    yield from group_requests(sample, scoring.scenario_means(grid.scores))


def _statistics(sample: Sample, grid: Grid, grids: Mapping[str, Grid]) -> Statistics:
    prepare(requests_of(sample, grid, grids))
    means = scoring.scenario_means(grid.scores)
    suite = grid.suite()
    splits = None
    if sample.split_of is not None and suite.split_means is not None:
        splits = tuple(
            _part(sample, means, sample.split_of == label, "mean score over scenarios of the split", score)
            for label, score in enumerate(suite.split_means)
        )
    metrics = grid.metrics()
    mean = "mean" if sample.split_of is None else "mean of the split means of the"
    return Statistics(
        number=sample.mean(means, f"{mean} score", by_split=True, value=suite.mean),
        splits=splits,
        metrics={
            name: sample.mean(
                values.mean(axis=1), name if name.endswith("_rate") else f"mean {name}", value=metrics[name]
            )
            for name, values in grid.metric_tables().items()
        },
        profiles={
            name: sample.mean(
                scoring.scenario_means(other.scores),
                f"{mean} score under the profile {name}",
                by_split=True,
                value=other.number(),
            )
            for name, other in grids.items()
        },
        variance=_variance(sample, grid),
        groups=group_tables(sample, means),
    )


def _part(
    sample: Sample, means: FloatArray, chosen: NDArray[np.bool_], estimand: str, value: float
) -> Statistic:
    families = sample.family_of
    found = mean_statistic(
        means[chosen],
        estimand,
        sample.choice,
        family_of=None if families is None else relabelled(families[chosen]),
    )
    return found.model_copy(update={"value": float(value)})


def _variance(sample: Sample, grid: Grid) -> Variance:
    found = scoring.repeat_variance(
        grid.scores, split_of=sample.split_of, family_of=sample.family_of, level=sample.choice.level
    )
    families = sample.family_of
    generalise = Statistic(
        value=number_or_none(found.generalise),
        interval=None,
        level=None,
        estimand=f"standard error of the mean score for other {sample.population}",
        unit="scenario" if families is None else "family",
        n=len(sample.scenario_ids) if families is None else int(families.max()) + 1,
        method="spread of the means of the units",
    )
    return Variance(
        between=statistic_of(found.between),
        within=statistic_of(found.within),
        icc_1=statistic_of(found.icc_1),
        icc_k=statistic_of(found.icc_k),
        generalise=generalise,
        rerun=statistic_of(found.rerun),
        full_recall=_passes(sample, grid.has_full_recall, "every root cause named"),
        exact=_passes(sample, grid.is_exact, "a score of 1"),
    )


def _passes(sample: Sample, has_passed: NDArray[np.bool_], meaning: str) -> Passes:
    n_repeats = sample.n_repeats
    flips = None
    if n_repeats > 1:
        flips = sample.mean(
            scoring.has_flipped(has_passed).astype(np.float64),
            f"share that flips within {n_repeats} repeats",
        )
    return Passes(
        meaning=meaning,
        flip_share=flips,
        tries=tuple(
            PassAtK(
                k=k,
                any_passes=sample.mean(any_passes, f"pass@{k}"),
                all_pass=sample.mean(all_pass, f"pass^{k}"),
            )
            for k, any_passes, all_pass in _tries(has_passed)
        ),
    )


def _tries(has_passed: NDArray[np.bool_]) -> Iterator[tuple[int, FloatArray, FloatArray]]:
    """k, pass@k and pass^k of each scenario."""
    n_repeats = has_passed.shape[1]
    for k in sorted({*range(1, min(n_repeats, MAX_TRIES) + 1), n_repeats}):
        yield k, scoring.pass_at_k(has_passed, k), scoring.pass_hat_k(has_passed, k)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
