"""The command line: it turns errors into one message and one exit code. What a command does is in `commands`.

Exit codes: 0 done, 1 a negative verdict, 2 usage or set-up error, 3 incomplete or not decidable; ``shell``
has its own. Nothing heavy is imported here, so that ``--help`` stays fast.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperGroup

from diagnose_bench import __version__
from diagnose_bench.commands import (
    comparing,
    data,
    exporting,
    mcp,
    querying,
    reporting,
    runs,
    shell,
    toolbox,
    transcripts,
)
from diagnose_bench.commands.common import (
    EXIT_INCOMPLETE,
    EXIT_USAGE,
    is_usage_error,
    message_of,
    say,
    show,
    silence,
)
from diagnose_bench.errors import DiagnoseBenchError


@contextlib.contextmanager
def _one_message() -> Iterator[None]:
    """Errors end here: one message on stderr, one exit code, no traceback."""
    try:
        yield
    except (typer.Exit, typer.Abort, SystemExit):
        raise
    except KeyboardInterrupt as error:
        say("diagnose-bench: interrupted.")
        raise typer.Exit(EXIT_INCOMPLETE) from error
    except BrokenPipeError as error:
        # The reader of a help text has seen enough.
        silence()
        raise typer.Exit(0) from error
    except Exception as error:
        if is_usage_error(error):
            raise
        say(f"diagnose-bench: {message_of(error)}")
        code = error.exit_code if isinstance(error, DiagnoseBenchError) else EXIT_USAGE
        raise typer.Exit(code) from error


class _Group(TyperGroup):
    def make_context(self, *args: Any, **options: Any) -> Any:
        # Here --version and --help print.
        with _one_message():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        with _one_message():
            return super().invoke(ctx)


app = typer.Typer(
    cls=_Group,
    name="diagnose-bench",
    help="Score incident-diagnosis agents on frozen Kubernetes incidents.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(value: bool) -> None:
    if value:
        show(f"diagnose-bench {__version__}")
        raise typer.Exit(0)


@app.callback()
def root(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and stop."
    ),
) -> None:
    """Score incident-diagnosis agents on frozen Kubernetes incidents."""


runs.add_to(app)
reporting.add_to(app)
transcripts.add_to(app)
exporting.add_to(app)
comparing.add_to(app)
querying.add_to(app)
shell.add_to(app)
mcp.add_to(app)
data.add_to(app)
toolbox.add_to(app)


def main() -> None:
    """Entry point of the ``diagnose-bench`` command."""
    _open_streams()
    app(prog_name="diagnose-bench")


def _open_streams() -> None:
    """Let every character be printed somehow, and fill a gap among the descriptors 0 to 2.

    The next file that is opened would take the free one, and every message would be written into it.
    """
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.reconfigure(errors="backslashreplace")
