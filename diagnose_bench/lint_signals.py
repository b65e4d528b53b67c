"""Do the signals of a snapshot agree: traces with metrics, restarts with events, alerts with their rules."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from diagnose_bench.lint_files import SnapshotFiles, seconds
from diagnose_bench.lint_finding import LintFinding, judge
from diagnose_bench.reconstruct.promql import Evaluator, Vector
from diagnose_bench.reconstruct.promql_parse import PromqlError, duration_s, metric_names, parse
from diagnose_bench.reconstruct.store import Labels, Series

CALLS = "traces_span_metrics_calls_total"
RESTARTS = "kube_pod_container_status_restarts_total"
MAX_ERRORS = 3.0
"""Standard errors by which the two shares of errors may differ."""
MIN_SPANS = 30
_EVALUATE_S = 30
_STALE_S = 300
_RESTART_REASONS = frozenset({"Started", "Created", "Pulled", "BackOff", "Killing"})


def check_signals(scenario_id: str, files: SnapshotFiles) -> list[LintFinding]:
    """The three agreements."""
    return [_error_shares(scenario_id, files), _restarts(scenario_id, files), _alerts(scenario_id, files)]


def _increase(series: Series) -> float:
    values = [value for _, value in series.samples]
    return sum(later - earlier if later >= earlier else later for earlier, later in pairwise(values))


def _error_shares(scenario_id: str, files: SnapshotFiles) -> LintFinding:
    check = "error shares"
    if not files.has("traces.jsonl") or CALLS not in files.metric_names:
        return LintFinding(scenario_id, check, None, f"no traces.jsonl or no metric {CALLS}")
    calls: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for series in files.series(CALLS):
        labels = dict(series.labels)
        if labels.get("span_kind") == "SPAN_KIND_SERVER":
            pair = calls[labels.get("namespace", ""), labels.get("service_name", "")]
            pair[0] += _increase(series) * (labels.get("status_code") == "STATUS_CODE_ERROR")
            pair[1] += _increase(series)
    # Spans of one trace fail together, so errors are counted by trace for the standard error.
    spans: dict[tuple[str, str], dict[str, list[int]]] = defaultdict(dict)
    for span in files.records("traces.jsonl"):
        if str(span.get("kind")).endswith("SERVER"):
            space = str(span.get("resource", {}).get("k8s.namespace.name", ""))
            trace = spans[space, str(span.get("service"))].setdefault(str(span.get("traceId")), [0, 0])
            trace[0] += str(span.get("statusCode")).upper().endswith("ERROR")
            trace[1] += 1
    problems = []
    n_compared = 0
    for service, (n_errors, n_calls) in sorted(calls.items()):
        traces = spans.get(service, {})
        n_spans = sum(total for _, total in traces.values())
        if n_spans < MIN_SPANS or not n_calls:
            continue
        n_compared += 1
        share, expected = sum(bad for bad, _ in traces.values()) / n_spans, n_errors / n_calls
        error = _standard_error(traces, share, expected)
        if abs(share - expected) > MAX_ERRORS * error:
            problems.append(
                f"{'/'.join(service)}: {share:.4f} of {n_spans} spans are errors, {expected:.4f} by the "
                f"metric, standard error {error:.4f}"
            )
    if not n_compared:
        return LintFinding(scenario_id, check, None, f"no service has {MIN_SPANS} spans and the metric")
    return judge(
        scenario_id, check, problems, f"spans of {n_compared} services fail as often as the metric says"
    )


def _standard_error(traces: Mapping[str, list[int]], share: float, expected: float) -> float:
    n_spans = sum(total for _, total in traces.values())
    clustered = sum((bad - share * total) ** 2 for bad, total in traces.values())
    binomial = expected * (1 - expected) / n_spans
    # One span more or less must not decide, however small the share is.
    return max(math.sqrt(clustered) / n_spans, math.sqrt(binomial), 1 / (MAX_ERRORS * n_spans))


def _restarts(scenario_id: str, files: SnapshotFiles) -> LintFinding:
    if RESTARTS not in files.metric_names or not files.has("events.jsonl"):
        return LintFinding(scenario_id, "restarts", None, f"no events.jsonl or no metric {RESTARTS}")
    events: Counter[tuple[str, str, str]] = Counter()
    for event in files.records("events.jsonl"):
        about = event.get("involvedObject") or {}
        if about.get("kind") == "Pod" and event.get("reason") in _RESTART_REASONS:
            field = str(about.get("fieldPath", ""))
            container = field.partition("{")[2].rstrip("}")
            key = (str(about.get("namespace")), str(about.get("name")), container)
            events[key] = max(events[key], int(event.get("count") or 1))
    problems = []
    n_restarts = 0
    for series in files.series(RESTARTS):
        grown = int(_increase(series))
        if not grown:
            continue
        n_restarts += grown
        labels = dict(series.labels)
        key = (labels.get("namespace", ""), labels.get("pod", ""), labels.get("container", ""))
        if events[key] < grown:
            problems.append(f"{'/'.join(key)}: {grown} restarts in the metric, {events[key]} in the events")
    return judge(scenario_id, "restarts", problems, f"{n_restarts} restarts have their events")


def _alerts(scenario_id: str, files: SnapshotFiles) -> LintFinding:
    check = "alerts"
    rules = _rules(files)
    if not rules or not files.has("alerts.jsonl") or not files.metric_names:
        return LintFinding(scenario_id, check, None, "no alerts.jsonl, no metrics or no PrometheusRule")
    start, _, end = files.window
    evaluations: dict[str, list[tuple[dict[str, Any], dict[int, Vector]]]] = {}
    problems: list[str] = []
    for rule in rules:
        try:
            moments = _evaluate(rule, files, start, end)
        except (PromqlError, ValueError) as error:
            problems.append(f"rule {rule.get('alert')!r} is not understood: {error}")
            continue
        evaluations.setdefault(str(rule.get("alert")), []).append((rule, moments))
    n_alerts = 0
    for record in files.records("alerts.jsonl"):
        n_alerts += 1
        name = str(record.get("labels", {}).get("alertname"))
        candidates = evaluations.get(name)
        labels = {key: value for key, value in record["labels"].items() if key != "alertname"}
        if not candidates:
            problems.append(f"{name}: no rule")
        elif not any(_fires(record, rule, moments, start) for rule, moments in candidates):
            problems.append(f"{name} {labels} at {record.get('observedAt')}: the metrics do not give it")
        elif any(_older(record, rule, moments, files) for rule, moments in candidates):
            problems.append(
                f"{name} {labels}: held from the start, but is said to begin {record['startsAt']}"
            )
    return judge(scenario_id, check, problems, f"{n_alerts} observations follow from {len(rules)} rules")


def _rules(files: SnapshotFiles) -> list[dict[str, Any]]:
    return [
        rule
        for manifest in files.records("objects.jsonl")
        if manifest.get("kind") == "PrometheusRule"
        for group in manifest.get("spec", {}).get("groups", [])
        for rule in group.get("rules", [])
        if "alert" in rule
    ]


def _evaluate(rule: Mapping[str, Any], files: SnapshotFiles, start: float, end: float) -> dict[int, Vector]:
    """The rule's vector at every evaluation of the window."""
    expression = parse(str(rule["expr"]))
    series = {name: files.series(name) for name in metric_names(expression)}
    evaluator = Evaluator(series, start)
    return {time: evaluator.instant(expression, time) for time in range(0, int(end - start) + 1, _EVALUATE_S)}


