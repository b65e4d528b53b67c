"""The built wheel carries the bundled suite and works away from the checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=CHECKOUT,
        check=True,
        capture_output=True,
    )
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_holds_every_tracked_file_of_the_suite(wheel: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "snapshots", "ground_truth"],
        cwd=CHECKOUT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert len(listed) > 100
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {f"diagnose_bench/_data/{name}" for name in listed} <= names


def test_the_wheel_runs_the_demo_away_from_the_checkout(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel)],
        check=True,
        capture_output=True,
    )
    environment = {**os.environ, "PYTHONPATH": str(site)}
    where = subprocess.run(
        [
            sys.executable,
            "-c",
            "import diagnose_bench as d, diagnose_bench.layout as l; print(d.__file__, l.checkout_root())",
        ],
        cwd=tmp_path,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert where == [str(site / "diagnose_bench" / "__init__.py"), "None"]
    done = subprocess.run(
        [sys.executable, "-m", "diagnose_bench", "demo", "--out", str(tmp_path / "runs")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "baseline:recent-change" in done.stdout
    (report,) = (tmp_path / "runs").glob("*/report.html")
    assert str(report) in done.stdout


def test_an_editable_install_carries_no_copy_of_the_data(tmp_path: Path) -> None:
    from hatchling.builders.wheel import WheelBuilder

    (path,) = WheelBuilder(str(CHECKOUT)).build(directory=str(tmp_path), versions=["editable"])
    with zipfile.ZipFile(path) as archive:
        assert not [name for name in archive.namelist() if "snapshots" in name or "ground_truth/" in name]
