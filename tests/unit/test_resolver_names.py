"""Claims about names that are not whole, classes of what is wrong, and size."""

from __future__ import annotations

import pytest
from unit.resolver_cases import SHOP, codes, inventory, one, other, pattern, root, truth

from diagnose_bench.entity import parse_canonical
from diagnose_bench.ground_truth import Group
from diagnose_bench.inventory import Inventory
from diagnose_bench.outcome import Profile
from diagnose_bench.resolver import EntityClass, Resolver, Rule

AA, STRICT = Profile.ITBENCH_AA, Profile.STRICT
E = parse_canonical


# --- the rules ------------------------------------------------------------------------------------


def test_a_bare_name_is_accepted_only_if_one_object_has_it() -> None:
    resolver = Resolver(
        truth(root("flags", "shop/ConfigMap/flagd-config"), root("web", "blue/Deployment/web")), SHOP
    )
    assert one(resolver, "flagd-config").code == 0
    assert one(resolver, "worker-1").entity == "Node/worker-1"
    entry = one(resolver, "web")
    assert (entry.class_, entry.entity) == (EntityClass.AMBIGUOUS, None)
    assert "blue/Deployment/web, green/Deployment/web" in entry.message
    assert one(resolver, "deploy/web").class_ is EntityClass.AMBIGUOUS
    assert one(resolver, "blue/web").code == 1
    assert one(resolver, "nothing").class_ is EntityClass.UNKNOWN


def test_an_ambiguous_name_is_wrong_even_if_all_candidates_are_one_root() -> None:
    both = truth(root("cart", "shop/Deployment/cart", "shop/Service/cart"))
    resolver = Resolver(both, inventory("shop/Deployment/cart", "shop/Service/cart"))
    assert resolver.n_root_causes == 1
    assert codes(resolver, "cart") == (1,)


def test_without_an_inventory_a_name_is_unique_among_the_groups() -> None:
    resolver = Resolver(
        truth(
            pattern("flags", "ConfigMap", r"flagd-config\b", is_root=True),
            pattern("flagd", "Pod", "flagd-.*"),
            pattern("cart", "Service", r"cart\b"),
            pattern("carts", "Pod", "cart-.*"),
        ),
        Inventory.none(),
    )
    assert one(resolver, "flagd-config").group == "flags"
    assert one(resolver, "configmap/flagd-config").group == "flags"
    assert one(resolver, "deployment/flagd").group == "flagd"
    assert one(resolver, "cart").class_ is EntityClass.AMBIGUOUS
    assert one(resolver, "cluster-wide").class_ is EntityClass.UNKNOWN


def test_a_kind_that_two_groups_share_needs_its_group_unless_one_object_is_meant() -> None:
    istio, k8s = "edge/Gateway.networking.istio.io/in", "edge/Gateway.gateway.networking.k8s.io/in"
    resolver = Resolver(truth(root("in", istio)), inventory(istio, k8s))
    assert one(resolver, "edge/Gateway/in").class_ is EntityClass.AMBIGUOUS
    assert codes(resolver, istio) == (0,)
    assert codes(resolver, k8s) == (1,)
    alone = Resolver(truth(root("in", istio)), inventory(istio))
    assert codes(alone, "edge/gateways/in") == (0,)


def test_core_kinds_need_no_group_beside_a_custom_kind_of_that_name() -> None:
    knative = "shop/Service.serving.knative.dev/cart"
    resolver = Resolver(truth(root("cart", "shop/Service/cart")), inventory("shop/Service/cart", knative))
    assert codes(resolver, "shop/Service/cart", "svc/cart", knative) == (0, 0, 1)


def test_a_truth_and_a_text_may_leave_out_the_group_of_a_custom_kind() -> None:
    group = Group("orders", kind="ingressroute", namespace="edge", names=("orders",), root_cause=True)
    snapshot = inventory("edge/IngressRoute.traefik.io/orders")
    for objects in (snapshot, Inventory.none()):
        resolver = Resolver(truth(group), objects)
        assert codes(resolver, "edge/IngressRoute/orders", "edge/IngressRoute.traefik.io/orders") == (0, 0)
    native = Resolver(truth(root("orders", "edge/IngressRoute/orders")), Inventory.none())
    assert codes(native, "edge/ingressroutes/orders", "edge/IngressRoute.traefik.io/orders") == (0, 0)


