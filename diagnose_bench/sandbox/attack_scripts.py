"""The scripts of `attacks`: text only, run inside a sandbox and nowhere else."""

from __future__ import annotations

from diagnose_bench.sandbox.attack_bombs import LIMIT_SCRIPTS

# What every script may use. `check` prints OPEN if its function comes back with something.
PRELUDE = r"""
import ctypes, errno, fcntl, json, os, resource, select, signal, socket, struct, subprocess, sys, termios
import threading, time
context = json.loads(sys.argv[1])
canary, victim, harness = context["canary"], context["victim"], context["harness"]
limits = context["limits"]
snapshot = os.environ.get("SNAPSHOT", "/snapshot")
scratch = os.environ.get("SCRATCH", "/scratch")
temporary = os.environ.get("TMPDIR", "/tmp")
libc = ctypes.CDLL(None, use_errno=True)
machine = os.uname().machine

def opened(what=""):
    print("OPEN", what, flush=True)

def check(function, *arguments):
    try:
        answer = function(*arguments)
    except (OSError, ValueError, RuntimeError, MemoryError):
        return
    if answer:
        opened(str(answer)[:100])

def read(path, size=1 << 16):
    with open(path, "rb") as file:
        return file.read(size)

def has_canary(path):
    return canary.encode() in read(path)

def call(x86, arm, *arguments):
    number = x86 if machine == "x86_64" else arm
    return libc.syscall(ctypes.c_long(number), *arguments) >= 0

def hold_on(seconds=0.5):
    # A limit that somebody else keeps takes as long as that somebody needs on a busy machine. Where the
    # limits are too wide to be met, there is nobody to wait for.
    time.sleep(seconds if limits["processes"] > 1000 else 20)

def fill(folder):
    for number in range(8):
        with open(f"{folder}/attack-{number}", "wb", 0) as file:
            file.write(bytes(8 << 20))
    hold_on()
    for number in range(8):
        os.unlink(f"{folder}/attack-{number}")
    opened("64 MiB")

def outlive(main):
    # Once the command itself has ended, put the file back whenever it is missing: what ends together with
    # its command cannot do that after the harness has taken the file away.
    while True:
        try:
            os.kill(main, 0)
        except ProcessLookupError:
            break
        time.sleep(0.02)
    end = time.monotonic() + 20
    while time.monotonic() < end and not os.path.exists(scratch + "/END"):
        try:
            open(scratch + "/OPEN", "x").close()
        except FileExistsError:
            pass
        time.sleep(0.02)
    os._exit(0)

def sends(family, kind, address):
    with socket.socket(family, kind) as out:
        out.settimeout(1)
        out.connect(address)
        out.send(b"x")
    return True
"""

