"""Submitted entities meet a truth by the rules, in order; each keeps its rule, group and class."""

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


def test_an_exact_entity_is_the_root_cause() -> None:
    entry = one(
        Resolver(truth(root("flags", "shop/ConfigMap/flagd-config")), SHOP), "configmap/flagd-config -n shop"
    )
    assert (entry.entity, entry.rule, entry.group, entry.code) == (
        "shop/ConfigMap/flagd-config", Rule.EXACT, "flags", 0,
    )  # fmt: skip
    assert (entry.class_, entry.via_alias, entry.distance) == (EntityClass.ROOT_CAUSE, False, None)


@pytest.mark.parametrize("kind", ["Deployment", "Pod"])
@pytest.mark.parametrize("snapshot", [Inventory.none(), inventory("shop/Deployment/checkout")])
def test_a_filter_for_pods_meets_the_bare_workload(kind: str, snapshot: Inventory) -> None:
    resolver = Resolver(truth(pattern("checkout", kind, "checkout-.*", is_root=True)), snapshot)
    assert one(resolver, "shop/Deployment/checkout").rule is Rule.FILTER
    assert codes(resolver, "shop/Deployment/checkout") == (0,)


def test_a_filter_must_match_the_whole_name() -> None:
    services = truth(
        pattern("frontend", "Service", r"frontend\b", is_root=True), pattern("cart", "Service", r"cart\b")
    )
    resolver = Resolver(services, SHOP)
    assert one(resolver, "shop/Service/frontend").class_ is EntityClass.ROOT_CAUSE
    assert one(resolver, "shop/Service/frontend-proxy").class_ is EntityClass.UNRELATED
    assert one(resolver, "shop/Service/valkey-cart").class_ is EntityClass.UNKNOWN
    assert one(resolver, "shop/Service/cart").class_ is EntityClass.VICTIM


def test_a_group_with_a_namespace_never_matches_another_and_one_without_matches_any() -> None:
    here = Resolver(truth(pattern("web", "Deployment", "web", is_root=True, namespace="blue")), SHOP)
    assert codes(here, "blue/Deployment/web", "green/Deployment/web") == (0, 1)
    anywhere = Resolver(truth(pattern("web", "Deployment", "web", is_root=True, namespace=None)), SHOP)
    assert codes(anywhere, "blue/Deployment/web", "green/Deployment/web") == (0, 0)


def test_owner_chains_lead_to_the_workload_and_siblings_count() -> None:
    resolver = Resolver(truth(root("cart", "shop/Pod/cart-755465879b-aaaaa")), SHOP)
    assert one(resolver, "shop/Deployment/cart").rule is Rule.OWNER
    assert one(resolver, "shop/Pod/cart-755465879b-bbbbb").rule is Rule.OWNER
    assert one(resolver, "shop/Pod/cart-755465879b-aaaaa").rule is Rule.EXACT
    assert codes(resolver, "shop/Pod/cart-755465879b-bbbbb", profile=STRICT) == (1,)


def test_one_bad_pod_is_only_that_object_and_its_aliases() -> None:
    bad = truth(
        root("bad", "shop/Pod/cart-755465879b-aaaaa", match="object"),
        other("service", "shop/Service/cart"),
        aliases=[("bad", "service")],
    )
    resolver = Resolver(bad, SHOP)
    assert codes(resolver, "shop/Pod/cart-755465879b-aaaaa") == (0,)
    assert codes(resolver, "shop/Pod/cart-755465879b-bbbbb") == (1,)
    assert codes(resolver, "shop/Deployment/cart") == (1,)
    assert codes(resolver, "shop/Service/cart") == (0,)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("shop/Pod/cart-5d8f7c9b6d-x2v5z", Rule.FORM),
        ("shop/Pod/cart-x2v5z", Rule.FORM),
        ("shop/ReplicaSet/cart-5d8f7c9b6d", Rule.FORM),
        ("shop/ReplicaSet/cart-bcdfghjk", Rule.FORM),
        ("shop/Pod/cart", Rule.FORM),
        ("Pod/cart", Rule.FORM),
        ("pod/cart-5d8f7c9b6d-x2v5z", Rule.FORM),
    ],
)
def test_forms_of_generated_names_lead_to_the_workload(text: str, rule: Rule) -> None:
    entry = one(Resolver(truth(root("cart", "shop/Deployment/cart")), SHOP), text)
    assert (entry.rule, entry.class_) == (rule, EntityClass.ROOT_CAUSE)


