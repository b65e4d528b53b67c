from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from diagnose_bench.errors import GroundTruthError
from diagnose_bench.ground_truth import (
    GroundTruth,
    Group,
    ground_truth_schema,
    load_ground_truth,
    load_ground_truths,
    load_truths,
)

NATIVE = """\
format_version: 1
scenario_id: scenario-017
title: CoreDNS runs out of memory
groups:
  - {id: coredns, entities: [kube-system/Deployment/coredns], root_cause: true}
  - {id: coredns-config, entities: [kube-system/ConfigMap/coredns]}
  - {id: aggregator, entities: [shop/Deployment/aggregation], match: object}
aliases: [[coredns, coredns-config]]
alias_reasons: [the memory limit stands in either]
propagation: [{source: coredns, target: aggregator, effect: lookups time out}]
decoys: [{entity: shop/Deployment/cart, why: restarted an hour before}]
evidence: [{group: coredns, file: events.jsonl, query: OOMKilled, shows: the kills}]
remediation: {raise: memory}
family: dns-capacity
difficulty: 3
sources: [{url: https://example.org/postmortem, date: 2024-05-01}]
provenance: {labelled_by: suite maintainer, reviewed_by: second reader, confidence: 0.9}
canary: diagnose-bench:0f1e2d3c
"""


def native(**changes: Any) -> dict[str, Any]:
    document: dict[str, Any] = yaml.load(NATIVE, Loader=yaml.BaseLoader)
    document.update(
        format_version=1,
        difficulty=3,
        provenance={},
        groups=[
            {"id": "coredns", "entities": ["kube-system/Deployment/coredns"], "root_cause": True},
            {"id": "coredns-config", "entities": ["kube-system/ConfigMap/coredns"]},
            {"id": "aggregator", "entities": ["shop/Deployment/aggregation"]},
        ],
    )
    document.update(changes)
    return document


def write(folder: Path, content: Any, name: str = "scenario-017.yaml") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def refusal(folder: Path, content: Any, **options: Any) -> str:
    path = write(folder, content)
    with pytest.raises(GroundTruthError) as caught:
        load_ground_truth(path, **options)
    lines = str(caught.value).splitlines()
    assert all(line.startswith(f"{path}: $") for line in lines)
    return "\n".join(line.removeprefix(f"{path}: ") for line in lines)


def test_native_truth_is_read_field_by_field(tmp_path: Path) -> None:
    path = write(tmp_path, NATIVE)
    loaded = load_ground_truth(path, scenario_id="scenario-017")
    truth = loaded.truth
    assert truth.format == "native"
    assert truth.groups == (
        Group(id="coredns", entities=("kube-system/Deployment/coredns",), root_cause=True),
        Group(id="coredns-config", entities=("kube-system/ConfigMap/coredns",)),
        Group(id="aggregator", entities=("shop/Deployment/aggregation",), match="object"),
    )
    assert truth.root_groups == truth.groups[:1]
    assert truth.aliases == (("coredns", "coredns-config"),)
    assert truth.alias_reasons == ("the memory limit stands in either",)
    step = truth.propagation[0]
    assert (step.source, step.target, step.effect) == ("coredns", "aggregator", "lookups time out")
    assert (truth.decoys[0].entity, truth.decoys[0].why) == (
        "shop/Deployment/cart",
        "restarted an hour before",
    )
    assert (truth.evidence[0].group, truth.evidence[0].file) == ("coredns", "events.jsonl")
    assert truth.remediation == {"raise": "memory"}
    assert (truth.family, truth.difficulty, truth.no_fault) == ("dns-capacity", 3, False)
    assert truth.provenance == {
        "labelled_by": "suite maintainer",
        "reviewed_by": "second reader",
        "confidence": 0.9,
    }
    assert truth.canary == "diagnose-bench:0f1e2d3c"
    assert loaded.warnings == ()
    assert loaded.patches == ()
    assert loaded.digest == hashlib.sha256(NATIVE.encode()).hexdigest()


def test_a_date_in_yaml_stays_text(tmp_path: Path) -> None:
    truth = load_ground_truth(write(tmp_path, NATIVE)).truth
    assert truth.sources == ({"url": "https://example.org/postmortem", "date": "2024-05-01"},)


def test_no_root_cause_is_refused_unless_no_fault(tmp_path: Path) -> None:
    groups = [{"id": "a", "entities": ["shop/Deployment/a"]}]
    plain = native(groups=groups, aliases=[], alias_reasons=[], propagation=[], evidence=[], no_fault=False)
    assert refusal(tmp_path, plain).startswith("$.groups: no root cause.")
    truth = load_ground_truth(write(tmp_path, {**plain, "no_fault": True})).truth
    assert truth.no_fault
    assert truth.root_groups == ()


def test_no_fault_with_a_root_cause_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, native(no_fault=True)).startswith(
        "$.groups[0]: the scenario says no_fault: true"
    )


def test_dangling_alias_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    reason = refusal(tmp_path, NATIVE.replace("[[coredns, coredns-config]]", "[[coredns, coredns-confg]]"))
    # Line 8 is the line of the aliases.
    assert reason == '$.aliases[0][1]: unknown group "coredns-confg". Did you mean "coredns-config"? (line 8)'


