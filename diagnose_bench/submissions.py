"""What an agent handed in during one trial, accepted or not: kept as it came, with its time. Judges nothing.

Bounded against an agent that hands in for ever: the bytes of the first ones and all lines up to a number are
kept, the rest is counted.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from diagnose_bench.errors import DiagnoseBenchError, RunError, RunFormatError
from diagnose_bench.files import canonical_json, sha256_of_bytes, write_atomic
from diagnose_bench.records import SubmissionRecord
from diagnose_bench.redacted_answer import redacted_answer
from diagnose_bench.redaction import Redactor
from diagnose_bench.run_errors import cannot_write
from diagnose_bench.run_format import parse_line

SUBMISSIONS = "submissions.jsonl"
KEPT_BYTES = 1 << 20
"""Of one submission."""
KEPT_FILES = 20
KEPT_LINES = 1000
_MAX_LINE = 4 << 20
_MESSAGE_LENGTH = 2000


class SubmissionLog:
    """submissions.jsonl of one trial and the bytes beside it; calls may come from several threads.

    Parameters
    ----------
    folder : Path
        The trial's.
    redactor : Redactor
        Takes secrets out of what is kept; sizes and digests stay those of what came.
    """

    def __init__(self, folder: Path, redactor: Redactor) -> None:
        self._folder = folder
        self._redactor = redactor
        self._path = folder / SUBMISSIONS
        self._lock = threading.Lock()
        self._is_closed = False
        self._left_out: SubmissionRecord | None = None
        self.n_seen = 0
        self.counted: int | None = None

    def __enter__(self) -> SubmissionLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add(self, data: bytes, *, at: str, seconds: float, accepted: bool, message: str) -> None:
        """Write down one submission; after the trial's record is written, nothing any more.

        Raises
        ------
        RunError
            It cannot be written (disk full).
        """
        with self._lock:
            if self._is_closed:
                return
            self.n_seen += 1
            file = f"submission-{self.n_seen}.json" if self.n_seen <= KEPT_FILES else None
            record = SubmissionRecord(
                n=self.n_seen,
                at=at,
                seconds=seconds,
                accepted=accepted,
                message=self._redactor.text(message)[:_MESSAGE_LENGTH],
                n_bytes=len(data),
                sha256=sha256_of_bytes(data),
                file=file,
            )
            if file is not None:
                try:
                    write_atomic(self._folder / file, redacted_answer(data[:KEPT_BYTES], self._redactor))
                except DiagnoseBenchError as error:
                    raise RunError(f"{error} Finished trials are kept; go on with --resume.") from error
            if self.n_seen <= KEPT_LINES:
                self._write(record)
            elif accepted:
                self._left_out = record
            if accepted:
                self.counted = self.n_seen

    def close(self) -> None:
        """Complete the file: the one that counts is on it in any case.

        Raises
        ------
        RunError
            It cannot be written (disk full).
        """
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            if self._left_out is not None:
                self._write(self._left_out, durable=True)

    def _write(self, record: SubmissionRecord, *, durable: bool = False) -> None:
        try:
            with self._path.open("ab") as file:
                file.write(canonical_json(record.model_dump(mode="json")) + b"\n")
                file.flush()
                if durable or record.n <= KEPT_FILES:
                    os.fsync(file.fileno())
        except OSError as error:
            raise cannot_write(self._path, error) from error


def read_submissions(folder: Path) -> Iterator[SubmissionRecord]:
    """The submissions of a trial, in the order in which they came; nothing where none is on record.

    Raises
    ------
    RunFormatError
        A line is damaged, or the file cannot be read.
    """
    path = folder / SUBMISSIONS
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(_MAX_LINE):
                number += 1
                yield parse_line(path, number, line, "submission record", SubmissionRecord)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise RunFormatError(f"{path}: cannot be read: {error.strerror}. Check the permissions.") from error
