"""The container backends, for whoever names an image: one fresh container for every command.

The engine isolates; its options are as tight as they go. It pulls no image, so that nothing is fetched behind
a person's back, and the image needs bash, coreutils and python3.
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from diagnose_bench.errors import SandboxError, SandboxUnavailableError
from diagnose_bench.sandbox import arguments, messages, policy
from diagnose_bench.sandbox.base import Capabilities, ExecResult
from diagnose_bench.sandbox.cgroup import n_killed_around
from diagnose_bench.sandbox.container_entry import entry_arguments
from diagnose_bench.sandbox.extras import NO_EXTRAS, Extras
from diagnose_bench.sandbox.lifetime import Lifetime
from diagnose_bench.sandbox.limits import MIB, Limits
from diagnose_bench.sandbox.output import OutputCollector
from diagnose_bench.sandbox.runner import encoded, finished, supervise
from diagnose_bench.sandbox.user import dropped_id, hand_over
from diagnose_bench.sandbox.watcher import Watcher, measure_scratch

ENGINES = ("docker", "podman")
ENVIRONMENT = {**arguments.ENVIRONMENT, "PATH": f"/usr/local/bin:{arguments.ENVIRONMENT['PATH']}"}
"""Of a command: images of a programming language have their programs in /usr/local."""
_HELPERS = 1
"""Processes of ours in a container."""
_PODMAN_PROCESSES = 32_768
_SPARE_S = 60.0
"""After its time a container ends by itself, should the harness be gone."""
_STOP_S = 60.0
_ANSWER_S = 20.0
_MOST_SAID = 4096


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
    binds: Sequence[tuple[Path, str]] = (),
) -> list[str]:
    """Everything between the engine's name and what ``entry_arguments`` says.

    Parameters
    ----------
    engine, image : str
        Whose options to use, and what to run.
    name : str
        Of the container, by which it is killed.
    id_file : Path
        Does not exist; the engine makes it once the container exists, podman beside it another one with the
        number of the container's process 1.
    snapshot, scratch : Path
        Real paths on the host.
    user : tuple of int
        Who the command is on the host.
    limits, command_s
        What it may use.
    binds : sequence of (Path, str)
        What else to show read-only, and where.
    """
    memory_mb = limits.resident_mb + limits.tmp_mb + limits.shm_mb
    resources = limits.resource_limits(command_s)
    del resources["as"]  # docker knows no such limit; process 1 sets it
    own: list[str] = []
    if engine == "podman":
        # Its writable folders are memory disks without a size.
        own = ["--read-only-tmpfs=false", f"--pidfile={id_file}.pid"]
        hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
        if os.geteuid() != 0:
            # Without it, the user of the container is another one on the host, who cannot write the scratch
            # folder. In that namespace only its own processes count, and an engine without root may have no
            # other way to count them.
            own.append("--userns=keep-id")
            most = limits.processes + _HELPERS
        else:
            # All processes of the user count, so that the engine's own limit has to do; podman's default is
            # more than it may set on some machines.
            most = _PODMAN_PROCESSES
        resources["nproc"] = (most if hard == resource.RLIM_INFINITY else min(most, hard),) * 2
    options = [
        *("run", "--rm", f"--name={name}", f"--cidfile={id_file}", "--pull=never"),
        *("--network=none", "--ipc=private", "--hostname=incident"),
        *("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges"),
        f"--user={user[0]}:{user[1]}",
        f"--pids-limit={limits.processes + _HELPERS}",
        # Memory disks count, too.
        *(f"--memory={memory_mb}m", f"--memory-swap={memory_mb}m"),
        f"--shm-size={limits.shm_mb}m",
        f"--tmpfs=/tmp:rw,nosuid,nodev,size={limits.tmp_mb * MIB},mode=1777",
        f"--volume={snapshot}:/snapshot:ro",
        f"--volume={scratch}:/scratch:rw",
        *(f"--volume={source}:{place}:ro" for source, place in binds),
        # The engine would keep all that a command prints.
        *("--workdir=/scratch", "--log-driver=none"),
        *own,
        *(f"--ulimit={kind}={soft}:{hard}" for kind, (soft, hard) in resources.items()),
        *(f"--env={key}={value}" for key, value in ENVIRONMENT.items()),
    ]
    return [*options, "--entrypoint=python3", image]


class ContainerSandbox(Lifetime):
    """Commands run in containers of an image that the user has named.

    Parameters
    ----------
    engine, image : str
        ``docker`` or ``podman``, and an image that is on this machine.
    snapshot, scratch, limits, forbidden, own_scratch
        As for ``BubblewrapSandbox``.
    extras : Extras
        Decoys; nothing else can be given.
    """

    capabilities = Capabilities()

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
        super().__init__(policy.check_scratch(scratch, self.snapshot, forbidden), own_scratch, limits)
        self._binds = extras.binds()
        uid = dropped_id()
        if uid is not None:
            hand_over(self.scratch, uid)
        self._user = (uid, uid) if uid is not None else (os.geteuid(), os.getegid())
        self._usage = measure_scratch(self.scratch, limits)

    def run(self, command: str, *, timeout_s: float | None = None) -> ExecResult:
        """Run one bash command in a fresh container.

        Raises
        ------
        SandboxError
            The engine could not run a container.
        """
        self._begin()
        data = encoded(command)
        if isinstance(data, ExecResult):
            return data
        time_s = self.limits.command_time(timeout_s)
        word = secrets.token_hex(8)
        output = OutputCollector(self.limits.output_head, self.limits.output_tail, word.encode())
        watcher = Watcher(self.limits, self.scratch, self._usage, max_tasks=self.limits.processes + _HELPERS)
        with (
            tempfile.TemporaryDirectory(prefix="diagnose-bench-id-") as folder,
            tempfile.TemporaryFile() as complaints,
        ):
            running = _Container(self._engine, self._program, Path(folder) / "id")
            watcher = Watcher(
                self.limits,
                self.scratch,
                self._usage,
                max_tasks=self.limits.processes + _HELPERS,
                group=running,
            )
            options = container_arguments(
                self._engine,
                self._image,
                name=running.name,
                id_file=running.id_file,
                snapshot=self.snapshot,
                scratch=self.scratch,
                user=self._user,
                limits=self.limits,
                command_s=time_s,
                binds=self._binds,
            )
            entry = entry_arguments(
                self.limits.resource_limits(time_s), word, math.ceil(time_s + _SPARE_S), data
            )
            try:
                process = subprocess.Popen(
                    [self._program, *options, *entry],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    # The command's own comes on stdout, too, in the order in which it was written.
                    stderr=complaints,
                    cwd="/",
                )
            except OSError as error:
                raise SandboxError(f"No sandbox: {self._engine} could not be started: {error}.") from error
            try:
                ending = supervise(
                    process,
                    output,
                    self.limits,
                    time_s,
                    watcher=watcher,
                    root_pid=running.root_pid,
                    stop=lambda: running.kill(process),
                    end_reason=self._switch.reason,
                )
            finally:
                running.remove()
            complaints.seek(0)
            said = complaints.read(_MOST_SAID)
        limit_hit = ending.limit_hit
        if not output.has_opened and limit_hit in (None, "wall"):
            raise SandboxError(messages.engine_message(self._engine, self._image, said + output.shown()))
        over = self._over_quota()
        code = ending.return_code
        exit_code = code if code >= 0 else 128 - code
        return finished(exit_code, limit_hit or over, ending, output, self.limits, time_s)


class _Container:
    """One container: its name, its process on this machine, its end."""

    def __init__(self, engine: str, program: str, id_file: Path) -> None:
        self.name = f"diagnose-bench-{secrets.token_hex(8)}"
        self.id_file = id_file
        self._engine, self._program = engine, program
        self._pid: int | None = None
        self._was_asked = False
        self._killer: subprocess.Popen[bytes] | None = None

    def root_pid(self) -> int | None:
        """Process 1 of the container, as this machine numbers it; None while or where that is not known."""
        if self._pid is None and not self._was_asked and self.id_file.exists():
            with contextlib.suppress(OSError, ValueError):
                if self._engine == "podman":
                    self._pid = int(Path(f"{self.id_file}.pid").read_text())
                else:
                    self._pid = self._asked_pid()
        return self._pid

    def _asked_pid(self) -> int | None:
        name = self.id_file.read_text().strip()
        pid = self._engine_says("inspect", "--format={{.State.Pid}}", name).decode().strip()
        if pid in ("", "0"):
            return None  # not yet
        self._was_asked = True
        # The engine may run in a virtual machine, whose numbers mean nothing here.
        return int(pid) if name in Path(f"/proc/{pid}/cgroup").read_text() else None

    def n_killed(self) -> int:
        """How many processes in it the kernel has killed because memory ran out."""
        return 0 if self._pid is None else n_killed_around(self._pid)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """End it, unless it has ended: with its process 1 all that runs in it ends."""
        if process.poll() is None and (self._killer is None or self._killer.poll() is not None):
            # Not waited for: the engine may not get on while nobody reads the command's output.
            with contextlib.suppress(OSError):
                self._killer = subprocess.Popen(
                    [self._program, "kill", self.name],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )

    def remove(self) -> None:
        """Be sure that nothing is left of one that did not end by itself."""
        if self._killer is not None:
            try:
                self._killer.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self._killer.kill()
                self._killer.wait()
        if self._killer is not None or not self.id_file.exists():
            self._engine_says("rm", "--force", self.name)

    def _engine_says(self, *arguments: str) -> bytes:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            return subprocess.run(
                [self._program, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_STOP_S,
                check=False,
            ).stdout
        return b""


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
    return messages.silent_engine_message(engine, said)
