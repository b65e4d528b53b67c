"""Opens real sandboxes for tests, as the caller and, where the caller is root, as an ordinary user too."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from diagnose_bench.sandbox import Limits, Sandbox, SnapshotStore, open_sandbox
from diagnose_bench.sandbox.user import dropped_id
from diagnose_bench.sandbox.watcher import process_tree

T = TypeVar("T")
_ORDINARY_ID = 61_234


@contextlib.contextmanager
def sandbox_over(
    snapshot: Path, limits: Limits | None = None, *, backend: str = "bwrap", **options: Any
) -> Iterator[Sandbox]:
    with (
        SnapshotStore(uid=dropped_id()) as store,
        open_sandbox(backend, store.stage(snapshot), limits=limits, **options) as sandbox,
    ):
        yield sandbox


def as_ordinary_user(function: Callable[[Path], T]) -> T:
    """Run `function(home)` as a user without privileges: in a child if the tests run as root."""
    home = Path(tempfile.mkdtemp(prefix="ordinary-", dir="/var/tmp"))
    try:
        if os.geteuid() != 0:
            return function(home)
        os.chown(home, _ORDINARY_ID, _ORDINARY_ID)
        return _in_child(function, home)
    finally:
        shutil.rmtree(home)


def _in_child(function: Callable[[Path], Any], home: Path) -> Any:
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a test runner may have threads of its own
        child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(_ORDINARY_ID)
            os.setuid(_ORDINARY_ID)
            os.chdir(home)
            os.environ.update(HOME=str(home), TMPDIR=str(home))
            tempfile.tempdir = None
            try:
                answer = (True, function(home))
            except BaseException as error:
                answer = (False, f"{type(error).__name__}: {error}")
            with os.fdopen(write_end, "wb") as pipe:
                pickle.dump(answer, pipe)
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    succeeded, answer = pickle.loads(data)
    assert succeeded, answer
    return answer


def children_of_the_harness() -> set[int]:
    """This process and all that descend from it."""
    return set(process_tree(os.getpid()))


@contextlib.contextmanager
def passable_folder() -> Iterator[Path]:
    """A temporary folder that the shell's user can pass through; pytest's own are for one user only."""
    folder = Path(tempfile.mkdtemp(prefix="passable-", dir="/var/tmp"))
    try:
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder)
