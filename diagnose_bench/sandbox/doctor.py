"""What works on this machine: one line for each backend, with what to type where it does not work."""

from __future__ import annotations

from dataclasses import dataclass

from diagnose_bench.errors import SandboxError
from diagnose_bench.sandbox import agent_process
from diagnose_bench.sandbox.self_check import self_check


@dataclass(frozen=True, slots=True)
class BackendReport:
    """One way of isolating.

    Attributes
    ----------
    name : str
        ``bwrap`` (the shell), ``agent process`` (the cover around an agent's own process) or ``none``.
    works : bool
        Whether it does, here and now.
    detail : str
        What was checked, or why it does not work and what to do.
    """

    name: str
    works: bool
    detail: str


def sandbox_report() -> list[BackendReport]:
    """Try every backend."""
    try:
        checks = self_check("bwrap")
        shell = BackendReport("bwrap", True, f"{len(checks)} checks passed in a real sandbox")
    except SandboxError as error:
        shell = BackendReport("bwrap", False, str(error))
    reason = agent_process.why_not()
    return [
        shell,
        BackendReport(
            "agent process",
            reason is None,
            reason or "truths and runs can be covered; an agent keeps network, home and PATH",
        ),
        BackendReport(
            "none", True, "no isolation; only when spelled out (--sandbox none), and no pass is safe"
        ),
    ]
