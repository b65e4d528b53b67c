"""The part of a scorecard that says what an answer costs. Computes nothing."""

from __future__ import annotations

from diagnose_bench.scorecard_statistics import StatisticsModel

COST_MEASURES = {
    "n_turns": "turns",
    "n_commands": "commands",
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
    "reasoning_tokens": "reasoning tokens",
    "cost_usd": "US dollars",
    "seconds": "seconds",
}
"""What is summed up, in words."""


class CostNumber(StatisticsModel):
    """A cost, and what it is a cost of; null where the data hold no answer."""

    value: float | None
    estimand: str
    n: int
    """What the total is divided by: trials, passes or correct diagnoses."""


class CostMeasure(StatisticsModel):
    """One kind of cost over the scored trials that say what they took; failures are paid for, too."""

    total: float | None
    n_trials: int
    """Trials that say it: everything here rests on them alone."""
    n_scored: int
    """Trials that have a score."""
    n_by_agent: int
    """Of the trials that say it, those in which a program said so of itself."""
    per_trial: CostNumber
    per_pass: CostNumber
    """A pass reaches the suite's bar, safe or not."""
    per_correct_diagnosis: CostNumber
    """A correct diagnosis names every root cause."""
