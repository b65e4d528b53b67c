"""Reads the telemetry of a native snapshot for the checks, record by record. Judges nothing."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from diagnose_bench.errors import SuiteError
from diagnose_bench.inventory import Inventory
from diagnose_bench.reconstruct.store import Series
from diagnose_bench.snapshot import SnapshotManifest, load_manifest

_MAX_FIELD = 1 << 24


def seconds(text: str) -> float:
    """Unix time of an RFC 3339 text.

    Raises
    ------
    ValueError
        No time.
    """
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


class SnapshotFiles:
    """One snapshot, its files opened when they are asked for.

    Parameters
    ----------
    folder : Path
        The snapshot.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def manifest(self) -> SnapshotManifest:
        """Its manifest."""
        return load_manifest(self.folder)

    @cached_property
    def inventory(self) -> Inventory:
        """Its objects."""
        return Inventory.load(self.folder)

    @property
    def is_native(self) -> bool:
        """Whether the telemetry has the native layout: foreign files lie under ``raw/``."""
        return not self.manifest.files_of("raw")

    @cached_property
    def window(self) -> tuple[float, float, float]:
        """Start, detection and end as Unix times."""
        window = self.manifest.window
        return seconds(window.start), seconds(window.detected_at), seconds(window.end)

    def has(self, name: str) -> bool:
        """Whether a file is there."""
        return (self.folder / name).is_file()

    def records(self, name: str) -> Iterator[dict[str, Any]]:
        """Records of a JSON-lines file, none if it is missing.

        Raises
        ------
        SuiteError
            A line is no JSON object.
        """
        path = self.folder / name
        if not path.is_file():
            return
        with path.open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise SuiteError(f"{path}: line {number} is no JSON: {error}.") from error
                if not isinstance(record, dict):
                    raise SuiteError(f"{path}: line {number} is no JSON object.")
                yield record

    def lines(self, name: str) -> Iterator[str]:
        """Lines of a text file."""
        with (self.folder / name).open(encoding="utf-8", errors="replace") as file:
            yield from file

    @cached_property
    def metric_names(self) -> tuple[str, ...]:
        """Metrics stored as CSV."""
        return tuple(sorted(path.stem for path in (self.folder / "metrics").glob("*.csv")))

    def series(self, metric: str) -> list[Series]:
        """Series of a metric, times in seconds from the window's start; none if there is no such file.

        Raises
        ------
        SuiteError
            A row has no time or value.
        """
        path = self.folder / "metrics" / f"{metric}.csv"
        if not path.is_file():
            return []
        start = self.window[0]
        found: dict[tuple[tuple[str, str], ...], Series] = {}
        csv.field_size_limit(_MAX_FIELD)
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            for number, row in enumerate(csv.DictReader(file), 2):
                try:
                    sample = (seconds(row.pop("timestamp")) - start, float(row.pop("value")))
                except (KeyError, TypeError, ValueError, AttributeError) as error:
                    raise SuiteError(f"{path}: line {number}: no timestamp or value.") from error
                labels = tuple(sorted((key, value) for key, value in row.items() if key and value))
                found.setdefault(labels, Series(labels)).samples.append(sample)
        for series in found.values():
            series.samples.sort(key=lambda one: one[0])
        return list(found.values())
