"""Named sockets of services that could run a program outside of an agent's cover, or read a file for it.

Finds paths to cover and says which environment variables lead to such services; connects to nothing.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

KNOWN = (
    "/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock", "/run/crio/crio.sock",
    "/run/dbus/system_bus_socket", "/run/systemd/private", "/run/user/{uid}/bus",
    "/run/user/{uid}/systemd/private", "/run/user/{uid}/podman/podman.sock", "/run/user/{uid}/docker.sock",
)  # fmt: skip
"""Services that run a program for whoever asks."""

_VARIABLES = frozenset(
    {
        *("TMUX", "TMUX_PANE", "STY", "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS"),
        *("DOCKER_HOST", "CONTAINER_HOST"),
    }
)
# Names of users and hosts, without which programs know neither.
_ALLOWED = re.compile(
    r"/run/(nscd/socket|systemd/resolve/.*|systemd/userdb/.*|avahi-daemon/socket)|/var/lib/sss/pipes/.*"
)
# They type, or start programs, for whoever asks.
_RUNS_PROGRAMS = re.compile(
    r".*/(tmux-\d+/[^/]+|screens?/S-[^/]+/[^/]+|\.screen/[^/]+|dbus-[^/]+|emacs\d*/[^/]+|nvim[^/]*(/.*)?"
    r"|kitty[^/]*)"
)
_ACCEPTS = 0x10000
_TABLE = Path("/proc/net/unix")


def without_doors(env: Mapping[str, str]) -> dict[str, str]:
    """An environment that names no service which runs programs."""
    return {name: value for name, value in env.items() if name not in _VARIABLES}


def known_doors(known: Iterable[str] = KNOWN) -> list[Path]:
    """Where the well-known services listen, if they are there."""
    paths = dict.fromkeys(os.path.realpath(door.format(uid=os.getuid())) for door in known)
    return [Path(path) for path in paths if os.path.exists(path)]


def listening_doors() -> list[Path]:
    """Every named socket that this user can reach and on which somebody listens, but for an allow list.

    Notes
    -----
    In place of sockets that have a folder to themselves, the folder: the next one in it is covered, too.
    """
    agent = _ssh_agent()
    found = []
    for path in _open_sockets():
        folder = os.path.dirname(path)
        found.append(folder if _holds_only_sockets(folder, agent) else path)
    return [Path(path) for path in dict.fromkeys(found)]


def program_doors() -> list[Path]:
    """Those among them that are known to belong to services that run programs: terminals, editors, buses."""
    return [Path(path) for path in _open_sockets() if _RUNS_PROGRAMS.fullmatch(path)]


def _open_sockets() -> list[str]:
    agent = _ssh_agent()
    real = dict.fromkeys(os.path.realpath(path) for path in _listening())
    return [path for path in real if path != agent and not _ALLOWED.fullmatch(path) and _can_connect(path)]


def _ssh_agent() -> str | None:
    named = os.environ.get("SSH_AUTH_SOCK")
    return os.path.realpath(named) if named else None


def _listening() -> Iterator[str]:
    try:
        lines = _TABLE.read_text(errors="surrogateescape").splitlines()[1:]
    except OSError:
        return
    for line in lines:
        fields = line.split(maxsplit=7)
        if len(fields) < 8 or not int(fields[3], 16) & _ACCEPTS:
            continue
        # Others have no path; one in /proc is that of a descriptor of the process that bound it.
        if fields[7].startswith("/") and not fields[7].startswith("/proc/"):
            yield fields[7]


def _can_connect(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode) and os.access(path, os.W_OK)
    except OSError:
        return False


def _holds_only_sockets(folder: str, agent: str | None) -> bool:
    try:
        if os.stat(folder).st_mode & stat.S_ISVTX:
            return False  # a place for everybody's files
        with os.scandir(folder) as entries:
            return all(
                entry.path != agent and stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)
                for entry in entries
            )
    except OSError:
        return False
