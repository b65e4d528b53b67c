"""What holds for every diagnosis: schema and model agree, and the reader changes no content."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from diagnose_bench.diagnosis import Diagnosis, diagnosis_schema, validate_submission
from diagnose_bench.diagnosis_reader import read_diagnosis
from diagnose_bench.errors import DiagnosisError
from diagnose_bench.outcome import Outcome

SCHEMA = Draft202012Validator(diagnosis_schema())
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0, 2.0, 1.5, -0.0, 2.0**53, 2**53, 2**53 - 1, "", "a", "0.9"])
)


def objects(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with any of the names, with values of any type, right or wrong."""
    values = (
        SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.sampled_from("ab"), SCALARS, max_size=1)
    )
    return st.dictionaries(st.sampled_from([*names, "other"]), values, max_size=len(names))


EVIDENCE = st.fixed_dictionaries(
    {}, optional={"file": SCALARS, "line": SCALARS, "quote": SCALARS, "x": SCALARS}
)
CAUSES = st.fixed_dictionaries(
    {"entity": st.sampled_from(["a", "", None, 1]) | st.text(max_size=3)},
    optional={
        "reasoning": SCALARS,
        "confidence": SCALARS | st.floats(0, 1),
        "evidence": st.none() | st.lists(EVIDENCE | SCALARS, max_size=2) | SCALARS,
    },
) | objects("entity", "evidence")
DOCUMENTS = (
    st.fixed_dictionaries(
        {"root_causes": st.lists(CAUSES, max_size=3) | SCALARS},
        optional={
            "propagation": st.lists(objects("source", "target", "effect"), max_size=2) | SCALARS,
            "remediation": objects("actions") | SCALARS,
        },
    )
    | objects("root_causes", "propagation", "remediation")
    | SCALARS
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ANSWERS = st.fixed_dictionaries(
    {
        "root_causes": st.lists(
            st.fixed_dictionaries({"entity": TEXT}, optional={"reasoning": TEXT}), max_size=4
        )
    },
    optional={
        "notes": st.recursive(st.none() | st.booleans() | st.integers() | TEXT, st.lists, max_leaves=6)
    },
)


def model_accepts(document: Any) -> bool:
    try:
        Diagnosis.model_validate(document)
    except ValidationError:
        return False
    return True


@given(DOCUMENTS)
@settings(max_examples=300)
def test_schema_and_model_accept_the_same_documents(document: Any) -> None:
    assert SCHEMA.is_valid(document) == model_accepts(document)


@given(DOCUMENTS.filter(SCHEMA.is_valid))
@settings(max_examples=100, suppress_health_check=[HealthCheck.filter_too_much])
def test_what_the_schema_allows_is_accepted_by_the_submit_channel(document: Any) -> None:
    expected = tuple(cause["entity"] for cause in document["root_causes"])
    assert validate_submission(json.dumps(document).encode()).entities() == expected


@given(ANSWERS)
@settings(max_examples=100)
def test_an_accepted_submission_is_read_back_unchanged_and_without_repairs(document: Any) -> None:
    data = json.dumps(document).encode()
    submitted = validate_submission(data)
    for repair in (True, False):
        result = read_diagnosis(data, repair=repair)
        assert result.diagnosis == submitted
        assert result.repairs == ()


@given(
    ANSWERS,
    st.sampled_from(["Here:\n{}\nthat is all", "```json\n{}\n```", "<think>hm {{</think>{}", "\ufeff{}"]),
)
@settings(max_examples=100)
def test_wrapping_changes_no_content(document: Any, wrapping: str) -> None:
    expected = Diagnosis.model_validate(document)
    for written in (json.dumps(document), json.dumps(document, ensure_ascii=False, indent=1), repr(document)):
        result = read_diagnosis(wrapping.replace("{}", written).encode())
        assert result.diagnosis == expected
        assert result.repairs != ()


@given(
    st.binary(max_size=200)
    | st.text(alphabet="{}[]\"':,\\/*#`~ \nNaTrue<think>1", max_size=200).map(str.encode)
)
@settings(max_examples=400)
def test_no_bytes_make_the_reader_raise(data: bytes) -> None:
    for repair in (True, False):
        result = read_diagnosis(data, repair=repair)
        assert (result.diagnosis is not None) == (result.outcome is Outcome.DIAGNOSED)
        assert (result.reason == "") == (result.outcome is Outcome.DIAGNOSED)


@given(ANSWERS, st.data())
@settings(max_examples=100)
def test_a_cut_answer_is_no_answer(document: Any, data: st.DataObject) -> None:
    text = json.dumps(document)
    cut = data.draw(st.integers(0, len(text) - 1))
    assert read_diagnosis(text[:cut].encode()).diagnosis is None


@given(st.binary(max_size=100))
def test_the_submit_channel_raises_its_own_error_only(data: bytes) -> None:
    with contextlib.suppress(DiagnosisError):
        validate_submission(data)
