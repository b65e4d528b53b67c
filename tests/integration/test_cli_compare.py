"""compare, plan and query through the command line: results, exit codes, one message for each mistake."""

import json
from pathlib import Path

import pytest
from cli_helpers import call, edited, tree
from unit.scored_runs import ids_of, scored, suite_of


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of scored runs over eight scenarios: good, twin (the same answers), bad, short, open."""
    root = tmp_path_factory.mktemp("runs")
    suite = suite_of(root, 8)
    mixed = [[1, 1], [1, 0], [1, 1], [0.5, 1], [1, 0], [1, 1], [0, 1], [1, 1]]
    scored(root / "good", suite, mixed)
    scored(root / "twin", suite, mixed)
    scored(root / "bad", suite, [[0, 0]] * 8)
    scored(root / "short", suite, [[1]] * 8)
    scored(root / "open", suite, [[1, None], *[[1, 1]] * 7])
    return root


def test_regression_exits_with_one(runs: Path) -> None:
    done = call("compare", runs / "good", runs / "bad")
    assert done.code == 1, done.err
    assert "bad is worse than good: a significant regression." in done.out
    assert "By scenario: 8 regressed, 0 improved, 0 missing, 0 unchanged" in done.out


def test_improvement_exits_with_zero(runs: Path) -> None:
    assert call("compare", runs / "bad", runs / "good").code == 0


def test_undecided_exits_with_three_and_says_so(runs: Path) -> None:
    done = call("compare", runs / "good", runs / "twin")
    assert done.code == 3
    assert "not decidable with 8 scenarios x 2 repeats" in done.out
    assert call("compare", runs / "good", runs / "twin", "--undecided-ok").code == 0
    assert call("compare", runs / "good", runs / "twin", "--margin", "0.5").code == 0


def test_json_is_one_document_with_method_unit_and_n(runs: Path) -> None:
    done = call("compare", runs / "good", runs / "bad", "--format", "json", "--seed", "7")
    assert done.code == 1
    found = done.json()
    (pair,) = found["comparisons"]
    assert pair["decision"] == "regression"
    # good: (1 + .5 + 1 + .75 + .5 + 1 + .5 + 1) / 8
    assert pair["difference"]["value"] == pytest.approx(-0.78125)
    assert {"estimand", "unit", "n", "method", "level", "interval"} <= pair["difference"].keys()
    assert found["settings"] == {
        "margin": 0.05,
        "level": 0.95,
        "power": 0.8,
        "seed": 7,
        "n_resamples": 10000,
    }
    assert [one["scenario_id"] for one in pair["scenarios"]] == ids_of(8)
    again = call("compare", runs / "good", runs / "bad", "--format", "json", "--seed", "7")
    assert again.out == done.out


def test_all_pairs_print_groups(runs: Path) -> None:
    done = call("compare", "--all-pairs", runs / "good", runs / "twin", runs / "bad")
    assert done.code == 0, done.err
    assert "  1. good, twin\n  2. bad" in done.out


def test_signatures_that_differ_exit_with_two_and_name_the_field(runs: Path) -> None:
    message = call("compare", runs / "good", runs / "short").refused()
    assert "repeats: 2 in" in message
    assert "repeats: 1 in" in message
    allowed = call("compare", runs / "good", runs / "short", "--allow", "repeats")
    assert "Allowed to differ: repeats (2 / 1)" in allowed.out
    assert "8 scenarios x 1 and 2 repeats" in allowed.out


def test_incomplete_run_exits_with_three(runs: Path) -> None:
    message = call("compare", runs / "good", runs / "open").refused(3)
    assert "1 trial of 1 scenario has no score" in message
    # open: between (.5 + 7) / 8 and 1; good: .78125.
    assert "lies between +0.156 and +0.219" in message
    assert "incomplete" in call("compare", "--ab-test", runs / "open").refused(3)


def test_ab_test_gives_the_false_alarm_rate(runs: Path) -> None:
    done = call("compare", "--ab-test", runs / "good", "--draws", "200", "--format", "json")
    assert done.code == 0, done.err
    found = done.json()
    assert 0.0 <= found["rate"]["value"] <= 0.06
    assert (found["n_draws"], found["n_repeats_each"], found["rate"]["n"]) == (200, 1, 200)
    assert "split at random" in call("compare", "--ab-test", runs / "good", "--draws", "20").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", "good"], "at least two runs"),
        (["compare", "--ab-test", "good", "bad"], "--ab-test takes one run"),
        (["compare", "--ab-test", "short"], "one repeat cannot be split"),
        (["compare", "good", "nowhere"], "nowhere"),
        (["compare", "good", "bad", "--margin", "0"], "--margin"),
        (["compare", "good", "bad", "--margin", "nan"], "--margin"),
        (["compare", "good", "bad", "--seed", "-1"], "--seed"),
        (["compare", "good", "bad", "--allow", "colour"], "colour"),
        (["plan"], "--between-sd"),
        (["plan", "good"], "--between-sd"),
        (["plan", "good", "bad", "--difference", "2"], "--difference"),
        (["query", "SELECT 1", "nowhere"], "neither a run"),
        (["query", "DROP TABLE trials", "good"], "must be one SELECT"),
        (["query", "SELECT nothing FROM trials", "good"], "nothing"),
    ],
)
def test_mistakes_are_one_message(
    runs: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(runs)
    assert message in call(*words).refused()


def test_run_that_changed_since_it_was_scored_is_refused(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, 3)
    first, second = (scored(tmp_path / name, suite, [[1], [0], [1]]) for name in ("first", "second"))
    edited(second / "trials" / "scenario-001" / "1" / "trial.json", outcome="agent_error")
    assert "changed since it was scored" in call("compare", first, second).refused()


def test_plan_from_runs_and_from_stated_spreads(runs: Path) -> None:
    done = call("plan", runs / "good", runs / "bad", "--difference", "0.2")
    assert done.code == 0, done.err
    assert "Interaction sd" in done.out
    assert "With 8 scenarios x 2 repeats the smallest true difference" in done.out
    stated = call(
        *["plan", "--between-sd", "0.185", "--within-sd", "0.453", "--difference", "0.05"],
        *["--format", "json"],
    )
    rows = {row["n_repeats"]: row["n_scenarios"] for row in stated.json()["rows"]}
    # 2.8016^2 (.185^2 + .453^2 / 3) / .05^2 = 322.2, and a few more for t.
    assert 323 <= rows[3] <= 326


def test_query_prints_rows_and_changes_nothing(runs: Path) -> None:
    before = tree(runs)
    sql = "SELECT agent, round(avg(precision_at_full_recall), 3) AS mean FROM trials GROUP BY 1 ORDER BY 1"
    found = call("query", sql, runs / "bad", runs / "good", "--format", "json")
    assert found.json() == [{"agent": "bad", "mean": 0.0}, {"agent": "good", "mean": 0.781}]
    assert call("query", sql, runs / "bad", "--format", "csv").out == "agent,mean\nbad,0.0\n"
    assert call("query", sql, runs / "bad").out.splitlines()[0] == "agent  mean"
    assert tree(runs) == before


def test_query_shows_no_control_characters(tmp_path: Path) -> None:
    run = scored(tmp_path / "run", suite_of(tmp_path, 1), [[0]], wrong="\x1b[31mred")
    done = call("query", "SELECT raw FROM entities", run)
    assert "\x1b" not in done.out
    assert "\\x1b[31mred" in done.out
    assert json.loads(call("query", "SELECT raw FROM entities", run, "--format", "json").out)
