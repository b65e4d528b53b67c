"""Both profiles from one pass: against the reference in sets, the resolver, and each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from property.strategies import PlainTrial, batches, plain_trials
from property.test_scoring_properties import MEASURES, batch_of
from unit.reference import reference_scores

import scoring
from diagnose_bench.ground_truth import GroundTruth, load_ground_truth
from diagnose_bench.inventory import Inventory
from diagnose_bench.outcome import Profile
from diagnose_bench.resolver import Resolver
from scoring import _columns, _tally


@given(batches)
def test_headline_scores_are_those_of_the_full_pass_bit_for_bit(plain: list[PlainTrial]) -> None:
    batch = batch_of(plain)
    whole, headline = scoring.score_trials(batch), scoring.headline_scores(batch)
    for measure in ("precision_at_full_recall", "ranked_precision_at_full_recall"):
        np.testing.assert_array_equal(getattr(headline, measure), getattr(whole, measure))


@given(st.lists(plain_trials(max_size=40), max_size=8), st.integers(1, 6), st.integers(0, 3))
def test_where_trials_are_long_changes_nothing(
    plain: list[PlainTrial], max_length: int, max_root_causes: int
) -> None:
    batch = batch_of(plain)
    whole = scoring.score_trials(batch, hits_at=(1, 3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_columns, "MAX_LENGTH", max_length)
        patch.setattr(_columns, "MAX_ROOT_CAUSES", max_root_causes)
        other = scoring.score_trials(batch, hits_at=(1, 3))
    for measure in (*MEASURES, "full_recall", "exact"):
        np.testing.assert_array_equal(getattr(whole, measure), getattr(other, measure))
    for k in (1, 3):
        np.testing.assert_array_equal(whole.hits_at[k], other.hits_at[k])


@given(batches, st.integers(1, 9))
def test_hits_at_k_are_the_root_causes_among_the_first_k_distinct(plain: list[PlainTrial], k: int) -> None:
    found = scoring.score_trials(batch_of(plain), hits_at=[k]).hits_at[k]
    expected = [sum(c < one.n_root_causes for c in list(dict.fromkeys(one.codes))[:k]) for one in plain]
    assert found.tolist() == expected


@given(batches)
def test_half_as_wide_codes_score_the_same(plain: list[PlainTrial]) -> None:
    wide = batch_of(plain)
    narrow = scoring.TrialBatch(
        wide.codes.astype(np.int32), wide.offsets, wide.n_root_causes, wide.has_diagnosis
    )
    assert narrow.codes.dtype == np.int32
    for measure in MEASURES:
        np.testing.assert_array_equal(
            getattr(scoring.score_trials(wide), measure), getattr(scoring.score_trials(narrow), measure)
        )


# An entity is a root-cause set, or -1 for a wrong one, and how many objects it has.
_ENTITIES = st.lists(st.tuples(st.integers(-1, 3), st.integers(1, 3)), min_size=1, max_size=6)


@st.composite
def named_trials(draw: st.DrawFn) -> tuple[list[tuple[int, int, int, int]], list[list[int]], list[int]]:
    """A table of names, trials that name rows of it, and each trial's number of root causes."""
    rows = []
    for logical, (root, n_objects) in enumerate(draw(_ENTITIES)):
        for number in range(n_objects):
            # An alias or another object may hit the set by workload only.
            hits = root if root < 0 else draw(st.sampled_from([root, root, -1]))
            rows.append((100 + logical if root < 0 else root, root, 10 * logical + number, hits))
    trials = draw(st.lists(st.lists(st.integers(0, len(rows) - 1), max_size=12), max_size=8))
    return rows, trials, [draw(st.integers(4, 5)) for _ in trials]


def named_batch(
    rows: Sequence[tuple[int, int, int, int]], trials: Sequence[Sequence[int]], n_roots: Sequence[int]
) -> scoring.NamedBatch:
    table = scoring.NameTable(*(np.array(column, dtype=np.int32) for column in zip(*rows, strict=True)))
    return scoring.NamedBatch(
        names=np.array([name for trial in trials for name in trial], dtype=np.int32),
        offsets=np.cumsum([0, *map(len, trials)], dtype=np.int64),
        n_root_causes=np.array(n_roots, dtype=np.int64),
        has_diagnosis=np.ones(len(trials), dtype=bool),
        table=table,
    )


