"""The scenarios that count, and the mean of one value per scenario with its interval.

Knows no files and no truths. NaN ends here: where there is no number there is null.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import scoring
from diagnose_bench.grading_numbers import number_or_none
from diagnose_bench.grading_traits import ScenarioTraits, family_units, only_family
from diagnose_bench.outcome import IntervalMethod
from diagnose_bench.scorecard_statistics import Statistic
from diagnose_bench.signature import IntervalChoice

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


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

    def request(self, scenario_scores: FloatArray, *, by_split: bool = False) -> Request:
        """The interval of a mean over scenarios, to be made with others."""
        return Request.of(scenario_scores, self.split_of if by_split else None, self.family_of, self.choice)

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


def mean_statistic(
    scenario_scores: FloatArray,
    estimand: str,
    choice: IntervalChoice,
    *,
    split_of: IntArray | None = None,
    family_of: IntArray | None = None,
) -> Statistic:
    """Mean of one value per scenario, with its interval."""
    return statistic_for(Request.of(scenario_scores, split_of, family_of, choice), estimand)


def statistic_for(request: Request, estimand: str) -> Statistic:
    """The mean that is wanted, with its interval."""
    prepare([request])
    interval, choice = _KNOWN[request], request.choice
    found = statistic_of(interval, estimand)
    drawn = f", {choice.n_resamples} resamples, seed {choice.seed}" if choice.draws else ""
    return found.model_copy(update={"method": interval.method + drawn})


@dataclass(frozen=True)
class Request:
    """An interval that is wanted; arrays as their bytes, so that the same one is known again."""

    scores: bytes
    split_of: bytes | None
    family_of: bytes | None
    choice: IntervalChoice

    @classmethod
    def of(
        cls,
        scores: FloatArray,
        split_of: IntArray | None,
        family_of: IntArray | None,
        choice: IntervalChoice,
    ) -> Request:
        """The request for one value per scenario."""
        return cls(
            np.ascontiguousarray(scores, dtype=np.float64).tobytes(),
            None if split_of is None else split_of.tobytes(),
            None if family_of is None else family_of.tobytes(),
            choice,
        )

    def arguments(self) -> dict[str, Any]:
        """The sample as `scoring` takes it."""
        return {
            "scenario_scores": np.frombuffer(self.scores, dtype=np.float64),
            "split_of": None if self.split_of is None else np.frombuffer(self.split_of, dtype=np.int64),
            "family_of": None if self.family_of is None else np.frombuffer(self.family_of, dtype=np.int64),
        }


# A group of one scenario, a rate and a pass@1 are often the same sample.
_KNOWN: dict[Request, scoring.Interval] = {}
_MOST_BYTES = 16 << 20


def prepare(requests: Iterable[Request]) -> None:
    """Make the intervals that are not known yet, all at once: that is faster, and changes none of them."""
    wanted = [request for request in dict.fromkeys(requests) if request not in _KNOWN]
    if wanted and sum(len(request.scores) + 512 for request in (*_KNOWN, *wanted)) > _MOST_BYTES:
        _KNOWN.clear()
    by_level: dict[float, list[Request]] = {}
    for request in wanted:
        choice = request.choice
        if choice.method is IntervalMethod.HALF_ATOM:
            by_level.setdefault(choice.level, []).append(request)
            continue
        _KNOWN[request] = scoring.mean_interval(
            **request.arguments(),
            level=choice.level,
            method=choice.method.value,
            # Each interval has the whole stream: one statistic more changes no other.
            rng=np.random.default_rng(choice.seed) if choice.draws else None,
            n_resamples=choice.n_resamples,
        )
    for level, alike in by_level.items():
        found = scoring.mean_intervals([request.arguments() for request in alike], level=level)
        _KNOWN.update(zip(alike, found, strict=True))


def relabelled(labels: IntArray) -> IntArray:
    """Labels of a part of the scenarios, counted from 0 again."""
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def statistic_of(interval: scoring.Interval, estimand: str | None = None) -> Statistic:
    """An interval of ``scoring`` as it stands in a scorecard: NaN becomes null."""
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


def about(statistic: Statistic) -> str:
    """Estimand, method, unit and n in one phrase."""
    return f"{statistic.estimand}: {statistic.method}; unit: {statistic.unit}, n = {statistic.n}"
