"""Bytes on disk: atomic writes, canonical JSON, digests. Knows nothing of what the bytes mean."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from diagnose_bench.errors import DiagnoseBenchError

_CHUNK = 1 << 20


def canonical_json(value: Any) -> bytes:
    """Compact JSON with sorted keys, for digests.

    Raises
    ------
    ValueError
        For NaN or an infinity.
    """
    return json.dumps(
        value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    ).encode("utf-8", "surrogatepass")


def pretty_json(value: Any) -> bytes:
    """Indented JSON with sorted keys and a final newline, for files that people read.

    Raises
    ------
    ValueError
        For NaN or an infinity.
    """
    return (json.dumps(value, sort_keys=True, ensure_ascii=True, allow_nan=False, indent=1) + "\n").encode()


def sha256_of_bytes(data: bytes) -> str:
    """Hex SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def sha256_of_file(path: Path) -> str:
    """Hex SHA-256 of a file, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomic(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write a file whole or not at all: temporary file, fsync, rename, fsync of the folder.

    Raises
    ------
    DiagnoseBenchError
        The file cannot be written (disk full, no permission); nothing half-written is left.
    """
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    except OSError as error:
        raise DiagnoseBenchError(_write_message(path, error)) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise DiagnoseBenchError(_write_message(path, error)) from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    _sync_folder(path.parent)


def _write_message(path: Path, error: OSError) -> str:
    return f"{path}: cannot write: {error.strerror}. {remedy_of(error)}"


def remedy_of(error: OSError) -> str:
    """What a person can do about an error of the operating system."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "Free some space or choose another place, then try again."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "Mend the permissions or choose another place, then try again."
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return "Check the path: its folder must exist."
    if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN):
        return "Close other programs or raise the limit (ulimit), then try again."
    return "Choose another place, then try again."


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_bytes(path: Path, what: str, max_bytes: int | None = None) -> bytes:
    """Read a whole regular file, with a message that names it when it cannot be read.

    Parameters
    ----------
    path : Path
        The file.
    what : str
        What the file is, for the message ("scorecard", "suite").
    max_bytes : int or None
        Refuse larger files.

    Raises
    ------
    DiagnoseBenchError
        The file is missing, unreadable, no regular file, or too large.
    """
    try:
        if not path.is_file():
            state = "is not a regular file" if path.exists() else "does not exist"
            raise DiagnoseBenchError(f"{path}: the {what} {state}.")
        if max_bytes is not None and path.stat().st_size > max_bytes:
            raise DiagnoseBenchError(f"{path}: the {what} is larger than {max_bytes} bytes.")
        return path.read_bytes()
    except OSError as error:
        raise DiagnoseBenchError(
            f"{path}: cannot read the {what}: {error.strerror}. Check its permissions."
        ) from error


def read_json(path: Path, what: str) -> Any:
    """Read a JSON file of ours; a damaged one gives a message with file, line and column.

    Raises
    ------
    DiagnoseBenchError
        The file is missing, unreadable, or no JSON.
    """
    data = read_bytes(path, what)
    try:
        return json.loads(data)
    except ValueError as error:
        raise DiagnoseBenchError(f"{path}: the {what} is not JSON: {error}.") from error
    except RecursionError as error:
        raise DiagnoseBenchError(f"{path}: the {what} is nested too deeply.") from error
