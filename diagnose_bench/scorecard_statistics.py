"""The parts of a scorecard that say how sure its numbers are. Computes none of them.

No number stands without what it estimates, over which units, and how its interval was made.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

Ends = tuple[float, float]


class StatisticsModel(BaseModel):
    """A frozen part of the scorecard that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)


class Statistic(StatisticsModel):
    """A number with its interval, and what both are about; null where the data hold no answer."""

    value: float | None
    interval: Ends | None
    level: float | None
    """Of the interval; null without one."""
    estimand: str
    unit: str
    """What was taken as independent of one another: ``scenario`` or ``family``."""
    n: int
    """Number of those units."""
    method: str


class LiftOverBlind(StatisticsModel):
    """What the run earns beyond an answer that saw nothing, under ``itbench-aa``."""

    difference: Statistic
    """Score minus blind."""
    share: Statistic
    """(score - blind) / (1 - blind)."""


class PassAtK(StatisticsModel):
    """What k tries are worth."""

    k: int
    any_passes: Statistic
    """pass@k: the chance that at least one of k trials of a scenario passes."""
    all_pass: Statistic
    """pass^k: the chance that all k of them pass."""


class Passes(StatisticsModel):
    """Tries and flips for one meaning of a pass."""

    meaning: str
    flip_share: Statistic | None
    """Share of scenarios that both passed and failed; null with one repeat. It grows with the repeats."""
    tries: tuple[PassAtK, ...]
    """For k from 1 to the number of repeats (beyond ten only that number)."""


class Variance(StatisticsModel):
    """Where the spread of the trial scores comes from."""

    between: Statistic
    """Variance of the scenarios' expected scores, untruncated: negative where repeats explain everything."""
    within: Statistic
    """Variance of a score between repeats of one scenario, pooled over scenarios."""
    icc_1: Statistic
    """Share of one trial's variance that the choice of the scenario explains. Depends on the suite."""
    icc_k: Statistic
    """The same for the mean over the repeats."""
    generalise: Statistic
    """Standard error of the number for other scenarios like these."""
    rerun: Statistic
    """Standard error of the number for these scenarios run again."""
    full_recall: Passes
    exact: Passes


class GroupScore(StatisticsModel):
    """The scenarios of one group."""

    name: str | None
    """Null for scenarios that do not say."""
    score: Statistic
    n_scenarios: int
    scenario_ids: tuple[str, ...]


class PredictedGroup(StatisticsModel):
    """Where the expected mean of a group not seen yet may lie, by a random-effects model."""

    mean: float
    interval: Ends
    level: float
    between_sd: float
    """Standard deviation of the groups' expected means; 0 where chance alone would do."""
    n_groups: int
    n_scenarios: int
    method: str


class GroupTable(StatisticsModel):
    """The score of each group of scenarios: a pooled number hides where an agent fails."""

    by: str
    groups: tuple[GroupScore, ...]
    prediction: PredictedGroup | None
    """Null where the groups have an order of their own, with fewer than three, or where nothing varies inside
    any of them."""
