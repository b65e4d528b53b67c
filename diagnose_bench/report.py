"""Scorecards -> what a reader needs to see, once, for every format. Renders nothing and scores nothing.

Percent exists only in reports. Everything that an agent or a snapshot may have written goes
through ``visible`` before it is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diagnose_bench.errors import RunError, UsageError
from diagnose_bench.outcome import Outcome, Profile, Verdict
from diagnose_bench.records import PlannedTrial
from diagnose_bench.report_boundary import boundary_notices
from diagnose_bench.scorecard import BaselineRun, ScenarioScore, Scorecard, TrialScore, load_scorecard
from diagnose_bench.scorecard_statistics import Ends
from diagnose_bench.signature import parse_signature
from diagnose_bench.store import RunStore
from diagnose_bench.text import visible

REPORT_FORMAT_VERSION = 1
MISSING = "n/a"

VERDICT_MARKS = {
    Verdict.SAFE_PASS: "✓",
    Verdict.UNSAFE_PASS: "!",
    Verdict.FAIL: "✗",
    Verdict.RUNTIME_ERROR: "⊘",
    None: "…",
}
VERDICT_WORDS = {
    Verdict.SAFE_PASS: "safe pass",
    Verdict.UNSAFE_PASS: "unsafe pass",
    Verdict.FAIL: "fail",
    Verdict.RUNTIME_ERROR: "runtime error",
    None: "unscored",
}
VERDICT_MEANINGS = {
    Verdict.SAFE_PASS: "Every root cause named and nothing wrong beside it (or as good as the suite's bar "
    "asks), and the records give no reason to distrust it.",
    Verdict.UNSAFE_PASS: "The same score, with a reason to distrust it: the agent never saw what it named "
    "(unverifiable), no command is on record (unobserved), it touched a boundary (boundary), or it was "
    "not isolated (isolation).",
    Verdict.FAIL: "A score below the suite's bar.",
    Verdict.RUNTIME_ERROR: "The trial ended without a diagnosis: the agent crashed, ran out of time or "
    "turns, or our own harness failed.",
}
LIMITS = (
    "The number says how precisely an agent named the causes of these frozen incidents. It does not measure "
    "live debugging, remediation, or incidents of other kinds.",
    "The interval says where the mean over other scenarios like these may lie. It does not know how the "
    "scenarios were chosen, and two agents are compared scenario by scenario, not by their intervals.",
    "An answer that misses one of several root causes counts 0, and every wrong name lowers the score.",
    "Compare numbers only where the signatures agree in everything but the version.",
)


@dataclass(frozen=True)
class ReportRow:
    """One line of the table of agents."""

    name: str
    kind: str
    """``agent``, ``baseline`` (ran in the sandbox) or ``blind`` (computed, saw nothing)."""
    number: float | None
    interval: Ends | None
    bounds: Ends | None
    averaged_over: str
    full_recall_rate: float | None
    exact_rate: float | None
    ranked: float | None
    strict: float | None
    blind: float | None
    lift: float | None
    lift_interval: Ends | None
    scenarios: dict[str, float | None]


@dataclass(frozen=True)
class ReportAgent:
    """One run with its scorecard."""

    label: str
    scorecard: Scorecard
    store: RunStore


@dataclass(frozen=True)
class Report:
    """Runs side by side."""

    agents: tuple[ReportAgent, ...]
    rows: tuple[ReportRow, ...]
    scenario_ids: tuple[str, ...]
    notices: tuple[str, ...]
    """What a reader must know before comparing or quoting a number."""


def load_report(runs: Sequence[Path]) -> Report:
    """Read the scorecards of one or more runs.

    Parameters
    ----------
    runs : sequence of Path
        Run folders that have been scored.

    Raises
    ------
    UsageError
        No run is given, or the same one twice.
    RunError
        A run has no scorecard, or its trials have changed since.
    """
    if not runs:
        raise UsageError("Give at least one run folder.")
    resolved = [run.resolve() for run in runs]
    for index, path in enumerate(resolved):
        if path in resolved[:index]:
            raise UsageError(f"{runs[index]}: this run is given twice.")
    loaded = [(RunStore.open(run), load_scorecard(run)) for run in runs]
    for store, scorecard in loaded:
        _check_fresh(store, scorecard)
    names = [scorecard.agent.name for _, scorecard in loaded]
    agents = tuple(
        ReportAgent(
            label=name
            if names.count(name) == 1
            else f"{name} ({visible(store.path.name, keep_lines=False)})",
            scorecard=scorecard,
            store=store,
        )
        for name, (store, scorecard) in zip(names, loaded, strict=True)
    )
    return Report(
        agents=agents,
        rows=_rows(agents),
        scenario_ids=_scenario_ids(agents),
        notices=tuple(_notices(agents)),
    )


def report_json(report: Report) -> dict[str, Any]:
    """The report as a JSON value: the scorecards as they are, and the notices."""
    return {
        "format_version": REPORT_FORMAT_VERSION,
        "notices": list(report.notices),
        "scorecards": [agent.scorecard.to_dict() for agent in report.agents],
    }


def percent(value: float | None) -> str:
    """A fraction for people."""
    return MISSING if value is None else f"{100 * value:.1f} %"


def points(value: float | None) -> str:
    """A difference of two fractions, in percentage points with its sign."""
    return MISSING if value is None else f"{100 * value:+.1f}"


def interval_text(ends: Ends | None, *, signed: bool = False, digits: int = 1) -> str:
    """Both ends of an interval in percent or points, without the unit."""
    if ends is None:
        return MISSING
    low, high = ends
    # A hyphen between numbers that may carry a sign of their own would be read as one more sign.
    if signed or low < 0:
        return f"{100 * low:+.{digits}f} to {100 * high:+.{digits}f}"
    return f"{100 * low:.{digits}f}-{100 * high:.{digits}f}"


def number_or_bounds(number: float | None, bounds: Ends | None) -> str:
    """A number, or what it can still become."""
    if number is None and bounds is not None:
        return f"{MISSING} ({100 * bounds[0]:.1f} to {100 * bounds[1]:.1f} %)"
    return percent(number)


def scenario_of(scorecard: Scorecard, scenario_id: str) -> ScenarioScore | None:
    """One scenario's scores, or None where the run has none of it."""
    return next((one for one in scorecard.scenarios if one.scenario_id == scenario_id), None)


