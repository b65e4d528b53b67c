"""Sandbox backends behind one contract: one snapshot read-only, one scratch folder, no network.

Everything that other packages use is named here; nothing here knows a truth, a suite or a run.
"""

from diagnose_bench.sandbox.base import ExecResult, Sandbox
from diagnose_bench.sandbox.limits import Limits
from diagnose_bench.sandbox.opening import BACKENDS, open_sandbox, open_shell
from diagnose_bench.sandbox.store import SnapshotStore

__all__ = ["BACKENDS", "ExecResult", "Limits", "Sandbox", "SnapshotStore", "open_sandbox", "open_shell"]
