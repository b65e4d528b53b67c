"""Run the measurements, print one table, write bench/results.json: ``python -m bench [PART of a name]…``."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy

from bench import resampling, sandbox_rows, speed
from bench.measure import Line

RESULTS = Path(__file__).parent / "results.json"
GROUPS: tuple[Callable[[], Iterator[Line]], ...] = (*speed.LINES, *resampling.LINES, sandbox_rows.sandbox)
"""Add measurements here: a function that yields lines."""


def main(parts: list[str]) -> int:
    lines: list[Line] = []
    print(f"{'':54}{'ratio':>9}  {'ship':>8}{'moonshot':>10}")
    for group in GROUPS:
        if parts and not any(part in group.__name__ for part in parts):
            continue
        for line in group():
            lines.append(line)
            sign = "<=" if line.at_most else ">="
            ratio = "n/a" if line.ratio is None else f"{line.ratio:.4g}"
            targets = f"{sign}{line.ship:>6g}{sign:>4}{line.moonshot:>6g}"
            print(f"{line.name:54}{ratio:>9}  {targets}  {line.verdict}")
            if line.detail:
                print(f"    {line.detail}", flush=True)
    machine = {"cpus": os.cpu_count(), "python": platform.python_version(), "numpy": numpy.__version__}
    if not parts:
        document = {"format_version": 1, "machine": machine, "lines": [line.to_dict() for line in lines]}
        RESULTS.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    return 0


sys.exit(main(sys.argv[1:]))
