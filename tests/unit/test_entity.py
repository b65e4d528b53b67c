"""Entities are read from the accepted forms, compared exactly, and printed in one form."""

from __future__ import annotations

import pytest

from diagnose_bench.entity import (
    CLUSTER_SCOPED_KINDS,
    WORKLOAD_KINDS,
    Entity,
    ParsedEntity,
    entity_of_object,
    parse_canonical,
    parse_entity,
)
from diagnose_bench.kinds import BUILTIN_KINDS, CustomKind, plurals

CART = ParsedEntity("Deployment", None, "shop", "cart")
CART_SOMEWHERE = ParsedEntity("Deployment", None, None, "cart")


@pytest.mark.parametrize(
    "text",
    [
        "shop/Deployment/cart",
        "deployment/cart -n shop",
        "deploy/cart --namespace shop",
        "deploy/cart --namespace=shop",
        "shop/deployments/cart",
        "shop/DEPLOYMENT/cart",
        "shop/deploy/cart",
        "Deployment shop/cart",
        "Deployment: shop/cart",
        "Deployment: cart (namespace shop)",
        "Deployment/cart (namespace: shop)",
        "cart (Deployment) -n shop",
        "shop/cart (deployment)",
        "shop/cart Deployment",
        "shop/Deployment/cart uid 1234",
        "shop/Deployment/cart (uid: 12-ab)",
        "shop/Deployment/cart -n shop",
        "  shop/Deployment/cart\n",
    ],
)
def test_all_forms_of_a_namespaced_object_are_the_same(text: str) -> None:
    assert parse_entity(text) == CART


@pytest.mark.parametrize(
    "text",
    ["Deployment/cart", "deploy/cart", "cart (Deployment)", "cart Deployment", "Deployment cart",
     "Deployment: cart", "Deployment/cart uid 1234", "/Deployment/cart"],
)  # fmt: skip
def test_forms_without_a_namespace_say_none(text: str) -> None:
    assert parse_entity(text) == CART_SOMEWHERE


@pytest.mark.parametrize(
    "text",
    ["Node/worker-3", "/Node/worker-3", "-/Node/worker-3", "_cluster/node/worker-3", "cluster/nodes/worker-3",
     "cluster-scoped/no/worker-3", "unknown/Node/worker-3", "node/worker-3 -n cluster"],
)  # fmt: skip
def test_cluster_scoped_kinds_drop_the_ways_to_say_no_namespace(text: str) -> None:
    assert parse_entity(text) == ParsedEntity("Node", None, None, "worker-3")


def test_a_namespace_drops_its_own_name_and_no_other() -> None:
    assert parse_entity("otel-demo/Namespace/otel-demo") == ParsedEntity("Namespace", None, None, "otel-demo")
    assert parse_entity("kube-system/Namespace/otel-demo") == ParsedEntity(
        "Namespace", None, "kube-system", "otel-demo"
    )


