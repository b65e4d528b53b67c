"""The command line: it turns errors into one message and one exit code. What a command does is in `commands`.

Exit codes: 0 done, 1 a negative verdict, 2 usage or set-up error, 3 incomplete or not decidable.
Nothing heavy is imported here, so that ``--help`` stays fast.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from diagnose_bench import __version__
from diagnose_bench.commands import data, reporting, runs, shell
from diagnose_bench.commands.common import EXIT_INCOMPLETE, EXIT_USAGE, say
from diagnose_bench.errors import DiagnoseBenchError


class _Group(TyperGroup):
    """Errors end here: one message on stderr, one exit code, no traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except DiagnoseBenchError as error:
            say(f"diagnose-bench: {error}")
            raise typer.Exit(error.exit_code) from error
        except KeyboardInterrupt as error:
            say("diagnose-bench: interrupted.")
            raise typer.Exit(EXIT_INCOMPLETE) from error
        except BrokenPipeError as error:
            # The reader of stdout went away (`| head`); nothing more can be printed, not even at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from error
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            say(
                f"diagnose-bench: {place}{error.strerror or error}. Check its rights and the free space."
            )
            raise typer.Exit(EXIT_USAGE) from error
        except (typer.Exit, typer.Abort, SystemExit):
            raise
        except Exception as error:
            if os.environ.get("DIAGNOSE_BENCH_DEBUG") or _is_usage_error(error):
                raise
            say(
                f"diagnose-bench: unexpected {type(error).__name__}: {error}\n"
                "This is a fault of diagnose-bench. Finished trials are kept. "
                "Set DIAGNOSE_BENCH_DEBUG=1 and call again to see where it happened."
            )
            raise typer.Exit(EXIT_USAGE) from error


def _is_usage_error(error: Exception) -> bool:
    # typer carries its own click, so its base class is found through an exception that typer exports.
    click_exception = typer.BadParameter.__mro__[2]
    return isinstance(error, click_exception)


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
        print(f"diagnose-bench {__version__}")
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
shell.add_to(app)
data.add_to(app)


def main() -> None:
    """Entry point of the ``diagnose-bench`` command."""
    app()
