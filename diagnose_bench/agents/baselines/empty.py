"""``baseline:empty`` names nothing and runs nothing: what an answer is worth that was never thought about."""

from __future__ import annotations

from collections.abc import Sequence

from diagnose_bench.agents.baselines.baseline import Named
from diagnose_bench.agents.baselines.evidence import Evidence


def name_nothing(evidence: Evidence) -> Sequence[Named]:
    """The empty list."""
    return ()
