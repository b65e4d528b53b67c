"""Private copies of snapshots, under a path that says nothing: the sandbox can read it in its mount table.

Copies only what it is given and checks it against the manifest that lies in it; knows no suite, no truth.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import stat
import tempfile
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from diagnose_bench.errors import (
    DigestMismatchError,
    SandboxError,
    SandboxPolicyError,
    SandboxUnavailableError,
    SuiteError,
)
from diagnose_bench.files import sha256_of_file
from diagnose_bench.sandbox import messages, policy
from diagnose_bench.sandbox.leftovers import STORE_PREFIX, claim, remove_claimed
from diagnose_bench.sandbox.removal import remove_tree

_FICLONE = 0x40049409
_CHUNK = 1 << 20
_MANIFEST = "snapshot.json"


def private_folder(parent: Path | None = None, *, uid: int | None = None) -> Path:
    """A new folder with a random name that `uid` (None: only the caller) can pass through.

    Raises
    ------
    SandboxUnavailableError
        No place for temporary files can be entered by `uid`.
    """
    places = [parent] if parent is not None else _temporary_places()
    blocked = places[0]
    for place in places:
        hindrance = policy.unreachable_parent(place, uid) if uid is not None else None
        if hindrance is not None:
            blocked = hindrance
            continue
        try:
            folder = Path(tempfile.mkdtemp(prefix=STORE_PREFIX, dir=place)).resolve()
            if parent is None:
                claim(folder)
        except OSError as error:
            raise SandboxUnavailableError(
                f"{place}: no folder can be made there: {error.strerror}. Set TMPDIR to another place."
            ) from error
        if uid is not None:
            folder.chmod(0o711)
        return folder
    raise SandboxUnavailableError(messages.unreachable_message(uid or 0, blocked))


def _temporary_places() -> list[Path]:
    named = os.environ.get("TMPDIR")
    # /var/tmp lies on a disk, where /tmp may be memory.
    candidates = [*([Path(named)] if named else []), Path("/var/tmp"), Path(tempfile.gettempdir())]
    places = [place for place in candidates if place.is_dir() and os.access(place, os.W_OK | os.X_OK)]
    if not places:
        raise SandboxUnavailableError("There is no folder for temporary files. Set TMPDIR to one.")
    return places


class SnapshotStore:
    """Copies of snapshots for sandboxes; a context manager that removes them all.

    Different snapshots may be copied and removed in several threads at the same time.

    Parameters
    ----------
    folder : Path or None
        Where the copies lie; None makes a private folder, which ``close`` removes. For the confinement of an
        agent's process this folder is one to hide.
    uid : int or None
        Who has to be able to read the copies beside the caller.
    """

    def __init__(self, folder: Path | None = None, *, uid: int | None = None) -> None:
        self._own = folder is None
        if folder is None:
            folder = private_folder(uid=uid)
        elif uid is not None and (blocked := policy.unreachable_parent(folder, uid)) is not None:
            raise SandboxUnavailableError(messages.unreachable_message(uid, blocked))
        self.folder = folder.resolve()
        self._staged: dict[tuple[Path, str | None], Path] = {}
        self._marks: dict[Path, dict[str, _Mark]] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def stage(self, snapshot: Path, digest: str | None = None, *, unchecked: bool = False) -> Path:
        """The copy of a snapshot; made once, then the same path again.

        Parameters
        ----------
        snapshot : Path
            The folder to copy.
        digest : str or None
            Digest of its manifest. With it, every copied file must be the one in the manifest.
        unchecked : bool
            Leave devices, pipes and sockets out and keep links that lead out of the folder (they find
            nothing in a sandbox), instead of refusing.

        Raises
        ------
        SandboxPolicyError
            The folder holds something that a snapshot cannot hold, cannot be read, or may not be shown.
        DigestMismatchError
            A copied file is not the one in the manifest.
        """
        key = (policy.check_source(snapshot, ()), digest)
        if key not in self._staged:
            home = self.folder / secrets.token_hex(16)
            copy = home / "snapshot"
            try:
                home.mkdir(mode=0o755)
                home.chmod(0o755)
                hashes = _copy_tree(key[0], copy, unchecked=unchecked)
                if digest is not None:
                    _verify(snapshot, copy, digest, hashes)
            except BaseException as error:
                remove_tree(home)
                if isinstance(error, OSError):
                    raise SandboxPolicyError(
                        f"{error.filename or snapshot}: cannot be copied for the sandbox: {error.strerror}."
                    ) from error
                raise
            marks = _marks_of(copy)
            for path, (_, sha256) in hashes.items():
                marks[path] = replace(marks[path], sha256=sha256)
            with self._lock:
                self._staged[key], self._marks[copy] = copy, marks
        return self._staged[key]

    def check(self, staged: Path) -> None:
        """Be sure that a copy still is what it was.

        Raises
        ------
        SandboxError
            Something in it was changed, added or removed.

        Notes
        -----
        The time of an inode's last change is the kernel's own and cannot be set back; where it differs the
        content is read again.
        """
        known = self._marks[staged]
        found = _marks_of(staged)
        if found == known:
            return
        for path in sorted(found.keys() | known.keys()):
            before, after = known.get(path), found.get(path)
            if before is None or after is None:
                what = "was added" if before is None else "is gone"
            elif before == after:
                continue
            elif before.kind != after.kind:
                what = "became something else"
            elif before.sha256 is not None and sha256_of_file(staged / path) != before.sha256:
                what = "was changed"
            else:
                continue
            raise SandboxError(
                f"The snapshot's copy was tampered with: {path} {what}. The trial does not count."
            )
        for path, mark in found.items():
            found[path] = replace(mark, sha256=known[path].sha256)
        self._marks[staged] = found

    def remove(self, staged: Path) -> None:
        """Remove one copy; a second call does nothing."""
        with self._lock:
            keys = [key for key, path in self._staged.items() if path == staged]
            for key in keys:
                del self._staged[key]
                del self._marks[staged]
        if keys:
            remove_tree(staged.parent)

    def close(self) -> None:
        """Remove all copies, and the folder if it is the store's own."""
        for staged in list(self._staged.values()):
            self.remove(staged)
        if self._own:
            remove_claimed(self.folder)