@pytest.mark.parametrize(
    "text", ["otel-demo/Namespace/otel-demo", "Namespace/otel-demo", "ns/otel-demo", "cluster/ns/otel-demo"]
)
@pytest.mark.parametrize(
    "group",
    [
        pattern("ns", "Namespace", "otel-demo", is_root=True, namespace="otel-demo"),
        pattern("ns", "Namespace", "otel-demo", is_root=True, namespace=None),
        pattern("ns", "Namespace", names=("otel-demo",), is_root=True, namespace="otel-demo"),
    ],
)
def test_namespaces_of_cluster_scoped_kinds_are_dropped_on_both_sides(text: str, group: Group) -> None:
    assert codes(Resolver(truth(group), Inventory.none()), text) == (0,)


def test_what_was_trimmed_is_in_the_message() -> None:
    entry = one(Resolver(truth(root("cart", "shop/Deployment/cart")), SHOP), "shop/Deployment/cart\u200b")
    assert entry.code == 0
    assert "U+200B" in entry.message


# --- classes --------------------------------------------------------------------------------------


def test_a_victim_has_its_distance_from_the_nearest_root() -> None:
    chain = truth(
        root("flags", "shop/ConfigMap/flagd-config"), other("cart", "shop/Deployment/cart"),
        other("frontend", "shop/Deployment/frontend"), other("proxy", "shop/Deployment/frontend-proxy"),
        other("kafka", "shop/StatefulSet/kafka"), other("above", "shop/Deployment/valkey-cart"),
        aliases=[("frontend", "proxy")],
        propagation=[("flags", "cart"), ("cart", "frontend"), ("above", "flags")],
    )  # fmt: skip
    resolver = Resolver(chain, SHOP)
    distances = {
        "cart": 1, "frontend": 2, "frontend-proxy": 2,
        "valkey-cart": 1,  # only against the direction of the failure
    }  # fmt: skip
    for name, distance in distances.items():
        entry = one(resolver, f"shop/Deployment/{name}")
        assert (entry.class_, entry.distance) == (EntityClass.VICTIM, distance)
    assert one(resolver, "shop/StatefulSet/kafka").distance is None


def test_decoys_unrelated_and_unknown_entities() -> None:
    resolver = Resolver(
        truth(root("flags", "shop/ConfigMap/flagd-config"), decoys=["shop/Deployment/cart"]), SHOP
    )
    assert one(resolver, "shop/Pod/cart-755465879b-aaaaa").class_ is EntityClass.DECOY
    assert one(resolver, "shop/Pod/cart-755465879b-aaaaa", STRICT).class_ is EntityClass.UNRELATED
    assert one(resolver, "shop/Deployment/frontend").class_ is EntityClass.UNRELATED
    assert one(resolver, "shop/Pod/frontend-5d8f7c9b6d-x2v5z").class_ is EntityClass.UNRELATED
    assert one(resolver, "shop/Pod/frontend-5d8f7c9b6d-x2v5z", STRICT).class_ is EntityClass.UNKNOWN
    assert one(resolver, "kube-system/APIServer/kube-apiserver").class_ is EntityClass.UNKNOWN
    assert one(resolver, "unknown/Cluster/10.0.185.154:443").class_ is EntityClass.UNKNOWN
    assert one(resolver, "currency-svcport-8080-tcp-tcp-service Port").class_ is EntityClass.UNKNOWN


@pytest.mark.parametrize(
    ("submitted", "label"),
    [
        ("shop/Service/cart", "shop/Deployment/cart"),
        ("shop/ConfigMap/flagd-config", "shop/Deployment/frontend"),
        ("Namespace/shop", "shop/ResourceQuota/quota"),
        ("Node/worker-1", "shop/Pod/cart-755465879b-aaaaa"),
        ("shop/HorizontalPodAutoscaler/cart", "shop/Deployment/cart"),
    ],
)
def test_related_objects_get_no_credit_without_an_alias(submitted: str, label: str) -> None:
    resolver = Resolver(truth(root("root", label)), SHOP)
    for profile in Profile:
        assert codes(resolver, submitted, profile=profile) == (1,)


