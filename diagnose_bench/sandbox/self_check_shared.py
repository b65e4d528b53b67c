"""The questions to a sandbox that shares the kernel's view of processes with the host: Landlock, containers.

As in `self_check`, the script inside prints what it finds, and what that means is judged out here.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from diagnose_bench.errors import SandboxUnavailableError
from diagnose_bench.sandbox import messages, policy
from diagnose_bench.sandbox.base import CheckResult, Sandbox
from diagnose_bench.sandbox.limits import MIB

# What the scripts inside have in common.
PROBE = r"""
import ctypes, json, os, socket, sys
question = json.loads(sys.argv[1])
found = {}

def can_write(path):
    try:
        with open(path, "w") as file:
            file.write("x")
        os.unlink(path)
    except OSError:
        return False
    return True

def can_open(family):
    try:
        socket.socket(family, socket.SOCK_RAW if family == 16 else socket.SOCK_STREAM).close()
    except OSError:
        return False
    return True

def written_to(path, most):
    written = 0
    try:
        with open(path, "wb", 0) as file:
            block = bytes(1 << 20)
            while written < most:
                written += file.write(block)
    except OSError:
        pass
    os.unlink(path)
    return written
"""

# Runs inside. Prints what it finds and judges nothing.
_PROBE = r"""
snapshot = os.environ.get("SNAPSHOT", "/snapshot")
scratch = os.environ.get("SCRATCH", "/scratch")
libc = ctypes.CDLL(None, use_errno=True)

def is_readable(path):
    try:
        if os.path.isdir(path):
            return bool(os.listdir(path))
        if os.stat(path).st_rdev == os.stat("/dev/null").st_rdev:
            return False
        os.close(os.open(path, os.O_RDONLY))
    except OSError:
        return False
    return True

def can_signal(pid):
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True

harness = question["harness"]
found["readable"] = [path for path in question["hidden"] if is_readable(path)]
found["processes"] = [
    what
    for what, is_open in (
        ("environment", is_readable(f"/proc/{harness}/environ") and question["shares_processes"]),
        ("memory", is_readable(f"/proc/{harness}/mem") and question["shares_processes"]),
        ("signal", can_signal(harness) and question["shares_processes"]),
    )
    if is_open
]
found["writable"] = [
    folder
    for folder in (snapshot, "/", "/usr", "/etc", "/dev", "/proc/sys/kernel", "/var/tmp", "/home")
    if can_write(os.path.join(folder, "probe-of-the-self-check"))
]
found["scratch_is_writable"] = can_write(os.path.join(scratch, "probe-of-the-self-check"))
families = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16, "AF_VSOCK": 40}
found["sockets"] = [name for name in question["families"] if can_open(families[name])]
found["no_new_privs"] = libc.prctl(39, 0, 0, 0, 0)
found["seccomp"] = libc.prctl(21, 0, 0, 0, 0)
header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
libc.capget(header, data)
found["capabilities"] = [data[0] | data[1], data[3] | data[4]]
found["bounding"] = sum(libc.prctl(23, number, 0, 0, 0) == 1 for number in range(64))
child = os.fork()
if child == 0:
    os._exit(0 if libc.unshare(0x10000000) == 0 else 1)
