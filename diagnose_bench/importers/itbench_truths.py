"""Finds ITBench's truths in files and folders and keeps them as they were written. Judges none of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diagnose_bench.errors import DiagnoseBenchError, SuiteError
from diagnose_bench.files import read_bytes
from diagnose_bench.ground_truth_document import MAX_TRUTH_BYTES, parse_document
from diagnose_bench.ground_truth_itbench import itbench_scenario_id
from diagnose_bench.ground_truth_patches import PATCH_FILE_NAME
from diagnose_bench.ground_truth_refusal import Refusal, message_of
from diagnose_bench.snapshot_rows import MAX_RECORD_BYTES

# The first of these in a folder is taken: v1 has groups and root causes, what is called plainly may be v2.
_STEMS = ("groundtruth_v1", "ground_truth_v1", "ground_truth", "groundtruth")
_SUFFIXES = (".yaml", ".yml", ".json")
_FOLDER = re.compile(r"scenario[-_ ]?0*([0-9]{1,9})", re.IGNORECASE)
_FILE = re.compile(r"(?:scenario[-_ ]?)?0*([0-9]{1,9})\.(?:yaml|yml|json)", re.IGNORECASE)
ROWS_NAME = "data.jsonl"
_MAX_DEPTH = 6
_WHERE_TRUTHS_LIE = (
    "Give a folder with Scenario-N folders (N is the number) that hold the evidence and the truth as "
    f"{', '.join(_STEMS)} with {', '.join(_SUFFIXES)}; or truths alone: files named scenario-N.yaml, "
    f"a {ROWS_NAME} with a column ground_truth_yaml, or one YAML or JSON file with a truth or a list. "
    "Truths that lie elsewhere than the evidence are given with --truths."
)


@dataclass(frozen=True)
class SourceTruth:
    """One scenario's truth, unread."""

    origin: str
    """Where it came from, for the report."""
    data: bytes
    split: str | None = None


def scenario_id_of_folder(name: str) -> str | None:
    """Return the id that a folder such as ``Scenario-2`` becomes, or None for other names."""
    match = _FOLDER.fullmatch(name)
    return f"scenario-{int(match[1]):03d}" if match else None


def truth_of_folder(folder: Path) -> SourceTruth | None:
    """Return the truth that lies in a scenario's folder; of several forms the one with root causes (v1)."""
    found = [folder / (stem + suffix) for stem in _STEMS for suffix in _SUFFIXES]
    found = [path for path in found if path.is_file()]
    if not found:
        return None
    left = f" (left out: {', '.join(path.name for path in found[1:])})" if found[1:] else ""
    return SourceTruth(f"{found[0]}{left}", _bytes(found[0]))


def read_truths(path: Path) -> dict[str, SourceTruth]:
    """Find the truths of many scenarios.

    Parameters
    ----------
    path : Path
        A YAML or JSON file with one truth or a list of them; a ``data.jsonl`` with the column
        ``ground_truth_yaml``; or a folder with these rows, with ``scenario_N/groundtruth*.yaml``, or with
        ``scenario-N.yaml``.

    Raises
    ------
    SuiteError
        Nothing there is a truth, one cannot be told which scenario it belongs to, or two belong to one.
    """
    found = _one_each(path, _truths_below(path) if path.is_dir() else _truths_in_file(path))
    if not found:
        raise SuiteError(f"{path}: no ground truth was found there. {_WHERE_TRUTHS_LIE}")
    return dict(sorted(found.items()))


def read_rows(path: Path) -> dict[str, SourceTruth]:
    """Return the truths in the rows of a ``data.jsonl``; none if there is no such file.

    Raises
    ------
    SuiteError
        A row is no JSON, names no scenario, or names one that another row has.
    """
    return _one_each(path, _truths_in_rows(path)) if path.is_file() else {}


def _one_each(path: Path, truths: Iterable[tuple[str, SourceTruth]]) -> dict[str, SourceTruth]:
    found: dict[str, SourceTruth] = {}
    for scenario_id, truth in truths:
        if scenario_id in found:
            raise SuiteError(
                f"{path}: two truths for {scenario_id}: {found[scenario_id].origin} and {truth.origin}. "
                "Give the folder or file that has the right one."
            )
        found[scenario_id] = truth
    return found