@pytest.mark.parametrize(
    "text",
    [
        "shop/Pod/cart-5d8f7c9b6d-aeiou",  # Kubernetes draws no vowels
        "shop/Pod/cart-5d8f7c9b6d-x013z",  # and neither 0, 1 nor 3
        "shop/Pod/cart-worker",
        "shop/Deployment/cart-5d8f7c9b6d",  # only Pods and ReplicaSets have generated names
        "shop/ReplicaSet/cart",
        "blue/Pod/cart-5d8f7c9b6d-x2v5z",  # a workload of another namespace
        "shop/Pod/valkey-cart-5d8f7c9b6d-x2v5z",
        "shop/StatefulSet/cart",
        "shop/Service/cart",
    ],
)
def test_what_only_looks_like_the_workload_is_not(text: str) -> None:
    assert one(Resolver(truth(root("cart", "shop/Deployment/cart")), SHOP), text).code == 1


def test_an_ordinal_leads_to_the_stateful_set() -> None:
    resolver = Resolver(truth(root("kafka", "shop/StatefulSet/kafka")), SHOP)
    assert one(resolver, "shop/Pod/kafka-0").rule is Rule.FORM


def test_a_pod_of_the_inventory_follows_its_owner_and_no_form() -> None:
    snapshot = inventory("shop/Deployment/cart", "shop/Pod/cart-5d8f7c9b6d-x2v5z")
    resolver = Resolver(truth(root("cart", "shop/Deployment/cart")), snapshot)
    assert one(resolver, "shop/Pod/cart-5d8f7c9b6d-x2v5z").class_ is EntityClass.UNRELATED


CHAOS_FORMS = [
    "chaos/Schedule/delay-cart",
    "chaos/NetworkChaos/delay-cart-5c2dr",
    "chaos/NetworkChaos/delay-cart-x2v5z",
    "chaos/networkchaos/delay-cart-x2v5z",
]


@pytest.mark.parametrize("text", CHAOS_FORMS)
@pytest.mark.parametrize(
    "group",
    [
        root("delay", "chaos/Schedule/delay-cart"),
        root("delay", "chaos/NetworkChaos/delay-cart-5c2dr"),
        pattern("delay", "NetworkChaos", ".*delay-cart", is_root=True, namespace="chaos"),
        pattern("delay", "Schedule", "delay-.*", is_root=True, namespace="chaos"),
        pattern("delay", "NetworkChaos", names=("delay-cart",), is_root=True, namespace="chaos"),
    ],
)
def test_a_chaos_schedule_and_what_it_spawned_are_one(text: str, group: Group) -> None:
    assert codes(Resolver(truth(group), Inventory.none()), text) == (0,)


@pytest.mark.parametrize(
    "text", ["chaos/Schedule/delay", "chaos/StressChaos/delay-cart-x2v5z", "other/Schedule/delay-cart"]
)
def test_another_chaos_object_is_another(text: str) -> None:
    resolver = Resolver(truth(root("delay", "chaos/NetworkChaos/delay-cart-5c2dr")), Inventory.none())
    assert codes(resolver, text) == (1,)


def test_an_owner_reference_decides_before_the_form_of_a_chaos_name() -> None:
    snapshot = inventory(
        "chaos/Schedule/nightly",
        "chaos/Schedule/delay",
        "chaos/NetworkChaos/delay-5c2dr<chaos/Schedule/nightly",
    )
    resolver = Resolver(truth(root("nightly", "chaos/Schedule/nightly")), snapshot)
    assert one(resolver, "chaos/NetworkChaos/delay-5c2dr").rule is Rule.SPAWNED
    assert codes(resolver, "chaos/Schedule/delay") == (1,)


# --- which group decides --------------------------------------------------------------------------


def test_the_most_specific_filter_comes_first() -> None:
    groups = truth(
        pattern("frontend", "Pod", "frontend-.*", is_root=True), pattern("proxy", "Pod", "frontend-proxy-.*")
    )
    resolver = Resolver(groups, Inventory.none())
    for text in ("shop/Deployment/frontend-proxy", "shop/Pod/frontend-proxy-6b4d584985-x2v5z"):
        entry = one(resolver, text)
        assert (entry.group, entry.class_) == ("proxy", EntityClass.VICTIM)
    assert one(resolver, "shop/Deployment/frontend").group == "frontend"


