from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from diagnose_bench.errors import GroundTruthError
from diagnose_bench.ground_truth import Group, LoadedTruth, load_ground_truth, load_ground_truths

BODY: dict[str, Any] = {
    "groups": [
        {
            "id": "cart-pod-1",
            "kind": "Pod",
            "namespace": "shop",
            "filter": ["cart-.*", "cart"],
            "root_cause": True,
        },
        {"id": "cart-service-1", "kind": "Service", "namespace": "shop", "filter": "cart\\b"},
        {"id": "shop-namespace-1", "kind": "Namespace", "name": "shop", "namespace": ""},
    ],
    "aliases": [["cart-pod-1", "cart-service-1"], ["shop-namespace-1"], []],
    "propagations": [{"source": "cart-pod-1", "target": "cart-service-1", "condition": "c", "effect": "e"}],
    "fault": [{"entity": {"name": "cart", "kind": "Pod", "group_id": "cart-pod-1"}, "condition": "x"}],
    "alerts": [
        {"id": "Errors", "group_id": "cart-service-1", "metadata": {"description": "d"}},
        {"id": "Watchdog"},
    ],
}
ACTIONS = [{"solution": {"id": "s", "actions": ["restart"]}}]
FLAT = {"id": "7", **BODY, "recommended_actions": ACTIONS}
WRAPPED = {
    "apiVersion": "itbench.io/v1",
    "kind": "GroundTruth",
    "metadata": {"name": "scenario-7"},
    "spec": {**BODY, "recommendedActions": ACTIONS},
}
V2 = {
    "apiVersion": "itbench.io/v2",
    "kind": "GroundTruth",
    "metadata": {"name": "scenario-7"},
    "spec": {
        "alerts": [],
        "entities": [
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "cart", "namespace": "shop"},
            },
            {
                "apiVersion": "meshes.example.org/v1alpha1",
                "kind": "Detour",
                "metadata": {"name": "cart-loss", "namespace": "mesh"},
            },
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
        ],
        "solutions": [[{"steps": [{"text": "restart"}]}]],
    },
}


def load(folder: Path, document: Any, name: str = "truth.yaml", **options: Any) -> LoadedTruth:
    path = folder / name
    path.write_text(json.dumps(document))
    return load_ground_truth(path, **options)


def changed(document: dict[str, Any], **changes: Any) -> dict[str, Any]:
    result = copy.deepcopy(document)
    result.update(changes)
    return result


def test_flat_and_wrapped_v1_are_the_same_truth(tmp_path: Path) -> None:
    flat, wrapped = load(tmp_path, FLAT), load(tmp_path, WRAPPED)
    assert flat.truth == wrapped.truth
    assert flat.warnings == wrapped.warnings == ()
    truth = flat.truth
    assert (truth.format, truth.scenario_id) == ("itbench-v1", "scenario-007")
    assert truth.groups == (
        Group(id="cart-pod-1", root_cause=True, kind="Pod", namespace="shop", filters=("cart-.*", "cart")),
        Group(id="cart-service-1", kind="Service", namespace="shop", filters=("cart\\b",)),
        Group(id="shop-namespace-1", kind="Namespace", namespace=None, names=("shop",)),
    )
    assert truth.aliases == (("cart-pod-1", "cart-service-1"), ("shop-namespace-1",), ())
    assert truth.propagation[0].condition == "c"
    assert truth.remediation == {"recommended_actions": ACTIONS}


@pytest.mark.parametrize("aliases", [None, [], [[]], [None]])
def test_absent_null_and_empty_aliases_are_alike(tmp_path: Path, aliases: Any) -> None:
    truth = load(tmp_path, changed(FLAT, aliases=aliases)).truth
    assert not any(truth.aliases)