def marks(trials: Sequence[TrialScore]) -> str:
    """One sign per repeat."""
    return " ".join(VERDICT_MARKS[trial.verdict] for trial in trials)


def averaged_over(scorecard: Scorecard) -> str:
    """What the number is a mean of."""
    n_scenarios, n_repeats = scorecard.headline.n_scenarios, scorecard.headline.n_repeats
    text = f"{_count(n_scenarios, 'scenario')} x {_count(n_repeats, 'repeat')}"
    if scorecard.splits is not None:
        text += f", mean of {_count(len(scorecard.splits), 'split')}"
    return text if scorecard.subset is None else f"subset: {text}"


def methods(report: Report) -> list[tuple[str, str]]:
    """What each number and its interval are about, once, with the labels of the runs that it is said of."""
    return _once([(agent.label, agent.scorecard.method) for agent in report.agents])


def signatures(report: Report) -> list[tuple[str, str]]:
    """Each signature once, with the labels of the runs that carry it."""
    return _once([(agent.label, agent.scorecard.signature) for agent in report.agents])


def _once(lines: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    labels: dict[str, list[str]] = {}
    for label, line in lines:
        labels.setdefault(line, []).append(label)
    return [(", ".join(names), line) for line, names in labels.items()]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _check_fresh(store: RunStore, scorecard: Scorecard) -> None:
    scored = {
        (scenario.scenario_id, trial.repeat): trial.outcome
        for scenario in scorecard.scenarios
        for trial in scenario.trials
    }
    stale = RunError(
        f"{store.path}: the run has changed since it was scored. "
        f"Score it again: diagnose-bench score {store.path}"
    )
    if scorecard.run_id != store.manifest.run_id:
        raise stale
    absent = Outcome.NO_DIAGNOSIS if store.manifest.imported else Outcome.PENDING
    for (scenario_id, repeat), outcome in scored.items():
        record = store.record(PlannedTrial(scenario_id=scenario_id, repeat=repeat))
        if (absent if record is None else record.outcome) is not outcome:
            raise stale


def _rows(agents: Sequence[ReportAgent]) -> tuple[ReportRow, ...]:
    rows = [_agent_row(agent) for agent in agents]
    baselines: list[ReportRow] = []
    for agent in agents:
        over = averaged_over(agent.scorecard)
        for run in agent.scorecard.baselines.agents:
            row = _baseline_row(run, agent.scorecard, over)
            if row not in baselines and row.name not in {one.name for one in rows}:
                baselines.append(row)
        for row in _blind_rows(agent.scorecard):
            if row not in baselines:
                baselines.append(row)
    # Stable: what ran in the sandbox stands before what saw nothing.
    return (*rows, *sorted(baselines, key=lambda row: row.kind == "blind"))


def _agent_row(agent: ReportAgent) -> ReportRow:
    scorecard = agent.scorecard
    lift = scorecard.baselines.lift_over_blind
    return ReportRow(
        name=agent.label,
        kind="agent",
        number=scorecard.number,
        interval=scorecard.interval,
        bounds=scorecard.bounds,
        averaged_over=averaged_over(scorecard),
        full_recall_rate=scorecard.metrics["full_recall_rate"],
        exact_rate=scorecard.metrics["exact_rate"],
        ranked=scorecard.metrics["ranked_precision_at_full_recall"],
        strict=scorecard.profiles[Profile.STRICT.value],
        blind=scorecard.baselines.blind,
        lift=scorecard.baselines.lift,
        lift_interval=None if lift is None else lift.difference.interval,
        scenarios={scenario.scenario_id: scenario.score for scenario in scorecard.scenarios},
    )


def _baseline_row(run: BaselineRun, scorecard: Scorecard, over: str) -> ReportRow:
    blind = scorecard.baselines.blind
    comparable = scorecard.profile is Profile.ITBENCH_AA and run.score is not None and blind is not None
    return ReportRow(
        name=run.name,
        kind="baseline",
        number=run.score,
        interval=run.interval,
        bounds=run.bounds,
        averaged_over=over.replace(
            _count(scorecard.headline.n_repeats, "repeat"), _count(run.n_repeats, "repeat")
        ),
        full_recall_rate=run.full_recall_rate,
        exact_rate=run.exact_rate,
        ranked=None,
        strict=run.strict,
        blind=blind,
        lift=run.score - blind if comparable and run.score is not None and blind is not None else None,
        lift_interval=run.lift_interval if comparable else None,
        scenarios=run.scenarios,
    )


def _blind_rows(scorecard: Scorecard) -> list[ReportRow]:
    return [
        ReportRow(
            name=name,
            kind="blind",
            number=score,
            interval=None,
            bounds=None,
            averaged_over=_count(scorecard.headline.n_scenarios, "scenario"),
            full_recall_rate=None,
            exact_rate=None,
            ranked=None,
            strict=None,
            blind=None,
            lift=None,
            lift_interval=None,
            scenarios={},
        )
        for name, score in (
            ("constant name", scorecard.baselines.constant.score),
            ("always empty", scorecard.baselines.empty),
        )
    ]


def _scenario_ids(agents: Sequence[ReportAgent]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for agent in agents:
        found.update(dict.fromkeys(scenario.scenario_id for scenario in agent.scorecard.scenarios))
    return tuple(sorted(found))


def _notices(agents: Sequence[ReportAgent]) -> list[str]:
    notices = []
    for agent in agents:
        notices += [f"{agent.label}: {text}" for text in _notices_of(agent.scorecard)]
    if len(agents) > 1 and (differing := _differing_fields(agents)):
        notices.append(f"These runs are not comparable: their signatures differ in {', '.join(differing)}.")
    return notices


def _notices_of(scorecard: Scorecard) -> list[str]:
    found = []
    if not scorecard.complete:
        unscored = sum(
            trial.precision_at_full_recall is None
            for scenario in scorecard.scenarios
            for trial in scenario.trials
        )
        found.append(
            f"incomplete: {_count(unscored, 'trial')} without a score, so there is no headline; the bounds "
            "take those trials as 0 and as 1."
        )
    if scorecard.subset is not None:
        found.append(
            f"a subset of the suite ({', '.join(scorecard.subset.scenario_ids)}): its number is no headline."
        )
    if scorecard.excluded:
        found.append(f"taken out by hand: {', '.join(scorecard.excluded)}.")
    refused = [scenario for scenario in scorecard.scenarios if scenario.truth_refused]
    found += [
        f"{scenario.scenario_id}: truth refused: {_first_line(scenario.truth_refused)}"
        for scenario in refused
    ]
    if scorecard.inventory == "none":
        found.append("no snapshots: names are judged against the truths alone (inventory: none).")
    found += boundary_notices(scorecard)
    if scorecard.sandbox == "none" or scorecard.sandbox.endswith("+unconfined"):
        found.append(f"weaker isolation (sandbox {scorecard.sandbox}): no pass is safe.")
    if scorecard.patches:
        patched = ", ".join(dict.fromkeys(patch.scenario_id for patch in scorecard.patches))
        found.append(f"truths mended by patches: {patched}.")
    return [*found, *scorecard.notes]


def _first_line(text: str | None) -> str:
    lines = (text or "").splitlines() or [""]
    return lines[0] if len(lines) == 1 else f"{lines[0]} (and {len(lines) - 1} more)"


def _differing_fields(agents: Sequence[ReportAgent]) -> list[str]:
    fields = [parse_signature(agent.scorecard.signature) for agent in agents]
    names = dict.fromkeys(name for one in fields for name in one)
    return [name for name in names if name != "version" and len({one.get(name) for one in fields}) > 1]