def strict_codes(rows: Sequence[tuple[int, int, int, int]], trial: Sequence[int], n_roots: int) -> list[int]:
    """Codes by the rule: the first object of a root-cause set is it, every other object is wrong."""
    first: dict[int, int] = {}
    codes = []
    for name in trial:
        _, _, thing, root = rows[name]
        is_it = root >= 0 and first.setdefault(root, thing) == thing
        codes.append(root if is_it else n_roots + thing)
    return codes


@given(named_trials())
def test_both_profiles_agree_with_the_reference(
    drawn: tuple[list[tuple[int, int, int, int]], list[list[int]], list[int]],
) -> None:
    rows, trials, n_roots = drawn
    scores = scoring.score_profiles(named_batch(rows, trials, n_roots))
    for index, (trial, n) in enumerate(zip(trials, n_roots, strict=True)):
        logical = reference_scores([rows[name][0] for name in trial], n)
        strict = reference_scores(strict_codes(rows, trial, n), n)
        for measure in MEASURES:
            assert getattr(scores.logical, measure)[index] == pytest.approx(logical[measure], abs=1e-12)
            assert getattr(scores.strict, measure)[index] == pytest.approx(strict[measure], abs=1e-12)


@given(named_trials())
def test_strict_is_never_above_the_logical_profile(
    drawn: tuple[list[tuple[int, int, int, int]], list[list[int]], list[int]],
) -> None:
    scores = scoring.score_profiles(named_batch(*drawn))
    for measure in ("precision_at_full_recall", "ranked_precision_at_full_recall", "recall"):
        assert bool(np.all(getattr(scores.strict, measure) <= getattr(scores.logical, measure) + 1e-12))


@given(named_trials(), st.integers(1, 3), st.integers(1, 5))
def test_blocks_change_nothing_for_two_profiles(
    drawn: tuple[list[tuple[int, int, int, int]], list[list[int]], list[int]], n_trials: int, n_codes: int
) -> None:
    batch = named_batch(*drawn)
    whole = scoring.score_profiles(batch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_tally, "_BLOCK_TRIALS", n_trials)
        patch.setattr(_tally, "_BLOCK_CODES", n_codes)
        cut = scoring.score_profiles(batch)
    for measure in MEASURES:
        np.testing.assert_array_equal(getattr(whole.logical, measure), getattr(cut.logical, measure))
        np.testing.assert_array_equal(getattr(whole.strict, measure), getattr(cut.strict, measure))


_NAMES = (
    *(f"shop/Deployment/{name}" for name in ("cart", "valkey", "mail")),
    *("shop/Pod/cart-5d8f7c9b6d-x2v5z", "shop/Pod/cart-5d8f7c9b6d-zzzzz", "shop/ReplicaSet/cart-5d8f7c9b6d"),
    *("shop/Service/cart", "cart", "deploy/valkey", "", "?", "shop/ConfigMap/flags", "a/Pod/b", "a/pods/b"),
)


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> GroundTruth:
    path = tmp_path_factory.mktemp("truth") / "scenario-001.yaml"
    path.write_text(
        "format_version: 1\nscenario_id: scenario-001\ntitle: A test\n"
        "groups:\n"
        "- {id: cart, entities: [shop/Deployment/cart], root_cause: true}\n"
        "- {id: flags, entities: [shop/ConfigMap/flags]}\n"
        "- {id: valkey, entities: [shop/Deployment/valkey], root_cause: true}\n"
        "aliases: [[cart, flags]]\n"
        "alias_reasons: [the flag is in it]\n"
    )
    return load_ground_truth(path).truth


@given(names=st.lists(st.sampled_from(_NAMES), max_size=10))
def test_names_by_themselves_score_like_the_whole_list(truth: GroundTruth, names: list[str]) -> None:
    resolver = Resolver(truth, Inventory.none())
    units: dict[object, int] = {}
    rows = []
    for name in _NAMES:
        identity = resolver.identify(name)
        loose, strict = identity[Profile.ITBENCH_AA], identity[Profile.STRICT]
        root, strict_root = (-1 if one.root_set is None else one.root_set for one in (loose, strict))
        logical = units.setdefault(("set", root) if root >= 0 else loose.key, len(units))
        rows.append((logical, root, units.setdefault((strict_root, strict.key), len(units)), strict_root))
    batch = named_batch(rows, [[_NAMES.index(name) for name in names]], [resolver.n_root_causes])
    scores = scoring.score_profiles(batch)
    for profile, found in ((Profile.ITBENCH_AA, scores.logical), (Profile.STRICT, scores.strict)):
        expected = reference_scores(resolver.resolve(names, profile).codes, resolver.n_root_causes)
        for measure in MEASURES:
            assert getattr(found, measure)[0] == pytest.approx(expected[measure], abs=1e-12)
