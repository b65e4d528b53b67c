"""What must hold for any truth, any inventory and any list of submissions."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from diagnose_bench.entity import Entity, parse_canonical, parse_entity
from diagnose_bench.ground_truth import GroundTruth, Group
from diagnose_bench.inventory import Inventory
from diagnose_bench.outcome import Profile
from diagnose_bench.resolver import EntityClass, ResolvedDiagnosis, Resolver

AA, STRICT = Profile.ITBENCH_AA, Profile.STRICT

NAMES = (
    "cart", "cart-db", "web", "cart-5d8f7c9b6d", "cart-5d8f7c9b6d-x2v5z", "cart-5d8f7c9b6d-bbbbb",
    "cart-db-5d8f7c9b6d-x2v5z", "web-0", "web-x2v5z", "cart-x2v5z",
)  # fmt: skip
KINDS = ("Deployment", "StatefulSet", "ReplicaSet", "Pod", "Service", "Schedule", "NetworkChaos")
FILTERS = (r"cart\b", "cart-.*", "cart-db-.*", "cart-db", ".*", "web-[0-9]+", ".*-x2v5z", "w.b")

entities = st.builds(
    lambda namespace, kind, name: f"{namespace}/{kind}/{name}",
    st.sampled_from(("shop", "blue")), st.sampled_from(KINDS), st.sampled_from(NAMES),
)  # fmt: skip
texts = st.one_of(
    entities,
    st.builds(lambda kind, name: f"{kind}/{name}", st.sampled_from(KINDS), st.sampled_from(NAMES)),
    st.sampled_from((*NAMES, "no idea at all", "", "kube-system/Pod/etcd")),
)


@st.composite
def truths(draw: st.DrawFn) -> GroundTruth:
    """A truth of few groups over few names, so that groups overlap in every way."""
    groups = []
    for number in range(draw(st.integers(0, 5))):
        group = Group(
            f"g{number}", root_cause=draw(st.booleans()), match=draw(st.sampled_from(("workload", "object")))
        )
        if draw(st.booleans()):
            group = replace(group, entities=tuple(draw(st.lists(entities, min_size=1, max_size=2))))
        else:
            group = replace(
                group,
                kind=draw(st.sampled_from(KINDS)),
                namespace=draw(st.sampled_from((None, "shop"))),
                names=tuple(draw(st.lists(st.sampled_from(NAMES), max_size=1))),
                filters=tuple(draw(st.lists(st.sampled_from(FILTERS), max_size=2))),
            )
        groups.append(group)
    ids = [group.id for group in groups]
    aliases = draw(st.lists(st.lists(st.sampled_from(ids), max_size=3).map(tuple), max_size=2)) if ids else []
    return GroundTruth("native", "scenario-001", tuple(groups), aliases=tuple(aliases))


@st.composite
def inventories(draw: st.DrawFn) -> Inventory:
    """No inventory, or a random one with random owners, circles included."""
    if draw(st.booleans()):
        return Inventory.none()
    known = [parse_canonical(text) for text in draw(st.lists(entities, max_size=8))]
    if not known:
        return Inventory()
    pairs = st.tuples(st.sampled_from(known), st.sampled_from(known))
    owners = {
        child: owner
        for child, owner in draw(st.lists(pairs, max_size=5))
        if child.namespace == owner.namespace
    }
    return Inventory(known, owners)


resolvers = st.builds(Resolver, truths(), inventories())
submissions = st.lists(texts, max_size=8)


def precision_at_full_recall(resolved: ResolvedDiagnosis) -> float:
    """The score by its definition, from the codes alone."""
    hit = {code for code in resolved.codes if code < resolved.n_root_causes}
    named = set(resolved.codes)
    if not resolved.n_root_causes:
        return 0.0 if named else 1.0
    return len(hit) / len(named) if len(hit) == resolved.n_root_causes else 0.0


@given(resolvers, submissions)
def test_strict_never_scores_higher(resolver: Resolver, submitted: list[str]) -> None:
    strict = precision_at_full_recall(resolver.resolve(submitted, STRICT))
    assert strict <= precision_at_full_recall(resolver.resolve(submitted, AA))


@given(resolvers, submissions, st.sampled_from(Profile))
def test_order_does_not_change_the_score(resolver: Resolver, submitted: list[str], profile: Profile) -> None:
    shuffled = sorted(submitted)
    first = precision_at_full_recall(resolver.resolve(submitted, profile))
    assert first == precision_at_full_recall(resolver.resolve(shuffled, profile))


@given(resolvers, submissions, st.sampled_from(Profile))
def test_repeats_do_not_change_the_codes_of_the_first(
    resolver: Resolver, submitted: list[str], profile: Profile
) -> None:
    once = resolver.resolve(submitted, profile)
    twice = resolver.resolve([*submitted, *submitted], profile)
    assert twice.codes == once.codes + once.codes
    assert twice.missed == once.missed


@given(resolvers, submissions, texts, st.sampled_from(Profile))
def test_a_wrong_entity_never_raises_the_score(
    resolver: Resolver, submitted: list[str], extra: str, profile: Profile
) -> None:
    resolved = resolver.resolve([*submitted, extra], profile)
    if resolved.codes[-1] >= resolved.n_root_causes:
        before = precision_at_full_recall(resolver.resolve(submitted, profile))
        assert precision_at_full_recall(resolved) <= before


@given(resolvers, submissions, st.sampled_from(Profile))
def test_codes_classes_and_missed_sets_agree(
    resolver: Resolver, submitted: list[str], profile: Profile
) -> None:
    resolved = resolver.resolve(submitted, profile)
    n_roots = resolved.n_root_causes
    assert resolved.codes == tuple(entry.code for entry in resolved.entities)
    assert [entry.raw for entry in resolved.entities] == submitted
    hit = {code for code in resolved.codes if code < n_roots}
    assert len(resolved.missed) == n_roots - len(hit)
    wrong = [code for code in dict.fromkeys(resolved.codes) if code >= n_roots]
    assert wrong == list(range(n_roots, n_roots + len(wrong)))
    for entry in resolved.entities:
        assert (entry.class_ is EntityClass.ROOT_CAUSE) <= (entry.code < n_roots)
        assert (entry.rule is None) == (entry.group is None)
        assert entry.distance is None or entry.class_ is EntityClass.VICTIM


@given(truths(), inventories(), submissions, st.sampled_from(Profile))
def test_the_same_input_gives_the_same_answer_whatever_was_asked_before(
    truth: GroundTruth, inventory: Inventory, submitted: list[str], profile: Profile
) -> None:
    used = Resolver(truth, inventory)
    for text in reversed(submitted):
        used.resolve([text], AA)
        used.resolve([text], STRICT)
    assert used.resolve(submitted, profile) == Resolver(truth, inventory).resolve(submitted, profile)


@given(truths(), inventories(), submissions, st.sampled_from(Profile))
def test_ids_of_groups_mean_nothing(
    truth: GroundTruth, inventory: Inventory, submitted: list[str], profile: Profile
) -> None:
    new = {group.id: f"other-{9 - number}" for number, group in enumerate(truth.groups)}
    renamed = replace(
        truth,
        groups=tuple(replace(group, id=new[group.id]) for group in truth.groups),
        aliases=tuple(tuple(new[member] for member in members) for members in truth.aliases),
    )
    before = Resolver(truth, inventory).resolve(submitted, profile)
    after = Resolver(renamed, inventory).resolve(submitted, profile)
    assert after.codes == before.codes


@given(st.text(max_size=60))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    parsed = parse_entity(text)
    assert parsed is None or parsed.name


@given(entities)
def test_the_canonical_form_makes_the_round_trip(text: str) -> None:
    entity = parse_canonical(text)
    assert str(entity) == text
    parsed = parse_entity(text)
    assert parsed is not None
    assert Entity(parsed.namespace or "", parsed.kind or "", entity.group, parsed.name) == entity


@given(resolvers, st.lists(st.text(max_size=40), max_size=5), st.sampled_from(Profile))
def test_no_text_breaks_the_resolver(resolver: Resolver, submitted: list[str], profile: Profile) -> None:
    assert len(resolver.resolve(submitted, profile).codes) == len(submitted)
