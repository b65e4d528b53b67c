"""Is a snapshot what a fair scenario needs: bytes on record, a long window, enough of each kind of file."""

from __future__ import annotations

from collections import Counter

from diagnose_bench.entity import WORKLOAD_KINDS
from diagnose_bench.errors import SuiteError
from diagnose_bench.lint_files import SnapshotFiles
from diagnose_bench.lint_finding import LintFinding, judge
from diagnose_bench.suite import Scenario, verify_scenario

MIN_WINDOW_S = 45 * 60
MIN_OBJECTS = 25
MIN_WORKLOADS = 10
MIN_ALERTS = 8
MIN_LOG_LINES = 3000
MIN_SPANS = 2000
MIN_SERIES = 40
KINDS = ("alerts", "events", "traces", "logs", "metrics", "topology", "objects")


def check_structure(scenario: Scenario, files: SnapshotFiles) -> list[LintFinding]:
    """Digests, window, kinds of files, and how much there is of each."""
    return [_digests(scenario), _window(scenario.id, files), _amounts(scenario.id, files)]


def _digests(scenario: Scenario) -> LintFinding:
    try:
        verify_scenario(scenario)
    except SuiteError as error:
        return LintFinding(scenario.id, "digests", False, str(error))
    return LintFinding(scenario.id, "digests", True, "every file has the bytes on record")


def _window(scenario_id: str, files: SnapshotFiles) -> LintFinding:
    start, detected_at, end = files.window
    problems = []
    if files.is_native and end - start < MIN_WINDOW_S:
        problems.append(f"the window is {(end - start) / 60:.0f} minutes, less than {MIN_WINDOW_S // 60}")
    if not start < detected_at < end:
        problems.append("the detection does not lie inside the window")
    for record in files.records("alerts.jsonl"):
        observed = str(record.get("observedAt", ""))
        if not files.manifest.window.start[:16] <= observed[:16] <= files.manifest.window.end[:16]:
            problems.append(f"an alert was observed at {observed!r}, outside the window")
            break
    return judge(scenario_id, "window", problems, f"{(end - start) / 60:.0f} minutes around the detection")


def _amounts(scenario_id: str, files: SnapshotFiles) -> LintFinding:
    if not files.is_native:
        return LintFinding(scenario_id, "amounts", None, "the telemetry is in a foreign layout")
    workloads = {
        files.inventory.workload(entity)
        for entity in files.inventory.entities
        if entity.kind in WORKLOAD_KINDS
    }
    alerts = {
        tuple(sorted((str(key), str(value)) for key, value in record.get("labels", {}).items()))
        for record in files.records("alerts.jsonl")
    }
    n_rows = Counter[str]()
    for entry in files.manifest.files:
        n_rows[entry.kind] += entry.n_rows
    found = {
        "objects": (n_rows["objects"], MIN_OBJECTS),
        "workloads": (len(workloads), MIN_WORKLOADS),
        "alerts": (len(alerts), MIN_ALERTS),
        "log lines": (n_rows["logs"], MIN_LOG_LINES),
        "spans": (n_rows["traces"], MIN_SPANS),
        "metric series": (sum(len(files.series(name)) for name in files.metric_names), MIN_SERIES),
    }
    problems = [f"no {kind}" for kind in KINDS if not files.manifest.files_of(kind)]
    problems += [f"{n} {what}, fewer than {least}" for what, (n, least) in found.items() if n < least]
    return judge(scenario_id, "amounts", problems, ", ".join(f"{n} {what}" for what, (n, _) in found.items()))
