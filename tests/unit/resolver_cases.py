"""Truths and inventories in a line each, for the tests of the resolver."""

from __future__ import annotations

from collections.abc import Sequence

from diagnose_bench.entity import Entity, parse_canonical
from diagnose_bench.ground_truth import Decoy, GroundTruth, Group, Propagation
from diagnose_bench.inventory import Inventory
from diagnose_bench.outcome import Profile
from diagnose_bench.resolver import ResolvedEntity, Resolver

AA, STRICT = Profile.ITBENCH_AA, Profile.STRICT
E = parse_canonical


def truth(
    *groups: Group,
    aliases: Sequence[tuple[str, ...]] = (),
    propagation: Sequence[tuple[str, str]] = (),
    decoys: Sequence[str] = (),
) -> GroundTruth:
    return GroundTruth(
        format="native",
        scenario_id="scenario-001",
        groups=groups,
        aliases=tuple(aliases),
        propagation=tuple(Propagation(source, target) for source, target in propagation),
        decoys=tuple(Decoy(entity) for entity in decoys),
        no_fault=not any(group.root_cause for group in groups),
    )


def root(group_id: str, *entities: str, match: str = "workload") -> Group:
    return Group(group_id, entities, root_cause=True, match="object" if match == "object" else "workload")


def other(group_id: str, *entities: str) -> Group:
    return Group(group_id, entities)


def pattern(
    group_id: str, kind: str, *filters: str, is_root: bool = False, namespace: str | None = "shop",
    names: tuple[str, ...] = (),
) -> Group:  # fmt: skip
    return Group(group_id, kind=kind, namespace=namespace, filters=filters, names=names, root_cause=is_root)


def inventory(*texts: str) -> Inventory:
    """Objects; ``child<owner`` adds an owner reference."""
    entities: list[Entity] = []
    owners: dict[Entity, Entity] = {}
    for text in texts:
        child, _, owner = text.partition("<")
        entities.append(E(child))
        if owner:
            owners[E(child)] = E(owner)
    return Inventory(entities, owners)


SHOP = inventory(
    "shop/Deployment/cart",
    "shop/ReplicaSet/cart-755465879b<shop/Deployment/cart",
    "shop/Pod/cart-755465879b-aaaaa<shop/ReplicaSet/cart-755465879b",
    "shop/Pod/cart-755465879b-bbbbb<shop/ReplicaSet/cart-755465879b",
    "shop/Service/cart",
    "shop/Deployment/valkey-cart",
    "shop/Deployment/frontend",
    "shop/Deployment/frontend-proxy",
    "shop/Service/frontend",
    "shop/Service/frontend-proxy",
    "shop/StatefulSet/kafka",
    "shop/ConfigMap/flagd-config",
    "blue/Deployment/web",
    "green/Deployment/web",
    "Node/worker-1",
    "Namespace/shop",
)


def one(resolver: Resolver, text: str, profile: Profile = AA) -> ResolvedEntity:
    (entry,) = resolver.resolve([text], profile).entities
    return entry


def codes(resolver: Resolver, *texts: str, profile: Profile = AA) -> tuple[int, ...]:
    return resolver.resolve(texts, profile).codes