@pytest.mark.parametrize("profile", [AA, STRICT])
def test_a_pod_named_like_a_workload_of_another_filter_is_not_of_the_shorter_one(profile: Profile) -> None:
    groups = truth(
        pattern("frontend", "Pod", "frontend-.*", is_root=True), pattern("proxy", "Pod", "frontend-proxy-.*")
    )
    for snapshot in (Inventory.none(), inventory("shop/Deployment/cart")):
        entry = one(Resolver(groups, snapshot), "shop/Pod/frontend-proxy", profile)
        assert entry.code == 1
        assert entry.group == ("proxy" if profile is AA else None)


def test_a_group_may_spell_out_the_longer_name_beside_an_open_filter() -> None:
    both = pattern("both", "Pod", "frontend-.*", "frontend-proxy-.*", is_root=True)
    resolver = Resolver(truth(both), Inventory.none())
    assert one(resolver, "shop/Pod/frontend-proxy", STRICT).code == 0


def test_an_open_filter_stays_with_the_workload_that_it_spells_out() -> None:
    resolver = Resolver(truth(pattern("frontend", "Pod", "frontend-.*", is_root=True)), SHOP)
    assert one(resolver, "shop/Deployment/frontend").code == 0
    assert one(resolver, "shop/Deployment/frontend-proxy").class_ is EntityClass.UNRELATED
    assert one(resolver, "shop/Pod/frontend-proxy-6b4d584985-x2v5z", STRICT).class_ is EntityClass.UNKNOWN


@pytest.mark.parametrize(
    "text", ["shop/Pod/frontend-675fd7b5c5-x2v5z", "shop/ReplicaSet/frontend-675fd7b5c5"]
)
def test_an_object_without_an_owner_on_record_still_fits_the_open_filter(text: str) -> None:
    kind = text.split("/")[1]
    groups = truth(pattern("frontend", kind, "frontend-.*", is_root=True))
    snapshot = inventory("shop/Deployment/frontend", text)
    for profile in (AA, STRICT):
        entry = one(Resolver(groups, snapshot), text, profile)
        assert (entry.rule, entry.code) == (Rule.FILTER, 0)


def test_exact_comes_before_filter_and_file_order_decides_last() -> None:
    resolver = Resolver(
        truth(
            pattern("first", "ConfigMap", "flagd-.*"),
            pattern("second", "ConfigMap", "flagd-.*"),
            pattern("named", "ConfigMap", names=("flagd-config",), is_root=True),
        ),
        SHOP,
    )
    assert one(resolver, "shop/ConfigMap/flagd-config").group == "named"
    assert one(resolver, "shop/ConfigMap/flagd-other").group == "first"


def test_a_root_of_the_workload_comes_before_its_pod_as_a_victim() -> None:
    """ITBench scenario 24 lists the Deployment as root and its Pods as victims."""
    resolver = Resolver(
        truth(
            pattern("pods", "Pod", "checkout-.*"),
            pattern("deployment", "Deployment", r"checkout\b", is_root=True),
        ),
        Inventory.none(),
    )
    for text in ("shop/Pod/checkout-5d8f7c9b6d-x2v5z", "shop/Deployment/checkout", "shop/Pod/checkout"):
        assert one(resolver, text).group == "deployment"
    assert one(resolver, "shop/Pod/checkout-5d8f7c9b6d-x2v5z", STRICT).group == "pods"


# --- root-cause sets ------------------------------------------------------------------------------


def test_alias_classes_are_connected_components_with_one_root_cause_set() -> None:
    chained = truth(
        root("a", "shop/Service/a"), other("b", "shop/Service/b"), root("c", "shop/Service/c"),
        root("d", "shop/Service/d"), aliases=[("a", "b"), ("b", "c"), ("d",)],
    )  # fmt: skip
    resolver = Resolver(chained, Inventory.none())
    assert resolver.n_root_causes == 2
    resolved = resolver.resolve(["shop/Service/b"], AA)
    assert resolved.codes == (0,)
    assert resolved.entities[0].via_alias
    assert resolved.entities[0].rule is Rule.EXACT
    assert resolved.missed == ("d",)
    assert resolver.resolve([], AA).missed == ("a", "d")


def test_root_groups_of_one_workload_are_one_set_in_both_profiles() -> None:
    resolver = Resolver(
        truth(root("pod", "shop/Pod/cart-755465879b-aaaaa"), root("top", "shop/Deployment/cart")), SHOP
    )
    assert resolver.n_root_causes == 1
    assert codes(resolver, "shop/Deployment/cart", profile=STRICT) == (0,)
    filters = truth(
        pattern("a", "Deployment", r"checkout\b", is_root=True),
        pattern("b", "Pod", "checkout-.*", is_root=True),
        pattern("c", "Pod", "checkout-.*", is_root=True, namespace=None),
        pattern("d", "Pod", "checkoutservice-.*", is_root=True),
    )
    assert Resolver(filters, Inventory.none()).n_root_causes == 2


