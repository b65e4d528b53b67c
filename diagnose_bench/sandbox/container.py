"""The container backends, for whoever names an image: one fresh container for every command.

The engine isolates; its options are as tight as they go. It pulls no image, so that nothing is fetched behind
a person's back, and the image needs bash, coreutils and python3.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from diagnose_bench.errors import SandboxError, SandboxUnavailableError
from diagnose_bench.sandbox import arguments, messages, policy
from diagnose_bench.sandbox.base import Capabilities, ExecResult
from diagnose_bench.sandbox.extras import NO_EXTRAS, Extras
from diagnose_bench.sandbox.leftovers import remove_claimed
from diagnose_bench.sandbox.limits import MIB, Limits
from diagnose_bench.sandbox.output import OutputCollector
from diagnose_bench.sandbox.runner import encoded, finished, supervise
from diagnose_bench.sandbox.switch import CommandSwitch
from diagnose_bench.sandbox.user import dropped_id, hand_over
from diagnose_bench.sandbox.watcher import Watcher, measure_scratch

ENGINES = ("docker", "podman")
_ENGINE_ERROR = 125
_STOP_S = 20.0
_ANSWER_S = 20.0


def container_arguments(
    engine: str,
    image: str,
    *,
    name: str,
    id_file: Path,
    snapshot: Path,
    scratch: Path,
    user: tuple[int, int],
    limits: Limits,
    command_s: float,
    environment: Mapping[str, str] = arguments.ENVIRONMENT,
) -> list[str]:
    """Everything between the engine's name and the command.

    Parameters
    ----------
    engine, image : str
        Whose options to use, and what to run.
    name : str
        Of the container, by which it is killed.
    id_file : Path
        Does not exist; the engine makes it once the container exists.
    snapshot, scratch : Path
        Real paths on the host.
    user : tuple of int
        Who the command is on the host.
    limits, command_s
        What it may use.
    environment : mapping
        Its variables.
    """
    resources = limits.resource_limits(command_s)
    # Without it, the user of the container is another one on the host, who cannot write the scratch folder.
    mapping = ["--userns=keep-id"] if engine == "podman" and os.geteuid() != 0 else []
    options = [
        *("run", "--rm", "--init", f"--name={name}", f"--cidfile={id_file}", "--pull=never"),
        *("--network=none", "--ipc=private", "--hostname=incident"),
        *("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges"),
        *(f"--user={user[0]}:{user[1]}", *mapping),
        f"--pids-limit={limits.processes}",
        *(f"--memory={limits.resident_mb}m", f"--memory-swap={limits.resident_mb}m"),
        f"--shm-size={limits.shm_mb}m",
        f"--tmpfs=/tmp:rw,nosuid,nodev,size={limits.tmp_mb * MIB},mode=1777",
        f"--volume={snapshot}:/snapshot:ro",
        f"--volume={scratch}:/scratch:rw",
        "--workdir=/scratch",
    ]
    for resource, (soft, hard) in resources.items():
        if resource != "as":  # docker knows no such limit; the memory of all processes is limited above
            options.append(f"--ulimit={resource}={soft}:{hard}")
    options += [f"--env={key}={value}" for key, value in environment.items()]
    return [*options, f"--entrypoint={arguments.BASH}", image]


class ContainerSandbox:
    """Commands run in containers of an image that the user has named.

    Parameters
    ----------
    engine, image : str
        ``docker`` or ``podman``, and an image that is on this machine.
    snapshot, scratch, limits, forbidden, own_scratch
        As for ``BubblewrapSandbox``.
    extras : Extras
        Decoys are left out; nothing else can be given.
    """

    capabilities = Capabilities(shows_decoys=False)

    def __init__(
        self,
        engine: str,
        image: str,
        snapshot: Path,
        scratch: Path,
        *,
        limits: Limits,
        forbidden: Sequence[Path] = (),
        own_scratch: bool = False,
        extras: Extras = NO_EXTRAS,
    ) -> None:
        self.backend = f"{engine}:{image}"
        extras.require_no_observer(self.backend)
        if extras.toolbox is not None:
            raise SandboxUnavailableError(
                f"--toolbox does not work with {self.backend}: leave it out, and name an image that has "
                "pandas and duckdb."
            )
        self._engine, self._image = engine, image
        self._program = find_engine(engine)
        self.snapshot = snapshot.resolve()
        self.scratch = policy.check_scratch(scratch, self.snapshot, forbidden)
        self.limits = limits
        self._own_scratch = own_scratch
        self._is_closed = False
        self._switch = CommandSwitch()
        uid = dropped_id()
        if uid is not None:
            hand_over(self.scratch, uid)
        self._user = (uid, uid) if uid is not None else (os.geteuid(), os.getegid())
        self._usage = measure_scratch(self.scratch, limits)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def stop(self) -> None:
        """End a command that runs, called from another thread; later commands end at once, too."""
        self._switch.stop()

    def cancel(self) -> None:
        """End the command that runs, called from another thread; later ones run as usual."""
        self._switch.cancel()

    def close(self) -> None:
        """Remove the scratch folder if it is the sandbox's own."""
        if not self._is_closed:
            self._is_closed = True
            if self._own_scratch:
                remove_claimed(self.scratch)

    def run(self, command: str, *, timeout_s: float | None = None) -> ExecResult:
        """Run one bash command in a fresh container.

        Raises
        ------
        SandboxError
            The engine could not run a container.
        """
        if self._is_closed:
            raise SandboxError("This sandbox has been closed; open another one.")
        self._switch.begin()
        data = encoded(command)
        if isinstance(data, ExecResult):
            return data
        time_s = self.limits.command_time(timeout_s)
        output = OutputCollector(self.limits.output_head, self.limits.output_tail)
        name = f"diagnose-bench-{secrets.token_hex(8)}"
        with tempfile.TemporaryDirectory(prefix="diagnose-bench-id-") as folder:
            id_file = Path(folder) / "id"
            options = container_arguments(
                self._engine,
                self._image,
                name=name,
                id_file=id_file,
                snapshot=self.snapshot,
                scratch=self.scratch,
                user=self._user,
                limits=self.limits,
                command_s=time_s,
            )
            try:
                process = subprocess.Popen(
                    [self._program, *options, "-c", data],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    cwd="/",
                )
            except OSError as error:
                raise SandboxError(f"No sandbox: {self._engine} could not be started: {error}.") from error
            ending = supervise(
                process,
                output,
                self.limits,
                time_s,
                watcher=Watcher(self.limits, self.scratch, self._usage),
                # The engine's processes are not ours to count; its own limits hold.
                root_pid=lambda: None,
                stop=lambda: self._kill(name, process),
                end_reason=self._switch.reason,
            )
            existed = id_file.exists()
        code, limit_hit = ending.return_code, ending.limit_hit
        if limit_hit is None and not existed and code in (_ENGINE_ERROR, 126, 127):
            raise SandboxError(messages.engine_message(self._engine, self._image, output.shown()))
        usage = measure_scratch(self.scratch, self.limits)
        if limit_hit is None and usage.is_over(self.limits, self._usage):
            limit_hit = "scratch"
        self._usage = usage
        exit_code = code if code >= 0 else 128 - code
        return finished(exit_code, limit_hit, ending, output, self.limits, time_s)

    def _kill(self, name: str, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is not None:
            return  # with the command the container has ended, and all that ran in it
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(
                [self._program, "kill", name],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_STOP_S,
                check=False,
            )


def find_engine(engine: str) -> str:
    """The engine's program.

    Raises
    ------
    SandboxUnavailableError
        It is not installed.
    """
    program = shutil.which(engine)
    if program is None:
        raise SandboxUnavailableError(messages.no_engine_message(engine))
    return program


def engine_problem(engine: str) -> str | None:
    """Why an engine cannot run containers here, or None if it answers."""
    program = shutil.which(engine)
    if program is None:
        return messages.no_engine_message(engine)
    try:
        done = subprocess.run(
            [program, "info"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_ANSWER_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{engine} does not answer: {error}."
    if done.returncode == 0:
        return None
    said = " ".join((done.stderr + done.stdout).decode("utf-8", "replace").split())[-300:]
    return f"{engine} is installed and does not answer: {said}"
