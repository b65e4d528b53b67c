"""The argument list of bubblewrap for one command. Every line of it closes a door; it runs nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from diagnose_bench.sandbox.limits import MIB, Limits
from diagnose_bench.sandbox.policy import MASKED_FOLDERS, SYSTEM_FOLDERS

INNER_ID = 1000
PRLIMIT = "/usr/bin/prlimit"
BASH = "/bin/bash"

ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
    "HOME": "/scratch",
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "TERM": "dumb",
    "PAGER": "cat",
    "SHELL": BASH,
    "USER": "agent",
    "PYTHONDONTWRITEBYTECODE": "1",
}

ETC_FILES: Mapping[str, bytes] = {
    "/etc/passwd": b"agent:x:1000:1000:agent:/scratch:/bin/bash\n",
    "/etc/group": b"agent:x:1000:\n",
    "/etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files\n",
    "/etc/hosts": b"127.0.0.1 localhost incident\n",
}
"""Made up, so that nothing of the host's users and names is seen."""

# What /proc tells about the host beside processes.
_PROC_FILES = (
    "buddyinfo", "cgroups", "cmdline", "config.gz", "consoles", "crypto", "devices", "diskstats", "dma",
    "execdomains", "fb", "filesystems", "interrupts", "iomem", "ioports", "kallsyms", "kcore", "key-users",
    "keys", "kmsg", "kpagecgroup", "kpagecount", "kpageflags", "latency_stats", "locks", "mdstat", "misc",
    "modules", "mtrr", "pagetypeinfo", "partitions", "sched_debug", "schedstat", "slabinfo", "softirqs",
    "swaps", "sysrq-trigger", "timer_list", "version", "version_signature", "vmallocinfo", "vmstat",
    "zoneinfo",
)  # fmt: skip

_INIT_MEMORY = ("1/mem", "1/task/1/mem")
"""Process 1 is bubblewrap itself and has no resource limits: a command must not write code into it."""


def bubblewrap_arguments(
    *,
    snapshot: Path,
    scratch: Path,
    limits: Limits,
    masked: Sequence[Path],
    etc_descriptors: Mapping[str, int],
    seccomp_descriptor: int,
    status_descriptor: int,
    environment: Mapping[str, str] = ENVIRONMENT,
    binds: Sequence[tuple[Path, str]] = (),
) -> list[str]:
    """All options, in the order in which bubblewrap carries them out.

    Parameters
    ----------
    snapshot, scratch : Path
        Real paths. The path of the snapshot is seen in /proc/self/mountinfo: it has to say nothing.
    limits : Limits
        Sizes of the memory disks.
    masked : sequence of Path
        Places below the system folders to cover.
    etc_descriptors : mapping
        Path in the sandbox to a descriptor with its content.
    seccomp_descriptor, status_descriptor : int
        The filter; where bubblewrap reports the process id and the exit code.
    environment : mapping
        The variables of the command, and no others.
    binds : sequence of (Path, str)
        What else to show read-only, and where.

    Notes
    -----
    No mount point lies below /snapshot or /scratch: older versions may follow a link there (CVE-2026-87766).
    """
    arguments = [
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"),
        *("--unshare-cgroup-try", "--disable-userns"),
        *("--uid", str(INNER_ID), "--gid", str(INNER_ID), "--hostname", "incident"),
        *("--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"),
    ]
    for name, value in environment.items():
        arguments += ["--setenv", name, value]
    arguments += _system_arguments()
    for folder in (*MASKED_FOLDERS, *map(str, masked)):
        if os.path.isdir(folder):
            arguments += ["--size", "4096", "--tmpfs", folder, "--remount-ro", folder]
        elif os.path.exists(folder):
            arguments += ["--ro-bind", "/dev/null", folder]
    for path, descriptor in etc_descriptors.items():
        arguments += ["--perms", "0444", "--ro-bind-data", str(descriptor), path]
    # Even with another user id, /proc/sys must not be writable: a core pattern runs a program on the host.
    arguments += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]
    for name in (*_present_proc_files(), *_INIT_MEMORY):
        arguments += ["--ro-bind", "/dev/null", f"/proc/{name}"]
    return [
        *arguments,
        *("--dev", "/dev", "--size", str(limits.shm_mb * MIB), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),
        *("--size", str(limits.tmp_mb * MIB), "--tmpfs", "/tmp"),
        *("--ro-bind", str(snapshot), "/snapshot", "--bind", str(scratch), "/scratch"),
        *(text for source, place in binds for text in ("--ro-bind", str(source), place)),
        # Without this, / is a writable memory disk of half the machine's memory.
        *("--remount-ro", "/", "--chdir", "/scratch"),
        *("--seccomp", str(seccomp_descriptor), "--json-status-fd", str(status_descriptor)),
    ]


def command_line(command: Sequence[str | bytes], limits: Limits, command_s: float) -> list[str | bytes]:
    """What runs inside: the resource limits, then the command."""
    return [PRLIMIT, *limits.prlimit(command_s), "--", *command]


def _system_arguments() -> list[str]:
    arguments: list[str] = []
    for folder in SYSTEM_FOLDERS:
        if os.path.islink(folder):
            arguments += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            arguments += ["--ro-bind", folder, folder]
    return [*arguments, "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]


@cache
def _present_proc_files() -> tuple[str, ...]:
    return tuple(name for name in _PROC_FILES if os.path.exists(f"/proc/{name}"))
