"""Comparisons against written-out arithmetic and scipy."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from unit.scored_runs import SCORES, ids_of, scored, suite_of

from diagnose_bench.bulk import score_file
from diagnose_bench.comparison import ComparedPair, Comparison, Decision, compare_runs
from diagnose_bench.comparison_false_alarms import false_alarms
from diagnose_bench.comparison_scenarios import Blamed, Change
from diagnose_bench.comparison_settings import Settings, fewest_units
from diagnose_bench.comparison_text import comparison_text
from diagnose_bench.errors import IncompleteRunError, RunError, UsageError
from diagnose_bench.outcome import Profile
from diagnose_bench.planning import plan_design
from diagnose_bench.planning_request import PlanRequest
from diagnose_bench.scorecard import load_scorecard
from diagnose_bench.signature import parse_signature

BEFORE = [[1, 1], [1, 0.5], [1, 1], [0.5, 0.5], [1, 0], [1, 1], [0, 0], [1, 0.5]]
AFTER = [[1, 0], [0.5, 0.5], [1, 1], [0, 0.5], [0, 0], [0.5, 1], [0, 0.5], [0, 0]]


def two(root: Path, before: Any, after: Any, **options: Any) -> tuple[Path, Path]:
    suite = suite_of(root, len(before), options.pop("families", None), splits=options.pop("splits", None))
    return scored(root / "before", suite, before), scored(root / "after", suite, after, **options)


def only(comparison: Comparison) -> ComparedPair:
    (pair,) = comparison.pairs
    return pair


def test_difference_interval_and_p_against_scipy(tmp_path: Path) -> None:
    pair = only(compare_runs(two(tmp_path, BEFORE, AFTER)))
    before, after = np.mean(BEFORE, axis=1), np.mean(AFTER, axis=1)
    assert pair.difference.value == pytest.approx(float(np.mean(after - before)))
    expected = stats.ttest_rel(after, before).confidence_interval(0.95)
    assert pair.difference.interval == pytest.approx((expected.low, expected.high))
    flips = stats.permutation_test(
        (after - before,), np.sum, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
    )
    assert pair.p_value == pytest.approx(flips.pvalue)
    assert pair.p_adjusted == pair.p_value
    error = np.std(after - before, ddof=1) / np.sqrt(8)
    assert pair.minimum_detectable == pytest.approx((stats.t.ppf(0.975, 7) + stats.t.ppf(0.8, 7)) * error)


def test_significant_loss_is_a_regression(tmp_path: Path) -> None:
    comparison = compare_runs(two(tmp_path, [[1]] * 8, [[0]] * 7 + [[0.5]]))
    # All eight signs agree: two of 2^8 patterns are as extreme.
    assert only(comparison).p_value == pytest.approx(2 / 2**8)
    assert only(comparison).decision is Decision.REGRESSION
    assert comparison.exit_code() == comparison.exit_code(undecided_ok=True) == 1
    assert "significant regression" in comparison_text(comparison)


def test_significant_gain_is_an_improvement(tmp_path: Path) -> None:
    comparison = compare_runs(two(tmp_path, [[0]] * 8, [[1]] * 8))
    assert only(comparison).decision is Decision.IMPROVEMENT
    assert comparison.exit_code() == 0


def test_all_differences_equal_never_give_a_point(tmp_path: Path) -> None:
    pair = only(compare_runs(two(tmp_path, [[0]] * 8, [[1]] * 8)))
    assert pair.difference.interval is not None
    low, high = pair.difference.interval
    assert low < 0.95
    assert high <= 1.0
    assert "half atom instead" in pair.difference.method
    assert np.isnan(pair.minimum_detectable)


def test_no_difference_is_decided_only_where_the_margin_is_ruled_out(tmp_path: Path) -> None:
    runs = two(tmp_path, BEFORE, BEFORE)
    undecided = compare_runs(runs)
    assert only(undecided).decision is Decision.UNDECIDED
    assert undecided.exit_code() == 3
    assert undecided.exit_code(undecided_ok=True) == 0
    assert undecided.to_dict()["not_decidable"] == "not decidable with 8 scenarios x 2 repeats"
    assert "not decidable with 8 scenarios x 2 repeats" in comparison_text(undecided)
    wide = compare_runs(runs, settings=Settings(margin=0.5))
    assert only(wide).decision is Decision.NOT_WORSE
    assert wide.exit_code() == 0
    assert wide.to_dict()["not_decidable"] is None


def test_run_against_itself_has_nothing_to_decide(tmp_path: Path) -> None:
    before, _ = two(tmp_path, BEFORE, AFTER)
    comparison = compare_runs([before, before])
    assert only(comparison).decision is Decision.SAME_RUN
    assert comparison.exit_code() == 0
    assert len(set(comparison.paired.labels)) == 2


def test_few_scenarios_that_differ_are_named_as_the_reason(tmp_path: Path) -> None:
    comparison = compare_runs(two(tmp_path, [[1]] * 8, [[1]] * 6 + [[0]] * 2))
    assert only(comparison).n_differing == 2
    # Two signs: all four patterns, of which two are as extreme.
    assert only(comparison).p_value == pytest.approx(0.5)
    assert "Only 2 scenarios differ, so no p-value below 0.5 is possible." in comparison_text(comparison)


def test_fewest_units_are_those_whose_signs_can_be_significant() -> None:
    # 2^(1-5) = .0625 > .05 >= 2^(1-6)
    assert fewest_units(0.95) == 6
    assert fewest_units(0.9) == 5
    assert fewest_units(0.5) == 2


def test_several_candidates_are_adjusted_by_holm(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, 8)
    tables = {"base": [[1]] * 8, "same": [[1]] * 7 + [[0]], "bad": [[0]] * 8, "worse": [[0.5]] * 7 + [[1]]}
    runs = [scored(tmp_path / name, suite, table) for name, table in tables.items()]
    comparison = compare_runs(runs)
    p = [pair.p_value for pair in comparison.pairs]
    assert p == pytest.approx([1.0, 2 / 2**8, 2 / 2**7])
    # Sorted: 1/128 x 3, then 1/64 x 2 (not below the one before), then 1 x 1.
    assert [pair.p_adjusted for pair in comparison.pairs] == pytest.approx([1.0, 3 / 128, 2 / 64])
    assert comparison.exit_code() == 1
    assert [pair.baseline for pair in comparison.pairs] == ["base"] * 3


def test_all_pairs_give_groups_instead_of_ranks(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, 8)
    tables = {"good": [[1]] * 8, "good-too": [[1]] * 7 + [[0.5]], "bad": [[0]] * 8}
    runs = [scored(tmp_path / name, suite, table) for name, table in tables.items()]
    comparison = compare_runs(runs, all_pairs=True)
    assert comparison.groups == (("good", "good-too"), ("bad",))
    assert [(pair.candidate, pair.baseline) for pair in comparison.pairs] == [
        ("good", "good-too"),
        ("good", "bad"),
        ("good-too", "bad"),
    ]
    assert comparison.exit_code() == 0
    assert comparison.to_dict()["baseline"] is None
    assert "  1. good, good-too" in comparison_text(comparison)


def test_all_pairs_without_any_difference_are_not_decidable(tmp_path: Path) -> None:
    comparison = compare_runs(two(tmp_path, BEFORE, BEFORE), all_pairs=True)
    assert comparison.exit_code() == 3
    assert "No pair can be told apart: not decidable" in comparison_text(comparison)


def test_random_signs_are_reproducible_and_name_their_seed(tmp_path: Path) -> None:
    before = [[1]] * 12 + [[0]] * 11
    after = [[0]] * 12 + [[1]] * 11
    runs = two(tmp_path, before, after)
    first, again, other = (compare_runs(runs, settings=Settings(seed=seed)) for seed in (1, 1, 2))
    assert json.dumps(first.to_dict()) == json.dumps(again.to_dict())
    assert first.to_dict()["settings"]["seed"] == 1
    assert "seed 1" in only(first).test
    assert "seed 2" in only(other).test
    # The sum is one sign of 23 equal ones, so every pattern is as extreme.
    assert only(first).p_value == 1.0


def test_scenarios_are_told_apart_by_change_verdict_and_blame(tmp_path: Path) -> None:
    before = [[1, 1], [0, 0], [1, 0.5]]
    after = [[1, 0], [1, 0], [0.5, 1]]
    first, second = two(tmp_path, before, after, wrong="shop/Deployment/valkey")
    changes = {one.scenario_id: one for one in only(compare_runs([first, second])).scenarios}
    one, other, third = (changes[scenario_id] for scenario_id in ids_of(3))
    assert (one.change, other.change, third.change) == (Change.REGRESSED, Change.IMPROVED, Change.UNCHANGED)
    assert (one.baseline_verdicts, one.candidate_verdicts) == ({"safe_pass": 2}, {"safe_pass": 1, "fail": 1})
    assert (one.n_verdicts_flipped, third.n_verdicts_flipped) == (1, 0)
    assert one.newly_blamed == (Blamed("shop/Deployment/valkey", "unrelated", 1),)
    assert other.no_longer_blamed == (Blamed("shop/Deployment/frontend", "unrelated", 2),)
    text = comparison_text(compare_runs([first, second]))
    assert "1 regressed, 1 improved, 0 missing, 1 unchanged" in text
    assert "shop/Deployment/valkey (unrelated, 1x)" in text


@pytest.mark.parametrize("field", ["repeats", "profile"])
def test_other_settings_are_refused_with_field_and_both_values(tmp_path: Path, field: str) -> None:
    suite = suite_of(tmp_path, 6)
    before = scored(tmp_path / "before", suite, [[1, 1]] * 6)
    options = {"profile": Profile.STRICT} if field == "profile" else {}
    after = scored(tmp_path / "after", suite, [[1] if field == "repeats" else [1, 1]] * 6, **options)
    values = ("2", "1") if field == "repeats" else ("itbench-aa", "strict")
    with pytest.raises(UsageError) as caught:
        compare_runs([before, after])
    message = str(caught.value)
    assert f"differ in {field}" in message
    assert f"{field}: {values[0]} in {before}" in message
    assert f"{field}: {values[1]} in {after}" in message
    assert f"--allow {field}" in message
    allowed = compare_runs([before, after], allow=[field])
    assert f"Allowed to differ: {field} ({values[0]} / {values[1]})" in comparison_text(allowed)
    assert allowed.to_dict()["allowed"] == [{"field": field, "values": list(values)}]


def test_version_may_differ_and_is_printed(tmp_path: Path) -> None:
    before, after = two(tmp_path, BEFORE, AFTER)
    card = after / "scorecard.json"
    version = parse_signature(json.loads(card.read_text())["signature"])["version"]
    card.write_text(card.read_text().replace(f"|version:{version}", "|version:9.9.9"))
    text = comparison_text(compare_runs([before, after]))
    assert f"Scored by different versions: {version} / 9.9.9" in text


def test_unknown_field_to_allow_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--allow colour: the signatures have no such field.*repeats"):
        compare_runs(two(tmp_path, BEFORE, AFTER), allow=["colour"])


def test_missing_scenarios_are_listed_and_left_out(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, 8)
    before = scored(tmp_path / "before", suite, [[1]] * 8)
    after = scored(tmp_path / "after", suite, [[1]] * 7 + [[0]], exclude=["scenario-008"])
    comparison = compare_runs([before, after], allow=["scenarios", "exclude"])
    assert only(comparison).difference.value == 0.0
    assert comparison.to_dict()["missing"] == {"before": [], "after": ["scenario-008"]}
    last = only(comparison).scenarios[-1]
    assert (last.change, last.missing_from, last.baseline, last.candidate) == (
        Change.MISSING,
        "after",
        1.0,
        None,
    )
    assert "Missing from after, so left out of the difference: scenario-008" in comparison_text(comparison)


def test_incomplete_run_is_refused_with_bounds(tmp_path: Path) -> None:
    before, after = two(tmp_path, [[1, 1], [1, 0]], [[None, 1], [0, 0]])
    with pytest.raises(IncompleteRunError) as caught:
        compare_runs([before, after])
    message = str(caught.value)
    assert caught.value.exit_code == 3
    # Before: (1 + .5) / 2 = .75. After: between (.5 + 0) / 2 and (1 + 0) / 2.
    assert "the mean lies between 0.250 and 0.500" in message
    assert "lies between -0.500 and -0.250" in message


def test_splits_weigh_the_same(tmp_path: Path) -> None:
    splits = {"large": ids_of(6), "small": ["scenario-007"]}
    before, after = two(tmp_path, [[0]] * 7, [[0]] * 6 + [[1]], splits=splits)
    # Mean of the split means 0 and 1, not one scenario of seven.
    assert only(compare_runs([before, after])).difference.value == pytest.approx(0.5)


def test_families_are_the_units_and_are_left_out_in_turn(tmp_path: Path) -> None:
    families = ["dns", "dns", "cpu", "cpu", "net", "net"]
    before = [[1], [1], [0], [0], [0], [0]]
    after = [[0], [0], [1], [0], [1], [0]]
    comparison = compare_runs(two(tmp_path, before, after, families=families))
    pair = only(comparison)
    assert (pair.difference.unit, pair.difference.n) == ("family", 3)
    assert comparison.winners is not None
    assert comparison.winners.pooled == ("before", "after")
    rows = {one.family: one for one in comparison.winners.families}
    # Without dns: before 0 of 4, after 2 of 4; on dns itself before has 1, after 0.
    assert (rows["dns"].winner, rows["dns"].best, rows["dns"].regret) == (("after",), ("before",), 1.0)
    # Without cpu: before 2 of 4, after 1 of 4; on cpu after has 1/2.
    assert (rows["cpu"].winner, rows["cpu"].best, rows["cpu"].regret) == (("before",), ("after",), 0.5)
    assert not comparison.winners.holds
    assert pair.families is not None
    assert pair.families.prediction is not None
    assert pair.families.interaction_p_value is not None
    assert "Leave one family out" in comparison_text(comparison)


def test_few_families_can_never_be_told_apart_and_it_says_so(tmp_path: Path) -> None:
    # Ten scenarios that all lose everything, but only two families: 2^(1-2) is the smallest p there is.
    found = compare_runs(two(tmp_path, [[1, 1]] * 10, [[0, 0]] * 10, families=["dns"] * 5 + ["cpu"] * 5))
    pair = only(found)
    text = comparison_text(found)
    assert pair.p_value == 0.5
    assert (pair.decision, found.exit_code()) == (Decision.UNDECIDED, 3)
    assert math.isnan(pair.minimum_detectable)
    assert "with 10 scenarios x 2 repeats in 2 families, which are the independent units" in text
    assert "at least 6 families are needed. Only more families can" in text
    document = found.to_dict()
    assert (document["n_units"], document["unit"], document["fewest_units"]) == (2, "family", 6)
    assert document["comparisons"][0]["minimum_detectable"] is None


def test_few_scenarios_can_never_be_told_apart_and_it_says_so(tmp_path: Path) -> None:
    found = compare_runs(two(tmp_path, [[1, 1]] * 5, [[0, 0]] * 5))
    assert "With 5 scenarios as independent units no difference can ever" in comparison_text(found)
    assert "More scenarios can, not more repeats" in comparison_text(found)


def test_scenarios_without_families_have_no_family_table(tmp_path: Path) -> None:
    comparison = compare_runs(two(tmp_path, BEFORE, AFTER))
    assert comparison.winners is None
    assert only(comparison).families is None


def test_scorecards_alone_can_be_compared(tmp_path: Path) -> None:
    before, after = two(tmp_path, BEFORE, AFTER)
    (tmp_path / "cards").mkdir()
    alone = (before / "scorecard.json").rename(tmp_path / "cards" / "scorecard.json")
    copied = tmp_path / "before.json"
    copied.write_bytes(alone.read_bytes())
    for path in (alone, alone.parent, copied):
        assert compare_runs([path, after]).paired.labels == ("before", "after")


def test_run_without_a_scorecard_says_what_to_do(tmp_path: Path) -> None:
    before, after = two(tmp_path, BEFORE, AFTER)
    (after / "scorecard.json").unlink()
    with pytest.raises(RunError, match="diagnose-bench score"):
        compare_runs([before, after])


def test_one_run_is_not_a_comparison(tmp_path: Path) -> None:
    before, _ = two(tmp_path, BEFORE, AFTER)
    with pytest.raises(UsageError, match="at least two"):
        compare_runs([before])


@pytest.mark.parametrize(
    "choice",
    [{"margin": 0.0}, {"margin": 1.0}, {"level": 1.0}, {"level": 0.1}, {"power": 0.2}, {"seed": -1}],
)
def test_settings_are_checked_at_the_door(choice: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"--{next(iter(choice))}"):
        Settings(**choice)


def test_halves_of_equal_repeats_never_raise_an_alarm(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, 8)
    run = scored(tmp_path / "run", suite, [[1, 1, 1], [0, 0, 0]] * 4)
    report = false_alarms(run, n_draws=50)
    assert report.rate.value == 0.0
    assert (report.n_repeats_each, report.n_draws, report.nominal) == (1, 50, 0.05)
    assert "split at random" in report.text()


def test_one_repeat_cannot_be_split(tmp_path: Path) -> None:
    run = scored(tmp_path / "run", suite_of(tmp_path, 3), [[1], [1], [0]])
    with pytest.raises(UsageError, match="one repeat cannot be split"):
        false_alarms(run)
    with pytest.raises(UsageError, match="--draws"):
        false_alarms(run, n_draws=0)


def bulk_cards(root: Path, tables: dict[str, Any]) -> list[Path]:
    """Scorecards of agents in one file of rows, without lists of trials."""
    n_scenarios = len(next(iter(tables.values())))
    rows = [
        {"agent": agent, "scenario_id": one, "repeat": repeat, "entities": SCORES[score]}
        for agent, table in tables.items()
        for one, scores in zip(ids_of(n_scenarios), table, strict=True)
        for repeat, score in enumerate(scores, start=1)
    ]
    root.mkdir(exist_ok=True)
    file = root / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    suite = suite_of(root, n_scenarios)
    return [agent.path for agent in score_file(file, str(suite), details=False).agents]


def test_cards_without_trials_are_compared_by_scenario_and_say_what_is_missing(
    tmp_path: Path,
) -> None:
    cards = bulk_cards(tmp_path / "bulk", {"after": AFTER, "before": BEFORE})
    found = compare_runs([cards[1], cards[0]])
    expected = only(compare_runs(two(tmp_path / "runs", BEFORE, AFTER)))
    pair = only(found)
    assert (pair.difference, pair.p_value, pair.decision) == (
        expected.difference,
        expected.p_value,
        expected.decision,
    )
    assert [one.change for one in pair.scenarios] == [one.change for one in expected.scenarios]
    assert {one.n_verdicts_flipped for one in pair.scenarios} == {None}
    assert not any(one.newly_blamed or one.no_longer_blamed for one in pair.scenarios)
    assert found.to_dict()["without_trials"] == ["before", "after"]
    assert "flips of verdicts and newly blamed entities are not known" in comparison_text(found)


def test_a_card_without_trials_beside_a_run_blames_nobody_anew(
    tmp_path: Path,
) -> None:
    (card,) = bulk_cards(tmp_path / "bulk", {"before": [[1]] * 8})
    run = scored(tmp_path / "after", suite_of(tmp_path / "again", 8), [[0]] * 8)
    signatures = [parse_signature(load_scorecard(path).signature) for path in (card, run)]
    differing = [name for name in signatures[0] if signatures[0][name] != signatures[1].get(name)]
    found = compare_runs([card, run], allow=differing)
    assert found.to_dict()["without_trials"] == ["before"]
    assert not any(one.newly_blamed for one in only(found).scenarios)
    assert "fail 0 to" not in comparison_text(found)


@pytest.mark.parametrize("ask", [false_alarms, lambda card: plan_design(PlanRequest(between_sd=0.2), [card])])
def test_what_needs_trials_refuses_a_card_without_them(tmp_path: Path, ask: Callable[[Path], object]) -> None:
    (card,) = bulk_cards(tmp_path, {"before": BEFORE})
    with pytest.raises(UsageError, match="lists no trials"):
        ask(card)
