"""The tolerant reader: what it finds, what it leaves alone, and that its time is linear by construction."""

from __future__ import annotations

import json
from typing import Any

import pytest

from diagnose_bench.diagnosis_reader import ReadDiagnosis, read_diagnosis
from diagnose_bench.outcome import Outcome

A = '{"root_causes": [{"entity": "shop/Deployment/a"}]}'
B = '{"root_causes": [{"entity": "shop/Deployment/b"}]}'
MIB = 1 << 20


def read(text: str | bytes, **options: Any) -> ReadDiagnosis:
    return read_diagnosis(text if isinstance(text, bytes) else text.encode(), **options)


def names(text: str | bytes) -> list[str]:
    result = read(text)
    assert result.outcome is Outcome.DIAGNOSED, result
    assert result.diagnosis is not None
    assert result.reason == ""
    return [entity.removeprefix("shop/Deployment/") for entity in result.diagnosis.entities()]


def malformed(text: str | bytes) -> str:
    result = read(text)
    assert result.outcome is Outcome.MALFORMED_DIAGNOSIS, result
    assert result.diagnosis is None
    return result.reason


def test_strict_json_needs_no_repair() -> None:
    assert read(A).repairs == ()
    assert names(A) == ["a"]


@pytest.mark.parametrize(
    ("text", "repairs"),
    [
        (f"Here it is:\n{A}\nGood luck.", {"text_around_ignored"}),
        (f"```json\n{A}\n```", {"fenced_block"}),
        (f"```\n{A}\n```\n", {"fenced_block"}),
        (f"~~~~\n{A}\n~~~~", {"fenced_block"}),
        (f"```json\n{A}", {"fenced_block"}),
        (f"`{A}`", {"text_around_ignored"}),
        (f"<think>{B}</think>{A}", {"thinking_ignored"}),
        (f'<Thinking mode="x">so {{"root_causes"\n</thinking>\n{A}', {"thinking_ignored"}),
        (f"the tag was opened before: {B}</think>{A}", {"thinking_ignored"}),
        (f"[THINK]{B}[/THINK]{A}", {"thinking_ignored"}),
        (f"<think>\n```json\n{B}\n</think>\n{A}", {"thinking_ignored"}),
        (json.dumps(A), {"json_string"}),
        (json.dumps(json.dumps(A)), {"json_string"}),
        (json.dumps(f"```json\n{A}\n```"), {"json_string", "fenced_block"}),
        (repr(A), {"json_string", "single_quotes"}),
        ("\ufeff" + A, {"byte_order_mark"}),
        ('{"root_causes": [{"entity": "shop/Deployment/a",},],}', {"trailing_comma"}),
        (repr(json.loads(A)), {"single_quotes"}),
        (
            '{\n// one\n"root_causes": [ # two\n{"entity": /* three */ "shop/Deployment/a"}]}',
            {"comments"},
        ),
        ('{"root_causes": [{"entity": "shop/Deployment/a", "sure": True, "x": None}]}', {"python_literals"}),
    ],
)
def test_syntax_is_repaired_and_each_repair_is_named(text: str, repairs: set[str]) -> None:
    assert names(text) == ["a"]
    assert set(read(text).repairs) == repairs


@pytest.mark.parametrize(
    "text", [f"Here: {A}", f"```json\n{A}\n```", A + ",", repr(json.loads(A)), json.dumps(A)]
)
def test_without_repair_only_strict_json_is_read(text: str) -> None:
    assert read(A, repair=False).diagnosis == read(A).diagnosis
    assert read(text, repair=False).outcome is Outcome.MALFORMED_DIAGNOSIS
    assert read(text, repair=False).repairs == ()


