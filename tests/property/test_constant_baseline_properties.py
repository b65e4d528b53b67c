"""The constant baseline is what its definition says, though it resolves few names."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st
from property.test_resolver_properties import FILTERS, KINDS, NAMES, entities, texts, truths

from diagnose_bench.constant_baseline import BlindScenario, blind_scores, names_in_groups
from diagnose_bench.entity import parse_canonical
from diagnose_bench.filters import Filter
from diagnose_bench.inventory import Inventory
from diagnose_bench.name_index import NameIndex
from diagnose_bench.outcome import Profile
from diagnose_bench.resolver import Resolver

MORE_TEXTS = (
    "a/b/c/d",
    "/Deployment/cart",
    "shop/cart(Pod)",
    "Pod: shop/cart",
    "web",
    "Deployment/cart -n shop",
)


@st.composite
def inventories(draw: st.DrawFn) -> Inventory:
    """No inventory, or one whose owners need not be in it."""
    if draw(st.booleans()):
        return Inventory.none()
    known = [parse_canonical(text) for text in draw(st.lists(entities, max_size=6))]
    owners = {}
    for child in known:
        if draw(st.booleans()):
            owners[child] = parse_canonical(
                f"{child.namespace}/{draw(st.sampled_from(KINDS))}/{draw(st.sampled_from(NAMES))}"
            )
    return Inventory(known, owners)


@st.composite
def scenarios(draw: st.DrawFn) -> BlindScenario:
    truth, inventory = draw(truths()), draw(inventories())
    return BlindScenario(Resolver(truth, inventory), inventory, names_in_groups(truth.groups))


def hits(resolver: Resolver, name: str) -> bool:
    return resolver.resolve([name], Profile.ITBENCH_AA).codes[0] < resolver.n_root_causes


def by_definition(suite: Mapping[str, BlindScenario], left_out: str) -> str | None:
    """The known name that hits in most of the other scenarios, the first one of a tie."""
    others = {one: scenario for one, scenario in suite.items() if one != left_out}
    known = {
        name
        for one in others.values()
        for name in (one.group_names if one.inventory.is_none else map(str, one.inventory.entities))
        if hits(one.resolver, name)
    }
    return max(
        sorted(known),
        key=lambda name: sum(hits(one.resolver, name) for one in others.values()),
        default=None,
    )


@given(st.lists(scenarios(), min_size=1, max_size=5))
@settings(max_examples=150)
def test_the_constant_answer_is_the_one_of_the_definition(drawn: list[BlindScenario]) -> None:
    suite = {f"scenario-{number:03d}": one for number, one in enumerate(drawn, start=1)}
    found = blind_scores(suite)
    for one, scenario in suite.items():
        name = by_definition(suite, one)
        assert found.entities[one] == name
        is_right = name is not None and scenario.resolver.n_root_causes == 1 and hits(scenario.resolver, name)
        assert found.constant[one] == is_right
        assert found.empty[one] == (scenario.resolver.n_root_causes == 0)


@given(scenarios(), st.lists(st.one_of(texts, st.sampled_from(MORE_TEXTS)), unique=True, max_size=20))
@settings(max_examples=300)
def test_no_name_that_hits_is_left_out(scenario: BlindScenario, names: list[str]) -> None:
    possible = NameIndex(names).possible(scenario.resolver)
    assert {name for name in names if hits(scenario.resolver, name)} <= possible <= set(names)


@given(
    st.sampled_from(
        (*FILTERS, "cart|web", "carts?", "carts*-db", "we{0,1}b", "^cart-", r"cart\-db", "(?i)CART", "ca+rt")
    ),
    st.sampled_from((*NAMES, "CART", "wb", "car", "carts", "caart")),
)
def test_a_name_that_fits_a_filter_has_its_prefix(pattern: str, name: str) -> None:
    item = Filter(pattern)
    assert not item.fits(name) or name.startswith(item.prefix)
