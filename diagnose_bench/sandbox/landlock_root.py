"""A file tree of its own for the Landlock backend, where the kernel lets an ordinary user make one.

With it the snapshot is /snapshot and the scratch folder /scratch, /tmp and /dev/shm are sized memory disks,
and nothing else of the host's files is there at all. Where user namespaces are forbidden nothing is done, and
Landlock alone has to keep the files apart. Runs in the helper process only.
"""

from __future__ import annotations

import base64
import os
import socket

from diagnose_bench.sandbox import landlock_kernel as kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

INNER_ID = 1000
DEVICES = ("null", "zero", "full", "random", "urandom")
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}
_NEW_ROOT = "/tmp"
_NAMESPACES = (
    kernel.CLONE_NEWUSER
    | kernel.CLONE_NEWNS
    | kernel.CLONE_NEWNET
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUTS
)
_LOCKED = kernel.MS_NOSUID | kernel.MS_NODEV


def build_root(config: dict[str, Any]) -> bool:
    """Move this process into a file tree of its own; False, and nothing changed, where that is forbidden."""
    if not config["may_map"]:
        return False
    # A failure half-way could not be undone: a child finds out.
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _build(config)
            code = 0
        finally:
            os._exit(code)
    if os.waitpid(child, 0)[1] != 0:
        return False
    _build(config)
    return True


def _build(config: dict[str, Any]) -> None:
    uid, gid = os.geteuid(), os.getegid()
    kernel.unshare(_NAMESPACES)
    kernel.write_id_maps(uid, gid, INNER_ID)
    socket.sethostname("incident")
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    # Held open: the new root may lie over the folders that they are in.
    sources = {
        target: os.open(source, os.O_PATH | os.O_CLOEXEC)
        for target, source in config["binds"].items()
        if os.path.lexists(source)
    }
    links = {folder: os.readlink(folder) for folder in config["system"] if os.path.islink(folder)}
    kernel.mount("tmpfs", _NEW_ROOT, "tmpfs", _LOCKED, "size=4m,mode=0755")
    for path, link in links.items():
        os.symlink(link, _NEW_ROOT + path)
    for path, content in config["etc"].items():
        _make_parent(_NEW_ROOT + path)
        with open(_NEW_ROOT + path, "wb") as file:
            file.write(base64.b64decode(content))
    for target, descriptor in sources.items():
        flags = 0 if target in config["devices"] else _LOCKED
        if target not in config["writable_binds"] and target not in config["devices"]:
            flags |= kernel.MS_RDONLY
        _bind(descriptor, _NEW_ROOT + target, flags)
        os.close(descriptor)
    for folder in config["masked"]:
        _cover(_NEW_ROOT + folder)
    for name, link in _DEVICE_LINKS.items():
        os.symlink(link, f"{_NEW_ROOT}/dev/{name}")
    for target, size in config["memory_disks"].items():
        os.makedirs(_NEW_ROOT + target, exist_ok=True)
        kernel.mount("tmpfs", _NEW_ROOT + target, "tmpfs", _LOCKED, f"size={size},mode=0700")
    kernel.mount(None, _NEW_ROOT, None, kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | _LOCKED)
    kernel.make_root(_NEW_ROOT)


def _make_parent(path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)


def _bind(descriptor: int, target: str, flags: int) -> None:
    source = f"/proc/self/fd/{descriptor}"
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        _make_parent(target)
        with open(target, "xb"):
            pass
    kernel.mount(source, target, None, kernel.MS_BIND | kernel.MS_REC)
    if flags:
        kernel.set_mount_flags(target, flags)


def _cover(path: str) -> None:
    if os.path.islink(path):
        return
    if os.path.isdir(path):
        kernel.mount("tmpfs", path, "tmpfs", _LOCKED | kernel.MS_RDONLY, "size=4k,mode=0755")
    elif os.path.exists(path):
        kernel.mount(_NEW_ROOT + "/dev/null", path, None, kernel.MS_BIND)
