"""Our sandbox as one of Inspect's: the snapshot at /snapshot, a scratch folder, a fresh sandbox per command.

Only /scratch can be written, there is one user, and no network. It opens no truth and hides where truths lie.
"""

from __future__ import annotations

import base64
import secrets
import shlex
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeVar, overload

import anyio.to_thread
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentLimits,
    SandboxUserUnsupportedError,
    sandboxenv,
)
from pydantic import BaseModel

from diagnose_bench.layout import truth_folder_of
from diagnose_bench.sandbox import base, limits, opening
from diagnose_bench.suite import load_suite, verify_scenario

NAME = "diagnose-bench"
_T = TypeVar("_T")
_COMMAND_S = 120
_CHUNK = 96_000
"""As base64 it fits into one command, which may have 128 KiB."""
_READ = 3 << 20
_LIMITS = replace(limits.Limits(), output_head=5 << 20, output_tail=5 << 20, max_command_s=3600.0)
"""Longer outputs than an agent's own are shown here: files are read through them, and Inspect cuts itself."""
_STATUS = {3: FileNotFoundError, 4: IsADirectoryError, 5: PermissionError}


class SnapshotConfig(BaseModel, frozen=True):
    """Which snapshot a sandbox shows.

    Attributes
    ----------
    suite : str
        Name of a bundled suite, or a suite's folder.
    scenario_id : str
        One of its scenarios.
    backend : str
        As after ``--sandbox``.
    """

    suite: str
    scenario_id: str
    backend: str = "auto"


