"""The table of a bulk scoring, for a terminal: one line per agent, best first. Computes nothing."""

from __future__ import annotations

import textwrap
from typing import Any

from diagnose_bench.bulk import AgentResult, BulkResult
from diagnose_bench.text import visible

_WIDEST_NAME = 40
_WIDTH = 110
_COLUMNS = ("Score", "Interval", "Full recall", "Exact", "Ranked", "Strict", "Lift")


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
    methods = dict.fromkeys(_chosen(agent)["method"] for agent in ranked)
    about = [line for method in methods for line in textwrap.wrap(f"Score: {method}.", _WIDTH)]
    text = [f"{label}: {over}", "", *text, "", *about, "", head["signature"]]
    return "\n".join(text) + "\n"


def _chosen(agent: AgentResult) -> dict[str, Any]:
    found: dict[str, Any] = agent.head["subset"] or agent.head["headline"]
    return found


def _number(agent: AgentResult) -> float | None:
    found: float | None = _chosen(agent)["average_precision_at_full_recall"]
    return found


def _cells(agent: AgentResult) -> list[str]:
    head, metrics = agent.head, agent.head["metrics"]
    name = visible(agent.name, keep_lines=False)
    lift = head["baselines"]["lift"]
    return [
        name if len(name) <= _WIDEST_NAME else name[: _WIDEST_NAME - 1] + "…",
        _percent(_number(agent)),
        _ends(_chosen(agent)["interval"] or _chosen(agent)["bounds"]),
        _percent(metrics["full_recall_rate"]),
        _percent(metrics["exact_rate"]),
        _percent(metrics["ranked_precision_at_full_recall"]),
        _percent(head["profiles"]["strict"]),
        "n/a" if lift is None else f"{100 * lift:+.1f}",
        f"{head['outcomes']['diagnosed']}/{sum(head['outcomes'].values())}",
    ]


def _ends(ends: tuple[float, float] | None) -> str:
    return "n/a" if ends is None else f"{100 * ends[0]:.1f}-{100 * ends[1]:.1f}"


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.1f} %"
