"""The filter of an audited sandbox: which system calls are reported to the harness, as a BPF program.

It is put on top of the sandbox's own filter, by a helper inside, before the command. The kernel takes the
strictest answer of all filters, so the own filter has to leave alone what is refused here.
"""

from __future__ import annotations

import os
import struct
from functools import cache

from diagnose_bench.errors import SandboxUnavailableError
from diagnose_bench.sandbox.seccomp import ALLOW, NUMBERS, Instruction

_USER_NOTIFY = 0x7FC00000
_NEW_NAMESPACE = 0x7E020000
_AF_UNIX = 1
_O_WRITES = 0o1 | 0o2 | 0o100 | 0o1000  # O_WRONLY, O_RDWR, O_CREAT, O_TRUNC

MACHINES = ("x86_64", "aarch64")
SECCOMP_CALL = {"x86_64": 317, "aarch64": 277}

# Reported and refused, whatever their arguments: no program that reads logs needs one of them.
REFUSED = (
    "bpf", "chroot", "delete_module", "finit_module", "fsmount", "fsopen", "fspick", "init_module", "kcmp",
    "kexec_file_load", "kexec_load", "mount", "mount_setattr", "move_mount", "open_by_handle_at", "open_tree",
    "open_tree_attr", "perf_event_open", "pidfd_getfd", "pivot_root", "process_vm_readv", "process_vm_writev",
    "ptrace", "reboot", "setns", "umount2", "unshare",
)  # fmt: skip
# Reported and refused for some of their arguments, which are values and cannot change meanwhile.
REFUSED_BY_ARGUMENT = ("clone", "socket", "socketpair")
HANDED_ON = frozenset((*REFUSED, *REFUSED_BY_ARGUMENT))
"""What the sandbox's own filter must leave to this one."""

# Reported, and left to the kernel: the path lies in memory, which can change after it was read. The number of
# the argument that holds a folder's descriptor (None: there is none), and of the one that holds the path.
PATHS: dict[str, tuple[int | None, int]] = {
    "creat": (None, 0),
    "link": (None, 1),
    "linkat": (2, 3),
    "mkdir": (None, 0),
    "mkdirat": (0, 1),
    "mknod": (None, 0),
    "mknodat": (0, 1),
    "open": (None, 0),
    "openat": (0, 1),
    "rename": (None, 1),
    "renameat": (2, 3),
    "renameat2": (2, 3),
    "rmdir": (None, 0),
    "symlink": (None, 1),
    "symlinkat": (1, 2),
    "truncate": (None, 0),
    "unlink": (None, 0),
    "unlinkat": (0, 1),
}
FOLLOWING = frozenset({"creat", "open", "openat", "truncate"})
"""Of these, the calls that go through a link at the end of the path."""
_OPEN_FLAGS = {"open": 1, "openat": 2}
# name: (x86_64, aarch64), as in the table of the sandbox's own filter.
_MORE_NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "link": (86, None),
    "linkat": (265, 37),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "rmdir": (84, None),
    "symlink": (88, None),
    "symlinkat": (266, 36),
    "truncate": (76, 45),
    "unlink": (87, None),
    "unlinkat": (263, 35),
}


def _number(name: str, machine: str) -> int | None:
    return (_MORE_NUMBERS | NUMBERS)[name][MACHINES.index(machine)]


@cache
def names_by_number(machine: str) -> dict[int, str]:
    """The name of each call that may be reported.

    Raises
    ------
    SandboxUnavailableError
        For an architecture without a table.
    """
    if machine not in MACHINES:
        raise SandboxUnavailableError(f"--audit: it knows {' and '.join(MACHINES)}, not {machine}.")
    names = (*REFUSED, *REFUSED_BY_ARGUMENT, *PATHS)
    return {number: name for name in names if (number := _number(name, machine)) is not None}


def notify_instructions(machine: str) -> list[Instruction]:
    """The filter for one architecture, as (code, jump true, jump false, value).

    Raises
    ------
    SandboxUnavailableError
        For an architecture without a table.

    Notes
    -----
    It does not look at the architecture of a call: the sandbox's own filter, which is always there, kills
    every process that uses a foreign one.
    """
    report: Instruction = (0x06, 0, 0, _USER_NOTIFY)
    allow: Instruction = (0x06, 0, 0, ALLOW)
    program: list[Instruction] = [(0x20, 0, 0, 0)]
    for number, name in sorted(names_by_number(machine).items()):
        if name == "clone":
            rule = [_argument(0), (0x45, 0, 1, _NEW_NAMESPACE), report, allow]
        elif name in REFUSED_BY_ARGUMENT:
            rule = [_argument(0), (0x15, 1, 0, _AF_UNIX), report, allow]
        elif name in _OPEN_FLAGS:
            rule = [_argument(_OPEN_FLAGS[name]), (0x45, 0, 1, _O_WRITES), report, allow]
        else:
            rule = [report]
        program += [(0x15, 0, len(rule), number), *rule]
    return [*program, allow]


def _argument(index: int) -> Instruction:
    return (0x20, 0, 0, 16 + 8 * index)


@cache
def notify_program(machine: str | None = None) -> bytes:
    """The filter as the kernel reads it; default: this machine."""
    program = notify_instructions(machine or os.uname().machine)
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