@pytest.mark.parametrize(
    "content",
    [
        "a, ] and ,} and // no comment and # none /* neither */",
        "True False None NaN 'quoted' <think>no thinking</think> ``` no fence",
        '{"root_causes": []}',
        'back\\slash \n \t " \u00e9 \N{ROCKET} \x00',
    ],
)
def test_no_text_inside_a_string_is_edited(content: str) -> None:
    document = {"root_causes": [{"entity": content, "reasoning": content}]}
    for text in (json.dumps(document), f"x\n{json.dumps(document)[:-1]},}}\ny", repr(document)):
        result = read(text)
        assert result.diagnosis is not None
        assert result.diagnosis.entities() == (content,)
        assert result.diagnosis.root_causes[0].reasoning == content


@pytest.mark.parametrize(
    "text",
    [
        A[:-1],
        A[:-2],
        A[:-5],
        '{"root_causes": [{"entity": "a"}, {"enti',
        '{"root_causes": [{"entity": "a"}], "note": "cut off in a str',
        '{"root_causes": [{"entity": "a"}], "older": {"root_causes": []}, "note": ',
        '["a", "b"',
    ],
)
def test_what_breaks_off_is_never_closed(text: str) -> None:
    assert "breaks off" in malformed(text)


def test_the_last_valid_value_is_the_answer_and_another_is_reported() -> None:
    assert names(f"{B} or rather {A}") == ["a"]
    (note,) = read(f"{B} or rather {A}").notes
    assert "line 1 column 1: another valid answer" in note
    assert read(f"{A} again: {A}").notes == ()


def test_an_invalid_value_after_the_answer_does_not_replace_it() -> None:
    result = read(f'{A}\nand\n{{"root_causes": [{{}}]}}')
    assert result.diagnosis is not None
    assert "line 3 column 1: $.root_causes[0].entity: is missing" in result.notes[0]


def test_an_answer_after_a_broken_one_is_found() -> None:
    assert names(f'{{"root_causes": [{{"entity": "x"\nOnce more:\n{A}') == ["a"]
    assert names(f'{{"root_causes": [{{"entity": "x"}} {{"entity": "y"}}]}}\nOnce more:\n{A}') == ["a"]


@pytest.mark.parametrize(
    "prose",
    [
        "Set {a, b} and {{ .Values.x }} and ${HOME} and [1] and [link](url) and don't",
        'The log said {"level": "error", "msg": "cut\n',
        "[2025-01-01 10:00:00] {x} 'quoted' \"quoted\"",
        "a < b <reasoning> is a word here",
        "{% raw %} {# note #}\n",
    ],
)
def test_prose_with_brackets_does_not_hide_the_answer(prose: str) -> None:
    assert names(f"{prose}\n{A}") == ["a"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("I cannot help with that.", "no JSON in the text"),
        ("null", "no JSON in the text"),
        ("{}", "no JSON in the text"),
        (f'{{"result": {A}}}', 'an object without "root_causes"'),
        (f"Answer: [{A}]", "a list is an answer only as the whole text"),
        ('Answer: ["a"]', "a list is an answer only as the whole text"),
        (f"echo '{A}' > out.json", "a quotation, not an answer"),
        (f'{{"root_causes": ["a" "b"], "older": {A}}}', "a part of a JSON value that breaks off"),
        ('{"root_causes": [{"entity": "a\nb"}]}', "a string breaks off"),
        ("{root_causes: {}}", "no JSON in the text"),
        ('{"root_causes": [{"entity": "a\\d"}]}', "is no escape"),
    ],
)
def test_what_is_no_answer_says_why(text: str, reason: str) -> None:
    assert reason in malformed(text)


def test_a_bare_list_counts_as_the_whole_text_or_a_whole_fenced_block() -> None:
    assert names('["a", "b"]') == ["a", "b"]
    assert names('<think>hm</think>\n["a"]') == ["a"]
    assert names('It is:\n```json\n["a"]\n```\nbye') == ["a"]
    assert names("```['a']```") == ["a"]
    malformed('```json\nlist: ["a"]\n```')


