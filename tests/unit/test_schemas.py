"""The committed JSON Schemas are those of the models, and are schemas."""

from __future__ import annotations

import json
import re

import pytest
from jsonschema import Draft202012Validator

from diagnose_bench.errors import UsageError
from diagnose_bench.schemas import SCHEMAS, committed_bytes, committed_file, schema
from diagnose_bench.schemas.__main__ import main


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_committed_schema_is_fresh(name: str) -> None:
    assert committed_file(name).read_bytes() == committed_bytes(name), (
        f"{name} differs from its model: run `python -m diagnose_bench.schemas --write`"
    )


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_committed_schema_is_a_2020_12_schema(name: str) -> None:
    document = json.loads(committed_file(name).read_bytes())
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(document)


def test_every_file_with_a_format_version_must_have_it_as_the_readers_ask() -> None:
    documents = {name: schema(name) for name in SCHEMAS}
    versioned = [name for name, one in documents.items() if "format_version" in one.get("properties", {})]
    assert {"run", "scorecard", "snapshot", "suite", "trial"} <= set(versioned)
    for name in versioned:
        assert "format_version" in documents[name]["required"], name


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_schema_refers_to_nothing_that_a_reader_does_not_have(name: str) -> None:
    assert not re.search(r"contracts?\b|section [0-9]|issue [0-9]", committed_file(name).read_text(), re.I)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="diagnosis"):
        schema("diagnoses")


def test_the_check_finds_nothing_stale_and_wrong_usage_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out == ""
    assert main(["--what"]) == 2
    assert "usage" in capsys.readouterr().err
