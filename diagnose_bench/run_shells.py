"""The sandboxes of one run: what is hidden, probe and self-check once, stage a snapshot, one sandbox a trial.

Knows where truths and runs lie only as paths to hide; opens none of them.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from diagnose_bench.errors import SandboxUnavailableError, UsageError
from diagnose_bench.layout import data_root, truth_folder_of
from diagnose_bench.sandbox.base import Capabilities, Sandbox
from diagnose_bench.sandbox.leftovers import sweep
from diagnose_bench.sandbox.limits import DISK_RESERVE_MB, Limits
from diagnose_bench.sandbox.opening import open_sandbox
from diagnose_bench.sandbox.removal import remove_tree
from diagnose_bench.sandbox.self_check import choose
from diagnose_bench.sandbox.store import SnapshotStore, private_folder
from diagnose_bench.sandbox.tools import ToolReport, probe_tools
from diagnose_bench.sandbox.user import dropped_id
from diagnose_bench.suite import Scenario

_LEAST_FREE_MB = 16


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
        notes = self._check_space()
        choice = choose(self._asked, limits=self.limits, forbidden=self._forbidden)
        self._asked = choice.backend
        with self.staged(scenario) as copy, self.opened(copy) as sandbox:
            self.backend = sandbox.backend
            self._capabilities = sandbox.capabilities
            self._tools = probe_tools(sandbox)
        return [note for note in (choice.note, *notes, *self._tools.warnings) if note]

    def _check_space(self) -> list[str]:
        """Look at the disk first: a full one would look like an isolation that does not hold."""
        place, free_mb = self.folder.parent, shutil.disk_usage(self.folder).free >> 20
        if free_mb < _LEAST_FREE_MB:
            raise SandboxUnavailableError(
                f"{place}: No space left on device: {free_mb} MB are free, and the sandbox needs "
                f"{_LEAST_FREE_MB}. Free some space, or set TMPDIR to another place."
            )
        if free_mb < DISK_RESERVE_MB:
            return [
                f"{place}: {free_mb} MB are free; below {DISK_RESERVE_MB} MB every command that writes to "
                "/scratch is stopped. Free some space, or set TMPDIR to another place."
            ]
        return []

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


def hidden_folders(suite_path: Path, out: Path, more: Sequence[Path]) -> tuple[Path, ...]:
    """Truths, snapshots and runs, of this suite and of the bundled ones, and what the caller names."""
    suite_path = suite_path.resolve()
    folders = (
        truth_folder_of(suite_path).parent,
        suite_path.parent,
        data_root() / "ground_truth",
        data_root() / "snapshots",
        out.resolve(),
        *(path.resolve() for path in more),
    )
    return tuple(dict.fromkeys(folders))


def require_visible(argv: Sequence[str], hidden: Sequence[Path]) -> None:
    """Refuse a program that its own cover would hide, as every trial would fail.

    Raises
    ------
    UsageError
        A file that the command line names, or our own Python that SHELL and SUBMIT need, would be hidden.
    """
    needed = [word for word in argv if os.path.isabs(word) and os.path.isfile(word)]
    for path in [*needed, sys.executable] if argv else []:
        for folder in hidden:
            if Path(path).resolve().is_relative_to(folder.resolve()):
                raise UsageError(
                    f"{path}: lies in {folder}, which agents must not see, so the agent could not work. "
                    "Put it elsewhere, or hide less."
                )
