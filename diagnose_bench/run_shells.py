"""The sandboxes of one run: probe and self-check once, stage a snapshot, open one sandbox a trial.

Knows where truths and runs lie only as paths to hide; opens none of them.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from diagnose_bench.errors import SandboxUnavailableError
from diagnose_bench.sandbox.base import Sandbox
from diagnose_bench.sandbox.user import dropped_id
from diagnose_bench.sandbox.limits import Limits
from diagnose_bench.sandbox.opening import open_sandbox
from diagnose_bench.sandbox.scratch import remove_tree
from diagnose_bench.sandbox.self_check import self_check
from diagnose_bench.sandbox.store import SnapshotStore, private_folder
from diagnose_bench.sandbox.tools import ToolReport, probe_tools
from diagnose_bench.suite import Scenario


class RunShells:
    """What every trial of a run gets its shell from; a context manager that removes all copies.

    Parameters
    ----------
    backend : str
        As after ``--sandbox``.
    limits : Limits
        Of every command.
    forbidden : sequence of Path
        Truths, runs, snapshots: never visible in a sandbox.
    """

    def __init__(self, backend: str, limits: Limits, forbidden: Sequence[Path]) -> None:
        self._asked = backend
        self._forbidden = tuple(forbidden)
        self.limits = limits
        self.backend = backend
        self._tools: ToolReport | None = None

    def __enter__(self) -> RunShells:
        self._uid = None if self._asked == "none" else dropped_id()
        self._store = SnapshotStore(uid=self._uid)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._store.close()

    @property
    def folder(self) -> Path:
        """Where the copies lie; an agent's own process must not see it."""
        return self._store.folder

    @contextmanager
    def staged(self, scenario: Scenario) -> Iterator[Path]:
        """A verified private copy of a scenario's snapshot, for as long as its trials run."""
        if scenario.snapshot is None:
            raise SandboxUnavailableError(f"{scenario.id}: there is no snapshot to open a shell on.")
        copy = self._store.stage(scenario.snapshot, scenario.digest)
        try:
            yield copy
        finally:
            self._store.remove(copy)

    @contextmanager
    def opened(self, copy: Path) -> Iterator[Sandbox]:
        """One trial's sandbox over a staged copy; its scratch folder lies beside the copies."""
        scratch = private_folder(self.folder, uid=self._uid)
        try:
            with open_sandbox(
                self._asked, copy, scratch=scratch, limits=self.limits, forbidden=self._forbidden
            ) as sandbox:
                yield sandbox
        finally:
            remove_tree(scratch)

    def check(self, scenario: Scenario) -> list[str]:
        """Try the sandbox before the first trial: its isolation and its tools.

        Returns
        -------
        notes : list of str
            What a person should know.

        Raises
        ------
        SandboxUnavailableError
            The isolation does not hold, or a tool that every agent needs is missing.
        """
        self_check(self._asked, limits=self.limits, forbidden=self._forbidden)
        with self.staged(scenario) as copy, self.opened(copy) as sandbox:
            self.backend = sandbox.backend
            self._tools = probe_tools(sandbox)
        return list(self._tools.warnings)

    def host(self) -> dict[str, Any]:
        """The machine and the tools of the sandbox, for run.json."""
        tools = self._tools
        return host_facts() | (
            {} if tools is None else {"tools": tools.versions, "tools_digest": tools.digest}
        )


def host_facts() -> dict[str, Any]:
    """What is known of the machine without asking the sandbox."""
    return {
        "system": platform.system(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "n_cpus": os.cpu_count(),
        "python": platform.python_version(),
        "is_root": os.geteuid() == 0,
    }
