"""The run folder: write once, read back. Knows files and locks, not agents and not truths.

A trial is finished when its ``trial.json`` exists, since that is written last. A folder without one is
unfinished: at resume its files are moved aside (``<repeat>.unfinished-N``). A trial that failed through our
own fault is run again, its files kept as ``trial.N.json`` and so on. Writers lock the folder; readers do not.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO

from diagnose_bench.errors import DiagnoseBenchError, RunError, RunFormatError, UsageError
from diagnose_bench.files import canonical_json, pretty_json, read_bytes, write_atomic
from diagnose_bench.records import CommandRecord, PlannedTrial, RunManifest, SubmissionRecord, TrialRecord
from diagnose_bench.redaction import Redactor
from diagnose_bench.run_errors import cannot_write
from diagnose_bench.run_format import (
    MANIFEST,
    check_ids,
    check_same,
    load_record,
    load_run_manifest,
    parse_line,
)
from diagnose_bench.submissions import SubmissionLog, read_submissions

LOCK = ".lock"
_KEPT = re.compile(r"[a-z_]+(-\d+)?\.\d+\.\w+")
_MAX_LINE = 4 << 20


class CommandLog:
    """commands.jsonl of one trial, appended to while the trial goes."""

    def __init__(self, path: Path, redactor: Redactor) -> None:
        self._path = path
        self._redactor = redactor
        try:
            self._file: IO[bytes] = path.open("ab")
        except OSError as error:
            raise cannot_write(path, error) from error

    def __enter__(self) -> CommandLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def append(self, record: CommandRecord) -> None:
        """Write one line, without the secrets in its texts; size and digest stay those of the whole output.

        Raises
        ------
        RunError
            The line cannot be written (disk full).
        """
        probe = self._redactor.fresh()
        command = probe.text(record.command)
        self._redactor.add(probe.n_redactions)
        changes = {"command": command, "output": self._redactor.text(record.output)}
        record = record.model_copy(update=changes | {"n_redactions": probe.n_redactions})
        try:
            self._file.write(canonical_json(record.model_dump(mode="json")) + b"\n")
            self._file.flush()
        except OSError as error:
            raise cannot_write(self._path, error) from error

    def close(self) -> None:
        """Make the lines durable and close the file.

        Raises
        ------
        RunError
            The file cannot be completed (disk full).
        """
        try:
            with self._file:
                self._file.flush()
                os.fsync(self._file.fileno())
        except OSError as error:
            raise cannot_write(self._path, error) from error


class RunStore:
    """One run on disk. Make it with `create`, `resume` (both lock it) or `open` (read only)."""

    def __init__(self, path: Path, manifest: RunManifest, lock: int | None = None) -> None:
        self.path = path
        self.manifest = manifest
        self._lock = lock

    @classmethod
    def create(cls, out: Path, manifest: RunManifest) -> RunStore:
        """Start a new run in a folder that does not exist yet, or is empty.

        Raises
        ------
        UsageError
            The folder holds something already.
        RunError
            The folder cannot be made, or another run has just taken it.
        """
        check_ids(manifest, out)
        check_free(out)
        try:
            out.mkdir(parents=True, exist_ok=True)
            lock = _take_lock(out)
        except OSError as error:
            raise RunError(
                f"{out}: the run's folder cannot be made: {error.strerror}. Nothing was started; "
                "choose another --out, or mend the permissions and free some space."
            ) from error
        store = cls(out, manifest, lock)
        try:
            if (out / MANIFEST).exists():
                raise RunError(f"{out}: another run has just started here. Choose another folder.")
            write_atomic(out / MANIFEST, pretty_json(manifest.model_dump(mode="json")))
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def open(cls, path: Path) -> RunStore:
        """Open a run for reading.

        Raises
        ------
        RunError
            There is no run, it is damaged, or another format version wrote it.
        """
        return cls(path, load_run_manifest(path))

    @classmethod
    def resume(cls, path: Path, wanted: RunManifest) -> RunStore:
        """Open a run for writing, if it is the same run that is asked for.

        Parameters
        ----------
        path : Path
            The run folder.
        wanted : RunManifest
            What this call would have written into a new run.

        Raises
        ------
        RunError
            No run is there, a setting differs (the message names it), or another process is running it.
        """
        manifest = load_run_manifest(path)
        check_same(path, manifest, wanted)
        try:
            lock = _take_lock(path)
        except OSError as error:
            raise cannot_write(path, error) from error
        return cls(path, manifest, lock)

    def __enter__(self) -> RunStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the lock back."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def trial_folder(self, trial: PlannedTrial) -> Path:
        """Where a trial's files are."""
        return self.path / "trials" / trial.scenario_id / str(trial.repeat)

    def begin_trial(self, trial: PlannedTrial) -> Path:
        """Make the trial's folder ready to be written, keeping whatever an earlier attempt left.

        Raises
        ------
        RunError
            The trial is finished already, or the folder cannot be made.
        """
        folder = self.trial_folder(trial)
        record = self.record(trial)
        if record is not None and record.outcome.is_scored:
            raise RunError(f"{folder}: this trial is finished already; a finished trial is never run again.")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if record is not None:
                _keep_numbered(folder)
            else:
                _move_aside(folder)
        except OSError as error:
            raise cannot_write(folder, error) from error
        return folder

    def write_trial(self, record: TrialRecord, diagnosis: bytes | None, *, durable: bool = True) -> None:
        """Finish a trial: the diagnosis first, ``trial.json`` last.

        Parameters
        ----------
        record : TrialRecord
            How it ended.
        diagnosis : bytes or None
            The bytes as submitted; None writes no file.
        durable : bool
            False leaves out the fsync of each file, for a folder that is published as a whole later.
        """
        trial = PlannedTrial(scenario_id=record.scenario_id, repeat=record.repeat)
        relative = self.trial_folder(trial).relative_to(self.path)
        files = {} if diagnosis is None else {"diagnosis.json": diagnosis}
        files["trial.json"] = pretty_json(record.model_dump(mode="json"))
        for name, data in files.items():
            if durable:
                self.write_file(str(relative / name), data)
            else:
                self._write_plain(self.path / relative / name, data)

    def write_file(self, name: str, data: bytes) -> None:
        """Write one file of the run, whole or not at all.

        Raises
        ------
        RunError
            It cannot be written; the message says how to go on.
        """
        path = self.path / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, data)
        except OSError as error:
            raise cannot_write(path, error) from error
        except DiagnoseBenchError as error:
            raise RunError(f"{error} Finished trials are kept; go on with --resume.") from error

    @staticmethod
    def _write_plain(path: Path, data: bytes) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError as error:
            raise cannot_write(path, error) from error

    def record(self, trial: PlannedTrial) -> TrialRecord | None:
        """The record of one trial, or None where it is not finished.

        Raises
        ------
        RunFormatError
            The record is damaged, or says that it belongs elsewhere.
        """
        path = self.trial_folder(trial) / "trial.json"
        if not _is_there(path):
            return None
        record = load_record(
            path, "trial record", TrialRecord, "Delete that trial's folder and run again with --resume."
        )
        if (record.scenario_id, record.repeat) != (trial.scenario_id, trial.repeat):
            raise RunFormatError(
                f"{path}: the record of {record.scenario_id}, repeat {record.repeat}, is in the wrong place. "
                f"Put it back into trials/{record.scenario_id}/{record.repeat}/."
            )
        return record

    def trials(self) -> Iterator[tuple[PlannedTrial, TrialRecord | None]]:
        """Every planned trial in the plan's order, with its record or None."""
        for trial in self.manifest.plan:
            yield trial, self.record(trial)

    def diagnosis_bytes(self, trial: PlannedTrial) -> bytes | None:
        """The bytes as submitted, or None."""
        path = self.trial_folder(trial) / "diagnosis.json"
        return read_bytes(path, "diagnosis") if _is_there(path) else None

    def commands(self, trial: PlannedTrial) -> Iterator[CommandRecord]:
        """The recorded commands of a trial, one at a time.

        Raises
        ------
        RunFormatError
            A line is damaged.
        """
        path = self.trial_folder(trial) / "commands.jsonl"
        if not _is_there(path):
            return
        try:
            with path.open("rb") as file:
                number = 0
                while line := file.readline(_MAX_LINE):
                    number += 1
                    yield parse_line(path, number, line, "command record", CommandRecord)
        except OSError as error:
            raise RunFormatError(
                f"{path}: cannot read the command record: {error.strerror}. Check its permissions."
            ) from error

    def command_log(self, trial: PlannedTrial, redactor: Redactor | None = None) -> CommandLog:
        """The file that the trial's commands go to."""
        return CommandLog(self.trial_folder(trial) / "commands.jsonl", redactor or Redactor())

    def submission_log(self, trial: PlannedTrial, redactor: Redactor | None = None) -> SubmissionLog:
        """Where everything goes that the trial's agent hands in."""
        return SubmissionLog(self.trial_folder(trial), redactor or Redactor())

    def submissions(self, trial: PlannedTrial) -> Iterator[SubmissionRecord]:
        """Everything that was handed in during a trial, accepted or not, one at a time.

        Raises
        ------
        RunFormatError
            A line is damaged.
        """
        return read_submissions(self.trial_folder(trial))


