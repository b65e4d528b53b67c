"""The truths of a suite: find the file of a scenario, read any of its forms, mend it, check it.

For the score side only: nothing that runs an agent may import this module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from diagnose_bench.errors import DiagnoseBenchError, GroundTruthError
from diagnose_bench.files import canonical_json, read_bytes, sha256_of_bytes
from diagnose_bench.ground_truth_checks import Draft, finish
from diagnose_bench.ground_truth_document import MAX_TRUTH_BYTES, parse_document
from diagnose_bench.ground_truth_itbench import draft_of_v1, draft_of_v2, itbench_scenario_id, scenario_number
from diagnose_bench.ground_truth_models import (
    Decoy,
    Evidence,
    GroundTruth,
    Group,
    Match,
    Propagation,
    TruthFormat,
)
from diagnose_bench.ground_truth_native import draft_of_native, native_schema
from diagnose_bench.ground_truth_patches import PATCH_FILE_NAME, AppliedPatch, PatchFile, load_patches
from diagnose_bench.ground_truth_refusal import (
    JsonPath,
    Problem,
    Refusal,
    json_path,
    message_of,
    quoted,
    refuse,
)
from diagnose_bench.ground_truth_yaml import Document

__all__ = [
    "AppliedPatch",
    "Decoy",
    "Evidence",
    "GroundTruth",
    "GroundTruthError",
    "Group",
    "LoadedTruth",
    "Match",
    "PatchFile",
    "Propagation",
    "TruthFormat",
    "TruthSet",
    "ground_truth_schema",
    "load_ground_truth",
    "load_ground_truths",
    "load_patches",
    "load_truths",
]

_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NO_ID = "the truth names no scenario"
_READERS: dict[str, Callable[[Any, str], Draft]] = {
    "native": draft_of_native,
    "itbench-v1": draft_of_v1,
    "itbench-v2": draft_of_v2,
}


@dataclass(frozen=True)
class LoadedTruth:
    """A truth, and how it came to be what it is.

    ``warnings`` are ``<json path>: <what was dropped>``; ``digest`` is the SHA-256 of the file's bytes,
    before any patch (of the entry's canonical JSON where one file holds many truths).
    """

    truth: GroundTruth
    warnings: tuple[str, ...]
    patches: tuple[AppliedPatch, ...]
    digest: str


@dataclass(frozen=True)
class TruthSet:
    """The truths of a suite; ``refused`` has the message of each scenario without a usable one."""

    truths: dict[str, LoadedTruth] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    digest: str = ""
    patches_digest: str | None = None

    @property
    def warnings(self) -> dict[str, tuple[str, ...]]:
        """What was dropped, by scenario; scenarios without a warning are absent."""
        return {name: loaded.warnings for name, loaded in self.truths.items() if loaded.warnings}

    @property
    def patches(self) -> tuple[AppliedPatch, ...]:
        """The patches that were applied, in the order of the scenarios."""
        return tuple(patch for loaded in self.truths.values() for patch in loaded.patches)


def ground_truth_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of the native form."""
    return native_schema()


def load_ground_truth(
    path: Path, *, scenario_id: str | None = None, patches: PatchFile | None = None
) -> LoadedTruth:
    """Read the truth of one scenario, in any form.

    Parameters
    ----------
    path : Path
        A YAML or JSON file; one that lists several scenarios needs ``scenario_id``.
    scenario_id : str or None
        The scenario that the file must be about: the same id, for ITBench's forms the same number. None takes
        the file's own, or, where an ITBench file names none, the name of the file or its folder.
    patches : PatchFile or None
        Patches of this scenario are applied before anything is checked.

    Raises
    ------
    GroundTruthError
        The truth is refused: ``<file>: <json path>: <reason>``, one line for each problem.
    """
    opened = _open(path, _bytes(path), scenario_id)
    mended, applied = _mend(opened, patches)
    return _check(opened, mended, applied)


def load_ground_truths(
    path: Path, *, patches: PatchFile | None = None
) -> dict[str, LoadedTruth | GroundTruthError]:
    """Read a file that lists the truths of many scenarios; a refused one does not hide the others.

    Returns
    -------
    dict
        By scenario id (``scenario-038`` for ITBench's 38); entries without an id by their JSON path.

    Raises
    ------
    GroundTruthError
        The file itself cannot be read.
    """
    document = _parse(path, _bytes(path))
    is_list = isinstance(document.value, list)
    loaded: dict[str, LoadedTruth | GroundTruthError] = {}
    for index, entry in enumerate(document.value if is_list else [document.value]):
        place: JsonPath = (index,) if is_list else ()
        name = _own_id(entry)
        key = name or json_path(place)
        try:
            if name is None:
                raise _error(path, document, Problem(place, _NO_ID))
            if key in loaded:
                raise _error(path, document, Problem(place, f"the scenario {quoted(key)} is listed twice"))
            opened = _Opened(path, document, place, entry, name, sha256_of_bytes(canonical_json(entry)))
            loaded[key] = _check(opened, *_mend(opened, patches))
        except GroundTruthError as error:
            loaded[key] = error
    return loaded


def load_truths(folder: Path, scenario_ids: Sequence[str]) -> TruthSet:
    """Read the truths of a suite: ``<folder>/<scenario_id>.yaml``, mended by ``<folder>/patches.yaml``.

    Notes
    -----
    A missing or refused truth lands in ``refused`` and is not raised, so that a scenario keeps its place in
    the denominator.

    Raises
    ------
    GroundTruthError
        The folder does not exist, or the patch file is malformed, names a scenario that is not there, or does
        not apply.
    """
    if not folder.is_dir():
        raise GroundTruthError(f"{folder}: no folder of ground truths. Say where they are, or create it.")
    patch_path = folder / PATCH_FILE_NAME
    patches = load_patches(patch_path) if patch_path.exists() or patch_path.is_symlink() else None
    if patches is not None:
        others = {path.stem for path in folder.glob("*.yaml")} - {patch_path.stem}
        patches.check_scenarios(others.union(scenario_ids))
    truths: dict[str, LoadedTruth] = {}
    refused: dict[str, str] = {}
    digests: dict[str, str | None] = dict.fromkeys(scenario_ids)
    for scenario_id in scenario_ids:
        try:
            if not _SAFE_ID.fullmatch(scenario_id) or scenario_id == patch_path.stem:
                raise GroundTruthError(f"{folder}: {quoted(scenario_id)} cannot be the id of a scenario.")
            path = folder / f"{scenario_id}.yaml"
            data = _bytes(path)
            digests[scenario_id] = sha256_of_bytes(data)
            opened = _open(path, data, scenario_id)
        except GroundTruthError as error:
            refused[scenario_id] = str(error)
            continue
        # Outside of the try: a patch that does not apply is a fault of the patch file, not of the truth.
        mended, applied = _mend(opened, patches)
        try:
            truths[scenario_id] = _check(opened, mended, applied)
        except GroundTruthError as error:
            refused[scenario_id] = str(error)
    return TruthSet(
        truths=truths,
        refused=refused,
        digest=sha256_of_bytes(canonical_json(digests)),
        patches_digest=patches.digest if patches is not None else None,
    )


@dataclass(frozen=True)
class _Opened:
    """The document of one scenario, before it is mended and checked."""

    path: Path
    document: Document
    place: JsonPath
    value: Any
    scenario_id: str
    digest: str


def _bytes(path: Path) -> bytes:
    try:
        return read_bytes(path, "ground truth", MAX_TRUTH_BYTES)
    except DiagnoseBenchError as error:
        raise GroundTruthError(str(error)) from error


def _parse(path: Path, data: bytes) -> Document:
    try:
        return parse_document(data)
    except Refusal as refusal:
        raise GroundTruthError(message_of(path, refusal.problems)) from refusal


def _open(path: Path, data: bytes, scenario_id: str | None) -> _Opened:
    document = _parse(path, data)
    value = document.value
    place: JsonPath = ()
    if isinstance(value, list):
        place, value = _only_entry(path, document, scenario_id)
    name = scenario_id or _own_id(value) or _id_of_path(path)
    if name is None:
        raise _error(path, document, Problem(place, _NO_ID))
    return _Opened(path, document, place, value, name, sha256_of_bytes(data))


def _only_entry(path: Path, document: Document, scenario_id: str | None) -> tuple[JsonPath, Any]:
    found = [
        ((index,), entry)
        for index, entry in enumerate(document.value)
        if len(document.value) == 1
        or (scenario_id is not None and _same_scenario(_own_id(entry), scenario_id))
    ]
    if len(found) != 1:
        of_which = f" of {quoted(scenario_id)}" if scenario_id else ""
        raise _error(
            path, document, Problem((), f"expected one ground truth{of_which}, found {len(found)} in a list")
        )
    return found[0]


def _mend(opened: _Opened, patches: PatchFile | None) -> tuple[Any, tuple[AppliedPatch, ...]]:
    return (opened.value, ()) if patches is None else patches.apply(opened.scenario_id, opened.value)


def _check(opened: _Opened, value: Any, applied: tuple[AppliedPatch, ...]) -> LoadedTruth:
    # A patch moves the parts of a file, so their lines are no longer known.
    document = Document(None) if applied else opened.document
    try:
        form = _form(value)
        own = _own_id(value)
        if own is not None and not _same_scenario(own, opened.scenario_id, exactly=form == "native"):
            raise refuse((), f"the truth is about {quoted(own)}, expected {quoted(opened.scenario_id)}")
        truth, warnings = finish(_READERS[form](value, opened.scenario_id))
    except Refusal as refusal:
        placed = [replace(problem, path=(*opened.place, *problem.path)) for problem in refusal.problems]
        raise GroundTruthError(message_of(opened.path, placed, document)) from refusal
    return LoadedTruth(truth, warnings, applied, opened.digest)


def _form(value: Any) -> TruthFormat:
    """Which of the accepted forms a document has."""
    if not isinstance(value, dict):
        raise refuse((), "a ground truth is a mapping with groups")
    if "format_version" in value:
        return "native"
    body = value["spec"] if isinstance(value.get("spec"), dict) else value
    api_version = value.get("apiVersion")
    if api_version not in (None, "itbench.io/v1", "itbench.io/v2"):
        raise refuse(("apiVersion",), "expected itbench.io/v1 or itbench.io/v2")
    if api_version == "itbench.io/v2" or (
        api_version is None and "entities" in body and "groups" not in body
    ):
        return "itbench-v2"
    if api_version is None and "groups" not in body:
        reason = "no ground truth: neither format_version (ours) nor groups or spec.entities (ITBench's)"
        raise refuse((), reason)
    return "itbench-v1"


def _own_id(value: Any) -> str | None:
    """The scenario id that a document names itself, ITBench's as ``scenario-038``."""
    if not isinstance(value, dict):
        return None
    if "format_version" in value:
        name = value.get("scenario_id")
        return name if isinstance(name, str) and name else None
    return itbench_scenario_id(value)


def _id_of_path(path: Path) -> str | None:
    for name in (path.stem, path.parent.name):
        if re.fullmatch(r"scenario[-_ ]?[0-9]+", name, re.IGNORECASE):
            return f"scenario-{scenario_number(name):03d}"
    return None


def _same_scenario(own: str | None, wanted: str, exactly: bool = False) -> bool:
    if own is None or own == wanted or exactly:
        return own == wanted
    number = scenario_number(own)
    return number is not None and number == scenario_number(wanted)


def _error(path: Path, document: Document, problem: Problem) -> GroundTruthError:
    return GroundTruthError(message_of(path, [problem], document))
