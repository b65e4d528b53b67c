"""Real answers against ITBench's own truths, without a snapshot; numbers published or counted by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diagnose_bench.ground_truth import LoadedTruth, load_ground_truths
from diagnose_bench.inventory import Inventory
from diagnose_bench.outcome import Profile
from diagnose_bench.resolver import EntityClass, Resolver

# The public scenarios of ITBench-AA that the evaluations file holds (the fortieth, number 40, is elsewhere).
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
)


@pytest.fixture(scope="module")
def resolvers(shared_data: Path) -> dict[int, Resolver]:
    truths = load_ground_truths(shared_data / "itbench/ground_truth/ground_truths_evaluations.json")
    return {
        int(name.removeprefix("scenario-")): Resolver(loaded.truth, Inventory.none())
        for name, loaded in truths.items()
        if isinstance(loaded, LoadedTruth)
    }


def test_the_constant_answer_hits_thirteen_roots(resolvers: dict[int, Resolver]) -> None:
    answer = ["otel-demo/ConfigMap/flagd-config"]
    hits = [
        number
        for number in PUBLIC
        if number in resolvers and resolvers[number].resolve(answer, Profile.ITBENCH_AA).codes == (0,)
    ]
    # Root kind ConfigMap: 13 of 40, all flagd-config.
    assert sorted(hits) == [2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15]
    assert set(PUBLIC) - set(resolvers) == {38}


def test_judged_trials_come_out_as_the_judge_said(resolvers: dict[int, Resolver], shared_data: Path) -> None:
    path = shared_data / "itbench/agent_outputs/judge_outputs/evaluations_evaluation_results_2026-01-13.json"
    n_trials = 0
    for trial in json.loads(path.read_bytes())["raw_results"]:
        judged = trial["scores"]["root_cause_entity"]["predicted_entities"]
        resolver = resolvers[int(trial["incident_id"])]
        resolved = resolver.resolve([entry["entity"] for entry in judged], Profile.ITBENCH_AA)
        assert [entry.class_ is EntityClass.ROOT_CAUSE for entry in resolved.entities] == [
            entry["matches_gt"] for entry in judged
        ]
        n_trials += 1
    assert n_trials == 6


@pytest.mark.parametrize(
    ("number", "text", "hit"),
    [
        (20, "otel-demo/Deployment/product-catalog", True),
        (23, "otel-demo/Deployment/checkout", True),
        (105, "otel-demo/Deployment/product-catalog", True),
        (24, "otel-demo/Pod/checkout-5d8f7c9b6d-x2v5z", True),
        (1, "otel-demo/Deployment/load-generator", True),
        (1, "otel-demo/Deployment/frontend-proxy", True),  # aliased to the root: a defect of the truth
        (33, "otel-demo/Deployment/ad", True),
        (34, "otel-demo/Deployment/valkey-cart", True),
        (34, "otel-demo/Deployment/cart", False),
        (33, "otel-demo/Deployment/load-generator", False),
        (21, "chaos-mesh/Schedule/otel-demo-valkey-memory-stress", True),
        (21, "chaos-mesh/StressChaos/otel-demo-valkey-memory-stress-5c2dr", True),
        (27, "chaos-mesh/HTTPChaos/otel-demo-quote-http-chaos-abort-5c2dr", True),
        (37, "otel-demo/Namespace/otel-demo", True),
        (102, "otel-demo/Namespace/otel-demo", True),
        (102, "otel-demo/ResourceQuota/otel-demo", False),
        (2, "otel-demo/Deployment/flagd", False),
    ],
)
def test_natural_answers_meet_the_truth(
    resolvers: dict[int, Resolver], number: int, text: str, hit: bool
) -> None:
    resolved = resolvers[number].resolve([text], Profile.ITBENCH_AA)
    assert (resolved.codes == (0,)) is hit
