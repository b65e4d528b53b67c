"""The default backend: one fresh bubblewrap for every command.

A fresh one costs about 20 ms and gives for free what a lasting one would have to build: nothing outlives
a command, and the exit code comes from bubblewrap, not from a channel that the command can write to.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from diagnose_bench.errors import SandboxError, SandboxUnavailableError
from diagnose_bench.sandbox import arguments, messages, policy
from diagnose_bench.sandbox.base import Capabilities, ExecResult
from diagnose_bench.sandbox.bubblewrap_process import Descriptors, Started
from diagnose_bench.sandbox.cgroup import ProcessGroup, delegated_folder
from diagnose_bench.sandbox.extras import NO_EXTRAS, Extras
from diagnose_bench.sandbox.lifetime import Lifetime
from diagnose_bench.sandbox.limits import Limits
from diagnose_bench.sandbox.notification import helper_command
from diagnose_bench.sandbox.notify_filter import HANDED_ON
from diagnose_bench.sandbox.output import OutputCollector
from diagnose_bench.sandbox.runner import encoded, finished, supervise
from diagnose_bench.sandbox.seccomp import filter_program
from diagnose_bench.sandbox.user import dropped_id, hand_over
from diagnose_bench.sandbox.watcher import Watcher, measure_scratch

_BARE_ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
"""All that bubblewrap itself gets: as process 1 of the sandbox it shows its environment to the shell."""


def find_bubblewrap() -> str:
    """The path of a bubblewrap that may be used.

    Raises
    ------
    SandboxUnavailableError
        Not on Linux, not installed, or setuid.
    """
    message = messages.platform_message()
    if message is not None:
        raise SandboxUnavailableError(message)
    path = shutil.which("bwrap")
    if path is None:
        raise SandboxUnavailableError(messages.NOT_FOUND)
    if os.stat(path).st_mode & stat.S_ISUID:
        raise SandboxUnavailableError(messages.setuid_message(path))
    if not os.access(arguments.PRLIMIT, os.X_OK):
        raise SandboxUnavailableError(messages.NO_PRLIMIT)
    return path


class BubblewrapSandbox(Lifetime):
    """Commands see `snapshot` at /snapshot and `scratch` at /scratch, and nothing else of the host's data.

    Parameters
    ----------
    snapshot : Path
        Bound as it is; its path is visible inside and has to say nothing (see ``SnapshotStore``).
    scratch : Path
        A folder whose files last for the trial. Left alone by ``close`` unless `own_scratch`.
    limits : Limits
        For every command.
    forbidden : sequence of Path
        Must not be visible inside; covered where they lie in a system folder.
    own_scratch : bool
        Whether the scratch folder goes away with the sandbox.
    extras : Extras
        Toolbox, decoys, observer.
    """

    backend = "bwrap"

    def __init__(
        self,
        snapshot: Path,
        scratch: Path,
        *,
        limits: Limits,
        forbidden: Sequence[Path] = (),
        own_scratch: bool = False,
        extras: Extras = NO_EXTRAS,
    ) -> None:
        self._bubblewrap = find_bubblewrap()
        self._extras = extras
        self._masked = policy.masks((*policy.project_paths(), *forbidden))
        self.snapshot = snapshot.resolve()
        super().__init__(policy.check_scratch(scratch, self.snapshot, forbidden), own_scratch, limits)
        self._groups = delegated_folder()
        self.capabilities = Capabilities(limits_by_cgroup=self._groups is not None)
        self._id = dropped_id()
        if self._id is not None:
            hand_over(self.scratch, self._id)
            for path in (self.snapshot, self.scratch, *extras.folders()):
                if (blocked := policy.unreachable_parent(path, self._id)) is not None:
                    raise SandboxUnavailableError(messages.unreachable_message(self._id, blocked))
        self._usage = measure_scratch(self.scratch, limits)

    def run(self, command: str, *, timeout_s: float | None = None) -> ExecResult:
        """Run one bash command in a fresh sandbox.

        Raises
        ------
        SandboxError
            The sandbox could not be set up, or has been closed.
        """
        self._switch.begin()
        data = encoded(command)
        if isinstance(data, ExecResult):
            return data
        time_s = self.limits.command_time(timeout_s)
        output = OutputCollector(self.limits.output_head, self.limits.output_tail)
        with Started(self, [arguments.BASH, "-c", data], time_s) as started:
            ending = supervise(
                started.process,
                output,
                self.limits,
                time_s,
                watcher=Watcher(self.limits, self.scratch, self._usage),
                root_pid=started.init_pid,
                stop=started.stop,
                end_reason=self._switch.reason,
            )
            started.wait_until_gone()
            exit_code = started.exit_code()
            limit_hit = ending.limit_hit or started.limit_of_the_kernel()
            if exit_code is not None and limit_hit is None:
                started.check_audit()
        if limit_hit is None and exit_code is None:
            raise SandboxError(messages.explain(output.shown().decode("utf-8", "replace")))
        # Measured in any case: the next command starts from what this one left.
        over = self._over_quota()
        return finished(exit_code, limit_hit or over, ending, output, self.limits, time_s)

    def group(self) -> ProcessGroup | None:
        """A group of processes for one command, where the kernel lets us make one."""
        return None if self._groups is None else ProcessGroup(self._groups, self.limits)

    def start(
        self, command: Sequence[str | bytes], time_s: float, descriptors: Descriptors, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start bubblewrap around a command; `options` go to Popen (its streams, mostly)."""
        self._begin()
        environment: Mapping[str, str] = options.pop("environment", arguments.ENVIRONMENT)
        environment = dict(environment) | self._extras.environment()
        handed_on: frozenset[str] = frozenset()
        if self._extras.observer is not None:
            command = helper_command(descriptors.listen(self._extras.observer), command)
            handed_on = HANDED_ON
        lines = arguments.bubblewrap_arguments(
            snapshot=self.snapshot,
            scratch=self.scratch,
            limits=self.limits,
            masked=self._masked,
            etc_descriptors={
                path: descriptors.with_content(content) for path, content in arguments.ETC_FILES.items()
            },
            seccomp_descriptor=descriptors.with_content(filter_program(handed_on=handed_on)),
            status_descriptor=descriptors.status_end(),
            environment=environment,
            binds=self._extras.binds(),
        )
        if descriptors.group is not None:
            lines += ["--block-fd", str(descriptors.go_ahead_end())]
        # By descriptor: on its command line, which the sandbox can read, they would name the host's paths.
        listed = descriptors.with_content(b"".join(os.fsencode(line) + b"\0" for line in lines))
        if self._id is not None:
            options |= {"user": self._id, "group": self._id, "extra_groups": []}
        try:
            return subprocess.Popen(
                [
                    arguments.PRLIMIT,
                    *self.limits.core_prlimit(),
                    self._bubblewrap,
                    "--args",
                    str(listed),
                    "--",
                    *arguments.command_line(command, self.limits, time_s),
                ],
                env=_BARE_ENVIRONMENT,
                cwd="/",
                close_fds=True,
                pass_fds=descriptors.passed,
                **options,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise SandboxError(f"No sandbox: bwrap could not be started: {error}.") from error
