"""Is one run better than another? Scorecards -> paired differences and what they decide. Renders nothing.

Runs are paired by scenario. A regression needs a significant loss; "not worse" needs a loss of the margin to
be ruled out; everything else is not decidable, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import scoring
from diagnose_bench.comparison_families import (
    FamilyDifference,
    FamilyWinners,
    family_difference,
    family_winners,
)
from diagnose_bench.comparison_inputs import PairedRuns, ScoredRun, load_runs, pair_runs
from diagnose_bench.comparison_scenarios import ScenarioChange, scenario_changes
from diagnose_bench.comparison_settings import Settings, fewest_units
from diagnose_bench.errors import UsageError
from diagnose_bench.json_value import json_value
from diagnose_bench.scorecard import Scorecard
from diagnose_bench.scorecard_statistics import Statistic

COMPARISON_FORMAT_VERSION = 1
EXIT_REGRESSION = 1
EXIT_UNDECIDED = 3
FloatArray = NDArray[np.float64]


class Decision(StrEnum):
    """What a comparison shows."""

    REGRESSION = "regression"
    """A significant loss."""
    IMPROVEMENT = "improvement"
    """A significant gain."""
    NOT_WORSE = "not worse"
    """No difference is shown, and a loss as large as the margin is ruled out."""
    UNDECIDED = "not decidable"
    SAME_RUN = "same run"
    """Both sides are one run: nothing was sampled twice, so nothing can differ."""


@dataclass(frozen=True)
class ComparedPair:
    """One run against another."""

    baseline: str
    candidate: str
    decision: Decision
    difference: Statistic
    p_value: float
    p_adjusted: float
    """Together with the other comparisons of this call; equal to `p_value` where there is only one."""
    test: str
    n_differing: int
    """Units (scenarios or families) whose means differ; only their signs can be flipped."""
    minimum_detectable: float
    """True difference that this design calls with the power of the settings; NaN where no spread shows it, or
    where so few units can never be significant."""
    scenarios: tuple[ScenarioChange, ...]
    families: FamilyDifference | None


@dataclass(frozen=True)
class Comparison:
    """What `compare_runs` found."""

    paired: PairedRuns
    settings: Settings
    means: tuple[float, ...]
    """Mean of each run over the common scenarios."""
    pairs: tuple[ComparedPair, ...]
    groups: tuple[tuple[str, ...], ...] | None
    """Runs that cannot be told apart, best group first; only where all pairs were asked for."""
    winners: FamilyWinners | None

    @property
    def design(self) -> str:
        """How many scenarios and repeats this rests on."""
        repeats = sorted({run.n_repeats for run in self.paired.runs})
        n_scenarios = len(self.paired.scenario_ids)
        return f"{_counts([n_scenarios], 'scenario')} x {_counts(repeats, 'repeat')}"

    @property
    def undecided(self) -> bool:
        """Whether the question of the call has no answer yet."""
        decisions = {pair.decision for pair in self.pairs}
        if self.groups is None:
            return Decision.UNDECIDED in decisions
        apart = {Decision.REGRESSION, Decision.IMPROVEMENT}
        return decisions.isdisjoint(apart) and Decision.UNDECIDED in decisions

    def exit_code(self, *, undecided_ok: bool = False) -> int:
        """0 equal or better, 1 a significant regression against the baseline, 3 not decidable.

        With all pairs there is no baseline to fall behind: 3 where no pair at all can be told apart.
        """
        if self.groups is None and any(pair.decision is Decision.REGRESSION for pair in self.pairs):
            return EXIT_REGRESSION
        return EXIT_UNDECIDED if self.undecided and not undecided_ok else 0

    def to_dict(self) -> dict[str, Any]:
        """The result as a JSON value."""
        paired = self.paired
        return {
            "format_version": COMPARISON_FORMAT_VERSION,
            "baseline": paired.labels[0] if self.groups is None else None,
            "runs": [
                {
                    "label": run.label,
                    "path": str(run.path),
                    "run_id": run.scorecard.run_id,
                    "agent": json_value(run.scorecard.agent),
                    "signature": run.scorecard.signature,
                    "mean": mean,
                    "cost": json_value(run.scorecard.cost),
                    "n_repeats": run.n_repeats,
                }
                for run, mean in zip(paired.runs, self.means, strict=True)
            ],
            "allowed": json_value(paired.allowed),
            "versions": json_value(paired.versions),
            "n_scenarios": len(paired.scenario_ids),
            "without_trials": [run.label for run in paired.runs if not run.lists_trials],
            "missing": {run.label: missing_from(paired, run) for run in paired.runs},
            "design": self.design,
            "settings": json_value(self.settings),
            "comparisons": json_value(self.pairs),
            "groups": json_value(self.groups),
            "leave_one_family_out": json_value(self.winners),
            "not_decidable": f"not decidable with {self.design}" if self.undecided else None,
        }


def missing_from(paired: PairedRuns, run: ScoredRun) -> list[str]:
    """Scenarios that another run has and this one has not."""
    return sorted(set(paired.all_scenario_ids) - set(run.scenario_ids))


def compare_runs(
    paths: Sequence[Path],
    *,
    allow: Collection[str] = (),
    all_pairs: bool = False,
    settings: Settings | None = None,
) -> Comparison:
    """Compare runs on the scenarios that they share.

    Parameters
    ----------
    paths : sequence of Path
        Run folders or scorecards; at least two. The first is the baseline.
    allow : collection of str
        Fields of the signature that may differ.
    all_pairs : bool
        Compare every pair instead of each run with the first.
    settings : Settings, optional
        Margin, level, power, seed.

    Raises
    ------
    UsageError
        Fewer than two runs, or signatures that differ in a field that is not allowed.
    IncompleteRunError
        A run has trials without a score; the message says what the difference can still become.
    """
    if len(paths) < 2:
        raise UsageError("Give at least two runs: the first is the baseline. (--ab-test takes one.)")
    chosen = settings or Settings()
    paired = pair_runs(load_runs(paths), allow=allow)
    scores = paired.scores()
    n_runs = len(paired.runs)
    if all_pairs:
        # As `scoring.all_pairs` orders them: the first of a pair minus the second.
        places = [(second, first) for first in range(n_runs) for second in range(first + 1, n_runs)]
    else:
        places = [(0, candidate) for candidate in range(1, n_runs)]
    differences = [_difference(paired, scores, before, after, chosen) for before, after in places]
    groups = None
    if all_pairs:
        adjusted, groups = _over_all_pairs(paired, scores, chosen)
        note = (
            f"max-T over {len(places)} pairs, {chosen.n_resamples} random sign patterns, seed {chosen.seed}"
        )
    else:
        adjusted = scoring.holm([difference.p_value for difference in differences]).tolist()
        note = f"Holm over {len(places)} comparisons"
    pairs = []
    for (before, after), difference, p_adjusted in zip(places, differences, adjusted, strict=True):
        baseline, candidate = paired.runs[before], paired.runs[after]
        test = _test_line(difference.test, chosen) + (f"; adjusted by {note}" if len(places) > 1 else "")
        pairs.append(
            ComparedPair(
                baseline=baseline.label,
                candidate=candidate.label,
                decision=_decision(baseline, candidate, difference, p_adjusted, chosen),
                difference=_statistic(difference.interval),
                p_value=difference.p_value,
                p_adjusted=p_adjusted,
                test=test,
                n_differing=difference.test.n_nonzero,
                minimum_detectable=difference.minimum_detectable
                if difference.interval.n_units >= fewest_units(chosen.level)
                else math.nan,
                # Thirty runs have 435 pairs: scenarios and families are looked at in a comparison of two.
                scenarios=() if all_pairs else scenario_changes(baseline, candidate, paired.all_scenario_ids),
                families=None
                if all_pairs
                else family_difference(scores[after] - scores[before], paired.families, chosen),
            )
        )
    return Comparison(
        paired=paired,
        settings=chosen,
        means=tuple(scoring.suite_mean(row, paired.split_of).mean for row in scores),
        pairs=tuple(pairs),
        groups=groups,
        winners=family_winners(scores, paired.families, paired.labels),
    )


def _difference(
    paired: PairedRuns, scores: FloatArray, before: int, after: int, settings: Settings
) -> scoring.PairedDifference:
    return scoring.paired_difference(
        scores[before],
        scores[after],
        split_of=paired.split_of,
        family_of=paired.family_of,
        level=settings.level,
        power=settings.power,
        rng=settings.rng(),
        n_resamples=settings.n_resamples,
    )


def _over_all_pairs(
    paired: PairedRuns, scores: FloatArray, settings: Settings
) -> tuple[list[float], tuple[tuple[str, ...], ...]]:
    found = scoring.all_pairs(
        scores,
        settings.rng(),
        split_of=paired.split_of,
        family_of=paired.family_of,
        level=settings.level,
        n_resamples=settings.n_resamples,
    )
    groups = tuple(tuple(paired.labels[one] for one in group) for group in found.groups)
    return found.p_values.tolist(), groups


def _decision(
    baseline: ScoredRun,
    candidate: ScoredRun,
    difference: scoring.PairedDifference,
    p_value: float,
    settings: Settings,
) -> Decision:
    if _is_same_run(baseline.scorecard, candidate.scorecard):
        return Decision.SAME_RUN
    return Decision(scoring.decide(difference, settings.margin, p_value).value)


def _is_same_run(first: Scorecard, second: Scorecard) -> bool:
    return (first.run_id, first.agent, first.scenarios) == (second.run_id, second.agent, second.scenarios)


def _test_line(test: scoring.FlipTest, settings: Settings) -> str:
    if test.is_exact:
        return f"sign-flip, two-sided, exact over the signs of the {test.n_nonzero} that differ"
    return f"sign-flip, two-sided, {test.n_resamples} random sign patterns, seed {settings.seed}"


def _statistic(interval: scoring.Interval) -> Statistic:
    return Statistic(
        value=interval.estimate,
        interval=(interval.low, interval.high),
        level=interval.level,
        estimand=interval.estimand,
        unit=interval.unit,
        n=interval.n_units,
        method=interval.method,
    )


def _counts(numbers: Sequence[int], noun: str) -> str:
    text = " and ".join(map(str, numbers))
    return f"{text} {noun}" if numbers == [1] else f"{text} {noun}s"
