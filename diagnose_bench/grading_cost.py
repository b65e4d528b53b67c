"""What an answer costs: turns, commands, tokens, money and seconds of graded trials, summed. Scores nothing.

Missing is not zero: a trial that does not say what it took is left out of that measure, which says how many
it rests on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from diagnose_bench.scorecard import ScenarioScore, TrialScore
from diagnose_bench.scorecard_cost import COST_MEASURES, CostMeasure, CostNumber

_OBSERVED = frozenset({"n_turns", "n_commands", "seconds"})
"""Counted by the harness where it ran the trial; the others are told by whoever called the model."""


def cost_of(scenarios: Sequence[ScenarioScore], pass_score: float, n_scored: int) -> dict[str, CostMeasure]:
    """Sum up what the scored trials of an agent took.

    Parameters
    ----------
    scenarios : sequence of ScenarioScore
        With their trials.
    pass_score : float
        The suite's bar.
    n_scored : int
        How many trials have a score; a large file of rows lists none.
    """
    trials = [
        trial
        for scenario in scenarios
        for trial in scenario.trials
        if trial.precision_at_full_recall is not None
    ]
    return {
        name: _measure(name, words, trials, pass_score, n_scored) for name, words in COST_MEASURES.items()
    }


def _measure(
    name: str, words: str, trials: Sequence[TrialScore], pass_score: float, n_scored: int
) -> CostMeasure:
    values: list[float] = []
    n_passes = n_correct = n_by_agent = 0
    for trial in trials:
        value = _value(trial, name)
        if value is None:
            continue
        values.append(value)
        n_by_agent += name not in _OBSERVED and trial.usage_by_agent
        n_passes += (trial.precision_at_full_recall or 0.0) >= pass_score
        n_correct += trial.recall == 1.0
    total = math.fsum(values) if values else None
    of_all = f"{words} of those trials, divided by those that"
    return CostMeasure(
        total=total,
        n_trials=len(values),
        n_scored=n_scored,
        n_by_agent=n_by_agent,
        per_trial=_number(total, len(values), f"mean {words} of a scored trial"),
        per_pass=_number(total, n_passes, f"{of_all} reached the score of a pass, {pass_score:g}"),
        per_correct_diagnosis=_number(total, n_correct, f"{of_all} named every root cause"),
    )


def _value(trial: TrialScore, name: str) -> float | None:
    if name in _OBSERVED and not trial.observed:
        return None
    value: float | None = getattr(trial, name)
    return value


def _number(total: float | None, n: int, estimand: str) -> CostNumber:
    return CostNumber(value=total / n if total is not None and n else None, estimand=estimand, n=n)
