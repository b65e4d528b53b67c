"""What to tell a person when there is no sandbox: one cause, one remedy. Keyed on what bubblewrap printed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

NOT_FOUND = (
    "No sandbox: bubblewrap (bwrap) is not installed. Install it: "
    'Debian/Ubuntu "sudo apt-get install bubblewrap", Fedora/RHEL "sudo dnf install bubblewrap", '
    'Arch "sudo pacman -S bubblewrap", Alpine "apk add bubblewrap", '
    'openSUSE "sudo zypper install bubblewrap".'
)
APPARMOR = (
    "No sandbox: bwrap is installed but AppArmor forbids unprivileged user namespaces "
    "(Ubuntu 23.10 and later). Ubuntu 24.04: install apparmor-profiles, copy "
    "/usr/share/apparmor/extra-profiles/bwrap-userns-restrict to /etc/apparmor.d/ and run "
    '"sudo apparmor_parser -r /etc/apparmor.d/bwrap-userns-restrict". On a throw-away CI runner: '
    '"sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0".'
)
NO_USER_NAMESPACES = (
    "No sandbox: the kernel or the container does not allow user namespaces. In Docker: run with "
    "--security-opt seccomp=unconfined --security-opt systempaths=unconfined; on Debian 10 or RHEL 7: "
    "sysctl kernel.unprivileged_userns_clone=1 / user.max_user_namespaces."
)
PROC_MASKED = (
    'No sandbox: this container masks parts of /proc ("Mount too revealing"). '
    "Docker: --security-opt systempaths=unconfined; podman: --security-opt unmask=ALL."
)
TOO_OLD = (
    "No sandbox: bwrap is older than 0.8.0, which does not know --disable-userns. "
    "Install bubblewrap 0.8.0 or later (Debian 12, Ubuntu 24.04, Fedora 38)."
)
NOT_LINUX = (
    "No sandbox: it needs Linux. macOS: run inside Docker, Podman machine or Lima. "
    "Windows: use WSL2; WSL1 has no namespaces. See docs/threat-model.md."
)
NO_PRLIMIT = (
    "No sandbox: /usr/bin/prlimit is missing. Install util-linux from the system's packages "
    '(Alpine: "apk add util-linux-misc bash").'
)
NO_PYTHON = (
    "No sandbox: the shell needs python3 from the system's packages (in /usr/bin; what lies in /usr/local "
    'is not shown to it). Install it: Debian/Ubuntu "sudo apt-get install python3".'
)
WITHOUT_SANDBOX = (
    "WARNING: --sandbox none runs every command of the agent on this machine with your own rights. "
    "Nothing is hidden and nothing is read-only; there is no /snapshot and no /scratch: commands start in "
    "the scratch folder and find the paths in $SNAPSHOT and $SCRATCH. For writing scenarios only: "
    "no pass from it is safe."
)


NO_LANDLOCK = (
    "the kernel has no Landlock, or the container's system-call list hides it. Debian/Ubuntu kernels have it "
    "from Linux 5.13; it has to be in the boot parameter lsm= (see /sys/kernel/security/lsm)"
)


def landlock_message(version: int) -> str:
    """For a kernel whose Landlock is missing or too old."""
    found = NO_LANDLOCK if version == 0 else f"this kernel has Landlock ABI {version}, and 6 is needed"
    return f"No sandbox: {found}. Use Linux 6.12 or later (Debian 13, Ubuntu 25.04), or bubblewrap."


def landlock_failed(reason: str) -> str:
    """For a helper process that could not isolate itself."""
    return f"No sandbox: Landlock could not be set up: {reason}."


def neither_message(bubblewrap: str, landlock: str) -> str:
    """For a machine on which no backend works."""
    first = landlock.removeprefix("No sandbox: ")
    return f"{bubblewrap} Landlock, which `--sandbox auto` takes instead, does not work either: {first}"


def instead_message(bubblewrap: str) -> str:
    """For a run that ``auto`` gives Landlock."""
    cause = bubblewrap.removeprefix("No sandbox: ")
    return (
        "NOTE: the sandbox is Landlock, which is weaker than bubblewrap (see docs/threat-model.md): the "
        f"run's signature says so. Why not bubblewrap: {cause}"
    )


def no_engine_message(engine: str) -> str:
    """For a container engine that is not there."""
    package = {"docker": "docker.io"}.get(engine, engine)
    return (
        f"No sandbox: {engine} is not installed. Install it (Debian/Ubuntu: "
        f'"sudo apt-get install {package}").'
    )


def silent_engine_message(engine: str, said: str) -> str:
    """For a container engine that is there and does not run."""
    remedy = {
        "docker": 'Start it ("sudo systemctl start docker") and let your user talk to it '
        '("sudo usermod -aG docker $USER", then log in again).',
        "podman": 'Without root it needs "sudo apt-get install uidmap" and a line for your user in '
        "/etc/subuid and /etc/subgid.",
    }[engine]
    return f"{engine} is installed and does not answer. {remedy} It said: {said}"


def engine_message(engine: str, image: str, printed: bytes) -> str:
    """For an engine that could not run a container."""
    said = " ".join(printed.decode("utf-8", "replace").split())[:500]
    if "hybrid mode" in said:
        return (
            f"No sandbox: {engine} could not run a container: its runtime crun does not work on a machine "
            "that has both kinds of cgroups with controllers. Install another one (Debian/Ubuntu: "
            '"sudo apt-get install runc") and write runtime = "runc" below [engine] in '
            "/etc/containers/containers.conf."
        )
    return (
        f"No sandbox: {engine} could not run a container of {image} (it said: {said or 'nothing'}). The "
        f'image has to be on this machine ("{engine} pull {image}") and to hold bash and python3.'
    )


def setuid_message(path: str) -> str:
    """For a bubblewrap that runs as root for everybody."""
    return (
        f"No sandbox: {path} is setuid root, and then it cannot forbid further user namespaces. "
        f'Take the bit away: "sudo chmod u-s {path}".'
    )


def unreachable_message(uid: int, folder: Path) -> str:
    """For a path that the shell's user cannot enter once root is dropped."""
    return (
        f"Running as root: the shell runs as uid {uid}, which cannot enter {folder}. Choose another place "
        f"(TMPDIR for temporary copies) or chmod o+x the folder, or run as an ordinary user."
    )


def platform_message() -> str | None:
    """Why this operating system cannot have the sandbox, or None."""
    if not sys.platform.startswith("linux"):
        return NOT_LINUX
    release = os.uname().release
    if release.endswith("-Microsoft"):  # WSL1; WSL2 says "microsoft-standard"
        return NOT_LINUX
    return None


def explain(printed: str) -> str:
    """The cause and the remedy for what bubblewrap printed when it gave up."""
    known = (
        ("Unknown option --disable-userns", TOO_OLD),
        ("Unknown option", TOO_OLD),
        ("setting up uid map: Permission denied", APPARMOR),
        ("Failed RTM_NEWADDR", APPARMOR),
        ("No permissions to create new namespace", NO_USER_NAMESPACES),
        ("No permissions to creating new namespace", NO_USER_NAMESPACES),
        ("Creating new namespace failed", NO_USER_NAMESPACES),
        ("Can't mount proc", PROC_MASKED),
        (f"execvp {'/usr/bin/prlimit'}", NO_PRLIMIT),
    )
    detail = " ".join(printed.split())[:500]
    for text, message in known:
        if text in printed:
            return f"{message} (bwrap said: {detail})"
    return f"No sandbox: bwrap failed: {detail or 'it printed nothing'}."
