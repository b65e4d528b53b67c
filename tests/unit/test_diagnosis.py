"""The model of a diagnosis, its shapes, and the submit channel."""

from __future__ import annotations

import json
from typing import Any

import pytest

from diagnose_bench.diagnosis import MAX_BYTES, MAX_DEPTH, MAX_ENTITIES, validate_submission
from diagnose_bench.errors import DiagnosisError


def entities_of(document: Any) -> tuple[str, ...]:
    return validate_submission(json.dumps(document).encode()).entities()


def problems_of(data: bytes | Any) -> str:
    data = data if isinstance(data, bytes) else json.dumps(data).encode()
    with pytest.raises(DiagnosisError) as caught:
        validate_submission(data)
    return str(caught.value)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            {"root_causes": [{"entity": "shop/Deployment/cart"}, {"entity": "Node/w-1"}]},
            "shop/Deployment/cart Node/w-1",
        ),
        ({"contributing_factors": [{"name": "b"}, {"name": "a", "contributing_factor": False}]}, "b a"),
        ({"entities": [{"name": "a", "contributing_factor": True}, {"name": "b"}]}, "a"),
        ({"entities": [{"id": "Pod/x uid 12", "contributing_factor": True}]}, "Pod/x uid 12"),
        (
            {"entities": [{"id": "9443e43ade4e8512", "name": "flagd Pod", "contributing_factor": True}]},
            "flagd Pod",
        ),
        (["a", "b"], "a b"),
        ([{"entity": "a"}], "a"),
        ([{"name": "a"}, {"name": "b"}], "a b"),
        ([{"name": "a", "contributing_factor": True}, {"name": "b", "contributing_factor": False}], "a"),
    ],
)
def test_every_shape_gives_its_entities_in_their_order(document: Any, expected: str) -> None:
    joined = expected.split(" ") if "uid" not in expected and "flagd" not in expected else [expected]
    assert list(entities_of(document)) == joined


@pytest.mark.parametrize(
    "document", [{"root_causes": []}, {"contributing_factors": []}, {"entities": []}, []]
)
def test_the_empty_list_is_a_diagnosis(document: Any) -> None:
    assert entities_of(document) == ()


@pytest.mark.parametrize("claim", ["true", 1, "yes", None, [True]])
def test_only_json_true_makes_a_contributing_factor(claim: Any) -> None:
    assert entities_of({"entities": [{"name": "a", "contributing_factor": claim}]}) == ()


def test_root_causes_go_before_contributing_factors_before_entities() -> None:
    entities = [{"name": "c", "contributing_factor": True}]
    both = {"entities": entities, "contributing_factors": [{"name": "b"}]}
    assert entities_of({**both, "root_causes": [{"entity": "a"}]}) == ("a",)
    assert entities_of(both) == ("b",)


def test_a_wrong_list_of_higher_precedence_is_not_passed_over() -> None:
    document = {"root_causes": ["cart is down"], "contributing_factors": [{"name": "b"}]}
    assert "$.root_causes[0]: must be an object" in problems_of(document)


def test_unknown_fields_are_kept() -> None:
    diagnosis = validate_submission(b'{"root_causes": [{"entity": "a", "hunch": 1}], "mood": {"deep": [1]}}')
    assert diagnosis.model_extra == {"mood": {"deep": [1]}}
    assert diagnosis.root_causes[0].model_extra == {"hunch": 1}


def test_null_means_that_an_optional_field_is_absent() -> None:
    diagnosis = validate_submission(
        b'{"root_causes": [{"entity": "a", "confidence": null, "evidence": null}], "propagation": null}'
    )
    assert diagnosis.root_causes[0].confidence is None
    assert diagnosis.root_causes[0].evidence == ()
    assert diagnosis.propagation == ()


