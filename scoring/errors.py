"""The one exception of the scoring core."""

from __future__ import annotations


class ScoringError(ValueError):
    """Arrays that are no trials or no scores: a mistake of the caller, never of an agent."""
