"""Any program as an agent: started in a private folder, told of task, SHELL and SUBMIT by its environment.

Its own process is confined where that is possible, so that it cannot read truths, runs or snapshots. What it
leaves behind is stopped when the trial ends.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

from diagnose_bench.agents.base import AgentKind, AgentResult, TrialSession
from diagnose_bench.agents.options import KINDS
from diagnose_bench.agents.process import NotStarted, ProcessEnd, run_process
from diagnose_bench.agents.socket_server import TrialServer
from diagnose_bench.agents.usage_file import USAGE_VARIABLE, read_usage
from diagnose_bench.errors import SandboxError, UsageError
from diagnose_bench.exhaustion import is_exhaustion
from diagnose_bench.files import canonical_json, sha256_of_bytes, sha256_of_file
from diagnose_bench.records import AgentInfo
from diagnose_bench.sandbox.agent_limits import raise_own_limit
from diagnose_bench.sandbox.agent_process import code_folders, confine, stop_confined
from diagnose_bench.sandbox.doors import without_doors
from diagnose_bench.sandbox.leftovers import AGENT_PREFIX, claim, harness_folders, release
from diagnose_bench.sandbox.removal import remove_tree

_NAME_LENGTH = 100
_HASHED_BYTES = 64 << 20
_SCRIPT = re.compile(
    r"(?!-)(?!.*://)[^\s*?=]+\.(?:py|pyz|sh|bash|zsh|fish|js|mjs|cjs|ts|mts|rb|pl|php|lua|jl|jar|ps1)",
    re.IGNORECASE,
)
"""An argument that looks like the path of a program's file."""
_CODE_FOLLOWS = frozenset({"-c", "-e", "-m", "--eval", "--print", "-p"})
_TRIAL_VARIABLE = "DIAGNOSE_BENCH_TRIAL"
"""A secret of the trial, by which what the agent started is known: a path could be guessed."""
_VARIABLES = ("DIAGNOSE_BENCH_TASK", "DIAGNOSE_BENCH_SHELL", "DIAGNOSE_BENCH_SUBMIT")


class CommandAgent:
    """A program, in any language.

    Parameters
    ----------
    argv : sequence of str
        The program and its arguments, with absolute paths (`parse_command_line`).
    name : str
        What it is called in results.
    confined : bool
        Whether its process is confined; the run decides once (`try_to_confine`).
    """

    kind: AgentKind = "process"

    def __init__(self, argv: Sequence[str], *, name: str, confined: bool = True) -> None:
        self.argv = tuple(argv)
        self.confined = confined
        self.cover = ""
        self._info = AgentInfo(name=_shortened(name), config_digest=_config_digest(self.argv))

    @property
    def info(self) -> AgentInfo:
        """The command line as given, and a digest over it and the files that it names."""
        return self._info

    def try_to_confine(self, hidden: Sequence[Path]) -> bool:
        """Find out whether its process can be confined on this machine, and settle it."""
        raise_own_limit()
        command = confine(self.argv, hidden=hidden, read_only=code_folders())
        self.confined = command is not None
        self.cover = "" if command is None else command.layer
        return self.confined

    def diagnose(self, session: TrialSession) -> AgentResult:
        """Start the program and take what it hands in or prints."""
        with _private_folder() as folder:
            work, tools = folder / "work", folder / "tools"
            work.mkdir(0o700)
            tools.mkdir(0o700)
            task = folder / "task.md"
            task.write_text(session.task, encoding="utf-8")
            secret = secrets.token_hex(16)
            marker = f"{_TRIAL_VARIABLE}={secret}"
            with self._channels(session, tools, marker) as (server, more):
                values = (str(task), str(server.shell), str(server.submit))
                env = {**os.environ, **dict(zip(_VARIABLES, values, strict=True)), **more, "PWD": str(work)}
                env[_TRIAL_VARIABLE] = secret
                env[USAGE_VARIABLE] = str(folder / "usage.json")
                try:
                    end = self._run(session, server, folder, work, env)
                except NotStarted as error:
                    if self.confined:
                        raise
                    return AgentResult(error=f"The agent could not be started: {error}.")
                except (OSError, RuntimeError) as error:
                    # Its process was there: a trial that is unscored is run again, and nobody gets one so.
                    if not is_exhaustion(error):
                        raise
                    return AgentResult(error=f"The agent left its user nothing to work with: {error}.")
            usage = read_usage(folder / "usage.json")
            _write_log(session.log_folder / "agent_stderr.log", session.redactor.data(end.errors))
        return AgentResult(final_output=end.output, error=_error(end), usage=usage)

    @contextmanager
    def _channels(
        self, session: TrialSession, tools: Path, marker: str
    ) -> Iterator[tuple[TrialServer, dict[str, str]]]:
        """What the program reaches the trial through, and what it is told of it beside SHELL and SUBMIT."""
        with TrialServer(tools, session, marker=marker) as server:
            yield server, {}

    def _run(
        self,
        session: TrialSession,
        server: TrialServer,
        folder: Path,
        work: Path,
        env: dict[str, str],
    ) -> ProcessEnd:
        argv: Sequence[str] = self.argv
        stop: Callable[[subprocess.Popen[bytes]], None] | None = None
        if self.confined:
            command = confine(
                self.argv,
                hidden=(*session.hidden, folder.parent, *harness_folders()),
                visible=(folder,),
                read_only=code_folders(),
                cwd=work,
            )
            if command is None:
                raise SandboxError("The agent's process could not be confined, as it was when the run began.")
            argv, env = command.argv, without_doors(env)
            if command.layer == "landlock":
                # Folders that hold something hidden take no new files, /tmp among them.
                (folder / "tmp").mkdir(0o700)
                env = {**env, "TMPDIR": str(folder / "tmp")}
            stop = stop_confined
        return run_process(
            argv,
            env=env,
            cwd=work,
            marker=f"{_TRIAL_VARIABLE}={env[_TRIAL_VARIABLE]}",
            must_end=session.is_over,
            grace_left_s=session.grace_left_s,
            stop=stop,
            started=server.expect,
        )