@pytest.mark.parametrize(
    ("document", "path_and_reason"),
    [
        ({"root_causes": None}, "$.root_causes: must be a list"),
        ({"root_causes": {"entity": "a"}}, "$.root_causes: must be a list"),
        ({"root_causes": [{"entity": "a"}, {"reasoning": "b"}]}, "$.root_causes[1].entity: is missing"),
        ({"root_causes": [{"entity": None}]}, "$.root_causes[0].entity: must be a string"),
        ({"root_causes": [{"entity": 7}]}, "$.root_causes[0].entity: must be a string"),
        (
            {"root_causes": [{"entity": "a", "confidence": "0.9"}]},
            "$.root_causes[0].confidence: must be a number",
        ),
        (
            {"root_causes": [{"entity": "a", "confidence": True}]},
            "$.root_causes[0].confidence: must be a number",
        ),
        ({"root_causes": [{"entity": "a", "confidence": 1.5}]}, "$.root_causes[0].confidence: "),
        (
            {"root_causes": [{"entity": "a", "evidence": [{"line": "42"}]}]},
            "$.root_causes[0].evidence[0].line: must be an integer",
        ),
        (
            {"root_causes": [{"entity": "a", "evidence": [{"line": 0}]}]},
            "$.root_causes[0].evidence[0].line: ",
        ),
        (
            {"root_causes": [{"entity": "a", "evidence": "a log"}]},
            "$.root_causes[0].evidence: must be a list",
        ),
        ({"root_causes": [], "propagation": [{"source": 1}]}, "$.propagation[0].source: must be a string"),
        ({"root_causes": [], "remediation": [1]}, "$.remediation: must be an object"),
        (
            {"contributing_factors": [{"id": "a"}]},
            '$.contributing_factors[0]: "name" is missing or no string',
        ),
        ({"entities": [{"contributing_factor": True}]}, '$.entities[0]: "name" is missing or no string'),
        ({"entities": {"a": 1}}, "$.entities: must be a list"),
        (["a", {"name": "b"}], "$[0]: must be an object"),
        ([{"entity": "a"}, {"name": "b"}], "$[1].entity: is missing"),
        ([1], "$: a list of something else is no diagnosis"),
        ("a", "$: a string is no diagnosis"),
        (None, "$: null is no diagnosis"),
        ({"nodes": []}, '$: an object without "root_causes" (its keys: "nodes")'),
        ({"refused": True}, '$: an object without "root_causes"'),
    ],
)
def test_a_refused_submission_names_path_and_reason(document: Any, path_and_reason: str) -> None:
    assert path_and_reason in problems_of(document)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the text is blank"),
        (b"\xff{}", "not UTF-8 at byte 0"),
        (b'{"root_causes": []', "not JSON: line 1 column 19: the text ends"),
        (b'{"root_causes":\n [],}', 'not JSON: line 2 column 5: "}" stands where a key'),
        (b"{'root_causes': []}", "not JSON: line 1 column 2"),
        (b'{"root_causes": []} {}', 'not JSON: line 1 column 21: "{}" follows'),
        (b'```json\n{"root_causes": []}\n```', "not JSON: line 1 column 1"),
        (b'{"root_causes": [], "x": NaN}', "NaN is no number in JSON"),
        (b'{"root_causes": [], "x": 1, "x": 2}', 'the key "x" stands twice'),
        (b'{"root_causes": [{"entity": "\\ud800"}]}', "is not Unicode text"),
        (b'{"root_causes": [], "x": True}', "not JSON: line 1 column 26"),
    ],
)
def test_the_submit_channel_repairs_nothing(data: bytes, reason: str) -> None:
    assert reason in problems_of(data)


def test_the_list_of_problems_is_cut_at_twenty() -> None:
    message = problems_of({"root_causes": [{}] * 9_999})
    assert message.count("is missing") == 20
    assert "and 9979 more" in message


def test_a_message_never_echoes_the_submission_at_length() -> None:
    big = "k" * 500_000
    assert len(problems_of({big: 1})) < 1_000
    assert len(problems_of({"root_causes": [{"entity": "a", "confidence": big}]})) < 1_000
    assert len(problems_of(f'{{"root_causes": [], "{big}": 1, "{big}": 2}}'.encode())) < 1_000


def test_ten_thousand_entities_are_accepted_and_one_more_is_not() -> None:
    assert len(entities_of([f"n{i}" for i in range(MAX_ENTITIES)])) == 10_000
    assert "10001 entities" in problems_of([f"n{i}" for i in range(MAX_ENTITIES + 1)])


def test_depth_64_is_accepted_and_65_is_not() -> None:
    def nested(depth: int) -> bytes:
        # The outer object is one level, each list one more.
        return b'{"root_causes": [], "x": ' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"

    assert validate_submission(nested(MAX_DEPTH)).entities() == ()
    assert "nested 65 deep" in problems_of(nested(MAX_DEPTH + 1))
    assert "nested 100000 deep" in problems_of(nested(100_000))


def test_one_mebibyte_is_accepted_and_one_byte_more_is_not() -> None:
    data = b'{"root_causes": []}'
    assert validate_submission(data.ljust(MAX_BYTES)).entities() == ()
    assert "1048577 bytes" in problems_of(data.ljust(MAX_BYTES + 1))


def test_a_number_of_5000_digits_is_only_a_number() -> None:
    digits = b"9" * 5_000
    assert validate_submission(b'{"root_causes": [], "x": ' + digits + b"}").entities() == ()
    assert "confidence" in problems_of(b'{"root_causes": [{"entity": "a", "confidence": ' + digits + b"}]}")


def test_a_pair_of_surrogate_escapes_is_one_character() -> None:
    assert validate_submission(b'["\\ud83d\\ude80"]').entities() == ("\N{ROCKET}",)
