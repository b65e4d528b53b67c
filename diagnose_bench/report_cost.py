"""What an answer costs, in words and figures for every format. Renders nothing and computes no cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from diagnose_bench.report import MISSING, ReportAgent
from diagnose_bench.scorecard import Scorecard
from diagnose_bench.scorecard_cost import COST_MEASURES, CostMeasure, CostNumber
from diagnose_bench.text import count_noun

COST_HEADINGS = {
    "n_turns": "Turns",
    "n_commands": "Commands",
    "input_tokens": "Tokens in",
    "output_tokens": "Tokens out",
    "reasoning_tokens": "Reasoning",
    "cost_usd": "USD",
    "seconds": "Seconds",
}
COST_LEGEND = (
    "Per pass and per correct diagnosis: everything that was spent, failures included, divided by the trials "
    "that reached the bar, and by those that named every root cause. n/a: nobody said, or there is none to "
    "divide by."
)
_BASES = {
    "per_trial": "trial",
    "per_pass": "pass",
    "per_correct_diagnosis": "correct diagnosis",
}


@dataclass(frozen=True)
class CostRow:
    """One line of the table of costs."""

    label: str
    basis: str
    """What everything is divided by: a trial, a pass, a correct diagnosis."""
    n: int
    """How many of those there are."""
    cells: tuple[str, ...]
    """In the order of ``COST_HEADINGS``."""


@dataclass(frozen=True)
class Costs:
    """What the agents of a report cost; no rows where nobody said anything."""

    rows: tuple[CostRow, ...]
    notes: tuple[tuple[str, str], ...]
    """An agent's label, and what limits its figures."""
    headings: tuple[str, ...] = tuple(COST_HEADINGS.values())
    legend: str = COST_LEGEND


def costs_of(agents: Sequence[ReportAgent]) -> Costs:
    """What the trials, passes and correct diagnoses of each agent cost."""
    return Costs(
        rows=tuple(row for agent in agents for row in cost_rows(agent.label, agent.scorecard)),
        notes=tuple((agent.label, note) for agent in agents for note in cost_notes(agent.scorecard)),
    )


def cost_rows(label: str, scorecard: Scorecard) -> tuple[CostRow, ...]:
    """What an agent's trials, passes and correct diagnoses cost; nothing where nobody said anything."""
    cost = scorecard.cost
    if not any(measure.n_trials for measure in cost.values()):
        return ()
    rows = []
    for name, words in _BASES.items():
        numbers = {key: _number(measure, name) for key, measure in cost.items()}
        n = max(number.n for number in numbers.values())
        cells = tuple(cost_text(key, numbers[key].value) if key in cost else MISSING for key in COST_HEADINGS)
        rows.append(CostRow(label, words, n, cells))
    return tuple(rows)


def cost_notes(scorecard: Scorecard) -> tuple[str, ...]:
    """How far the figures reach: measures that only some trials say, and those that the agent said itself."""
    notes = []
    partial = _by_count({key: one.n_trials for key, one in scorecard.cost.items()}, scorecard)
    for n_trials, names in partial.items():
        n_scored = max(one.n_scored for one in scorecard.cost.values())
        notes.append(f"{names} known of {n_trials} of {n_scored} scored trials, and taken over those alone.")
    told = max((one.n_by_agent for one in scorecard.cost.values()), default=0)
    if told:
        notes.append(f"Tokens and money of {count_noun(told, 'trial')} as the agent itself reported them.")
    return tuple(notes)


def cost_text(name: str, value: float | None) -> str:
    """One figure; money keeps three digits however small it is."""
    if value is None:
        return MISSING
    if name == "cost_usd":
        return f"{value:.2f}" if value >= 1 or value == 0 else f"{value:.3g}"
    if name.endswith("_tokens") or value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}"


def per_trial_text(scorecard: Scorecard, name: str) -> str:
    """One measure per trial, and of how many trials it is known where not of all."""
    measure = scorecard.cost.get(name)
    if measure is None:
        return MISSING
    text = cost_text(name, measure.per_trial.value)
    is_partial = 0 < measure.n_trials < measure.n_scored
    return f"{text} ({measure.n_trials} of {measure.n_scored})" if is_partial else text


def _number(measure: CostMeasure, name: str) -> CostNumber:
    number: CostNumber = getattr(measure, name)
    return number


def _by_count(counts: dict[str, int], scorecard: Scorecard) -> dict[int, str]:
    """Measures that some trials say and others do not, by how many."""
    found: dict[int, list[str]] = {}
    for key, n_trials in counts.items():
        if 0 < n_trials < scorecard.cost[key].n_scored:
            found.setdefault(n_trials, []).append(COST_MEASURES[key])
    return {n: _listed(names) for n, names in found.items()}


def _listed(names: Sequence[str]) -> str:
    text = ", ".join(names)
    return text[:1].upper() + text[1:]
