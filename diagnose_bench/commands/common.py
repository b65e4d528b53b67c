"""What every command shares: output streams, exit codes, common option types. No command logic."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from diagnose_bench.errors import DiagnoseBenchError
from diagnose_bench.files import remedy_of

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
    typer.Option(
        "--suite",
        metavar="SUITE",
        help="A bundled suite's name, or the path of a folder …/snapshots/<suite>.",
    ),
]
TruthOption = Annotated[
    Path | None,
    typer.Option(
        "--truth",
        metavar="DIR",
        help="Folder of the truths, when it is not …/ground_truth/<suite> beside the suite.",
    ),
]


def say(message: str) -> None:
    """Print one message for a person on stderr; control characters are made visible, never interpreted."""
    from diagnose_bench.text import visible

    # A message that cannot be said must not change how the command ends.
    with contextlib.suppress(OSError):
        print(visible(message), file=sys.stderr, flush=True)


@contextlib.contextmanager
def result() -> Iterator[None]:
    """Let a result be written to stdout; all of it has left when the block ends.

    A reader who has seen enough (``| head``) is no failure: the rest goes nowhere, and the exit code stays
    the command's own.

    Raises
    ------
    DiagnoseBenchError
        The result cannot be written (disk full).
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        silence()
    except OSError as error:
        if error.filename is not None:
            raise
        silence()
        raise DiagnoseBenchError(
            f"The result cannot be written to standard output: {error.strerror}. Send it elsewhere."
        ) from error


def silence() -> None:
    """Send what is still buffered nowhere, or the interpreter would try once more at its end."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def show(text: str) -> None:
    """Print a result for a person on stdout; control characters are made visible, never interpreted."""
    from diagnose_bench.text import visible

    with result():
        print(visible(text))


def print_json(value: Any) -> None:
    """Print a result as JSON on stdout: sorted keys, full precision, never NaN."""
    with result():
        print(json.dumps(value, sort_keys=True, ensure_ascii=True, allow_nan=False, indent=2))


def leave(code: int) -> NoReturn:
    """End the command with an exit code of the contract."""
    raise typer.Exit(code)


def message_of(error: Exception) -> str:
    """What a person is told of an error: what, where, what next; never a traceback.

    Raises
    ------
    Exception
        The error itself, where it is no error of ours and ``DIAGNOSE_BENCH_DEBUG`` is set.
    """
    if isinstance(error, DiagnoseBenchError):
        return str(error)
    if os.environ.get("DIAGNOSE_BENCH_DEBUG"):
        raise error
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror}. {remedy_of(error)}"
    return (
        f"unexpected {type(error).__name__}: {error}\n"
        "This is a fault of diagnose-bench. Finished trials are kept. "
        "Set DIAGNOSE_BENCH_DEBUG=1 and call again to see where it happened."
    )


def is_usage_error(error: Exception) -> bool:
    """Whether the command line itself was wrong, which is reported with a hint at ``--help``."""
    # typer carries its own click, so its base class is found through an exception that typer exports.
    return isinstance(error, typer.BadParameter.__mro__[2])
