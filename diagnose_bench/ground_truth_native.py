"""The native form of a truth: its model (the source of the JSON Schema) and the way from it to a draft."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from diagnose_bench.documents import VersionOne
from diagnose_bench.entity import parse_canonical
from diagnose_bench.ground_truth_checks import Draft
from diagnose_bench.ground_truth_models import Decoy, Evidence, Group, Match, Propagation
from diagnose_bench.ground_truth_refusal import JsonPath, Problem, Refusal, refuse
from diagnose_bench.ground_truth_validation import validate

FORMAT_VERSION = 1

_CONFIG = ConfigDict(frozen=True, strict=True, extra="forbid", use_attribute_docstrings=True)


class _Part(BaseModel):
    model_config = _CONFIG


class NativeGroup(_Part):
    """Names that are one logical entity of the incident."""

    id: str = Field(min_length=1, max_length=200)
    """Name of the group inside this file."""
    entities: list[str] = Field(min_length=1)
    """Canonical entities: [namespace/]Kind[.group]/name."""
    root_cause: bool = False
    match: Match = "workload"
    """workload: any object of the same workload counts; object: only these objects do."""


class NativePropagation(_Part):
    """One step of the failure."""

    source: str
    target: str
    effect: str = ""


class NativeDecoy(_Part):
    """An entity that looks guilty and is not."""

    entity: str
    why: str = ""


class NativeEvidence(_Part):
    """Where in the snapshot a group shows what it did."""

    group: str
    file: str = Field(min_length=1)
    query: str = ""
    shows: str = ""


class NativeSource(_Part):
    """A public document that the scenario is built from."""

    url: str = Field(min_length=1)
    date: str | None = None
    title: str | None = None


class NativeProvenance(_Part):
    """Who decided what the root causes are, and how sure they are."""

    labelled_by: str | None = None
    reviewed_by: str | None = None
    confidence: str | float | None = None
    notes: str | None = None


class NativeTruth(_Part):
    """The ground truth of one scenario."""

    format_version: VersionOne
    scenario_id: str = Field(min_length=1, max_length=200)
    title: str = ""
    groups: list[NativeGroup]
    aliases: list[list[str]] = []
    """Sets of group ids that are accepted as one another."""
    alias_reasons: list[str] = []
    """The reason of each alias set, in the same order."""
    propagation: list[NativePropagation] = []
    decoys: list[NativeDecoy] = []
    evidence: list[NativeEvidence] = []
    remediation: dict[str, Any] | None = None
    family: str | None = None
    """Scenarios of one family share a mechanism."""
    difficulty: int | None = Field(default=None, ge=1, le=5)
    no_fault: bool = False
    """True where nothing is wrong: the right diagnosis is the empty list."""
    sources: list[NativeSource] = []
    provenance: NativeProvenance | None = None
    canary: str | None = Field(default=None, min_length=8)
    """A random, unique string; finding it in a transcript proves a leak."""


def native_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of the native form."""
    schema = NativeTruth.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "diagnose-bench ground truth",
    }


def draft_of_native(value: Any, scenario_id: str) -> Draft:
    """Read the native form.

    Raises
    ------
    Refusal
        A field is missing, unknown or of another type; an entity is not canonical.
    """
    version = value.get("format_version") if isinstance(value, dict) else None
    if type(version) is not int or version != FORMAT_VERSION:
        reason = (
            f"this version of diagnose-bench reads truths of format_version {FORMAT_VERSION}, not {version!r}"
        )
        raise refuse(("format_version",), reason)
    file = validate(NativeTruth, value)
    problems: list[Problem] = []
    if file.alias_reasons and len(file.alias_reasons) != len(file.aliases):
        counts = f"{len(file.aliases)} alias sets but {len(file.alias_reasons)} reasons"
        problems.append(Problem(("alias_reasons",), f"{counts}; give one reason for each set"))
    draft = Draft("native", scenario_id, title=file.title, no_fault=file.no_fault)
    for index, group in enumerate(file.groups):
        where: JsonPath = ("groups", index)
        entities = tuple(
            _canonical(entity, (*where, "entities", place), problems)
            for place, entity in enumerate(group.entities)
        )
        draft.groups.append((where, Group(group.id, entities, group.root_cause, group.match)))
    for index, decoy in enumerate(file.decoys):
        entity = _canonical(decoy.entity, ("decoys", index, "entity"), problems)
        draft.decoys.append((("decoys", index), Decoy(entity, decoy.why)))
    if problems:
        raise Refusal(problems)
    draft.aliases = [(("aliases", index), tuple(members)) for index, members in enumerate(file.aliases)]
    draft.propagation = [
        (("propagation", index), Propagation(step.source, step.target, step.effect))
        for index, step in enumerate(file.propagation)
    ]
    draft.evidence = [
        (("evidence", index), Evidence(item.group, item.file, item.query, item.shows))
        for index, item in enumerate(file.evidence)
    ]
    draft.rest = {
        "alias_reasons": tuple(file.alias_reasons),
        "remediation": file.remediation,
        "family": file.family,
        "difficulty": file.difficulty,
        "sources": tuple(source.model_dump(exclude_none=True) for source in file.sources),
        "provenance": file.provenance.model_dump(exclude_none=True) if file.provenance else None,
        "canary": file.canary,
    }
    return draft


def _canonical(text: str, where: JsonPath, problems: list[Problem]) -> str:
    try:
        return str(parse_canonical(text))
    except ValueError as error:
        problems.append(Problem(where, f"{error}"))
        return text
