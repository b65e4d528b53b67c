"""What a run is graded against: suite, truths, inventories and resolvers, each checked. Scores nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from diagnose_bench.constant_baseline import BlindScores
from diagnose_bench.errors import (
    DigestMismatchError,
    GroundTruthError,
    RunFormatError,
    SuiteError,
    UsageError,
)
from diagnose_bench.evidence import EvidenceIndex
from diagnose_bench.files import sha256_of_file
from diagnose_bench.ground_truth import TruthSet, load_truths
from diagnose_bench.inventory import Inventory
from diagnose_bench.layout import truth_folder_of
from diagnose_bench.records import RunManifest
from diagnose_bench.resolver import Resolver
from diagnose_bench.snapshot import load_manifest, manifest_digest
from diagnose_bench.suite import Scenario, Suite, load_suite
from diagnose_bench.truth_traces import TruthTraces

_INVENTORY_KINDS = frozenset({"objects", "changes", "topology"})


@dataclass
class GradingInputs:
    """A suite with its truths; resolvers are built once, when they are first asked for."""

    suite: Suite
    truths: TruthSet
    truth_folder: Path
    blind: dict[tuple[str, ...], BlindScores] = field(default_factory=dict)
    """What needs no look at a snapshot, by the scenarios that count: every run of a scoring shares it."""
    _resolvers: dict[str, Resolver] = field(default_factory=dict)
    _inventories: dict[str, Inventory] = field(default_factory=dict)
    _evidence: dict[str, EvidenceIndex] = field(default_factory=dict)
    _traces: TruthTraces | None = None

    @property
    def traces(self) -> TruthTraces:
        """The search for words of the truths in what agents did."""
        if self._traces is None:
            self._traces = TruthTraces({key: loaded.truth for key, loaded in self.truths.truths.items()})
        return self._traces

    def resolver(self, scenario_id: str) -> Resolver | None:
        """The resolver of a scenario, or None where its truth is refused."""
        if scenario_id in self.truths.refused:
            return None
        if scenario_id not in self._resolvers:
            truth = self.truths.truths[scenario_id].truth
            self._resolvers[scenario_id] = Resolver(truth, self.inventory(scenario_id))
        return self._resolvers[scenario_id]

    def inventory(self, scenario_id: str) -> Inventory:
        """The inventory of a scenario's snapshot, read from bytes that match the suite's digest.

        Raises
        ------
        DigestMismatchError
            The snapshot is not the one on record.
        """
        if scenario_id not in self._inventories:
            scenario = self.suite.scenario(scenario_id)
            if scenario.snapshot is None:
                self._inventories[scenario_id] = Inventory.none()
            else:
                check_inventory_files(scenario, scenario.snapshot)
                self._inventories[scenario_id] = Inventory.load(scenario.snapshot)
        return self._inventories[scenario_id]

    def evidence(self, scenario_id: str) -> EvidenceIndex:
        """Where the citations of a scenario's diagnoses are looked up."""
        if scenario_id not in self._evidence:
            self._evidence[scenario_id] = EvidenceIndex(self.suite.scenario(scenario_id).snapshot)
        return self._evidence[scenario_id]

    def forget(self) -> None:
        """Let go of resolvers and inventories with all that they remember; they are built anew on demand."""
        self._resolvers.clear()
        self._inventories.clear()
        self._evidence.clear()

    def refusal(self, scenario_id: str) -> str | None:
        """Why a scenario's truth is refused, its path relative to the folder of truths."""
        reason = self.truths.refused.get(scenario_id)
        return None if reason is None else self.relative(reason)

    def relative(self, message: str) -> str:
        """Cut the folder out of a message, so that scorecards do not depend on where the truths lie."""
        return message.replace(f"{self.truth_folder}/", "")


def load_inputs(
    run: Path, manifest: RunManifest, suite: str | None = None, truth: Path | None = None
) -> GradingInputs:
    """Find and check the suite and the truths of a run.

    Parameters
    ----------
    run : Path
        The run folder, for messages.
    manifest : RunManifest
        Its run.json.
    suite : str, optional
        A suite's name or folder, instead of the one in run.json.
    truth : Path, optional
        Folder of the truths, instead of the one beside the suite.

    Raises
    ------
    SuiteError
        The suite is missing or damaged.
    DigestMismatchError
        It is not the suite of the run.
    GroundTruthError
        There is no folder of truths.
    """
    loaded = _load_suite(run, manifest, suite)
    if loaded.digest != manifest.suite.digest:
        raise DigestMismatchError(
            f"{run}: the run was made on suite {manifest.suite.name} with digest "
            f"{manifest.suite.digest[:12]}, but {loaded.path} has {loaded.digest[:12]}. "
            "Give the suite of the run with --suite, or run again on this one."
        )
    return inputs_of(loaded, truth)


