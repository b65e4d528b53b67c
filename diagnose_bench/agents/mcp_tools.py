"""The tools of the MCP server as plain functions over a trial: what they take, what they answer.

Knows no protocol and no SDK. Everything that looks at a file goes through the sandbox, `read_file` too.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from dataclasses import dataclass
from typing import Any

from diagnose_bench.agents.base import TrialOver, TrialSession, is_seconds

TASK_URI = "task://task.md"
INSTRUCTIONS = (
    "One incident to diagnose. The resource `task` is the task. run_command is its shell, read_file reads a "
    "part of a file, and submit_diagnosis hands in the diagnosis, which ends the shell."
)
READ_BYTES = 30_000
"""Bytes of one page of a file: fewer than the sandbox shows, so that a page is never cut in its middle."""
_DEFAULT_LINES = 500
_MOST = 1 << 53
_CUT = re.compile(rb"\n\[\.\.\. \d+ bytes of output cut here \.\.\.\]\n")
_CUT_NOTE = (
    "[The output was too long: only its beginning and its end are shown. Page through it: narrow the command "
    "(grep, sed -n 'FROM,TOp', head -c, tail -c), or write it to a file in /scratch and use read_file.]"
)
_ROOTS = {"snapshot": '"${SNAPSHOT:-/snapshot}"', "scratch": '"${SCRATCH:-/scratch}"'}


@dataclass(frozen=True)
class ToolAnswer:
    """What a tool call answers: a text, and whether the call failed."""

    text: str
    is_error: bool = False


class _BadArguments(Exception):
    """The arguments of a call make no sense; the message says which and why."""


def _integer(least: int, what: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "description": what}


TOOLS: dict[str, dict[str, Any]] = {
    "run_command": {
        "description": (
            "Run one bash command in the sandbox and return its output and exit code. Each command is a "
            "fresh sandbox without network; /snapshot is read-only, files in /scratch last. Counts as a "
            "turn. Of a long output only the beginning and the end are shown."
        ),
        "schema": {
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The bash command."},
                "timeout_s": {
                    "type": "number",
                    "exclusiveMinimum": 0,
                    "description": "Seconds before it is stopped, if the default is too short.",
                },
            },
            "required": ["command"],
        },
    },
    "read_file": {
        "description": (
            "Read a part of one file below /snapshot or /scratch: lines (first_line, n_lines) or bytes "
            f"(first_byte, n_bytes), at most {READ_BYTES} bytes a call. Counts as a turn."
        ),
        "schema": {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "For example /snapshot/events.jsonl."},
                "first_line": _integer(1, "First line, counted from 1 (default 1)."),
                "n_lines": _integer(1, f"Number of lines (default {_DEFAULT_LINES})."),
                "first_byte": _integer(0, "First byte, counted from 0; in place of lines."),
                "n_bytes": _integer(1, f"Number of bytes (default {READ_BYTES})."),
            },
            "required": ["path"],
        },
    },
    "submit_diagnosis": {
        "description": (
            "Hand in the diagnosis. Answers `accepted`, or what is wrong with its form; never whether it is "
            "right. An accepted one ends the shell. The empty list says that nothing is wrong."
        ),
        "schema": {
            "type": "object",
            "properties": {
                "root_causes": {
                    "type": "array",
                    "description": "The minimal set of independent root causes, the surest first.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "entity": {"type": "string", "description": "namespace/Kind/name or Kind/name."},
                            "reasoning": {"type": "string"},
                            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
                            "evidence": {"type": "array", "items": {"type": "object"}},
                        },
                        "required": ["entity"],
                    },
                },
                "propagation": {"type": "array", "items": {"type": "object"}},
            },
            "required": ["root_causes"],
        },
    },
}
"""Name of each tool to its description and the JSON Schema of its arguments."""


def call_tool(session: TrialSession, name: str, arguments: dict[str, Any]) -> ToolAnswer:
    """Answer one tool call; a wrong call is an answer too, and costs no turn."""
    try:
        if name == "run_command":
            return _run_command(session, arguments)
        if name == "read_file":
            return _read_file(session, arguments)
        if name == "submit_diagnosis":
            reply = session.submit(json.dumps(arguments).encode())
            return ToolAnswer(reply.message, not reply.accepted)
        raise _BadArguments(f"there is no tool {name!r}: the tools are {', '.join(TOOLS)}.")
    except _BadArguments as error:
        return ToolAnswer(f"Not run: {error}", is_error=True)
    except TrialOver as over:
        return ToolAnswer(str(over), is_error=True)


def _run_command(session: TrialSession, arguments: dict[str, Any]) -> ToolAnswer:
    _require_known("run_command", arguments)
    command = _text(arguments, "command")
    timeout_s = arguments.get("timeout_s")
    if timeout_s is not None and not is_seconds(timeout_s):
        raise _BadArguments(f"timeout_s is {timeout_s!r}: give a number of seconds above 0.")
    reply = session.run_command(command, timeout_s)
    note = _CUT_NOTE if _CUT.search(reply.output) else ""
    return ToolAnswer(_joined(reply.output, note, f"[exit code {reply.exit_code}]", reply.notice))


def _read_file(session: TrialSession, arguments: dict[str, Any]) -> ToolAnswer:
    _require_known("read_file", arguments)
    place = _place(_text(arguments, "path"))
    first_byte, n_bytes = _count(arguments, "first_byte", 0), _count(arguments, "n_bytes", 1)
    first_line, n_lines = _count(arguments, "first_line", 1), _count(arguments, "n_lines", 1)
    if first_byte is None and n_bytes is None:
        first, number = first_line or 1, n_lines or _DEFAULT_LINES
        after = min(first + number, _MOST)
        part = f"sed -n '{first},{after}p;{after}q' -- \"$f\" | head -c {READ_BYTES + 1}"
    elif first_line is None and n_lines is None:
        first, number = first_byte or 0, min(n_bytes or READ_BYTES, READ_BYTES)
        part = f'tail -c +{first + 1} -- "$f" | head -c {number + 1}'
    else:
        raise _BadArguments("give lines (first_line, n_lines) or bytes (first_byte, n_bytes), not both.")
    check = '[ -f "$f" ] || { echo "There is no such file."; exit 1; }'
    reply = session.run_command(f"f={place}\n{check}\n{part}")
    if reply.exit_code != 0:
        failure = f"[exit code {reply.exit_code}]"
        return ToolAnswer(_joined(reply.output, failure, reply.notice), is_error=True)
    if first_byte is None and n_bytes is None:
        shown, note = _page_of_lines(reply.output, first, number)
    else:
        shown, note = _page_of_bytes(reply.output, first, number)
    return ToolAnswer(_joined(shown, note, reply.notice))


def _page_of_lines(output: bytes, first: int, number: int) -> tuple[bytes, str]:
    if not output:
        return b"", f"[The file has no line {first}.]"
    lines = _lines(output)
    if len(output) <= READ_BYTES and len(lines) <= number:
        return output, "[This is the end of the file.]"
    if len(output) > READ_BYTES:
        # The last line may be cut: it belongs to the next page, unless it is all there is.
        lines = _lines(output[:READ_BYTES])[:-1]
        if not lines:
            return output[:READ_BYTES], (
                f"[Line {first} is longer than {READ_BYTES} bytes and cut here. Read it with first_byte.]"
            )
    lines = lines[:number]
    return b"".join(lines), f"[There is more. Go on with first_line={first + len(lines)}.]"


def _lines(data: bytes) -> list[bytes]:
    """Split at newlines alone, as ``sed`` does."""
    parts = data.split(b"\n")
    lines = [part + b"\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def _page_of_bytes(output: bytes, first: int, number: int) -> tuple[bytes, str]:
    if len(output) <= number:
        return output, "[This is the end of the file.]"
    return output[:number], f"[There is more. Go on with first_byte={first + number}.]"


def _place(path: str) -> str:
    """The path as a word of a shell command, below one of the two folders."""
    if "\0" in path or len(path) > 4096:
        raise _BadArguments("path is no path.")
    whole = posixpath.normpath(posixpath.join("/snapshot", path))
    _, root, *rest = whole.split("/")
    if root not in _ROOTS or not rest:
        raise _BadArguments(f"path {path!r}: give a file below /snapshot or /scratch.")
    return f"{_ROOTS[root]}/{shlex.quote('/'.join(rest))}"


def _text(arguments: dict[str, Any], key: str) -> str:
    value = arguments.get(key)
    if not isinstance(value, str) or not value:
        raise _BadArguments(f"{key} is missing or no text.")
    return value


def _count(arguments: dict[str, Any], key: str, least: int) -> int | None:
    value = arguments.get(key)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and least <= value < _MOST):
        return value
    raise _BadArguments(f"{key} is {value!r}: give a whole number from {least}.")


def _require_known(tool: str, arguments: dict[str, Any]) -> None:
    known = TOOLS[tool]["schema"]["properties"]
    if unknown := [key for key in arguments if key not in known]:
        raise _BadArguments(f"{tool} takes {', '.join(known)}; it was given {unknown[0]!r}.")


def _joined(output: bytes, *notes: str) -> str:
    text = output.decode("utf-8", "replace")
    rest = "\n".join(filter(None, notes))
    return text + ("\n" if text and not text.endswith("\n") and rest else "") + rest
