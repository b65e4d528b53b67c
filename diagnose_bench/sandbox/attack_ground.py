"""What there is to be reached on the host: secrets, sockets and a process, put up for a list of attacks.

All of it lets everybody in who is not kept out by a sandbox: modes and owners are no help.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from diagnose_bench import layout
from diagnose_bench.sandbox.landlock_client import python
from diagnose_bench.sandbox.removal import remove_tree
from diagnose_bench.sandbox.user import dropped_id

_VICTIM = """
import os, sys, time
secret = sys.stdin.readline()
held = os.open(sys.argv[1], os.O_RDWR)
print(held, flush=True)
time.sleep(3600)
"""


class AttackGround:
    """A context manager; `context` says where everything is."""

    def __init__(self) -> None:
        self.canary = f"canary-{secrets.token_hex(12)}"
        self.context: dict[str, Any] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        try:
            self._put_up()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _put_up(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="diagnose-bench-ground-", dir="/var/tmp"))
        self._stack.callback(remove_tree, folder)
        folder.chmod(0o777)
        paths = {
            "truth": folder / "ground_truth" / "scenario-001.yaml",
            "home": folder / "home" / ".ssh" / "id_ed25519",
            "other trial": folder / "trials" / "scratch" / "notes.txt",
        }
        for path in paths.values():
            path.parent.mkdir(parents=True)
            path.write_text(self.canary)
        held = folder / "held"
        held.write_text(self.canary)
        held.chmod(0o666)
        victim, descriptor = self._start_victim(held)
        self.context = {
            "canary": self.canary,
            "paths": {name: str(path) for name, path in paths.items()}
            | {"package": str(layout.package_folder() / "__init__.py")},
            "folder": str(folder),
            "victim": victim,
            "held": descriptor,
            "harness": os.getpid(),
            **self._listen(folder),
        }

    def _start_victim(self, held: Path) -> tuple[int, int]:
        uid = dropped_id()
        # Of the very user that the shell is: only the sandbox can keep them apart.
        who: dict[str, Any] = {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}
        program = python() if uid is None else _python_for_all()
        process = subprocess.Popen(
            [program, "-I", "-S", "-c", _VICTIM, str(held)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"API_KEY": self.canary},
            cwd="/",
            **who,
        )
        self._stack.callback(_end, process)
        if process.stdin is None or process.stdout is None:
            raise OSError("the process to be attacked has no pipes")
        process.stdin.write(self.canary.encode() + b"\n")
        process.stdin.flush()
        return process.pid, int(process.stdout.readline())

    def _listen(self, folder: Path) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, family, kind, address in (
            ("tcp", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            ("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            ("tcp6", socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
            ("unix", socket.AF_UNIX, socket.SOCK_STREAM, str(folder / "stream")),
            ("datagram", socket.AF_UNIX, socket.SOCK_DGRAM, str(folder / "datagram")),
            ("abstract", socket.AF_UNIX, socket.SOCK_STREAM, f"\0{self.canary}"),
        ):
            listener = socket.socket(family, kind)
            self._stack.callback(listener.close)
            try:
                listener.bind(address)
            except OSError:  # a machine without IPv6
                made[name] = None
                continue
            if kind == socket.SOCK_STREAM:
                listener.listen(64)
            if isinstance(address, str) and not address.startswith("\0"):
                Path(address).chmod(0o777)
            made[name] = address if isinstance(address, str) else listener.getsockname()[1]
        return made


def _python_for_all() -> str:
    system = "/usr/bin/python3"
    return system if os.access(system, os.X_OK) else sys.executable


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()
