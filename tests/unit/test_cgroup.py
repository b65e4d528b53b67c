"""Groups of processes: where one may be made, and what is written there. Plain files play the kernel."""

import os
from pathlib import Path

import pytest

from diagnose_bench.errors import SandboxError
from diagnose_bench.sandbox.cgroup import ProcessGroup, find_delegated, n_killed_around
from diagnose_bench.sandbox.limits import Limits


def group(folder: Path, controllers: str = "cpu memory pids", enabled: str = "memory pids") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup.procs").write_text("")
    (folder / "cgroup.controllers").write_text(controllers)
    (folder / "cgroup.subtree_control").write_text(enabled)
    return folder


def emptied(folder: Path) -> None:
    """In place of the kernel, whose files go away with their folder."""
    for file in folder.iterdir():
        file.unlink()


@pytest.fixture(autouse=True)
def _files_go_away_with_their_folder(monkeypatch):
    remove = Path.rmdir

    def rmdir(folder):
        emptied(folder)
        remove(folder)

    monkeypatch.setattr(Path, "rmdir", rmdir)


def test_nearest_folder_that_hands_on_memory_and_pids_is_taken(tmp_path):
    group(tmp_path, enabled="")
    slice_ = group(tmp_path / "user.slice")
    group(slice_ / "scope", enabled="")
    (slice_ / "scope" / "cgroup.controllers").write_text("cpu")
    assert find_delegated(tmp_path, Path("user.slice/scope")) == slice_
    assert list(slice_.glob("diagnose-bench-*")) == []


def test_controllers_that_are_offered_are_handed_on(tmp_path):
    group(tmp_path, enabled="cpu")
    assert find_delegated(tmp_path, Path()) == tmp_path
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory +pids"


@pytest.mark.parametrize("controllers", ["", "cpu io memory", "hugetlb pids"])
def test_nothing_is_found_where_a_controller_is_missing(tmp_path, controllers):
    group(tmp_path / "a", controllers, enabled=controllers)
    group(tmp_path, controllers, enabled=controllers)
    assert find_delegated(tmp_path, Path("a")) is None


def test_limits_are_those_of_the_command(tmp_path):
    made = ProcessGroup(tmp_path, Limits(resident_mb=100, tmp_mb=20, shm_mb=8, processes=12), n_helpers=2)
    written = {file.name: file.read_text() for file in made.folder.iterdir()}
    # 128 MiB, as memory disks count.
    assert written == {"memory.max": "134217728", "memory.oom.group": "1", "pids.max": "14"}
    made.take(77)
    made.kill()
    assert (made.folder / "cgroup.procs").read_text() == "77"
    assert (made.folder / "cgroup.kill").read_text() == "1"
    (made.folder / "memory.events").write_text("low 0\noom 4\noom_kill 3\noom_group_kill 1\n")
    assert made.n_killed() == 3
    made.close()
    assert not made.folder.exists()
    assert made.n_killed() == 0


def test_groups_of_a_dead_harness_are_swept_and_those_of_a_living_one_stay(tmp_path):
    dead, living = (tmp_path / f"diagnose-bench-{pid}-ab" for pid in (2**22 + 5, os.getpid()))
    for folder in (dead, living, tmp_path / "another"):
        folder.mkdir()
    ProcessGroup(tmp_path, Limits()).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["another", living.name]


def test_folder_that_is_not_there_is_an_error_that_names_it(tmp_path):
    with pytest.raises(SandboxError, match="no-such-folder"):
        ProcessGroup(tmp_path / "no-such-folder", Limits())


def test_process_without_a_group_of_its_own_has_lost_nothing():
    assert n_killed_around(2**22 + 5) == 0
