"""Reading what a run left on disk: format versions, damage, whether two runs are one. Writes nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from diagnose_bench import __version__
from diagnose_bench.errors import DiagnoseBenchError, RunError, RunFormatError
from diagnose_bench.files import read_json
from diagnose_bench.records import RUN_FORMAT_VERSION, RunManifest

MANIFEST = "run.json"
_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_RESUMED_FIELDS = (
    "agent",
    "suite.name",
    "suite.digest",
    "policy",
    "sandbox.backend",
    "sandbox.agent_process",
    "sandbox.limits",
    "sandbox.null_snapshot",
    "sandbox.toolbox",
    "sandbox.detection",
    "plan",
)
_Model = TypeVar("_Model", bound=BaseModel)


def load_run_manifest(path: Path) -> RunManifest:
    """Read run.json.

    Raises
    ------
    RunError
        There is no run.
    RunFormatError
        run.json is damaged, or another format version wrote it.
    """
    file = path / MANIFEST
    if not file.is_file():
        hint = "it does not exist" if not path.exists() else f"it has no {MANIFEST}"
        raise RunError(f'{path}: is not a run: {hint}. A run is made with "diagnose-bench run --out {path}".')
    manifest = load_record(file, "run manifest", RunManifest, "Restore it, or run again into another folder.")
    check_ids(manifest, file)
    return manifest


def load_record(path: Path, what: str, model: type[_Model], remedy: str) -> _Model:
    """Read one JSON file of a run; damage is a `RunFormatError` with file, place and remedy."""
    try:
        value = read_json(path, what)
    except DiagnoseBenchError as error:
        # What cannot be read may be whole: nothing that destroys it is advised.
        advice = "" if isinstance(error.__cause__, OSError) else f" {remedy}"
        raise RunFormatError(f"{error}{advice}") from error
    _check_version(path, value, what)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise RunFormatError(f"{path}: the {what} is damaged: {_first(error)}. {remedy}") from error


def parse_line(path: Path, number: int, line: bytes, what: str, model: type[_Model]) -> _Model:
    """Read one line of a trial's JSON Lines; damage is a `RunFormatError` with the line."""
    try:
        return model.model_validate(json.loads(line))
    except (ValueError, RecursionError) as error:
        reason = _first(error) if isinstance(error, ValidationError) else str(error)
        raise RunFormatError(
            f"{path}: line {number}: the {what} is damaged: {reason}. "
            "Delete that trial's folder and run again with --resume."
        ) from error


def check_ids(manifest: RunManifest, where: Path) -> None:
    """Refuse a plan whose ids are no safe folder names."""
    for index, trial in enumerate(manifest.plan):
        if not _SAFE_ID.fullmatch(trial.scenario_id) or trial.repeat < 1:
            raise RunFormatError(
                f"{where}: $.plan[{index}]: {trial.scenario_id!r}, repeat {trial.repeat}, cannot name a "
                "trial: an id has letters, digits, '.', '_' and '-', a repeat counts from 1."
            )


def check_same(path: Path, found: RunManifest, wanted: RunManifest) -> None:
    """Refuse to resume a run with other settings; the message names the first that differs."""
    for name in _RESUMED_FIELDS:
        old, new = _field(found, name), _field(wanted, name)
        if old == new:
            continue
        if name == "plan":
            raise RunError(f"{path}: cannot resume: the plan (scenarios and repeats) differs from run.json.")
        if isinstance(old, BaseModel) and isinstance(new, BaseModel):
            old, new = old.model_dump(mode="json"), new.model_dump(mode="json")
        if isinstance(old, dict) and isinstance(new, dict):
            key = next(key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key))
            name, old, new = f"{name}.{key}", old.get(key), new.get(key)
        raise RunError(
            f"{path}: cannot resume: {name} was {json.dumps(old)} and is now {json.dumps(new)}. "
            "Give the same settings as before, or choose another --out."
        )


def _field(manifest: RunManifest, name: str) -> Any:
    value: Any = manifest
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _check_version(path: Path, value: Any, what: str) -> None:
    found = value.get("format_version") if isinstance(value, dict) else None
    if found == RUN_FORMAT_VERSION and not isinstance(found, bool):
        return
    if isinstance(found, int) and not isinstance(found, bool):
        writer = value.get("version")
        named = f" {writer}" if isinstance(writer, str) and writer != __version__ else ""
        remedy = "Upgrade diagnose-bench" if found > RUN_FORMAT_VERSION else "Read it with that version"
        raise RunFormatError(
            f"{path}: the {what} has format version {found}, written by another diagnose-bench{named}; "
            f"this one ({__version__}) reads format version {RUN_FORMAT_VERSION}. {remedy}, or run again."
        )
    raise RunFormatError(
        f"{path}: the {what} has no format_version, so it is none of ours. Give the folder of a run."
    )


def _first(error: ValidationError) -> str:
    detail = error.errors(include_url=False, include_input=False)[0]
    return f"{_json_path(detail['loc'])}: {detail['msg']}"


def _json_path(location: tuple[int | str, ...]) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
