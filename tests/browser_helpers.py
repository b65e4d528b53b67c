"""A real browser for tests of pages: Debian's chromium without a window."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


def find_chromium() -> str:
    """The browser; a machine for development may lack it, in CI (``CI=true``) that is a failure."""
    found = shutil.which("chromium")
    if found is None:
        reason = "chromium is not installed (Debian: apt-get install chromium)"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def browse(chromium: str, profile: Path, page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        chromium,
        *FLAGS,
        f"--user-data-dir={profile}",
        "--enable-logging=stderr",
        "--v=0",
        *options,
        page.as_uri(),
    ]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120, check=True)


def console_lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if "CONSOLE" in line]
