"""What every command shares: output streams, exit codes, common option types. No command logic."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

EXIT_DONE = 0
EXIT_NEGATIVE = 1
EXIT_USAGE = 2
EXIT_INCOMPLETE = 3
EXIT_SHELL_FAILURE = 125


class Format(StrEnum):
    """How a result is printed."""

    TEXT = "text"
    JSON = "json"


FormatOption = Annotated[Format, typer.Option("--format", help="How to print the result on stdout.")]
SuiteOption = Annotated[
    str,
    typer.Option("--suite", help="A bundled suite's name, or the path of a folder …/snapshots/<suite>."),
]
TruthOption = Annotated[
    Path | None,
    typer.Option(
        "--truth", help="Folder of the truths, when it is not …/ground_truth/<suite> beside the suite."
    ),
]


def say(message: str) -> None:
    """Print one message for a person on stderr; control characters are made visible, never interpreted."""
    from diagnose_bench.text import visible

    print(visible(message), file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """Print a result as JSON on stdout: sorted keys, full precision, never NaN."""
    sys.stdout.write(json.dumps(value, sort_keys=True, ensure_ascii=True, allow_nan=False, indent=2) + "\n")


def leave(code: int) -> NoReturn:
    """End the command with an exit code of the contract."""
    raise typer.Exit(code)
