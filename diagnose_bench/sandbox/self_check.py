"""Nine questions to a real sandbox with the real arguments. Any wrong answer refuses.

It trusts what its own script prints, so it has to run before an agent has touched anything.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diagnose_bench.errors import SandboxError, SandboxUnavailableError
from diagnose_bench.sandbox import messages, policy
from diagnose_bench.sandbox.base import CheckResult, Sandbox
from diagnose_bench.sandbox.extras import NO_EXTRAS, Extras
from diagnose_bench.sandbox.leftovers import remove_claimed
from diagnose_bench.sandbox.limits import MIB, Limits
from diagnose_bench.sandbox.opening import open_sandbox
from diagnose_bench.sandbox.self_check_shared import PROBE, check_shared
from diagnose_bench.sandbox.store import private_folder
from diagnose_bench.sandbox.user import dropped_id

# Runs inside. Prints what it finds and judges nothing.
_PROBE = r"""
def is_covered(path):
    if os.path.isdir(path):
        return not os.listdir(path)
    if os.path.realpath(path) != path:
        return not os.path.exists(path)
    return os.stat(path).st_rdev == os.stat("/dev/null").st_rdev

found["visible"] = [path for path in question["hidden"] if os.path.lexists(path) and not is_covered(path)]
found["pid_namespace"] = os.readlink("/proc/self/ns/pid")
found["n_processes"] = sum(name.isdigit() for name in os.listdir("/proc"))

found["writable"] = [folder for folder in ("/", "/snapshot", "/usr", "/etc", "/dev", "/proc/sys/kernel")
                     if can_write(os.path.join(folder, "probe-of-the-self-check"))]
found["scratch_is_writable"] = can_write("/scratch/probe-of-the-self-check")

