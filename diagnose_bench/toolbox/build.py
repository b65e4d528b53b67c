"""Makes a toolbox folder: pinned packages, checked by hash, for the python3 that sandboxes have.

The index is whatever pip is set up to use. Our own environment is neither copied nor looked at.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from diagnose_bench.errors import UsageError
from diagnose_bench.files import pretty_json, write_atomic
from diagnose_bench.sandbox.extras import TOOLBOX_PLACE
from diagnose_bench.toolbox.folder import FORMAT_VERSION, MANIFEST, Toolbox, tree_digest

REQUIREMENTS = Path(__file__).parent / "requirements.txt"
SYSTEM_PYTHON = "/usr/bin/python3"
OLDEST_PYTHON = (3, 11)
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s\\;]+)")
_SMOKE = "import sys; sys.path.insert(0, sys.argv[1]); import pandas, duckdb; duckdb.sql('select 1').df()"


def pinned_packages() -> dict[str, str]:
    """Name to version, as pinned."""
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    return {match[1]: match[2] for line in lines if (match := _PIN.match(line))}


def build_toolbox(out: Path, say: Callable[[str], None] = lambda _message: None) -> Toolbox:
    """Install the pinned packages into a new folder.

    Parameters
    ----------
    out : Path
        A folder that does not exist yet, or is empty.
    say : callable
        Told what happens.

    Raises
    ------
    UsageError
        It cannot be built; nothing half-built is left.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out}: is there already and not empty. Choose another folder, or remove it.")
    python = _system_python()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    except OSError as error:
        raise UsageError(f"{out}: cannot be made: {error.strerror}. Choose another folder.") from error
    try:
        say(f"Installing {', '.join(f'{name} {version}' for name, version in pinned_packages().items())}")
        _install(work)
        _tidy(work)
        _compile(work)
        _run([SYSTEM_PYTHON, "-I", "-c", _SMOKE, str(work)], "the packages do not work")
        digest = tree_digest(work)
        manifest = {
            "format_version": FORMAT_VERSION,
            "python": python,
            "machine": platform.machine(),
            "packages": pinned_packages(),
            "digest": digest,
        }
        write_atomic(work / MANIFEST, pretty_json(manifest))
        work.chmod(0o755)
        if out.exists():
            out.rmdir()
        work.rename(out)
    except OSError as error:
        raise UsageError(f"{error.filename or out}: cannot be written: {error.strerror}.") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return Toolbox(out.resolve(), python, pinned_packages(), digest)


def _system_python() -> str:
    if not os.access(SYSTEM_PYTHON, os.X_OK):
        raise UsageError(f"{SYSTEM_PYTHON}: is missing. Install python3 from the system's packages.")
    asked = [SYSTEM_PYTHON, "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    version = _run(asked, "does not run").strip()
    if tuple(map(int, version.split("."))) < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        raise UsageError(f"{SYSTEM_PYTHON} is Python {version}; the toolbox needs {oldest} or newer.")
    return version


def _install(folder: Path) -> None:
    # Our own pip can install for another interpreter, which itself often has none.
    options = ["install", "--target", str(folder), "--requirement", str(REQUIREMENTS)]
    options += ["--require-hashes", "--only-binary", ":all:", "--no-deps", "--no-compile", "--no-input"]
    options += ["--disable-pip-version-check", "--no-warn-script-location", "--quiet"]
    if _has_pip(sys.executable):
        command = [sys.executable, "-m", "pip", "--python", SYSTEM_PYTHON, *options]
    elif _has_pip(SYSTEM_PYTHON):
        command = [SYSTEM_PYTHON, "-m", "pip", *options]
    else:
        raise UsageError(
            "pip is missing, both beside diagnose-bench and for the system's python3. Install it: "
            'Debian/Ubuntu "sudo apt-get install python3-pip".'
        )
    _run(command, "pip could not install the packages")


def _has_pip(python: str) -> bool:
    return (
        subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0
    )


def _tidy(folder: Path) -> None:
    """Keep the real duckdb program; scripts name an interpreter by a path that no sandbox has."""
    programs = folder / "bin"
    shutil.rmtree(programs, ignore_errors=True)
    programs.mkdir()
    (folder / "duckdb_cli" / "duckdb").rename(programs / "duckdb")
    (programs / "duckdb").chmod(0o755)
    shutil.rmtree(folder / "duckdb_cli")
    # What pip notes down of this installation differs from one machine to the next.
    for name in ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json"):
        for path in folder.glob(f"*.dist-info/{name}"):
            path.unlink()
    for place, _, names in os.walk(folder):
        os.chmod(place, 0o755)
        for name in names:
            path = Path(place, name)
            path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def _compile(folder: Path) -> None:
    """Compile once: sandboxes cannot write caches. A file that does not compile is none for this Python."""
    command = [SYSTEM_PYTHON, "-I", "-m", "compileall", "-q", "-s", str(folder), "-p", TOOLBOX_PLACE]
    command += ["--invalidation-mode", "unchecked-hash", str(folder)]
    subprocess.run(command, capture_output=True, check=False)


def _run(command: Sequence[str], failure: str) -> str:
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    except OSError as error:
        raise UsageError(f"{command[0]}: cannot be started: {error.strerror}.") from error
    if done.returncode != 0:
        last = " ".join((done.stderr or done.stdout).split())[-600:]
        raise UsageError(f"{command[0]}: {failure}: {last or f'exit code {done.returncode}'}")
    return done.stdout
