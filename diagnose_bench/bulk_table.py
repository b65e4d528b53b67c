"""The table of a bulk scoring, for a terminal: one line per agent, best first. Computes nothing."""

from __future__ import annotations

from typing import Any

from diagnose_bench.bulk import AgentResult, BulkResult
from diagnose_bench.text import visible

_WIDEST_NAME = 40
_COLUMNS = ("Score", "Full recall", "Exact", "Ranked", "Strict", "Lift")


def table_of(result: BulkResult) -> str:
    """The agents with their numbers, and the signature that they share."""
    ranked = sorted(result.agents, key=lambda agent: (-(_number(agent) or 0.0), agent.name))
    lines = [["Agent", *_COLUMNS, "Diagnosed"], *(_cells(agent) for agent in ranked)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    text = [
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip()
        for line in lines
    ]
    if not ranked:
        return "\n".join(text) + "\n"
    head = ranked[0].head
    scored = head["headline"]
    over = f"{scored['n_scenarios']} scenarios x {result.n_repeats} repeats"
    label = "Average precision at full recall" + ("" if head["subset"] is None else ", a subset of the suite")
    text = [f"{label}: {over}", "", *text, "", head["signature"]]
    return "\n".join(text) + "\n"


def _number(agent: AgentResult) -> float | None:
    chosen: dict[str, Any] = agent.head["subset"] or agent.head["headline"]
    found: float | None = chosen["average_precision_at_full_recall"]
    return found


def _cells(agent: AgentResult) -> list[str]:
    head, metrics = agent.head, agent.head["metrics"]
    name = visible(agent.name, keep_lines=False)
    lift = head["baselines"]["lift"]
    return [
        name if len(name) <= _WIDEST_NAME else name[: _WIDEST_NAME - 1] + "…",
        _percent(_number(agent)),
        _percent(metrics["full_recall_rate"]),
        _percent(metrics["exact_rate"]),
        _percent(metrics["ranked_precision_at_full_recall"]),
        _percent(head["profiles"]["strict"]),
        "n/a" if lift is None else f"{100 * lift:+.1f}",
        f"{head['outcomes']['diagnosed']}/{sum(head['outcomes'].values())}",
    ]


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.1f} %"