def test_one_bad_pod_beside_its_workload_is_a_set_of_its_own() -> None:
    both = truth(
        root("pod", "shop/Pod/cart-755465879b-aaaaa", match="object"), root("top", "shop/Deployment/cart")
    )
    resolver = Resolver(both, SHOP)
    assert resolver.n_root_causes == 2
    assert codes(resolver, "shop/Pod/cart-755465879b-aaaaa", "shop/Deployment/cart") == (0, 1)
    assert codes(resolver, "shop/Pod/cart-755465879b-bbbbb") == (1,)


def test_a_class_that_spans_workloads_is_reported() -> None:
    """ITBench scenario 1 aliases a victim to the root cause."""
    resolver = Resolver(
        truth(
            pattern("load", "Pod", "load-generator-.*", is_root=True),
            pattern("proxy", "Pod", "frontend-proxy-.*"),
            pattern("service", "Service", r"frontend-proxy\b"),
            aliases=[("load", "proxy", "service")],
        ),
        Inventory.none(),
    )
    (warning,) = resolver.warnings
    assert "load-generator" in warning
    assert "frontend-proxy" in warning
    fine = truth(root("a", "shop/Deployment/cart"), other("b", "shop/Service/cart"), aliases=[("a", "b")])
    assert Resolver(fine, SHOP).warnings == ()


# --- collapse -------------------------------------------------------------------------------------


def test_a_second_hit_is_a_duplicate_and_in_strict_another_object_is_wrong() -> None:
    resolver = Resolver(
        truth(root("cart", "shop/Deployment/cart"), other("s", "shop/Service/cart"), aliases=[("cart", "s")]),
        SHOP,
    )
    named = ["shop/Deployment/cart", "deploy/cart", "shop/Pod/cart-755465879b-aaaaa", "shop/Service/cart"]
    lenient = resolver.resolve(named, AA)
    assert lenient.codes == (0, 0, 0, 0)
    assert [entry.class_ for entry in lenient.entities[1:]] == [EntityClass.DUPLICATE] * 3
    strict = resolver.resolve(named, STRICT)
    assert strict.codes == (0, 0, 1, 2)
    assert [str(entry.class_) for entry in strict.entities] == [
        "root_cause", "duplicate", "unrelated", "duplicate",
    ]  # fmt: skip
    assert "wrong" in strict.entities[3].message


def test_wrong_entities_count_by_workload_and_other_kinds_by_themselves() -> None:
    resolver = Resolver(truth(root("flags", "shop/ConfigMap/flagd-config")), SHOP)
    named = [
        "shop/Deployment/cart", "shop/Pod/cart-755465879b-aaaaa", "shop/Pod/cart-5d8f7c9b6d-x2v5z",
        "shop/ReplicaSet/cart-755465879b", "shop/Service/cart",
    ]  # fmt: skip
    assert codes(resolver, *named) == (1, 1, 1, 1, 2)
    assert codes(resolver, *named, profile=STRICT) == (1, 2, 3, 4, 5)


def test_names_outside_the_inventory_collapse_by_the_workload_that_their_form_implies() -> None:
    resolver = Resolver(truth(root("flags", "shop/ConfigMap/flagd-config")), SHOP)
    named = [
        "shop/Pod/ghost-5d8f7c9b6d-x2v5z", "shop/Pod/ghost-5d8f7c9b6d-bbbbb",
        "shop/ReplicaSet/ghost-5d8f7c9b6d", "shop/Deployment/ghost", "blue/Deployment/ghost",
        "chaos/Schedule/storm", "chaos/PodChaos/storm-x2v5z",
    ]  # fmt: skip
    assert codes(resolver, *named) == (1, 1, 1, 1, 2, 3, 3)
    assert codes(resolver, *named, profile=STRICT) == (1, 2, 3, 4, 5, 6, 7)


def test_unreadable_and_ambiguous_texts_are_one_wrong_each_and_the_same_text_once() -> None:
    resolver = Resolver(truth(root("flags", "shop/ConfigMap/flagd-config")), SHOP)
    named = ["it is dns", "it is dns", "it was dns", "cart", "cart", "deploy/web", "Deployment web"]
    assert codes(resolver, *named) == (1, 1, 2, 3, 3, 4, 5)
    assert codes(resolver, *named, profile=STRICT) == (1, 1, 2, 3, 3, 4, 5)


# --- names that are not whole ---------------------------------------------------------------------
