"""Recorded runs -> scorecards, with every expected number worked out beside it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from unit.grading_cases import all_right, trial_of
from unit.sample_runs import Trial, truth_of, write_run, write_suite

from diagnose_bench.grading import score_run
from diagnose_bench.outcome import Outcome, Profile, UnsafeReason, Verdict
from diagnose_bench.records import SandboxInfo

CART, CHECKOUT, FRONTEND, VALKEY = (
    f"shop/Deployment/{name}" for name in ("cart", "checkout", "frontend", "valkey")
)
ONE, TWO, CALM = "scenario-001", "scenario-002", "scenario-003"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return write_suite(
        tmp_path,
        {
            ONE: truth_of(ONE, ["cart"], ["frontend"]),
            TWO: truth_of(TWO, ["cart", "valkey"], ["frontend"]),
            CALM: truth_of(CALM, []),
        },
    )


def test_headline_is_the_mean_over_scenarios_of_the_mean_over_repeats(tmp_path: Path, suite: Path) -> None:
    trials = {
        (ONE, 1): Trial([CART]),  # 1
        (ONE, 2): Trial([CART, FRONTEND]),  # 1/2, so the scenario has 3/4
        (TWO, 1): Trial([CART, VALKEY, FRONTEND]),  # 2/3
        (TWO, 2): Trial([CART]),  # valkey missed: 0, so the scenario has 1/3
        (CALM, 1): Trial([]),  # 1
        (CALM, 2): Trial([CART]),  # anything named is wrong: 0, so the scenario has 1/2
    }
    scorecard = score_run(write_run(tmp_path / "run", suite, trials, repeats=2))
    assert [one.score for one in scorecard.scenarios] == pytest.approx([3 / 4, 1 / 3, 1 / 2])
    # (3/4 + 1/3 + 1/2) / 3 = 19/36
    assert scorecard.headline.average_precision_at_full_recall == pytest.approx(19 / 36)
    assert scorecard.number == scorecard.headline.average_precision_at_full_recall
    # Full recall in trials 1, 2, 3 and 5 of 6; a score of 1 in trials 1 and 5.
    assert scorecard.metrics["full_recall_rate"] == pytest.approx(4 / 6)
    assert scorecard.metrics["exact_rate"] == pytest.approx(2 / 6)
    # Precision 1, 1/2, 2/3, 1, 1, 0; recall 1, 1, 1, 1/2, 1, 0.
    assert scorecard.metrics["precision"] == pytest.approx((1 + 1 / 2 + 2 / 3 + 1 + 1) / 6)
    assert scorecard.metrics["recall"] == pytest.approx(4.5 / 6)
    # f1 1, 2/3, 4/5, 2/3, 1, 0; ranked 1, 1, 1, 0, 1, 0.
    assert scorecard.metrics["f1"] == pytest.approx((1 + 2 / 3 + 4 / 5 + 2 / 3 + 1) / 6)
    assert scorecard.metrics["ranked_precision_at_full_recall"] == pytest.approx(4 / 6)
    # Sample deviations: |1 - 1/2|/sqrt 2, |2/3 - 0|/sqrt 2, |1 - 0|/sqrt 2.
    spreads = [one.repeat_sd for one in scorecard.scenarios]
    assert spreads == pytest.approx([0.5 / math.sqrt(2), (2 / 3) / math.sqrt(2), 1 / math.sqrt(2)])
    assert scorecard.variance is not None
    assert scorecard.variance.within.value == pytest.approx((1 / 8 + 2 / 9 + 1 / 2) / 3)
    assert (scorecard.complete, scorecard.exit_code) == (True, 0)
    low, high = scorecard.headline.interval or (1.0, 0.0)
    assert low < 19 / 36 < high
    assert scorecard.headline.method == (
        "mean over 3 scenarios of the mean over 2 planned repeats; interval at level 0.95 for the mean score "
        "over scenarios like these: Bayesian bootstrap with half an atom at each bound of the score, to "
        "which scores between them lend 1.5 / (n + 1) of their weight, exact quadrature; "
        "unit: scenario, n = 3"
    )


def test_scoring_twice_gives_the_same_bytes(tmp_path: Path, suite: Path) -> None:
    run = write_run(tmp_path / "run", suite, all_right())
    write_run(run / "baselines" / "empty", suite, all_right(), agent="baseline:empty")
    score_run(run)
    first = (run / "scorecard.json").read_bytes()
    score_run(run, suite=str(suite), truth=tmp_path / "ground_truth" / "small")
    assert (run / "scorecard.json").read_bytes() == first


def test_scorecard_file_has_the_agreed_keys_and_no_nan(tmp_path: Path, suite: Path) -> None:
    run = write_run(tmp_path / "run", suite, all_right() | {(ONE, 1): Trial([FRONTEND, CART])})
    score_run(run)

    def refuse(text: str) -> None:
        raise AssertionError(f"{text} in the file")

    card = json.loads((run / "scorecard.json").read_text(), parse_constant=refuse)
    assert card.keys() >= {
        "format_version",
        "signature",
        "agent",
        "suite",
        "truth_digest",
        "profile",
        "complete",
        "headline",
        "metrics",
        "profiles",
        "baselines",
        "variance",
        "outcomes",
        "verdicts",
        "unsafe_reasons",
        "scenarios",
    }
    assert card["suite"].keys() >= {"name", "digest"}
    assert card["headline"].keys() >= {
        "average_precision_at_full_recall",
        "interval",
        "level",
        "method",
        "n_scenarios",
        "n_repeats",
        "bounds",
    }
    # One repeat says nothing about repeats.
    assert card["variance"]["within"]["value"] is None
    assert card["variance"]["rerun"]["interval"] is None
    trial = card["scenarios"][0]["trials"][0]
    assert trial.keys() >= {
        "repeat",
        "outcome",
        "limit_hit",
        "verdict",
        "unsafe_reasons",
        "repairs",
        "precision_at_full_recall",
        "ranked_precision_at_full_recall",
        "n_correct",
        "n_wrong",
        "missed",
        "entities",
    }
    victim, root = trial["entities"]
    assert (
        victim.items()
        >= {
            "raw": FRONTEND,
            "entity": FRONTEND,
            "rule": "exact",
            "group": "frontend",
            "via_alias": False,
            "class": "victim",
            "distance": 1,
        }.items()
    )
    assert root["class"] == "root_cause"
    assert (trial["precision_at_full_recall"], trial["ranked_precision_at_full_recall"]) == (0.5, 0.5)
    assert (trial["n_correct"], trial["n_wrong"], trial["missed"]) == (1, 1, [])


def test_signature_is_one_line_in_the_agreed_form(tmp_path: Path, suite: Path) -> None:
    scorecard = score_run(write_run(tmp_path / "run", suite, all_right()))
    fields = [field.partition(":")[0] for field in scorecard.signature.split("|")]
    assert fields == [
        "suite",
        "truth",
        "patches",
        "profile",
        "scenarios",
        "repeats",
        "turns",
        "time",
        "forced_final",
        "task",
        "pass",
        "repair",
        "sandbox",
        "interval",
        "resolver",
        "scoring",
        "version",
    ]
    assert scorecard.signature.startswith(f"suite:small@{scorecard.suite.digest[:12]}|truth:")
    assert (
        "|patches:-|profile:itbench-aa|scenarios:3|repeats:1|turns:100|time:1800|forced_final:0|"
        "task:aaaaaaaaaaaa|pass:1.0|repair:1|sandbox:bwrap|" in scorecard.signature
    )


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        (Outcome.NO_DIAGNOSIS, Verdict.FAIL),
        (Outcome.MALFORMED_DIAGNOSIS, Verdict.FAIL),
        (Outcome.REFUSED, Verdict.FAIL),
        (Outcome.TURN_LIMIT, Verdict.RUNTIME_ERROR),
        (Outcome.TIME_LIMIT, Verdict.RUNTIME_ERROR),
        (Outcome.AGENT_ERROR, Verdict.RUNTIME_ERROR),
    ],
)
@pytest.mark.parametrize("scenario_id", [ONE, CALM])
def test_what_the_agent_did_wrong_scores_zero_and_stays_in_the_mean(
    tmp_path: Path, suite: Path, outcome: Outcome, verdict: Verdict, scenario_id: str
) -> None:
    trials = all_right() | {(scenario_id, 1): Trial(None, outcome)}
    scorecard = score_run(write_run(tmp_path / "run", suite, trials))
    assert scorecard.headline.average_precision_at_full_recall == pytest.approx(2 / 3)
    assert trial_of(scorecard, scenario_id).verdict is verdict
    assert trial_of(scorecard, scenario_id).precision_at_full_recall == 0.0
    assert scorecard.outcomes[outcome.value] == 1
    assert scorecard.complete


def test_our_own_failures_and_pending_trials_take_the_headline_away(tmp_path: Path, suite: Path) -> None:
    # scenario-001: 1 and a harness error; scenario-002: 1 and pending; scenario-003: 1 and 1.
    trials = all_right(2) | {(ONE, 2): Trial(None, Outcome.HARNESS_ERROR)}
    del trials[TWO, 2]
    scorecard = score_run(write_run(tmp_path / "run", suite, trials, repeats=2))
    assert scorecard.headline.average_precision_at_full_recall is None
    # As 0: (1/2 + 1/2 + 1)/3; as 1: 1.
    assert scorecard.headline.bounds == pytest.approx((2 / 3, 1.0))
    assert (scorecard.complete, scorecard.exit_code) == (False, 3)
    assert set(scorecard.metrics.values()) == {None}
    assert set(scorecard.profiles.values()) == {None}
    assert (scorecard.headline.interval, scorecard.headline.level) == (None, None)
    assert scorecard.headline.method.endswith("no interval while trials are unscored")
    assert (scorecard.variance, scorecard.groups, scorecard.metric_intervals) == (None, (), {})
    assert scorecard.baselines.lift_over_blind is None
    assert scorecard.scenarios[0].score is None
    assert scorecard.scenarios[0].bounds == (0.5, 1.0)
    assert scorecard.scenarios[2].score == 1.0
    assert trial_of(scorecard, ONE, 2).verdict is Verdict.RUNTIME_ERROR
    assert trial_of(scorecard, TWO, 2).verdict is None
    assert (scorecard.outcomes["harness_error"], scorecard.outcomes["pending"]) == (1, 1)
    assert scorecard.baselines.lift is None
    assert scorecard.baselines.blind is not None


def test_absent_trials_of_an_import_are_no_diagnosis_and_the_headline_stands(
    tmp_path: Path, suite: Path
) -> None:
    trials = {(ONE, 1): Trial([CART], outputs=None)}
    run = write_run(
        tmp_path / "run", suite, trials, imported=True, sandbox=SandboxInfo(backend=None, agent_process=None)
    )
    scorecard = score_run(run)
    assert scorecard.headline.average_precision_at_full_recall == pytest.approx(1 / 3)
    assert scorecard.outcomes["no_diagnosis"] == 2
    assert trial_of(scorecard, ONE).verdict is Verdict.UNSAFE_PASS
    assert trial_of(scorecard, ONE).unsafe_reasons == (UnsafeReason.UNOBSERVED,)
    assert scorecard.unsafe_reasons["unobserved"] == 1
    assert "|sandbox:-|" in scorecard.signature


def test_refused_truth_stays_in_the_denominator_unless_it_is_excluded(tmp_path: Path) -> None:
    suite = write_suite(
        tmp_path, {ONE: truth_of(ONE, ["cart"]), TWO: {**truth_of(TWO, []), "no_fault": False}}
    )
    run = write_run(tmp_path / "run", suite, {(ONE, 1): Trial([CART]), (TWO, 1): Trial([CART])})
    scorecard = score_run(run)
    assert (scorecard.complete, scorecard.exit_code) == (False, 3)
    assert scorecard.headline.bounds == (0.5, 1.0)
    refused = scorecard.scenarios[1]
    assert refused.truth_refused is not None
    assert refused.truth_refused.startswith(f"{TWO}.yaml: ")
    assert refused.n_root_causes is None
    assert trial_of(scorecard, TWO).verdict is None
    assert (scorecard.baselines.blind, scorecard.baselines.empty) == (None, None)

    without = score_run(run, exclude=["2"])
    assert without.headline.average_precision_at_full_recall == 1.0
    assert without.excluded == (TWO,)
    assert f"|scenarios:1|exclude:{TWO}|" in without.signature
    assert without.subset is None


def test_missing_truth_is_a_refused_one(tmp_path: Path, suite: Path) -> None:
    (tmp_path / "ground_truth" / "small" / f"{CALM}.yaml").unlink()
    scorecard = score_run(write_run(tmp_path / "run", suite, all_right()))
    assert scorecard.headline.bounds == pytest.approx((2 / 3, 1.0))


def test_subset_run_has_a_number_but_no_headline(tmp_path: Path, suite: Path) -> None:
    trials = {(ONE, 1): Trial([CART]), (CALM, 1): Trial([CART])}
    scorecard = score_run(write_run(tmp_path / "run", suite, trials, plan=[CALM, ONE]))
    assert scorecard.headline.average_precision_at_full_recall is None
    assert scorecard.subset is not None
    assert scorecard.subset.average_precision_at_full_recall == 0.5
    assert scorecard.subset.scenario_ids == (ONE, CALM)
    assert f"|scenarios:2({ONE},{CALM})|" in scorecard.signature
    assert (scorecard.complete, scorecard.exit_code) == (True, 0)


def test_splits_weigh_equally_and_each_stands_beside_the_headline(tmp_path: Path) -> None:
    suite = write_suite(
        tmp_path,
        {one: truth_of(one, ["cart"]) for one in (ONE, TWO, CALM)},
        splits={"public": [ONE, TWO], "private": [CALM]},
    )
    trials = {(ONE, 1): Trial([CART]), (TWO, 1): Trial([FRONTEND]), (CALM, 1): Trial([CART])}
    run = write_run(tmp_path / "run", suite, trials)
    scorecard = score_run(run)
    # public (1 + 0)/2, private 1; their mean 3/4 where the plain mean would be 2/3.
    assert scorecard.splits is not None
    assert {name: split.score for name, split in scorecard.splits.items()} == {"public": 0.5, "private": 1.0}
    assert scorecard.headline.average_precision_at_full_recall == 0.75
    assert "split" in scorecard.headline.method
    left = score_run(run, exclude=[CALM])
    assert left.splits is not None
    assert list(left.splits) == ["public"]
    assert left.number == 0.5


def test_both_profiles_come_out_of_one_pass(tmp_path: Path, suite: Path) -> None:
    pod = "shop/Pod/cart-5d8f7c9b6d-x2v5z"
    trials = all_right() | {(ONE, 1): Trial([CART, pod])}
    run = write_run(tmp_path / "run", suite, trials)
    scorecard = score_run(run)
    # itbench-aa: the Pod is the same workload, a duplicate: 1/1.
    # strict: a second object of the set is wrong: 1/2.
    assert scorecard.profiles == pytest.approx({"itbench-aa": 1.0, "strict": (1 / 2 + 1 + 1) / 3})
    assert [entity.class_ for entity in trial_of(scorecard, ONE).entities] == ["root_cause", "duplicate"]
    assert (trial_of(scorecard, ONE).precision_at_full_recall, trial_of(scorecard, ONE).strict) == (1.0, 0.5)
    strict = score_run(run, profile=Profile.STRICT)
    assert strict.number == pytest.approx(2.5 / 3)
    assert strict.profiles == scorecard.profiles
    assert "|profile:strict|" in strict.signature
    assert trial_of(strict, ONE).verdict is Verdict.FAIL


def test_constant_baseline_is_chosen_without_the_scenario_it_is_scored_on(tmp_path: Path) -> None:
    ids = [f"scenario-00{k}" for k in range(1, 5)]
    roots = {ids[0]: ["cart"], ids[1]: ["cart"], ids[2]: ["valkey"], ids[3]: []}
    suite = write_suite(tmp_path, {one: truth_of(one, names) for one, names in roots.items()})
    run = write_run(tmp_path / "run", suite, {(one, 1): Trial([]) for one in ids})
    baselines = score_run(run).baselines
    # Without 001 (or 002): cart and valkey hit one each, so the first by name. Without 003 (or 004): cart.
    # So it hits in 001 and 002 and misses in 003; where nothing is wrong a name is wrong: 2/4.
    chosen = {one: name and name.rsplit("/", 1)[1] for one, name in baselines.constant.entities.items()}
    assert {one: name and name.split("-")[0] for one, name in chosen.items()} == dict.fromkeys(ids, "cart")
    assert baselines.constant.score == 0.5
    assert baselines.empty == 0.25
    assert baselines.blind == 0.5
    # The run itself is the empty answer: 1/4.
    assert baselines.lift == pytest.approx(0.25 - 0.5)


def test_constant_baseline_of_a_lone_scenario_has_nothing_to_learn_from(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, {ONE: truth_of(ONE, ["cart"])})
    baselines = score_run(write_run(tmp_path / "run", suite, {(ONE, 1): Trial([CART])})).baselines
    assert baselines.constant.entities == {ONE: None}
    assert (baselines.constant.score, baselines.blind, baselines.lift) == (0.0, 0.0, 1.0)


def test_suite_of_truths_alone_is_scored_and_says_so(tmp_path: Path) -> None:
    truths = {ONE: truth_of(ONE, ["cart"], ["frontend"]), TWO: truth_of(TWO, ["cart"])}
    suite = write_suite(tmp_path, truths, with_snapshots=False)
    run = write_run(tmp_path / "run", suite, {(ONE, 1): Trial([CART, FRONTEND], outputs=None)}, imported=True)
    scorecard = score_run(run)
    assert scorecard.inventory == "none"
    assert scorecard.number == 0.25
    assert scorecard.baselines.constant.score == 1.0


def test_baseline_runs_beside_the_agent_are_scored_too(tmp_path: Path, suite: Path) -> None:
    run = write_run(tmp_path / "run", suite, all_right(2), repeats=2)
    wrong = {(one, 1): Trial([FRONTEND]) for one in (ONE, TWO, CALM)}
    write_run(run / "baselines" / "loudest", suite, wrong, agent="baseline:loudest")
    nothing = {(one, 1): Trial([]) for one in (ONE, TWO, CALM)}
    write_run(run / "baselines" / "empty", suite, nothing, agent="baseline:empty")
    scorecard = score_run(run)
    assert [(one.name, one.score, one.n_repeats) for one in scorecard.baselines.agents] == [
        ("baseline:empty", pytest.approx(1 / 3), 1),
        ("baseline:loudest", 0.0, 1),
    ]
    assert scorecard.baselines.agents[0].scenarios == {ONE: 0.0, TWO: 0.0, CALM: 1.0}
    assert (run / "baselines" / "loudest" / "scorecard.json").is_file()
    assert scorecard.notes == ()


def test_damaged_baseline_run_becomes_a_note_and_the_score_stands(tmp_path: Path, suite: Path) -> None:
    run = write_run(tmp_path / "run", suite, all_right())
    other = write_run(run / "baselines" / "empty", suite, all_right(), agent="baseline:empty")
    (other / "trials" / ONE / "1" / "diagnosis.json").unlink()
    scorecard = score_run(run)
    assert scorecard.number == 1.0
    assert scorecard.baselines.agents == ()
    assert len(scorecard.notes) == 1
    assert scorecard.notes[0].startswith("The baseline run baselines/empty is left out: ")
    assert str(tmp_path) not in scorecard.notes[0]