def test_a_namespaced_kind_keeps_the_namespace_unknown() -> None:
    assert parse_entity("unknown/Service/kubernetes") == ParsedEntity(
        "Service", None, "unknown", "kubernetes"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("edge/IngressRoute.traefik.io/orders", ParsedEntity("IngressRoute", "traefik.io", "edge", "orders")),
        ("otel-demo/Pod/product-catalog", ParsedEntity("Pod", None, "otel-demo", "product-catalog")),
        ("unknown/Cluster/10.0.185.154:443", ParsedEntity("Cluster", None, "unknown", "10.0.185.154:443")),
        ("kube-system/APIServer/kube-apiserver",
         ParsedEntity("APIServer", None, "kube-system", "kube-apiserver")),
        ("cluster-wide", ParsedEntity(None, None, None, "cluster-wide")),
        ("currency-svcport-8080-tcp-tcp-service Port",
         ParsedEntity("Port", None, None, "currency-svcport-8080-tcp-tcp-service")),
        ("service/flagd", ParsedEntity("Service", None, None, "flagd")),
        ("flagd Service", ParsedEntity("Service", None, None, "flagd")),
        ("currency (Service)", ParsedEntity("Service", None, None, "currency")),
        ("flagd-config (ConfigMap)", ParsedEntity("ConfigMap", None, None, "flagd-config")),
        ("ClusterRole: system:node", ParsedEntity("ClusterRole", None, None, "system:node")),
        ("shop/deployments.v1.apps/cart", ParsedEntity("Deployment", "", "shop", "cart")),
        ("shop/Deployment/cart/extra", ParsedEntity("Deployment", None, "shop", "cart/extra")),
        ("service Deployment", ParsedEntity("Deployment", None, None, "service")),
    ],
)  # fmt: skip
def test_real_names_are_read(text: str, expected: ParsedEntity) -> None:
    assert parse_entity(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "   ", "\u200b", "the cart deployment is broken", "shop/Deployment/", "shop//cart", "/",
     "shop/Deployment/cart -n other", "shop/Deployment/cart (Service)", "shop/D\u0435ployment/cart",
     "shop/Deployment/ca\nrt", "shop/Deployment/ca\x00rt", "shop/Deployment/\ud800", "a" * 5000],
)  # fmt: skip
def test_anything_else_is_unparseable(text: str) -> None:
    assert parse_entity(text) is None


def test_invisible_characters_at_the_ends_are_trimmed_and_noted() -> None:
    parsed = parse_entity("\ufeff shop/Deployment/cart\u200b")
    assert parsed is not None
    assert (parsed.namespace, parsed.kind, parsed.name) == ("shop", "Deployment", "cart")
    assert parsed.notes == ("trimmed invisible characters at the ends: U+200B, U+FEFF",)


@pytest.mark.parametrize("name", ["c\u0430rt", "ca\u200brt", "Cart", "cart\u0301"])
def test_names_are_compared_exactly(name: str) -> None:
    parsed = parse_entity(f"shop/Deployment/{name}")
    assert parsed is not None
    assert parsed.name != "cart"


def test_the_kelvin_sign_is_no_letter_of_a_kind() -> None:
    assert parse_entity("shop/networ\u212apolicy/x") is None


def test_a_known_namespace_before_a_name_is_no_kind() -> None:
    assert parse_entity("shop/cart", namespaces={"shop"}) == ParsedEntity(None, None, "shop", "cart")
    assert parse_entity("deploy/cart", namespaces={"deploy"}) == CART_SOMEWHERE


def test_custom_kinds_are_read_in_any_case_plural_and_short() -> None:
    kinds = BUILTIN_KINDS.extended(
        [
            CustomKind("IngressRoute", "traefik.io", ("ingressroutes", "ir")),
            CustomKind("Zone", "dns.io", (), True),
        ]
    )
    for kind in ("IngressRoute", "ingressroute", "INGRESSROUTES"):
        parsed = parse_entity(f"edge/{kind}/orders", kinds)
        assert parsed is not None
        assert parsed.kind == "IngressRoute"
    assert parse_entity("edge/ir/orders", kinds) == ParsedEntity(
        "IngressRoute", "traefik.io", "edge", "orders"
    )
    assert parse_entity("cluster/zones/z1", kinds) == ParsedEntity("Zone", None, None, "z1")


def test_a_custom_kind_does_not_take_a_built_in_name() -> None:
    kinds = BUILTIN_KINDS.extended([CustomKind("Service", "serving.knative.dev", ("services", "ksvc"))])
    assert kinds.lookup("services").group is None
    assert kinds.lookup("ksvc").group == "serving.knative.dev"


