"""``baseline:loudest`` names the entity with the most errors in traces, logs and events together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from diagnose_bench.agents.baselines.baseline import Named
from diagnose_bench.agents.baselines.evidence import Evidence
from diagnose_bench.entity import Entity


def name_loudest(evidence: Evidence) -> Sequence[Named]:
    """The one entity with the most error spans, error lines and warning events; of several the first."""
    n_errors: Counter[Entity] = Counter()
    for count in evidence.errors:
        n_errors[count.entity] += count.n_errors
    if not n_errors:
        return ()
    loudest = min(n_errors, key=lambda entity: (-n_errors[entity], entity))
    return [Named(loudest, f"{n_errors[loudest]} error spans, error lines and warning events")]
