"""A cover around the agent's own process: it keeps network, home and PATH, and cannot find truths and runs.

The agent is a program that somebody wants to have measured, so this is no prison: it may use the machine as
its user may. What is covered are folders; the harness's processes are out of reach by a process namespace.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import site
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from diagnose_bench import layout
from diagnose_bench.errors import SandboxUnavailableError
from diagnose_bench.sandbox import doors, messages
from diagnose_bench.sandbox.agent_limits import limiting_shell
from diagnose_bench.sandbox.bubblewrap import find_bubblewrap
from diagnose_bench.sandbox.landlock import check_landlock
from diagnose_bench.sandbox.landlock_client import python, standalone
from diagnose_bench.sandbox.mounts import MountTable
from diagnose_bench.sandbox.repository import other_checkouts, repository_folders
from diagnose_bench.sandbox.runs_folder import beside_run, runs_folders

_ALWAYS_HIDDEN = frozenset({".git", "tests", "dist", "build", "snapshots", "ground_truth"})
_PACKAGES = ("diagnose_bench", "scoring")
_ACCELERATORS = ("dri", "kfd", "nvidia")
_AGENT_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "mqueue")
_TRIAL_S = 30

# As root even without capabilities a file of root's can be written, and some are run by the host.
_ROOT_READ_ONLY = ("/boot", "/etc", "/usr", "/var/spool/cron", "/sys")
_ROOT_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID")
_CAPABILITY_NUMBERS = {
    "CHOWN": 0,
    "DAC_OVERRIDE": 1,
    "FOWNER": 3,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
    "NET_BIND_SERVICE": 10,
}


@dataclass(frozen=True, slots=True)
class ConfinedCommand:
    """A command line that runs the agent under its cover.

    Attributes
    ----------
    argv : tuple of str
        To be started with the agent's environment, without a shell, and ended with ``stop_confined``.
    covered : tuple of Path
        What it cannot see.
    layer : str
        ``bubblewrap``, or ``landlock``: names and sizes of what is covered can be seen, nothing more.
    """

    argv: tuple[str, ...]
    covered: tuple[Path, ...]
    layer: str = "bubblewrap"


def confine(
    argv: Sequence[str],
    *,
    hidden: Iterable[Path],
    visible: Iterable[Path] = (),
    read_only: Iterable[Path] = (),
    cwd: Path | None = None,
) -> ConfinedCommand | None:
    """The command line that runs `argv` where nothing hidden can be found, or None where that cannot work.

    Parameters
    ----------
    argv : sequence of str
        The agent.
    hidden : iterable of Path
        Folders and files to cover, wherever they can be reached; those that do not exist are passed over.
    visible : iterable of Path
        Folders and files inside hidden ones that stay, writable: the working folder, the socket.
    read_only : iterable of Path
        As `visible`, or outside of anything hidden, but not to be written: the package's code.
    cwd : Path or None
        Where the agent starts; None: where the caller is.
    """
    covers = _real_places(hidden)
    writable, readable = _real_paths(visible), _real_paths(read_only)
    try:
        bubblewrap = find_bubblewrap()
    except SandboxUnavailableError:
        return _under_landlock(argv, covers, writable, readable, cwd)
    shown = {path: "--bind" for path in writable}
    shown |= {path: "--ro-bind" for path in readable}
    # Twice, as a service may go away between the look at its socket and the cover over it.
    for base in [*_base_options(), *_base_options()]:
        services = [*doors.known_doors(), *doors.listening_doors()]
        closed = [path for path in services if not any(path.is_relative_to(place) for place in shown)]
        options = [*base, *_layers([*covers, *closed], shown)]
        if cwd is not None:
            options += ["--chdir", str(cwd.resolve())]
        if _said_by_trial([bubblewrap, *options]) is None:
            return ConfinedCommand((bubblewrap, *options, "--", *limiting_shell(), *argv), tuple(covers))
    return _under_landlock(argv, covers, writable, readable, cwd)


def _under_landlock(
    argv: Sequence[str],
    covers: Sequence[Path],
    visible: Sequence[Path],
    read_only: Sequence[Path],
    cwd: Path | None,
) -> ConfinedCommand | None:
    """The same with Landlock; None where the kernel has none or a service runs programs for anybody."""
    try:
        check_landlock()
        if open_doors():
            return None
        wrapper = _landlock_wrapper(covers, visible, read_only, cwd)
    except SandboxUnavailableError:
        return None
    if _said_by_trial(wrapper, separator=()) is not None:
        return None
    return ConfinedCommand((*wrapper, *limiting_shell(), *argv), tuple(covers), "landlock")


def _landlock_wrapper(
    covers: Sequence[Path], visible: Sequence[Path], read_only: Sequence[Path], cwd: Path | None
) -> tuple[str, ...]:
    is_root = os.geteuid() == 0
    # Devices one by one, without disks; of /proc and of root's system folders no write.
    names = [name for name in sorted(os.listdir("/dev")) if name.startswith(_ACCELERATORS)]
    devices = [f"/dev/{name}" for name in (*_AGENT_DEVICES, *names)]
    apart = ["/proc", "/dev", "/sys", *(_ROOT_READ_ONLY if is_root else ())]
    config = {
        "hidden": [str(path) for path in covers],
        "visible": [*map(str, visible), *devices],
        "read_only": [*map(str, read_only), *(os.path.realpath(path) for path in apart if path != "/dev")],
        "apart": [os.path.realpath(path) for path in apart],
        "capabilities": [_CAPABILITY_NUMBERS[name] for name in _ROOT_CAPABILITIES] if is_root else None,
        "cwd": None if cwd is None else str(cwd.resolve()),
    }
    program = standalone(("landlock_kernel", "landlock_agent"), "packages[1].landlock_agent.main()")
    return (python(), "-I", "-S", "-B", "-c", program.decode(), json.dumps(config))


def open_doors() -> list[str]:
    """Services of this machine that would run a program outside of the cover for this user."""
    found = dict.fromkeys([*doors.known_doors(), *doors.program_doors()])
    return [str(path) for path in found if os.access(path, os.W_OK)]


def why_not() -> str | None:
    """Why an agent's process cannot be covered on this machine, or None if it can."""
    layer = confine(["true"], hidden=[])
    if layer is not None:
        return None
    if doors := open_doors():
        return f"bubblewrap does not work, and Landlock cannot close {', '.join(doors)} to this user"
    return why_not_bubblewrap()


