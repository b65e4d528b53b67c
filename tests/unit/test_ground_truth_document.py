from __future__ import annotations

import json
from typing import Any

import pytest

from diagnose_bench.ground_truth_document import MAX_TRUTH_BYTES, parse_document
from diagnose_bench.ground_truth_refusal import Refusal, json_path
from diagnose_bench.ground_truth_yaml import MAX_TRUTH_DEPTH, MAX_TRUTH_VALUES


def reason(data: bytes | str) -> str:
    with pytest.raises(Refusal) as caught:
        parse_document(data.encode() if isinstance(data, str) else data)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("False", False),
        ("3", 3),
        ("-0.5", -0.5),
        ("1.0e+3", 1000.0),
        (".5", 0.5),
        ("~", None),
        ("", None),
        ("null", None),
        # Text that YAML 1.1 would turn into another type.
        ("on", "on"),
        ("no", "no"),
        ("2024-05-01", "2024-05-01"),
        ("2024-05-01T10:00:00Z", "2024-05-01T10:00:00Z"),
        ("12:30:45", "12:30:45"),
        ("0123", "0123"),
        ("0x1f", "0x1f"),
        ("1_000", "1_000"),
        (".inf", ".inf"),
        ("12e4", "12e4"),
        ("1" * 30, "1" * 30),
        ("'3'", "3"),
        ("!!str 3", "3"),
        ('"true"', "true"),
    ],
)
def test_yaml_scalars_have_the_types_of_json(text: str, value: Any) -> None:
    parsed = parse_document(f"key: {text}\n".encode()).value["key"]
    assert parsed == value
    assert type(parsed) is type(value)


def test_lines_of_yaml_parts_are_known() -> None:
    document = parse_document(b"# comment\na: 1\ngroups:\n  - id: x\n    filter:\n      - y\n  - id: z\n")
    # Counted by hand: `a` stands on line 2, the first entry on line 4, its filter's text on line 6.
    assert document.line(("a",)) == 2
    assert document.line(("groups", 0)) == 4
    assert document.line(("groups", 0, "filter", 0)) == 6
    assert document.line(("groups", 1, "missing")) == 7


def test_alias_is_a_copy_and_counts_in_full() -> None:
    value = parse_document(b"a: &x {n: [1]}\nb: *x\n").value
    value["a"]["n"].append(2)
    assert value["b"] == {"n": [1]}


def test_alias_bomb_is_refused() -> None:
    # Ten times ten ... : 10^9 values from 10 short lines.
    lines = ["a0: &a0 [1,1,1,1,1,1,1,1,1,1]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert f"more than {MAX_TRUTH_VALUES} values" in reason("\n".join(lines))


def test_alias_inside_its_own_anchor_is_refused() -> None:
    assert "stands for nothing, or for itself" in reason("a: &x [*x]\n")


@pytest.mark.parametrize("opening", ["[", '{"a":', "- "])
def test_deep_nesting_is_refused(opening: str) -> None:
    assert "nest" in reason(opening * 50_000) or "no YAML" in reason(opening * 50_000)


def test_depth_through_aliases_is_bounded() -> None:
    lines = ["a0: &a0 [1]"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 100)]
    assert f"nested more than {MAX_TRUTH_DEPTH} deep" in reason("\n".join(lines))


def test_depth_limit_is_the_same_for_json_and_yaml() -> None:
    def nested(depth: int) -> str:
        return "[" * depth + "]" * depth

    assert parse_document(nested(MAX_TRUTH_DEPTH).encode()).value
    assert parse_document(f"# YAML\n{nested(MAX_TRUTH_DEPTH)}".encode()).value
    assert "deep" in reason(nested(MAX_TRUTH_DEPTH + 2))
    assert "deep" in reason("# YAML\n" + nested(MAX_TRUTH_DEPTH + 2))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a: 1\na: 2\n", '"a" occurs twice'),
        ("x:\n  - {b: 1, b: 1}\n", '$.x[0]: the key "b" occurs twice'),
        ('{"a": 1, "a": 1}', '"a" occurs twice'),
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "-Infinity"),
        ('{"a": 1e999}', "too large"),
        ("a: 1.0e+999", "too large"),
        ('{"a": ' + "1" * 5000 + "}", "too large"),
        ('{"a": "\\ud800"}', "surrogate"),
        ('{"\\ud800": 1}', "surrogate"),
        ("a: !!python/object:os.system x", "tag"),
        ("a: !custom x", "tag"),
        ("a: !!timestamp 2024-05-01", "tag"),
        ("a: !!set {x}", "tag"),
        ("base: &b {x: 1}\nc: {<<: *b}", "merge keys"),
        ("? [a]\n: 1", "a key must be text"),
        ("? &k a\n: 1\n? *k\n: 2", "a key must be text"),
        ("a: *nowhere", "stands for nothing"),
        ("a: 1\n---\nb: 2\n", "more than one YAML document"),
        ("a: [1", "no YAML"),
        ("a: \x01", "no YAML"),
        ("{a: 1", "neither JSON"),
        ("", "the file is empty"),
        (b"\xff\xfea\x00", "not UTF-8"),
        (b"a: \xc3", "not UTF-8"),
        (b"x" * (MAX_TRUTH_BYTES + 1), "larger than"),
    ],
)
def test_what_is_refused_says_why(text: bytes | str, part: str) -> None:
    assert part in reason(text)


def test_many_values_are_refused_in_json_too() -> None:
    assert "values" in reason(json.dumps([0] * (MAX_TRUTH_VALUES + 1)))


def test_json_goes_before_yaml() -> None:
    # YAML 1.1 has no surrogate pairs in its escapes, JSON has.
    assert parse_document(b'{"a": "\\ud83d\\ude00", "b": "\\/"}').value == {"a": "\U0001f600", "b": "/"}
    assert parse_document(b"\xef\xbb\xbf{a: [b]}").value == {"a": ["b"]}


def test_paths_are_printed_unambiguously() -> None:
    assert json_path(()) == "$"
    assert json_path(("groups", 1, "root_cause")) == "$.groups[1].root_cause"
    assert json_path(("a.b", 0, 'c"d')) == '$["a.b"][0]["c\\"d"]'
