"""From one specification to one snapshot folder and its truth: runs the parts and writes the files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import yaml

from diagnose_bench.errors import SuiteError
from diagnose_bench.files import write_atomic
from diagnose_bench.reconstruct.alerts import build_alerts
from diagnose_bench.reconstruct.events import build_events, event_lines
from diagnose_bench.reconstruct.flow import simulate
from diagnose_bench.reconstruct.logs import build_logs, write_logs
from diagnose_bench.reconstruct.metrics import build_metrics
from diagnose_bench.reconstruct.objects import build_objects, change_lines, object_lines
from diagnose_bench.reconstruct.requests import draw_requests
from diagnose_bench.reconstruct.rules import rule_groups
from diagnose_bench.reconstruct.spec import Specification
from diagnose_bench.reconstruct.store import write_metrics
from diagnose_bench.reconstruct.topology import build_topology
from diagnose_bench.reconstruct.traces import kept_traces, span_lines
from diagnose_bench.reconstruct.world import build_world
from diagnose_bench.snapshot import build_manifest
from diagnose_bench.suite_digest import write_manifest


def reconstruct(spec: Specification, folder: Path) -> None:
    """Write the snapshot of a specification; the folder is replaced as a whole.

    Parameters
    ----------
    spec : Specification
        The incident.
    folder : Path
        ``snapshots/<suite>/<scenario_id>``.

    Notes
    -----
    The same specification gives the same bytes. Nothing of ``spec.truth`` is read here.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    if partial.exists():
        shutil.rmtree(partial)
    partial.mkdir(parents=True)
    try:
        _write_snapshot(spec, partial)
        if folder.exists():
            shutil.rmtree(folder)
        partial.rename(folder)
    finally:
        if partial.exists():
            shutil.rmtree(partial)


def _write_snapshot(spec: Specification, folder: Path) -> None:
    world = build_world(spec)
    flow = simulate(world)
    traces = draw_requests(flow)
    store = build_metrics(flow, traces)
    firings, alert_lines = build_alerts(world, rule_groups(spec), store)
    if not firings:
        raise SuiteError(f"{spec.scenario_id}: $.rules: no alert fires. An incident needs a visible symptom.")
    write_metrics(store, folder / "metrics", world.clock)
    write_logs(build_logs(world, traces), folder / "logs", world)
    objects = build_objects(world)
    _write_lines(folder / "alerts.jsonl", alert_lines)
    _write_lines(folder / "events.jsonl", event_lines(world, build_events(world)))
    _write_lines(folder / "traces.jsonl", span_lines(kept_traces(traces, spec.sampling.spans), world.clock))
    _write_lines(folder / "objects.jsonl", object_lines(objects))
    _write_lines(folder / "changes.jsonl", change_lines(world))
    topology = build_topology(flow, objects)
    write_atomic(folder / "topology.json", (json.dumps(topology, separators=(",", ":")) + "\n").encode())
    window = {
        "start": spec.window.start,
        "detected_at": spec.window.detected_at,
        "end": spec.window.end,
    }
    manifest = build_manifest(folder, window, ["reconstruction"])
    write_manifest(folder, manifest)


def truth_bytes(spec: Specification) -> bytes:
    """The truth file of a specification."""
    document: dict[str, Any] = {
        "format_version": 1,
        "scenario_id": spec.scenario_id,
        **spec.truth,
        "canary": spec.canary,
    }
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110).encode()


def _write_lines(path: Path, lines: list[str]) -> None:
    write_atomic(path, "".join(f"{line}\n" for line in lines).encode())
