"""Agents without a model, to stand beside any agent in a report: heuristics that never see the truth."""

from __future__ import annotations

from diagnose_bench.agents.baselines.alerting import name_alerting
from diagnose_bench.agents.baselines.baseline import Baseline, Heuristic
from diagnose_bench.agents.baselines.empty import name_nothing
from diagnose_bench.agents.baselines.loudest import name_loudest
from diagnose_bench.agents.baselines.recent_change import name_recent_change
from diagnose_bench.agents.baselines.upstream import name_upstream
from diagnose_bench.errors import UsageError

BASELINES: dict[str, Heuristic] = {
    "empty": name_nothing,
    "alerting": name_alerting,
    "loudest": name_loudest,
    "upstream": name_upstream,
    "recent-change": name_recent_change,
}


def make_baseline(name: str) -> Baseline:
    """The baseline agent of a name.

    Raises
    ------
    UsageError
        There is no such baseline.
    """
    if name not in BASELINES:
        raise UsageError(f'there is no baseline "{name}". There are: {", ".join(BASELINES)}.')
    return Baseline(name, BASELINES[name])
