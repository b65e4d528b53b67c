"""Runs in a process of their own, so that tests can interrupt and kill them."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

TESTS = Path(__file__).resolve().parent


def in_another_process(tmp_path: Path, body: str, *, wait: bool = True) -> subprocess.Popen[str]:
    head = f"""
        import sys
        sys.path.insert(0, {str(TESTS)!r})
        from pathlib import Path
        from diagnose_bench.agents.factory import make_agent
        from diagnose_bench.errors import DiagnoseBenchError
        from diagnose_bench.run import RunOptions, run_suite
        from diagnose_bench.suite import load_suite
        folder = Path({str(tmp_path)!r})
        suite, out = load_suite(str(folder / "snapshots" / "small")), folder / "run"
    """
    code = textwrap.dedent(head) + textwrap.dedent(body)
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    if wait:
        process.wait(120)
    return process