families = {"AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16, "AF_VSOCK": 40}
found["sockets"] = [name for name, family in families.items() if can_open(family)]
with open("/proc/self/status") as file:
    found["status"] = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
# Another thread group member would make unshare fail for another reason: ask before any thread exists.
child = os.fork()
if child == 0:
    os._exit(0 if ctypes.CDLL(None, use_errno=True).unshare(0x10000000) == 0 else 1)
found["new_user_namespace"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
with open("/proc/1/environ", "rb") as file:
    parts = file.read().decode("utf-8", "replace").split("\0")
found["init_environment"] = [part.split("=")[0] for part in parts if part]
found["file_bytes"] = written_to("/scratch/big-file-of-the-self-check", question["file_bytes"])
children = []
try:
    for _ in range(question["n_children"]):
        child = os.fork()
        if child == 0:
            import time
            time.sleep(60)
            os._exit(0)
        children.append(child)
except OSError:
    pass
found["n_children"] = len(children)
for child in children:
    os.kill(child, 9)
print(json.dumps(found))
"""


def check_sandbox(sandbox: Sandbox, hidden: Sequence[Path] = ()) -> list[CheckResult]:
    """Ask an open sandbox the questions that its backend has to answer.

    Parameters
    ----------
    sandbox : Sandbox
        Its scratch folder is used and left as it was.
    hidden : sequence of Path
        What must not exist inside, beside the project's own folders and the home.

    Raises
    ------
    SandboxError
        It could not even be set up.
    """
    checks = [_first(sandbox)]
    if not checks[0].passed:
        return checks
    if sandbox.backend != "bwrap":
        return [*checks, *check_shared(sandbox, hidden)]
    limits = sandbox.limits
    paths = [*policy.project_paths(), *policy.home_folders(), *hidden]
    question = {
        "hidden": sorted({str(place) for path in paths for place in (path, path.resolve())} - {"/"}),
        "n_children": limits.processes + 72,
        "file_bytes": (limits.file_mb + 36) * MIB,
    }
    answer = sandbox.run(
        f"exec python3 -I - {_quoted(json.dumps(question))} <<'PROBE'\n{PROBE}{_PROBE}\nPROBE"
    )
    try:
        found = json.loads(answer.shown)
    except ValueError:
        if "python3: " in answer.text and "not found" in answer.text:
            raise SandboxUnavailableError(messages.NO_PYTHON) from None
        detail = f"exit code {answer.exit_code}: {answer.text[-500:].strip()}"
        return [*checks, CheckResult("the self-check's script runs", False, detail)]
    return [*checks, *_judge(found, limits, question)]


def _first(sandbox: Sandbox) -> CheckResult:
    answer = sandbox.run("true")
    return CheckResult("a command runs", answer.exit_code == 0, f"exit code {answer.exit_code}")


def _judge(found: dict[str, Any], limits: Limits, question: dict[str, Any]) -> list[CheckResult]:
    status = found["status"]
    capabilities = {name: int(status.get(name, "1"), 16) for name in ("CapEff", "CapPrm", "CapBnd")}
    locks = {name: status.get(name, "?") for name in ("NoNewPrivs", "Seccomp")}
    other_processes = found["pid_namespace"] != os.readlink("/proc/self/ns/pid") and found["n_processes"] < 10
    return [
        CheckResult(
            "the project, the home and the harness are not visible",
            not found["visible"] and other_processes,
            ", ".join(found["visible"]) or f"{found['n_processes']} processes",
        ),
        CheckResult(
            "/snapshot and / refuse a write and /scratch takes one",
            not found["writable"] and found["scratch_is_writable"],
            ", ".join(found["writable"]) or f"/scratch: {found['scratch_is_writable']}",
        ),
        CheckResult("no network socket opens", not found["sockets"], ", ".join(found["sockets"]) or "none"),
        CheckResult(
            "no capability is left and the filter is on",
            not any(capabilities.values()) and locks == {"NoNewPrivs": "1", "Seccomp": "2"},
            f"{capabilities} {locks}",
        ),
        CheckResult(
            "no new user namespace can be made",
            not found["new_user_namespace"],
            f"made: {found['new_user_namespace']}",
        ),
        CheckResult(
            "the harness's environment is not visible",
            found["init_environment"] == ["PATH"],
            ", ".join(found["init_environment"]),
        ),
        CheckResult(
            f"no more than {limits.processes} processes start",
            found["n_children"] < limits.processes,
            f"{found['n_children']} of {question['n_children']} started",
        ),
        CheckResult(
            f"no file grows beyond {limits.file_mb} MiB",
            found["file_bytes"] <= limits.file_mb * MIB,
            f"{found['file_bytes'] / MIB:g} MiB written",
        ),
    ]


def self_check(
    backend: str = "auto",
    *,
    limits: Limits | None = None,
    forbidden: Sequence[Path] = (),
    extras: Extras = NO_EXTRAS,
) -> list[CheckResult]:
    """Open a sandbox over an empty snapshot, ask it the questions, and refuse at a wrong answer.

    Raises
    ------
    SandboxUnavailableError
        The sandbox does not work here, or a check failed; the message names it.
    """
    return choose(backend, limits=limits, forbidden=forbidden, extras=extras).checks


@dataclass(frozen=True, slots=True)
class Choice:
    """Which backend a run uses.

    Attributes
    ----------
    backend : str
        Its name as ``open_sandbox`` takes it.
    checks : list of CheckResult
        What its self-check found.
    note : str
        What a person has to be told about the choice, or nothing.
    """

    backend: str
    checks: list[CheckResult]
    note: str = ""


def choose(
    asked: str = "auto",
    *,
    limits: Limits | None = None,
    forbidden: Sequence[Path] = (),
    extras: Extras = NO_EXTRAS,
    thorough: bool = True,
) -> Choice:
    """The backend that was asked for, checked; for ``auto`` bwrap, else landlock, else none at all.

    Parameters
    ----------
    asked : str
        As after ``--sandbox``.
    limits, forbidden, extras
        As for ``open_sandbox``.
    thorough : bool
        Ask all the questions, not only whether a command runs.

    Raises
    ------
    SandboxUnavailableError
        Nothing that was asked for works here, or a check failed; the message says what to type.
    """
    if asked == "none":
        return Choice(asked, [])

    def checked(backend: str) -> list[CheckResult]:
        return _checked(backend, limits, forbidden, extras, thorough)

    if asked != "auto":
        return Choice(asked, checked(asked))
    try:
        return Choice("bwrap", checked("bwrap"))
    except SandboxUnavailableError as error:
        reason = str(error)
    try:
        checks = checked("landlock")
    except SandboxUnavailableError as error:
        raise SandboxUnavailableError(messages.neither_message(reason, str(error))) from error
    return Choice("landlock", checks, messages.instead_message(reason))


def _checked(
    backend: str, limits: Limits | None, forbidden: Sequence[Path], extras: Extras, thorough: bool
) -> list[CheckResult]:
    snapshot = private_folder(uid=dropped_id())
    try:
        snapshot.chmod(0o755)
        with open_sandbox(backend, snapshot, limits=limits, forbidden=forbidden, extras=extras) as sandbox:
            results = check_sandbox(sandbox, forbidden) if thorough else [_first(sandbox)]
    except SandboxUnavailableError:
        raise
    except SandboxError as error:
        raise SandboxUnavailableError(str(error)) from error
    finally:
        remove_claimed(snapshot)
    for result in results:
        if not result.passed:
            raise SandboxUnavailableError(
                f'No sandbox: {backend} runs, but its self-check failed: "{result.name}" does not hold '
                f"({result.detail}). Nothing is run in a sandbox that leaks."
            )
    return results


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