def _fires(
    record: Mapping[str, Any], rule: Mapping[str, Any], moments: Mapping[int, Vector], start: float
) -> bool:
    """Whether the expression held when the alert was seen, when it started, and for long enough before."""
    static = {str(key): str(value) for key, value in (rule.get("labels") or {}).items()}
    given = {key: value for key, value in record["labels"].items() if key != "alertname"}
    if any(given.get(key) != value for key, value in static.items()):
        return False

    def holds(time: float) -> bool:
        vector = moments.get(int(time) - int(time) % _EVALUATE_S)
        return vector is not None and any(_same(labels, static, given) for labels in vector)

    observed = seconds(str(record["observedAt"])) - start
    since = seconds(str(record["startsAt"])) - start
    # Alertmanager keeps an alert for minutes after the last evaluation that gave it.
    updated = seconds(str(record["updatedAt"])) - start if "updatedAt" in record else observed
    if not observed - _STALE_S < updated <= observed:
        return False
    wait = duration_s(str(rule.get("for", "0s")))
    if since < 0 and "[" in str(rule["expr"]):
        # It fired before the window; a rate has no value before its second sample.
        early = [time for time in range(0, _STALE_S + 1, _EVALUATE_S) if holds(time)]
        return bool(early) and (updated <= early[0] or holds(updated))
    if not holds(updated):
        return False
    first = max(0.0, since - wait)
    return all(holds(time) for time in range(int(first), int(min(updated, max(since, 0.0))) + 1, _EVALUATE_S))


def _older(
    record: Mapping[str, Any], rule: Mapping[str, Any], moments: Mapping[int, Vector], files: SnapshotFiles
) -> bool:
    """Whether a condition that held from its first possible value on is said to be younger."""
    since = seconds(str(record["startsAt"])) - files.window[0]
    if since < 0:
        return False
    first = 0
    if "[" in str(rule["expr"]):
        # A rate needs two samples.
        sampled = [
            sorted({time for one in files.series(name) for time, _ in one.samples})[1:2]
            for name in metric_names(parse(str(rule["expr"])))
        ]
        first = int(max((time for found in sampled for time in found), default=0.0))
        first += -first % _EVALUATE_S
    static = {str(key): str(value) for key, value in (rule.get("labels") or {}).items()}
    given = {key: value for key, value in record["labels"].items() if key != "alertname"}
    return first <= since and all(
        any(_same(labels, static, given) for labels in moments.get(time, {}))
        for time in range(first, int(since) + 1, _EVALUATE_S)
    )


def _same(labels: Labels, static: Mapping[str, str], given: Mapping[str, str]) -> bool:
    found = {key: value for key, value in labels if key != "alertname"}
    return {**found, **static} == dict(given)
