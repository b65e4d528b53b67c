"""The history of a checkout and its other worktrees are hidden from an agent, where git put them."""

import os
import subprocess

import pytest

from diagnose_bench import layout
from diagnose_bench.sandbox.agent_process import agent_hidden_paths, confine
from diagnose_bench.sandbox.repository import other_checkouts, repository_folders

pytestmark = pytest.mark.sandbox

SECRET = "canary-of-the-truth-6021"


def git(folder, *arguments):
    identity = ("-c", "user.name=one", "-c", "user.email=one@example.org")
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True, env=env)


@pytest.fixture
def main(tmp_path):
    """A repository with a truth in its history and in its folder."""
    folder = tmp_path / "main"
    for name in ("diagnose_bench/__init__.py", "snapshots/s/a", "ground_truth/s/1.yaml", "pyproject.toml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(SECRET)
    (folder / "agent.py").write_text("an agent\n")
    git(folder, "init")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "all")
    return folder


def test_agent_of_a_linked_worktree_reads_neither_history_nor_main_checkout(main, tmp_path, monkeypatch):
    linked, third = tmp_path / "linked", main / "inside" / "third"
    git(main, "worktree", "add", linked)
    git(main, "worktree", "add", third)
    monkeypatch.setattr(layout, "_PACKAGE", linked / "diagnose_bench")
    hidden = agent_hidden_paths(None, [], None, [str(main / "agent.py")])
    truth = "ground_truth/s/1.yaml"
    command = (
        f"git -c safe.directory='*' -C {main} show HEAD:{truth}; git --git-dir {main}/.git show HEAD:{truth};"
        f"cat {main}/{truth} {linked}/{truth} {third}/{truth}; cat {main}/agent.py"
    )
    confined = confine(["bash", "-c", command], hidden=hidden)
    done = subprocess.run(confined.argv, capture_output=True, text=True, check=False)
    assert done.stdout == "an agent\n"
    open_to_all = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert open_to_all.stdout.count(SECRET) == 5


def test_worktree_inside_its_main_checkout_is_not_hidden_itself(main, monkeypatch):
    inside = main / "trees" / "one"
    git(main, "worktree", "add", inside)
    monkeypatch.setattr(layout, "_PACKAGE", inside / "diagnose_bench")
    hidden = agent_hidden_paths(None, [], None, [])
    assert {main / ".git", main / "ground_truth", inside / ".git", inside / "ground_truth"} <= set(hidden)
    assert not any((inside / "diagnose_bench").is_relative_to(path) for path in hidden)


def test_history_around_the_checkout_and_borrowed_objects_are_found(main, tmp_path):
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--shared", main, clone)
    (clone / "part").mkdir()
    assert set(repository_folders(clone / "part")) == {clone / ".git", main / ".git"}
    assert other_checkouts(main) == []


def test_damaged_files_of_git_are_passed_over(tmp_path):
    assert repository_folders(tmp_path / "nothing") == []
    (tmp_path / ".git").write_bytes(b"\xff\0")
    assert repository_folders(tmp_path) == [tmp_path / ".git"]
