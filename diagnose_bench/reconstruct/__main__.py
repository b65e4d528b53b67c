"""``python -m diagnose_bench.reconstruct SPECS SUITE TRUTHS``: write a suite from specifications."""

from __future__ import annotations

import sys
from pathlib import Path

from diagnose_bench.errors import DiagnoseBenchError
from diagnose_bench.reconstruct.suite import write_suite

_USAGE = (
    "usage: python -m diagnose_bench.reconstruct SPECIFICATIONS SUITE_FOLDER TRUTH_FOLDER [SCENARIO_ID ...]"
)


def main(arguments: list[str]) -> int:
    """Return the exit code."""
    if len(arguments) < 3:
        print(_USAGE, file=sys.stderr)
        return 2
    try:
        digest = write_suite(Path(arguments[0]), Path(arguments[1]), Path(arguments[2]), only=arguments[3:])
    except DiagnoseBenchError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(digest)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
