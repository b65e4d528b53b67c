"""The parts of the sandbox that need no sandbox."""

import hashlib
import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from diagnose_bench import layout
from diagnose_bench.errors import (
    DigestMismatchError,
    SandboxPolicyError,
    SandboxUnavailableError,
    SuiteError,
    UsageError,
)
from diagnose_bench.sandbox import Limits, SnapshotStore, messages, open_sandbox, policy
from diagnose_bench.sandbox.bubblewrap import find_bubblewrap
from diagnose_bench.sandbox.mounts import MountTable
from diagnose_bench.sandbox.output import OutputCollector
from diagnose_bench.sandbox.removal import remove_tree
from diagnose_bench.sandbox.scratch import Usage, measure
from diagnose_bench.sandbox.store import private_folder
from diagnose_bench.snapshot import build_manifest, manifest_digest

MIB = 1024 * 1024


def collected(data, head=4, tail=4, piece=3):
    output = OutputCollector(head, tail)
    for start in range(0, len(data), piece):
        output.add(data[start : start + piece])
    return output


def test_output_keeps_beginning_and_end():
    output = collected(b"abcdefghijkl")
    assert output.shown() == b"abcd\n[... 4 bytes of output cut here ...]\nijkl"
    assert (output.n_bytes, output.sha256) == (12, hashlib.sha256(b"abcdefghijkl").hexdigest())


@pytest.mark.parametrize("length", range(9))
def test_output_that_fits_is_whole(length):
    assert collected(b"abcdefgh"[:length]).shown() == b"abcdefgh"[:length]


def test_cut_does_not_split_a_character():
    shown = collected("éaéé--------ééaé".encode(), head=4, tail=4).shown()
    # The fourth byte begins an é that the cut would split, the tail's first byte ends one.
    assert shown == "éa\n[... 16 bytes of output cut here ...]\naé".encode()


def test_output_that_is_no_text_is_cut_too():
    assert collected(b"\xff" * 20).shown().endswith(b"\xff" * 4)


def test_pieces_of_any_size_give_the_same():
    data = bytes(range(256)) * 3
    assert len({collected(data, 50, 60, piece).shown() for piece in (1, 7, 49, 50, 51, 110, 1000)}) == 1


def test_limits_refuse_what_is_no_limit():
    for bad in (0, -1, float("nan"), float("inf"), "60"):
        with pytest.raises(UsageError, match="command_s"):
            Limits(command_s=bad)


def test_limits_can_be_set_by_a_person():
    limits = Limits().adjusted(command_s=300, memory_mb=512, disk_mb=10)
    assert (limits.command_s, limits.max_command_s) == (300, 300)
    assert (limits.memory_mb, limits.resident_mb, limits.scratch_mb, limits.file_mb) == (512, 512, 10, 10)
    assert Limits().adjusted() == Limits()
    assert Limits().command_time(float("nan")) == 30


def test_resource_limits_of_a_command():
    options = Limits().prlimit(30)
    assert f"--as={4096 * MIB}" in options
    assert f"--fsize={64 * MIB}" in options
    assert {"--cpu=60:61", "--nofile=256", "--nproc=128"} <= set(options)
    # 1 and not 0: only at 1 the kernel leaves a program that collects cores alone.
    assert Limits().core_prlimit() == ["--core=1"]
    assert "--nproc=128" not in Limits().prlimit(30, processes=False)


def test_folder_is_measured_without_following_links(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "large").write_bytes(bytes(MIB))
    inside = tmp_path / "scratch"
    (inside / "a" / "b").mkdir(parents=True)
    (inside / "file").write_bytes(b"x" * 100_000)
    os.link(inside / "file", inside / "again")
    (inside / "link").symlink_to(tmp_path / "outside")
    os.mkfifo(inside / "pipe")
    usage = measure(inside, 10 * MIB, 1000)
    assert usage.n_entries == 6  # a, a/b, file, again, link, pipe
    assert 100_000 <= usage.n_bytes < 200_000
    assert usage.whole


def test_measuring_gives_up_early(tmp_path):
    for number in range(100):
        (tmp_path / str(number)).touch()
    assert measure(tmp_path, MIB, 10).n_entries == 11
    assert measure(tmp_path / "missing", MIB, 10) == Usage()


def test_closed_folder_hides_nothing(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "file").write_bytes(b"x" * 100_000)
    closed.chmod(0)
    assert measure(tmp_path, MIB, 100).n_bytes >= 100_000


def test_a_folder_that_its_owner_closed_is_measured_and_removed(tmp_path):
    closed = tmp_path / "scratch"
    closed.mkdir()
    (closed / "file").write_bytes(b"x" * 100_000)
    closed.chmod(0)
    assert measure(closed, MIB, 100).n_bytes >= 100_000
    closed.chmod(0)
    remove_tree(closed)
    assert not closed.exists()


