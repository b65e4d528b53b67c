"""The two tools of a model in an Inspect task: a command in the sandbox, and the diagnosis. No truth here."""

from __future__ import annotations

from inspect_ai.tool import Tool, ToolError, tool
from inspect_ai.util import sandbox

from diagnose_bench.diagnosis import validate_submission
from diagnose_bench.errors import DiagnosisError
from diagnose_bench.sandbox.limits import TIMEOUT_EXIT_CODE, Limits

_LIMITS = Limits()


@tool
def run_command() -> Tool:
    """A shell in the sandbox, with the limits of our own trials."""

    async def execute(command: str, timeout_s: int = int(_LIMITS.command_s)) -> str:
        """Run one bash command in the sandbox; the snapshot is at /snapshot, read-only.

        Args:
            command: The command. Each runs in a fresh sandbox; files in /scratch stay.
            timeout_s: Seconds after which it is stopped, at most 120.
        """
        seconds = max(1, min(timeout_s, int(_LIMITS.max_command_s)))
        try:
            result = await sandbox().exec(
                ["bash", "-c", f"exec 2>&1\n{command}"], timeout=seconds, timeout_retry=False
            )
        except TimeoutError:
            return f"exit code {TIMEOUT_EXIT_CODE}\n[command stopped: it ran longer than {seconds} s]"
        return f"exit code {result.returncode}\n{_shortened(result.stdout + result.stderr)}"

    return execute


@tool
def submit_diagnosis() -> Tool:
    """Takes the diagnosis, and says what is wrong with its form; nothing about whether it is right."""

    async def execute(diagnosis: str) -> str:
        """Hand in the diagnosis; this ends the work.

        Args:
            diagnosis: The JSON object that the task describes, as text.
        """
        try:
            validate_submission(diagnosis.encode("utf-8", "replace"))
        except DiagnosisError as error:
            raise ToolError(str(error)) from error
        return diagnosis

    return execute


def _shortened(text: str) -> str:
    """The beginning and the end of a long output, as in our own trials."""
    data = text.encode("utf-8", "replace")
    head, tail = _LIMITS.output_head, _LIMITS.output_tail
    if len(data) <= head + tail:
        return text
    left = len(data) - head - tail
    begin, end = data[:head].decode("utf-8", "replace"), data[-tail:].decode("utf-8", "replace")
    return f"{begin}\n[{left} bytes left out]\n{end}"
