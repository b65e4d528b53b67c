"""Calls the real command line: in process for most tests, as a process where streams and signals matter."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from small_suite import write_small_suite
from typer.testing import CliRunner

from diagnose_bench.cli import app

ANSWER = '{"root_causes": [{"entity": "shop/Deployment/cart"}]}'
COMMAND = [sys.executable, "-m", "diagnose_bench"]


@dataclass(frozen=True)
class Called:
    """What one call of the command line left."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Stdout, which must be one JSON document and nothing else, without NaN."""
        return json.loads(self.out, parse_constant=_no_constant)

    def refused(self, code: int = 2) -> str:
        """The one message of a call that must fail: no result, no traceback, and a sentence at its end."""
        assert self.code == code, (self.code, self.out, self.err)
        assert self.out == ""
        assert "Traceback" not in self.err
        assert "This is a fault of" not in self.err
        lines = self.err.strip().splitlines()
        if not lines[0].startswith(("Usage: ", "Error: ")):
            assert lines[0].startswith("diagnose-bench: "), self.err
            assert sum(line.startswith("diagnose-bench: ") for line in lines) == 1, self.err
        return self.err


def _no_constant(text: str) -> None:
    raise AssertionError(f"stdout has {text}")


def call(*words: str | Path, stdin: bytes | str | None = None) -> Called:
    """Call it in this process."""
    result = CliRunner().invoke(app, [str(word) for word in words], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Called(result.exit_code, result.stdout, result.stderr)


def call_process(
    *words: str | Path, stdin: bytes | None = None, prefix: tuple[str, ...] = (), **options: Any
) -> Called:
    """Call it as a process of its own."""
    done = subprocess.run(
        [*prefix, *COMMAND, *map(str, words)],
        input=b"" if stdin is None else stdin,
        capture_output=True,
        timeout=300,
        **options,
    )
    return Called(done.returncode, done.stdout.decode(), done.stderr.decode())


def small_suite(root: Path) -> Path:
    """A suite of two scenarios with truths; the folder to give to ``--suite``."""
    return write_small_suite(root).path


def write_answers(folder: Path, answers: dict[str, bytes]) -> Path:
    """Recorded answers for ``replay:``, one a trial: ``scenario-001/1`` to its bytes."""
    for trial, data in answers.items():
        path = folder / f"{trial}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def replayed(root: Path, suite: Path, *, repeats: int = 1) -> Path:
    """A finished run without a sandbox: scenario-001 is answered, scenario-002 is not."""
    answers = write_answers(
        root / "answers", {f"scenario-001/{k}": ANSWER.encode() for k in range(1, repeats + 1)}
    )
    out = root / "run"
    done = call(
        "run", "--agent", f"replay:{answers}", "--suite", suite, "--repeats", str(repeats), "--out", out
    )
    assert done.code == 0, done.err
    return out


def script(path: Path, text: str, *, mode: int = 0o755) -> Path:
    """An executable bash script."""
    path.write_text("#!/bin/bash\n" + text)
    path.chmod(mode)
    return path


def edited(path: Path, **changes: Any) -> None:
    """Change fields of a JSON file in place."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def reachable(path: Path) -> Path:
    """Let other users pass through the folders above, which pytest makes for one user only."""
    for folder in (path, *path.parents):
        if folder.is_dir() and not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o001)
    return path


def start(suite: Path, out: Path, *more: str | Path, agent: str | Path = "baseline:empty") -> Called:
    """One repeat of a suite."""
    return call("run", "--agent", agent, "--suite", suite, "--repeats", "1", "--out", out, *more)