def why_not_bubblewrap() -> str | None:
    """Why bubblewrap cannot cover an agent's process, or None if it can."""
    try:
        bubblewrap = find_bubblewrap()
    except SandboxUnavailableError as error:
        return str(error)
    said = [_said_by_trial([bubblewrap, *base]) for base in _base_options()]
    return None if None in said else messages.explain(str(said[-1]))


def _said_by_trial(command: Sequence[str], separator: Sequence[str] = ("--",)) -> str | None:
    """What is said when a program cannot be run in this way, or None if it can."""
    try:
        trial = subprocess.run(
            [*command, *separator, "/bin/true"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TRIAL_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return None if trial.returncode == 0 else trial.stderr.decode("utf-8", "replace")


def stop_confined(process: subprocess.Popen[bytes], at_most_s: float = 15.0) -> None:
    """Kill a confined agent and everything that it started, and wait until it is gone."""
    for pid in _children(process.pid):
        # Process 1 of the agent's namespace, and the kernel ends all others with it; or the agent below
        # the process that put Landlock around it, which ends the others.
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    try:
        process.wait(at_most_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _base_options() -> list[list[str]]:
    """Options without the covers; the second form is for root in a container that may mount nothing."""
    options = _common_options()
    return [options, ["--unshare-user", *options]] if os.geteuid() == 0 else [options]


def _common_options() -> list[str]:
    is_root = os.geteuid() == 0
    options = ["--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc", "--bind", "/", "/"]
    for folder in _ROOT_READ_ONLY if is_root else ():
        real = os.path.realpath(folder)
        options += ["--ro-bind-try", real, real]
    # Devices of disks would show everything that is covered, and /proc of the host every process.
    options += ["--dev", "/dev"]
    for name in sorted(os.listdir("/dev")):
        if name.startswith(_ACCELERATORS):
            options += ["--dev-bind-try", f"/dev/{name}", f"/dev/{name}"]
    options += ["--proc", "/proc"]
    for mount in MountTable.read().mounts:
        if mount.kind in ("proc", "devtmpfs") and mount.point.parts[1:2] not in (("proc",), ("dev",)):
            options += ["--tmpfs", str(mount.point), "--remount-ro", str(mount.point)]
    if is_root:
        options += ["--ro-bind", "/proc/sys", "/proc/sys", "--cap-drop", "ALL"]
        if os.path.exists("/proc/sysrq-trigger"):
            options += ["--ro-bind", "/dev/null", "/proc/sysrq-trigger"]
        for name in _ROOT_CAPABILITIES:
            options += ["--cap-add", f"CAP_{name}"]
    return options


def _layers(covers: Sequence[Path], shown: Mapping[Path, str]) -> list[str]:
    """Options that cover and uncover, outer folders first, each only where it changes something."""
    options: list[str] = []
    closing: list[str] = []
    done: dict[Path, str] = {}
    for path in sorted({*covers, *shown}, key=lambda path: (len(path.parts), path)):
        around = next((done[parent] for parent in path.parents if parent in done), None)
        kind = shown.get(path, "cover")
        if kind == around or (kind == "--bind" and around is None):
            continue
        done[path] = kind
        if kind != "cover":
            options += [kind, str(path), str(path)]
        elif path.is_dir():
            # Closed at the end: mount points of what stays visible have to be made in it first.
            options += ["--size", "65536", "--perms", "0755", "--tmpfs", str(path)]
            closing += ["--remount-ro", str(path)]
        else:
            options += ["--ro-bind", "/dev/null", str(path)]
    return options + closing


def _real_paths(paths: Iterable[Path]) -> list[Path]:
    real = (Path(os.path.realpath(path)) for path in paths)
    return [path for path in dict.fromkeys(real) if path.exists()]


def _real_places(paths: Iterable[Path]) -> list[Path]:
    """Every real path under which something of `paths` can be reached, through other mounts too."""
    table = MountTable.read()
    places = [place for path in _real_paths(paths) for place in table.places(path)]
    return [place for place in _real_paths(places) if place != Path("/")]


def agent_hidden_paths(
    suite_path: Path | None,
    truth_folders: Iterable[Path],
    run_dir: Path | None,
    argv: Sequence[str],
) -> list[Path]:
    """What an agent's process must not find, for ``confine``.

    Parameters
    ----------
    suite_path : Path or None
        The suite's folder ``…/snapshots/<suite>``.
    truth_folders : iterable of Path
        Every folder of truths that the caller knows.
    run_dir : Path or None
        The run; what of it the agent needs goes into ``confine``'s `visible`.
    argv : sequence of str
        The agent's command line: what it names in a checkout stays visible, unless it is always hidden.

    Notes
    -----
    Covers the truths and snapshots of the suite and of the package (in the checkout and in every installed
    copy), the run and its neighbours, and in a checkout all but the environment, the packages, ``examples``
    and what the agent's command line names; the same in other worktrees of its repository.
    """
    hidden = [*truth_folders, layout.snapshots_root(), layout.data_root() / "ground_truth"]
    for folder in dict.fromkeys([*sys.path, *site.getsitepackages(), site.getusersitepackages()]):
        hidden.append(Path(folder or ".") / "diagnose_bench" / "_data")
    if suite_path is not None:
        truths = layout.truth_folder_of(suite_path)
        hidden += [suite_path, truths]
        hidden += [parent for parent in (suite_path.resolve().parent, truths.parent) if _is_data(parent)]
    if run_dir is not None:
        hidden += [run_dir, *beside_run(run_dir)]
    checkout = layout.checkout_root()
    if checkout is not None:
        hidden += _hidden_of_checkout(checkout, argv)
        hidden += repository_folders(checkout)
        for other in other_checkouts(checkout):
            # Of another worktree the same, but for what holds our own code.
            own = [*code_folders(), Path(sys.executable).resolve()]
            paths = _hidden_of_checkout(other, argv)
            hidden += [path for path in paths if not any(folder.is_relative_to(path) for folder in own)]
    there = [path for path in hidden if os.path.lexists(path)]
    # The folder of the first run is made only when it begins.
    around = [] if run_dir is None else runs_folders(run_dir, argv)
    return list(dict.fromkeys([*there, *around]))


def _is_data(folder: Path) -> bool:
    return folder.name in ("snapshots", "ground_truth")


def _hidden_of_checkout(checkout: Path, argv: Sequence[str]) -> list[Path]:
    named = set()
    for argument in argv:
        for part in (argument, argument.partition("=")[2]):
            real = Path(os.path.realpath(part)) if part else checkout
            if real != checkout and real.is_relative_to(checkout):
                named.add(real.relative_to(checkout).parts[0])
    hidden = [checkout / package / "_data" for package in _PACKAGES]
    for entry in checkout.iterdir():
        keeps = entry.name in {*_PACKAGES, "examples", *named} or (entry / "pyvenv.cfg").is_file()
        if entry.name in _ALWAYS_HIDDEN or not keeps:
            hidden.append(entry)
    return hidden


def code_folders() -> list[Path]:
    """The project's code and environment, which an agent may run and must not change (`read_only`)."""
    folders = [layout.package_folder()]
    checkout = layout.checkout_root()
    if checkout is not None:
        folders += [checkout / package for package in _PACKAGES]
    if sys.prefix != sys.base_prefix:
        folders.append(Path(sys.prefix))
    return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]
