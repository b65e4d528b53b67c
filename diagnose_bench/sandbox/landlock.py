"""The second backend: Landlock, a system-call filter and resource limits, with no program and no library.

One helper process for each trial starts a fresh process for each command and ends all that it leaves. Where
the kernel allows user namespaces the commands get a file tree of their own, with the same paths as in
bubblewrap (`landlock`); where it does not, Landlock alone keeps the files apart, the snapshot is $SNAPSHOT,
and names and sizes of other files can be probed (`landlock-bare`).
"""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from diagnose_bench.errors import SandboxEndedError, SandboxError, SandboxUnavailableError
from diagnose_bench.sandbox import arguments, landlock_kernel, messages, policy
from diagnose_bench.sandbox.base import Capabilities, ExecResult
from diagnose_bench.sandbox.cgroup import ProcessGroup, delegated_folder
from diagnose_bench.sandbox.extras import NO_EXTRAS, TOOLBOX_PLACE, Extras
from diagnose_bench.sandbox.landlock_client import Helper, HelperCommand
from diagnose_bench.sandbox.landlock_root import DEVICES
from diagnose_bench.sandbox.leftovers import remove_claimed
from diagnose_bench.sandbox.lifetime import Lifetime
from diagnose_bench.sandbox.limits import MIB, RESOURCES, Limits
from diagnose_bench.sandbox.output import OutputCollector
from diagnose_bench.sandbox.runner import encoded, finished, supervise
from diagnose_bench.sandbox.seccomp import Extent, filter_program
from diagnose_bench.sandbox.store import private_folder
from diagnose_bench.sandbox.user import dropped_id, hand_over
from diagnose_bench.sandbox.watcher import Watcher, measure_scratch, tasks_of_user

_READABLE_KERNEL_FILES = ("/proc/cpuinfo", "/proc/meminfo")
_READABLE_ETC = ("/etc/ld.so.cache",)
_BOMB = 4096
"""Alone, the kernel counts all processes of the user, of other trials too: the watcher counts exactly, and
this stops what starts more between two looks."""


def check_landlock() -> None:
    """Whether this kernel has what the backend needs.

    Raises
    ------
    SandboxUnavailableError
        It has not; the message says what to type.
    """
    message = messages.platform_message()
    if message is not None:
        raise SandboxUnavailableError(message)
    version = landlock_kernel.abi_version()
    if version < landlock_kernel.MIN_ABI:
        raise SandboxUnavailableError(messages.landlock_message(version))
    filter_program()


