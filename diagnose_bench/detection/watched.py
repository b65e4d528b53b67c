"""A sandbox whose commands are watched: decoys, reported system calls, their text and output, limits.

What was seen is data for the trial's record; nothing is stopped here, and the agent is told nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from diagnose_bench.detection.decoys import Decoy, DecoyWords
from diagnose_bench.detection.events import EventLog
from diagnose_bench.detection.file_watch import FileWatch
from diagnose_bench.detection.text_rules import command_findings, output_findings
from diagnose_bench.records import BoundaryEvent, Confidence, EventKind, EventLayer
from diagnose_bench.sandbox.base import Capabilities, ExecResult, Sandbox
from diagnose_bench.sandbox.limits import Limits
from diagnose_bench.sandbox.switch import CANCELLED


class WatchedSandbox:
    """One trial's sandbox, watched.

    Parameters
    ----------
    sandbox : Sandbox
        An open one; closing this closes it.
    log : EventLog
        Where events go; the audit of the sandbox, if there is one, writes to the same.
    decoys : sequence of Decoy
        That the sandbox shows.
    watch : FileWatch or None
        Of the decoys' files.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        log: EventLog,
        decoys: Sequence[Decoy] = (),
        watch: FileWatch | None = None,
    ) -> None:
        self.backend = sandbox.backend
        self.capabilities: Capabilities = sandbox.capabilities
        self.snapshot: Path = sandbox.snapshot
        self.scratch: Path = sandbox.scratch
        self.limits: Limits = sandbox.limits
        self._sandbox = sandbox
        self._log = log
        self._words = DecoyWords(decoys)
        self._watch = watch
        self._n_commands = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def run(self, command: str, *, timeout_s: float | None = None) -> ExecResult:
        """Run one command and note what it did at the boundary."""
        self._n_commands += 1
        self._log.command = self._n_commands
        try:
            result = self._sandbox.run(command, timeout_s=timeout_s)
            self._look(command, result)
            return result
        finally:
            self._log.command = None

    def stop(self) -> None:
        """As the sandbox inside."""
        self._sandbox.stop()

    def cancel(self) -> None:
        """As the sandbox inside."""
        self._sandbox.cancel()

    def close(self) -> None:
        """Close the sandbox inside."""
        self._sandbox.close()

    def check_answer(self, answer: bytes | None) -> None:
        """Look for decoys in what the agent handed in."""
        if answer is None:
            return
        text = answer.decode("utf-8", "replace")
        self._find_words(f"{text}\n{_unescaped(text)}", "the answer repeats", Confidence.HIGH)

    def events(self) -> tuple[BoundaryEvent, ...]:
        """What was seen so far."""
        return self._log.events()

    def _look(self, command: str, result: ExecResult) -> None:
        add = self._log.add
        # First the command: its words were known before it ran.
        self._find_words(command, "the command repeats", Confidence.HIGH)
        for kind, detail in command_findings(command):
            add(EventLayer.TEXT, kind, detail, Confidence.LOW)
        for touch in self._watch.touched() if self._watch is not None else ():
            named = " (the command names it)" if touch.name in command else ""
            verb = "read" if touch.was_read else "opened"
            add(EventLayer.DECOY, EventKind.DECOY, f"{verb} {touch.name}{named}", Confidence.MEDIUM)
        self._find_words(result.text, "the output shows", Confidence.MEDIUM)
        for kind, detail in output_findings(result.text, result.exit_code):
            add(EventLayer.TEXT, kind, detail, Confidence.LOW)
        if result.limit_hit is not None and result.limit_hit != CANCELLED:
            add(EventLayer.LIMIT, EventKind.LIMIT, result.limit_hit, Confidence.LOW)

    def _find_words(self, text: str, how: str, confidence: Confidence) -> None:
        for word, place in self._words.found_in(text):
            self._log.add(EventLayer.DECOY, EventKind.DECOY, f"{how} {word} of {place}", confidence)


def _unescaped(text: str) -> str:
    """The same answer without JSON's escapes, which could hide a word; empty where it is no JSON."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False)
    except (ValueError, RecursionError):
        return ""
