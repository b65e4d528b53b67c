"""Recorded diagnoses as an agent: ``DIR/<scenario_id>/<repeat>.json``, read as they are. Needs no sandbox."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from diagnose_bench.agents.base import AgentKind, AgentResult, TrialSession
from diagnose_bench.errors import UsageError
from diagnose_bench.records import AgentInfo

_MAX_BYTES = (1 << 20) + 1


class ReplayAgent:
    """Hands in what a folder holds; a missing file is no diagnosis.

    Raises
    ------
    UsageError
        The folder does not exist.
    """

    kind: AgentKind = "replay"

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            state = "is no folder" if folder.exists() else "does not exist"
            raise UsageError(
                f"replay:{folder}: {state}. It has one answer per file: {folder}/<scenario_id>/<repeat>.json."
            )
        self.folder = folder
        self._info = AgentInfo(name=f"replay:{folder}")

    @property
    def info(self) -> AgentInfo:
        """Named by its folder."""
        return self._info

    def diagnose(self, session: TrialSession) -> AgentResult:
        """Read the recorded answer, at most one byte more than a diagnosis may have."""
        path = self.folder / session.scenario_id / f"{session.repeat}.json"
        try:
            # Not blocking, so that a FIFO in the place of the file holds up nothing.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return AgentResult()
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return AgentResult()
            return AgentResult(final_output=file.read(_MAX_BYTES))
