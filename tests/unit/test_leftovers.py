"""What dead harnesses leave is swept; what lives, is young, or belongs to others is not."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from diagnose_bench.sandbox.leftovers import AGENT_PREFIX, STORE_PREFIX, claim, release, sweep

HOLDER = """
import sys, time
from pathlib import Path
from diagnose_bench.sandbox.leftovers import claim
claim(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


def old_folder(path: Path) -> Path:
    (path / "deep" / "er").mkdir(parents=True)
    (path / "deep" / "file").write_text("copy")
    (path / "deep" / "link").symlink_to("/")
    os.chmod(path / "deep" / "er", 0o000)
    return path


def test_folders_of_dead_harnesses_are_removed(tmp_path):
    dead = [old_folder(tmp_path / f"{prefix}abc") for prefix in (STORE_PREFIX, AGENT_PREFIX)]
    assert sorted(sweep([tmp_path], youngest_s=-1)) == sorted(dead)
    assert os.listdir(tmp_path) == []


def test_folder_of_a_living_harness_stays_until_it_dies(tmp_path):
    folder = old_folder(tmp_path / f"{STORE_PREFIX}abc")
    root = Path(__file__).resolve().parents[2]
    harness = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    try:
        assert harness.stdout.readline() == b"held\n"
        assert sweep([tmp_path], youngest_s=-1) == []
    finally:
        harness.kill()
        harness.communicate()
    assert sweep([tmp_path], youngest_s=-1) == [folder]


def test_own_claim_holds_until_it_is_released(tmp_path):
    folder = old_folder(tmp_path / f"{STORE_PREFIX}abc")
    claim(folder)
    assert sweep([tmp_path], youngest_s=-1) == []
    release(folder)
    release(folder)
    assert sweep([tmp_path], youngest_s=-1) == [folder]


def test_young_folder_stays(tmp_path):
    old_folder(tmp_path / f"{STORE_PREFIX}abc")
    assert sweep([tmp_path]) == []


def test_other_names_files_and_links_stay(tmp_path):
    old_folder(tmp_path / "incident-abc")
    old_folder(tmp_path / "target")
    (tmp_path / f"{STORE_PREFIX}file").write_text("")
    (tmp_path / f"{STORE_PREFIX}link").symlink_to("target")
    before = sorted(os.listdir(tmp_path))
    assert sweep([tmp_path, tmp_path / "missing"], youngest_s=-1) == []
    assert sorted(os.listdir(tmp_path)) == before
    assert (tmp_path / "target" / "deep" / "file").read_text() == "copy"


def test_folders_of_other_users_stay(tmp_path, monkeypatch):
    folder = old_folder(tmp_path / f"{STORE_PREFIX}abc")
    # Another user looks at it: only root could give it away.
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    assert sweep([tmp_path], youngest_s=-1) == []
    assert folder.exists()


def test_two_sweeps_at_once_do_no_harm(tmp_path):
    for number in range(30):
        old_folder(tmp_path / f"{STORE_PREFIX}{number}")
    with ThreadPoolExecutor(4) as pool:
        swept = list(pool.map(lambda _: sweep([tmp_path], youngest_s=-1), range(4)))
    assert os.listdir(tmp_path) == []
    assert len({path for paths in swept for path in paths}) == 30


def test_time_of_a_folder_counts_from_its_last_change(tmp_path):
    folder = old_folder(tmp_path / f"{STORE_PREFIX}abc")
    # A time of last change cannot be set back, so a long patience keeps it whatever its other times say.
    os.utime(folder, (0, 0))
    assert sweep([tmp_path], youngest_s=time.time()) == []
