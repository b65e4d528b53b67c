"""What works on this machine: ways of isolating, the shell's tools, what to type where one is missing."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from diagnose_bench.errors import SandboxError
from diagnose_bench.sandbox import agent_process
from diagnose_bench.sandbox.leftovers import remove_claimed
from diagnose_bench.sandbox.opening import open_sandbox
from diagnose_bench.sandbox.self_check import self_check
from diagnose_bench.sandbox.store import private_folder
from diagnose_bench.sandbox.tools import ToolReport, probe_tools
from diagnose_bench.sandbox.user import dropped_id


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


@dataclass(frozen=True, slots=True)
class Examination:
    """All of it.

    Attributes
    ----------
    backends : tuple of BackendReport
        Each tried; the first is the shell's.
    tools : ToolReport or None
        What the shell has; None where there is no shell, or an essential tool is missing.
    tools_problem : str
        Why there are no tools.
    """

    backends: tuple[BackendReport, ...]
    tools: ToolReport | None
    tools_problem: str = ""

    @property
    def works(self) -> bool:
        """Whether agents can be measured here with isolation."""
        return self.backends[0].works and self.tools is not None

    def as_dict(self) -> dict[str, Any]:
        """For a program."""
        return {
            "works": self.works,
            "backends": [dataclasses.asdict(backend) for backend in self.backends],
            "tools": self.tools and self.tools.versions,
            "tools_digest": self.tools and self.tools.digest,
            "tools_problem": self.tools_problem,
            "warnings": list(self.tools.warnings) if self.tools else [],
        }

    def text(self) -> str:
        """For a person."""
        lines = [
            f"{backend.name:<14} {'works' if backend.works else 'does not work'}: {backend.detail}"
            for backend in self.backends
        ]
        if self.tools is None:
            return "\n".join([*lines, f"{'tools':<14} {self.tools_problem}"])
        lines += [f"  {name:<12} {version or 'missing'}" for name, version in self.tools.versions.items()]
        return "\n".join([*lines, *(f"warning: {warning}" for warning in self.tools.warnings)])


def examine() -> Examination:
    """Try every backend, and ask a sandbox for its tools."""
    backends = tuple(sandbox_report())
    if not backends[0].works:
        return Examination(backends, None, "cannot be asked for without a sandbox.")
    snapshot = private_folder(uid=dropped_id())
    try:
        with open_sandbox("bwrap", snapshot) as sandbox:
            return Examination(backends, probe_tools(sandbox))
    except SandboxError as error:
        return Examination(backends, None, str(error))
    finally:
        remove_claimed(snapshot)


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
        BackendReport("none", True, "no isolation: only as --sandbox none, and no pass is safe"),
    ]
