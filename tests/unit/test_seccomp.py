import errno
import os
import struct

import pytest

from diagnose_bench.errors import SandboxUnavailableError
from diagnose_bench.sandbox import seccomp
from diagnose_bench.sandbox.seccomp import Extent

# Numbers as the kernel's own headers give them (asm/unistd_64.h and asm-generic/unistd.h).
PUBLISHED = {
    "x86_64": dict(
        bpf=321,
        chmod=90,
        clone=56,
        clone3=435,
        execve=59,
        fallocate=285,
        fchmodat=268,
        ioctl=16,
        keyctl=250,
        memfd_create=319,
        mount=165,
        inotify_add_watch=254,
        msgsnd=69,
        open=2,
        prlimit64=302,
        setpriority=141,
        setrlimit=160,
        setxattr=188,
        socketpair=53,
        utimensat=280,
        open_by_handle_at=304,
        openat=257,
        ptrace=101,
        read=0,
        setns=308,
        socket=41,
        unshare=272,
    ),
    "aarch64": dict(
        bpf=280,
        clone=220,
        clone3=435,
        execve=221,
        fallocate=47,
        fchmodat=53,
        inotify_add_watch=27,
        ioctl=29,
        keyctl=219,
        memfd_create=279,
        mount=40,
        msgsnd=189,
        open_by_handle_at=265,
        openat=56,
        prlimit64=261,
        ptrace=117,
        read=63,
        setns=268,
        setpriority=140,
        setrlimit=164,
        setxattr=5,
        socket=198,
        socketpair=199,
        unshare=97,
        utimensat=88,
    ),
}
ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
MACHINES = sorted(PUBLISHED)


def answer(machine, name, *arguments, number=None, architecture=None, extent=Extent.NAMESPACES):
    """What the kernel would make of one call: an interpreter of classic BPF, written from its manual."""
    call = PUBLISHED[machine][name] if number is None else number
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<iIQ6Q", call, architecture or ARCHITECTURE[machine], 0, *padded)
    program = list(struct.iter_unpack("=HBBI", seccomp.filter_program(machine, extent)))
    accumulator = position = 0
    while True:
        code, if_true, if_false, value = program[position]
        position += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif code == 0x54:
            accumulator &= value
        elif code == 0x06:
            return value
        else:
            holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[
                code
            ]
            position += if_true if holds else if_false


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", ["mount", "unshare", "ptrace", "bpf", "keyctl", "memfd_create", "setns"])
def test_dangerous_calls_are_not_permitted(machine, name):
    assert answer(machine, name) == ERRNO | errno.EPERM


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", ["read", "execve"])
def test_ordinary_calls_are_allowed(machine, name):
    assert answer(machine, name) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_that_the_c_library_can_do_without_look_absent(machine):
    assert answer(machine, "clone3") == ERRNO | errno.ENOSYS
    assert answer(machine, "fallocate") == ERRNO | errno.EOPNOTSUPP


@pytest.mark.parametrize("machine", MACHINES)
def test_only_local_sockets_open(machine):
    af_unix, af_inet, af_netlink, af_vsock = 1, 2, 16, 40
    assert answer(machine, "socket", af_unix) == ALLOW
    for family in (af_inet, af_netlink, af_vsock):
        assert answer(machine, "socket", family) == ERRNO | errno.EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_high_half_of_an_argument_does_not_decide(machine):
    tiocsti = 0x5412
    assert answer(machine, "ioctl", 0, tiocsti) == ERRNO | errno.EPERM
    assert answer(machine, "ioctl", 0, tiocsti | 1 << 32) == ERRNO | errno.EPERM
    assert answer(machine, "ioctl", 0, 0x541C) == ERRNO | errno.EPERM
    assert answer(machine, "ioctl", 0, 0x5401) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("flag", [0x00020000, 0x02000000, *(1 << bit for bit in range(26, 31))])
def test_no_new_namespace_by_clone(machine, flag):
    sigchld = 17
    assert answer(machine, "clone", flag | sigchld) == ERRNO | errno.EPERM
    assert answer(machine, "clone", sigchld) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_no_file_gets_a_setuid_or_setgid_bit(machine):
    for mode in (0o4755, 0o2755, 0o6000):
        assert answer(machine, "fchmodat", 3, 0, mode) == ERRNO | errno.EPERM
    assert answer(machine, "fchmodat", 3, 0, 0o1777) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_mode_of_an_open_counts_only_where_a_file_is_made(machine):
    o_creat, o_rdonly, o_tmpfile = 0o100, 0, 0o20000000
    assert answer(machine, "openat", 3, 0, o_creat, 0o4755) == ERRNO | errno.EPERM
    assert answer(machine, "openat", 3, 0, o_tmpfile, 0o4755) == ERRNO | errno.EPERM
    assert answer(machine, "openat", 3, 0, o_creat, 0o755) == ALLOW
    assert answer(machine, "openat", 3, 0, o_rdonly, 0o4755) == ALLOW


