"""Who a shell is on the host: nobody of importance, even where the harness is root."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from diagnose_bench.errors import SandboxPolicyError

UNPRIVILEGED_ID = 61000
"""Who the shell is on the host when the harness runs as root."""


def dropped_id() -> int | None:
    """The user and group id that commands get on the host, or None to keep the caller's.

    Notes
    -----
    The root of a user namespace that holds no other id (a rootless container) is an ordinary user to the
    kernel, and has nobody to become.
    """
    return UNPRIVILEGED_ID if os.geteuid() == 0 and _is_mapped(UNPRIVILEGED_ID) else None


def _is_mapped(uid: int) -> bool:
    with contextlib.suppress(OSError, ValueError):
        for name in ("uid_map", "gid_map"):
            lines = Path(f"/proc/self/{name}").read_text().splitlines()
            ranges = [tuple(map(int, line.split())) for line in lines]
            if not any(first <= uid < first + length for first, _, length in ranges):
                return False
    return True


def hand_over(scratch: Path, uid: int) -> None:
    """Make the scratch folder writable for the shell's user.

    Raises
    ------
    SandboxPolicyError
        It holds files and belongs to somebody else: a person's folder is not taken over.
    """
    if scratch.stat().st_uid == uid:
        return
    if any(scratch.iterdir()):
        raise SandboxPolicyError(
            f"{scratch}: cannot be the scratch folder: running as root, the shell runs as uid {uid}, and the "
            "folder holds files of another user. Give an empty folder."
        )
    os.chown(scratch, uid, uid)
    scratch.chmod(0o700)
