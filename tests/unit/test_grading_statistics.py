"""Intervals, variance and groups of a scorecard, against arithmetic written out and scipy."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import call
from scipy import stats
from unit.sample_runs import Trial, truth_of, write_run, write_suite

import scoring
from diagnose_bench.errors import UsageError
from diagnose_bench.grading import score_run
from diagnose_bench.grading_traits import family_units, only_family
from diagnose_bench.outcome import IntervalMethod, Outcome
from diagnose_bench.scorecard import Scorecard
from diagnose_bench.scorecard_statistics import GroupTable, Statistic
from diagnose_bench.signature import parse_signature

CART, CHECKOUT, FRONTEND = (f"shop/Deployment/{name}" for name in ("cart", "checkout", "frontend"))
ANSWERS: dict[float, list[str]] = {1.0: [CART], 0.5: [CART, FRONTEND], 0.0: [FRONTEND]}


def scored(
    root: Path,
    rows: Sequence[Sequence[float]],
    *,
    families: Sequence[str | None] = (),
    difficulties: Sequence[int | None] = (),
    splits: Mapping[str, Sequence[str]] | None = None,
    plan: Sequence[str] | None = None,
    **options: Any,
) -> Scorecard:
    """A run whose trials have the scores given; one row per scenario, each with the root cause cart."""
    truths = {}
    for index in range(len(rows)):
        truth = truth_of(scenario(index), ["cart"], ["frontend"])
        if families and families[index] is not None:
            truth["family"] = families[index]
        if difficulties and difficulties[index] is not None:
            truth["difficulty"] = difficulties[index]
        truths[scenario(index)] = truth
    suite = write_suite(root, truths, splits=splits, with_snapshots=False)
    trials = {
        (scenario(index), place + 1): Trial(ANSWERS[score])
        for index, row in enumerate(rows)
        for place, score in enumerate(row)
        if plan is None or scenario(index) in plan
    }
    run = write_run(root / "run", suite, trials, repeats=len(rows[0]), plan=plan)
    return score_run(run, **options)


def scenario(index: int) -> str:
    return f"scenario-{index + 1:03d}"


def ends(scorecard: Scorecard) -> tuple[float, float]:
    assert scorecard.interval is not None
    return scorecard.interval


def table_of(scorecard: Scorecard, by: str) -> GroupTable:
    return next(table for table in scorecard.groups if table.by == by)


def jeffreys(n_right: int, n: int) -> tuple[float, float]:
    law = stats.beta(n_right + 0.5, n - n_right + 0.5)
    return float(law.ppf(0.025)), float(law.ppf(0.975))


def test_interval_methods_are_those_of_the_core() -> None:
    assert [method.value for method in IntervalMethod] == [method.value for method in scoring.Method]


def test_default_interval_of_all_or_nothing_scores_is_that_of_jeffreys(tmp_path: Path) -> None:
    scorecard = scored(tmp_path, [[1.0], [1.0], [0.0], [1.0], [0.0]])
    assert scorecard.number == pytest.approx(3 / 5)
    assert ends(scorecard) == pytest.approx(jeffreys(3, 5), abs=1e-9)
    assert scorecard.headline.level == 0.95
    assert "|interval:half-atom|" in scorecard.signature
    # The rates are the same 0/1 sample here, and so is the strict profile.
    for statistic in (
        scorecard.metric_intervals["full_recall_rate"],
        scorecard.metric_intervals["exact_rate"],
        scorecard.profile_intervals["strict"],
    ):
        assert statistic.value == pytest.approx(3 / 5)
        assert statistic.interval == pytest.approx(jeffreys(3, 5), abs=1e-9)
        assert (statistic.unit, statistic.n) == ("scenario", 5)


def test_t_interval_is_the_one_of_the_textbook(tmp_path: Path) -> None:
    scorecard = scored(tmp_path, [[1.0, 0.5], [0.5, 0.0], [0.5, 0.5], [0.0, 1.0]], interval="t")
    # Scenario means 3/4, 1/4, 1/2, 1/2; their mean is 1/2, their squared distances sum to 2/16, so the sample
    # variance is 1/24, the standard error sqrt(1/96). t(.975; 3) = 3.182446305284263.
    reach = 3.182446305284263 * math.sqrt(1 / 96)
    assert ends(scorecard) == pytest.approx((0.5 - reach, 0.5 + reach), abs=1e-12)
    assert scorecard.variance is not None
    assert scorecard.variance.generalise.value == pytest.approx(math.sqrt(1 / 96))
    assert "Student's t" in scorecard.headline.method
    assert "|interval:t|" in scorecard.signature


def test_strict_interval_of_all_or_nothing_scores_is_that_of_clopper_and_pearson(tmp_path: Path) -> None:
    scorecard = scored(tmp_path, [[1.0], [1.0], [0.0], [1.0]], interval="strict")
    expected = stats.beta(3, 2).ppf(0.025), stats.beta(4, 1).ppf(0.975)
    assert ends(scorecard) == pytest.approx(expected, abs=1e-9)


def test_splits_are_combined_by_mover(tmp_path: Path) -> None:
    splits = {"private": [scenario(0), scenario(1), scenario(2)], "public": [scenario(3), scenario(4)]}
    scorecard = scored(tmp_path, [[1.0], [0.0], [0.0], [1.0], [1.0]], splits=splits)
    # Means 1/3 and 1; the distances of each split's own ends add in squares, over two splits. A mean of 1
    # lies above its own interval, so its distance on that side is 0.
    (low_a, high_a), (low_b, _) = jeffreys(1, 3), jeffreys(2, 2)
    assert scorecard.number == pytest.approx(2 / 3)
    low = 2 / 3 - math.hypot(1 / 3 - low_a, 1 - low_b) / 2
    assert ends(scorecard) == pytest.approx((low, 2 / 3 + (high_a - 1 / 3) / 2), abs=1e-9)
    assert scorecard.splits is not None
    assert scorecard.splits["private"].interval == pytest.approx((low_a, high_a), abs=1e-9)
    assert "mean of 2 split means, over 5 scenarios" in scorecard.headline.method
    # The rates are plain means over the five scenarios, and so are their intervals.
    assert scorecard.metric_intervals["exact_rate"].interval == pytest.approx(jeffreys(3, 5), abs=1e-9)


@pytest.mark.parametrize("rows", [[[1.0]], [[0.0], [0.0]], [[1.0, 1.0], [1.0, 1.0]], [[0.5, 0.5]]])
@pytest.mark.parametrize("method", list(IntervalMethod))
def test_no_interval_has_zero_width(tmp_path: Path, rows: list[list[float]], method: IntervalMethod) -> None:
    low, high = ends(scored(tmp_path, rows, interval=method))
    assert 0.0 <= low < high <= 1.0
    assert high - low > 0.2


def test_bootstrap_is_signed_with_its_seed_and_repeats_itself(tmp_path: Path) -> None:
    rows = [[1.0], [0.5], [0.0], [1.0], [0.5], [0.0], [0.0]]
    first = scored(tmp_path, rows, interval="bootstrap", seed=7)
    fields = parse_signature(first.signature)
    assert (fields["interval"], fields["bs"], fields["seed"]) == ("bootstrap", "10000", "7")
    assert first.headline.method.endswith("10000 resamples, seed 7; unit: scenario, n = 7")
    data = (tmp_path / "run" / "scorecard.json").read_bytes()
    score_run(tmp_path / "run", interval="bootstrap", seed=7)
    assert (tmp_path / "run" / "scorecard.json").read_bytes() == data
    other = score_run(tmp_path / "run", interval="bootstrap")
    assert "|bs:10000|seed:0|" in other.signature
    low, high = ends(first)
    assert low < 3 / 7 < high


def test_seed_belongs_to_the_bootstrap_alone(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--seed: the interval half-atom draws nothing"):
        scored(tmp_path, [[1.0]], seed=1)
    with pytest.raises(UsageError, match="must be 0 or more"):
        score_run(tmp_path / "run", interval="bootstrap", seed=-1)
    with pytest.raises(UsageError, match="no interval method 'wald'"):
        score_run(tmp_path / "run", interval="wald")
    assert not (tmp_path / "run" / "scorecard.json").exists()


def test_bootstrap_of_families_in_several_splits_is_refused_with_a_way_out(tmp_path: Path) -> None:
    splits = {"a": [scenario(0), scenario(1)], "b": [scenario(2), scenario(3)]}
    options: dict[str, Any] = {"families": ["x", "y", "x", "z"], "splits": splits}
    with pytest.raises(UsageError, match=r"--interval bootstrap: .*use half-atom or t"):
        scored(tmp_path, [[1.0], [0.0], [1.0], [0.5]], interval="bootstrap", **options)


def test_families_that_hold_several_scenarios_are_the_units(tmp_path: Path) -> None:
    scorecard = scored(tmp_path, [[1.0], [1.0], [0.0], [1.0]], families=["a", "a", "b", None], interval="t")
    # Units a (1, two scenarios), b (0) and the one without a family (1). Influence of each: sizes 3/2, 3/4,
    # 3/4 times the distance from 3/4, that is 3/8, -9/16, 3/16; squared error (36 + 81 + 9)/256 / (3 x 2).
    error = math.sqrt(126 / 256 / 6)
    assert scorecard.variance is not None
    assert scorecard.variance.generalise.value == pytest.approx(error)
    assert (scorecard.variance.generalise.unit, scorecard.variance.generalise.n) == ("family", 3)
    # t(.975; 2) = 4.302652729749464, cut to the bounds of a score.
    assert ends(scorecard) == pytest.approx((max(0.0, 0.75 - 4.302652729749464 * error), 1.0))
    assert scorecard.headline.method.endswith("unit: family, n = 3")


@pytest.mark.parametrize(
    ("families", "labels", "only"),
    [
        (["a", "b", "c"], None, None),
        ([None, None, None], None, None),
        (["a", "a", "a"], None, "a"),
        (["a"], None, None),
        (["a", "b", "a"], [0, 1, 0], None),
        ([None, "a", "a", None], [0, 1, 1, 2], None),
        (["", "a", "a", None], [0, 1, 1, 2], None),
    ],
)
def test_when_families_are_the_units(
    families: list[str | None], labels: list[int] | None, only: str | None
) -> None:
    found = family_units(families)
    assert (None if found is None else found.tolist()) == labels
    assert only_family(families) == only


def test_one_family_alone_says_nothing_about_others_and_the_method_says_so(tmp_path: Path) -> None:
    scorecard = scored(tmp_path, [[1.0], [0.0]], families=["dns", "dns"])
    assert ends(scorecard) == pytest.approx(jeffreys(1, 2), abs=1e-9)
    assert "for the mean score over scenarios of the family dns: " in scorecard.headline.method
    assert scorecard.headline.method.endswith("unit: scenario, n = 2")


def test_variance_by_hand(tmp_path: Path) -> None:
    scorecard = scored(tmp_path, [[1.0, 1.0], [0.0, 1.0], [0.0, 0.0]])
    variance = scorecard.variance
    assert variance is not None
    # Means 1, 1/2, 0: MSB = 2 x (1/4 + 0 + 1/4) / 2 = 1/2. Squares within 0, 1/2, 0: MSW = 1/6.
    assert variance.within.value == pytest.approx(1 / 6)
    assert variance.between.value == pytest.approx((1 / 2 - 1 / 6) / 2)
    assert variance.icc_1.value == pytest.approx((1 / 2 - 1 / 6) / (1 / 2 + 1 / 6))
    assert variance.icc_k.value == pytest.approx(1 - (1 / 6) / (1 / 2))
    # Other scenarios: sd 1/2 over root 3. These again: root of the mean of s^2 / R over n = (1/4 / 3) / 3.
    assert variance.generalise.value == pytest.approx(0.5 / math.sqrt(3))
    assert variance.rerun.value == pytest.approx(math.sqrt(1 / 36))
    for one in (variance.between, variance.within, variance.icc_1, variance.icc_k, variance.rerun):
        assert one.value is not None
        assert one.interval is not None
        assert one.interval[0] <= one.value <= one.interval[1]
        assert one.level == 0.95


def test_tries_and_flips_by_hand(tmp_path: Path) -> None:
    variance = scored(tmp_path, [[1.0, 0.5, 0.0], [0.0, 0.0, 0.0], [0.5, 0.5, 0.5]]).variance
    assert variance is not None
    # Full recall in 2, 0, 3 of 3 trials. pass@2: 1 - C(1,2)/C(3,2) = 1, 0, 1.
    # pass^2: C(2,2)/C(3,2) = 1/3, 0, 1.
    recall = {one.k: (one.any_passes.value, one.all_pass.value) for one in variance.full_recall.tries}
    assert recall == {
        1: (pytest.approx(5 / 9), pytest.approx(5 / 9)),
        2: (pytest.approx(2 / 3), pytest.approx(4 / 9)),
        3: (pytest.approx(2 / 3), pytest.approx(1 / 3)),
    }
    assert variance.full_recall.flip_share is not None
    assert variance.full_recall.flip_share.value == pytest.approx(1 / 3)
    assert variance.full_recall.flip_share.interval == pytest.approx(jeffreys(1, 3), abs=1e-9)
    # A score of 1 in 1, 0, 0 of 3 trials: pass@3 is 1/3, pass^3 is 0.
    exact = variance.exact.tries[-1]
    assert (exact.k, exact.any_passes.value, exact.all_pass.value) == (3, pytest.approx(1 / 3), 0.0)


def test_tries_stay_few_however_many_repeats(tmp_path: Path) -> None:
    variance = scored(tmp_path, [[1.0] * 25, [0.0] * 25]).variance
    assert variance is not None
    assert [one.k for one in variance.exact.tries] == [*range(1, 11), 25]


def test_what_cannot_be_known_is_null_and_no_nan_reaches_the_file(tmp_path: Path) -> None:
    variance = scored(tmp_path, [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]).variance
    assert variance is not None
    # Nothing varies: 0/0. The agent may be deterministic, so within is 0 but not known to be.
    assert (variance.icc_1.value, variance.icc_1.interval, variance.icc_1.level) == (None, None, None)
    assert variance.icc_k.value is None
    assert variance.generalise.value is None
    assert variance.within.value == 0.0
    assert variance.within.interval is not None
    assert variance.within.interval[1] > 0.0

    def refuse(text: str) -> None:
        raise AssertionError(f"{text} in the file")

    json.loads((tmp_path / "run" / "scorecard.json").read_text(), parse_constant=refuse)


def test_one_repeat_says_nothing_about_repeats(tmp_path: Path) -> None:
    variance = scored(tmp_path, [[1.0], [0.0], [0.5]]).variance
    assert variance is not None
    for one in (variance.between, variance.within, variance.icc_1, variance.icc_k, variance.rerun):
        assert (one.value, one.interval) == (None, None)
    assert variance.generalise.value == pytest.approx(0.5 / math.sqrt(3))
    assert variance.full_recall.flip_share is None


def test_lift_has_its_interval_and_its_share(tmp_path: Path) -> None:
    scorecard = scored(tmp_path, [[1.0], [0.0], [1.0], [0.5]])
    baselines = scorecard.baselines
    # The constant name cart is right everywhere, so blind is 1: nothing is left to earn a share of.
    assert (baselines.blind, baselines.lift) == (1.0, pytest.approx(-3 / 8))
    lift = baselines.lift_over_blind
    assert lift is not None
    assert lift.difference.value == baselines.lift
    assert (lift.share.value, lift.share.interval) == (None, None)
    assert baselines.blind_scenarios == {scenario(index): 1.0 for index in range(4)}


def test_lift_over_a_constant_blind_is_the_headline_shifted(tmp_path: Path) -> None:
    two = {scenario(index): truth_of(scenario(index), ["cart", "valkey"]) for index in range(3)}
    suite = write_suite(tmp_path, two, with_snapshots=False)
    answers = ([CART, "shop/Deployment/valkey"], [CART], [CART])
    trials = {(scenario(index), 1): Trial(answer) for index, answer in enumerate(answers)}
    scorecard = score_run(write_run(tmp_path / "run", suite, trials))
    # One name cannot name two root causes, so blind is 0 everywhere: lift and share are the score itself.
    lift = scorecard.baselines.lift_over_blind
    assert scorecard.baselines.blind == 0.0
    assert lift is not None
    for one in (lift.difference, lift.share):
        assert one.value == pytest.approx(1 / 3)
        assert one.interval == pytest.approx(jeffreys(1, 3), abs=1e-9)


def test_groups_come_from_the_truths(tmp_path: Path) -> None:
    scorecard = scored(
        tmp_path,
        [[1.0, 0.0], [1.0, 1.0], [0.0, 0.5], [0.0, 0.0]],
        families=["b", "b", "a", None],
        difficulties=[4, 2, 2, None],
    )
    assert [table.by for table in scorecard.groups] == ["family", "namespace", "n_root_causes", "difficulty"]
    family = table_of(scorecard, "family")
    assert [(one.name, one.n_scenarios, one.score.value) for one in family.groups] == [
        ("a", 1, 0.25),
        ("b", 2, 0.75),
        (None, 1, 0.0),
    ]
    assert family.groups[1].scenario_ids == (scenario(0), scenario(1))
    assert family.groups[1].score.unit == "scenario"
    assert [one.name for one in table_of(scorecard, "difficulty").groups] == ["2", "4", None]
    (namespace,) = table_of(scorecard, "namespace").groups
    # Families a and b and the scenario without one are the units inside other tables too.
    assert (namespace.name, namespace.score.unit, namespace.score.n) == ("shop", "family", 3)
    assert namespace.score.interval == pytest.approx(ends(scorecard))
    assert [(one.family, one.namespaces, one.difficulty) for one in scorecard.scenarios][:1] == [
        ("b", ("shop",), 4)
    ]


def test_another_family_is_predicted_from_three_or_more(tmp_path: Path) -> None:
    rows = [[1.0], [0.5], [0.0], [0.5], [0.0], [0.0]]
    scorecard = scored(tmp_path, rows, families=["a", "a", "b", "b", "c", "c"])
    found = table_of(scorecard, "family").prediction
    assert found is not None
    assert (found.n_groups, found.n_scenarios, found.level) == (3, 6, 0.95)
    # Means 3/4, 1/4, 0, each of two; pooled variance (1/8 + 1/8 + 0)/3 = 1/12, so 1/24 of a mean. Q = 24 x
    # (25 + 1 + 16)/144 = 7, so tau^2 = (7 - 2)/48. Weights are equal: mean 1/3, and the error of another
    # group has the square tau^2 + (1/24 + tau^2)/3.
    tau2 = 5 / 48
    reach = 12.706204736174694 * math.sqrt(tau2 + (1 / 24 + tau2) / 3)
    assert found.mean == pytest.approx(1 / 3)
    assert found.between_sd == pytest.approx(math.sqrt(tau2))
    assert reach > 1
    assert found.interval == (0.0, 1.0)
    assert table_of(scorecard, "n_root_causes").prediction is None


def test_no_fault_and_several_namespaces_are_groups_of_their_own(tmp_path: Path) -> None:
    wide = truth_of(scenario(0), ["cart"])
    wide["groups"].append({"id": "dns", "entities": ["kube-system/Deployment/coredns"], "root_cause": True})
    node = truth_of(scenario(1), [])
    node["groups"] = [{"id": "node", "entities": ["Node/worker-1"], "root_cause": True}]
    node["no_fault"] = False
    truths = {scenario(0): wide, scenario(1): node, scenario(2): truth_of(scenario(2), [])}
    suite = write_suite(tmp_path, truths, with_snapshots=False)
    run = write_run(tmp_path / "run", suite, {(one, 1): Trial([]) for one in truths})
    scorecard = score_run(run)
    assert [one.name for one in table_of(scorecard, "namespace").groups] == [
        "cluster-scoped",
        "kube-system + shop",
        "no fault",
    ]
    assert [one.name for one in table_of(scorecard, "n_root_causes").groups] == ["0", "1", "2"]
    assert [table.by for table in scorecard.groups] == ["namespace", "n_root_causes"]


def test_subset_has_an_interval_and_no_headline(tmp_path: Path) -> None:
    scorecard = scored(tmp_path, [[1.0], [0.0], [1.0]], plan=[scenario(0), scenario(1)])
    assert (scorecard.headline.interval, scorecard.headline.level) == (None, None)
    assert scorecard.headline.method == "a subset of the suite has no headline"
    assert scorecard.subset is not None
    assert scorecard.subset.interval == pytest.approx(jeffreys(1, 2), abs=1e-9)
    assert scorecard.subset.method.startswith("mean over 2 scenarios of the mean over 1 planned repeat; ")
    assert ends(scorecard) == scorecard.subset.interval


def test_baseline_run_beside_the_agent_has_its_interval(tmp_path: Path) -> None:
    truths = {scenario(index): truth_of(scenario(index), ["cart"]) for index in range(4)}
    suite = write_suite(tmp_path, truths, with_snapshots=False)
    right = {(one, 1): Trial([CART]) for one in truths}
    run = write_run(tmp_path / "run", suite, right)
    write_run(
        run / "baselines" / "loudest", suite, right | {(scenario(0), 1): Trial([])}, agent="baseline:loudest"
    )
    (baseline,) = score_run(run, interval="t").baselines.agents
    # Scores 0, 1, 1, 1: mean 3/4, error sqrt(3/4 / 3 / 4) = 1/4, t(.975; 3) = 3.1824; cut at 1.
    assert baseline.interval == pytest.approx((max(0.0, 3 / 4 - 3.182446305284263 / 4), 1.0))
    assert baseline.lift_interval is not None


def test_every_statistic_says_what_it_is_about(tmp_path: Path) -> None:
    scorecard = scored(tmp_path, [[1.0, 0.5], [0.0, 0.0]], families=["a", "b"])

    def check(value: Any) -> None:
        if isinstance(value, Statistic):
            assert value.estimand
            assert value.unit in ("scenario", "family")
            assert value.method
            assert (value.interval is None) == (value.level is None)
        elif isinstance(value, Mapping):
            for one in value.values():
                check(one)
        elif isinstance(value, tuple):
            for one in value:
                check(one)
        elif hasattr(type(value), "model_fields"):
            for name in type(value).model_fields:
                check(getattr(value, name))

    check(scorecard)


def test_failure_of_ours_takes_every_interval_away(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, {scenario(0): truth_of(scenario(0), ["cart"])}, with_snapshots=False)
    run = write_run(tmp_path / "run", suite, {(scenario(0), 1): Trial(None, Outcome.HARNESS_ERROR)})
    scorecard = score_run(run)
    assert (scorecard.interval, scorecard.variance, scorecard.groups) == (None, None, ())
    assert scorecard.profile_intervals == {}
    assert scorecard.baselines.lift_over_blind is None


def test_score_takes_the_method_and_its_seed_on_the_command_line(tmp_path: Path) -> None:
    scored(tmp_path, [[1.0], [0.0], [0.5]])
    run = str(tmp_path / "run")
    called = call("score", run, "--interval", "bootstrap", "--seed", "3", "--format", "json")
    assert called.code == 0
    assert "|interval:bootstrap|bs:10000|seed:3|" in called.json()["signature"]
    assert (
        "--seed: the interval t draws nothing"
        in call("score", run, "--interval", "t", "--seed", "3").refused()
    )
    assert "half-atom" in call("score", run, "--interval", "wald").refused()