@dataclass(frozen=True, slots=True)
class _Mark:
    """By what a change of a file or folder is seen without reading it."""

    kind: int
    inode: int
    size: int
    changed_ns: int
    sha256: str | None = field(default=None, compare=False)


def _marks_of(copy: Path) -> dict[str, _Mark]:
    marks = {}
    waiting = [Path()]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(copy / folder) as entries:
                for entry in entries:
                    status = entry.stat(follow_symlinks=False)
                    relative = folder / entry.name
                    kind = stat.S_IFMT(status.st_mode)
                    if kind == stat.S_IFDIR:
                        waiting.append(relative)
                    # A folder's own times change with what is in it, which is looked at anyway.
                    numbers = (0, 0) if kind == stat.S_IFDIR else (status.st_size, status.st_ctime_ns)
                    marks[relative.as_posix()] = _Mark(kind, status.st_ino, *numbers)
        except OSError as error:
            raise SandboxError(f"The snapshot's copy cannot be looked at: {error}.") from error
    return marks


def _copy_tree(source: Path, target: Path, *, unchecked: bool) -> dict[str, tuple[int, str]]:
    """Copy a folder; size and SHA-256 of every file by its path in it."""
    hashes: dict[str, tuple[int, str]] = {}
    waiting = [Path()]
    while waiting:
        folder = waiting.pop()
        (target / folder).mkdir()
        (target / folder).chmod(0o755)
        with os.scandir(source / folder) as entries:
            for entry in entries:
                relative = folder / entry.name
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode):
                    waiting.append(relative)
                elif stat.S_ISREG(mode):
                    hashes[relative.as_posix()] = _copy_file(source / relative, target / relative)
                elif stat.S_ISLNK(mode) and (unchecked or _stays_inside(source, relative)):
                    os.symlink(os.readlink(source / relative), target / relative)
                elif not unchecked:
                    what = "a link that leaves the folder" if stat.S_ISLNK(mode) else "no file or folder"
                    raise SandboxPolicyError(
                        f"{source / relative}: cannot be in a snapshot: it is {what}. Remove it."
                    )
    return hashes


def _stays_inside(source: Path, relative: Path) -> bool:
    link = os.readlink(source / relative)
    if os.path.isabs(link):
        return False
    return Path(os.path.realpath(source / relative.parent / link)).is_relative_to(source)


def _copy_file(source: Path, target: Path) -> tuple[int, str]:
    digest = hashlib.sha256()
    size = 0
    # Not a link and not blocking, should something be put in the file's place meanwhile.
    reading = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(reading, "rb") as original, target.open("xb") as copy:
        with contextlib.suppress(OSError):
            fcntl.ioctl(copy.fileno(), _FICLONE, original.fileno())
        # Hash what was copied. Where the disk can share blocks the copy is there already.
        is_cloned = os.fstat(copy.fileno()).st_size > 0
        while chunk := original.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
            if not is_cloned:
                copy.write(chunk)
        os.fchmod(copy.fileno(), 0o444)
    return size, digest.hexdigest()


def _verify(snapshot: Path, copy: Path, digest: str, hashes: dict[str, tuple[int, str]]) -> None:
    # Late: only a check needs pydantic.
    from diagnose_bench.snapshot import load_manifest, manifest_digest

    try:
        manifest = load_manifest(copy)
    except SuiteError as error:
        raise SuiteError(str(error).replace(str(copy), str(snapshot))) from error
    found = manifest_digest(manifest)
    if found != digest:
        raise DigestMismatchError(
            f"{snapshot / _MANIFEST}: its digest is {found}, and {digest} is on record. "
            "Restore the snapshot, or enter the new digest into the suite."
        )
    listed = {entry.path: (entry.n_bytes, entry.sha256) for entry in manifest.files}
    hashes = {path: value for path, value in hashes.items() if path != _MANIFEST}
    for path in sorted(listed.keys() | hashes.keys()):
        if path not in hashes:
            raise DigestMismatchError(f"{snapshot / path}: is in the manifest and does not exist.")
        if path not in listed:
            raise DigestMismatchError(f"{snapshot / path}: is not in the manifest.")
        if listed[path] != hashes[path]:
            raise DigestMismatchError(f"{snapshot / path}: size or sha256 differs from the manifest.")