def inputs_of(loaded: Suite, truth: Path | None = None) -> GradingInputs:
    """Find and check the truths of a suite.

    Raises
    ------
    GroundTruthError
        There is no folder of truths.
    """
    folder = truth_folder_of(loaded.path) if truth is None else truth
    if not folder.is_dir():
        state = "is not a folder" if folder.exists() else "does not exist"
        raise GroundTruthError(
            f"{folder}: the folder of truths {state}. Say where the truths are with --truth."
        )
    truths = load_truths(folder, [scenario.id for scenario in loaded.scenarios])
    return GradingInputs(suite=loaded, truths=truths, truth_folder=folder)


def planned_scenarios(inputs: GradingInputs, run: Path, manifest: RunManifest) -> tuple[tuple[str, ...], int]:
    """The plan as scenarios (in the suite's order) and repeats.

    Raises
    ------
    RunFormatError
        The plan is no grid of scenarios and repeats, or names a scenario that the suite lacks.
    """
    n_repeats = manifest.policy.repeats
    planned = {(trial.scenario_id, trial.repeat) for trial in manifest.plan}
    wanted = {scenario_id for scenario_id, _ in planned}
    grid = {(scenario_id, repeat) for scenario_id in wanted for repeat in range(1, n_repeats + 1)}
    if not planned or planned != grid or len(manifest.plan) != len(planned):
        raise RunFormatError(
            f"{run / 'run.json'}: $.plan: must hold every scenario with the repeats 1 to {n_repeats}, "
            "each once. Restore run.json, or run again."
        )
    known = [scenario.id for scenario in inputs.suite.scenarios]
    if unknown := sorted(wanted.difference(known)):
        raise RunFormatError(
            f"{run / 'run.json'}: $.plan: suite {inputs.suite.name} has no scenario {unknown[0]!r}. "
            "Restore run.json, or run again."
        )
    return tuple(scenario_id for scenario_id in known if scenario_id in wanted), n_repeats


def without_excluded(
    inputs: GradingInputs, scenario_ids: Sequence[str], exclude: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The scenarios that are left, and those taken out, both in the suite's order.

    Raises
    ------
    SuiteError
        An excluded scenario is unknown.
    UsageError
        It is not part of the run, or nothing is left.
    """
    out = {inputs.suite.scenario(text).id for text in exclude}
    if stray := sorted(out.difference(scenario_ids)):
        raise UsageError(f"--exclude {stray[0]}: the run has no trial of it. Leave that option out.")
    kept = tuple(scenario_id for scenario_id in scenario_ids if scenario_id not in out)
    if not kept:
        raise UsageError("--exclude takes every scenario out, so no number is left. Exclude fewer.")
    return kept, tuple(scenario_id for scenario_id in scenario_ids if scenario_id in out)


def check_inventory_files(scenario: Scenario, snapshot: Path) -> None:
    """Hold the files that names are resolved against to the manifest, and the manifest to the suite.

    Raises
    ------
    DigestMismatchError
        Bytes differ from the digest on record.
    """
    manifest = load_manifest(snapshot)
    if manifest_digest(manifest) != scenario.digest:
        raise DigestMismatchError(f"{snapshot / 'snapshot.json'}: {_CHANGED}")
    for entry in manifest.files:
        path = snapshot / entry.path
        if entry.kind not in _INVENTORY_KINDS:
            continue
        try:
            found = sha256_of_file(path)
        except OSError as error:
            raise DigestMismatchError(f"{path}: cannot be read: {error.strerror}. {_CHANGED}") from error
        if found != entry.sha256:
            raise DigestMismatchError(f"{path}: {_CHANGED}")


_CHANGED = (
    "is not the one that the suite has on record, so the run cannot be scored on it. Fetch the suite again, "
    "or compute the digests anew (diagnose-bench suite digest SUITE --write) and run again."
)


def _load_suite(run: Path, manifest: RunManifest, suite: str | None) -> Suite:
    if suite is not None:
        return load_suite(suite)
    try:
        return load_suite(manifest.suite.path)
    except SuiteError as error:
        raise SuiteError(
            f"{error} The run in {run} was made on suite {manifest.suite.name}; "
            "say where it is now with --suite."
        ) from error