def parse_command_line(text: str) -> tuple[str, ...]:
    """Split a command line and make its paths absolute, as the program starts in another folder.

    The program itself is looked up on PATH; an argument is made absolute if it names an existing file, or has
    a slash in it and names an existing folder.

    Raises
    ------
    UsageError
        The program does not exist or is not executable, a script in its arguments does not exist, or the line
        cannot be split.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(
            f"--agent {text!r}: cannot be split into words: {error}. Check the quotes."
        ) from error
    if not words or "\0" in text:
        raise UsageError(f"--agent {text!r}: names no program.")
    program = shutil.which(words[0])
    if program is None:
        raise UsageError(f"--agent {text!r}: {_why_not_found(words[0])}")
    _require_scripts(text, words)
    return (os.path.abspath(program), *map(_absolute, words[1:]))


def _require_scripts(text: str, words: Sequence[str]) -> None:
    """Refuse a missing script now: its interpreter would only fail, once in every trial."""
    for before, word in pairwise(words):
        if before in _CODE_FOLLOWS or not _SCRIPT.fullmatch(word):
            continue
        if not os.path.exists(word):
            raise UsageError(f"--agent {text!r}: {os.path.abspath(word)} does not exist. Check the path.")


def _why_not_found(program: str) -> str:
    path = Path(program)
    if path.is_dir():
        return f"{path} is a folder, not a program."
    if path.is_file():
        return f'{path} is not executable. Run "chmod +x {path}", or name its interpreter first.'
    if "/" in program:
        return f"{path} does not exist. Check the path."
    hint = "A program in this folder is named with ./ before it." if Path(path.name).exists() else KINDS
    return f"there is no program {path} on PATH. {hint}"


def _absolute(word: str) -> str:
    try:
        is_path = Path(word).is_file() or ("/" in word and Path(word).is_dir())
    except (OSError, ValueError):
        return word
    return os.path.abspath(word) if is_path else word


def _config_digest(argv: Sequence[str]) -> str:
    files = {}
    for word in argv:
        path = Path(word)
        if path.is_absolute() and path.is_file():
            size = path.stat().st_size
            files[word] = sha256_of_file(path) if size <= _HASHED_BYTES else f"{size} bytes"
    return sha256_of_bytes(canonical_json({"argv": list(argv), "files": files}))


def _shortened(name: str) -> str:
    return name if len(name) <= _NAME_LENGTH else name[: _NAME_LENGTH - 1] + "…"


class _Home:
    """Where the private folders of this process's trials lie: one folder that can be hidden as a whole."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_users = 0
        self._path = Path()

    def enter(self) -> Path:
        with self._lock:
            if self._n_users == 0:
                self._path = Path(tempfile.mkdtemp(prefix=AGENT_PREFIX, dir=_place()))
                claim(self._path)
            self._n_users += 1
            return self._path

    def leave(self) -> None:
        with self._lock:
            self._n_users -= 1
            if self._n_users == 0:
                release(self._path)
                remove_tree(self._path)


_home = _Home()


@contextmanager
def _private_folder() -> Iterator[Path]:
    home = _home.enter()
    try:
        folder = Path(tempfile.mkdtemp(dir=home))
        try:
            yield folder
        finally:
            with suppress(OSError):
                # The agent may have taken the rights away, and removing it needs them.
                if not folder.is_symlink():
                    folder.chmod(0o700)
            remove_tree(folder)
            if folder.is_symlink():
                folder.unlink()
    finally:
        _home.leave()


def _place() -> str:
    """Where programs may be started: some machines forbid it in their folder for temporary files."""
    usual = tempfile.gettempdir()
    for place in (usual, "/var/tmp", os.path.expanduser("~")):
        with suppress(OSError):
            if not os.statvfs(place).f_flag & os.ST_NOEXEC and os.access(place, os.W_OK | os.X_OK):
                return place
    return usual


def _write_log(path: Path, errors: bytes) -> None:
    if errors:
        path.write_bytes(errors)


def _error(end: ProcessEnd) -> str | None:
    if end.was_stopped or end.exit_code == 0:
        return None
    how = (
        f"was killed by signal {-end.exit_code}"
        if end.exit_code < 0
        else f"ended with exit code {end.exit_code}"
    )
    lines = end.errors.decode("utf-8", "replace").strip().splitlines()
    said = f" Its last words on standard error: {lines[-1].strip()[:200]}" if lines else ""
    return f"The agent {how} and left no readable diagnosis.{said}"
