"""How sure a run's numbers are, in words and for every format: what a figure means, its interval, its basis.

Renders nothing and computes no statistic.
"""

from __future__ import annotations

from dataclasses import dataclass

from diagnose_bench.report import MISSING, interval_text, percent, points
from diagnose_bench.scorecard import Scorecard
from diagnose_bench.scorecard_statistics import Ends, GroupTable, Passes, Statistic, Variance

GENERALISE = "Other scenarios"
RERUN = "Same again"
_TABLE_TITLES = {
    "family": "Fault family",
    "namespace": "Namespace of the root causes",
    "n_root_causes": "Number of root causes",
    "difficulty": "Difficulty",
}


@dataclass(frozen=True)
class Figure:
    """One figure about a run."""

    name: str
    value: str
    interval: str
    meaning: str
    basis: str
    """Unit and n."""


def figures(scorecard: Scorecard) -> tuple[Figure, ...]:
    """Every figure about how sure a run's numbers are; none while the run is incomplete."""
    found = []
    lift, variance = scorecard.baselines.lift_over_blind, scorecard.variance
    metrics, strict = scorecard.metric_intervals, scorecard.profile_intervals.get("strict")
    for name, statistic, meaning in (
        ("Full recall", metrics.get("full_recall_rate"), "share of trials that name every root cause"),
        ("Exact", metrics.get("exact_rate"), "share of trials that name every root cause and nothing else"),
        ("Strict profile", strict, "the score when only the exact object counts"),
    ):
        if statistic is not None:
            found.append(_share(name, statistic, meaning))
    if lift is not None:
        found.append(_points("Lift over blind", lift.difference, "points above an answer that saw nothing"))
        found.append(
            _share("Share of the rest", lift.share, "what the run earns of the part that blind leaves")
        )
    return (*found, *(_of_variance(variance, scorecard.headline.n_repeats) if variance else ()))


def passes(scorecard: Scorecard) -> tuple[Passes, ...]:
    """What several tries are worth, for both meanings of a pass."""
    variance = scorecard.variance
    return () if variance is None else (variance.full_recall, variance.exact)


def table_title(table: GroupTable) -> str:
    """What the scenarios are grouped by, in words."""
    return _TABLE_TITLES[table.by]


def group_name(name: str | None) -> str:
    """Name of a group, or what stands for those that state none."""
    return "not stated" if name is None else name


def prediction_text(table: GroupTable) -> str | None:
    """Where another group's mean may lie, in words."""
    found = table.prediction
    if found is None:
        return None
    return (
        f"Another group like these {found.n_groups} (n = {found.n_scenarios} scenarios): mean expected in "
        f"{interval_text(found.interval)} %."
    )


def is_informative(table: GroupTable) -> bool:
    """Whether there are two groups or more, of two scenarios or more on average.

    The others say little that the scenarios themselves do not.
    """
    n_scenarios = sum(group.n_scenarios for group in table.groups)
    return 1 < len(table.groups) <= n_scenarios / 2


def spread_words(variance: Variance) -> str:
    """The two standard errors as sentences."""
    generalise, rerun = variance.generalise.value, variance.rerun.value
    other = "cannot be told from these" if generalise is None else f"is {_plain_points(generalise)} points"
    again = (
        "cannot be told: the repeats did not differ, or there is one"
        if rerun is None
        else f"is {_plain_points(rerun)} points"
    )
    return (
        f"The standard error for other scenarios like these (generalise) {other}; for these very scenarios "
        f"run again (rerun) it {again}."
    )


def _of_variance(variance: Variance, n_repeats: int) -> tuple[Figure, ...]:
    flips = variance.full_recall.flip_share
    return (
        _points(
            "Generalise", variance.generalise, "standard error for other scenarios like these", signed=False
        ),
        _points("Rerun", variance.rerun, "standard error for these very scenarios run again", signed=False),
        _plain("Between", variance.between, "variance of the scenarios' expected scores"),
        _plain("Within", variance.within, "variance of a score between repeats of one scenario"),
        _plain("ICC(1)", variance.icc_1, "share of one trial's variance that the scenario explains"),
        _plain(f"ICC({n_repeats})", variance.icc_k, "the same for the mean over the repeats"),
        *(
            ()
            if flips is None
            else (_share("Flips", flips, "scenarios with and without full recall among their repeats"),)
        ),
    )


def _share(name: str, statistic: Statistic, meaning: str) -> Figure:
    return Figure(
        name, percent(statistic.value), _with_unit(statistic.interval, " %"), meaning, _basis(statistic)
    )


def _points(name: str, statistic: Statistic, meaning: str, *, signed: bool = True) -> Figure:
    value = points(statistic.value) if signed or statistic.value is None else _plain_points(statistic.value)
    shown = value if statistic.value is None else f"{value} points"
    return Figure(name, shown, interval_text(statistic.interval, signed=signed), meaning, _basis(statistic))


def _plain(name: str, statistic: Statistic, meaning: str) -> Figure:
    ends = statistic.interval
    return Figure(
        name,
        MISSING if statistic.value is None else f"{statistic.value:.3f}",
        MISSING if ends is None else f"{ends[0]:.3f} to {ends[1]:.3f}",
        meaning,
        _basis(statistic),
    )


def _with_unit(ends: Ends | None, unit: str) -> str:
    return interval_text(ends) + ("" if ends is None else unit)


def _plain_points(value: float) -> str:
    return f"{100 * value:.1f}"


def _basis(statistic: Statistic) -> str:
    plural = "families" if statistic.unit == "family" else "scenarios"
    return f"{statistic.n} {statistic.unit if statistic.n == 1 else plural}"