class LandlockSandbox(Lifetime):
    """Commands read `snapshot` and the system's programs, write `scratch`, and open nothing else.

    Parameters
    ----------
    snapshot, scratch, limits, forbidden, own_scratch
        As for ``BubblewrapSandbox``.
    may_map : bool
        Whether to give commands a file tree of their own where that is possible.
    extras : Extras
        Toolbox, and decoys where there is such a tree; no observer.
    """

    def __init__(
        self,
        snapshot: Path,
        scratch: Path,
        *,
        limits: Limits,
        forbidden: Sequence[Path] = (),
        own_scratch: bool = False,
        may_map: bool = True,
        extras: Extras = NO_EXTRAS,
    ) -> None:
        extras.require_no_observer("landlock")
        check_landlock()
        self._extras = extras
        self._masked = policy.masks((*policy.project_paths(), *forbidden))
        self.snapshot = snapshot.resolve()
        super().__init__(policy.check_scratch(scratch, self.snapshot, forbidden), own_scratch, limits)
        self._one_at_a_time = threading.Lock()
        uid = dropped_id()
        if uid is not None:
            hand_over(self.scratch, uid)
            for path in (self.snapshot, self.scratch, *extras.folders()):
                if (blocked := policy.unreachable_parent(path, uid)) is not None:
                    raise SandboxUnavailableError(messages.unreachable_message(uid, blocked))
        self._usage = measure_scratch(self.scratch, limits)
        self._temporary: Path | None = None
        self._group: ProcessGroup | None = None
        self._helper = Helper()
        try:
            groups = delegated_folder()
            if groups is not None:
                # Of the whole trial, with the helper's two processes, which must not die with a command.
                self._group = ProcessGroup(groups, limits, n_helpers=2, dies_whole=False)
            # Needed where nothing is mapped; made before, since the helper cannot ask for it.
            self._temporary = private_folder(uid=uid)
            if uid is not None:
                hand_over(self._temporary, uid)
            is_mapped = self._helper.start(self._config(uid, may_map), self._group)
        except BaseException:
            self.close()
            raise
        self.backend = "landlock" if is_mapped else "landlock-bare"
        self.capabilities = Capabilities(
            has_own_paths=is_mapped,
            hides_names=is_mapped,
            hides_processes=False,
            shows_decoys=is_mapped,
            limits_by_cgroup=self._group is not None,
        )
        if is_mapped:
            remove_claimed(self._temporary)
            self._temporary = None

    def _release(self) -> None:
        self._helper.close()
        if self._temporary is not None:
            remove_claimed(self._temporary)
        if self._group is not None:
            self._group.close()

    @property
    def root_pid(self) -> int | None:
        """The process that all commands descend from."""
        return self._helper.pid

    def environment(self) -> dict[str, str]:
        """The variables of a command."""
        extra = self._extras.environment()
        if self.capabilities.has_own_paths:
            return dict(arguments.ENVIRONMENT) | extra
        toolbox = str(self._extras.toolbox)
        extra = {name: value.replace(TOOLBOX_PLACE, toolbox) for name, value in extra.items()}
        return (
            dict(arguments.ENVIRONMENT)
            | extra
            | {
                "HOME": str(self.scratch),
                "TMPDIR": str(self._temporary),
                "SNAPSHOT": str(self.snapshot),
                "SCRATCH": str(self.scratch),
            }
        )

    def run(self, command: str, *, timeout_s: float | None = None) -> ExecResult:
        """Run one bash command in a fresh process.

        Raises
        ------
        SandboxEndedError
            The helper was killed, which the command must have done.
        SandboxError
            The sandbox has failed, or has been closed.
        """
        self._switch.begin()
        data = encoded(command)
        if isinstance(data, ExecResult):
            return data
        time_s = self.limits.command_time(timeout_s)
        output = OutputCollector(self.limits.output_head, self.limits.output_tail)
        with self._one_at_a_time:
            watcher = self.watcher()
            read_end, write_end = os.pipe()
            with os.fdopen(read_end, "rb") as stream:
                try:
                    process = self.start(
                        [os.fsencode(arguments.BASH), b"-c", data],
                        time_s,
                        (self._helper.null, write_end, write_end),
                        stdout=stream,
                    )
                finally:
                    os.close(write_end)
                ending = supervise(
                    process,
                    output,
                    self.limits,
                    time_s,
                    watcher=watcher,
                    root_pid=lambda: self.root_pid,
                    stop=process.stop,
                    end_reason=self._switch.reason,
                )
            if process.is_lost and ending.limit_hit is None:
                if not process.problem:
                    raise SandboxEndedError("The process that starts the trial's commands was killed.")
                raise SandboxError(f"No sandbox: the process that starts its commands: {process.problem}.")
            limit_hit = ending.limit_hit or watcher.killed_by_kernel()
            over = self._over_quota()
        code = ending.return_code
        exit_code = code if code >= 0 else 128 - code
        return finished(exit_code, limit_hit or over, ending, output, self.limits, time_s)

    def watcher(self) -> Watcher:
        """What keeps the limits of one command that the kernel does not keep."""
        return Watcher(
            self.limits,
            self.scratch,
            self._usage,
            temporary=self._temporary,
            # The helper's two processes are counted, too.
            max_tasks=None if self.capabilities.has_own_paths else self.limits.processes + 2,
            group=self._group,
        )

    def start(
        self,
        command: Sequence[bytes],
        time_s: float,
        descriptors: tuple[int, int, int],
        *,
        stdout: IO[bytes] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> HelperCommand:
        """Start a command with these descriptors as 0, 1 and 2."""
        self._begin()
        request = {
            "argv": [base64.b64encode(word).decode() for word in command],
            "environment": self.environment() | dict(environment or {}),
            "cpu": self.limits.resource_limits(time_s)["cpu"],
        }
        return self._helper.run(request, descriptors, stdout)

    def _config(self, uid: int | None, may_map: bool) -> dict[str, Any]:
        devices = [f"/dev/{name}" for name in DEVICES]
        covered = [*policy.MASKED_FOLDERS, *map(str, self._masked)]
        system = [folder for folder in policy.SYSTEM_FOLDERS if os.path.isdir(folder)]
        folders = [folder for folder in system if not os.path.islink(folder)]
        shared = [*_READABLE_ETC, *_READABLE_KERNEL_FILES]
        limits = self.limits.resource_limits(self.limits.max_command_s)
        added = {place: str(source) for source, place in self._extras.binds()}
        # In a user namespace of its own only its own processes count, with the helper itself; else all of
        # the user's.
        tasks_before = tasks_of_user(os.geteuid() if uid is None else uid)
        return {
            "uid": uid,
            "may_map": may_map,
            "system": system,
            "masked": covered,
            "etc": {path: base64.b64encode(data).decode() for path, data in arguments.ETC_FILES.items()},
            "devices": devices,
            "binds": {path: path for path in (*folders, *_READABLE_ETC, "/proc", *devices)}
            | {"/snapshot": str(self.snapshot), "/scratch": str(self.scratch)}
            | added,
            "writable_binds": ["/scratch", "/proc"],
            "memory_disks": {"/tmp": self.limits.tmp_mb * MIB, "/dev/shm": self.limits.shm_mb * MIB},
            "mapped": {
                # Of the folders that hold what is added, nothing else is in that tree.
                "read_only": [*folders, *shared, "/etc", "/snapshot", *sorted(map(_top, added))],
                "devices": devices,
                "writable": ["/scratch", "/tmp", "/dev/shm"],
                "temporary": ["/tmp", "/dev/shm"],
                "home": "/scratch",
                "processes": self._most_processes(self.limits.processes + 1),
            },
            "bare": {
                "read_only": [
                    *(place for folder in folders for place in outside_of(folder, covered)),
                    *shared,
                    str(self.snapshot),
                    *([] if self._extras.toolbox is None else [str(self._extras.toolbox)]),
                ],
                "devices": devices,
                "writable": [str(self.scratch), str(self._temporary)],
                "temporary": [str(self._temporary)],
                "home": str(self.scratch),
                "processes": self._most_processes(_BOMB + tasks_before),
            },
            "limits": [(RESOURCES[name], *both) for name, both in limits.items()],
            "seccomp": {
                form: base64.b64encode(filter_program(extent=extent)).decode()
                for form, extent in (("mapped", Extent.LANDLOCK_MAPPED), ("bare", Extent.LANDLOCK_ALONE))
            },
        }

    def _most_processes(self, wanted: int) -> tuple[int, int]:
        return self.limits.resource_limits(1.0, processes=wanted)["nproc"]


def _top(place: str) -> str:
    return "/" + place.split("/")[1]


def outside_of(folder: str, excluded: Iterable[str]) -> list[str]:
    """Folders and files that together are all of `folder` but what is excluded."""
    inside = [path for path in map(os.path.realpath, excluded) if Path(path).is_relative_to(folder)]
    if not inside:
        return [folder]
    if folder in inside:
        return []
    found = []
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            found += outside_of(entry.path, inside)
        elif entry.path not in inside and not entry.is_symlink():
            found.append(entry.path)
    return found
