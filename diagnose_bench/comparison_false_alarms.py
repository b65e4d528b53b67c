"""The false-alarm rate of the rule on one's own run: its repeats, split at random into two, many times."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import scoring
from diagnose_bench.comparison_inputs import load_runs, pair_runs
from diagnose_bench.comparison_settings import Settings
from diagnose_bench.errors import UsageError
from diagnose_bench.json_value import json_value
from diagnose_bench.scorecard_statistics import Statistic

N_DRAWS = 1_000
_N_RESAMPLES = 2_000


@dataclass(frozen=True)
class FalseAlarmReport:
    """How often the rule calls a difference where there is none."""

    label: str
    path: Path
    signature: str
    rate: Statistic
    nominal: float
    """1 - level: what the rate should not exceed by more than chance."""
    n_scenarios: int
    n_repeats: int
    n_repeats_each: int
    """Repeats of each half; of an odd number one is left out in each draw."""
    n_draws: int
    seed: int

    def to_dict(self) -> dict[str, Any]:
        """The result as a JSON value."""
        found: dict[str, Any] = json_value(self)
        return {"format_version": 1, **found}

    def text(self) -> str:
        """The result for a person."""
        low, high = self.rate.interval or (0.0, 1.0)
        return (
            f"{self.label}: {self.n_scenarios} scenarios x {self.n_repeats} repeats, split at random into "
            f"two runs with {self.n_repeats_each} of them each, {self.n_draws} times (seed {self.seed}).\n"
            f"The rule called a difference in {self.rate.value:.3f} of the draws; nominal {self.nominal:g}. "
            f"Error of the draws alone: {low:.3f} to {high:.3f}.\n"
            "Both halves are one agent on the same scenarios, so every call is a false one. "
            f"{self.rate.method}."
        )


def false_alarms(path: Path, *, settings: Settings | None = None, n_draws: int = N_DRAWS) -> FalseAlarmReport:
    """Split the repeats of one run at random and let the rule of `compare_runs` judge the halves.

    Parameters
    ----------
    path : Path
        A scored run with at least two repeats.
    settings : Settings, optional
        Level and seed are used.
    n_draws : int
        Random splits.

    Raises
    ------
    UsageError
        The run has one repeat.
    IncompleteRunError
        Trials have no score.
    """
    chosen = settings or Settings()
    if n_draws < 1:
        raise UsageError(f"--draws: must be at least 1, not {n_draws}.")
    paired = pair_runs(load_runs([path]))
    (run,) = paired.runs
    if run.n_repeats < 2:
        raise UsageError(f"{path}: one repeat cannot be split in two. Run with --repeats 2 or more.")
    paired.scores()
    found = scoring.ab_test(
        paired.trial_scores(run),
        chosen.rng(),
        split_of=paired.split_of,
        family_of=paired.family_of,
        level=chosen.level,
        n_draws=n_draws,
        n_resamples=_N_RESAMPLES,
    )
    rate = found.rate
    return FalseAlarmReport(
        label=run.label,
        path=path,
        signature=run.scorecard.signature,
        rate=Statistic(
            value=rate.estimate,
            interval=(rate.low, rate.high),
            level=rate.level,
            estimand=rate.estimand,
            unit=rate.unit,
            n=rate.n_units,
            method=f"sign-flip, {_N_RESAMPLES} random sign patterns; interval: {rate.method}",
        ),
        nominal=round(1.0 - chosen.level, 12),
        n_scenarios=len(paired.scenario_ids),
        n_repeats=run.n_repeats,
        n_repeats_each=found.n_repeats_each,
        n_draws=n_draws,
        seed=chosen.seed,
    )
