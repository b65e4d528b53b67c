"""One ``Scenario-N`` folder -> one snapshot: files byte for byte below ``raw/``, the rest derived."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from diagnose_bench.errors import SuiteError
from diagnose_bench.importers.itbench_alerts import AlertTimes, read_alert_times
from diagnose_bench.importers.itbench_objects import ObjectCounts, ObjectHistory, Spool
from diagnose_bench.importers.itbench_tables import Span, scan_table, shown_time
from diagnose_bench.importers.itbench_topology import Topology
from diagnose_bench.snapshot import SnapshotManifest, Window, build_manifest
from diagnose_bench.snapshot_rows import itbench_kind
from diagnose_bench.snapshot_tree import check_name
from diagnose_bench.snapshot_truth import DOCUMENT_SUFFIXES, holds_truth, is_truth_name

_SOURCES = (
    "recorded by ITBench's recorders: its files byte for byte below raw/, the others derived from them",
)
# What the recorder notes about its own work may say what was broken.
_RECORDER_NOTES = frozenset({"status.json", "assertion.json"})


@dataclass(frozen=True)
class ImportedSnapshot:
    """What came out of one folder."""

    manifest: SnapshotManifest
    objects: ObjectCounts
    n_nodes: int
    n_edges: int
    warnings: tuple[str, ...]


def holds_evidence(folder: Path) -> bool:
    """Whether a folder has any file of ITBench's layout beside the truth."""
    for pattern in ("*", "alerts/*", "metrics/*"):
        if any(itbench_kind(path.relative_to(folder).as_posix()) for path in folder.glob(pattern)):
            return True
    return False


def import_scenario(source: Path, root: Path, target: Path) -> ImportedSnapshot:
    """Copy a scenario's evidence and derive topology, objects, changes, window and manifest from it.

    Parameters
    ----------
    source : Path
        The ``Scenario-N`` folder.
    root : Path
        The folder that the user gave; links to files below it are followed.
    target : Path
        The snapshot's folder, which does not exist yet.

    Notes
    -----
    The window spans what the recorder's own clock stamped: alert captures, object polls, event rows, metric
    samples. Spans and log lines carry the clocks of applications and count only where there is nothing else.

    Raises
    ------
    SuiteError
        A file cannot be read or copied, or nothing in the folder has a time.
    """
    warnings: list[str] = []
    names = []
    for name, path in _source_files(source, root):
        if is_truth_name(name):
            continue
        if path.suffix.lower() in DOCUMENT_SUFFIXES and holds_truth(path):
            warnings.append(f"{name}: has the form of a truth and is left out")
            continue
        if name.rpartition("/")[2] in _RECORDER_NOTES:
            warnings.append(f"{name}: the recorder's own notes; see whether they give the answer away")
        copy = target / "raw" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        copy.chmod(0o644)
        names.append(name)
    return _derive(target, names, warnings)


def _derive(target: Path, names: list[str], warnings: list[str]) -> ImportedSnapshot:
    raw = target / "raw"
    by_kind: dict[str, list[Path]] = {}
    for name in names:
        by_kind.setdefault(itbench_kind(name) or "raw", []).append(raw / name)
    n_rows: dict[Path, int] = {}
    recorder, applications = Span(), Span()
    topology = Topology()

    with tempfile.TemporaryFile(dir=target) as file:
        history = ObjectHistory(Spool(file))
        for path in by_kind.get("objects", []):
            history.read_table(path)
        objects = history.write(target / "objects.jsonl", target / "changes.jsonl", topology.add)
    n_rows |= history.n_rows
    recorder.see_all(history.span)
    if history.n_unreadable:
        warnings.append(
            f"{history.n_unreadable} rows of objects hold no object that can be read; they stay in raw/"
        )

    for path in by_kind.get("traces", []):
        n_rows[path], span = topology.read_spans(path)
        applications.see_all(span)
    for kind, clock in (("events", recorder), ("metrics", recorder), ("logs", applications)):
        for path in by_kind.get(kind, []):
            n_rows[path], span = scan_table(path)
            clock.see_all(span)
    n_nodes, n_edges = topology.write(target / "topology.json")

    alerts = read_alert_times(by_kind.get("alerts", []))
    warnings.extend(alerts.warnings)
    recorder.see_all(alerts.captures)
    warnings.extend(
        f"there are no {kind}"
        for kind in ("alerts", "events", "metrics", "logs", "traces", "objects")
        if kind not in by_kind
    )
    window = _window(recorder if recorder.first is not None else applications, alerts, target.name)
    counts = {path.relative_to(target).as_posix(): count for path, count in n_rows.items()}
    manifest = build_manifest(target, window, _SOURCES, n_rows=counts)
    return ImportedSnapshot(manifest, objects, n_nodes, n_edges, tuple(warnings))


def _window(span: Span, alerts: AlertTimes, scenario_id: str) -> Window:
    """Return the window; without any alert the agent is called at its end, when everything is known."""
    if span.first is None or span.last is None:
        raise SuiteError(
            f"{scenario_id}: no file has a time, so the scenario has no window. Is it evidence at all?"
        )
    return Window(
        start=shown_time(span.first),
        detected_at=shown_time(alerts.detected_at or span.last),
        end=shown_time(span.last),
    )


def _source_files(source: Path, root: Path) -> Iterator[tuple[str, Path]]:
    """Yield name and path of every file; a link to a folder is refused, as it may never end."""
    for folder, below, files in os.walk(source, onerror=_raise):
        below.sort()
        for name in below:
            if (Path(folder) / name).is_symlink():
                raise SuiteError(f"{folder}/{name}: is a link to a folder. Put the folder itself there.")
        for file in sorted(files):
            path = Path(folder) / file
            name = path.relative_to(source).as_posix()
            check_name(source, name)
            if path.is_symlink():
                path = _followed(path, root)
            if not stat.S_ISREG(path.stat().st_mode):
                raise SuiteError(f"{path}: is no regular file, so it cannot be imported. Remove it.")
            yield name, path


def _raise(error: OSError) -> None:
    raise error


def _followed(path: Path, root: Path) -> Path:
    """Return what a link leads to, if that is in the given folder or in a download cache around it."""
    resolved = path.resolve()
    allowed = [root.resolve()]
    # Hugging Face keeps a data set as links from snapshots/<revision>/ into blobs/ beside it.
    allowed.extend(
        parent / "blobs" for parent in root.resolve().parents if parent.name.startswith("datasets--")
    )
    if not any(resolved.is_relative_to(folder) for folder in allowed):
        raise SuiteError(
            f"{path}: is a link that leaves the folder given ({resolved}). Put the file itself there."
        )
    if not resolved.exists():
        raise SuiteError(f"{path}: is a link to nothing ({resolved}). Fetch the file, or remove the link.")
    return resolved