found["new_user_namespace"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
found["file_bytes"] = written_to(
    os.path.join(scratch, "big-file-of-the-self-check"), question["file_bytes"]
)
print(json.dumps(found))
"""

_CHILDREN = r"""
import os, sys, time
for number in range(int(sys.argv[1])):
    try:
        child = os.fork()
    except OSError:
        break
    if child == 0:
        time.sleep(60)
        os._exit(0)
    print(number + 1, flush=True)
time.sleep(float(sys.argv[2]))
"""

_DAEMON = r"""
import os, sys, time
file = os.path.join(os.environ.get("SCRATCH", "/scratch"), "daemon-of-the-self-check")
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(3):
            os.close(number)
        while True:
            with open(file, "a") as out:
                out.write("x")
            time.sleep(0.02)
    os._exit(0)
while not (os.path.exists(file) and os.path.getsize(file)):
    time.sleep(0.01)
"""


def check_shared(sandbox: Sandbox, hidden: Sequence[Path]) -> list[CheckResult]:
    """Ask an open sandbox.

    Parameters
    ----------
    sandbox : Sandbox
        Its scratch folder is used and left as it was.
    hidden : sequence of Path
        What must not be readable inside, beside the project's own folders and the home.
    """
    limits = sandbox.limits
    is_container = ":" in sandbox.backend
    paths = [*policy.project_paths(), *policy.home_folders(), *hidden]
    question = {
        "hidden": sorted({str(place) for path in paths for place in (path, path.resolve())} - {"/"}),
        "harness": os.getpid(),
        "shares_processes": not is_container,
        # In a container no socket of anybody else has a name.
        "families": [*([] if is_container else ["AF_UNIX"]), "AF_INET", "AF_INET6", "AF_NETLINK", "AF_VSOCK"],
        "file_bytes": (limits.file_mb + 36) * MIB,
    }
    asked = shlex.quote(json.dumps(question))
    answer = sandbox.run(f"exec python3 -I - {asked} <<'PROBE'\n{PROBE}{_PROBE}\nPROBE")
    try:
        found = json.loads(answer.shown)
    except ValueError:
        if "python3: " in answer.text and "not found" in answer.text:
            raise SandboxUnavailableError(messages.NO_PYTHON) from None
        detail = f"exit code {answer.exit_code}: {answer.text[-500:].strip()}"
        return [CheckResult("the self-check's script runs", False, detail)]
    return [*_judge(found, sandbox), _children(sandbox), _daemon(sandbox)]


def _judge(found: dict[str, Any], sandbox: Sandbox) -> list[CheckResult]:
    limits = sandbox.limits
    privileges = {name: found[name] for name in ("capabilities", "no_new_privs", "seccomp")}
    return [
        CheckResult(
            "the project, the home and the harness cannot be read",
            not found["readable"],
            ", ".join(found["readable"]) or "nothing",
        ),
        CheckResult(
            "no other process can be looked into or signalled",
            not found["processes"],
            ", ".join(found["processes"]) or "none",
        ),
        CheckResult(
            "the snapshot and the system refuse a write and the scratch folder takes one",
            not found["writable"] and found["scratch_is_writable"],
            ", ".join(found["writable"]) or f"scratch: {found['scratch_is_writable']}",
        ),
        CheckResult("no socket opens", not found["sockets"], ", ".join(found["sockets"]) or "none"),
        CheckResult(
            "no capability is left and the filter is on",
            not any(found["capabilities"]) and found["no_new_privs"] == 1 and found["seccomp"] == 2,
            str(privileges),
        ),
        CheckResult(
            "no new user namespace can be made",
            not found["new_user_namespace"],
            f"made: {found['new_user_namespace']}",
        ),
        CheckResult(
            f"no file grows beyond {limits.file_mb} MiB",
            found["file_bytes"] <= limits.file_mb * MIB,
            f"{found['file_bytes'] / MIB:g} MiB written",
        ),
    ]


def _children(sandbox: Sandbox) -> CheckResult:
    most = sandbox.limits.processes
    # Where the kernel counts other processes, too, the watcher needs a moment to count these.
    patience_s = 0 if sandbox.capabilities.has_own_paths else 20
    command = f"exec python3 -I - {most + 72} {patience_s} <<'PROBE'\n{_CHILDREN}\nPROBE"
    answer = sandbox.run(command)
    lines = [line for line in answer.text.splitlines() if line.isdigit()]
    n_started = int(lines[-1]) if lines else 0
    held = n_started < most or answer.limit_hit == "processes"
    return CheckResult(f"no more than {most} processes start", held, f"{n_started} started")


def _daemon(sandbox: Sandbox) -> CheckResult:
    sandbox.run(f"exec python3 -I - <<'PROBE'\n{_DAEMON}\nPROBE")
    file = sandbox.scratch / "daemon-of-the-self-check"
    try:
        size = file.stat().st_size
        time.sleep(0.15)
        is_alive = file.stat().st_size != size
    except OSError as error:
        return CheckResult(
            "nothing outlives its command", False, f"the daemon did not start: {error.strerror}"
        )
    finally:
        sandbox.run('rm -f "${SCRATCH:-/scratch}"/daemon-of-the-self-check')
    return CheckResult("nothing outlives its command", not is_alive, f"daemon alive: {is_alive}")
