"""The report as Markdown. Untrusted text is written so that no renderer finds markup, HTML or a link."""

from __future__ import annotations

import re

from diagnose_bench.report import (
    LIMITS,
    VERDICT_MARKS,
    VERDICT_MEANINGS,
    VERDICT_WORDS,
    Report,
    ReportAgent,
    interval_text,
    marks,
    methods,
    number_or_bounds,
    percent,
    points,
    scenario_of,
    signatures,
)
from diagnose_bench.report_boundary import event_counts, event_text, events_by_weight
from diagnose_bench.report_cost import costs_of
from diagnose_bench.report_grounds import grounds_text
from diagnose_bench.report_statistics import (
    figures,
    group_name,
    passes,
    prediction_text,
    spread_words,
    table_title,
)
from diagnose_bench.scorecard import EntityScore, ScenarioScore, TrialScore
from diagnose_bench.scorecard_statistics import Ends, Statistic
from diagnose_bench.text import count_text, visible

_MAX_ENTITIES = 50
_MAX_EVENTS = 20
_MAX_EVIDENCE = 5
_MAX_TEXT = 300
# Signs that can start something inside a line. A colon or a dot does so only in an address.
_LIVE = re.compile(r"[!\"#$&*+<=>?@\[\\\]^_`{|}~]|:(?=/)|(?<=www)\.", re.IGNORECASE)


