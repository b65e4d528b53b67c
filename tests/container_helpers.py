"""Real container engines for tests: an image out of this machine's own programs, and a docker of our own."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from diagnose_bench.sandbox.removal import remove_tree

_PROGRAMS = """
awk base64 bash basename cat chmod column cp cut date diff dirname du echo env expr false find grep
gzip head id jq less ln ls mkdir mktemp mv nproc od printf readlink rm sed seq sh sha256sum sleep
sort split sqlite3 stat tail tar tee test timeout touch tr true uname uniq wc xargs yes
"""
_NOT_NEEDED = {"__pycache__", "ensurepip", "idlelib", "lib2to3", "test", "tkinter", "turtledemo"}
_START_S = 60.0


def missing(what: str) -> None:
    """Fail in CI, where everything has to be there; elsewhere say what is not tried."""
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(what)
    pytest.skip(what)


def write_image(target: Path) -> None:
    """A file tree with bash, coreutils and python3 of this machine and what they load, as a tar file."""
    folders = subprocess.run(
        ["/usr/bin/python3", "-I", "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))"],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    files: list[str] = []
    for folder, inner, names in os.walk(folders[0]):
        inner[:] = [name for name in inner if name not in _NOT_NEEDED and not name.startswith("config-")]
        files += [os.path.join(folder, name) for name in names]
    programs = [
        f"/usr/bin/{name}" for name in (*_PROGRAMS.split(), "python3") if os.path.exists(f"/usr/bin/{name}")
    ]
    loading = [*map(os.path.realpath, programs), *(name for name in files if name.endswith(".so"))]
    told = subprocess.run(["ldd", *loading], capture_output=True, text=True, check=False).stdout
    libraries = {word for word in told.split() if word.startswith("/") and not word.endswith(":")}
    with tarfile.open(target, "w") as tar:
        for link in filter(os.path.islink, ("/bin", "/sbin", "/lib", "/lib64")):
            tar.add(link, link[1:])
        placed = set()
        for path in (*programs, *sorted(libraries), *files):
            parent = os.path.realpath(os.path.dirname(path))
            name = os.path.join(parent, os.path.basename(path))[1:]
            if name not in placed:
                placed.add(name)
                tar.add(os.path.realpath(path), name, recursive=False)


@contextlib.contextmanager
def running_engine(engine: str) -> Iterator[None]:
    """An engine that answers: podman needs nothing running, docker may have to be started."""
    if shutil.which(engine) is None:
        missing(f"{engine} is not installed")
    asked = subprocess.run([engine, "info"], capture_output=True, text=True, check=False)
    if asked.returncode == 0:
        yield
    elif engine == "docker" and os.geteuid() == 0 and shutil.which("dockerd"):
        with _own_docker():
            yield
    else:
        missing(f"{engine} is installed and does not answer: {asked.stderr[-500:]}")


@contextlib.contextmanager
def _own_docker() -> Iterator[None]:
    folder = Path(tempfile.mkdtemp(prefix="docker-", dir="/var/tmp"))
    socket = folder / "socket"
    before = os.environ.get("DOCKER_HOST")
    with open(folder / "log", "wb") as log:
        daemon = subprocess.Popen(
            [
                "dockerd",
                f"--data-root={folder / 'data'}",
                f"--exec-root={folder / 'exec'}",
                f"--pidfile={folder / 'pid'}",
                f"--host=unix://{socket}",
                *("--bridge=none", "--iptables=false", "--ip6tables=false"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        os.environ["DOCKER_HOST"] = f"unix://{socket}"
        give_up = time.monotonic() + _START_S
        while subprocess.run(["docker", "info"], capture_output=True, check=False).returncode != 0:
            if daemon.poll() is not None or time.monotonic() > give_up:
                missing("docker cannot be started: " + (folder / "log").read_text()[-1000:])
            time.sleep(0.2)
        yield
    finally:
        os.environ.pop("DOCKER_HOST")
        if before is not None:
            os.environ["DOCKER_HOST"] = before
        daemon.terminate()
        daemon.wait()
        remove_tree(folder)


@contextlib.contextmanager
def own_image(engine: str) -> Iterator[str]:
    """The name of an image that is made here and goes away again; nothing is fetched."""
    with running_engine(engine):
        name = f"localhost/diagnose-bench-test-{os.getpid()}:made-here"
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            tree = Path(folder) / "image.tar"
            write_image(tree)
            subprocess.run([engine, "import", str(tree), name], capture_output=True, check=True)
        try:
            yield name
        finally:
            subprocess.run([engine, "rmi", "--force", name], capture_output=True, check=True)