def patch_file_of(path: Path) -> bytes | None:
    """Return the patch file that lies beside the truths of a folder."""
    file = path / PATCH_FILE_NAME
    return _bytes(file) if file.is_file() else None


def folders_below(root: Path) -> Iterator[Path]:
    """Yield a folder and those below it, not too deep; hidden ones and links are passed over."""
    waiting = [(root, 0)]
    while waiting:
        folder, depth = waiting.pop()
        yield folder
        if depth < _MAX_DEPTH and (depth == 0 or scenario_id_of_folder(folder.name) is None):
            try:
                below = [entry for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink()]
            except OSError as error:
                raise SuiteError(f"{folder}: cannot look into the folder: {error.strerror}.") from error
            waiting.extend(
                (entry, depth + 1) for entry in sorted(below, reverse=True) if entry.name[0] != "."
            )


def _truths_below(root: Path) -> Iterator[tuple[str, SourceTruth]]:
    for folder in folders_below(root):
        scenario_id = scenario_id_of_folder(folder.name)
        if scenario_id is not None and (truth := truth_of_folder(folder)) is not None:
            yield scenario_id, truth
            continue
        for path in sorted(folder.iterdir()):
            if path.name == ROWS_NAME and path.is_file():
                yield from _truths_in_rows(path)
            elif (match := _FILE.fullmatch(path.name)) and path.is_file():
                yield f"scenario-{int(match[1]):03d}", SourceTruth(str(path), _bytes(path))


def _truths_in_file(path: Path) -> Iterator[tuple[str, SourceTruth]]:
    if path.suffix == ".jsonl":
        yield from _truths_in_rows(path)
        return
    data = _bytes(path)
    try:
        value = parse_document(data).value
    except Refusal as error:
        raise SuiteError(message_of(path, error.problems)) from error
    if not isinstance(value, list):
        yield _id_of(value, path) or _unnamed(str(path)), SourceTruth(str(path), data)
        return
    for index, entry in enumerate(value):
        where = f"{path}: $[{index}]"
        text = json.dumps(entry, ensure_ascii=False, indent=1, default=str) + "\n"
        yield _id_of(entry) or _unnamed(where), SourceTruth(where, text.encode("utf-8", "replace"))


def _truths_in_rows(path: Path) -> Iterator[tuple[str, SourceTruth]]:
    """Yield the truths of rows that carry them as text; other rows are no truths."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_RECORD_BYTES), b""), 1):
                where = f"{path}: line {number}"
                row = _row(line, where) if line.strip() else None
                if not isinstance(row, dict) or not isinstance(row.get("ground_truth_yaml"), str):
                    continue
                scenario_id = scenario_id_of_folder(str(row.get("scenario_id")))
                split = row.get("source_split")
                text = row["ground_truth_yaml"].encode("utf-8", "replace")
                yield (
                    scenario_id or _unnamed(where),
                    SourceTruth(where, text, split if isinstance(split, str) else None),
                )
    except OSError as error:
        raise SuiteError(f"{path}: cannot read the file: {error.strerror}.") from error


def _row(line: bytes, where: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SuiteError(f"{where}: is no JSON: {error}.") from error


def _id_of(value: Any, path: Path | None = None) -> str | None:
    named = itbench_scenario_id(value) if isinstance(value, dict) else None
    if named is not None and re.fullmatch(r"scenario-[0-9]+", named):
        return named
    if path is None:
        return None
    match = _FILE.fullmatch(path.name)
    return f"scenario-{int(match[1]):03d}" if match else scenario_id_of_folder(path.parent.name)


def _unnamed(where: str) -> str:
    raise SuiteError(f'{where}: names no scenario. Give it an "id" with the scenario\'s number.')


def _bytes(path: Path) -> bytes:
    try:
        return read_bytes(path, "ground truth", MAX_TRUTH_BYTES)
    except DiagnoseBenchError as error:
        raise SuiteError(str(error)) from error
