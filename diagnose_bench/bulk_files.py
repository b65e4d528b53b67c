"""What a bulk scoring leaves on disk: scorecards, rejected rows, trials. Each appears whole or not at all."""

from __future__ import annotations

import contextlib
import heapq
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from diagnose_bench.bulk_scorecard import Plan
from diagnose_bench.bulk_trials import OUTCOMES, TrialArray, counts_of, measures_of
from diagnose_bench.errors import DiagnoseBenchError, UsageError
from diagnose_bench.files import canonical_json, sha256_of_bytes
from diagnose_bench.outcome import Outcome, Profile

INDEX = "index.json"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_SLUG = 80
_ROWS_AT_ONCE = 100_000


def slugs(agents: Iterable[str]) -> dict[str, str]:
    """A file name for each agent; one that had to be changed, or that another one has, ends in a digest."""
    wanted = {agent: _UNSAFE.sub("-", agent).strip(".-")[:_LONGEST_SLUG] or "agent" for agent in agents}
    taken: dict[str, int] = {}
    for slug in wanted.values():
        taken[slug.lower()] = taken.get(slug.lower(), 0) + 1
    return {
        agent: slug
        if slug == agent and taken[slug.lower()] == 1 and slug.lower() != "index"
        else f"{slug}-{sha256_of_bytes(agent.encode())[:8]}"
        for agent, slug in wanted.items()
    }


@contextmanager
def staged(*targets: Path) -> Iterator[dict[Path, Path]]:
    """A place beside each target to write to; what is left of them is gone at the end, whatever happened.

    Raises
    ------
    DiagnoseBenchError
        Something cannot be written; the targets are as they were.
    """
    suffix = secrets.token_hex(4)
    places = {target: target.parent / f".{target.name}.{suffix}.tmp" for target in targets}
    try:
        yield places
    except OSError as error:
        raise DiagnoseBenchError(
            f"{error.filename or targets[0]}: cannot write: {error.strerror or error}. Nothing was kept; "
            "free some space or choose another place with --out."
        ) from error
    finally:
        for place in places.values():
            if place.is_dir():
                shutil.rmtree(place, ignore_errors=True)
            else:
                with contextlib.suppress(FileNotFoundError):
                    place.unlink()


def check_out(folder: Path) -> None:
    """Refuse a folder that holds anything but scorecards of an earlier bulk scoring.

    Raises
    ------
    UsageError
        It does.
    """
    if not os.path.lexists(folder):
        if not folder.parent.is_dir():
            raise UsageError(f"{folder.parent}: is no folder. Choose another --out.")
        return
    try:
        found = {entry.name for entry in folder.iterdir()}
        index = json.loads((folder / INDEX).read_bytes()) if INDEX in found else {}
        ours = {INDEX, *(entry["scorecard"] for entry in index.get("agents", []))}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        found, ours = {"?"}, set()
    if not found <= ours:
        raise UsageError(
            f"{folder}: holds other things than scorecards of bulk rows. Choose another folder with --out."
        )


def publish_folder(staging: Path, folder: Path) -> None:
    """Put a folder in place of the one that is there."""
    old = staging.with_suffix(".old")
    if folder.exists():
        os.rename(folder, old)
    os.rename(staging, folder)
    if old.exists():
        shutil.rmtree(old)


def write_document(path: Path, value: Any) -> None:
    """Write a JSON document into a staging folder, in one line: an indented one takes five times as long."""
    path.write_bytes(canonical_json(value) + b"\n")


def write_parts(path: Path, parts: Iterable[bytes]) -> None:
    """Write a document into a staging folder part by part."""
    with path.open("wb", buffering=1 << 20) as file:
        for part in parts:
            file.write(part)


