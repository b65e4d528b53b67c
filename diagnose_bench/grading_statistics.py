"""How sure the numbers of a scorecard are: scores through ``scoring`` into statistics with their units.

Knows no files and no truths. NaN ends here: where there is no number there is null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

import scoring
from diagnose_bench.errors import UsageError
from diagnose_bench.grading_groups import NO_FAULT, ScenarioTraits, family_units, only_family
from diagnose_bench.grading_numbers import Grid, number_or_none
from diagnose_bench.scorecard_statistics import (
    GroupScore,
    GroupTable,
    LiftOverBlind,
    PassAtK,
    Passes,
    PredictedGroup,
    Statistic,
    Variance,
)
from diagnose_bench.signature import IntervalChoice

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MAX_TRIES = 10
_PREDICTION = (
    "random effects between groups (DerSimonian and Laird), variance of scenarios pooled over groups, "
    "t with n_groups - 2 degrees of freedom"
)


@dataclass(frozen=True, eq=False)
class Sample:
    """The scenarios that count: their splits, their units, and how intervals are made."""

    scenario_ids: tuple[str, ...]
    traits: tuple[ScenarioTraits, ...]
    split_of: IntArray | None
    n_repeats: int
    choice: IntervalChoice

    @property
    def family_of(self) -> IntArray | None:
        """Unit of each scenario where families are the units."""
        return family_units([one.family for one in self.traits])

    @property
    def population(self) -> str:
        """What the scenarios are a sample of."""
        family = only_family([one.family for one in self.traits])
        return "scenarios like these" if family is None else f"scenarios of the family {family}"

    def mean(
        self,
        scenario_scores: FloatArray,
        estimand: str,
        *,
        by_split: bool = False,
        value: float | None = None,
    ) -> Statistic:
        """Mean over scenarios with its interval; ``value`` where the same mean stands elsewhere already."""
        found = mean_statistic(
            scenario_scores,
            f"{estimand} over {self.population}",
            self.choice,
            split_of=self.split_of if by_split else None,
            family_of=self.family_of,
        )
        return found if value is None else found.model_copy(update={"value": value})


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


def about(statistic: Statistic) -> str:
    """Estimand, method, unit and n in one phrase."""
    return f"{statistic.estimand}: {statistic.method}; unit: {statistic.unit}, n = {statistic.n}"


def lift_of(sample: Sample, grid: Grid, blind_scenarios: Mapping[str, float]) -> LiftOverBlind | None:
    """Lift over the blind answer on the same scenarios; None while a score of either is missing.

    Notes
    -----
    Its interval is the half-atom one whatever method was asked for: it is the one that knows of pairs.
    """
    if not grid.complete or not blind_scenarios:
        return None
    lift = scoring.lift_over_blind(
        scoring.scenario_means(grid.scores),
        np.array([blind_scenarios[scenario_id] for scenario_id in sample.scenario_ids]),
        split_of=sample.split_of,
        family_of=sample.family_of,
        level=sample.choice.level,
    )
    return LiftOverBlind(
        difference=_statistic(lift.difference, f"score minus blind over {sample.population}"),
        share=_statistic(lift.share, f"(score - blind) / (1 - blind) over {sample.population}"),
    )


def mean_statistic(
    scenario_scores: FloatArray,
    estimand: str,
    choice: IntervalChoice,
    *,
    split_of: IntArray | None = None,
    family_of: IntArray | None = None,
) -> Statistic:
    """Mean of one value per scenario, with its interval."""
    interval = _mean_interval(
        np.asarray(scenario_scores, dtype=np.float64).tobytes(),
        None if split_of is None else split_of.tobytes(),
        None if family_of is None else family_of.tobytes(),
        choice,
    )
    found = _statistic(interval, estimand)
    drawn = f", {choice.n_resamples} resamples, seed {choice.seed}" if choice.draws else ""
    return found.model_copy(update={"method": interval.method + drawn})


# A group of one scenario, a rate and a pass@1 are often the same sample.
@lru_cache(maxsize=512)
def _mean_interval(
    scores: bytes, split_of: bytes | None, family_of: bytes | None, choice: IntervalChoice
) -> scoring.Interval:
    return scoring.mean_interval(
        np.frombuffer(scores, dtype=np.float64),
        split_of=None if split_of is None else np.frombuffer(split_of, dtype=np.int64),
        family_of=None if family_of is None else np.frombuffer(family_of, dtype=np.int64),
        level=choice.level,
        method=choice.method.value,
        # Each interval has the whole stream: one statistic more changes no other.
        rng=np.random.default_rng(choice.seed) if choice.draws else None,
        n_resamples=choice.n_resamples,
    )


def _statistics(sample: Sample, grid: Grid, grids: Mapping[str, Grid]) -> Statistics:
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
        groups=_groups(sample, means),
    )


def _part(
    sample: Sample, means: FloatArray, chosen: NDArray[np.bool_], estimand: str, value: float
) -> Statistic:
    families = sample.family_of
    found = mean_statistic(
        means[chosen],
        estimand,
        sample.choice,
        family_of=None if families is None else _relabelled(families[chosen]),
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
        between=_statistic(found.between),
        within=_statistic(found.within),
        icc_1=_statistic(found.icc_1),
        icc_k=_statistic(found.icc_k),
        generalise=generalise,
        rerun=_statistic(found.rerun),
        full_recall=_passes(sample, grid.has_full_recall, "every root cause named"),
        exact=_passes(sample, grid.is_exact, "a score of 1"),
    )


def _passes(sample: Sample, has_passed: NDArray[np.bool_], meaning: str) -> Passes:
    n_repeats = sample.n_repeats
    ks = sorted({*range(1, min(n_repeats, MAX_TRIES) + 1), n_repeats})
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
                any_passes=sample.mean(scoring.pass_at_k(has_passed, k), f"pass@{k}"),
                all_pass=sample.mean(scoring.pass_hat_k(has_passed, k), f"pass^{k}"),
            )
            for k in ks
        ),
    )


def _groups(sample: Sample, means: FloatArray) -> tuple[GroupTable, ...]:
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
    order: list[str | int | None] = [*sorted(stated, key=lambda key: (str(type(key)), key))]
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
                    family_of=None if families is None else _relabelled(families[chosen]),
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


def _relabelled(labels: IntArray) -> IntArray:
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _statistic(interval: scoring.Interval, estimand: str | None = None) -> Statistic:
    low, high = number_or_none(interval.low), number_or_none(interval.high)
    has_ends = low is not None and high is not None
    return Statistic(
        value=number_or_none(interval.estimate),
        interval=(low, high) if low is not None and high is not None else None,
        level=interval.level if has_ends else None,
        estimand=interval.estimand if estimand is None else estimand,
        unit=interval.unit,
        n=interval.n_units,
        method=interval.method,
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
