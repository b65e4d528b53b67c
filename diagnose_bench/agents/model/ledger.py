"""model_calls.jsonl: each model call of a trial as it happened, and what a run has spent by them.

It is written while the trial goes, so that money is on record even where the trial is not finished.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from diagnose_bench.errors import RunError
from diagnose_bench.files import canonical_json

NAME = "model_calls.jsonl"
_PATTERN = "trials/*/*/model_calls*.jsonl"
_MAX_LINE = 1 << 20


class CallLedger:
    """The file of one trial; a line is appended for each call."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def append(self, line: dict[str, Any]) -> None:
        """Write one line.

        Raises
        ------
        RunError
            It cannot be written (disk full).
        """
        try:
            with self._path.open("ab") as file:
                file.write(canonical_json(line) + b"\n")
        except OSError as error:
            raise RunError(
                f"{self._path}: cannot write: {error.strerror}. Finished trials are kept: free some space or "
                "mend the permissions, then run the same command with --resume."
            ) from error


def spent_usd(run: Path) -> float:
    """What the model calls of a run have cost by its ledgers, unfinished and repeated trials included.

    Raises
    ------
    RunError
        A ledger cannot be read, so that a cap could not be held.
    """
    total = 0.0
    for path in sorted(run.glob(_PATTERN)):
        try:
            with path.open("rb") as file:
                while line := file.readline(_MAX_LINE):
                    total += _cost(line)
        except OSError as error:
            raise RunError(f"{path}: cannot be read: {error.strerror}. Check the permissions.") from error
    return total


def _cost(line: bytes) -> float:
    """Of one line; one that was cut off by a crash holds no cost that is known."""
    try:
        cost = json.loads(line)["cost_usd"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0.0
    is_number = isinstance(cost, int | float) and not isinstance(cost, bool)
    return float(cost) if is_number and math.isfinite(cost) and cost > 0 else 0.0