@pytest.mark.parametrize(
    "data", [b"", b" \n\t", b"\xef\xbb\xbf\n", b"<think>hm</think>", b"<think>never ends"]
)
def test_blank_text_is_no_diagnosis(data: bytes) -> None:
    assert read(data).outcome is Outcome.NO_DIAGNOSIS
    assert read(data).reason != ""


def test_only_the_refusal_field_is_a_refusal() -> None:
    assert read('{"refused": true, "why": "policy"}').outcome is Outcome.REFUSED
    assert read('{"refused": true}', repair=False).outcome is Outcome.REFUSED
    assert read("I will not: {'refused': True}").outcome is Outcome.REFUSED
    malformed("I'm sorry, I refuse.")
    malformed('{"refused": "true"}')


@pytest.mark.parametrize(
    ("inside", "reason"),
    [
        ('"x": NaN', "NaN is no number"),
        ('"x": [-Infinity]', "-Infinity is no number"),
        ('"x": 1, "x": 2', 'the key "x" stands twice'),
        ('"x": {"y": [], "y": {}}', 'the key "y" stands twice'),
        ('"x": true, "x": 1', 'the key "x" stands twice'),
        ('"x": "\\ud800"', "not Unicode text"),
        ('"x": "\udcff"', "not Unicode text"),
    ],
)
def test_a_fault_is_malformed_inside_the_answer_and_reported_elsewhere(inside: str, reason: str) -> None:
    text = f'{{"root_causes": [], {inside}}}'.encode("utf-8", "surrogateescape")
    assert reason in malformed(text)
    elsewhere = read(text + b"\n" + A.encode())
    assert elsewhere.outcome is Outcome.DIAGNOSED
    assert any(reason in note for note in elsewhere.notes)


def test_a_key_twice_with_the_same_value_is_no_fault() -> None:
    assert names('{"root_causes": [{"entity": "a", "x": [1, {}], "x": [1.0, {}], "entity": "a"}]}') == ["a"]


def test_bytes_that_are_not_text_are_only_noise_beside_the_answer() -> None:
    assert names(b"\xff\x00\xed\xa0\x80\n" + A.encode()) == ["a"]
    assert "not UTF-8" in read(b"\xff\n" + A.encode()).notes[0]
    assert "breaks off" in malformed(b'{"root_causes": [{"entity": "a\x00"}]}')


def test_limits_hold_for_recorded_answers() -> None:
    assert len(names(json.dumps([f"n{i}" for i in range(10_000)]))) == 10_000
    assert "10001 entities" in malformed(json.dumps([f"n{i}" for i in range(10_001)]))
    assert "nested 100001 deep" in malformed(
        '{"root_causes": [], "x": ' + "[" * 100_000 + "]" * 100_000 + "}"
    )
    malformed('{"x":' * 100_000 + A + "}" * 100_000)
    assert names(A.ljust(MIB)) == ["a"]
    assert "1048577 bytes" in malformed(A.ljust(MIB + 1))


@pytest.mark.parametrize(
    "piece",
    [
        "{", "[", "(", '"', "'", "`", "\\", " ", "9", '["', '{"', "{'", '{"a":', "[1,", "{/*", "{#", "{}",
        "[]",
        '{"root_causes":[1]}', '```"', "```'\"", "~~~[1]", "x<think>", "</think>", "x[THINK]", "<think ",
        'x{"a":1 {', '" : {"a":1 b', '"\\"{', '["\\', '{"a":"\\u0041"}', '{"a":1,"a":2}',
    ],
)  # fmt: skip
def test_a_long_text_of_one_piece_is_read_in_one_pass(piece: str) -> None:
    # A second look at what was read before, once a piece, would be some 10^10 steps and would not end.
    text = piece * (MIB // 4 // len(piece))
    outcome = read(text + "\n" + A).outcome
    assert outcome in (Outcome.DIAGNOSED, Outcome.MALFORMED_DIAGNOSIS)