def test_what_is_no_folder_is_not_taken_for_an_empty_one(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link"):
        assert not measure(tmp_path / name, MIB, 100).whole


@pytest.fixture
def victim(tmp_path):
    """A folder to be filled with what pytest's own clean-up fails on: nothing of it may be left."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    yield folder
    subprocess.run(["chmod", "-R", "u+rwx", folder], stderr=subprocess.DEVNULL, check=False)
    subprocess.run(["rm", "-rf", folder], check=False)


def test_hostile_tree_is_removed(tmp_path, victim):
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o500)
    (victim / "link").symlink_to(outside)
    here = os.open(victim, os.O_RDONLY)
    name = "d" * 200
    for _ in range(150):  # far beyond the longest path
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_RDONLY, dir_fd=here)
        with open(os.open("0", os.O_CREAT | os.O_WRONLY, 0o000, dir_fd=here), "w"):
            pass
        os.fchmod(here, 0o000 if here > 2 else 0o700)
        os.close(here)
        here = inner
    os.close(here)
    assert not measure(victim, MIB, 10_000).whole
    remove_tree(victim)
    assert not victim.exists()
    assert stat.S_IMODE(outside.stat().st_mode) == 0o500
    remove_tree(victim)


TABLE = """\
22 1 254:0 / / rw shared:1 - ext4 /dev/vda rw
23 22 0:21 / /proc rw - proc proc rw
30 22 254:0 /srv/data /mnt/alias rw - ext4 /dev/vda rw
31 22 254:0 /srv/data/ground_truth/one /opt/one rw - ext4 /dev/vda rw
32 22 8:1 / /srv/other\\040disk rw - ext4 /dev/sdb rw
"""


def test_places_of_a_folder_through_other_mounts(monkeypatch, tmp_path):
    table = MountTable(TABLE)
    monkeypatch.setattr(os.path, "lexists", lambda path: True)
    assert table.places(Path("/srv/data/ground_truth")) == [
        Path("/srv/data/ground_truth"),
        Path("/mnt/alias/ground_truth"),
        Path("/opt/one"),
    ]
    assert table.places(Path("/mnt/alias/ground_truth"))[1:] == [
        Path("/srv/data/ground_truth"),
        Path("/opt/one"),
    ]
    assert table.places(Path("/srv/other disk/x")) == [Path("/srv/other disk/x")]
    assert [mount.kind for mount in table.mounts][:2] == ["ext4", "proc"]


def test_own_mount_table_is_readable():
    assert any(str(mount.point) == "/" for mount in MountTable.read().mounts)


def make_snapshot(folder):
    folder.mkdir(parents=True)
    (folder / "events.jsonl").write_text('{"reason": "Killing"}\n')
    times = dict.fromkeys(("start", "detected_at", "end"), "2024-01-01T00:00:00Z")
    manifest = build_manifest(folder, times)
    (folder / "snapshot.json").write_text(json.dumps(manifest.model_dump(mode="json")))
    return manifest_digest(manifest)


def test_copy_says_nothing_and_is_read_only(tmp_path):
    digest = make_snapshot(tmp_path / "scenario-017-oom")
    with SnapshotStore(tmp_path) as store:
        copy = store.stage(tmp_path / "scenario-017-oom", digest)
        assert "scenario" not in str(copy.relative_to(tmp_path))
        assert digest not in str(copy)
        assert (copy / "events.jsonl").read_text() == '{"reason": "Killing"}\n'
        assert stat.S_IMODE((copy / "events.jsonl").stat().st_mode) == 0o444
    assert not copy.exists()
    assert tmp_path.exists()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "events.jsonl").write_text("changed\n"), "events.jsonl: size or sha256"),
        (lambda folder: (folder / "more").touch(), "more: is not in the manifest"),
        (lambda folder: (folder / "events.jsonl").unlink(), "events.jsonl: is in the manifest and does not"),
    ],
)
def test_damaged_snapshot_is_not_served(tmp_path, damage, message):
    digest = make_snapshot(tmp_path / "s")
    damage(tmp_path / "s")
    with SnapshotStore(tmp_path) as store, pytest.raises(DigestMismatchError, match=message):
        store.stage(tmp_path / "s", digest)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["s"]


def test_other_manifest_is_not_served(tmp_path):
    make_snapshot(tmp_path / "s")
    with SnapshotStore(tmp_path) as store:
        with pytest.raises(DigestMismatchError, match="on record"):
            store.stage(tmp_path / "s", "0" * 64)
        (tmp_path / "s" / "snapshot.json").unlink()
        with pytest.raises(SuiteError, match=str(tmp_path / "s")):
            store.stage(tmp_path / "s", "0" * 64)


def odd(folder, kind):
    if kind == "pipe":
        os.mkfifo(folder / "odd")
    else:
        target = {"absolute": "/etc/passwd", "outside": "../../x"}[kind]
        (folder / "odd").symlink_to(target)


@pytest.mark.parametrize("kind", ["pipe", "absolute", "outside"])
def test_what_no_snapshot_can_hold_is_refused_unless_unchecked(tmp_path, kind):
    source = tmp_path / "s"
    source.mkdir()
    (source / "file").write_text("x")
    odd(source, kind)
    with SnapshotStore(tmp_path) as store:
        with pytest.raises(SandboxPolicyError, match=r"s/odd: cannot be in a snapshot"):
            store.stage(source)
        copy = store.stage(source, unchecked=True)
        assert (copy / "file").read_text() == "x"
        assert os.path.lexists(copy / "odd") == (kind != "pipe")


def test_links_inside_the_snapshot_are_kept(tmp_path):
    source = tmp_path / "s"
    (source / "a").mkdir(parents=True)
    (source / "ring").symlink_to("ring")
    (source / "file").write_text("x")
    (source / "a" / "link").symlink_to("../file")
    with SnapshotStore(tmp_path) as store:
        assert (store.stage(source) / "a" / "link").read_text() == "x"


def test_missing_snapshot_is_named(tmp_path):
    with SnapshotStore(tmp_path) as store:
        with pytest.raises(SandboxPolicyError, match="does not exist"):
            store.stage(tmp_path / "missing")
        (tmp_path / "file").touch()
        with pytest.raises(SandboxPolicyError, match="is not a folder"):
            store.stage(tmp_path / "file")


def test_project_and_truths_cannot_become_a_snapshot(tmp_path):
    for folder in (layout.package_folder(), layout.package_folder().parent, Path("/")):
        with pytest.raises(SandboxPolicyError, match="lies in it"):
            policy.check_source(folder, ())
    truths = tmp_path / "ground_truth"
    (truths / "suite").mkdir(parents=True)
    with pytest.raises(SandboxPolicyError, match="it lies in"):
        policy.check_source(truths / "suite", [truths])
    assert policy.check_source(tmp_path, ()) == tmp_path.resolve()


def test_scratch_cannot_be_where_writing_does_harm(tmp_path):
    snapshot = tmp_path / "snapshot"
    (snapshot / "inner").mkdir(parents=True)
    home = Path.home()
    for folder in (snapshot, snapshot / "inner", tmp_path, home, Path("/usr/share")):
        with pytest.raises(SandboxPolicyError, match="scratch folder"):
            policy.check_scratch(folder, snapshot, ())
    (tmp_path / "mine").mkdir()
    assert policy.check_scratch(tmp_path / "mine", snapshot, ()) == (tmp_path / "mine").resolve()
    with pytest.raises(SandboxPolicyError, match="does not exist"):
        policy.check_scratch(tmp_path / "missing", snapshot, ())


def test_temporary_folder_that_the_shell_cannot_enter_is_refused(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    other = os.geteuid() + 12345
    with pytest.raises(SandboxUnavailableError, match=f"uid {other}, which cannot enter"):
        private_folder(closed, uid=other)
    folder = private_folder(closed)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_place_for_temporary_files_can_be_chosen(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert private_folder().parent == tmp_path.resolve()


@pytest.mark.parametrize(
    ("printed", "cause"),
    [
        ("bwrap: Unknown option --disable-userns", "older than 0.8.0"),
        ("bwrap: setting up uid map: Permission denied", "AppArmor"),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "AppArmor"),
        ("bwrap: No permissions to create new namespace, likely because", "does not allow user namespaces"),
        ("bwrap: Creating new namespace failed: Operation not permitted", "does not allow user namespaces"),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "masks parts of /proc"),
        ("bwrap: something new", "bwrap failed: bwrap: something new"),
        ("", "printed nothing"),
    ],
)
def test_failure_of_bubblewrap_is_explained(printed, cause):
    message = messages.explain(printed)
    assert message.startswith("No sandbox: ")
    assert cause in message
    assert "landlock" not in message


def test_other_systems_are_told_what_to_do(monkeypatch):
    assert messages.platform_message() is None
    monkeypatch.setattr("sys.platform", "darwin")
    assert "Lima" in messages.platform_message()


def test_first_windows_subsystem_is_refused(monkeypatch):
    class Old:
        release = "4.4.0-19041-Microsoft"

    monkeypatch.setattr(os, "uname", lambda: Old)
    assert "WSL2" in messages.platform_message()


def test_missing_bubblewrap_names_the_package(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailableError, match="apt-get install bubblewrap"):
        find_bubblewrap()
    with pytest.raises(SandboxUnavailableError, match="apt-get install bubblewrap"):
        open_sandbox("bwrap", tmp_path)


def test_setuid_bubblewrap_is_refused(monkeypatch, tmp_path):
    (tmp_path / "bwrap").write_text("#!/bin/sh\n")
    (tmp_path / "bwrap").chmod(0o4755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailableError, match="sudo chmod u-s"):
        find_bubblewrap()


def test_unknown_backend_is_refused(tmp_path):
    with pytest.raises(UsageError, match="auto, bwrap, landlock"):
        open_sandbox("firejail", tmp_path)
