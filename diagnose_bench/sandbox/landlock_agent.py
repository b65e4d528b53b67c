"""Put a Landlock cover around an agent's own process, and end all that it started with it. Runs alone.

For machines on which bubblewrap does not work. The agent keeps network, home and programs; it cannot open a
file of a truth or a run, look into another process of its user or send one a signal. It can see names and
sizes: Landlock hides no names. This process stays outside of the cover as the parent of every orphan, where
the agent can send it nothing.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time

from diagnose_bench.sandbox import landlock_kernel as kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, NoReturn

_RIGHTS = kernel.ALL_FILE_RIGHTS & ~(kernel.MAKE_CHAR | kernel.MAKE_BLOCK)
_NOT_STARTED = 127
_END_S, _PAUSE_S = 10.0, 0.01


def main() -> None:
    """Read the covers from the first argument, and run the others as a command."""
    config = json.loads(sys.argv[1])
    command = sys.argv[2:]
    parent = os.getppid()
    kernel.become_subreaper()
    kernel.end_with_parent(signal.SIGUSR1)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    if os.getppid() != parent:
        return  # the harness ended before it could be waited for
    agent = os.fork()
    if agent == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _become(config, command)
    sys.exit(_attend(agent))


def _attend(agent: int) -> int:
    """Wait for the agent's end or that of the harness, end all that is left, and end as the agent did."""
    status = None
    while status is None and signal.sigwait({signal.SIGCHLD, signal.SIGUSR1}) == signal.SIGCHLD:
        status = _reaped().get(agent)
    give_up = time.monotonic() + _END_S
    while (left := _descendants()) and time.monotonic() < give_up:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue  # it is gone
        status = _reaped().get(agent, status)
        time.sleep(_PAUSE_S)
    code = -signal.SIGKILL if status is None else os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # None but this one: others that came meanwhile still wait.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _reaped() -> dict[int, int]:
    ended = {}
    try:
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended[found[0]] = found[1]
    except ChildProcessError:
        pass
    return ended


def _descendants() -> list[int]:
    """Every process below this one, ended ones that nobody waited for among them."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except OSError:
            continue  # it is gone
        children.setdefault(parent, []).append(int(name))
    found = []
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _become(config: dict[str, Any], command: list[str]) -> NoReturn:
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
        print(f"{command[0]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(_NOT_STARTED)


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
