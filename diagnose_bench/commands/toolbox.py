"""``toolbox build``: the data tools that a shell can be given beside the system's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from diagnose_bench.commands.common import Format, FormatOption, print_json, say, show

toolbox_app = typer.Typer(
    help="Build the folder of data tools for --toolbox.", no_args_is_help=True, rich_markup_mode=None
)


def add_to(app: typer.Typer) -> None:
    """Register the commands of this module."""
    app.add_typer(toolbox_app, name="toolbox")


@toolbox_app.callback()
def toolbox() -> None:
    """Build the folder of data tools for --toolbox."""


@toolbox_app.command("build", short_help="Install pandas and duckdb for the shell.")
def build(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder; about 300 MB.")],
    format_: FormatOption = Format.TEXT,
) -> None:
    """Install pandas, duckdb and the duckdb program for the system's python3, pinned and checked by hash.

    The packages come from wherever pip is set up to look for them.

    Example: diagnose-bench toolbox build /opt/diagnose-bench-toolbox
    """
    from diagnose_bench.toolbox.build import build_toolbox

    built = build_toolbox(folder, say)
    if format_ is Format.JSON:
        print_json(
            {
                "path": str(built.path),
                "digest": built.digest,
                "python": built.python,
                "packages": built.packages,
            }
        )
    else:
        show(f"Toolbox: {built.path}\ndigest {built.digest}")
        show(f"Next: diagnose-bench run --toolbox {built.path} --agent …")
