"""Scores of incident diagnoses: NumPy and the standard library, no files, clock, environment or logging."""

from __future__ import annotations

from scoring.aggregate import SuiteMean, repeat_spread, scenario_means, suite_bounds, suite_mean
from scoring.compare import (
    AllPairs,
    Decision,
    FalseAlarms,
    PairedDifference,
    ab_test,
    all_pairs,
    decide,
    groups_not_separable,
    holm,
    paired_difference,
)
from scoring.errors import ScoringError
from scoring.families import (
    LeaveOneOut,
    Prediction,
    group_intervals,
    interaction_p_value,
    leave_one_group_out,
    prediction_interval,
)
from scoring.flips import FlipTest, max_t_p_values, sign_flip_test
from scoring.intervals import Interval, Method, mean_interval, mean_intervals
from scoring.lift import Lift, lift_over_blind
from scoring.passk import PassK, flip_share, has_flipped, pass_at_k, pass_hat_k, pass_k
from scoring.plan import (
    Components,
    EstimatedComponents,
    PlanRow,
    best_plan,
    components_of_one_run,
    estimate_components,
    minimum_detectable,
    plan_row,
    scenarios_needed,
)
from scoring.precision import (
    HeadlineScores,
    TrialScores,
    exact,
    f1,
    full_recall,
    headline_scores,
    precision,
    precision_at_full_recall,
    ranked_precision_at_full_recall,
    recall,
    score_trials,
)
from scoring.profiles import NamedBatch, NameTable, ProfileScores, score_profiles
from scoring.resampling import bootstrap_means
from scoring.trials import MatchCounts, TrialBatch, count_matches
from scoring.variance import RepeatVariance, repeat_variance

SCORING_VERSION = 2
"""Bumped whenever a number can change."""

__all__ = [
    "SCORING_VERSION",
    "AllPairs",
    "Components",
    "Decision",
    "EstimatedComponents",
    "FalseAlarms",
    "FlipTest",
    "HeadlineScores",
    "Interval",
    "LeaveOneOut",
    "Lift",
    "MatchCounts",
    "Method",
    "NameTable",
    "NamedBatch",
    "PairedDifference",
    "PassK",
    "PlanRow",
    "Prediction",
    "ProfileScores",
    "RepeatVariance",
    "ScoringError",
    "SuiteMean",
    "TrialBatch",
    "TrialScores",
    "ab_test",
    "all_pairs",
    "best_plan",
    "bootstrap_means",
    "components_of_one_run",
    "count_matches",
    "decide",
    "estimate_components",
    "exact",
    "f1",
    "flip_share",
    "full_recall",
    "group_intervals",
    "groups_not_separable",
    "has_flipped",
    "headline_scores",
    "holm",
    "interaction_p_value",
    "leave_one_group_out",
    "lift_over_blind",
    "max_t_p_values",
    "mean_interval",
    "mean_intervals",
    "minimum_detectable",
    "paired_difference",
    "pass_at_k",
    "pass_hat_k",
    "pass_k",
    "plan_row",
    "precision",
    "precision_at_full_recall",
    "prediction_interval",
    "ranked_precision_at_full_recall",
    "recall",
    "repeat_spread",
    "repeat_variance",
    "scenario_means",
    "scenarios_needed",
    "score_profiles",
    "score_trials",
    "sign_flip_test",
    "suite_bounds",
    "suite_mean",
]
