"""``python -m diagnose_bench.schemas [--write]``: compare the committed schemas, or write them anew."""

from __future__ import annotations

import sys

from diagnose_bench.files import write_atomic
from diagnose_bench.schemas import SCHEMAS, committed_bytes, committed_file


def main(arguments: list[str]) -> int:
    """Write the schemas that differ, or name them and return 1."""
    write = arguments == ["--write"]
    if arguments and not write:
        print("usage: python -m diagnose_bench.schemas [--write]", file=sys.stderr)
        return 2
    stale = []
    for name in SCHEMAS:
        file, data = committed_file(name), committed_bytes(name)
        if not file.is_file() or file.read_bytes() != data:
            stale.append(name)
            if write:
                write_atomic(file, data)
    for name in stale:
        print(f"{committed_file(name).name}: {'written' if write else 'differs from its model'}")
    return 1 if stale and not write else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
