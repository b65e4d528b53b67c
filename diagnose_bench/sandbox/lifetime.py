"""What every backend does between its opening and its end; isolates nothing."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from diagnose_bench.errors import SandboxError
from diagnose_bench.sandbox.leftovers import remove_claimed
from diagnose_bench.sandbox.limits import Limits
from diagnose_bench.sandbox.scratch import Usage
from diagnose_bench.sandbox.switch import CommandSwitch
from diagnose_bench.sandbox.watcher import measure_scratch


class Lifetime:
    """The part of a sandbox that is opened, stopped and closed.

    Parameters
    ----------
    scratch : Path
        Removed by ``close`` if it is the sandbox's own.
    own_scratch : bool
        Whether it is.
    limits : Limits
        Of every command.
    """

    def __init__(self, scratch: Path, own_scratch: bool, limits: Limits) -> None:
        self.scratch = scratch
        self.limits = limits
        self._usage = Usage()
        self._own_scratch = own_scratch
        self._is_closed = False
        self._switch = CommandSwitch()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def stop(self) -> None:
        """End a command that runs, called from another thread; later commands end at once, too."""
        self._switch.stop()

    def cancel(self) -> None:
        """End the command that runs, called from another thread; later ones run as usual."""
        self._switch.cancel()

    def close(self) -> None:
        """Remove everything that this sandbox made; a second call does nothing."""
        if not self._is_closed:
            self._is_closed = True
            self._release()
            if self._own_scratch:
                remove_claimed(self.scratch)

    def _release(self) -> None:
        """Let go of what a backend holds beside the scratch folder."""

    def _begin(self) -> None:
        """A command is asked for."""
        if self._is_closed:
            raise SandboxError("This sandbox has been closed; open another one.")
        self._switch.begin()

    def _over_quota(self) -> str | None:
        """Measure the scratch folder after a command: the limit that was passed, if one was."""
        usage = measure_scratch(self.scratch, self.limits)
        is_over = usage.is_over(self.limits, self._usage)
        self._usage = usage
        return "scratch" if is_over else None
