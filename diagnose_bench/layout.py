"""Where the data lie: the checkout first, then the wheel's copy. Finds paths and opens nothing."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
BUNDLED_SUITE = "postmortems"


def checkout_root() -> Path | None:
    """The source tree this package runs from, or None for an installed wheel."""
    root = _PACKAGE.parent
    if (root / "pyproject.toml").is_file() and (root / "snapshots").is_dir():
        return root
    return None


def data_root() -> Path:
    """The folder that holds ``snapshots/`` and ``ground_truth/`` of the bundled suite."""
    return checkout_root() or _PACKAGE / "_data"


def snapshots_root() -> Path:
    """The folder of the bundled suites' snapshots."""
    return data_root() / "snapshots"


def truth_folder_of(suite_folder: Path) -> Path:
    """The folder of the truths that belong to ``…/snapshots/<suite>``: ``…/ground_truth/<suite>``."""
    resolved = suite_folder.resolve()
    return resolved.parent.parent / "ground_truth" / resolved.name


def package_folder() -> Path:
    """The installed package's own folder (it must never be visible inside a sandbox)."""
    return _PACKAGE
