"""A baseline agent: a heuristic over the evidence, wrapped as an agent. Knows no particular heuristic."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import diagnose_bench
from diagnose_bench.agents.base import AgentKind, AgentResult, TrialSession
from diagnose_bench.agents.baselines.evidence import Evidence
from diagnose_bench.entity import Entity
from diagnose_bench.records import AgentInfo

_MAX_ENTITIES = 1_000


@dataclass(frozen=True, slots=True)
class Named:
    """An entity that a heuristic names, and why."""

    entity: Entity
    reasoning: str


Heuristic = Callable[[Evidence], Sequence[Named]]


class Baseline:
    """An agent without a model: it runs its commands, applies its heuristic and submits.

    Parameters
    ----------
    name : str
        What follows ``baseline:``.
    heuristic : callable
        Evidence -> what to name, most confident first.
    """

    kind: AgentKind = "builtin"

    def __init__(self, name: str, heuristic: Heuristic) -> None:
        self.info = AgentInfo(name=f"baseline:{name}", version=diagnose_bench.__version__)
        self._heuristic = heuristic

    def diagnose(self, session: TrialSession) -> AgentResult:
        """Ask, decide, submit."""
        named = {str(it.entity): it.reasoning for it in self._heuristic(Evidence(session))}
        causes = [{"entity": entity, "reasoning": why} for entity, why in named.items()]
        session.submit(json.dumps({"root_causes": causes[:_MAX_ENTITIES]}).encode())
        return AgentResult()