def test_same_id_with_different_content_is_refused(tmp_path: Path) -> None:
    groups = [*native()["groups"], {"id": "aggregator", "entities": ["shop/Deployment/other"]}]
    reason = refusal(tmp_path, native(groups=groups))
    assert reason.startswith('$.groups[3]: the group "aggregator" stands at $.groups[2] already')
    assert "different content" in reason


def test_identical_group_is_dropped_with_a_warning(tmp_path: Path) -> None:
    groups = native()["groups"]
    loaded = load_ground_truth(write(tmp_path, native(groups=[*groups, groups[2]])))
    assert [group.id for group in loaded.truth.groups] == ["coredns", "coredns-config", "aggregator"]
    assert len(loaded.warnings) == 1
    assert loaded.warnings[0].startswith('$.groups[3]: dropped: the group "aggregator" stands at $.groups[2]')


def test_same_entity_in_root_and_unaliased_victim_is_refused(tmp_path: Path) -> None:
    groups = [*native()["groups"], {"id": "twin", "entities": ["kube-system/Deployment/coredns"]}]
    reason = refusal(tmp_path, native(groups=groups))
    assert reason.startswith('$.groups[3]: the group "twin" is no root cause and names the same entity')
    aliases = [["coredns", "coredns-config"], ["coredns-config", "twin"]]
    # twin and coredns overlap through coredns-config: one class, so no contradiction.
    loaded = load_ground_truth(write(tmp_path, native(groups=groups, aliases=aliases, alias_reasons=[])))
    assert loaded.warnings == ()


def test_same_entity_in_two_unaliased_roots_is_warned_of_once(tmp_path: Path) -> None:
    twin = {"id": "twin", "entities": ["kube-system/Deployment/coredns"], "root_cause": True}
    loaded = load_ground_truth(write(tmp_path, native(groups=[*native()["groups"], twin])))
    assert len(loaded.warnings) == 1
    assert loaded.warnings[0].startswith('$.groups[3]: the root cause "twin" names the same entity')


def test_dangling_ids_elsewhere_are_dropped_with_a_warning(tmp_path: Path) -> None:
    document = native(
        propagation=[
            {"source": "coredns", "target": "aggregater"},
            {"source": "coredns", "target": "aggregator"},
        ],
        evidence=[{"group": "nobody-knows", "file": "events.jsonl"}],
    )
    loaded = load_ground_truth(write(tmp_path, document))
    assert [step.target for step in loaded.truth.propagation] == ["aggregator"]
    assert loaded.truth.evidence == ()
    assert loaded.warnings == (
        '$.propagation[0].target: dropped: unknown group "aggregater". Did you mean "aggregator"?',
        '$.evidence[0].group: dropped: unknown group "nobody-knows".',
    )


def test_decoy_that_is_a_root_cause_is_dropped_with_a_warning(tmp_path: Path) -> None:
    document = native(decoys=[{"entity": "kube-system/Deployment/coredns"}])
    loaded = load_ground_truth(write(tmp_path, document))
    assert loaded.truth.decoys == ()
    assert len(loaded.warnings) == 1


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"titel": "x"}, '$.titel: unknown field "titel". Did you mean "title"?'),
        ({"difficulty": "3"}, "$.difficulty: "),
        ({"difficulty": 6}, "$.difficulty: "),
        ({"no_fault": "false"}, "$.no_fault: "),
        ({"title": 5}, "$.title: "),
        ({"groups": []}, "$.groups: no root cause."),
        ({"groups": [{"id": "a"}]}, '$.groups[0]: the field "entities" is missing'),
        ({"groups": [{"id": "a", "entities": []}]}, "$.groups[0].entities: "),
        ({"groups": [{"id": "a", "entities": ["shop/Deployment/a"], "match": "pod"}]}, "$.groups[0].match: "),
        (
            {"groups": [{"id": "a", "entities": ["just words"], "root_cause": True}]},
            "$.groups[0].entities[0]: ",
        ),
        ({"groups": {"a": 1}}, "$.groups: "),
        ({"decoys": [{"entity": "just words"}]}, "$.decoys[0].entity: "),
        ({"alias_reasons": ["one", "two"]}, "$.alias_reasons: 1 alias sets but 2 reasons"),
        ({"format_version": 2}, "$.format_version: "),
        ({"format_version": "1"}, "$.format_version: "),
        ({"format_version": True}, "$.format_version: "),
        ({"provenance": {"labelled_by": 3}}, "$.provenance.labelled_by: "),
        ({"provenance": {"confidence": []}}, "$.provenance.confidence: "),
    ],
)
def test_native_form_is_strict(tmp_path: Path, change: dict[str, Any], expected: str) -> None:
    assert refusal(tmp_path, native(**change)).startswith(expected)


