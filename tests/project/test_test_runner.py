"""How the tests themselves are run: as a job in the background, too, and never for ever."""

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent


def test_what_tests_start_can_be_interrupted_though_the_runner_cannot() -> None:
    # As "make test &" and nohup do it.
    script = (
        "import subprocess, conftest\n"
        "print(subprocess.check_output(['grep', 'SigIgn', '/proc/self/status'], text=True))\n"
    )
    command = f"trap '' INT QUIT HUP; exec {sys.executable} -c \"$0\""
    done = subprocess.run(
        ["sh", "-c", command, script], cwd=TESTS, capture_output=True, text=True, check=True
    )
    ignored = int(done.stdout.split()[1], 16)
    assert [number for number in (1, 2, 3) if ignored & 1 << (number - 1)] == []


def test_a_test_that_hangs_ends_with_its_traceback(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import threading\ndef test_hang():\n    threading.Event().wait()\n")
    words = ["-p", "no:cacheprovider", "-c", TESTS.parent / "pyproject.toml", "--rootdir", tmp_path, tmp_path]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "-o", "faulthandler_timeout=1"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode != 0
    assert "in test_hang" in done.stderr
