"""Scores of incident diagnoses: NumPy and the standard library, no files, clock, environment or logging."""

from __future__ import annotations

from scoring.aggregate import SuiteMean, repeat_spread, scenario_means, suite_bounds, suite_mean
from scoring.errors import ScoringError
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
from scoring.trials import MatchCounts, TrialBatch, count_matches

SCORING_VERSION = 1
"""Bumped whenever a number can change."""

__all__ = [
    "SCORING_VERSION",
    "HeadlineScores",
    "MatchCounts",
    "NameTable",
    "NamedBatch",
    "ProfileScores",
    "ScoringError",
    "SuiteMean",
    "TrialBatch",
    "TrialScores",
    "count_matches",
    "exact",
    "f1",
    "full_recall",
    "headline_scores",
    "precision",
    "precision_at_full_recall",
    "ranked_precision_at_full_recall",
    "recall",
    "repeat_spread",
    "scenario_means",
    "score_profiles",
    "score_trials",
    "suite_bounds",
    "suite_mean",
]
