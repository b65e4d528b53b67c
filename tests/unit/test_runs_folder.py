"""Which folders around a run are hidden as a whole, and what is hidden beside it where none is."""

from pathlib import Path

import pytest

from diagnose_bench.sandbox.runs_folder import beside_run, runs_folders


@pytest.fixture
def place(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def with_run(folder):
    folder.mkdir(parents=True)
    (folder / "run.json").touch()
    return folder


def test_folder_for_runs_is_hidden_before_it_exists(place):
    assert runs_folders(Path("runs/first"), []) == [place / "work" / "runs"]
    assert runs_folders(Path("runs/demo/today/first"), []) == [place / "work" / "runs"]


def test_folder_that_holds_another_run_is_hidden(place):
    with_run(place / "results" / "one")
    assert runs_folders(place / "results" / "two", []) == [place / "results"]
    assert runs_folders(place / "others" / "two", []) == []


@pytest.mark.parametrize("used", ["cwd", "home", "program", "option"])
def test_folder_in_which_somebody_works_is_not_hidden(place, monkeypatch, used):
    with_run(place / "results" / "one")
    argv = []
    if used == "cwd":
        (place / "results" / "deep").mkdir()
        monkeypatch.chdir(place / "results" / "deep")
    elif used == "home":
        monkeypatch.setenv("HOME", str(place / "results"))
    else:
        argv = [f"{'--file=' if used == 'option' else ''}{place}/results/agent.py"]
    assert runs_folders(place / "results" / "two", argv) == []


def test_other_runs_and_results_beside_a_run_are_found(place):
    with_run(place / "results" / "now")
    other = with_run(place / "results" / "other")
    for name in ("scorecard-2.json", "report.html", "notes.txt", "reporter.py"):
        (place / "results" / name).touch()
    found = beside_run(place / "results" / "now")
    assert found == [other, place / "results" / "report.html", place / "results" / "scorecard-2.json"]
