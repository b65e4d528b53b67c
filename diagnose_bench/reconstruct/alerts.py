"""Alerts: rules evaluated over the stored metrics, `for` waited out, states observed every few minutes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from diagnose_bench.errors import SuiteError
from diagnose_bench.reconstruct.promql import Evaluator
from diagnose_bench.reconstruct.promql_parse import Expression, PromqlError, duration_s, metric_names, parse
from diagnose_bench.reconstruct.spec import Rule, RuleGroup
from diagnose_bench.reconstruct.store import Labels, MetricStore
from diagnose_bench.reconstruct.world import World

EVALUATE_S = 30
OBSERVE_S = 300
RESOLVE_S = 240


@dataclass
class Firing:
    """One alert instance while it fires."""

    rule: Rule
    labels: dict[str, str]
    since: float
    until: float | None = None


def evaluate_rules(groups: list[RuleGroup], evaluator: Evaluator, length_s: int) -> list[Firing]:
    """All alert instances of the window; `since` is 0 for those whose condition held from the start."""
    fired: list[Firing] = []
    for group in groups:
        for rule in group.rules:
            expression, wait = _parse(rule)
            active: dict[Labels, float] = {}
            firing: dict[Labels, Firing] = {}
            from_start: set[Labels] = set()
            first = _first_value(rule, expression, evaluator)
            for time in range(0, length_s + 1, EVALUATE_S):
                present = evaluator.instant(expression, time)
                for labels in list(active):
                    if labels not in present:
                        del active[labels]
                        if labels in firing:
                            firing.pop(labels).until = float(time)
                for labels in present:
                    if labels not in active:
                        active[labels] = float(time)
                        if time <= first:
                            from_start.add(labels)
                    standing = labels in from_start and active[labels] <= first
                    if labels not in firing and (standing or time - active[labels] >= wait):
                        made = Firing(rule, _labels(rule, labels), 0.0 if standing else float(time))
                        firing[labels] = made
                        fired.append(made)
    return fired


def _first_value(rule: Rule, expression: Expression, evaluator: Evaluator) -> int:
    """Until when a condition that held before the window may first be seen: a rate needs two samples."""
    first = 60
    if "[" in rule.expr:
        for name in metric_names(expression):
            times = {time for one in evaluator.series.get(name, []) for time, _ in one.samples}
            second = sorted(times)[1:2]
            first = max([first, *(int(time) + EVALUATE_S for time in second if time <= OBSERVE_S)])
    return first


def _parse(rule: Rule) -> tuple[Expression, int]:
    try:
        return parse(rule.expr), duration_s(rule.wait)
    except PromqlError as error:
        raise SuiteError(f"$.rules: the rule {rule.alert!r} is not understood: {error}.") from error


def _part(groups: list[RuleGroup], *, wanted: bool) -> list[RuleGroup]:
    """The rules that read the ALERTS series, or the others."""
    return [
        group.model_copy(
            update={"rules": [r for r in group.rules if ("ALERTS" in metric_names(_parse(r)[0])) == wanted]}
        )
        for group in groups
    ]


def _labels(rule: Rule, labels: Labels) -> dict[str, str]:
    return {**dict(labels), **rule.labels, "alertname": rule.alert}


def alerts_series(firings: list[Firing], store: MetricStore, length_s: int) -> None:
    """The ALERTS series that Prometheus writes for firing alerts."""
    for firing in firings:
        for time in range(0, length_s + 1, 240):
            if firing.since <= time and (firing.until is None or time < firing.until):
                store.add("ALERTS", {**firing.labels, "alertstate": "firing"}, time, 1, 0)


def build_alerts(world: World, groups: list[RuleGroup], store: MetricStore) -> tuple[list[Firing], list[str]]:
    """Fire the rules, write ALERTS, and return the firings and the lines of alerts.jsonl."""
    length = world.clock.length_s
    plain, derived = _part(groups, wanted=False), _part(groups, wanted=True)
    firings = evaluate_rules(plain, _evaluator(world, store), length)
    alerts_series(firings, store, length)
    more = evaluate_rules(derived, _evaluator(world, store), length)
    alerts_series(more, store, length)
    for gap in world.spec.gaps:
        if gap.what in ("alerts", "both"):
            store.drop(["ALERTS"], world.clock.seconds(gap.start), world.clock.seconds(gap.end))
    firings = [*firings, *more]
    return firings, _observations(world, firings)


def _evaluator(world: World, store: MetricStore) -> Evaluator:
    return Evaluator({name: store.series(name) for name in store.metrics}, world.clock.unix(0))


def _observations(world: World, firings: list[Firing]) -> list[str]:
    clock = world.clock
    offset = clock.detected_s % OBSERVE_S
    lines = []
    gaps = [
        (clock.seconds(gap.start), clock.seconds(gap.end))
        for gap in world.spec.gaps
        if gap.what in ("alerts", "both")
    ]
    receivers = "default"
    for number in range(int((clock.length_s - offset) // OBSERVE_S) + 1):
        time = offset + number * OBSERVE_S
        evaluated = time - 1 - (time - 1) % EVALUATE_S
        for start, end in gaps:
            if start <= time < end:
                # Alertmanager keeps an alert until its end time, though nobody evaluates the rule any more.
                evaluated = start - start % EVALUATE_S
        if time - evaluated >= RESOLVE_S:
            continue
        present = [
            one for one in firings if one.since <= evaluated and (one.until is None or evaluated < one.until)
        ]
        names = {one.labels["alertname"] for one in present}
        for firing in sorted(present, key=lambda one: sorted(one.labels.items())):
            draws = world.draws("alert", *(f"{key}={value}" for key, value in sorted(firing.labels.items())))
            since = firing.since
            if since == 0.0:
                earlier = world.spec.since.get(firing.labels["alertname"])
                born = _born(world, firing)
                since = clock.seconds(earlier) if earlier else -draws.uniform(20000, 700000)
                since = max(since, born + draws.uniform(900, 2000)) if born < -3000 else since
            suppressed = firing.labels.get("severity") == "info" and "InfoInhibitor" in names
            record = {
                "labels": dict(sorted(firing.labels.items())),
                "annotations": {
                    key: _fill(text, firing.labels) for key, text in firing.rule.annotations.items()
                },
                "startsAt": clock.rfc3339_ms(since + draws.uniform(0, 1)),
                "endsAt": clock.rfc3339_ms(evaluated + RESOLVE_S),
                "updatedAt": clock.rfc3339_ms(evaluated + draws.uniform(0.05, 0.3)),
                "fingerprint": draws.hex(16),
                "receivers": [{"name": receivers}],
                "status": {
                    "state": "suppressed" if suppressed else "active",
                    "silencedBy": [],
                    "inhibitedBy": [draws.hex(16)] if suppressed else [],
                },
                "observedAt": clock.rfc3339(time),
            }
            lines.append(json.dumps(record, separators=(",", ":")))
    return lines


def _born(world: World, firing: Firing) -> float:
    """When the Pod that an alert is about was created; long ago for other alerts."""
    name = firing.labels.get("pod")
    found = [pod.created for pod in world.all_pods() if pod.name == name]
    return min(found, default=-1e9)


def _fill(text: str, labels: dict[str, str]) -> str:
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda match: labels.get(match[1], ""), text)