def test_calls_of_x86_64_alone_are_judged_too():
    assert answer("x86_64", "chmod", 0, 0o4755) == ERRNO | errno.EPERM
    assert answer("x86_64", "open", 0, 0o100, 0o4755) == ERRNO | errno.EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_of_another_architecture_kill(machine):
    i386, arm = 0x40000003, 0x40000028
    for architecture in (i386, arm):
        assert answer(machine, "read", architecture=architecture) == KILL


def test_x32_calls_kill():
    assert answer("x86_64", "read", number=0x40000000) == KILL
    assert answer("x86_64", "read", number=0x40000000 | 41) == KILL


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("extent", Extent)
def test_every_path_of_the_filter_ends_in_a_verdict(machine, extent):
    for number in range(600):
        ones = [0xFFFFFFFF] * 4
        verdict = answer(machine, "read", *ones, number=number, extent=extent)
        assert verdict == ALLOW or verdict >> 16 == ERRNO >> 16
    assert len(seccomp.filter_program(machine, extent)) // 8 < 4096  # the kernel takes no longer one


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("extent", Extent)
def test_limit_of_core_files_stays_where_it_is(machine, extent):
    rlimit_core, rlimit_cpu, pointer = 4, 0, 0x7F00_0000_0000
    assert answer(machine, "setrlimit", rlimit_core, extent=extent) == ERRNO | errno.EPERM
    assert answer(machine, "setrlimit", rlimit_cpu, extent=extent) == ALLOW
    # A new value is a pointer of which either half may be 0; reading the old one is fine.
    for new in (pointer, 0x1000):
        assert answer(machine, "prlimit64", 0, rlimit_core, new, extent=extent) == ERRNO | errno.EPERM
    assert answer(machine, "prlimit64", 0, rlimit_core, 0, pointer, extent=extent) == ALLOW
    assert answer(machine, "prlimit64", 0, rlimit_cpu, pointer, extent=extent) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("extent", [Extent.LANDLOCK_MAPPED, Extent.LANDLOCK_ALONE])
def test_without_namespaces_nothing_of_other_processes_is_touched(machine, extent):
    deny = ERRNO | errno.EPERM
    assert answer(machine, "prlimit64", 4321, 0, 1, extent=extent) == deny
    assert answer(machine, "setpriority", 0, 4321, 5, extent=extent) == deny
    assert answer(machine, "setpriority", 2, 0, 5, extent=extent) == deny
    assert answer(machine, "setpriority", 0, 0, 5, extent=extent) == ALLOW
    assert answer(machine, "msgsnd", extent=extent) == deny
    assert answer(machine, "msgsnd") == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("extent", [Extent.LANDLOCK_MAPPED, Extent.LANDLOCK_ALONE])
def test_without_namespaces_no_socket_opens_but_connected_pairs(machine, extent):
    af_unix, af_inet, stream, datagram, close_on_exec = 1, 2, 1, 2, 0o2000000
    deny = ERRNO | errno.EPERM
    for family in (af_unix, af_inet):
        assert answer(machine, "socket", family, stream, extent=extent) == deny
    assert answer(machine, "socketpair", af_unix, stream | close_on_exec, extent=extent) == ALLOW
    assert answer(machine, "socketpair", af_unix, datagram | close_on_exec, extent=extent) == deny
    assert answer(machine, "socketpair", af_inet, stream, extent=extent) == deny


@pytest.mark.parametrize("machine", MACHINES)
def test_landlock_alone_lets_nothing_be_changed_by_its_path(machine):
    deny = ERRNO | errno.EPERM
    for name in ("fchmodat", "setxattr", "inotify_add_watch"):
        assert answer(machine, name, extent=Extent.LANDLOCK_ALONE) == deny
        assert answer(machine, name, extent=Extent.LANDLOCK_MAPPED) == ALLOW
    for path in (0x1000, 0x7F00_0000_0000):
        assert answer(machine, "utimensat", 3, path, extent=Extent.LANDLOCK_ALONE) == deny
    # An open file's own times.
    assert answer(machine, "utimensat", 3, 0, extent=Extent.LANDLOCK_ALONE) == ALLOW


def test_machine_without_a_table_is_refused():
    with pytest.raises(SandboxUnavailableError, match="riscv64"):
        seccomp.instructions("riscv64")


def test_default_is_this_machine():
    assert seccomp.filter_program() == seccomp.filter_program(os.uname().machine)
