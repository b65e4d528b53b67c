"""Scores of real answers against real truths, from the recorded answer to the scorecard."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from diagnose_bench.grading import score_run
from diagnose_bench.importers.diagnoses import import_diagnoses
from diagnose_bench.importers.itbench import import_itbench
from diagnose_bench.scorecard import Scorecard
from diagnose_bench.suite import Suite, load_suite

# The 40 public scenarios that ITBench-AA evaluates, by their ITBench numbers.
PUBLIC = (
    1,
    2,
    *range(4, 10),
    *range(11, 26),
    29,
    31,
    33,
    34,
    35,
    38,
    80,
    81,
    83,
    91,
    102,
    105,
    3,
    26,
    27,
    37,
    40,
)
# Whose cause is a feature flag kept in that ConfigMap.
FLAG_SCENARIOS = (*range(2, 10), *range(11, 16))
CONSTANT = "otel-demo/ConfigMap/flagd-config"
PATCH_38 = """\
format_version: 1
patches:
- scenario_id: scenario-038
  who: a reviewer
  why: the filters "*.*" are no regular expressions; each group's name says which workload it means
  patch:
"""


def scenario_id(number: int) -> str:
    return f"scenario-{number:03d}"


@pytest.fixture(scope="module")
def public_suite(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """The truths of the 40 public scenarios, as published: 39 from one file, scenario 40 from its own."""
    root = tmp_path_factory.mktemp("public")
    source = root / "truths"
    source.mkdir()
    published = shared_data / "itbench" / "ground_truth"
    for entry in json.loads((published / "ground_truths_evaluations.json").read_text()):
        if int(entry["id"]) in PUBLIC:
            (source / f"{scenario_id(int(entry['id']))}.json").write_text(json.dumps(entry))
    folder = source / "Scenario-40"
    folder.mkdir()
    shutil.copy(published / "itbench_main" / "scenario_40" / "groundtruth_v1.yaml", folder)
    imported = import_itbench(source, "public", out=root)
    return load_suite(str(imported.suite_path))


def score(
    out: Path, suite: Suite, answers: Mapping[tuple[int, int], Sequence[str]], **options: object
) -> Scorecard:
    rows = [
        {"scenario_id": scenario_id(number), "repeat": repeat, "entities": list(entities)}
        for (number, repeat), entities in answers.items()
    ]
    source = out.with_suffix(".jsonl")
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    import_diagnoses(source, agent="recorded", suite=suite, out=out)
    return score_run(out, **options)  # type: ignore[arg-type]


def test_public_suite_has_forty_scenarios(public_suite: Suite) -> None:
    assert sorted(scenario.id for scenario in public_suite.scenarios) == sorted(map(scenario_id, PUBLIC))


def test_one_constant_name_scores_thirteen_of_forty(public_suite: Suite, tmp_path: Path) -> None:
    answers = {(number, 1): [CONSTANT] for number in PUBLIC}
    scorecard = score(tmp_path / "run", public_suite, answers)
    # 13 scenarios have the flag as their only cause. The truth of 38 is refused, so it is unscored and stays
    # in the denominator: 13/40 if it counts 0, 14/40 if it counts 1.
    hits = sorted(scenario.scenario_id for scenario in scorecard.scenarios if scenario.score == 1)
    assert hits == sorted(map(scenario_id, FLAG_SCENARIOS))
    assert [one.scenario_id for one in scorecard.scenarios if one.truth_refused] == [scenario_id(38)]
    assert scorecard.headline.average_precision_at_full_recall is None
    assert scorecard.headline.bounds == pytest.approx((13 / 40, 14 / 40))
    assert (scorecard.headline.n_scenarios, scorecard.exit_code, scorecard.inventory) == (40, 3, "none")


def test_patched_truth_gives_the_headline_and_the_constant_baseline(
    public_suite: Suite, tmp_path: Path
) -> None:
    truths = tmp_path / "patched"
    shutil.copytree(public_suite.path.parent.parent / "ground_truth" / "public", truths)
    groups = json.loads((truths / f"{scenario_id(38)}.yaml").read_text())["groups"]
    operations = [
        {"op": "replace", "path": f"/groups/{index}/filter", "value": [group["id"].split("-")[0]]}
        for index, group in enumerate(groups)
        if group.get("filter") == ["*.*"]
    ]
    assert len(operations) == 3
    (truths / "patches.yaml").write_text(PATCH_38 + "".join(f"  - {json.dumps(one)}\n" for one in operations))
    scorecard = score(
        tmp_path / "run", public_suite, {(number, 1): [CONSTANT] for number in PUBLIC}, truth=truths
    )
    assert scorecard.headline.average_precision_at_full_recall == pytest.approx(13 / 40)
    assert [patch.scenario_id for patch in scorecard.patches] == [scenario_id(38)]
    assert "|patches:-|" not in scorecard.signature
    # Chosen without the scenario at hand, the best single name is that same one everywhere: no lift over it.
    assert set(scorecard.baselines.constant.entities.values()) == {CONSTANT}
    assert scorecard.baselines.constant.score == pytest.approx(13 / 40)
    assert scorecard.baselines.blind == pytest.approx(13 / 40)
    assert scorecard.baselines.lift == pytest.approx(0.0)


def test_six_judged_trials_get_their_published_precision(
    shared_data: Path, public_suite: Suite, tmp_path: Path
) -> None:
    outputs = shared_data / "itbench" / "agent_outputs" / "judge_outputs"
    judged = json.loads((outputs / "evaluations_evaluation_results_2026-01-13.json").read_text())
    answers: dict[tuple[int, int], list[str]] = {}
    for result in judged["raw_results"]:
        number = int(result["incident_id"])
        repeat = 1 + sum(known == number for known, _ in answers)
        predicted = result["scores"]["root_cause_entity"]["predicted_entities"]
        answers[number, repeat] = [entity["entity"] for entity in predicted]
    assert len(answers) == 6
    others = [scenario_id(number) for number in PUBLIC if number not in (1, 2)]
    scorecard = score(tmp_path / "run", public_suite, answers, exclude=others)
    found = {
        (scenario.scenario_id, trial.repeat): trial.precision_at_full_recall
        for scenario in scorecard.scenarios
        for trial in scenario.trials
    }
    # Trial 3 of scenario 1 names its root among five entities, trial 3 of scenario 2 among three.
    expected = dict.fromkeys(
        ((scenario_id(number), repeat) for number in (1, 2) for repeat in (1, 2, 3)), 0.0
    )
    expected |= {(scenario_id(1), 3): 1 / 5, (scenario_id(2), 3): 1 / 3}
    assert found == pytest.approx(expected)


def test_published_agent_answer_of_scenario_two_scores_one_half(
    shared_data: Path, public_suite: Suite, tmp_path: Path
) -> None:
    outputs = shared_data / "itbench" / "agent_outputs" / "sre_agent_scenario2_2026-01"
    source = tmp_path / "outputs"
    shutil.copytree(outputs / "2", source / "2")
    import_diagnoses(source, agent="recorded", suite=public_suite, out=tmp_path / "run")
    others = [scenario_id(number) for number in PUBLIC if number != 2]
    scorecard = score_run(tmp_path / "run", exclude=others)
    # flagd-config is the root; flagd is in no group, and no snapshot knows it: one of two names.
    assert scorecard.number == 0.5
    entities = scorecard.scenarios[0].trials[0].entities
    assert [(entity.raw, entity.class_) for entity in entities] == [
        (CONSTANT, "root_cause"),
        ("otel-demo/Deployment/flagd", "unknown"),
    ]
