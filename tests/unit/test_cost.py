"""What an answer costs: expected values are sums and quotients written out."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from unit.sample_runs import Trial, truth_of, write_run, write_suite

from diagnose_bench.comparison import compare_runs
from diagnose_bench.comparison_text import comparison_text
from diagnose_bench.grading import score_run
from diagnose_bench.outcome import Outcome
from diagnose_bench.records import Usage
from diagnose_bench.report import load_report
from diagnose_bench.report_cost import cost_text
from diagnose_bench.report_html import report_html
from diagnose_bench.report_markdown import report_markdown
from diagnose_bench.report_terminal import print_report
from diagnose_bench.scorecard import Scorecard

ONE, TWO = "scenario-001", "scenario-002"
RIGHT, BOTH, WRONG = (
    ["shop/Deployment/cart"],
    ["shop/Deployment/cart", "shop/Deployment/valkey"],
    ["shop/Deployment/valkey"],
)


def _usage(tokens: int, cost: float | None, *, by_agent: bool = False) -> Usage:
    return Usage(input_tokens=tokens, cost_usd=cost, reported_by_agent=by_agent)


def _run(root: Path, name: str = "run") -> Path:
    """Six trials: a pass, a correct diagnosis with one wrong name, two failures, one of ours, one unknown."""
    suite = root / "snapshots" / "small"
    if not suite.exists():
        suite = write_suite(root, {ONE: truth_of(ONE, ["cart"]), TWO: truth_of(TWO, ["cart"])})
    trials = {
        (ONE, 1): Trial(RIGHT, changes={"seconds": 10.0, "n_turns": 4, "usage": _usage(1000, 0.5)}),
        (ONE, 2): Trial(BOTH, changes={"seconds": 20.0, "n_turns": 6, "usage": _usage(2000, 0.25)}),
        (ONE, 3): Trial(WRONG, changes={"seconds": 30.0, "n_turns": 8, "usage": _usage(3000, None)}),
        (TWO, 1): Trial(None, Outcome.TIME_LIMIT, changes={"seconds": 60.0, "n_turns": 2}),
        (TWO, 2): Trial(
            None, Outcome.HARNESS_ERROR, changes={"seconds": 999.0, "n_turns": 99, "usage": _usage(9, 9.0)}
        ),
        (TWO, 3): Trial(
            RIGHT, changes={"seconds": 5.0, "n_turns": 5, "usage": _usage(4000, 0.25, by_agent=True)}
        ),
    }
    return write_run(root / name, suite, trials, repeats=3, agent=name)


@pytest.fixture
def scorecard(tmp_path: Path) -> Scorecard:
    return score_run(_run(tmp_path))


def test_what_everybody_says_is_taken_over_all_scored_trials(scorecard: Scorecard) -> None:
    seconds = scorecard.cost["seconds"]
    # 10 + 20 + 30 + 60 + 5; the trial that failed through us is not the agent's.
    assert (seconds.total, seconds.n_trials, seconds.n_scored) == (125.0, 5, 5)
    assert (seconds.per_trial.value, seconds.per_trial.n) == (25.0, 5)
    # Two passes (score 1), three that named every root cause; failures are paid for, too.
    assert (seconds.per_pass.value, seconds.per_pass.n) == (62.5, 2)
    assert seconds.per_correct_diagnosis.value == pytest.approx(125.0 / 3)
    assert scorecard.cost["n_turns"].total == 25.0


def test_missing_is_not_zero_and_partial_figures_say_of_how_many(scorecard: Scorecard) -> None:
    tokens, money = scorecard.cost["input_tokens"], scorecard.cost["cost_usd"]
    assert (tokens.total, tokens.n_trials, tokens.n_scored, tokens.n_by_agent) == (10_000.0, 4, 5, 1)
    # Money is known of three trials: two passes and one more correct diagnosis.
    assert (money.total, money.n_trials) == (1.0, 3)
    assert (money.per_trial.value, money.per_pass.value) == (pytest.approx(1 / 3), 0.5)
    assert (money.per_correct_diagnosis.value, money.per_correct_diagnosis.n) == (pytest.approx(1 / 3), 3)
    reasoning = scorecard.cost["reasoning_tokens"]
    assert (reasoning.total, reasoning.n_trials, reasoning.per_trial.value) == (None, 0, None)


def test_a_cost_says_what_it_estimates(scorecard: Scorecard) -> None:
    money = scorecard.cost["cost_usd"]
    assert money.per_trial.estimand == "mean US dollars of a scored trial"
    assert money.per_pass.estimand == (
        "US dollars of those trials, divided by those that reached the score of a pass, 1"
    )
    assert money.per_correct_diagnosis.estimand == (
        "US dollars of those trials, divided by those that named every root cause"
    )


def test_recorded_answers_have_no_turns_and_no_seconds(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, {ONE: truth_of(ONE, ["cart"])})
    changes = {"observed": False, "n_turns": 0, "seconds": 0.0}
    run = write_run(tmp_path / "run", suite, {(ONE, 1): Trial(RIGHT, changes=changes)}, repeats=1)
    cost = score_run(run).cost
    assert [cost[name].per_trial.value for name in ("n_turns", "n_commands", "seconds")] == [None] * 3
    assert [cost[name].n_trials for name in ("n_turns", "n_commands", "seconds")] == [0] * 3


def test_every_format_shows_the_costs(tmp_path: Path) -> None:
    run = _run(tmp_path)
    score_run(run)
    report = load_report([run])
    terminal = io.StringIO()
    print_report(report, terminal, width=120)
    for text in (terminal.getvalue(), report_markdown(report), report_html(report)):
        assert "What an answer costs" in text
        # Tokens per trial, money per trial and per pass, seconds per pass.
        for figure in ("2,500", "0.333", "0.5", "62.5"):
            assert figure in text, figure
        assert "known of 3 of 5 scored trials" in text.replace("\n", " ")
        assert "1 trial as the agent itself reported them" in text.replace("\n", " ")


def test_a_comparison_shows_the_costs_of_both(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, {ONE: truth_of(ONE, ["cart"]), TWO: truth_of(TWO, ["cart"])})
    runs = []
    for name, seconds in (("slow", 40.0), ("quick", 10.0)):
        trials = {
            (scenario, 1): Trial(RIGHT, changes={"seconds": seconds, "usage": _usage(100, None)})
            for scenario in (ONE, TWO)
        }
        runs.append(write_run(tmp_path / name, suite, trials, repeats=1, agent=name))
        score_run(runs[-1])
    comparison = compare_runs(runs)
    text = comparison_text(comparison)
    assert "Cost per trial" in text
    assert "40.0" in text
    assert [one["cost"]["seconds"]["per_pass"]["value"] for one in comparison.to_dict()["runs"]] == [40, 10]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("cost_usd", None, "n/a"),
        ("cost_usd", 0.0, "0.00"),
        ("cost_usd", 0.000123456, "0.000123"),
        ("cost_usd", 12.345, "12.35"),
        ("input_tokens", 1234567.4, "1,234,567"),
        ("seconds", 0.25, "0.2"),
        ("seconds", 1234.5, "1,234"),
    ],
)
def test_figures_are_written_for_people(name: str, value: float | None, text: str) -> None:
    assert cost_text(name, value) == text
