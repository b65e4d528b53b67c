"""A summary for a job's page on GitHub: Markdown that never outgrows what is shown there. Renders only."""

from __future__ import annotations

from diagnose_bench.exporters.scored import ScoredRun
from diagnose_bench.outcome import Verdict
from diagnose_bench.report import VERDICT_MARKS, VERDICT_WORDS, interval_text, percent
from diagnose_bench.report_markdown import code, escape
from diagnose_bench.scorecard import ScenarioScore, Scorecard
from diagnose_bench.text import count_text

MAX_BYTES = 64_000
"""Below 64 KiB and below 64 kB, whichever is meant."""
_LONGEST = 500


def github_summary(run: ScoredRun) -> str:
    """The summary: the number, what it was averaged over, and the scenarios, the worst first."""
    scorecard = run.scorecard
    head = _head(run)
    table = ["", "| scenario | score | trials |", "| --- | --- | --- |"]
    foot = ["", f"Signature: {code(_cut(scorecard.signature))}", ""]
    rows = [_row(scenario) for scenario in sorted(scorecard.scenarios, key=_by_score)]
    room = MAX_BYTES - _size([*head, *table, *foot]) - 200
    shown = []
    for row in rows:
        room -= _size([row])
        if room < 0:
            break
        shown.append(row)
    left = len(rows) - len(shown)
    more = ["", f"and {left} more scenarios, all in scorecard.json."] if left else []
    return "\n".join([*head, *table, *shown, *more, *foot])


def _head(run: ScoredRun) -> list[str]:
    scorecard = run.scorecard
    kind = "Average precision at full recall" + ("" if scorecard.subset is None else ", subset")
    lines = [f"## {escape(_cut(scorecard.agent.name))} on {escape(_cut(scorecard.suite.name))}", ""]
    if scorecard.number is None:
        bounds = "" if scorecard.bounds is None else f", between {interval_text(scorecard.bounds)}"
        lines.append(f"**{kind}: not final**{bounds}: some trials are unscored ({run.averaged_over}).")
    else:
        interval = (
            "" if scorecard.interval is None else f", 95 % interval {interval_text(scorecard.interval)}"
        )
        lines.append(f"**{kind}: {percent(scorecard.number)}**{interval} ({run.averaged_over}).")
    if scorecard.baselines.blind is not None:
        lines += ["", f"Blind baseline, which looks at nothing: {percent(scorecard.baselines.blind)}."]
    words = {VERDICT_WORDS[verdict]: scorecard.verdicts.get(verdict.value, 0) for verdict in Verdict}
    lines += [
        "",
        f"Trials: {count_text(words)}. Outcomes: {count_text(scorecard.outcomes)}.",
        "",
        "| measure, same average | value |",
        "| --- | --- |",
    ]
    return lines + [f"| {escape(name)} | {percent(value)} |" for name, value in _measures(scorecard).items()]


def _measures(scorecard: Scorecard) -> dict[str, float | None]:
    return {name.replace("_", " "): value for name, value in sorted(scorecard.metrics.items())} | {
        f"profile {name}": value for name, value in sorted(scorecard.profiles.items())
    }


def _row(scenario: ScenarioScore) -> str:
    marks = " ".join(VERDICT_MARKS[trial.verdict] for trial in scenario.trials[:30])
    more = len(scenario.trials) - 30
    shown = f"{marks} and {more} more" if more > 0 else marks
    return f"| {code(_cut(scenario.scenario_id))} | {percent(scenario.score)} | {shown} |"


def _by_score(scenario: ScenarioScore) -> tuple[float, str]:
    return (-1.0 if scenario.score is None else scenario.score, scenario.scenario_id)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _size(lines: list[str]) -> int:
    return sum(len(line.encode()) + 1 for line in lines)
