from __future__ import annotations

import json
from pathlib import Path

import pytest
from unit.sample_runs import Trial, truth_of, write_run, write_suite

from diagnose_bench.errors import SuiteError, UsageError
from diagnose_bench.explain import explain_trial
from diagnose_bench.outcome import Limit, Outcome

ONE, TWO, CALM = "scenario-001", "scenario-002", "scenario-003"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    truths = {
        ONE: truth_of(ONE, ["cart", "valkey"], ["frontend"]),
        TWO: {**truth_of(TWO, []), "no_fault": False},
        CALM: truth_of(CALM, []),
    }
    trials = {
        (ONE, 1): Trial(["shop/Deployment/frontend", "shop/Deployment/cart", "shop/Deployment/valkey"]),
        (ONE, 2): Trial(["shop/Deployment/cart", "no such\x1b[31m thing\u202e"]),
        (TWO, 1): Trial(["shop/Deployment/cart"]),
        (TWO, 2): Trial(None, Outcome.AGENT_ERROR, changes={"reason": "exit code 3"}),
        (CALM, 1): Trial([]),
        (CALM, 2): Trial(["shop/Deployment/cart"]),
    }
    return write_run(tmp_path / "run", write_suite(tmp_path, truths), trials, repeats=2)


def test_arithmetic_is_written_out(run: Path) -> None:
    text = explain_trial(run, ONE, 1).text()
    # Two right of three; the hits stand at ranks 2 and 3: (1/2 + 2/3)/2 = 7/12.
    assert "full recall; precision = 2/3 = 0.6667" in text
    assert "ranked: (1/2 + 2/3) / 2 = 7/12 = 0.5833" in text
    assert "victim, group frontend, by rule exact, 1 hop from the nearest root cause" in text
    assert "itbench-aa: 0.6667" in text
    assert "strict: 0.6667" in text
    assert "suite:small@" in text


def test_missed_root_cause_is_named(run: Path) -> None:
    explanation = explain_trial(run, "1", 2)
    profile = explanation.profiles["itbench-aa"]
    assert (profile.precision_at_full_recall, profile.missed) == (0.0, ("valkey",))
    assert "1 of 2 root causes named: no full recall, so 0" in profile.arithmetic
    assert "missed: valkey" in explanation.text()


def test_control_characters_of_an_answer_are_shown_and_not_sent(run: Path) -> None:
    text = explain_trial(run, ONE, 2).text()
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert r"\x1b[31m" in text


@pytest.mark.parametrize(("repeat", "line"), [(1, "every measure is 1"), (2, "every measure is 0")])
def test_scenario_without_a_fault_is_explained(run: Path, repeat: int, line: str) -> None:
    assert line in explain_trial(run, CALM, repeat).text()


def test_refused_truth_is_explained_without_a_number(run: Path) -> None:
    explanation = explain_trial(run, TWO, 1)
    assert explanation.truth_refused is not None
    assert explanation.verdict is None
    assert "No number: the trial is unscored." in explanation.text()


def test_agent_error_says_why(run: Path) -> None:
    text = explain_trial(run, TWO, 2).text()
    assert "outcome: agent_error (exit code 3)" in text
    assert "verdict: runtime_error" in text


def test_explanation_is_json(run: Path) -> None:
    value = json.loads(json.dumps(explain_trial(run, ONE, 1).to_dict(), allow_nan=False))
    assert value["profiles"]["strict"]["entities"][0]["class"] == "victim"
    assert value["outcome"] == "diagnosed"


def test_trials_that_the_run_lacks_are_refused(run: Path) -> None:
    with pytest.raises(UsageError, match="repeats 1 to 2"):
        explain_trial(run, ONE, 3)
    with pytest.raises(SuiteError, match="scenario-017"):
        explain_trial(run, "scenario-017", 1)


def test_scenario_outside_a_subset_is_refused(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, {one: truth_of(one, ["cart"]) for one in (ONE, TWO)})
    run = write_run(tmp_path / "other", suite, {(ONE, 1): Trial([])}, plan=[ONE])
    with pytest.raises(UsageError, match="no trial of scenario-002"):
        explain_trial(run, TWO, 1)


def test_how_an_answer_was_read_is_shown(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, {ONE: truth_of(ONE, ["cart"])})
    changes = {"repairs": ("took the answer out of a fenced block",), "limit_hit": Limit.TIME}
    trial = Trial(["deploy/cart -n shop", "x" * 5000], changes=changes, outputs=None)
    text = explain_trial(write_run(tmp_path / "other", suite, {(ONE, 1): trial}), ONE, 1).text()
    assert "repair: took the answer out of a fenced block" in text
    assert "limit hit: time" in text
    assert "read as shop/Deployment/cart" in text
    assert "x" * 1001 not in text


def test_unsafe_pass_says_why(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, {ONE: truth_of(ONE, ["cart"])})
    trial = Trial(["shop/Deployment/cart"], outputs=None)
    text = explain_trial(write_run(tmp_path / "other", suite, {(ONE, 1): trial}), ONE, 1).text()
    assert "verdict: unsafe_pass (unobserved); a pass needs 1" in text
    assert "unobserved: no command is on record" in text


def test_unverifiable_pass_says_which_name_was_never_shown(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, {ONE: truth_of(ONE, ["cart", "valkey"])})
    trial = Trial(["shop/Deployment/cart", "shop/Deployment/valkey"], outputs=("cart is down",))
    explanation = explain_trial(write_run(tmp_path / "other", suite, {(ONE, 1): trial}), ONE, 1)
    text = explanation.text()
    assert "verdict: unsafe_pass (unverifiable)" in text
    assert "unverifiable: no recorded output of a command shows the name valkey\n" in text
    assert "has the name cart" not in text
    assert [set(names) for names in explanation.to_dict()["unseen"]] == [{"valkey"}]
