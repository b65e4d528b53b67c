"""No sandbox at all, for people who write scenarios. Has to be asked for by name, and says what it is."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from diagnose_bench.errors import SandboxError, SandboxUnavailableError
from diagnose_bench.sandbox import arguments
from diagnose_bench.sandbox.base import Capabilities, ExecResult
from diagnose_bench.sandbox.extras import NO_EXTRAS, Extras
from diagnose_bench.sandbox.lifetime import Lifetime
from diagnose_bench.sandbox.limits import Limits
from diagnose_bench.sandbox.output import OutputCollector
from diagnose_bench.sandbox.runner import encoded, finished, supervise
from diagnose_bench.sandbox.scratch import Usage
from diagnose_bench.sandbox.watcher import Watcher


class UnsandboxedShell(Lifetime):
    """Commands run on the host, in the scratch folder, with the paths in $SNAPSHOT and $SCRATCH.

    Notes
    -----
    There is no /snapshot: making it would need the isolation that is not there, and replacing the name in
    the command's text would change what the agent wrote. The environment is as small as in the sandbox.
    """

    backend = "none"
    capabilities = Capabilities(
        has_own_paths=False, hides_names=False, hides_processes=False, shows_decoys=False
    )

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
        if extras.toolbox is not None or extras.observer is not None:
            raise SandboxUnavailableError(
                "--toolbox and --audit need a sandbox: leave them out with --sandbox none."
            )
        super().__init__(scratch.resolve(), own_scratch, limits)
        self.snapshot = snapshot.resolve()
        self.forbidden = tuple(forbidden)

    def environment(self) -> dict[str, str]:
        """The variables of a command."""
        return dict(arguments.ENVIRONMENT) | {
            "HOME": str(self.scratch),
            "SNAPSHOT": str(self.snapshot),
            "SCRATCH": str(self.scratch),
        }

    def run(self, command: str, *, timeout_s: float | None = None) -> ExecResult:
        """Run one bash command on the host."""
        self._begin()
        data = encoded(command)
        if isinstance(data, ExecResult):
            return data
        time_s = self.limits.command_time(timeout_s)
        output = OutputCollector(self.limits.output_head, self.limits.output_tail)
        limits = [*self.limits.core_prlimit(), *self.limits.prlimit(time_s, processes=False)]
        prlimit = [arguments.PRLIMIT, *limits, "--"]
        try:
            process = subprocess.Popen(
                [*prlimit, arguments.BASH, "-c", data],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=self.scratch,
                env=self.environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxError(f"The shell could not be started: {error}.") from error

        def stop() -> None:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)

        ending = supervise(
            process,
            output,
            self.limits,
            time_s,
            watcher=Watcher(self.limits, self.scratch, Usage()),
            root_pid=lambda: process.pid,
            stop=stop,
            end_reason=self._switch.reason,
        )
        code = ending.return_code
        exit_code = code if code >= 0 else 128 - code
        return finished(exit_code, ending.limit_hit, ending, output, self.limits, time_s)