class RejectedRows:
    """Rejected rows, written as they are found.

    Parameters
    ----------
    path : Path
        A file that is not there yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self.n_rows = 0

    def add(self, line: int, reason: str) -> None:
        """Keep one row; lines come in ascending order."""
        if self._file is None:
            self._file = self._path.open("wb")
        self.n_rows += 1
        self._file.write(_rejected(line, reason))

    def merge(self, later: Iterable[tuple[int, str]]) -> None:
        """Put in rows that were only found at the end, each in its place."""
        if self._file is not None:
            self._file.close()
        merged = self._path.with_suffix(".merged")
        try:
            with merged.open("wb") as out:
                earlier = _lines_of(self._path)
                added = ((line, _rejected(line, reason)) for line, reason in later)
                n_rows = 0
                for _, text in heapq.merge(earlier, added):
                    out.write(text)
                    n_rows += 1
                out.flush()
                os.fsync(out.fileno())
            self.n_rows = n_rows
            os.replace(merged, self._path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                merged.unlink()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _rejected(line: int, reason: str) -> bytes:
    return canonical_json({"line": line, "reason": reason}) + b"\n"


def _lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    if not path.exists():
        return
    with path.open("rb") as file:
        for text in file:
            yield json.loads(text)["line"], text


def write_trials(
    path: Path,
    trials: TrialArray,
    agents: list[str],
    plan: Plan,
    n_root_causes: np.ndarray[Any, np.dtype[np.int64]],
    refused: np.ndarray[Any, np.dtype[np.bool_]],
) -> None:
    """Write one row per planned trial of each agent as Parquet; ``line`` is null for an absent one.

    Parameters
    ----------
    path : Path
        The file.
    trials : TrialArray
        By agent, scenario and repeat.
    agents : list of str
        Their names.
    plan : Plan
        What was planned.
    n_root_causes, refused : ndarray
        By scenario of the suite.
    """
    import duckdb

    with duckdb.connect(config={"threads": 1}) as connection:
        created = False
        for columns in _planned_columns(trials, agents, plan, n_root_causes, refused):
            connection.register("part", columns)
            connection.execute(
                "INSERT INTO trials SELECT * FROM part" if created else "CREATE TABLE trials AS FROM part"
            )
            created = True
            connection.unregister("part")
        try:
            connection.execute(f"COPY trials TO '{str(path).replace(chr(39), chr(39) * 2)}' (FORMAT parquet)")
        except duckdb.IOException as error:
            raise DiagnoseBenchError(
                f"{path}: cannot write: {str(error).splitlines()[0]}. Free some space, then try again."
            ) from error


def _planned_columns(
    trials: TrialArray,
    agents: list[str],
    plan: Plan,
    n_root_causes: np.ndarray[Any, np.dtype[np.int64]],
    refused: np.ndarray[Any, np.dtype[np.bool_]],
) -> Iterator[dict[str, Any]]:
    n_cells = len(plan.scenario_ids) * plan.n_repeats
    scenarios = np.flatnonzero(plan.places >= 0)
    known = plan.places[trials["scenario"]]
    trials, known = trials[known >= 0], known[known >= 0]
    cells = (trials["agent"].astype(np.int64) * len(plan.scenario_ids) + known) * plan.n_repeats
    cells += trials["repeat"] - 1
    for start in range(0, n_cells * len(agents), _ROWS_AT_ONCE):
        stop = min(start + _ROWS_AT_ONCE, n_cells * len(agents))
        first, last = np.searchsorted(cells, (start, stop))
        numbers = np.arange(start, stop)
        rows = np.zeros(stop - start, dtype=trials.dtype)
        rows["agent"], within = np.divmod(numbers, n_cells)
        rows["scenario"] = scenarios[within // plan.n_repeats]
        rows["repeat"] = within % plan.n_repeats + 1
        rows["outcome"] = OUTCOMES.index(Outcome.NO_DIAGNOSIS)
        rows[cells[first:last] - start] = trials[first:last]
        yield _columns_of(rows, agents, plan, n_root_causes, refused)


def _columns_of(
    rows: TrialArray,
    agents: list[str],
    plan: Plan,
    n_root_causes: np.ndarray[Any, np.dtype[np.int64]],
    refused: np.ndarray[Any, np.dtype[np.bool_]],
) -> dict[str, Any]:
    names = np.array(agents, dtype=object)
    ids = np.array(plan.scenario_ids, dtype=object)
    outcomes = np.array([str(outcome) for outcome in OUTCOMES], dtype=object)
    unscored = refused[rows["scenario"]]
    columns: dict[str, Any] = {
        "agent": names[rows["agent"]],
        "scenario_id": ids[plan.places[rows["scenario"]]],
        "repeat": np.ascontiguousarray(rows["repeat"]),
        "line": np.ma.array(rows["line"], mask=rows["line"] == 0),
        "outcome": outcomes[rows["outcome"]],
        "n_root_causes": np.ma.array(n_root_causes[rows["scenario"]], mask=unscored),
    }
    for profile, prefix in ((Profile.ITBENCH_AA, ""), (Profile.STRICT, "strict_")):
        counts = counts_of(rows, n_root_causes, profile)
        values: dict[str, Any] = {
            "n_correct": counts.n_correct,
            "n_wrong": counts.n_wrong,
            **measures_of(rows, n_root_causes, profile),
        }
        values["full_recall"] = values["precision_at_full_recall"] > 0
        values["exact"] = values["precision_at_full_recall"] == 1
        columns |= {prefix + name: np.ma.array(value, mask=unscored) for name, value in values.items()}
    return columns
