"""The baselines of a scorecard: answers that need no look at the evidence, and runs of our own heuristics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

import scoring
from diagnose_bench.constant_baseline import BlindScenario, BlindScores, blind_scores, names_in_groups
from diagnose_bench.grading_inputs import GradingInputs
from diagnose_bench.grading_numbers import Grid
from diagnose_bench.grading_sample import Sample
from diagnose_bench.grading_statistics import lift_of
from diagnose_bench.outcome import Profile
from diagnose_bench.scorecard import BaselineRun, Baselines, ConstantBaseline, Scorecard


def baselines_of(
    inputs: GradingInputs,
    scenario_ids: Sequence[str],
    split_of: NDArray[np.int64] | None,
    runs: Sequence[BaselineRun],
) -> Baselines:
    """Score the constant and the empty answer on the scenarios of a run; `with_lift` adds the run to them.

    Parameters
    ----------
    inputs : GradingInputs
        Suite, truths and resolvers.
    scenario_ids : sequence of str
        The scenarios that count.
    split_of : ndarray of int, optional
        Their splits.
    runs : sequence of BaselineRun
        Baseline agents that ran beside the agent.

    Notes
    -----
    While a truth is refused there is no number over all scenarios, so none is given.
    """
    blind = _blind_scores(inputs, tuple(scenario_ids))
    constant = _number(scenario_ids, split_of, blind.constant)
    empty = _number(scenario_ids, split_of, blind.empty)
    larger, better = None, {}
    if constant is not None and empty is not None:
        larger, better = max(constant, empty), blind.constant if constant >= empty else blind.empty
    return Baselines(
        constant=ConstantBaseline(score=constant, entities=blind.entities),
        empty=empty,
        blind=larger,
        blind_scenarios=dict(better),
        lift=None,
        lift_over_blind=None,
        agents=tuple(runs),
    )


def with_lift(baselines: Baselines, sample: Sample, grid: Grid) -> Baselines:
    """The same baselines beside a run.

    Parameters
    ----------
    baselines : Baselines
        Of the scenarios of the run.
    sample : Sample
        Those scenarios.
    grid : Grid
        The run's scores under ``itbench-aa``, the profile that the baselines are scored under.
    """
    number, blind = grid.number(), baselines.blind
    lift = None if number is None or blind is None else number - blind
    return baselines.model_copy(
        update={
            "lift": lift,
            "lift_over_blind": None
            if lift is None
            else lift_of(sample, grid, baselines.blind_scenarios, lift),
        }
    )


def baseline_run(scorecard: Scorecard) -> BaselineRun:
    """What the scorecard of a baseline agent's own run contributes to the scorecard beside it."""
    lift = scorecard.baselines.lift_over_blind
    return BaselineRun(
        name=scorecard.agent.name,
        score=scorecard.number,
        interval=scorecard.interval,
        bounds=scorecard.bounds,
        strict=scorecard.profiles[Profile.STRICT.value],
        full_recall_rate=scorecard.metrics["full_recall_rate"],
        exact_rate=scorecard.metrics["exact_rate"],
        n_repeats=scorecard.headline.n_repeats,
        lift_interval=None if lift is None else lift.difference.interval,
        scenarios={scenario.scenario_id: scenario.score for scenario in scorecard.scenarios},
        outcomes=scorecard.outcomes,
        verdicts=scorecard.verdicts,
    )


def _blind_scores(inputs: GradingInputs, scenario_ids: tuple[str, ...]) -> BlindScores:
    if scenario_ids not in inputs.blind:
        scenarios: dict[str, BlindScenario] = {}
        for scenario_id in scenario_ids:
            resolver = inputs.resolver(scenario_id)
            if resolver is not None:
                names = names_in_groups(inputs.truths.truths[scenario_id].truth.groups)
                scenarios[scenario_id] = BlindScenario(resolver, inputs.inventory(scenario_id), names)
        inputs.blind[scenario_ids] = blind_scores(scenarios)
    return inputs.blind[scenario_ids]


def _number(
    scenario_ids: Sequence[str], split_of: NDArray[np.int64] | None, scores: Mapping[str, float]
) -> float | None:
    if len(scores) < len(scenario_ids):
        return None
    return scoring.suite_mean([scores[scenario_id] for scenario_id in scenario_ids], split_of).mean
