"""An inventory holds the objects of objects, changes and topology, and knows their owners."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from diagnose_bench.entity import Entity, parse_canonical
from diagnose_bench.errors import SuiteError
from diagnose_bench.inventory import Inventory

E = parse_canonical


def manifest(
    text: str, owner: str | None = None, api: str = "apps/v1", owner_api: str = "apps/v1"
) -> dict[str, Any]:
    entity = E(text)
    metadata: dict[str, Any] = {"name": entity.name, "namespace": entity.namespace}
    if owner is not None:
        kind, name = owner.split("/")
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Node", "name": "elsewhere"},
            {"apiVersion": owner_api, "kind": kind, "name": name, "controller": True},
        ]
    return {"apiVersion": api, "kind": entity.kind, "metadata": metadata}


def write(folder: Path, name: str, rows: Sequence[object]) -> None:
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_objects_changes_and_topology_are_the_inventory_and_events_are_not(tmp_path: Path) -> None:
    write(tmp_path, "objects.jsonl", [manifest("shop/Deployment/cart"), manifest("Node/w1", api="v1")])
    write(tmp_path, "changes.jsonl", [{"time": "t", "entity": "shop/ConfigMap/flags", "patch": []}])
    nodes = [{"id": "shop/Service/cart"}, {"id": "Node/w1"}]
    (tmp_path / "topology.json").write_text(json.dumps({"nodes": nodes, "edges": []}))
    write(tmp_path, "events.jsonl", [{"involvedObject": {"kind": "Pod", "name": "gone"}}])
    inventory = Inventory.load(tmp_path)
    assert {str(entity) for entity in inventory.entities} == {
        "shop/Deployment/cart", "Node/w1", "shop/ConfigMap/flags", "shop/Service/cart",
    }  # fmt: skip
    assert inventory.namespaces == {"shop"}
    assert inventory.named("cart") == (E("shop/Deployment/cart"), E("shop/Service/cart"))
    assert not inventory.is_none


def test_a_snapshot_without_these_files_has_an_empty_inventory(tmp_path: Path) -> None:
    inventory = Inventory.load(tmp_path)
    assert inventory.entities == frozenset()
    assert not inventory.is_none
    assert Inventory.none().is_none


def test_the_workload_is_the_top_of_the_owner_chain(tmp_path: Path) -> None:
    write(
        tmp_path,
        "objects.jsonl",
        [
            manifest("shop/Deployment/cart"),
            manifest("shop/ReplicaSet/cart-5d8f7c9b6d", "Deployment/cart"),
            manifest("shop/Pod/cart-5d8f7c9b6d-x2v5z", "ReplicaSet/cart-5d8f7c9b6d", api="v1"),
            manifest("kube-system/Pod/etcd-w1", "Node/w1", api="v1", owner_api="v1"),
        ],
    )
    inventory = Inventory.load(tmp_path)
    cart, pod = E("shop/Deployment/cart"), E("shop/Pod/cart-5d8f7c9b6d-x2v5z")
    assert inventory.workload(pod) == cart
    assert inventory.workload(cart) == cart
    assert inventory.members(cart) == (pod, E("shop/ReplicaSet/cart-5d8f7c9b6d"))
    static = E("kube-system/Pod/etcd-w1")
    assert inventory.owner(static) == E("Node/w1")
    assert inventory.workload(static) == static


def test_owners_that_run_in_a_circle_agree_on_one_workload() -> None:
    a, b, c, pod = (Entity("shop", "ReplicaSet", "", name) for name in ("a", "b", "c", "pod"))
    inventory = Inventory([a, b, c, pod], {a: b, b: c, c: b, pod: a})
    assert {inventory.workload(item) for item in (a, b, c, pod)} == {b}
    alone = Inventory([a], {a: a})
    assert alone.workload(a) == a


def test_a_long_owner_chain_is_walked_once_for_each_object() -> None:
    chain = [Entity("shop", "ReplicaSet", "", f"r{n}") for n in range(3000)]
    inventory = Inventory(chain, dict(itertools.pairwise(chain)))
    assert {inventory.workload(entity) for entity in reversed(chain)} == {chain[-1]}


def test_edges_of_ownership_stand_in_for_missing_owner_references(tmp_path: Path) -> None:
    nodes = [{"id": "shop/Deployment/cart"}, {"id": "shop/Pod/cart-1"}]
    edges = [
        {"source": "shop/Deployment/cart", "target": "shop/Pod/cart-1", "relation": "owns"},
        {"source": "shop/Deployment/web", "target": "shop/Deployment/cart", "relation": "calls"},
    ]
    (tmp_path / "topology.json").write_text(json.dumps({"nodes": nodes, "edges": edges}))
    inventory = Inventory.load(tmp_path)
    assert inventory.workload(E("shop/Pod/cart-1")) == E("shop/Deployment/cart")
    assert E("shop/Deployment/web") not in inventory


def test_an_object_written_with_and_without_its_group_is_one(tmp_path: Path) -> None:
    write(tmp_path, "objects.jsonl", [manifest("edge/IngressRoute/orders", api="traefik.io/v1alpha1")])
    (tmp_path / "topology.json").write_text(json.dumps({"nodes": [{"id": "edge/IngressRoute/orders"}]}))
    inventory = Inventory.load(tmp_path)
    assert {str(entity) for entity in inventory.entities} == {"edge/IngressRoute.traefik.io/orders"}
    assert inventory.kinds.lookup("ingressroutes").kind == "IngressRoute"


def test_a_definition_gives_plural_and_short_names_and_scope(tmp_path: Path) -> None:
    spec = {
        "group": "dns.io", "scope": "Cluster",
        "names": {"kind": "Zone", "plural": "zonen", "shortNames": ["zn"]},
    }  # fmt: skip
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "zonen.dns.io"}, "spec": spec,
    }  # fmt: skip
    write(tmp_path, "objects.jsonl", [definition])
    kinds = Inventory.load(tmp_path).kinds
    assert kinds.lookup("zonen").kind == kinds.lookup("zn").kind == "Zone"
    assert kinds.is_cluster_scoped("Zone", "dns.io")


def test_lists_of_objects_are_taken_apart(tmp_path: Path) -> None:
    write(tmp_path, "objects.jsonl", [{"kind": "List", "items": [manifest("shop/Deployment/cart")]}])
    assert E("shop/Deployment/cart") in Inventory.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "where"),
    [
        ("objects.jsonl", "\n{oops\n", "line 2"),
        ("objects.jsonl", "[]\n", "line 1"),
        ("objects.jsonl", '{"kind": "Pod"}\n', "line 1"),
        ("objects.jsonl", "[" * 100_000 + "\n", "line 1"),
        ("objects.jsonl", '{"a": "\\ud800\xff"', "line 1"),
        ("changes.jsonl", '{"entity": "cart"}\n', "line 1"),
        ("changes.jsonl", "{}\n", "line 1"),
        ("topology.json", "[]", "topology"),
        ("topology.json", '{"nodes": 3}', "topology"),
        ("topology.json", '{"nodes": [{"id": "nonsense"}]}', "nodes[0]"),
        ("topology.json", '{"nodes": [3]}', "nodes[0]"),
        ("topology.json", '{"edges": [{"relation": "owns", "source": 1, "target": 2}]}', "edges[0]"),
    ],
)
def test_damaged_files_are_named_with_the_place(tmp_path: Path, name: str, text: str, where: str) -> None:
    (tmp_path / name).write_text(text, encoding="latin-1")
    with pytest.raises(SuiteError) as caught:
        Inventory.load(tmp_path)
    assert str(tmp_path / name) in str(caught.value)
    assert where in str(caught.value)


def test_a_folder_in_place_of_a_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "objects.jsonl").mkdir()
    with pytest.raises(SuiteError, match="cannot read"):
        Inventory.load(tmp_path)
