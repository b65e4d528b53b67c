"""A toolbox folder as it is used: whole, as it was built, and nothing in it that must stay hidden.

Its digest is over every file but compiled caches, which are made from the rest and differ between builds.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from diagnose_bench import layout
from diagnose_bench.errors import DiagnoseBenchError, SandboxUnavailableError, UsageError
from diagnose_bench.files import canonical_json, read_json, sha256_of_bytes, sha256_of_file
from diagnose_bench.sandbox.base import Sandbox
from diagnose_bench.sandbox.policy import project_paths

MANIFEST = "toolbox.json"
FORMAT_VERSION = 1
_CACHE = "__pycache__"
_ANEW = 'Build it anew: "diagnose-bench toolbox build DIR".'


@dataclass(frozen=True, slots=True)
class Toolbox:
    """One folder.

    Attributes
    ----------
    path : Path
        Where it lies.
    python : str
        The python3 it was built for, as ``3.11``.
    packages : dict
        Name to version.
    digest : str
        Of its files.
    """

    path: Path
    python: str
    packages: dict[str, str]
    digest: str


def load_toolbox(path: Path, forbidden: Sequence[Path] = ()) -> Toolbox:
    """Check a folder that is to be shown in sandboxes.

    Parameters
    ----------
    path : Path
        What ``toolbox build`` made.
    forbidden : sequence of Path
        Truths, runs and whatever else must not be visible.

    Raises
    ------
    UsageError
        It is no toolbox, it has changed, or it would show what must stay hidden.
    """
    real = path.resolve()
    if not (real / MANIFEST).is_file():
        raise UsageError(
            f'--toolbox {path}: no toolbox is there. Build one: "diagnose-bench toolbox build {path}".'
        )
    for hidden in (*project_paths(), *forbidden):
        if hidden.resolve().is_relative_to(real):
            raise UsageError(f"--toolbox {path}: {hidden} lies in it, which no sandbox may show.")
    for hidden in (layout.package_folder(), Path(sys.prefix), *forbidden):
        if real.is_relative_to(hidden.resolve()) and hidden.resolve() not in map(Path, ("/", "/usr")):
            raise UsageError(f"--toolbox {path}: lies in {hidden}, which no sandbox may show. Move it.")
    try:
        value = read_json(real / MANIFEST, "toolbox")
    except DiagnoseBenchError as error:
        raise UsageError(f"{error} {_ANEW}") from error
    if not isinstance(value, dict) or value.get("format_version") != FORMAT_VERSION:
        raise UsageError(f"{real / MANIFEST}: is of another format version. {_ANEW}")
    digest = tree_digest(real)
    if digest != value.get("digest"):
        raise UsageError(f"--toolbox {path}: its files are not the ones that were built. {_ANEW}")
    packages = value.get("packages")
    return Toolbox(
        path=real,
        python=str(value.get("python")),
        packages={str(key): str(one) for key, one in packages.items()} if isinstance(packages, dict) else {},
        digest=digest,
    )


def tree_digest(folder: Path) -> str:
    """Hex SHA-256 over paths and contents.

    Raises
    ------
    UsageError
        The folder holds something else than plain files and folders, or cannot be read.
    """
    try:
        files = {
            file.relative_to(folder).as_posix(): sha256_of_file(file)
            for file in _files(folder)
            if file != folder / MANIFEST
        }
    except OSError as error:
        raise UsageError(f"{error.filename or folder}: cannot be read: {error.strerror}. {_ANEW}") from error
    return sha256_of_bytes(canonical_json(files))


def _files(folder: Path) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                if entry.name != _CACHE:
                    yield from _files(Path(entry.path))
            elif not stat.S_ISREG(mode) or mode & (stat.S_ISUID | stat.S_ISGID):
                raise UsageError(f"{entry.path}: a toolbox holds plain files only. {_ANEW}")
            else:
                yield Path(entry.path)


_PROBE = (
    "python3 -c 'import json, sys, pandas, duckdb; "
    'print(json.dumps(["%d.%d" % sys.version_info[:2], pandas.__version__, duckdb.__version__]))\' '
    "&& duckdb -c 'select 1' >/dev/null"
)


def check_inside(toolbox: Toolbox, sandbox: Sandbox) -> None:
    """Try a toolbox in a sandbox that shows it.

    Raises
    ------
    SandboxUnavailableError
        Its tools do not work there.
    """
    result = sandbox.run(_PROBE)
    try:
        found = json.loads(result.shown) if result.exit_code == 0 else None
    except ValueError:
        found = None
    wanted = [toolbox.python, toolbox.packages.get("pandas"), toolbox.packages.get("duckdb")]
    if found != wanted:
        said = " ".join(result.text.split())[-300:]
        raise SandboxUnavailableError(
            f"--toolbox {toolbox.path}: its tools do not work in the sandbox (built for python "
            f"{toolbox.python}; exit code {result.exit_code}: {said}). {_ANEW}"
        )
