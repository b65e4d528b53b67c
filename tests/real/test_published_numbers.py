"""Published numbers come out of the commands that a user types: import, run, score.

Where a number is not published it is counted here with nothing but ``json``, ``re`` and PyYAML.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from real.published import (
    CONSTANT,
    FLAG_SCENARIOS,
    PATCHES,
    PUBLIC,
    diagnose_bench,
    imported,
    scenario_id,
    scored,
    trial_values,
    write_answers,
)

# --- one constant name on the 40 public scenarios ---


def test_thirteen_scenarios_have_the_flags_as_their_only_root(truths: dict[int, dict[str, Any]]) -> None:
    assert sorted(truths) == list(PUBLIC)
    assert len(PUBLIC) == 40
    roots = {
        number: [group for group in truth["groups"] if group.get("root_cause")]
        for number, truth in truths.items()
    }
    flags = [
        number
        for number, groups in roots.items()
        if [group["kind"] for group in groups] == ["ConfigMap"]
        and re.fullmatch((groups[0].get("filter") or [groups[0].get("name")])[0], "flagd-config")
    ]
    assert sorted(flags) == list(FLAG_SCENARIOS)
    assert len(flags) == 13


def test_one_constant_name_scores_13_of_40_with_scenario_38_patched(
    suites: dict[str, Path], constant_answers: Path, tmp_path: Path
) -> None:
    scorecard = scored(imported(constant_answers, suites["patched"], tmp_path / "run"))
    headline = scorecard["headline"]
    assert headline["average_precision_at_full_recall"] == pytest.approx(13 / 40) == 0.325
    assert (headline["n_scenarios"], headline["n_repeats"], headline["bounds"]) == (40, 1, None)
    assert (scorecard["complete"], scorecard["inventory"], scorecard["subset"]) == (True, "none", None)
    scores = {scenario["scenario_id"]: scenario["score"] for scenario in scorecard["scenarios"]}
    assert scores == {scenario_id(number): float(number in FLAG_SCENARIOS) for number in PUBLIC}
    # An exact name with one root each: nothing depends on the profile or on the order.
    assert scorecard["profiles"] == pytest.approx({"itbench-aa": 13 / 40, "strict": 13 / 40})
    assert scorecard["metrics"] == pytest.approx(dict.fromkeys(scorecard["metrics"], 13 / 40))


def test_patch_of_scenario_38_is_listed_and_in_the_signature(
    suites: dict[str, Path], constant_answers: Path, tmp_path: Path
) -> None:
    scorecard = scored(imported(constant_answers, suites["patched"], tmp_path / "run"))
    written = yaml.safe_load((PATCHES / "ground_truths_evaluations.yaml").read_text())["patches"]
    assert [(patch["scenario_id"], patch["who"], patch["why"]) for patch in scorecard["patches"]] == [
        (patch["scenario_id"], patch["who"], patch["why"]) for patch in written
    ]
    replaced = [
        operation for operation in scorecard["patches"][0]["operations"] if operation.startswith("replace")
    ]
    assert replaced == [f"replace /groups/{place}/filter" for place in (1, 2, 3)]
    assert f"|patches:{scorecard['patches_digest'][:12]}|" in scorecard["signature"]
    assert [
        one["n_root_causes"] for one in scorecard["scenarios"] if one["scenario_id"] == "scenario-038"
    ] == [3]


def test_patch_of_scenario_38_names_the_autoscalers_of_the_later_truth(shared_data: Path) -> None:
    folder = shared_data / "itbench" / "ground_truth" / "itbench_scenarios_archive" / "scenario_38"
    later = yaml.safe_load((folder / "groundtruth.yaml").read_text())["spec"]["entities"]
    names = {entity["metadata"]["name"] for entity in later if entity["kind"] == "HorizontalPodAutoscaler"}
    patch = yaml.safe_load((PATCHES / "ground_truths_evaluations.yaml").read_text())["patches"][0]["patch"]
    assert {operation["value"][0] for operation in patch if operation["op"] == "replace"} == names


def test_patched_scenario_38_wants_its_three_autoscalers_and_nothing_else(
    suites: dict[str, Path], tmp_path: Path
) -> None:
    three = [
        f"otel-demo/HorizontalPodAutoscaler/{name}"
        for name in ("fraud-detection", "frontend", "image-provider")
    ]
    others = ["otel-demo/HorizontalPodAutoscaler/frontend-proxy", "otel-demo/Deployment/frontend"]
    answers = write_answers(
        tmp_path / "answers.jsonl", [(38, 1, three), (38, 2, three[:2]), (38, 3, [*three, *others])]
    )
    scorecard = scored(imported(answers, suites["patched"], tmp_path / "run"))
    values = trial_values(scorecard, "precision_at_full_recall")
    found = [values["scenario-038", repeat] for repeat in (1, 2, 3)]
    # All three; one missed, so 0; all three among five.
    assert found == pytest.approx([1, 0, 3 / 5])


def test_refused_scenario_38_stays_in_the_denominator_unscored(
    suites: dict[str, Path], constant_answers: Path, tmp_path: Path
) -> None:
    scorecard = scored(imported(constant_answers, suites["plain"], tmp_path / "run"), code=3)
    headline = scorecard["headline"]
    assert headline["average_precision_at_full_recall"] is None
    # 38 as 0, and as 1.
    assert headline["bounds"] == pytest.approx([13 / 40, 14 / 40])
    assert (headline["n_scenarios"], scorecard["complete"], scorecard["patches"]) == (40, False, [])
    refused = {
        one["scenario_id"]: one["truth_refused"] for one in scorecard["scenarios"] if one["truth_refused"]
    }
    assert list(refused) == ["scenario-038"]
    assert "scenario-038.yaml: $.groups[1].filter[0]" in refused["scenario-038"]
    assert '"*.*" is no regular expression' in refused["scenario-038"]


def test_excluded_scenario_38_leaves_13_of_39_and_a_mark_in_the_signature(
    suites: dict[str, Path], constant_answers: Path, tmp_path: Path
) -> None:
    run = imported(constant_answers, suites["plain"], tmp_path / "run")
    scorecard = scored(run, "--exclude", "scenario-038")
    assert scorecard["complete"] is True
    assert scorecard["excluded"] == ["scenario-038"]
    assert "scenario-038" not in {one["scenario_id"] for one in scorecard["scenarios"]}
    assert "scenario-038" in scorecard["signature"]
    number = scorecard["headline"]["average_precision_at_full_recall"]
    assert number == pytest.approx(13 / 39)


def test_constant_baseline_of_the_40_is_that_name_and_scores_13_of_40(
    truths: dict[int, dict[str, Any]], suites: dict[str, Path], constant_answers: Path, tmp_path: Path
) -> None:
    # Left out, a flag scenario leaves 12 others with that root, any other scenario leaves 13. No other kind
    # and name (the literal text of a filter) is a root more than twice, so that name is always the best.
    names: Counter[tuple[str, str]] = Counter()
    for truth in truths.values():
        for group in truth["groups"]:
            if group.get("root_cause"):
                pattern = (group.get("filter") or [group.get("name")])[0]
                names[group["kind"], re.sub(r"-\.\*$|\\b$", "", pattern)] += 1
    del names["HorizontalPodAutoscaler", "*.*"]  # three groups of scenario 38
    assert [n_scenarios for _, n_scenarios in names.most_common(2)] == [13, 2]
    assert names["ConfigMap", "flagd-config"] == 13
    scorecard = scored(imported(constant_answers, suites["patched"], tmp_path / "run"))
    baselines = scorecard["baselines"]
    assert baselines["constant"]["entities"] == {scenario_id(number): CONSTANT for number in PUBLIC}
    assert baselines["constant"]["score"] == pytest.approx(13 / 40)
    # None of the 40 is without a fault, so the empty answer never scores; this agent has no lift over blind.
    assert (baselines["empty"], baselines["blind"]) == (0.0, pytest.approx(13 / 40))
    assert baselines["lift"] == pytest.approx(0.0)


def test_constant_baseline_needs_every_truth_or_the_exclusion_of_those_refused(
    suites: dict[str, Path], constant_answers: Path, tmp_path: Path
) -> None:
    run = imported(constant_answers, suites["plain"], tmp_path / "run")
    assert scored(run, code=3)["baselines"]["constant"]["score"] is None
    excluded = scored(run, "--exclude", "38")
    assert excluded["baselines"]["constant"]["score"] == pytest.approx(13 / 39)


@pytest.mark.parametrize(
    ("folder", "n_hits", "n_scenarios"), [("itbench_main", 13, 67), ("itbench_scenarios_archive", 1, 27)]
)
def test_constant_name_on_other_releases_of_the_truths_scores_what_plain_counting_finds(
    shared_data: Path, tmp_path: Path, folder: str, n_hits: int, n_scenarios: int
) -> None:
    source = shared_data / "itbench" / "ground_truth" / folder
    numbers, hits = [], 0
    for scenario in source.iterdir():
        numbers.append(int(scenario.name.removeprefix("scenario_")))
        if (scenario / "groundtruth_v1.yaml").is_file():
            document = yaml.safe_load((scenario / "groundtruth_v1.yaml").read_text())
            roots = [group for group in document.get("spec", document)["groups"] if group.get("root_cause")]
            kinds = [(group["kind"], group.get("name") or group["filter"][0]) for group in roots]
            hits += kinds in ([("ConfigMap", name)] for name in ("flagd-config", "flagd-config\\b"))
    assert (hits, len(numbers)) == (n_hits, n_scenarios)
    diagnose_bench("import", "itbench", source, "--name", "other", "--out", tmp_path)
    patches = (PATCHES / f"{folder}_v1.yaml").read_bytes()
    (tmp_path / "ground_truth" / "other" / "patches.yaml").write_bytes(patches)
    answers = write_answers(tmp_path / "answers.jsonl", ((number, 1, [CONSTANT]) for number in numbers))
    scorecard = scored(imported(answers, tmp_path / "snapshots" / "other", tmp_path / "run"))
    number = scorecard["headline"]["average_precision_at_full_recall"]
    assert number == pytest.approx(n_hits / n_scenarios)


# --- recorded answers ---


def test_committed_answer_of_scenario_2_scores_one_half_without_a_snapshot(
    shared_data: Path, suites: dict[str, Path], tmp_path: Path
) -> None:
    outputs = shared_data / "itbench" / "agent_outputs" / "sre_agent_scenario2_2026-01"
    scorecard = scored(imported(outputs, suites["patched"], tmp_path / "run"))
    assert trial_values(scorecard, "precision_at_full_recall")["scenario-002", 1] == 1 / 2
    # The other 39 are absent from the import: no diagnosis, 0, and the headline stands.
    assert scorecard["outcomes"]["no_diagnosis"] == 39
    assert scorecard["headline"]["average_precision_at_full_recall"] == pytest.approx(1 / 2 / 40)
    assert classes(scorecard, "scenario-002", 1) == {
        CONSTANT: "root_cause",
        "otel-demo/Deployment/flagd": "unknown",
    }


def test_committed_answer_of_scenario_2_scores_one_half_on_its_snapshot(
    shared_data: Path, real_suite: Path, tmp_path: Path
) -> None:
    outputs = shared_data / "itbench" / "agent_outputs" / "sre_agent_scenario2_2026-01" / "2"
    scorecard = scored(imported(outputs, real_suite, tmp_path / "run"))
    assert scorecard["headline"]["average_precision_at_full_recall"] == 1 / 2
    assert (scorecard["inventory"], scorecard["verdicts"]["fail"]) == ("snapshots", 1)
    # The snapshot has flagd; no group of the truth does.
    assert classes(scorecard, "scenario-002", 1) == {
        CONSTANT: "root_cause",
        "otel-demo/Deployment/flagd": "unrelated",
    }


def classes(scorecard: dict[str, Any], scenario: str, repeat: int) -> dict[str, str]:
    entities = trial_values(scorecard, "entities")[scenario, repeat]
    return {entity["raw"]: entity["class"] for entity in entities}


def test_six_judged_trials_score_what_the_judge_found(
    shared_data: Path, suites: dict[str, Path], tmp_path: Path
) -> None:
    outputs = shared_data / "itbench" / "agent_outputs" / "judge_outputs"
    results = json.loads((outputs / "evaluations_evaluation_results_2026-01-13.json").read_text())[
        "raw_results"
    ]
    repeats: Counter[int] = Counter()
    judged = {}
    for result in results:
        number = int(result["incident_id"])
        repeats[number] += 1
        judged[number, repeats[number]] = result["scores"]["root_cause_entity"]
    assert repeats == {1: 3, 2: 3}
    answers = [
        (number, repeat, [entity["entity"] for entity in found["predicted_entities"]])
        for (number, repeat), found in judged.items()
    ]
    source = write_answers(tmp_path / "answers.jsonl", answers)
    scorecard = scored(imported(source, suites["patched"], tmp_path / "run"))
    scores = trial_values(scorecard, "precision_at_full_recall")
    found = {key: scores[scenario_id(key[0]), key[1]] for key in judged}
    # Trial 3 of scenario 1 has its root among five names, trial 3 of scenario 2 among three.
    expected = dict.fromkeys(judged, 0.0) | {(1, 3): 1 / 5, (2, 3): 1 / 3}
    assert found == pytest.approx(expected)
    # What the judge published for each trial and each entity is what comes out without a judge.
    for (number, repeat), verdict in judged.items():
        key = (scenario_id(number), repeat)
        for ours in ("precision", "recall", "f1"):
            assert trial_values(scorecard, ours)[key] == pytest.approx(verdict[f"calculation_{ours}"])
        hits = {raw for raw, class_ in classes(scorecard, *key).items() if class_ == "root_cause"}
        assert hits == {one["entity"] for one in verdict["predicted_entities"] if one["matches_gt"]}
    by_scenario = {one["scenario_id"]: one["score"] for one in scorecard["scenarios"]}
    assert by_scenario["scenario-001"] == pytest.approx((0 + 0 + 1 / 5) / 3)
    assert by_scenario["scenario-002"] == pytest.approx((0 + 0 + 1 / 3) / 3)
    number = scorecard["headline"]["average_precision_at_full_recall"]
    assert number == pytest.approx((1 / 15 + 1 / 9) / 40)


# --- the run side on the real snapshot ---


@pytest.mark.sandbox
def test_alerting_baseline_diagnoses_the_real_snapshot_in_the_sandbox(
    shared_data: Path, real_suite: Path, tmp_path: Path
) -> None:
    alerts = shared_data / "itbench" / "snapshots" / "Scenario-2" / "alerts"
    # At detection time two alerts fire, both for services of the shop.
    state = json.loads(next(alerts.glob("alerts_in_alerting_state_*")).read_text())["data"]["alerts"]
    firing = {alert["labels"]["service_name"] for alert in state if alert["state"] == "firing"}
    assert firing == {"frontend-proxy", "fraud-detection"}
    run = tmp_path / "run"
    diagnose_bench(
        "run", "--agent", "baseline:alerting", "--suite", real_suite, "--repeats", 2, "--sandbox", "bwrap",
        "--out", run,
    )  # fmt: skip
    scorecard = scored(run)
    assert scorecard["outcomes"]["diagnosed"] == 2
    assert "|sandbox:bwrap|" in scorecard["signature"]
    for repeat in (1, 2):
        # One is in no group; the other is a victim, by flagd-config -> cart -> frontend -> frontend-proxy.
        entities = trial_values(scorecard, "entities")["scenario-002", repeat]
        assert {entity["entity"].rpartition("/")[2] for entity in entities} == firing
        assert sorted((entity["class"], entity["distance"]) for entity in entities) == [
            ("unrelated", None),
            ("victim", 3),
        ]
        folder = run / "trials" / "scenario-002" / str(repeat)
        commands = [json.loads(line) for line in (folder / "commands.jsonl").read_text().splitlines()]
        assert commands
        assert [command["exit_code"] for command in commands] == [0] * len(commands)
    assert scorecard["headline"]["average_precision_at_full_recall"] == 0
    assert scorecard["scenarios"][0]["trials"][0]["missed"] == ["flagd-config"]