def is_run(path: Path) -> bool:
    """Whether a folder is a run."""
    return (path / MANIFEST).is_file()


def _is_there(path: Path) -> bool:
    """Whether a file exists. One that cannot be looked at is no missing one: its trial must not run twice."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise RunFormatError(f"{path}: cannot be read: {error.strerror}. Check the permissions.") from error
    return True


def check_free(out: Path) -> None:
    """Refuse a folder that cannot take a new run.

    Raises
    ------
    UsageError
        It holds a run, or something else, or is no folder.
    """
    if is_run(out):
        raise UsageError(
            f"{out}: a run is here already. Add --resume to go on with it, or choose another --out."
        )
    try:
        entries = set(os.listdir(out)) - {LOCK}
    except FileNotFoundError:
        return
    except NotADirectoryError as error:
        raise UsageError(f"{out}: is a file, not a folder. Choose another --out.") from error
    except OSError as error:
        raise UsageError(f"{out}: cannot be read: {error.strerror}. Choose another --out.") from error
    if entries:
        raise UsageError(f"{out}: the folder is not empty and holds no run. Choose another --out.")


def _take_lock(folder: Path) -> int:
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise RunError(
            f"{folder}: another process is running here. Wait until it ends, or choose another --out."
        ) from error
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _move_aside(folder: Path) -> None:
    left = [entry for entry in sorted(folder.iterdir()) if not _KEPT.fullmatch(entry.name)]
    if not left:
        return
    number = 1
    while (aside := folder.with_name(f"{folder.name}.unfinished-{number}")).exists():
        number += 1
    aside.mkdir()
    for entry in left:
        entry.rename(aside / entry.name)


def _keep_numbered(folder: Path) -> None:
    """Rename the files of a failed attempt; trial.json last, so that a crash in between changes nothing."""
    number = 1
    while any(folder.glob(f"*.{number}.*")):
        number += 1
    names = sorted((entry.name for entry in folder.iterdir()), key=lambda name: name == "trial.json")
    for name in names:
        if not _KEPT.fullmatch(name) and not name.startswith("."):
            stem, _, suffix = name.rpartition(".")
            (folder / name).rename(folder / f"{stem}.{number}.{suffix}")
