"""``python -m diagnose_bench.sandbox.ready BACKEND``: whether a backend passes its self-check; for `make`."""

from __future__ import annotations

import sys

from diagnose_bench.errors import DiagnoseBenchError
from diagnose_bench.sandbox.self_check import self_check


def main(backend: str) -> int:
    """0 if it does; else 1, and the reason on stderr."""
    try:
        self_check(backend)
    except DiagnoseBenchError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "auto"))
