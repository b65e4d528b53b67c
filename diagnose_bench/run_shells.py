"""The sandboxes of one run: what is hidden, probe and self-check once, stage a snapshot, one sandbox a trial.

Knows where truths and runs lie only as paths to hide; opens none of them.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from diagnose_bench.detection.audit import Auditor, AuditProbe
from diagnose_bench.detection.decoys import make_decoys, write_decoys
from diagnose_bench.detection.events import EventLog
from diagnose_bench.detection.file_watch import FileWatch
from diagnose_bench.detection.watched import WatchedSandbox
from diagnose_bench.errors import DiagnoseBenchError, SandboxError, SandboxUnavailableError, UsageError
from diagnose_bench.inventory import Inventory
from diagnose_bench.layout import data_root, truth_folder_of
from diagnose_bench.records import Confidence, EventKind, EventLayer
from diagnose_bench.sandbox.base import Capabilities
from diagnose_bench.sandbox.extras import Extras
from diagnose_bench.sandbox.leftovers import sweep
from diagnose_bench.sandbox.limits import DISK_RESERVE_MB, Limits
from diagnose_bench.sandbox.opening import open_sandbox
from diagnose_bench.sandbox.removal import remove_tree
from diagnose_bench.sandbox.self_check import choose
from diagnose_bench.sandbox.store import SnapshotStore, private_folder
from diagnose_bench.sandbox.tools import ToolReport, probe_tools
from diagnose_bench.sandbox.user import dropped_id
from diagnose_bench.suite import Scenario
from diagnose_bench.toolbox.folder import Toolbox, check_inside, load_toolbox

_LEAST_FREE_MB = 16


class RunShells:
    """What every trial of a run gets its shell from; a context manager that removes all copies.

    Once ``check`` has returned, trials may come in several threads.

    Parameters
    ----------
    backend : str
        As after ``--sandbox``.
    limits : Limits
        Of every command.
    forbidden : sequence of Path
        Truths, runs, snapshots: never visible in a sandbox.
    audit : bool
        Report system calls that try to leave the sandbox.
    toolbox : Path or None
        A folder of data tools to show.
    null_snapshot : bool
        Show an empty folder in place of every snapshot.

    Raises
    ------
    UsageError
        The toolbox cannot be used.
    """

    def __init__(
        self,
        backend: str,
        limits: Limits,
        forbidden: Sequence[Path],
        *,
        audit: bool = False,
        toolbox: Path | None = None,
        null_snapshot: bool = False,
    ) -> None:
        if backend == "none" and (audit or toolbox is not None):
            raise UsageError("--audit and --toolbox need a sandbox: leave them out with --sandbox none.")
        self._asked = backend
        self._forbidden = tuple(forbidden)
        self._audit = audit
        self._null = null_snapshot
        self.limits = limits
        self.backend = backend
        self.toolbox: Toolbox | None = load_toolbox(toolbox, forbidden) if toolbox is not None else None
        self._tools: ToolReport | None = None
        self._capabilities: Capabilities | None = None
        self._known: dict[Path, tuple[frozenset[str], tuple[str, ...]]] = {}
        self._reading = threading.Lock()
        self._has_warned = False

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
        empty = private_folder(self.folder, uid=self._uid) if self._null else None
        try:
            if empty is None:
                copy = self._store.stage(scenario.snapshot, scenario.digest)
            else:
                copy = self._store.stage(empty)
            try:
                yield copy
            finally:
                self._known.pop(copy, None)
                self._store.remove(copy)
        finally:
            if empty is not None:
                remove_tree(empty)

    @contextmanager
    def opened(self, copy: Path, *, is_trial: bool = True) -> Iterator[WatchedSandbox]:
        """One trial's sandbox over a staged copy, watched; its scratch folder lies beside the copies.

        Notes
        -----
        Where a trial's decoys cannot be watched any more, what they say is still looked for, and an event
        tells of it: an agent that uses the watches up must not get another try by it.

        Raises
        ------
        SandboxError
            The copy is not what it was, found before or after the trial.
        """
        self._store.check(copy)
        log = EventLog()
        with ExitStack() as stack:
            decoys = make_decoys(*self._names_in(copy)) if self._may_show_decoys() else ()
            files = write_decoys(decoys, self._folder(stack)) if decoys else {}
            watch = None
            if files:
                try:
                    watch = _watch(files)
                except SandboxError as error:
                    if not is_trial:
                        raise
                    log.add(EventLayer.DECOY, EventKind.LIMIT, str(error), Confidence.MEDIUM)
            if watch is not None:
                stack.callback(watch.close)
            extras = Extras(
                toolbox=None if self.toolbox is None else self.toolbox.path,
                decoys=tuple(files.items()),
                observer=Auditor(log) if self._audit else None,
            )
            sandbox = open_sandbox(
                self._asked,
                copy,
                scratch=self._folder(stack),
                limits=self.limits,
                forbidden=self._forbidden,
                extras=extras,
                warn=not self._has_warned,
            )
            self._has_warned = True
            if not sandbox.capabilities.shows_decoys:
                decoys = ()
            yield stack.enter_context(WatchedSandbox(sandbox, log, decoys, watch))
        self._store.check(copy)

    @property
    def layers(self) -> tuple[EventLayer, ...]:
        """Who watches the boundary of these sandboxes; after ``check`` it is known what they can show."""
        found = [EventLayer.TEXT, EventLayer.LIMIT]
        if self._may_show_decoys():
            found.insert(0, EventLayer.DECOY)
        if self._audit:
            found.insert(1, EventLayer.AUDIT)
        return tuple(found)

    def _may_show_decoys(self) -> bool:
        return self._asked != "none" if self._capabilities is None else self._capabilities.shows_decoys

    def _folder(self, stack: ExitStack) -> Path:
        folder = private_folder(self.folder, uid=self._uid)
        stack.callback(remove_tree, folder)
        return folder

    def _names_in(self, copy: Path) -> tuple[frozenset[str], tuple[str, ...]]:
        """Names of all objects of a snapshot, and the namespaces; nothing where it cannot be read."""
        # Once, however many trials of the scenario begin at the same time: an inventory can be large.
        with self._reading:
            if copy not in self._known:
                try:
                    inventory = Inventory.load(copy)
                except DiagnoseBenchError:
                    inventory = Inventory()
                names = frozenset(entity.name for entity in inventory.entities)
                self._known[copy] = names, tuple(sorted(inventory.namespaces))
            return self._known[copy]

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
        probe = AuditProbe() if self._audit else None
        toolbox = None if self.toolbox is None else self.toolbox.path
        extras = Extras(toolbox=toolbox, observer=probe)
        choice = choose(self._asked, limits=self.limits, forbidden=self._forbidden, extras=extras)
        if probe is not None and (missing := probe.missing()):
            raise SandboxUnavailableError(
                f"--audit does not work on this machine: not reported: {', '.join(missing)}. Run without it."
            )
        self._asked = choice.backend
        with self.staged(scenario) as copy, self.opened(copy, is_trial=False) as sandbox:
            self.backend = sandbox.backend
            self._capabilities = sandbox.capabilities
            self._tools = probe_tools(sandbox)
            if self.toolbox is not None:
                check_inside(self.toolbox, sandbox)
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
        found = host_facts()
        if self._tools is not None:
            found |= {"tools": self._tools.versions, "tools_digest": self._tools.digest}
        if self._capabilities is not None:
            found["isolation"] = self._capabilities.as_dict()
        if self.toolbox is not None:
            found["toolbox"] = self.toolbox.packages
        return found


def _watch(files: dict[str, Path]) -> FileWatch:
    try:
        return FileWatch(files)
    except OSError as error:
        raise SandboxError(
            f"The decoys cannot be watched: {error.strerror}. Raise the limit: "
            '"sudo sysctl fs.inotify.max_user_instances=1024".'
        ) from error


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
