"""The command reference, docs/commands.md, as every command's own ``--help`` gives it.

``python tests/command_reference.py`` (``make docs``) writes the file; a test holds it fresh.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from typer.testing import CliRunner

from diagnose_bench.cli import app

PLACE = Path(__file__).resolve().parent.parent / "docs" / "commands.md"
HEAD = """\
# Commands

Made from `--help` by `make docs`; do not edit.

`diagnose-bench COMMAND`, or `python -m diagnose_bench COMMAND`. The result goes to standard output, progress
and messages go to standard error; with `--format json` standard output is one JSON document.

| exit code | means |
|---|---|
| 0 | done |
| 1 | a negative verdict: a significant regression, a rule is broken, a digest differs |
| 2 | the call or the set-up is wrong; nothing was started, or what is finished is kept |
| 3 | incomplete or not decidable: trials without a score, too few scenarios, rejected rows, an interrupt |

`shell` exits with the command's own code, and with 125 for a failure of its own.
With `DIAGNOSE_BENCH_DEBUG=1` an unexpected error shows where it happened.
"""


def reference() -> str:
    """The text of the file."""
    sections = [HEAD]
    for words, _ in commands():
        # Wide enough that the help has its own width, whatever terminal this runs in.
        shown = CliRunner().invoke(
            app, [*words, "--help"], prog_name="diagnose-bench", env={"COLUMNS": "100", "NO_COLOR": "1"}
        )
        lines = "\n".join(line.rstrip() for line in shown.stdout.strip().splitlines())
        sections.append(f"## {' '.join(['diagnose-bench', *words])}\n\n```text\n{lines}\n```\n")
    return "\n".join(sections)


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command, by its words, with what typer made of it."""
    return _below(typer.main.get_command(app), ())


def _below(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield words, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from _below(inner, (*words, name))


if __name__ == "__main__":
    PLACE.parent.mkdir(exist_ok=True)
    PLACE.write_text(reference(), encoding="utf-8")