SCRIPTS: tuple[tuple[str, ...], ...] = (
    # --- reads
    ("read", "a truth", 'check(has_canary, context["paths"]["truth"])'),
    ("read", "a file of the home", 'check(has_canary, context["paths"]["home"])'),
    ("read", "the scratch folder of another trial", 'check(has_canary, context["paths"]["other trial"])'),
    ("read", "the package's own code", 'check(read, context["paths"]["package"])'),
    ("read", "a listing of a host folder", 'check(os.listdir, context["folder"])'),
    ("read", "names beside the snapshot", 'check(os.listdir, context["paths"]["snapshot copy"])'),
    ("read", "the host's users", 'check(lambda: b"root:" in read("/etc/passwd"))'),
    ("read", "the environment of another process", 'check(has_canary, f"/proc/{victim}/environ")'),
    ("read", "the environment of the harness", 'check(read, f"/proc/{harness}/environ")'),
    ("read", "any environment with a key", """
for name in filter(str.isdigit, os.listdir("/proc")):
    check(has_canary, f"/proc/{name}/environ")
"""),
    ("read", "the command line of another process", 'check(read, f"/proc/{victim}/cmdline")'),
    ("read", "a descriptor of another process", """
check(has_canary, f"/proc/{victim}/fd/{context['held']}")
"""),
    ("read", "through the root of another process", """
check(has_canary, f"/proc/{victim}/root{context['paths']['truth']}")
"""),
    ("read", "by a link in the scratch folder", """
os.symlink(context["paths"]["truth"], scratch + "/link")
check(has_canary, scratch + "/link")
"""),
    ("read", "by a hard link", """
os.link(context["folder"] + "/held", scratch + "/hard")
check(has_canary, scratch + "/hard")
"""),
    ("read", "by a file handle", """
check(lambda: call(303, 264, -100, context["paths"]["truth"].encode(), struct.pack("Ii120x", 120, 0),
                   ctypes.byref(ctypes.c_int()), 0))
"""),
    ("read", "kernel messages", "check(lambda: call(103, 116, 10, None, 0))", "root"),
    ("read", "devices of the host", """
for name in ("vda", "sda", "nvme0n1", "mem", "kmsg", "tty0", "console", "ttyS0", "fuse", "loop-control"):
    check(lambda: os.close(os.open("/dev/" + name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)) or name)
""", "root"),
    # --- writes
    ("write", "a file of the snapshot", """
for name in os.listdir(snapshot):
    check(lambda: open(os.path.join(snapshot, name), "ab").close() or "append")
    check(lambda: os.truncate(os.path.join(snapshot, name), 0) or "truncate")
    check(lambda: os.rename(os.path.join(snapshot, name), os.path.join(snapshot, name + "x")) or "rename")
check(lambda: open(snapshot + "/new", "x").close() or "create")
""", "root"),
    ("write", "the mode of a snapshot's file", """
for name in os.listdir(snapshot):
    check(lambda: os.chmod(os.path.join(snapshot, name), 0o666) or "chmod")
"""),
    ("write", "a host folder that is everybody's", """
check(lambda: open(context["folder"] + "/probe", "x").close() or "create")
"""),
    ("write", "a host file that is everybody's", """
check(lambda: open(context["folder"] + "/held", "r+b").close() or "open")
check(lambda: os.chmod(context["folder"] + "/held", 0o600) or "chmod")
check(lambda: os.utime(context["folder"] + "/held") or "utime")
"""),
    ("write", "system folders", """
for folder in ("/usr", "/usr/bin", "/etc", "/dev", "/", "/opt", "/var/tmp", "/var/spool/cron", "/boot"):
    path = folder + "/probe-of-an-attack"
    try:
        open(path, "x").close()
    except OSError:
        continue
    os.unlink(path)
    opened(folder)
"""),
    ("write", "kernel settings", """
for name in ("kernel/core_pattern", "vm/drop_caches", "kernel/hostname", "kernel/modprobe"):
    check(lambda: open("/proc/sys/" + name, "wb").close() or name)
""", "root"),
    ("write", "a setuid file", """
open(scratch + "/tool", "w").close()
check(lambda: os.chmod(scratch + "/tool", 0o4755) or os.stat(scratch + "/tool").st_mode & 0o4000)
with open(scratch + "/other", "w") as file:
    check(lambda: os.fchmod(file.fileno(), 0o6755) or os.stat(scratch + "/other").st_mode & 0o6000)
check(lambda: os.close(os.open(scratch + "/third", os.O_CREAT | os.O_WRONLY, 0o4755)) or
      os.stat(scratch + "/third").st_mode & 0o4000)
"""),
    ("write", "a device node", """
check(lambda: os.mknod(scratch + "/disk", 0o060600, os.makedev(254, 0)) or "block")
check(lambda: os.mknod(scratch + "/memory", 0o020600, os.makedev(1, 1)) or "character")
""", "root"),
    # --- network
    ("network", "IPv4", 'check(sends, socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", context["tcp"]))'),
    ("network", "IPv6", 'check(sends, socket.AF_INET6, socket.SOCK_STREAM, ("::1", context["tcp6"] or 9))'),
    ("network", "UDP", 'check(sends, socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", context["udp"]))'),
    ("network", "a server of its own", """
with socket.socket() as server:
    check(lambda: server.bind(("0.0.0.0", 0)) or "bound")
"""),
    ("network", "DNS", """
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
    check(lambda: out.connect(("127.0.0.1", 53)) or out.send(b"x"))
"""),
    ("network", "a named socket", 'check(sends, socket.AF_UNIX, socket.SOCK_STREAM, context["unix"])'),
    ("network", "a named datagram socket", """
check(sends, socket.AF_UNIX, socket.SOCK_DGRAM, context["datagram"])
"""),
    ("network", "a named socket from a pair", """
for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
    try:
        one, other = socket.socketpair(socket.AF_UNIX, kind)
    except OSError:
        continue
    # The others take no address, or take none notice of it.
    if kind == socket.SOCK_DGRAM:
        check(lambda: one.sendto(b"x", context["datagram"]))
    check(lambda: one.connect(context["unix"]) or "connected")
"""),
    ("network", "an abstract socket", """
check(sends, socket.AF_UNIX, socket.SOCK_STREAM, context["abstract"])
"""),
    ("network", "the virtual machine's host", """
check(lambda: socket.socket(40, socket.SOCK_STREAM).close() or "AF_VSOCK")
"""),
    ("network", "raw packets", """
check(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close() or "AF_INET")
check(lambda: socket.socket(17, socket.SOCK_RAW, 0).close() or "AF_PACKET")
""", "root"),
    ("network", "netlink", 'check(lambda: socket.socket(16, socket.SOCK_RAW, 0).close() or "AF_NETLINK")'),
    ("network", "other families", """
for family in range(2, 64):
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        check(lambda: socket.socket(family, kind).close() or family)
"""),
    # --- kernel
    ("kernel", "a user namespace", """
child = os.fork()
if child == 0:
    check(lambda: libc.unshare(0x10000000) == 0)
    os._exit(0)
os.waitpid(child, 0)
"""),
    ("kernel", "other namespaces", """
for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x40000000):
    child = os.fork()
    if child == 0:
        check(lambda: libc.unshare(flag) == 0)
        os._exit(0)
    os.waitpid(child, 0)
""", "root"),
    ("kernel", "a namespace by clone", """
def child_in(flag):
    pid = libc.syscall(ctypes.c_long(56 if machine == "x86_64" else 220), ctypes.c_ulong(flag | 17), None)
    if pid == 0:
        os._exit(0)
    return pid > 0
check(child_in, 0x10000000)
"""),
    ("kernel", "a namespace by clone3", """
def child_in(flag):
    asked = struct.pack("=8Q", flag, 0, 0, 0, 17, 0, 0, 0)
    pid = libc.syscall(ctypes.c_long(435), asked, ctypes.c_size_t(len(asked)))
    if pid == 0:
        os._exit(0)
    return pid > 0
check(child_in, 0x10000000)
"""),
    ("kernel", "the namespaces of another process", """
for kind in ("mnt", "net", "pid", "uts"):
    check(lambda: libc.setns(os.open(f"/proc/{victim}/ns/{kind}", os.O_RDONLY), 0) == 0)
""", "root"),
    ("kernel", "a mount", """
child = os.fork()
if child == 0:
    check(lambda: libc.unshare(0x20000) == 0 and libc.mount(None, b"/", None, 0x44000, None) == 0)
    check(lambda: libc.mount(b"none", scratch.encode(), b"tmpfs", 0, None) == 0)
    os._exit(0)
os.waitpid(child, 0)
""", "root"),
    ("kernel", "a mount, the new way", 'check(lambda: call(430, 430, b"tmpfs", 0))', "root"),
    ("kernel", "another root", """
child = os.fork()
if child == 0:
    check(lambda: os.chroot(scratch) or "chroot")
    os._exit(0)
os.waitpid(child, 0)
""", "root"),
    ("kernel", "a key ring", """
check(lambda: call(248, 217, b"user", b"probe", b"x", ctypes.c_size_t(1), ctypes.c_int(-2)))
"""),
    ("kernel", "bpf", """
attributes = struct.pack("=IIIII108x", 2, 4, 8, 1, 0)
check(lambda: call(321, 280, 0, attributes, len(attributes)))
""", "root"),
    ("kernel", "io_uring", """
check(lambda: call(425, 425, 4, ctypes.create_string_buffer(256)))
"""),
    ("kernel", "performance events", """
attributes = struct.pack("=IIQ", 1, 112, 0) + bytes(24) + struct.pack("=Q", 0x60) + bytes(64)
check(lambda: call(298, 241, attributes, 0, -1, -1, 0))
""", "root"),
    ("kernel", "page faults of its own", "check(lambda: call(323, 282, 1))"),
    ("kernel", "memory without a file", """
check(lambda: os.close(os.memfd_create("x")) or "memfd")
"""),
    ("kernel", "shared memory of the system", """
def segment():
    number = libc.shmget(0, 4096, 0o1600)
    if number >= 0:
        libc.shmctl(number, 0, None)
    return number >= 0
check(segment)
"""),
    ("kernel", "message queues", """
def queue():
    number = libc.msgget(0, 0o1600)
    if number >= 0:
        libc.msgctl(number, 0, None)
    return number >= 0
check(queue)
"""),
    ("kernel", "a module", """
check(lambda: libc.syscall(ctypes.c_long(175 if machine == "x86_64" else 105), None, ctypes.c_ulong(0), b"")
      < 0 and ctypes.get_errno() != errno.EPERM)
""", "root"),
    ("kernel", "characters typed into a terminal", """
child = os.fork()
if child == 0:
    os.setsid()
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    check(lambda: fcntl.ioctl(slave, 0x5412, b"x") is not None)
    check(lambda: fcntl.ioctl(slave, (1 << 32 | 0x5412) - (1 << 32), b"x") is not None)
    os._exit(0)
os.waitpid(child, 0)
"""),
    ("kernel", "core files", """
check(lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)) or "limit")
"""),
    ("kernel", "the clock", """
check(lambda: time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME)) or "clock")
""", "root"),
    # --- processes
    ("process", "a signal to another process", 'check(lambda: os.kill(victim, 0) or "signal")'),
    ("process", "a signal to the harness", 'check(lambda: os.kill(harness, 0) or "signal")'),
    ("process", "tracing another process", """
def traces():
    held = libc.ptrace(16, victim, None, None) == 0
    if held:
        os.waitpid(victim, 0)
        libc.ptrace(17, victim, None, None)
    return held
check(traces)
"""),
    ("process", "the memory of another process", """
check(lambda: open(f"/proc/{victim}/mem", "rb").close() or "mem")
"""),
    ("process", "reading another process's memory", """
space = ctypes.create_string_buffer(16)
def reads():
    line = next(line for line in read(f"/proc/{victim}/maps").decode().splitlines() if " r" in line)
    start = int(line.split("-")[0], 16)
    local = struct.pack("=QQ", ctypes.addressof(space), 16)
    remote = struct.pack("=QQ", start, 16)
    one, none = ctypes.c_ulong(1), ctypes.c_ulong(0)
    return call(310, 270, ctypes.c_long(victim), local, one, remote, one, none)
check(reads)
"""),
    ("process", "the limits of another process", """
check(lambda: resource.prlimit(victim, resource.RLIMIT_CPU, resource.prlimit(victim, resource.RLIMIT_CPU)) or
      "prlimit")
"""),
    ("process", "the priority of another process", """
check(lambda: os.setpriority(os.PRIO_PROCESS, victim, os.getpriority(os.PRIO_PROCESS, victim)) or "nice")
"""),
    ("process", "a descriptor taken from another process", """
handle = os.pidfd_open(victim)
check(lambda: call(438, 438, handle, context["held"], 0))
"""),
    ("process", "another processor", """
check(lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)) or "affinity")
"""),
    *LIMIT_SCRIPTS,
)  # fmt: skip