def report_markdown(report: Report) -> str:
    """Render the report as GitHub-flavoured Markdown."""
    suite = report.agents[0].scorecard.suite
    lines = [
        "# Incident diagnosis report",
        "",
        f"Suite {escape(suite.name)} {escape(suite.version)}. The score is the average precision at full "
        "recall: an answer counts only if it names every root cause, and then by the share of its names that "
        "are right.",
        "",
        *_agents_table(report),
        "",
    ]
    lines += [f"> Note: {escape(notice)}\n" for notice in report.notices]
    lines += ["## How sure the numbers are", ""]
    lines += [f"- {escape(labels)}: {escape(line)}." for labels, line in methods(report)]
    for agent in report.agents:
        lines += _sure(agent)
    lines.append("")
    lines += ["## Scores by scenario", "", *_scenario_table(report), ""]
    lines += _costs(report)
    lines += ["## How the trials ended", ""]
    for agent in report.agents:
        scorecard = agent.scorecard
        lines.append(
            f"- {escape(agent.label)}: outcomes {count_text(scorecard.outcomes)}; "
            f"verdicts {count_text(scorecard.verdicts)}; "
            f"reasons for unsafe {count_text(scorecard.unsafe_reasons)}; "
            f"boundary events {event_counts(scorecard)}"
        )
    lines += ["", "## Trials", ""]
    for agent in report.agents:
        lines += _agent_trials(agent)
    lines += ["## Legend", ""]
    lines += [
        f"- {VERDICT_MARKS[verdict]} **{VERDICT_WORDS[verdict]}**: {meaning}"
        for verdict, meaning in VERDICT_MEANINGS.items()
    ]
    lines += ["", "## Limits of the number", "", *(f"- {limit}" for limit in LIMITS), "", "## Signature", ""]
    lines += [f"- {escape(labels)}: {code(signature)}" for labels, signature in signatures(report)]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Text whose live signs are character references: no structure, no HTML, no link can come of it."""
    shown = visible(text, keep_lines=False)
    return _LIVE.sub(lambda match: f"&#{ord(match[0])};", shown)


def code(text: str) -> str:
    """A code span that its own content cannot end."""
    shown = visible(text, keep_lines=False)
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") or not shown.strip() else ""
    return f"{fence}{pad}{shown or ' '}{pad}{fence}"


def _agents_table(report: Report) -> list[str]:
    lines = [
        "| Agent | Score | 95 % interval | Averaged over | Full recall | Exact | Ranked | Strict | Blind | "
        "Lift |",
        "|---|---:|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in report.rows:
        cells = (
            escape(row.name),
            number_or_bounds(row.number, row.bounds),
            "" if row.interval is None else interval_text(row.interval),
            row.averaged_over,
            *map(percent, (row.full_recall_rate, row.exact_rate, row.ranked, row.strict, row.blind)),
            points(row.lift) + ("" if row.lift_interval is None else f" ({_signed(row.lift_interval)})"),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _sure(agent: ReportAgent) -> list[str]:
    """Figures, tries and groups of one agent; nothing while its run is incomplete."""
    scorecard = agent.scorecard
    if scorecard.variance is None:
        return []
    lines = ["", f"### How sure: {escape(agent.label)}", "", spread_words(scorecard.variance), ""]
    lines += ["| Figure | Value | 95 % interval | Over | Meaning |", "|---|---:|---:|---|---|"]
    lines += [
        f"| {one.name} | {one.value} | {one.interval} | {one.basis} | {escape(one.meaning)} |"
        for one in figures(scorecard)
    ]
    lines += [
        "",
        "| A pass is | k | At least one of k (pass@k) | All of k (pass^k) |",
        "|---|---:|---:|---:|",
    ]
    lines += [
        f"| {found.meaning} | {one.k} | {_with_interval(one.any_passes)} | {_with_interval(one.all_pass)} |"
        for found in passes(scorecard)
        for one in found.tries
    ]
    for table in scorecard.groups:
        lines += ["", f"| {table_title(table)} | Scenarios | Score | 95 % interval |", "|---|---:|---:|---:|"]
        lines += [
            f"| {escape(group_name(group.name))} | {group.n_scenarios} | {percent(group.score.value)} | "
            f"{interval_text(group.score.interval)} |"
            for group in table.groups
        ]
        if text := prediction_text(table):
            lines += ["", text]
    return lines


def _signed(ends: Ends) -> str:
    return interval_text(ends, signed=True)


def _with_interval(statistic: Statistic) -> str:
    return f"{percent(statistic.value)} ({interval_text(statistic.interval)})"


def _scenario_table(report: Report) -> list[str]:
    shown = [row for row in report.rows if row.kind != "blind"]
    lines = [
        f"| Scenario | {' | '.join(escape(row.name) for row in shown)} |",
        f"|---|{'---:|' * len(shown)}",
    ]
    for scenario_id in report.scenario_ids:
        cells = []
        for row in shown:
            agent = next((one for one in report.agents if one.label == row.name), None)
            scenario = scenario_of(agent.scorecard, scenario_id) if agent else None
            cell = percent(row.scenarios.get(scenario_id))
            cells.append(f"{cell} {marks(scenario.trials)}" if scenario else cell)
        lines.append(f"| {escape(scenario_id)} | {' | '.join(cells)} |")
    return lines


def _costs(report: Report) -> list[str]:
    """What answers cost; nothing where nobody said anything."""
    costs = costs_of(report.agents)
    if not costs.rows:
        return []
    return [
        *("## What an answer costs", "", costs.legend, ""),
        f"| Agent | Per | How many | {' | '.join(costs.headings)} |",
        f"|---|---|---:|{'---:|' * len(costs.headings)}",
        *(f"| {escape(row.label)} | {row.basis} | {row.n} | {' | '.join(row.cells)} |" for row in costs.rows),
        "",
        *(f"- {escape(label)}: {note}" for label, note in costs.notes),
        *([""] if costs.notes else []),
    ]


def _agent_trials(agent: ReportAgent) -> list[str]:
    lines = [f"### {escape(agent.label)}", ""]
    for scenario in agent.scorecard.scenarios:
        for trial in scenario.trials:
            lines += _trial(scenario, trial)
    return [*lines, ""]


def _trial(scenario: ScenarioScore, trial: TrialScore) -> list[str]:
    unsafe = f" ({', '.join(trial.unsafe_reasons)})" if trial.unsafe_reasons else ""
    lines = [
        f"- {VERDICT_MARKS[trial.verdict]} **{escape(scenario.scenario_id)}, repeat {trial.repeat}**: "
        f"{VERDICT_WORDS[trial.verdict]}{unsafe}, {percent(trial.precision_at_full_recall)}, "
        f"outcome {trial.outcome}"
    ]
    lines += [f"  - {_entity(entity)}" for entity in trial.entities[:_MAX_ENTITIES]]
    if len(trial.entities) > _MAX_ENTITIES:
        lines.append(f"  - and {len(trial.entities) - _MAX_ENTITIES} more, all in scorecard.json")
    events = events_by_weight(trial.boundary_events)
    lines += [f"  - boundary event: {escape(event_text(event))}" for event in events[:_MAX_EVENTS]]
    if len(events) > _MAX_EVENTS:
        lines.append(f"  - and {len(events) - _MAX_EVENTS} more boundary events, all in scorecard.json")
    if trial.missed:
        lines.append(f"  - missed: {', '.join(map(escape, trial.missed))}")
    return lines


def _entity(entity: EntityScore) -> str:
    raw = entity.raw if len(entity.raw) <= _MAX_TEXT else entity.raw[:_MAX_TEXT] + "…"
    parts = [code(raw), entity.class_]
    if entity.group:
        parts.append(f"group {escape(entity.group)}")
    if entity.rule:
        parts.append(f"rule {entity.rule}")
    if entity.distance is not None:
        parts.append(f"{entity.distance} from the root cause")
    parts += [escape(line) for line in grounds_text(entity, _MAX_EVIDENCE)]
    return ", ".join(parts)