def test_v2_entities_are_exact_root_causes_and_keep_their_api_group(tmp_path: Path) -> None:
    truth = load(tmp_path, V2).truth
    assert truth.format == "itbench-v2"
    assert [group.entities for group in truth.groups] == [
        ("shop/Deployment/cart",),
        ("mesh/Detour.meshes.example.org/cart-loss",),
        ("Namespace/shop",),
    ]
    assert all(group.root_cause and group.kind is None for group in truth.groups)
    assert [group.id for group in truth.groups] == [group.entities[0] for group in truth.groups]
    assert truth.remediation == {"solutions": V2["spec"]["solutions"]}  # type: ignore[index]


def test_entity_listed_twice_in_v2_is_dropped_with_a_warning(tmp_path: Path) -> None:
    document = copy.deepcopy(V2)
    document["spec"]["entities"].append(document["spec"]["entities"][0])  # type: ignore[index]
    loaded = load(tmp_path, document)
    assert len(loaded.truth.groups) == 3
    assert len(loaded.warnings) == 1
    assert loaded.warnings[0].startswith("$.spec.entities[3]: dropped:")


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        ("7", "scenario-007"),
        ("scenario-7", "Scenario-7"),
        ("07", "7"),
        ("7", "it-bench-sre-public-scenario-7"),
        (7, "7"),
    ],
)
def test_scenarios_are_compared_by_number(tmp_path: Path, own: Any, wanted: str) -> None:
    assert load(tmp_path, changed(FLAT, id=own), scenario_id=wanted).truth.scenario_id == wanted


@pytest.mark.parametrize("wanted", ["scenario-017", "scenario-070", "70", "scenario"])
def test_truth_of_another_scenario_is_refused(tmp_path: Path, wanted: str) -> None:
    with pytest.raises(GroundTruthError, match='the truth is about "scenario-007"'):
        load(tmp_path, FLAT, scenario_id=wanted)


def test_scenario_without_an_id_is_named_by_its_file_or_folder(tmp_path: Path) -> None:
    document = {key: value for key, value in FLAT.items() if key != "id"}
    assert load(tmp_path, document, "Scenario-12.yaml").truth.scenario_id == "scenario-012"
    folder = tmp_path / "scenario_9"
    folder.mkdir()
    assert load(folder, document, "groundtruth_v1.yaml").truth.scenario_id == "scenario-009"
    with pytest.raises(GroundTruthError, match="names no scenario"):
        load(tmp_path, document, "groundtruth_v1.yaml")


def group(**changes: Any) -> dict[str, Any]:
    return {"id": "other", "kind": "Pod", "namespace": "shop", "filter": ["cart-.*"], **changes}


@pytest.mark.parametrize(
    "victim",
    [
        group(),
        group(kind="pods"),
        group(namespace=None),
        group(filter=["other", "cart-.*"]),
        group(filter=None, name="cart"),  # the root's second filter has no metacharacter: it is that name
    ],
)
def test_same_entity_in_root_and_unaliased_victim_is_refused(tmp_path: Path, victim: dict[str, Any]) -> None:
    groups = [*BODY["groups"], victim]
    with pytest.raises(GroundTruthError, match=r"\$\.groups\[3\]: .* names the same entity"):
        load(tmp_path, changed(FLAT, groups=groups))
    aliases = [["cart-pod-1", "other"]]
    assert load(tmp_path, changed(FLAT, groups=groups, aliases=aliases)).warnings == ()


@pytest.mark.parametrize(
    "victim",
    [group(kind="Deployment"), group(namespace="shop-2"), group(filter=["cart-.+"]), group(filter=["Cart"])],
)
def test_another_kind_namespace_or_filter_is_no_contradiction(tmp_path: Path, victim: dict[str, Any]) -> None:
    assert load(tmp_path, changed(FLAT, groups=[*BODY["groups"], victim])).warnings == ()


