"""What lies beside a run and could tell an agent of answers: other runs, scorecards, reports.

Finds paths and opens nothing.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from diagnose_bench import layout

_RUNS = "runs"
"""What ``run`` calls the folder that it makes for runs."""
_RESULT = re.compile(r"(scorecard|report).*\.(json|html|md|csv|txt)", re.IGNORECASE)


def runs_folders(run_dir: Path, argv: Sequence[str]) -> list[Path]:
    """Folders around a run to hide as a whole, so that what is only made later is hidden, too.

    Notes
    -----
    Those called ``runs``, and the run's own parent if it holds another run, unless somebody works there: the
    caller, the agent's program, Python, or the places of the user.
    """
    around = run_dir.resolve().parents
    found = [folder for folder in around if folder.name == _RUNS]
    if around and any(_is_run(path) for path in _entries(around[0])):
        found.append(around[0])
    in_use = list(_in_use(argv))
    return [
        folder for folder in dict.fromkeys(found) if not any(place.is_relative_to(folder) for place in in_use)
    ]


def beside_run(run_dir: Path) -> list[Path]:
    """Other runs, scorecards and reports in the folder of a run, as it is now."""
    resolved = run_dir.resolve()
    return [
        path
        for path in _entries(resolved.parent)
        if path != resolved and (_is_run(path) or _RESULT.fullmatch(path.name))
    ]


def _is_run(path: Path) -> bool:
    return os.path.isfile(path / "run.json")


def _entries(folder: Path) -> list[Path]:
    try:
        return [folder / name for name in sorted(os.listdir(folder))]
    except OSError:
        return []


def _in_use(argv: Iterable[str]) -> Iterator[Path]:
    places = (".", os.path.expanduser("~"), tempfile.gettempdir(), "/tmp", "/var/tmp")
    ours = (str(layout.package_folder()), sys.prefix, sys.executable)
    named = [part for word in argv for part in (word, word.partition("=")[2]) if os.path.isabs(part)]
    for place in (*places, *ours, *named):
        yield Path(os.path.realpath(place))