@pytest.mark.parametrize(
    ("kind", "plural"),
    [("Pod", "pods"), ("Ingress", "ingresses"), ("NetworkPolicy", "networkpolicies"),
     ("Endpoints", "endpoints"),
     ("Gateway", "gateways"), ("PodChaos", "podchaos"), ("IngressClass", "ingressclasses")],
)  # fmt: skip
def test_plurals_as_kubernetes_makes_them(kind: str, plural: str) -> None:
    assert plurals(kind)[0] == plural


@pytest.mark.parametrize(
    ("text", "entity"),
    [
        ("shop/Deployment/cart", Entity("shop", "Deployment", "", "cart")),
        ("Node/worker-3", Entity("", "Node", "", "worker-3")),
        ("edge/IngressRoute.traefik.io/orders", Entity("edge", "IngressRoute", "traefik.io", "orders")),
        (
            "shop/HorizontalPodAutoscaler/cart",
            Entity("shop", "HorizontalPodAutoscaler", "autoscaling", "cart"),
        ),
        ("chaos-mesh/Schedule/delay", Entity("chaos-mesh", "Schedule", "chaos-mesh.org", "delay")),
    ],
)
def test_the_canonical_form_is_read_and_printed_alike(text: str, entity: Entity) -> None:
    assert parse_canonical(text) == entity
    assert str(entity) == text


def test_a_group_that_the_kind_already_says_is_not_printed() -> None:
    assert str(parse_canonical("shop/CronJob.batch/backup")) == "shop/CronJob/backup"
    assert str(parse_canonical("shop/Deployment.apps/cart")) == "shop/Deployment/cart"


@pytest.mark.parametrize(
    "text",
    ["cart", "shop/deployment/cart", "shop/Deployment/a/b", "shop/Node/worker-3", "", "shop/Deployment/ca rt",
     "shop/Deployment/cart\u200b", "a/b/c/d"],
)  # fmt: skip
def test_other_forms_are_not_canonical(text: str) -> None:
    with pytest.raises(ValueError, match=r"entity|invisible|namespace"):
        parse_canonical(text)


@pytest.mark.parametrize(
    ("api_version", "kind", "namespace", "printed"),
    [
        ("v1", "ConfigMap", "shop", "shop/ConfigMap/x"),
        ("apps/v1", "Deployment", "shop", "shop/Deployment/x"),
        ("extensions/v1beta1", "Deployment", "shop", "shop/Deployment/x"),
        ("autoscaling/v2", "HorizontalPodAutoscaler", "shop", "shop/HorizontalPodAutoscaler/x"),
        ("serving.knative.dev/v1", "Service", "shop", "shop/Service.serving.knative.dev/x"),
        ("gateway.networking.k8s.io", "Gateway", "shop", "shop/Gateway.gateway.networking.k8s.io/x"),
        ("v1", "Node", None, "Node/x"),
        ("v1", "Namespace", "x", "Namespace/x"),
        ("chaos-mesh.org/v1alpha1", "HttpChaos", "chaos", "chaos/HTTPChaos/x"),
    ],
)
def test_entity_of_a_manifest(api_version: str, kind: str, namespace: str | None, printed: str) -> None:
    manifest = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": namespace}}
    assert str(entity_of_object(manifest)) == printed


@pytest.mark.parametrize(
    "manifest",
    [{}, {"kind": "Pod"}, {"apiVersion": "v1", "kind": "Pod", "metadata": {}},
     {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 3}},
     {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": 3}},
     {"apiVersion": "v1", "kind": "Pod", "metadata": "x"}],
)  # fmt: skip
def test_a_manifest_without_identity_has_no_entity(manifest: dict[str, object]) -> None:
    assert entity_of_object(manifest) is None


def test_the_closed_sets_of_kinds() -> None:
    assert {"Pod", "ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"} == WORKLOAD_KINDS
    assert {"Node", "Namespace", "PersistentVolume", "ClusterRole", "StorageClass"} <= CLUSTER_SCOPED_KINDS
    assert not WORKLOAD_KINDS & CLUSTER_SCOPED_KINDS
