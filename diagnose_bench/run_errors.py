"""What a person is told when a run folder takes no more: what, and how to go on. Writes nothing."""

from __future__ import annotations

from pathlib import Path

from diagnose_bench.errors import RunError


def cannot_write(path: Path, error: OSError) -> RunError:
    """The error for a file of a run that the system does not let us write."""
    return RunError(
        f"{path}: cannot write: {error.strerror}. Finished trials are kept: free some space or mend the "
        "permissions, then run the same command with --resume."
    )