@pytest.mark.parametrize(
    "pattern", ["*.*", "(", "a{99999999999999999999}", "[z-a]", "(?P<n>a)(?P<n>b)", "x" * 1001]
)
def test_filter_that_is_no_regular_expression_is_refused(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(GroundTruthError, match=r"\$\.groups\[3\]\.filter\[0\]: the filter"):
        load(tmp_path, changed(FLAT, groups=[*BODY["groups"], group(filter=[pattern])]))


def test_doubtful_but_valid_filter_loads_without_a_python_warning(tmp_path: Path) -> None:
    assert load(tmp_path, changed(FLAT, groups=[*BODY["groups"], group(filter=["[[a]"])])).truth.groups[3]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (changed(FLAT, groups=None), "$.groups: "),
        (changed(FLAT, groups=[{"id": "a"}]), '$.groups[0]: the field "kind" is missing'),
        (changed(FLAT, groups=[group(filter=[])]), "$.groups[0]: the group has neither a name nor a filter"),
        (changed(FLAT, groups=[group(root_cause="true")]), "$.groups[0].root_cause: "),
        (changed(FLAT, groups=[group(filter=[3])]), "$.groups[0].filter[0]: "),
        (changed(FLAT, groups=[group()]), "$.groups: no root cause."),
        (changed(FLAT, aliases=[["cart-pod-1", "cart-pod"]]), '$.aliases[0][1]: unknown group "cart-pod".'),
        (
            changed(WRAPPED, apiVersion="itbench.io/v3"),
            "$.apiVersion: expected itbench.io/v1 or itbench.io/v2",
        ),
        (changed(WRAPPED, spec=[]), '$: the field "groups" is missing'),
        (changed(V2, spec={"entities": []}), "$.spec.entities: no root cause."),
        (changed(V2, spec={"entities": None}), "$.spec.entities: no root cause."),
        (changed(V2, spec={}), '$.spec: the field "entities" is missing'),
        (changed(V2, spec={"entities": [{"kind": "Pod"}]}), "$.spec.entities[0]: "),
    ],
)
def test_refused_with_path_and_reason(tmp_path: Path, document: Any, expected: str) -> None:
    with pytest.raises(GroundTruthError) as caught:
        load(tmp_path, document)
    assert str(caught.value).startswith(f"{tmp_path / 'truth.yaml'}: {expected}")


def test_dangling_ids_of_propagation_fault_and_alerts_are_warned_of(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        changed(
            FLAT,
            propagations=[{"source": "cart-pod", "target": "cart-service-1"}],
            fault=[{"entity": {"group_id": "cart-pod"}}, {"entity": {"name": "no id"}}, {}],
            alerts=[{"group_id": "zzz"}],
        ),
    )
    assert loaded.truth.propagation == ()
    assert loaded.warnings == (
        '$.propagations[0].source: dropped: unknown group "cart-pod". Did you mean "cart-pod-1"?',
        '$.fault[0].entity.group_id: dropped: unknown group "cart-pod". Did you mean "cart-pod-1"?',
        '$.alerts[0].group_id: dropped: unknown group "zzz".',
    )


def test_list_file_is_keyed_by_scenario(tmp_path: Path) -> None:
    path = tmp_path / "truths.json"
    path.write_text(
        json.dumps(
            [FLAT, changed(FLAT, id="38", groups=[]), changed(WRAPPED, metadata={"name": "scenario-9"})]
        )
    )
    loaded = load_ground_truths(path)
    assert list(loaded) == ["scenario-007", "scenario-038", "scenario-009"]
    assert str(loaded["scenario-038"]).startswith(f"{path}: $[1].groups: no root cause")
    assert load_ground_truth(path, scenario_id="scenario-007").truth.scenario_id == "scenario-007"
    assert list(load_ground_truths_of_one(tmp_path)) == ["scenario-007"]


def load_ground_truths_of_one(folder: Path) -> dict[str, Any]:
    path = folder / "one.json"
    path.write_text(json.dumps(FLAT))
    return dict(load_ground_truths(path))
