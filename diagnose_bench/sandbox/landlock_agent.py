"""Put a Landlock cover around an agent's own process, then become it. Runs alone, before the agent.

For machines on which bubblewrap does not work. The agent keeps network, home and programs; it cannot open a
file of a truth or a run, look into another process of its user or send one a signal. It can see names and
sizes: Landlock hides no names.
"""

from __future__ import annotations

import json
import os
import sys

from diagnose_bench.sandbox import landlock_kernel as kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_RIGHTS = kernel.ALL_FILE_RIGHTS & ~(kernel.MAKE_CHAR | kernel.MAKE_BLOCK)
_NOT_STARTED = 127


def main() -> None:
    """Read the covers from the first argument, and run the others as a command."""
    config = json.loads(sys.argv[1])
    command = sys.argv[2:]
    if config["capabilities"] is not None:
        kernel.drop_capabilities(config["capabilities"])
    kernel.no_new_privileges()
    ruleset = kernel.Ruleset(files=kernel.ALL_FILE_RIGHTS, scopes=kernel.SCOPE_SIGNALS)
    ruleset.allow("/", kernel.READ_DIR)
    cuts = {*config["hidden"], *config["read_only"], *config["apart"]}
    for path in _outside("/", cuts):
        ruleset.allow(path, _RIGHTS)
    for path in config["read_only"]:
        ruleset.allow(path, kernel.READ_ONLY)
    for path in config["visible"]:
        ruleset.allow(path, _RIGHTS)
    ruleset.enforce()
    try:
        if config["cwd"] is not None:
            os.chdir(config["cwd"])
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(_NOT_STARTED)


def _outside(folder: str, cuts: set[str]) -> Iterator[str]:
    """Folders and files that together are all of `folder` but what is cut out."""
    if folder in cuts:
        return
    prefix = folder.rstrip("/") + "/"
    if not any(cut.startswith(prefix) for cut in cuts):
        yield folder
        return
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _outside(entry.path, cuts)
        elif not entry.is_symlink() and entry.path not in cuts:
            yield entry.path
