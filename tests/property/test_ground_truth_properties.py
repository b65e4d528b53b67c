from __future__ import annotations

import contextlib
import copy
import json
import tempfile
from pathlib import Path
from typing import Any

import jsonschema
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from diagnose_bench.errors import GroundTruthError
from diagnose_bench.ground_truth import (
    ground_truth_schema,
    load_ground_truth,
    load_ground_truths,
    load_patches,
)
from diagnose_bench.ground_truth_document import parse_document
from diagnose_bench.ground_truth_native import NativeTruth
from diagnose_bench.ground_truth_refusal import Refusal
from diagnose_bench.ground_truth_validation import validate

SCHEMA = ground_truth_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | st.from_regex(r"\A[-+]?[0-9.eE_:x]{1,8}\Z"),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(texts, children, max_size=4),
    max_leaves=12,
)
ids = st.sampled_from(["a", "b", "c", "d"])
groups = st.fixed_dictionaries(
    {
        "id": ids,
        "entities": st.lists(
            st.sampled_from(["shop/Deployment/a", "shop/Pod/b", "Node/n", "shop/Service/a"]),
            min_size=1,
            max_size=2,
        ),
        "root_cause": st.booleans(),
    }
)
truths = st.fixed_dictionaries(
    {
        "format_version": st.just(1),
        "scenario_id": st.just("scenario-001"),
        "groups": st.lists(groups, max_size=4),
        "aliases": st.lists(st.lists(ids, max_size=3), max_size=2),
        "propagation": st.lists(st.fixed_dictionaries({"source": ids, "target": ids}), max_size=3),
        "no_fault": st.booleans(),
    }
)


FULL: dict[str, Any] = {
    "format_version": 1,
    "scenario_id": "scenario-001",
    "title": "t",
    "groups": [{"id": "a", "entities": ["shop/Pod/a"], "root_cause": True, "match": "object"}],
    "aliases": [["a"]],
    "alias_reasons": ["r"],
    "propagation": [{"source": "a", "target": "a", "effect": "e"}],
    "decoys": [{"entity": "shop/Pod/b", "why": "w"}],
    "evidence": [{"group": "a", "file": "f", "query": "q", "shows": "s"}],
    "remediation": {"x": [1]},
    "family": "f",
    "difficulty": 3,
    "no_fault": False,
    "sources": [{"url": "u", "date": "d", "title": "t"}],
    "provenance": {"labelled_by": "l", "reviewed_by": "r", "confidence": 0.5, "notes": "n"},
    "canary": "diagnose-bench:1",
}


def load(content: bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "truth.yaml"
        path.write_bytes(content)
        return load_ground_truth(path)


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
@example(b"- &a [*a]")
@example(b"%YAML 9.9\n---\na")
@example(b"? ? ?")
@example(b"{a: 1")
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(Refusal):
        parse_document(data)


@given(values)
def test_any_value_is_a_truth_or_refused(value: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "truth.yaml"
        path.write_text(json.dumps(value))
        for read in (load_ground_truth, load_ground_truths, load_patches):
            message = f"{path}: $"
            try:
                read(path)
            except GroundTruthError as error:
                message = str(error)
            assert message.startswith(f"{path}: $")


@given(values)
@example("-.0")
def test_yaml_and_json_of_a_value_are_read_alike(value: Any) -> None:
    assert parse_document(f"# YAML\n{yaml.safe_dump(value, allow_unicode=True)}".encode()).value == value
    # A JSON text is told from YAML by its first character, so a bare string with escapes would be YAML.
    assert parse_document(json.dumps([value]).encode()).value == [value]


def is_accepted(document: Any) -> bool:
    try:
        validate(NativeTruth, document)
    except Refusal:
        return False
    return True


@given(st.sets(st.sampled_from(sorted(set(FULL) - {"format_version", "scenario_id", "groups"}))))
def test_every_other_field_is_optional_to_schema_and_model(absent: set[str]) -> None:
    document = {key: value for key, value in FULL.items() if key not in absent}
    assert VALIDATOR.is_valid(document)
    assert is_accepted(document)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        found += places(child, (*path, key))
    return found


@settings(max_examples=150)
@given(st.data())
def test_schema_and_model_are_strict_alike(data: st.DataObject) -> None:
    document = copy.deepcopy(FULL)
    *parents, last = data.draw(st.sampled_from([path for path in places(FULL) if path]))
    holder: Any = document
    for step in parents:
        holder = holder[step]
    # A whole number written as 3.0 is an integer to JSON Schema alone.
    replacement = data.draw(st.none() | st.booleans() | st.integers(-2, 7) | st.just(0.5) | texts | values)
    if isinstance(replacement, float) and replacement.is_integer():
        replacement = 0.5
    if data.draw(st.booleans()):
        holder[last] = replacement
    elif isinstance(holder, dict):
        del holder[last]
        holder[data.draw(st.just(last) | texts)] = replacement
    else:
        holder.append(replacement)
    assert is_accepted(document) == VALIDATOR.is_valid(document)


@given(truths)
def test_a_loaded_truth_is_consistent(document: dict[str, Any]) -> None:
    try:
        loaded = load(json.dumps(document).encode())
    except GroundTruthError:
        return
    truth = loaded.truth
    known = [group.id for group in truth.groups]
    assert len(set(known)) == len(known)
    assert bool(truth.root_groups) != truth.no_fault
    assert all(member in known for members in truth.aliases for member in members)
    assert all(end in known for step in truth.propagation for end in (step.source, step.target))
    n_dropped = (
        len(document["groups"]) - len(truth.groups) + len(document["propagation"]) - len(truth.propagation)
    )
    assert n_dropped <= len(loaded.warnings)


@given(truths, st.randoms(use_true_random=False))
def test_order_of_groups_and_aliases_changes_no_verdict(document: dict[str, Any], random: Any) -> None:
    shuffled = copy.deepcopy(document)
    random.shuffle(shuffled["groups"])
    random.shuffle(shuffled["aliases"])
    verdicts = []
    for each in (document, shuffled):
        try:
            verdicts.append(frozenset(load(json.dumps(each).encode()).truth.groups))
        except GroundTruthError:
            verdicts.append(frozenset())
    assert verdicts[0] == verdicts[1]
