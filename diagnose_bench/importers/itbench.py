"""ITBench-Lite and -AA folders, or truths alone -> a suite of ours; it appears whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from diagnose_bench.documents import validation_reasons
from diagnose_bench.errors import SuiteError, UsageError
from diagnose_bench.files import write_atomic
from diagnose_bench.ground_truth import load_truths
from diagnose_bench.ground_truth_patches import PATCH_FILE_NAME
from diagnose_bench.importers.itbench_scenario import ImportedSnapshot, holds_evidence, import_scenario
from diagnose_bench.importers.itbench_staging import Staging, require_free
from diagnose_bench.importers.itbench_truths import (
    ROWS_NAME,
    SourceTruth,
    folders_below,
    patch_file_of,
    read_rows,
    read_truths,
    scenario_id_of_folder,
    truth_of_folder,
)
from diagnose_bench.snapshot import manifest_digest
from diagnose_bench.suite_digest import write_manifest, write_suite_file
from diagnose_bench.suite_file import SuiteEntry, SuiteFile, suite_digest_of

_VERSION = "1"


@dataclass(frozen=True)
class ImportedScenario:
    """What became of one scenario; the counts are 0 for a truth without a snapshot."""

    id: str
    source: str
    truth: str | None
    """Where the truth came from, or None if there is none."""
    truth_refused: str | None
    """Why the truth is refused, if it is: the scenario then stays unscored."""
    n_files: int
    n_bytes: int
    n_objects: int
    n_changes: int
    n_nodes: int
    n_edges: int
    window: dict[str, str] | None
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class ImportReport:
    """What ``import_itbench`` wrote."""

    name: str
    suite_path: Path
    truths_path: Path
    digest: str
    scenarios: tuple[ImportedScenario, ...]
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {**asdict(self), "suite_path": str(self.suite_path), "truths_path": str(self.truths_path)}

    def notes(self) -> list[str]:
        """Return what a person should know: what was left out, is missing or will stay unscored."""
        notes = list(self.warnings)
        for scenario in self.scenarios:
            notes.extend(f"{scenario.id}: {warning}" for warning in scenario.warnings)
            if scenario.truth_refused is not None:
                notes.append(
                    f"{scenario.id}: its truth is refused, so it stays unscored: {scenario.truth_refused}"
                )
        return notes


def import_itbench(
    source: Path,
    name: str,
    truths: Path | None = None,
    out: Path = Path(),
    on_progress: Callable[[str], None] | None = None,
) -> ImportReport:
    """Import scenarios of ITBench into ``<out>/snapshots/<name>`` and ``<out>/ground_truth/<name>``.

    Parameters
    ----------
    source : Path
        A folder with ``Scenario-N`` folders at any depth, one such folder, or truths alone (a file that lists
        them, or a folder with ``scenario_N/groundtruth*.yaml``).
    name : str
        The new suite's name.
    truths : Path, optional
        Truths to take in place of those that lie beside the evidence.
    out : Path
        The folder that gets or has ``snapshots/`` and ``ground_truth/``.
    on_progress : callable, optional
        Told what is being read.

    Raises
    ------
    UsageError
        The name is none, the suite is there already, or the source is not.
    SuiteError
        The source is nothing of ITBench's, or its files cannot be read or copied.
    """
    _require_name(name)
    if not source.exists():
        raise UsageError(f"{source}: does not exist. Give a folder with Scenario-N folders, or truths.")
    targets = (out / "snapshots" / name, out / "ground_truth" / name)
    for target in targets:
        require_free(target)
    try:
        plan = _plan(source, truths)
        with Staging(*targets) as staging:
            report = _write(plan, name, staging, on_progress or (lambda _: None))
            staging.commit()
    except OSError as error:
        raise SuiteError(f"{error.filename or out}: {error.strerror}. Nothing was imported.") from error
    return report


@dataclass(frozen=True)
class _Plan:
    source: Path
    folders: dict[str, Path]
    """Evidence by scenario id; empty for truths alone."""
    truths: dict[str, SourceTruth]
    patches: bytes | None
    warnings: tuple[str, ...]

    @property
    def ids(self) -> list[str]:
        return sorted(self.folders or self.truths, key=lambda scenario_id: (len(scenario_id), scenario_id))


def _plan(source: Path, truths: Path | None) -> _Plan:
    folders, warnings = _evidence_folders(source) if source.is_dir() else ({}, [])
    if not folders:
        given = truths or source
        return _Plan(source, {}, read_truths(given), patch_file_of(given), ())
    found = read_truths(truths) if truths is not None else {}
    if unused := sorted(found.keys() - folders.keys()):
        warnings.append(f"{len(unused)} truths belong to no scenario there: {', '.join(unused[:10])}")
    rows = _truths_beside(source, folders)
    used = {}
    for scenario_id, folder in folders.items():
        truth = found.get(scenario_id) or truth_of_folder(folder) or rows.get(scenario_id)
        if truth is None:
            warnings.append(f"{scenario_id}: there is no truth, so it will stay unscored")
        else:
            used[scenario_id] = truth
    return _Plan(source, folders, used, patch_file_of(truths or source), tuple(warnings))


def _evidence_folders(source: Path) -> tuple[dict[str, Path], list[str]]:
    """Return the folders with evidence by scenario id, and a warning for each scenario that has none."""
    found: dict[str, Path] = {}
    without = []
    for folder in folders_below(source):
        scenario_id = scenario_id_of_folder(folder.resolve().name)
        if scenario_id is None:
            continue
        if not holds_evidence(folder):
            without.append(f"{folder}: holds no evidence and is left out")
            continue
        if scenario_id in found:
            raise SuiteError(
                f"{source}: {found[scenario_id]} and {folder} are both {scenario_id}. "
                "Give one of the folders above them."
            )
        found[scenario_id] = folder
    if not found and not without and holds_evidence(source):
        raise SuiteError(
            f"{source}: holds evidence, but its name tells no scenario. "
            "Call the folder Scenario-N, as ITBench does."
        )
    return found, without


def _truths_beside(source: Path, folders: dict[str, Path]) -> dict[str, SourceTruth]:
    """Return the truths of ``data.jsonl`` files beside the scenario folders (ITBench-AA's layout)."""
    found: dict[str, SourceTruth] = {}
    for parent in sorted({folder.parent for folder in folders.values()} | {source}):
        found = {**read_rows(parent / ROWS_NAME), **found}
    return found


def _write(plan: _Plan, name: str, staging: Staging, on_progress: Callable[[str], None]) -> ImportReport:
    entries: list[SuiteEntry] = []
    snapshots: dict[str, ImportedSnapshot] = {}
    for number, scenario_id in enumerate(plan.ids, 1):
        on_progress(f"{scenario_id} ({number} of {len(plan.ids)})")
        digest = None
        if folder := plan.folders.get(scenario_id):
            target = staging.suite / scenario_id
            target.mkdir()
            snapshots[scenario_id] = import_scenario(folder, plan.source, target)
            write_manifest(target, snapshots[scenario_id].manifest)
            digest = manifest_digest(snapshots[scenario_id].manifest)
        entries.append(SuiteEntry(id=scenario_id, digest=digest))
        if truth := plan.truths.get(scenario_id):
            write_atomic(staging.truths / f"{scenario_id}.yaml", truth.data)
    if plan.patches is not None:
        write_atomic(staging.truths / PATCH_FILE_NAME, plan.patches)
    file = SuiteFile(name=name, version=_VERSION, splits=_splits(plan), scenarios=tuple(entries))
    write_suite_file(staging.suite, file)
    refused = load_truths(staging.truths, sorted(plan.truths)).refused if plan.truths else {}
    return ImportReport(
        name=name,
        suite_path=staging.final_suite,
        truths_path=staging.final_truths,
        digest=suite_digest_of(file),
        scenarios=tuple(
            _scenario(
                scenario_id, plan, snapshots.get(scenario_id), staging.renamed(refused.get(scenario_id))
            )
            for scenario_id in plan.ids
        ),
        warnings=plan.warnings,
    )


def _scenario(
    scenario_id: str, plan: _Plan, snapshot: ImportedSnapshot | None, refused: str | None
) -> ImportedScenario:
    truth = plan.truths.get(scenario_id)
    files = snapshot.manifest.files if snapshot else ()
    return ImportedScenario(
        id=scenario_id,
        source=str(plan.folders.get(scenario_id) or (truth.origin if truth else plan.source)),
        truth=truth.origin if truth else None,
        truth_refused=refused,
        n_files=len(files),
        n_bytes=sum(entry.n_bytes for entry in files),
        n_objects=snapshot.objects.n_objects if snapshot else 0,
        n_changes=snapshot.objects.n_changes if snapshot else 0,
        n_nodes=snapshot.n_nodes if snapshot else 0,
        n_edges=snapshot.n_edges if snapshot else 0,
        window=snapshot.manifest.window.model_dump(mode="json") if snapshot else None,
        warnings=snapshot.warnings if snapshot else (),
    )


def _splits(plan: _Plan) -> dict[str, tuple[str, ...]] | None:
    """Return the splits that the source names, if it names at least two and one for every scenario."""
    parts: dict[str, tuple[str, ...]] = {}
    for scenario_id in plan.ids:
        truth = plan.truths.get(scenario_id)
        if truth is None or truth.split is None:
            return None
        parts[truth.split] = (*parts.get(truth.split, ()), scenario_id)
    return parts if len(parts) > 1 else None


def _require_name(name: str) -> None:
    try:
        SuiteFile(name=name, version=_VERSION, scenarios=(SuiteEntry(id="scenario-001", digest=None),))
    except ValidationError as error:
        raise UsageError(
            f"{name!r} is no name for a suite: small letters, digits, dots and hyphens.\n"
            f"{validation_reasons(error)}"
        ) from error
