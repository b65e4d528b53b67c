"""What a caller of `plan` wants and states. Checked once, at the door."""

from __future__ import annotations

import math
from dataclasses import dataclass

from diagnose_bench.errors import UsageError

_MAX_SCENARIOS = 10_000_000
_MAX_REPEATS = 1_000
_MIN_DIFFERENCE = 1e-4


@dataclass(frozen=True)
class PlanRequest:
    """A wanted comparison of two agents.

    Parameters
    ----------
    difference : float
        True difference that the comparison should call.
    level, power : float
        Called at p <= 1 - level; with this chance.
    between_sd, within_sd : float, optional
        Stated standard deviations of the difference on one scenario: over scenarios, and between trials.
    n_scenarios, n_repeats : int, optional
        What there is; default: what the runs have.
    scenario_cost, trial_cost : float
        Of one more scenario and of one more trial, in one currency.
    """

    difference: float = 0.1
    level: float = 0.95
    power: float = 0.8
    between_sd: float | None = None
    within_sd: float | None = None
    n_scenarios: int | None = None
    n_repeats: int | None = None
    scenario_cost: float = 1.0
    trial_cost: float = 1.0

    def __post_init__(self) -> None:
        _check("--difference", self.difference, _MIN_DIFFERENCE, 1.0)
        _check("--level", self.level, 0.5, 1.0 - 1e-9)
        _check("--power", self.power, 0.5, 1.0 - 1e-9)
        # The difference of two scores in [0, 1] cannot spread more.
        _check("--between-sd", self.between_sd, 0.0, 1.0)
        _check("--within-sd", self.within_sd, 0.0, 1.0)
        _check("--scenarios", self.n_scenarios, 2, _MAX_SCENARIOS)
        _check("--repeats", self.n_repeats, 1, _MAX_REPEATS)
        _check("--scenario-cost", self.scenario_cost, 0.0, 1e12)
        _check("--trial-cost", self.trial_cost, 1e-9, 1e12)


def _check(option: str, value: float | None, low: float, high: float) -> None:
    if value is not None and not (math.isfinite(value) and low <= value <= high):
        raise UsageError(f"{option}: must lie between {low:g} and {high:g}, not {value:g}.")
