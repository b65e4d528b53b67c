"""The kernel's own calls behind the Landlock backend, through ctypes: no library, no binary, no policy.

Every function here does one system call or one fixed group of them, and raises ``OSError`` where the kernel
says no. What is allowed to whom is decided by the callers.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from functools import cache

TYPE_CHECKING = False  # importing typing would make every fork of the helper dearer
if TYPE_CHECKING:
    from collections.abc import Iterable

MIN_ABI = 6
"""Linux 6.12: the first Landlock that keeps signals and abstract sockets inside."""

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_CHAR, MAKE_SOCK, MAKE_BLOCK = 1 << 6, 1 << 9, 1 << 11
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
ALL_FILE_RIGHTS = (1 << 16) - 1
OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
"""The rights that a rule on a single file may have."""
READ_ONLY = EXECUTE | READ_FILE | READ_DIR
READ_WRITE = ALL_FILE_RIGHTS & ~(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV)

_ALL_TCP = 0b11  # bind, connect
SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNALS = 0b01, 0b10

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT = 0x1, 0x2, 0x4, 0x20
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1
_SET_PDEATHSIG = 1
_SET_DUMPABLE, _SET_SECCOMP, _CAPBSET_DROP, _SET_SUBREAPER, _SET_NO_NEW_PRIVS = 4, 22, 24, 36, 38
_FILTER_MODE = 2
_MNT_DETACH = 2
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_MOUNT_ATTR = {MS_RDONLY: 0x1, MS_NOSUID: 0x2, MS_NODEV: 0x4}
_LAST_CAPABILITY = 63
_CAPABILITY_VERSION = 0x20080522

# The same numbers on every architecture but these.
_BY_MACHINE = {
    "x86_64": {"pivot_root": 155, "capset": 126},
    "aarch64": {"pivot_root": 41, "capset": 91},
}
_MOUNT_SETATTR = 442


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _system_call(number: int, *arguments: object) -> int:
    return int(_libc().syscall(ctypes.c_long(number), *arguments))


def _own_number(name: str) -> int:
    return _BY_MACHINE[os.uname().machine][name]


def abi_version() -> int:
    """The version of Landlock that this kernel has; 0 without it."""
    version = _system_call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    return max(version, 0)


def no_new_privileges() -> None:
    """Give up what a setuid program could give, for good."""
    _checked(_libc().prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def become_subreaper() -> None:
    """Become the parent of every orphan among the descendants."""
    _checked(_libc().prctl(_SET_SUBREAPER, 1, 0, 0, 0), "child subreaper")


def end_with_parent(number: int) -> None:
    """Be sent a signal when the thread that started this process ends."""
    _checked(_libc().prctl(_SET_PDEATHSIG, number, 0, 0, 0), "parent death signal")


def make_dumpable() -> None:
    """Own the files in /proc/self again after a change of the user id."""
    _checked(_libc().prctl(_SET_DUMPABLE, 1, 0, 0, 0), "dumpable")


class Ruleset:
    """A Landlock ruleset: what it handles is forbidden unless a rule allows it."""

    def __init__(self, *, files: int = 0, tcp: bool = False, scopes: int = 0) -> None:
        attributes = struct.pack("=QQQ", files, _ALL_TCP if tcp else 0, scopes)
        self.files = files
        self._descriptor = _checked(
            _system_call(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0)),
            "landlock_create_ruleset",
        )

    def allow(self, path: str, rights: int) -> bool:
        """Allow rights on a file, or on a folder and all below it; False if it cannot be opened."""
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                rights &= OF_A_FILE
            if rights & self.files:
                rule = struct.pack("=Qi", rights & self.files, descriptor)
                _checked(
                    _system_call(
                        _ADD_RULE,
                        ctypes.c_int(self._descriptor),
                        ctypes.c_int(_PATH_BENEATH),
                        rule,
                        ctypes.c_uint32(0),
                    ),
                    f"landlock_add_rule {path}",
                )
        finally:
            os.close(descriptor)
        return True

    def enforce(self) -> None:
        """Put this process and all that it will start under the ruleset, for good."""
        _checked(
            _system_call(_RESTRICT_SELF, ctypes.c_int(self._descriptor), ctypes.c_uint32(0)),
            "landlock_restrict_self",
        )

    def close(self) -> None:
        """Let go of the descriptor."""
        os.close(self._descriptor)


class SeccompFilter:
    """A filter that is ready to be put on, so that nothing has to be made between fork and exec."""

    def __init__(self, program: bytes) -> None:
        self._program = ctypes.create_string_buffer(program, len(program))
        self._header = ctypes.create_string_buffer(
            struct.pack("@HP", len(program) // 8, ctypes.addressof(self._program))
        )

    def put_on(self) -> None:
        """Filter this process and all that it will start, for good."""
        _checked(
            _libc().prctl(_SET_SECCOMP, _FILTER_MODE, ctypes.byref(self._header), 0, 0), "seccomp filter"
        )


def drop_capabilities(keep: Iterable[int] = ()) -> None:
    """Give up every capability but some, from all sets."""
    kept = set(keep)
    for number in range(_LAST_CAPABILITY + 1):
        if number not in kept:
            # The kernel knows fewer than there are bits, and without CAP_SETPCAP the set stays: then
            # no_new_privs is what keeps them from coming back.
            _libc().prctl(_CAPBSET_DROP, number, 0, 0, 0)
    mask = sum(1 << number for number in kept)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    _checked(
        _system_call(_own_number("capset"), header, struct.pack("=6I", low, low, 0, high, high, 0)), "capset"
    )


def unshare(flags: int) -> None:
    """Enter new namespaces."""
    _checked(_libc().unshare(flags), "unshare")


def mount(source: str | None, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """Mount something."""
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    _checked(_libc().mount(*encoded, ctypes.c_ulong(flags), options.encode() or None), f"mount on {target}")


def set_mount_flags(target: str, flags: int) -> None:
    """Add flags to a mount and to everything mounted below it."""
    wanted = sum(attribute for flag, attribute in _MOUNT_ATTR.items() if flags & flag)
    attributes = struct.pack("=4Q", wanted, 0, 0, 0)
    _checked(
        _system_call(
            _MOUNT_SETATTR,
            ctypes.c_int(_AT_FDCWD),
            os.fsencode(target),
            ctypes.c_uint(_AT_RECURSIVE),
            attributes,
            ctypes.c_size_t(len(attributes)),
        ),
        f"mount_setattr {target}",
    )


def make_root(folder: str) -> None:
    """Make a mounted folder the root of this mount namespace and let go of the old one."""
    os.chdir(folder)
    _checked(_system_call(_own_number("pivot_root"), b".", b"."), "pivot_root")
    _checked(_libc().umount2(b".", _MNT_DETACH), "umount of the old root")
    os.chdir("/")


def write_id_maps(uid: int, gid: int, inner: int) -> None:
    """In a new user namespace: the outer `uid` and `gid` become `inner`, and nobody else exists."""
    lines = (("setgroups", "deny"), ("uid_map", f"{inner} {uid} 1"), ("gid_map", f"{inner} {gid} 1"))
    for name, text in lines:
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
