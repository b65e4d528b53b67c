"""Metric series in memory, and their CSV files: one file per metric, one column per label."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from pathlib import Path

from diagnose_bench.files import write_atomic
from diagnose_bench.reconstruct.clock import Clock

Labels = tuple[tuple[str, str], ...]


@dataclass
class Series:
    """Samples of one series in time order: (seconds from the window's start, value)."""

    labels: Labels
    samples: list[tuple[float, float]] = field(default_factory=list)


@dataclass
class MetricStore:
    """All series of a scenario, by metric name."""

    metrics: dict[str, dict[Labels, Series]] = field(default_factory=dict)

    def add(self, name: str, labels: dict[str, str], time: float, value: float, digits: int = 3) -> None:
        """Append a sample."""
        key = tuple(sorted(labels.items()))
        series = self.metrics.setdefault(name, {})
        if key not in series:
            series[key] = Series(key)
        rounded = round(value, digits)
        series[key].samples.append((time, rounded if digits else float(int(rounded))))

    def series(self, name: str) -> list[Series]:
        """Series of a metric."""
        return list(self.metrics.get(name, {}).values())

    def drop(self, names: list[str], start: float, end: float) -> None:
        """Remove samples in [start, end): a gap in the collection."""
        for name, by_labels in self.metrics.items():
            if names and name not in names:
                continue
            for series in by_labels.values():
                series.samples = [one for one in series.samples if not start <= one[0] < end]


def format_value(value: float) -> str:
    """Shortest text of a value; whole numbers without a point."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def write_metrics(store: MetricStore, folder: Path, clock: Clock) -> None:
    """One CSV per metric: timestamp, value, then the labels in alphabetical order; rows in time order."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted(store.metrics):
        by_labels = store.metrics[name]
        columns = sorted({label for key in by_labels for label, _ in key})
        rows = []
        for key in sorted(by_labels):
            values = dict(key)
            for time, value in by_labels[key].samples:
                rows.append((time, [values.get(column, "") for column in columns], value))
        rows.sort(key=lambda row: (row[0], row[1]))
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(["timestamp", "value", *columns])
        for time, cells, value in rows:
            writer.writerow([clock.rfc3339(time), format_value(value), *cells])
        write_atomic(folder / f"{name}.csv", buffer.getvalue().encode())
