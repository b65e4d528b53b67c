"""Do logs and kills fit the objects: who can have written a line, and what a kill for memory looks like."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from diagnose_bench.lint_files import SnapshotFiles, seconds
from diagnose_bench.lint_finding import LintFinding, judge
from diagnose_bench.reconstruct.pods import mebibytes

_KILLED = re.compile(r"Killed process \d+ \(([^)]+)\).* anon-rss:(\d+)kB")
_QUERY = re.compile(r'\[INFO\] [0-9.]+:\d+ - \d+ "')
_UNFILLED = re.compile(r"\{(?:int|hex|choice|pod|ip|node|localpod|rv|tag|up)(?::[^{}]*)?\}")
_MIN_LENGTH = 8
_NEAR = (0.85, 1.0)
"""Share of the limit that a killed process had."""
_CLIMBED = 0.7
_BEFORE_S = 330.0


def check_lines(scenario_id: str, files: SnapshotFiles) -> list[LintFinding]:
    """Configuration of the writers, plug-ins that write, kills for memory."""
    if not files.is_native or not files.has("objects.jsonl"):
        return [LintFinding(scenario_id, "lines", None, "no objects of the native layout")]
    objects = list(files.records("objects.jsonl"))
    return [_configuration(scenario_id, objects, files), _written(scenario_id, objects, files),
            _kills(scenario_id, objects, files)]  # fmt: skip


def _configuration(scenario_id: str, objects: list[dict[str, Any]], files: SnapshotFiles) -> LintFinding:
    """A Pod's lines show no value that only another template of its workload has."""
    values: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(dict)
    for one in objects:
        if one.get("kind") == "ReplicaSet" and one["metadata"].get("ownerReferences"):
            owner = one["metadata"]["ownerReferences"][0]["name"]
            found = {
                str(entry.get("value", ""))
                for container in one["spec"]["template"]["spec"]["containers"]
                for entry in container.get("env", [])
            }
            values[one["metadata"]["namespace"], owner][one["metadata"]["name"]] = {
                value for value in found if len(value) >= _MIN_LENGTH
            }
    problems, n_lines = [], 0
    for (namespace, owner), sets in sorted(values.items()):
        name = f"logs/{namespace}_{owner}.log"
        if len({frozenset(found) for found in sets.values()}) < 2 or not files.has(name):
            continue
        for line in files.lines(name):
            for own in sets:
                if f"{own}-" not in line:
                    continue
                n_lines += 1
                alien = set().union(*sets.values()) - sets[own]
                problems += [
                    f"{name}: a Pod of {own} names {value!r}" for value in sorted(alien) if value in line
                ]
    return judge(scenario_id, "configuration", problems, f"{n_lines} lines show their own template's values")


def _written(scenario_id: str, objects: list[dict[str, Any]], files: SnapshotFiles) -> LintFinding:
    """Resolvers log queries only with the plug-in for it; no line has a gap that was not filled."""
    corefiles = [
        str(one.get("data", {}).get("Corefile", ""))
        for one in objects
        if one.get("kind") == "ConfigMap" and one["metadata"]["name"] == "coredns"
    ]
    logs_queries = any(re.search(r"^\s*log\b", text, re.MULTILINE) for text in corefiles)
    problems = []
    for entry in files.manifest.files_of("logs"):
        for line in files.lines(entry.path):
            if Path(entry.path).name.endswith("coredns.log") and not logs_queries and _QUERY.search(line):
                problems.append(f"{entry.path}: a query is logged without the log plug-in")
            if match := _UNFILLED.search(line):
                problems.append(f"{entry.path}: {match[0]} was not filled in")
    return judge(scenario_id, "writers", problems, "every line is one that its component writes")


def _kills(scenario_id: str, objects: list[dict[str, Any]], files: SnapshotFiles) -> LintFinding:
    """Killed processes were near their limit, and the working set came near it before."""
    limits: dict[tuple[str, str], list[tuple[str, str, float]]] = defaultdict(list)
    for pod in objects:
        if pod.get("kind") == "Pod":
            for container in pod["spec"]["containers"]:
                limit = mebibytes(container.get("resources", {}).get("limits", {}).get("memory"))
                if limit is not None:
                    key = (str(pod["spec"].get("nodeName")), container["name"][:15])
                    limits[key].append((pod["metadata"]["name"], container["name"], limit))
    used = {
        (dict(one.labels).get("pod"), dict(one.labels).get("container")): one.samples
        for one in files.series("container_memory_working_set_bytes")
    }
    problems, n_kills = [], 0
    start = files.window[0]
    last: dict[tuple[str, str], float] = {}
    for event in sorted(files.records("events.jsonl"), key=lambda one: str(one["lastTimestamp"])):
        match = _KILLED.search(json.dumps(event.get("message", "")))
        host = str(event.get("source", {}).get("host", ""))
        candidates = limits.get((host, match[1]), []) if match else []
        if not match or not candidates:
            continue
        n_kills += 1
        share = [int(match[2]) / 1024 / limit for _, _, limit in candidates]
        if not any(_NEAR[0] <= one <= _NEAR[1] for one in share):
            problems.append(f"{match[1]} on {host} was killed at {max(share):.0%} of its limit")
        time = seconds(str(event["lastTimestamp"])) - start
        before, last[host, match[1]] = last.get((host, match[1]), 0.0), time
        if time - max(before, 0.0) < _BEFORE_S:
            continue  # A life of a few minutes may fall between two samples.
        climbed = max(
            (
                value / 1048576 / limit
                for pod, container, limit in candidates
                for moment, value in used.get((pod, container), [])
                if time - _BEFORE_S <= moment <= time
            ),
            default=1.0,
        )
        if climbed < _CLIMBED:
            problems.append(
                f"{match[1]} on {host} was killed at {event['lastTimestamp']}; no sample before is above "
                f"{climbed:.0%} of its limit"
            )
    return judge(scenario_id, "kills", problems, f"{n_kills} kills for memory came near a limit")
