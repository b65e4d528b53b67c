"""A comparison for people: the answer first, then what it rests on. Computes nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from diagnose_bench.comparison import ComparedPair, Comparison, Decision, missing_from
from diagnose_bench.comparison_families import FamilyDifference, FamilyWinners
from diagnose_bench.comparison_scenarios import Blamed, Change, ScenarioChange
from diagnose_bench.comparison_settings import fewest_units
from diagnose_bench.report import MISSING, percent, points
from diagnose_bench.report_cost import COST_HEADINGS, cost_text, per_trial_text
from diagnose_bench.text import visible
from diagnose_bench.text_table import text_table

_MAX_ROWS = 60
_MAX_BLAMED = 3
_ORDER = [Change.REGRESSED, Change.IMPROVED, Change.MISSING, Change.UNCHANGED]


def comparison_text(comparison: Comparison) -> str:
    """The whole comparison as plain text."""
    single = len(comparison.pairs) == 1 and comparison.groups is None
    parts = [
        _answers(comparison),
        _notices(comparison),
        _pair_block(comparison, comparison.pairs[0]) if single else _pairs_table(comparison),
        "" if comparison.groups is None else _groups_text(comparison),
        _costs_text(comparison),
        *(_scenarios_text(pair, named=not single) for pair in comparison.pairs),
        "" if comparison.winners is None else _winners_text(comparison.winners),
        "" if single else _method_text(comparison.pairs),
    ]
    return "\n\n".join(part for part in parts if part)


def answer_of(pair: ComparedPair, comparison: Comparison) -> str:
    """What one comparison shows, in a sentence."""
    settings = comparison.settings
    low, high = pair.difference.interval or (math.nan, math.nan)
    if pair.decision is Decision.REGRESSION:
        return f"{pair.candidate} is worse than {pair.baseline}: a significant regression."
    if pair.decision is Decision.IMPROVEMENT:
        return f"{pair.candidate} is better than {pair.baseline}: a significant improvement."
    if pair.decision is Decision.SAME_RUN:
        return "Both sides are the same run, so nothing can differ."
    if pair.decision is Decision.NOT_WORSE:
        return (
            f"{pair.candidate} is not worse than {pair.baseline}: no difference is shown, and a loss of "
            f"{_size(settings.margin)} points is ruled out."
        )
    return (
        f"{pair.candidate} against {pair.baseline}: not decidable with {comparison.design}. "
        f"Anything from {points(low)} to {points(high)} points fits; equal would need a loss of "
        f"{_size(settings.margin)} points ruled out."
    )


def _notices(comparison: Comparison) -> str:
    paired = comparison.paired
    lines = [
        f"Missing from {run.label}, so left out of the difference: {', '.join(missing)}"
        for run in paired.runs
        if (missing := missing_from(paired, run))
    ]
    if bare := [run.label for run in paired.runs if not run.lists_trials]:
        lines.append(
            f"No trials are listed in the scorecard of {', '.join(bare)}: the scores of the scenarios are "
            "compared, but flips of verdicts and newly blamed entities are not known."
        )
    lines += [f"Allowed to differ: {one.field} ({_values(one.values)})" for one in paired.allowed]
    if paired.versions is not None:
        lines.append(f"Scored by different versions: {_values(paired.versions.values)}")
    return visible("\n".join(lines))


def _values(values: Sequence[str | None]) -> str:
    return " / ".join("(none)" if value is None else value for value in values)


def _pair_block(comparison: Comparison, pair: ComparedPair) -> str:
    before, after = comparison.means
    difference = pair.difference
    low, high = difference.interval or (math.nan, math.nan)
    detectable = (
        f"{_detectable(pair)} points is the smallest true difference that this design calls "
        f"with power {comparison.settings.power:g}"
        if math.isfinite(pair.minimum_detectable)
        else _why_not_detectable(pair, comparison)
    )
    rows = [
        ("Baseline", f"{percent(before):>7}  {pair.baseline}"),
        ("Candidate", f"{percent(after):>7}  {pair.candidate}"),
        (
            "Difference",
            f"{points(difference.value):>5} points, {100 * (difference.level or 0):g} % interval "
            f"{points(low)} to {points(high)}",
        ),
        ("", f"      {difference.method}; {difference.n} {_unit(difference.unit, difference.n)}"),
        ("p-value", f"{_p(pair.p_value)}  {pair.test}"),
        ("Detectable", detectable),
        ("Design", f"{comparison.design}, paired by scenario{_unit_note(pair)}"),
    ]
    if pair.families is not None and (line := _families_line(pair.families)):
        rows.append(("Families", line))
    return "\n".join(f"{name:<11} {visible(text, keep_lines=False)}".rstrip() for name, text in rows)


def _unit_note(pair: ComparedPair) -> str:
    if pair.difference.unit != "family":
        return ""
    return f"; {pair.difference.n} families are the independent units"


def _families_line(families: FamilyDifference) -> str:
    parts = []
    if families.prediction is not None:
        one = families.prediction
        parts.append(
            f"on a family not seen yet: {points(one.low)} to {points(one.high)} points ({100 * one.level:g} "
            f"% prediction from {one.n_groups})"
        )
    if families.interaction_p_value is not None:
        parts.append(f"the same in every family: p = {_p(families.interaction_p_value)}")
    return "; ".join(parts)


def _why_not_detectable(pair: ComparedPair, comparison: Comparison) -> str:
    fewest = fewest_units(comparison.settings.level)
    if pair.difference.n < fewest:
        return f"nothing: fewer than {fewest} {_unit(pair.difference.unit, 2)} can never be significant"
    return "unknown: every difference is the same, so no spread shows it"


def _pairs_table(comparison: Comparison) -> str:
    means = dict(zip(comparison.paired.labels, comparison.means, strict=True))
    ranked = sorted(means.items(), key=lambda item: -item[1])
    scores = text_table(["Run", "Score"], [(label, percent(mean)) for label, mean in ranked], right={1})
    rows = []
    for pair in comparison.pairs:
        low, high = pair.difference.interval or (math.nan, math.nan)
        rows.append(
            (
                pair.candidate,
                pair.baseline,
                points(pair.difference.value),
                f"{points(low)} to {points(high)}",
                _p(pair.p_value),
                _p(pair.p_adjusted),
                _detectable(pair),
                str(pair.decision),
            )
        )
    header = ["Run", "minus", "Points", "Interval", "p", "p adj.", "Detectable", "Answer"]
    return f"{scores}\n\n{text_table(header, rows, right={2, 3, 4, 5, 6})}"


def _groups_text(comparison: Comparison) -> str:
    groups = comparison.groups or ()
    lines = ["Runs that cannot be told apart, best first (a run may stand in several groups):"]
    lines += [f"  {number}. {', '.join(group)}" for number, group in enumerate(groups, start=1)]
    return visible("\n".join(lines))


def _costs_text(comparison: Comparison) -> str:
    """What a trial, a pass and a correct diagnosis of each run took; nothing where nobody said anything."""
    runs = comparison.paired.runs
    used = [
        name
        for name in COST_HEADINGS
        if any(name in run.scorecard.cost and run.scorecard.cost[name].n_trials for run in runs)
    ]
    if not used:
        return ""
    rows = [(run.label, *(per_trial_text(run.scorecard, name) for name in used)) for run in runs]
    right = set(range(1, len(used) + 1))
    lines = [text_table(["Cost per trial", *(COST_HEADINGS[name] for name in used)], rows, right=right)]
    for heading, key in (("per pass", "per_pass"), ("per correct diagnosis", "per_correct_diagnosis")):
        rows = [
            (
                run.label,
                *(
                    cost_text(name, getattr(run.scorecard.cost[name], key).value)
                    if name in run.scorecard.cost
                    else MISSING
                    for name in used
                ),
            )
            for run in runs
        ]
        header = [f"Cost {heading}", *(COST_HEADINGS[name] for name in used)]
        lines.append(text_table(header, rows, right=right))
    return "\n\n".join(lines)


def _answers(comparison: Comparison) -> str:
    if comparison.groups is None:
        lines = [answer_of(pair, comparison) for pair in comparison.pairs]
        lines += [note for pair in comparison.pairs if (note := _smallest_p(pair, comparison))]
        return visible("\n".join(lines))
    if comparison.undecided:
        return f"No pair can be told apart: not decidable with {comparison.design}."
    return ""


def _smallest_p(pair: ComparedPair, comparison: Comparison) -> str:
    """Why a test with few signs to flip cannot be significant."""
    smallest = 2.0 ** (1 - pair.n_differing) if pair.n_differing else 1.0
    if pair.decision is not Decision.UNDECIDED or smallest <= 1.0 - comparison.settings.level:
        return ""
    if pair.n_differing == 0:
        return f"No {pair.difference.unit} differs, so no test can call a difference."
    differ = "differs" if pair.n_differing == 1 else "differ"
    unit = _unit(pair.difference.unit, pair.n_differing)
    return f"Only {pair.n_differing} {unit} {differ}, so no p-value below {smallest:.2g} is possible."


def _scenarios_text(pair: ComparedPair, *, named: bool) -> str:
    if not pair.scenarios:
        return ""
    counts = {kind: sum(one.change is kind for one in pair.scenarios) for kind in _ORDER}
    title = f"{pair.candidate} against {pair.baseline}, by scenario: " if named else "By scenario: "
    lines = [visible(title) + ", ".join(f"{count} {kind}" for kind, count in counts.items())]
    changed = sorted(
        (one for one in pair.scenarios if one.change is not Change.UNCHANGED or _verdicts(one)),
        key=lambda one: (_ORDER.index(one.change), -abs(one.difference or 0.0), one.scenario_id),
    )
    if changed:
        rows = [_scenario_row(one) for one in changed[:_MAX_ROWS]]
        header = ["Scenario", "Change", "Before", "After", "Verdicts", "Newly blamed"]
        used = [place for place in range(len(header)) if any(row[place] for row in rows)]
        shown = [[row[place] for place in used] for row in rows]
        lines.append(text_table([header[place] for place in used], shown, right={2, 3}))
    if len(changed) > _MAX_ROWS:
        lines.append(f"and {len(changed) - _MAX_ROWS} more: --format json has all of them")
    return "\n".join(lines)


def _scenario_row(one: ScenarioChange) -> tuple[str, ...]:
    change = f"missing from {one.missing_from}" if one.change is Change.MISSING else str(one.change)
    return (
        one.scenario_id,
        change,
        percent(one.baseline),
        percent(one.candidate),
        _verdicts(one),
        _blamed(one.newly_blamed),
    )


def _verdicts(one: ScenarioChange) -> str:
    """The verdicts whose counts changed."""
    if one.change is Change.MISSING:
        return ""
    before, after = one.baseline_verdicts, one.candidate_verdicts
    if not (before and after):
        return ""
    names = [name for name in {**before, **after} if before.get(name, 0) != after.get(name, 0)]
    return ", ".join(f"{name} {_count(before, name)} to {_count(after, name)}" for name in names)


def _count(counts: Mapping[str, int], name: str) -> int:
    return counts.get(name, 0)


def _blamed(entities: Sequence[Blamed]) -> str:
    shown = [f"{one.entity} ({one.class_}, {one.n_trials}x)" for one in entities[:_MAX_BLAMED]]
    if len(entities) > _MAX_BLAMED:
        shown.append(f"and {len(entities) - _MAX_BLAMED} more")
    return ", ".join(shown)


def _winners_text(winners: FamilyWinners) -> str:
    pooled = " = ".join(winners.pooled)
    if winners.holds:
        return visible(f"Leave one family out: best is {pooled}, whichever of the families is left out.")
    rows = [
        (
            one.family or "(none declared)",
            str(one.n_scenarios),
            " = ".join(one.winner),
            " = ".join(one.best),
            _size(one.regret),
        )
        for one in winners.families
    ]
    title = (
        f"Leave one family out: best is {pooled}, but not without each family, so the ranking rests on "
        "which of them the suite has."
    )
    header = ["Without family", "Scenarios", "Best elsewhere", "Best on it", "Regret"]
    return f"{visible(title)}\n{text_table(header, rows, right={1, 4})}"


def _method_text(pairs: Sequence[ComparedPair]) -> str:
    first = pairs[0]
    level = 100 * (first.difference.level or 0)
    methods = dict.fromkeys(pair.difference.method for pair in pairs)
    tests = dict.fromkeys(pair.test for pair in pairs)
    return visible(
        f"Points: mean of the run minus that of the other. Interval: {level:g} %, each by itself; "
        f"{' | '.join(methods)}; {first.difference.n} {_unit(first.difference.unit, first.difference.n)}.\n"
        f"p: {' | '.join(tests)}.\n"
        "Detectable: smallest true difference, in points, that this design calls."
    )


def _unit(unit: str, number: int) -> str:
    if number == 1:
        return unit
    return f"{unit[:-1]}ies" if unit.endswith("y") else f"{unit}s"


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"


def _detectable(pair: ComparedPair) -> str:
    # Scores lie in [0, 1]: no difference is larger.
    return _size(pair.minimum_detectable) if not pair.minimum_detectable > 1.0 else "more than 100"


def _size(value: float | None) -> str:
    """A size in points, without a sign."""
    return MISSING if value is None or not math.isfinite(value) else f"{100 * value:.1f}"