@sandboxenv(name=NAME)
class DiagnoseBenchSandbox(SandboxEnvironment):
    """One sample's sandbox.

    Parameters
    ----------
    config : SnapshotConfig
        What it shows.
    """

    def __init__(self, config: SnapshotConfig) -> None:
        super().__init__()
        self._config = config
        self._stack = ExitStack()
        self._sandbox: base.Sandbox | None = None
        # Everything of one sandbox in one thread: what starts a command must live as long as the command.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sandbox")

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        """Read what a log has of a sandbox."""
        return SnapshotConfig.model_validate(config)

    @classmethod
    async def sample_init(
        cls, task_name: str, config: Any, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        """Open the sandbox of one sample.

        Raises
        ------
        ValueError
            The sample does not say which snapshot.
        SandboxError, SuiteError
            It cannot be opened.
        """
        if not isinstance(config, SnapshotConfig):
            raise ValueError(f"The sandbox {NAME!r} is for the samples of the task diagnose_bench/incidents.")
        environment = cls(config)
        try:
            await environment._in_thread(environment._open)
        except BaseException:
            await environment._close()
            raise
        return {"default": environment}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: Any,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        """Remove the sandboxes of one sample."""
        for environment in environments.values():
            await environment.as_type(DiagnoseBenchSandbox)._close()

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Run one command in a fresh sandbox.

        Raises
        ------
        SandboxUserUnsupportedError
            Another user is asked for.
        TimeoutError
            The time is over.
        PermissionError
            What was asked for is no program.
        """
        if user is not None:
            raise SandboxUserUnsupportedError("The sandbox has one user of its own and no other.")
        source = "/dev/null"
        if input is not None:
            source = f".input-{secrets.token_hex(8)}"
            await self.write_file(source, input)
        mark = secrets.token_hex(16)
        script = _script(cmd, source, cwd, env or {}, mark)
        result = await self._run(script, timeout or _COMMAND_S)
        if input is not None:
            await self._run(f"rm -f -- {_path(source)}", _COMMAND_S)
        if result.limit_hit == "wall" and timeout is not None:
            raise TimeoutError(f"The command did not end within {timeout} seconds.")
        stdout, _, stderr = result.text.partition(f"\n{mark}\n")
        if result.exit_code == 126 and "permission denied" in stderr.lower():
            raise PermissionError(stderr.strip())
        most = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        return ExecResult(result.exit_code == 0, result.exit_code, stdout[-most:], stderr[-most:])

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Write a file below /scratch.

        Raises
        ------
        PermissionError, IsADirectoryError
            It cannot be written there.
        """
        data = contents.encode() if isinstance(contents, str) else contents
        path = _path(file)
        begin = (
            f'f={path}; [ -d "$f" ] && exit 4; mkdir -p -- "$(dirname -- "$f")" 2>/dev/null || exit 5; '
            '{ : > "$f"; } 2>/dev/null || exit 5'
        )
        await self._do(begin, file)
        for place in range(0, len(data), _CHUNK):
            chunk = base64.b64encode(data[place : place + _CHUNK]).decode()
            await self._do(f"base64 -d <<< {chunk} >> {path} || exit 5", file)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        """Read a file, of the snapshot or of /scratch.

        Raises
        ------
        FileNotFoundError, IsADirectoryError, PermissionError
            It cannot be read.
        OutputLimitExceededError
            It is larger than Inspect takes.
        UnicodeDecodeError
            It is no text.
        """
        path, most = _path(file), SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        look = (
            f'f={path}; [ -d "$f" ] && exit 4; [ -e "$f" ] || exit 3; [ -r "$f" ] || exit 5; '
            'stat -Lc %s -- "$f"'
        )
        size = int((await self._do(look, file)).text)
        if size > most:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        data = b""
        while len(data) < size:
            part = f"tail -c +{len(data) + 1} -- {path} | head -c {_READ} | base64 -w0"
            chunk = base64.b64decode((await self._do(part, file)).shown)
            if not chunk:
                break
            data += chunk
        return data.decode() if text else data

    async def _do(self, script: str, file: str) -> base.ExecResult:
        result = await self._run(script, _COMMAND_S)
        if result.exit_code:
            kind = _STATUS.get(result.exit_code, OSError)
            raise kind(f"{file}: {_WHY.get(kind, result.text.strip()[-200:])}")
        return result

    async def _run(self, script: str, timeout_s: float) -> base.ExecResult:
        if self._sandbox is None:
            raise RuntimeError("The sandbox is closed.")
        sandbox = self._sandbox
        try:
            return await self._in_thread(partial(sandbox.run, script, timeout_s=timeout_s))
        except BaseException:
            # Nobody waits for it any more.
            sandbox.cancel()
            raise

    async def _in_thread(self, function: Callable[[], _T]) -> _T:
        future = self._thread.submit(function)
        return await anyio.to_thread.run_sync(future.result, abandon_on_cancel=True)

    def _open(self) -> None:
        suite = load_suite(self._config.suite)
        scenario = suite.scenario(self._config.scenario_id)
        verify_scenario(scenario, lambda _message: None)
        self._sandbox = self._stack.enter_context(
            opening.open_shell(
                suite.path / scenario.id,
                backend=self._config.backend,
                limits=_LIMITS,
                digest=scenario.digest,
                forbidden=(truth_folder_of(suite.path),),
            )
        )

    async def _close(self) -> None:
        if self._sandbox is not None:
            self._sandbox.stop()
            self._sandbox = None
        with anyio.CancelScope(shield=True):
            await self._in_thread(self._stack.close)
        self._thread.shutdown(wait=False)


_WHY = {
    FileNotFoundError: "no such file or directory",
    IsADirectoryError: "is a directory",
    PermissionError: "is not allowed here: only /scratch can be written, and only what is shown be read",
}


def _path(file: str) -> str:
    """A path as a word of the shell; a relative one lies in the scratch folder."""
    if file.startswith("/"):
        return shlex.quote(file)
    return f'"${{SCRATCH:-/scratch}}"/{shlex.quote(file)}'


def _script(cmd: list[str], source: str, cwd: str | None, env: dict[str, str], mark: str) -> str:
    """The command as a script: its standard error comes after a mark, which it cannot know."""
    folder = _path(cwd if cwd is not None else ".")
    exports = "".join(f"export {name}={shlex.quote(value)}; " for name, value in env.items())
    given = source if source == "/dev/null" else _path(source)
    return (
        f'e=$(mktemp); (cd -- {folder} && {exports}exec -- {shlex.join(cmd)}) <{given} 2>"$e"; c=$?; '
        f"printf '\\n{mark}\\n'; cat -- \"$e\"; exit $c"
    )
