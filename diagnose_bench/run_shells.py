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
from diagnose_bench.sandbox.base import Capabilities, Sandbox
from diagnose_bench.sandbox.leftovers import sweep
from diagnose_bench.sandbox.limits import Limits
from diagnose_bench.sandbox.opening import open_sandbox
from diagnose_bench.sandbox.removal import remove_tree
from diagnose_bench.sandbox.self_check import choose
from diagnose_bench.sandbox.store import SnapshotStore, private_folder
from diagnose_bench.sandbox.tools import ToolReport, probe_tools
from diagnose_bench.sandbox.user import dropped_id
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
        self._capabilities: Capabilities | None = None

    def __enter__(self) -> RunShells:
        sweep()
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
        """One trial's sandbox over a staged copy; its scratch folder lies beside the copies.

        Raises
        ------
        SandboxError
            The copy is not what it was, found before or after the trial.
        """
        self._store.check(copy)
        scratch = private_folder(self.folder, uid=self._uid)
        try:
            with open_sandbox(
                self._asked, copy, scratch=scratch, limits=self.limits, forbidden=self._forbidden
            ) as sandbox:
                yield sandbox
            self._store.check(copy)
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
        choice = choose(self._asked, limits=self.limits, forbidden=self._forbidden)
        self._asked = choice.backend
        with self.staged(scenario) as copy, self.opened(copy) as sandbox:
            self.backend = sandbox.backend
            self._capabilities = sandbox.capabilities
            self._tools = probe_tools(sandbox)
        return [note for note in (choice.note, *self._tools.warnings) if note]

    def host(self) -> dict[str, Any]:
        """The machine, and the tools and the isolation of the sandbox, for run.json."""
        facts = host_facts()
        if self._tools is not None:
            facts |= {"tools": self._tools.versions, "tools_digest": self._tools.digest}
        if self._capabilities is not None:
            facts["isolation"] = self._capabilities.as_dict()
        return facts


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
