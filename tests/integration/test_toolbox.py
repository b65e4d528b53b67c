"""A toolbox is built by a real pip from wheels made here, shown in real sandboxes, and in the signature."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import stat
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox_helpers import as_ordinary_user, passable_folder
from small_suite import write_small_suite

from diagnose_bench.agents.factory import make_agent
from diagnose_bench.errors import RunError, SandboxUnavailableError, UsageError
from diagnose_bench.grading import score_run
from diagnose_bench.run import RunOptions, run_suite
from diagnose_bench.run_shells import RunShells
from diagnose_bench.sandbox import Limits, open_shell
from diagnose_bench.sandbox.extras import Extras
from diagnose_bench.toolbox import build
from diagnose_bench.toolbox.build import REQUIREMENTS, SYSTEM_PYTHON, build_toolbox, pinned_packages
from diagnose_bench.toolbox.folder import load_toolbox

pytestmark = pytest.mark.sandbox

FILES = {
    "pandas": {
        "pandas/__init__.py": "__version__ = '3.1.1'\nimport os, numbers\nPATH = os.environ.get('PATH')\n"
    },
    "duckdb": {
        "duckdb/__init__.py": (
            "__version__ = '1.5.6'\n"
            "class Table:\n    def df(self): return 'a frame'\n"
            "def sql(text): return Table()\n"
        )
    },
    "duckdb-cli": {"duckdb_cli/__init__.py": "", "duckdb_cli/duckdb": '#!/bin/sh\necho ran "$@"\n'},
}
VERSIONS = {"pandas": "3.1.1", "duckdb": "1.5.6", "duckdb-cli": "1.5.6"}


def wheel(folder: Path, name: str) -> str:
    """Write a wheel by hand; return its line for a file of requirements."""
    module, version = name.replace("-", "_"), VERSIONS[name]
    info = f"{module}-{version}.dist-info"
    files = FILES[name] | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(text.encode())}\n")
    target = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(target, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", "".join(rows) + f"{info}/RECORD,,\n")
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(target.read_bytes()).hexdigest()}\n"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that pip is set up to use, and the requirements that pin them."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("".join(wheel(folder, name) for name in FILES))
    monkeypatch.setattr(build, "REQUIREMENTS", requirements)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return requirements


@pytest.fixture
def place() -> Iterator[Path]:
    with passable_folder() as folder:
        yield folder


def test_the_pinned_packages_all_have_hashes_and_name_no_index() -> None:
    text = REQUIREMENTS.read_text()
    assert {"pandas", "duckdb", "duckdb-cli", "numpy"} <= pinned_packages().keys()
    # The program and the package read each other's files.
    assert pinned_packages()["duckdb"] == pinned_packages()["duckdb-cli"]
    assert "://" not in text
    blocks = text.replace("\\\n", " ").splitlines()
    pins = [line for line in blocks if "==" in line]
    assert len(pins) == len(pinned_packages())
    assert all("--hash=sha256:" in line for line in pins)


def test_a_build_is_whole_for_the_systems_python_and_gives_the_same_digest_again(
    index: Path, place: Path
) -> None:
    said: list[str] = []
    first = build_toolbox(place / "one", said.append)
    second = build_toolbox(place / "deep" / "two")
    assert first.digest == second.digest == load_toolbox(place / "one").digest
    assert said == ["Installing pandas 3.1.1, duckdb 1.5.6, duckdb-cli 1.5.6"]
    asked = [SYSTEM_PYTHON, "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    assert first.python == subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    assert sorted(path.name for path in place.iterdir()) == ["deep", "one"]
    assert [path.name for path in (place / "one" / "bin").iterdir()] == ["duckdb"]
    assert not (place / "one" / "duckdb_cli").exists()
    assert list((place / "one" / "pandas").glob("__pycache__/*.pyc"))
    for folder, _, names in os.walk(place / "one"):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o755
        assert all(os.stat(os.path.join(folder, name)).st_mode & 0o444 == 0o444 for name in names)


def test_a_wheel_that_differs_from_its_hash_is_refused_and_nothing_is_left(index: Path, place: Path) -> None:
    index.write_text(index.read_text().replace("sha256:", "sha256:0000", 1)[:-5] + "\n")
    with pytest.raises(UsageError, match="pip could not install the packages"):
        build_toolbox(place / "toolbox")
    assert list(place.iterdir()) == []


def test_a_build_over_something_is_refused(index: Path, place: Path) -> None:
    (place / "file").write_text("x")
    for target in (place, place / "file"):
        with pytest.raises(UsageError, match="is there already and not empty"):
            build_toolbox(target)
    assert (place / "file").read_text() == "x"


def test_a_shell_finds_the_tools_and_cannot_change_them(index: Path, place: Path) -> None:
    build_toolbox(place / "toolbox")
    (place / "snapshot").mkdir()

    def claim(folder: Path) -> None:
        tools = load_toolbox(place / "toolbox").path
        with open_shell(place / "snapshot", extras=Extras(toolbox=tools)) as shell:
            assert shell.run("python3 -c 'import pandas; print(pandas.__file__)'").text == (
                "/opt/toolbox/pandas/__init__.py\n"
            )
            assert shell.run("duckdb -c 'select 1'").text == "ran -c select 1\n"
            assert shell.run("echo x > /opt/toolbox/x").exit_code != 0
            assert shell.run("ls /opt").text == "toolbox\n"
            # What stands first on the PATH is the system's own.
            assert shell.run("type -P grep").text == "/usr/bin/grep\n"
        with open_shell(place / "snapshot") as bare:
            assert bare.run("ls /opt/toolbox; duckdb; echo ${PYTHONPATH-none}").text.endswith("none\n")

    claim(place)
    as_ordinary_user(claim)


def test_a_run_records_the_toolbox_and_its_signature_differs_only_there(index: Path, place: Path) -> None:
    toolbox = build_toolbox(place / "toolbox")
    suite = write_small_suite(place / "suite")
    agent = make_agent("baseline:empty")
    run_suite(suite, agent, RunOptions(repeats=1, toolbox=place / "toolbox"), place / "with")
    run_suite(suite, agent, RunOptions(repeats=1), place / "without")
    plain, tooled = (score_run(place / name).signature for name in ("without", "with"))
    assert tooled.replace(f"|toolbox:{toolbox.digest[:12]}", "") == plain
    assert "|sandbox:bwrap|toolbox:" in tooled
    manifest = json.loads((place / "with" / "run.json").read_text())
    assert manifest["sandbox"]["toolbox"] == toolbox.digest
    assert manifest["host"]["toolbox"] == VERSIONS
    with pytest.raises(RunError, match=r"sandbox\.toolbox"):
        run_suite(suite, agent, RunOptions(repeats=1, resume=True), place / "with")


def test_a_toolbox_that_was_changed_or_is_none_is_refused(index: Path, place: Path) -> None:
    with pytest.raises(UsageError, match="no toolbox is there"):
        load_toolbox(place)
    build_toolbox(place / "toolbox")
    (place / "toolbox" / "pandas" / "__init__.py").write_text("answer = 1\n")
    with pytest.raises(UsageError, match="not the ones that were built"):
        load_toolbox(place / "toolbox")
    shutil.rmtree(place / "toolbox")
    build_toolbox(place / "toolbox")
    (place / "toolbox" / "truths").symlink_to("/etc")
    with pytest.raises(UsageError, match="plain files only"):
        load_toolbox(place / "toolbox")
    (place / "toolbox" / "truths").unlink()
    (place / "toolbox" / "toolbox.json").write_text("{")
    with pytest.raises(UsageError, match="Build it anew"):
        load_toolbox(place / "toolbox")
    (place / "toolbox" / "toolbox.json").write_text('{"format_version": 2}')
    with pytest.raises(UsageError, match="another format version"):
        load_toolbox(place / "toolbox")


def test_a_toolbox_may_show_nothing_that_must_stay_hidden(index: Path, place: Path) -> None:
    build_toolbox(place / "toolbox")
    (place / "toolbox" / "ground_truth").mkdir()
    with pytest.raises(UsageError, match="lies in it, which no sandbox may show"):
        load_toolbox(place / "toolbox", [place / "toolbox" / "ground_truth"])
    with pytest.raises(UsageError, match=r"lies in .*, which no sandbox may show"):
        load_toolbox(place / "toolbox", [place])


def test_tools_that_do_not_work_inside_refuse_the_run(index: Path, place: Path) -> None:
    build_toolbox(place / "toolbox")
    manifest = json.loads((place / "toolbox" / "toolbox.json").read_text())
    (place / "toolbox" / "toolbox.json").write_text(json.dumps(manifest | {"python": "3.0"}))
    suite = write_small_suite(place / "suite")
    with (
        RunShells("bwrap", Limits(), (), toolbox=place / "toolbox") as shells,
        pytest.raises(SandboxUnavailableError, match=r"built for python 3\.0"),
    ):
        shells.check(suite.scenarios[0])