def test_scenario_id_must_be_the_expected_one(tmp_path: Path) -> None:
    reason = refusal(tmp_path, NATIVE, scenario_id="scenario-018")
    assert reason.startswith('$: the truth is about "scenario-017", expected "scenario-018"')
    # Native ids are compared as text: the same number is not enough.
    assert "scenario-17" in refusal(tmp_path, NATIVE, scenario_id="scenario-17")


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    document = native(aliases=[["nobody", "coredns"], ["coredns", "someone"]], alias_reasons=[])
    assert [line.split(":")[0] for line in refusal(tmp_path, document).splitlines()] == [
        "$.aliases[0][0]",
        "$.aliases[1][1]",
    ]


@pytest.mark.parametrize("content", ["", "# only a comment\n", "null", "3", "text", "[]", "{}", "a: 1"])
def test_something_else_is_no_truth(tmp_path: Path, content: str) -> None:
    assert refusal(tmp_path, content)


def test_missing_file_folder_and_fifo_give_messages(tmp_path: Path) -> None:
    with pytest.raises(GroundTruthError, match="does not exist"):
        load_ground_truth(tmp_path / "scenario-001.yaml")
    with pytest.raises(GroundTruthError, match="not a regular file"):
        load_ground_truth(tmp_path)
    with pytest.raises(GroundTruthError, match="no folder of ground truths"):
        load_truths(tmp_path / "none", ["scenario-001"])


def test_truth_set_keeps_missing_and_refused_scenarios_apart(tmp_path: Path) -> None:
    write(tmp_path, NATIVE)
    broken = "format_version: 1\nscenario_id: scenario-018\ngroups: []\n"
    write(tmp_path, broken, "scenario-018.yaml")
    found = load_truths(tmp_path, ["scenario-017", "scenario-018", "scenario-019"])
    assert list(found.truths) == ["scenario-017"]
    assert list(found.refused) == ["scenario-018", "scenario-019"]
    assert "no root cause" in found.refused["scenario-018"]
    assert "does not exist" in found.refused["scenario-019"]
    assert found.patches_digest is None
    assert found.patches == ()
    assert found.warnings == {}
    # The digest of the set is that of the compact JSON of the files' digests, null for a missing one.
    one = hashlib.sha256(NATIVE.encode()).hexdigest()
    two = hashlib.sha256(broken.encode()).hexdigest()
    text = f'{{"scenario-017":"{one}","scenario-018":"{two}","scenario-019":null}}'
    assert found.digest == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("name", ["../secret", "a/b", "", ".hidden", "patches", "a\nb"])
def test_scenario_id_that_is_no_file_name_is_refused_not_opened(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "truths"
    folder.mkdir()
    write(tmp_path, NATIVE, "secret.yaml")
    assert list(load_truths(folder, [name]).refused) == [name]


def test_list_of_truths_is_read_one_by_one(tmp_path: Path) -> None:
    entries = [native(), native(scenario_id="scenario-018", groups=[]), {"groups": []}, native()]
    path = write(tmp_path, entries, "truths.json")
    loaded = load_ground_truths(path)
    assert list(loaded) == ["scenario-017", "scenario-018", "$[2]"]
    assert isinstance(loaded["scenario-017"], GroundTruthError)  # listed twice: neither can be trusted
    assert str(loaded["scenario-018"]).startswith(f"{path}: $[1].groups: no root cause")
    assert "names no scenario" in str(loaded["$[2]"])


def test_one_scenario_of_a_list_is_picked_by_its_id(tmp_path: Path) -> None:
    path = write(tmp_path, [native(), native(scenario_id="scenario-018")], "truths.json")
    assert load_ground_truth(path, scenario_id="scenario-018").truth.scenario_id == "scenario-018"
    with pytest.raises(GroundTruthError, match="expected one ground truth, found 0"):
        load_ground_truth(path)
    with pytest.raises(GroundTruthError, match='expected one ground truth of "scenario-019"'):
        load_ground_truth(path, scenario_id="scenario-019")


def test_json_and_yaml_of_one_truth_are_the_same_truth(tmp_path: Path) -> None:
    document = native()
    first: GroundTruth = load_ground_truth(write(tmp_path, document)).truth
    second = load_ground_truth(write(tmp_path, yaml.safe_dump(document), "other.yaml")).truth
    assert first == second


def test_messages_are_bounded_and_show_control_characters(tmp_path: Path) -> None:
    many = native(aliases=[[f"x{n}"] for n in range(100)], alias_reasons=[])
    lines = refusal(tmp_path, many).splitlines()
    # 20 of the 100 are listed, and one line counts the other 80.
    assert len(lines) == 21
    assert lines[-1] == "$: and 80 more problems"
    assert len(refusal(tmp_path, native(aliases=[["x" * 100_000]]))) < 1000
    assert len(refusal(tmp_path, native(**{"x" * 100_000: 1}))) < 2500
    assert refusal(tmp_path, native(aliases=[["\u202e\x1b[31m"]])).isascii()
    assert refusal(tmp_path, "a: !\u202e x\n").isascii()


def test_schema_is_valid_and_accepts_the_example() -> None:
    schema = ground_truth_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(native(), schema, cls=jsonschema.Draft202012Validator)
