"""Two folders of a new suite that appear together or not at all. Knows nothing of their content."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Self

from diagnose_bench.errors import UsageError


def require_free(target: Path) -> None:
    """Refuse a folder that has something in it, or whose name is taken.

    Raises
    ------
    UsageError
        Naming what is there.
    """
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise UsageError(f"{target}: is in the way. Choose another name, or another folder with --out.")
    if target.is_dir() and any(target.iterdir()):
        raise UsageError(f"{target}: is there already. Choose another name, or another folder with --out.")


class Staging:
    """Two hidden folders beside the final ones; what is not committed is removed, also after Ctrl-C."""

    def __init__(self, suite: Path, truths: Path) -> None:
        self.final_suite, self.final_truths = suite, truths
        self._made: list[Path] = []

    def __enter__(self) -> Self:
        self.suite, self.truths = self._make(self.final_suite), self._make(self.final_truths)
        return self

    def __exit__(self, *_: object) -> None:
        for folder in self._made:
            shutil.rmtree(folder, ignore_errors=True)

    def commit(self) -> None:
        """Rename both folders; the suite comes last, for a suite without its truths would look whole."""
        self.truths.rename(self.final_truths)
        self._made.append(self.final_truths)
        self.suite.rename(self.final_suite)
        self._made.clear()

    def renamed(self, message: str | None) -> str | None:
        """Return a message with the final folder in place of the hidden one."""
        return message.replace(str(self.truths), str(self.final_truths)) if message else None

    def _make(self, final: Path) -> Path:
        final.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{final.name}.importing-", dir=final.parent))
        self._made.append(folder)
        folder.chmod(0o755)
        return folder
