"""The system-call filter of the sandbox, as a classic BPF program made in pure Python.

One table holds the numbers of both architectures. The default is to allow: the filter takes away what
namespaces and limits leave open. It must not depend on what a process can change after the call was
checked, so it looks at numbers and at value arguments only, never at memory.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable
from enum import Enum
from functools import cache

from diagnose_bench.errors import SandboxUnavailableError

AUDIT_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

ALLOW = 0x7FFF0000
KILL_PROCESS = 0x80000000
_ERRNO = 0x00050000
_X32_BIT = 0x40000000

# name: (x86_64, aarch64); None where the architecture has no such call.
NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chmod": (90, None),
    "chown": (92, None),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "creat": (85, None),
    "delete_module": (176, 106),
    "fallocate": (285, 47),
    "fanotify_init": (300, 262),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "fchownat": (260, 54),
    "file_setattr": (469, 469),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "futimesat": (261, None),
    "init_module": (175, 105),
    "inotify_add_watch": (254, 27),
    "io_setup": (206, 0),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "ioperm": (173, None),
    "iopl": (172, None),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lchown": (94, None),
    "listmount": (458, 458),
    "lremovexattr": (198, 15),
    "lsetxattr": (189, 6),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "msgctl": (71, 187),
    "msgget": (68, 186),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "name_to_handle_at": (303, 264),
    "open": (2, None),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "openat": (257, 56),
    "openat2": (437, 437),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "prlimit64": (302, 261),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "removexattr": (197, 14),
    "removexattrat": (466, 466),
    "request_key": (249, 218),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "semctl": (66, 191),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "setpriority": (141, 140),
    "setrlimit": (160, 164),
    "settimeofday": (164, 170),
    "setxattr": (188, 5),
    "setxattrat": (463, 463),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmget": (29, 194),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "statmount": (457, 457),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "utime": (132, None),
    "utimensat": (280, 88),
    "utimes": (235, None),
    "vhangup": (153, 58),
}

# Answered as if the kernel were older: the C library then takes a call that the filter can judge.
NOT_THERE = (
    "clone3",
    "io_setup",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "openat2",
)
# Reserving space in one call would outrun the watcher of the scratch folder.
NOT_SUPPORTED = ("fallocate",)

_NEW_NAMESPACE = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_AF_UNIX = 1
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # both put characters into a terminal's input
_SETID_BITS = 0o6000
_O_CREAT, _O_TMPFILE = 0o100, 0o20000000

# name: index of the argument that carries a file mode
_MODE_ARGUMENTS = {
    "chmod": 1,
    "creat": 1,
    "fchmod": 1,
    "fchmodat": 2,
    "fchmodat2": 2,
    "mknod": 1,
    "mknodat": 2,
}
# name: index of the argument that carries the open flags; the mode follows it
_OPEN_ARGUMENTS = {"open": 1, "openat": 2}
_RLIMIT_CORE = 4
_SOCK_STREAM, _TYPE_MASK = 1, 0xF

# Without a namespace of its own a process could touch what belongs to other processes of its user.
_OWN_ONLY = {
    "ioprio_set": ((0, 1), (1, 0)),
    "prlimit64": ((0, 0),),
    "sched_setattr": ((0, 0),),
    "sched_setparam": ((0, 0),),
    "sched_setscheduler": ((0, 0),),
    "setpriority": ((0, 0), (1, 0)),
}
"""Name to (index of an argument, the only value that it may have)."""
SHARED_KERNEL = ("mq_unlink", "msgctl", "msgrcv", "msgsnd", "semctl", "semop", "semtimedop")
"""Denied too where the kernel's message queues and semaphores are everybody's."""
SHARED_FILES = (
    "chmod",
    "chown",
    "fchmodat",
    "fchmodat2",
    "fchownat",
    "file_setattr",
    "futimesat",
    "inotify_add_watch",
    "lchown",
    "lremovexattr",
    "lsetxattr",
    "removexattr",
    "removexattrat",
    "setxattr",
    "setxattrat",
    "utime",
    "utimes",
)
"""Denied too where the file tree is everybody's: Landlock keeps no watch over what these change by path.
The same changes to a file that is open are allowed, since only what may be seen can be opened."""
_BY_ARGUMENT = {
    *("clone", "ioctl", "socket", "socketpair", "setrlimit", "prlimit64", "utimensat"),
    *_MODE_ARGUMENTS,
    *_OPEN_ARGUMENTS,
    *_OWN_ONLY,
}

DENIED = tuple(
    sorted(set(NUMBERS) - {*NOT_THERE, *NOT_SUPPORTED, *SHARED_KERNEL, *SHARED_FILES} - _BY_ARGUMENT)
)

Instruction = tuple[int, int, int, int]


class Extent(Enum):
    """What the filter has to make up for."""

    NAMESPACES = "every namespace is the sandbox's own"
    LANDLOCK_MAPPED = "processes are everybody's, files are not"
    LANDLOCK_ALONE = "processes and the file tree are everybody's"


def _load(offset: int) -> Instruction:
    return (0x20, 0, 0, offset)


def _argument(index: int) -> Instruction:
    # The low half of a 64-bit argument (both architectures are little-endian): the kernel reads these
    # arguments as 32 bits, so the high half must not decide.
    return _load(16 + 8 * index)


def _equal(value: int, then: int, otherwise: int) -> Instruction:
    return (0x15, then, otherwise, value)


def _at_least(value: int, then: int, otherwise: int) -> Instruction:
    return (0x35, then, otherwise, value)


def _any_bit(mask: int, then: int, otherwise: int) -> Instruction:
    return (0x45, then, otherwise, mask)


def _return(value: int) -> Instruction:
    return (0x06, 0, 0, value)


def _refuse(number: int) -> Instruction:
    return _return(_ERRNO | number)


def _rules_by_argument(extent: Extent) -> Iterable[tuple[str, list[Instruction]]]:
    deny, allow = _refuse(errno.EPERM), _return(ALLOW)
    yield "clone", [_argument(0), _any_bit(_NEW_NAMESPACE, 0, 1), deny, allow]
    yield "ioctl", [_argument(1), _equal(_TIOCSTI, 1, 0), _equal(_TIOCLINUX, 0, 1), deny, allow]
    yield "setrlimit", [_argument(0), _equal(_RLIMIT_CORE, 0, 1), deny, allow]
    # A new limit for core files: the pointer to it is not NULL.
    core = [
        _argument(1),
        _equal(_RLIMIT_CORE, 0, 5),
        _argument(2),
        _equal(0, 0, 2),
        _load(16 + 8 * 2 + 4),
        _equal(0, 1, 0),
        deny,
        allow,
    ]
    if extent is Extent.NAMESPACES:
        yield "prlimit64", core
        for name in ("socket", "socketpair"):
            yield name, [_argument(0), _equal(_AF_UNIX, 1, 0), deny, allow]
    else:
        # A named socket of another program could be connected to. A connected pair that stays one is fine;
        # one for datagrams could still send them elsewhere.
        yield "socket", [deny]
        yield (
            "socketpair",
            [
                _argument(0),
                _equal(_AF_UNIX, 0, 3),
                _argument(1),
                (0x54, 0, 0, _TYPE_MASK),
                _equal(_SOCK_STREAM, 1, 0),
                deny,
                allow,
            ],
        )
        for name, arguments in _OWN_ONLY.items():
            rule = [
                step for index, value in arguments for step in (_argument(index), _equal(value, 1, 0), deny)
            ]
            yield name, [*rule, *(core if name == "prlimit64" else [allow])]
    if extent is Extent.LANDLOCK_ALONE:
        yield "utimensat", [_argument(1), _equal(0, 0, 2), _load(16 + 8 + 4), _equal(0, 1, 0), deny, allow]
    for name, mode in _MODE_ARGUMENTS.items():
        if extent is Extent.LANDLOCK_ALONE and name in SHARED_FILES:
            continue
        yield name, [_argument(mode), _any_bit(_SETID_BITS, 0, 1), deny, allow]
    for name, flags in _OPEN_ARGUMENTS.items():
        # Without these flags the mode is not read, and may be anything.
        yield (
            name,
            [
                _argument(flags),
                _any_bit(_O_CREAT | _O_TMPFILE, 0, 3),
                _argument(flags + 1),
                _any_bit(_SETID_BITS, 0, 1),
                deny,
                allow,
            ],
        )


def instructions(
    machine: str, extent: Extent = Extent.NAMESPACES, *, handed_on: frozenset[str] = frozenset()
) -> list[Instruction]:
    """The filter for one architecture, as (code, jump true, jump false, value).

    Parameters
    ----------
    machine : str
        As ``uname`` names it.
    extent : Extent
        What the sandbox isolates by other means.
    handed_on : frozenset of str
        Calls that are left to another filter, which has to refuse them.

    Raises
    ------
    SandboxUnavailableError
        For an architecture without a table.
    """
    if machine not in AUDIT_ARCHITECTURES:
        known = " and ".join(sorted(AUDIT_ARCHITECTURES))
        raise SandboxUnavailableError(
            f"No sandbox: the system-call filter knows {known}, and this machine is {machine}."
        )
    column = 0 if machine == "x86_64" else 1
    program = [_load(4), _equal(AUDIT_ARCHITECTURES[machine], 1, 0), _return(KILL_PROCESS), _load(0)]
    if machine == "x86_64":
        program += [_at_least(_X32_BIT, 0, 1), _return(KILL_PROCESS)]
    denied = [*DENIED]
    if extent is not Extent.NAMESPACES:
        denied += SHARED_KERNEL
    if extent is Extent.LANDLOCK_ALONE:
        denied += SHARED_FILES
    for names, number in (
        (denied, errno.EPERM),
        (NOT_THERE, errno.ENOSYS),
        (NOT_SUPPORTED, errno.EOPNOTSUPP),
    ):
        for name in names:
            if name not in handed_on and (call := NUMBERS[name][column]) is not None:
                program += [_equal(call, 0, 1), _refuse(number)]
    for name, rule in _rules_by_argument(extent):
        if name not in handed_on and (call := NUMBERS[name][column]) is not None:
            program += [_equal(call, 0, len(rule)), *rule]
    return [*program, _return(ALLOW)]


@cache
def filter_program(
    machine: str | None = None,
    extent: Extent = Extent.NAMESPACES,
    handed_on: frozenset[str] = frozenset(),
) -> bytes:
    """The filter as the kernel reads it (an array of ``struct sock_filter``); default: this machine."""
    program = instructions(machine or os.uname().machine, extent, handed_on=handed_on)
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
