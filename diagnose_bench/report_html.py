"""The report as one self-contained HTML file: no script, no request, every string escaped and visible."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from diagnose_bench.outcome import Outcome, Verdict
from diagnose_bench.records import BoundaryEvent, PlannedTrial
from diagnose_bench.report import (
    LIMITS,
    VERDICT_MARKS,
    VERDICT_MEANINGS,
    VERDICT_WORDS,
    Report,
    ReportAgent,
    ReportRow,
    interval_text,
    methods,
    number_or_bounds,
    percent,
    points,
    scenario_of,
    signatures,
)
from diagnose_bench.report_boundary import event_counts, events_by_weight
from diagnose_bench.report_commands import Budget, commands_of, cut
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
from diagnose_bench.report_transcript import Timelines
from diagnose_bench.report_words import CLASS_MEANINGS, RULE_MEANINGS
from diagnose_bench.scorecard import EntityScore, ScenarioScore, Scorecard, TrialScore
from diagnose_bench.scorecard_statistics import Ends, GroupTable, Statistic
from diagnose_bench.text import count_text, visible

MAX_ENTITIES = 50
MAX_EVENTS = 50
MAX_EVIDENCE = 5
_MAX_NAME = 300
_SLUGS: dict[Verdict | None, str] = {
    Verdict.SAFE_PASS: "safe",
    Verdict.UNSAFE_PASS: "unsafe",
    Verdict.FAIL: "fail",
    Verdict.RUNTIME_ERROR: "error",
    None: "none",
}


def report_html(report: Report) -> str:
    """Render the report as a single HTML document.

    Notes
    -----
    Commands are cut per trial and over the whole file; what is left out is counted, and stays in the run's
    folder.
    """
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["lines"] = _lines
    budget = Budget()
    timelines = Timelines()
    return environment.get_template("report.html.j2").render(
        suite=report.agents[0].scorecard.suite,
        cards=[_card(agent) for agent in report.agents],
        rows=[_row(row) for row in report.rows],
        notices=report.notices,
        costs=costs_of(report.agents),
        heat=_heat_map(report),
        methods=methods(report),
        sure=[_sure(agent) for agent in report.agents if agent.scorecard.variance is not None],
        agents=[_agent(agent, index, budget, timelines) for index, agent in enumerate(report.agents)],
        verdicts=[
            {
                "slug": _SLUGS[verdict],
                "mark": VERDICT_MARKS[verdict],
                "word": VERDICT_WORDS[verdict],
                "text": text,
            }
            for verdict, text in VERDICT_MEANINGS.items()
        ],
        classes=CLASS_MEANINGS,
        rules=RULE_MEANINGS,
        limits=LIMITS,
        signatures=signatures(report),
        warnings=_warnings(report),
        version=report.agents[0].scorecard.version,
    )


def _finalize(value: Any) -> Any:
    return (
        visible(value, keep_lines=False)
        if isinstance(value, str) and not isinstance(value, Markup)
        else value
    )


def _lines(text: str) -> Markup:
    """Text of several lines for a ``<pre>``."""
    return Markup(escape(visible(text)))


def _card(agent: ReportAgent) -> dict[str, Any]:
    scorecard = agent.scorecard
    number, blind, interval = scorecard.number, scorecard.baselines.blind, scorecard.interval
    lift = scorecard.baselines.lift_over_blind
    return {
        "label": agent.label,
        "model": scorecard.agent.model,
        "number": number_or_bounds(number, scorecard.bounds),
        "interval": None if interval is None else interval_text(interval),
        "span": _span(interval),
        "bar": None if number is None else f"{100 * number:.2f}%",
        "blind_at": None if blind is None else f"{100 * blind:.2f}%",
        "blind": percent(blind),
        "lift": points(scorecard.baselines.lift),
        "has_lift": scorecard.baselines.lift is not None,
        "lift_interval": None if lift is None else interval_text(lift.difference.interval, signed=True),
        "what": "Average precision at full recall" + ("" if scorecard.subset is None else ", subset"),
        "over": _averaged_over(scorecard),
        "splits": [
            f"{name} {percent(split.score)} ({interval_text(split.interval)}) over {split.n_scenarios}"
            for name, split in (scorecard.splits or {}).items()
        ],
        "complete": scorecard.complete,
        "verdicts": [
            {
                "slug": _SLUGS[verdict],
                "mark": VERDICT_MARKS[verdict],
                "word": VERDICT_WORDS[verdict],
                "count": scorecard.verdicts[verdict.value],
            }
            for verdict in Verdict
        ],
        "outcomes": count_text(scorecard.outcomes),
        "unsafe": count_text(scorecard.unsafe_reasons),
        "events": event_counts(scorecard),
        "profile": scorecard.profile.value,
    }


def _span(ends: Ends | None) -> dict[str, str] | None:
    """Place of an interval on a bar from 0 to 1."""
    if ends is None:
        return None
    return {"left": f"{100 * ends[0]:.2f}%", "width": f"{100 * (ends[1] - ends[0]):.2f}%"}


def _sure(agent: ReportAgent) -> dict[str, Any]:
    scorecard = agent.scorecard
    return {
        "label": agent.label,
        "words": "" if scorecard.variance is None else spread_words(scorecard.variance),
        "figures": figures(scorecard),
        "passes": [
            {
                "meaning": found.meaning,
                "k": one.k,
                "any": _with_interval(one.any_passes),
                "all": _with_interval(one.all_pass),
            }
            for found in passes(scorecard)
            for one in found.tries
        ],
        "tables": [_group_table(table) for table in scorecard.groups],
    }


def _with_interval(statistic: Statistic) -> str:
    return f"{percent(statistic.value)} ({interval_text(statistic.interval)})"


def _group_table(table: GroupTable) -> dict[str, Any]:
    return {
        "title": table_title(table),
        "prediction": prediction_text(table),
        "groups": [
            {
                "name": group_name(group.name),
                "n": group.n_scenarios,
                "score": percent(group.score.value),
                "interval": interval_text(group.score.interval),
                "bar": f"{100 * (group.score.value or 0.0):.2f}%",
                "span": _span(group.score.interval),
            }
            for group in table.groups
        ],
    }


def _averaged_over(scorecard: Scorecard) -> str:
    headline = scorecard.headline
    scenarios = "scenario" if headline.n_scenarios == 1 else "scenarios"
    repeats = "trial" if headline.n_repeats == 1 else "trials"
    what = "mean" if scorecard.splits is None else f"mean of {len(scorecard.splits)} split means"
    return f"{what} over {headline.n_scenarios} {scenarios}, each over {headline.n_repeats} planned {repeats}"


def _row(row: ReportRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "kind": row.kind,
        "number": number_or_bounds(row.number, row.bounds),
        "interval": "" if row.interval is None else interval_text(row.interval),
        "over": row.averaged_over,
        "cells": [
            percent(value)
            for value in (row.full_recall_rate, row.exact_rate, row.ranked, row.strict, row.blind)
        ],
        "lift": points(row.lift),
        "lift_interval": "" if row.lift_interval is None else interval_text(row.lift_interval, signed=True),
    }


def _heat_map(report: Report) -> dict[str, Any]:
    columns = [row for row in report.rows if row.kind != "blind"]
    by_label = {agent.label: (index, agent) for index, agent in enumerate(report.agents)}
    lines = []
    for scenario_id in report.scenario_ids:
        cells = []
        for row in columns:
            index, agent = by_label.get(row.name, (None, None))
            scenario = scenario_of(agent.scorecard, scenario_id) if agent else None
            score = row.scenarios.get(scenario_id)
            cells.append(
                {
                    "score": percent(score),
                    "heat": _heat(score),
                    "href": None if scenario is None else f"#a{index}-{scenario_id}",
                    "marks": [_mark(trial) for trial in scenario.trials[:30]] if scenario else [],
                }
            )
        lines.append({"scenario_id": scenario_id, "cells": cells})
    return {"columns": [{"name": row.name, "kind": row.kind} for row in columns], "lines": lines}


def _heat(score: float | None) -> str:
    """Which of the six tones a score has; exactly 0 and exactly 1 have their own."""
    if score is None:
        return "none"
    if score in (0.0, 1.0):
        return "0" if score == 0.0 else "5"
    return str(1 + min(int(score * 4), 3))


def _mark(trial: TrialScore) -> dict[str, str]:
    return {
        "slug": _SLUGS[trial.verdict],
        "mark": VERDICT_MARKS[trial.verdict],
        "title": f"repeat {trial.repeat}: {VERDICT_WORDS[trial.verdict]}",
    }


def _agent(agent: ReportAgent, index: int, budget: Budget, timelines: Timelines) -> dict[str, Any]:
    return {
        "label": agent.label,
        "scenarios": [
            {
                "anchor": f"a{index}-{scenario.scenario_id}",
                "scenario_id": scenario.scenario_id,
                "score": number_or_bounds(scenario.score, scenario.bounds),
                "spread": percent(scenario.repeat_sd),
                "n_root_causes": scenario.n_root_causes,
                "split": scenario.split,
                "refused": scenario.truth_refused,
                "trials": [
                    {
                        **_trial(agent, scenario, trial, budget),
                        "timeline": timelines.of(agent, scenario, trial),
                    }
                    for trial in scenario.trials
                ],
            }
            for scenario in agent.scorecard.scenarios
        ],
    }


def _trial(agent: ReportAgent, scenario: ScenarioScore, trial: TrialScore, budget: Budget) -> dict[str, Any]:
    planned = PlannedTrial(scenario_id=scenario.scenario_id, repeat=trial.repeat)
    return {
        **_mark(trial),
        "word": VERDICT_WORDS[trial.verdict],
        "repeat": trial.repeat,
        "unsafe": ", ".join(trial.unsafe_reasons),
        "score": percent(trial.precision_at_full_recall),
        "ranked": percent(trial.ranked_precision_at_full_recall),
        "strict": percent(trial.strict),
        "sum": _sum(scenario, trial),
        "outcome": trial.outcome.value,
        "reason": trial.reason,
        "limit_hit": trial.limit_hit,
        "repairs": trial.repairs,
        "entities": [_entity(entity) for entity in trial.entities[:MAX_ENTITIES]],
        "n_entities_left": max(len(trial.entities) - MAX_ENTITIES, 0),
        "missed": trial.missed,
        "events": [_event(event) for event in events_by_weight(trial.boundary_events)[:MAX_EVENTS]],
        "n_events_left": max(len(trial.boundary_events) - MAX_EVENTS, 0),
        "named": _named(trial),
        "n_turns": trial.n_turns,
        "seconds": f"{trial.seconds:.0f}",
        "has_diagnosis": trial.outcome is Outcome.DIAGNOSED,
        **commands_of(agent, planned, trial, budget),
    }


def _named(trial: TrialScore) -> str:
    """What a closed trial shows of its answer: how many of which class."""
    counts = Counter(entity.class_ for entity in trial.entities)
    parts = [f"{count} {class_.replace('_', ' ')}" for class_, count in counts.items()]
    if trial.missed:
        parts.append(f"{len(trial.missed)} missed")
    if not parts and trial.outcome is Outcome.DIAGNOSED:
        return "named nothing"
    return ", ".join(parts) or trial.outcome.value.replace("_", " ")


def _sum(scenario: ScenarioScore, trial: TrialScore) -> str:
    if trial.n_correct is None or trial.n_wrong is None or scenario.n_root_causes is None:
        return "unscored"
    if trial.outcome is not Outcome.DIAGNOSED:
        return "no readable diagnosis: 0"
    n_submitted = trial.n_correct + trial.n_wrong
    if scenario.n_root_causes == 0:
        return (
            "nothing is wrong here and nothing was named: 1"
            if n_submitted == 0
            else "nothing is wrong here: 0"
        )
    named = f"{trial.n_correct} of {scenario.n_root_causes} root causes named"
    if trial.n_correct < scenario.n_root_causes:
        return f"{named}: 0"
    return f"{named}, {trial.n_correct} of {n_submitted} names right: {trial.n_correct}/{n_submitted}"


def _entity(entity: EntityScore) -> dict[str, Any]:
    return {
        "raw": cut(entity.raw, _MAX_NAME)[0],
        "entity": None if entity.entity is None else cut(entity.entity, _MAX_NAME)[0],
        "class_": entity.class_,
        "class_word": entity.class_.replace("_", " "),
        "rule": entity.rule,
        "via_alias": entity.via_alias,
        "group": entity.group,
        "hops": "" if entity.distance is None else str(entity.distance),
        "grounds": grounds_text(entity, MAX_EVIDENCE),
        # The columns say it all of these two.
        "message": "" if entity.class_ in ("root_cause", "victim") else cut(entity.message, _MAX_NAME)[0],
    }


def _event(event: BoundaryEvent) -> dict[str, Any]:
    return {
        "time": event.time,
        "command": "" if event.command is None else str(event.command),
        "layer": event.layer.value,
        "kind": event.kind.value,
        "detail": event.detail,
        "confidence": event.confidence.value,
    }


def _warnings(report: Report) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for agent in report.agents:
        for scenario_id, texts in agent.scorecard.warnings.items():
            found.setdefault(scenario_id, {"scenario_id": scenario_id, "texts": [], "patches": []})
            found[scenario_id]["texts"] += [text for text in texts if text not in found[scenario_id]["texts"]]
        for patch in agent.scorecard.patches:
            entry = found.setdefault(
                patch.scenario_id, {"scenario_id": patch.scenario_id, "texts": [], "patches": []}
            )
            text = f"patched by {patch.who}: {patch.why} ({', '.join(patch.operations)})"
            if text not in entry["patches"]:
                entry["patches"].append(text)
    return [found[scenario_id] for scenario_id in sorted(found)]