def test_a_scenario_without_a_fault_has_only_wrong_entities() -> None:
    resolver = Resolver(truth(), SHOP)
    resolved = resolver.resolve(["shop/Deployment/cart", "shop/Service/cart"], AA)
    assert (resolved.codes, resolved.n_root_causes, resolved.missed) == ((0, 1), 0, ())


# --- size -----------------------------------------------------------------------------------------


def test_names_longer_than_kubernetes_allows_match_no_filter() -> None:
    resolver = Resolver(truth(pattern("any", "Service", ".*", is_root=True)), SHOP)
    assert codes(resolver, "shop/Service/" + "a" * 253, "shop/Service/" + "a" * 254) == (0, 1)


def test_ten_thousand_distinct_names_get_ten_thousand_codes() -> None:
    resolver = Resolver(truth(pattern("cart", "Pod", "cart-.*", is_root=True)), SHOP)
    resolved = resolver.resolve([f"shop/Service/s{n}" for n in range(10_000)], AA)
    assert resolved.codes == tuple(range(1, 10_001))


def test_a_schedule_stands_for_children_of_the_kind_that_it_spawned() -> None:
    snapshot = inventory(
        "chaos/Schedule/delay",
        "chaos/NetworkChaos/lag-1<chaos/Schedule/delay",
        "chaos/NetworkChaos/delay-5c2dr",
    )
    network = pattern("lag", "NetworkChaos", "lag-[0-9]", is_root=True, namespace="chaos")
    assert one(Resolver(truth(network), snapshot), "chaos/Schedule/delay").rule is Rule.SPAWNED
    stress = pattern("lag", "StressChaos", "delay", is_root=True, namespace="chaos")
    assert codes(Resolver(truth(stress), snapshot), "chaos/Schedule/delay") == (1,)


def test_a_filter_is_tried_on_the_names_of_the_workloads_own_pods() -> None:
    """With Pods in the inventory there is no need for made-up names: this filter fits one real Pod."""
    resolver = Resolver(truth(pattern("one", "Pod", "cart-755465879b-a+", is_root=True)), SHOP)
    assert one(resolver, "shop/Deployment/cart").rule is Rule.FILTER
    assert one(resolver, "shop/Pod/cart-755465879b-bbbbb").rule is Rule.OWNER
    made_up = Resolver(truth(pattern("one", "Pod", "cart-5d8f7c9b6d-x2v5z", is_root=True)), SHOP)
    assert codes(made_up, "shop/Deployment/cart") == (1,)


def test_jobs_and_pods_of_a_cron_job_are_one() -> None:
    snapshot = inventory(
        "shop/CronJob/backup",
        "shop/Job/backup-28391234<shop/CronJob/backup",
        "shop/Pod/backup-28391234-x2v5z<shop/Job/backup-28391234",
    )
    resolver = Resolver(truth(root("backup", "shop/CronJob/backup")), snapshot)
    named = ["shop/Job/backup-28391234", "shop/Pod/backup-28391234-x2v5z", "shop/Pod/backup-28399999-bbbbb"]
    assert [entry.rule for entry in resolver.resolve(named, AA).entities] == [
        Rule.OWNER,
        Rule.OWNER,
        Rule.FORM,
    ]
    assert codes(resolver, *named) == (0, 0, 0)


def test_a_pod_whose_replica_set_was_not_recorded_still_has_its_workload() -> None:
    snapshot = inventory(
        "shop/Deployment/cart", "shop/Pod/cart-755465879b-aaaaa<shop/ReplicaSet/cart-755465879b"
    )
    resolver = Resolver(truth(root("cart", "shop/Deployment/cart")), snapshot)
    assert one(resolver, "shop/Pod/cart-755465879b-aaaaa").rule is Rule.FORM
