"""Words that only a truth knows, found in a snapshot with file and line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from unit.sample_runs import truth_of, write_suite

from diagnose_bench import lint_leaks as module
from diagnose_bench.cli import app
from diagnose_bench.layout import BUNDLED_SUITE, truth_folder_of
from diagnose_bench.lint_leaks import Leak, find_leaks, lint_leaks
from diagnose_bench.suite import load_suite

ONE, TWO = "scenario-001", "scenario-002"
SENTENCE = 'The cart says "no" to every order'


def leaks(folder: Path, *words: str) -> list[Leak]:
    return list(find_leaks(folder, words))


def test_a_place_is_named_by_file_and_line_in_any_case(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.log").write_text(
        "one\ntwo THE-SECRET-WORD\nthree\nthe-secret-word the-secret-word\n"
    )
    (tmp_path / "b.jsonl").write_text(json.dumps({"message": SENTENCE}) + "\n")
    assert leaks(tmp_path, "The-Secret-Word", SENTENCE) == [
        Leak("b.jsonl", 1, SENTENCE),
        Leak("logs/a.log", 2, "The-Secret-Word"),
        Leak("logs/a.log", 4, "The-Secret-Word"),
        Leak("logs/a.log", 4, "The-Secret-Word"),
    ]


def test_a_file_name_is_a_place_too(tmp_path: Path) -> None:
    (tmp_path / "the-secret-word.log").write_text("")
    (leak,) = leaks(tmp_path, "the-secret-word")
    assert leak.text() == "the name 'the-secret-word.log' holds 'the-secret-word'"


@pytest.mark.parametrize("chunk", [1, 2, 7, 15, 16, 64])
def test_borders_of_blocks_hide_nothing_and_count_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(module, "_CHUNK", chunk)
    words = ("the-secret-word", "another-one", "word\n")
    text = "x\nthe-secret-wordthe-secret-word\nanother-one\n\nthe-secret-word another-one"
    (tmp_path / "a").write_text(text)
    expected = sorted(
        (text.count("\n", 0, place) + 1, word)
        for word in words
        for place in range(len(text))
        if text.startswith(word, place)
    )
    assert sorted((leak.line, leak.word) for leak in leaks(tmp_path, *words)) == expected


def test_many_places_of_one_word_are_counted_and_not_listed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("the-secret-word\n" * 1000)
    found = leaks(tmp_path, "the-secret-word")
    assert [leak.line for leak in found] == list(range(1, 21))
    assert found[-1].text() == "a:20 holds 'the-secret-word' (and 980 more places)"


def suite(tmp_path: Path, leaked: str) -> Any:
    truths = {
        one: truth_of(one, ["cart"], ["frontend"]) | {"canary": f"diagnose-bench:{one}-canary"}
        for one in (ONE, TWO)
    }
    folder = write_suite(tmp_path, truths)
    (folder / TWO / "extra.log").write_text(f"first\n{leaked}\n")
    return load_suite(str(folder))


def test_a_suite_is_searched_for_its_own_words_and_for_every_canary(tmp_path: Path) -> None:
    loaded = suite(tmp_path, f"diagnose-bench:{ONE}-canary and the incident {TWO}")
    found = lint_leaks(loaded, truth_folder_of(loaded.path))
    assert [(one.scenario_id, one.ok) for one in found] == [(ONE, True), (TWO, False), (TWO, False)]
    assert sorted(one.detail for one in found[1:]) == [
        f"extra.log:2 holds 'The incident {TWO}'",
        f"extra.log:2 holds 'diagnose-bench:{ONE}-canary'",
    ]


def test_the_command_lists_places_and_exits_with_1(tmp_path: Path) -> None:
    loaded = suite(tmp_path, f"the incident {TWO}")
    done = CliRunner().invoke(app, ["suite", "lint", str(loaded.path), "--leaks"])
    assert done.exit_code == 1
    assert f"{TWO} leaks: BROKEN: extra.log:2 holds 'The incident {TWO}'" in done.stdout
    assert "2 checks, 1 broken." in done.stdout


def test_the_bundled_suite_leaks_nothing() -> None:
    loaded = load_suite(BUNDLED_SUITE)
    found = lint_leaks(loaded, truth_folder_of(loaded.path))
    assert len(found) == len(loaded.scenarios)
    assert all(one.ok for one in found), [one.line() for one in found if not one.ok]
