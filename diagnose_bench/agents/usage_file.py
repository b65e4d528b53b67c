"""What a program says of its tokens and cost, in the file that DIAGNOSE_BENCH_USAGE names. Measures nothing.

The file is the agent's: optional, bounded, and believed no further than that it stands beside its name.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from diagnose_bench.records import ReportedUsage, Usage
from diagnose_bench.text import visible

USAGE_VARIABLE = "DIAGNOSE_BENCH_USAGE"
MAX_BYTES = 64 << 10


def read_usage(path: Path) -> Usage:
    """Read what the agent reported: all unknown where there is no file, or one that cannot be understood.

    Notes
    -----
    Never raises: whatever the agent left there is its own affair.
    """
    try:
        # Neither through a link nor waiting for a FIFO: the folder is the agent's.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return Usage()
    except OSError as error:
        return _wrong(f"it cannot be read: {error.strerror}")
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return _wrong("it is no regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_BYTES + 1)
    finally:
        os.close(descriptor)
    if not data.strip():
        return Usage()
    if len(data) > MAX_BYTES:
        return _wrong(f"it is larger than {MAX_BYTES} bytes")
    try:
        value: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        return _wrong(f"it is not JSON: {error}")
    try:
        reported = ReportedUsage.model_validate(value)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = "".join(f".{part}" for part in fault["loc"])
        return _wrong(f"${place}: {fault['msg']}")
    known = reported.model_dump(exclude_none=True)
    return Usage(**known, reported_by_agent=True) if known else Usage()


def _wrong(reason: str) -> Usage:
    text = visible(reason, keep_lines=False)[:300]
    return Usage(problem=f"What the agent reported of its tokens and cost is left out: {text}.")
