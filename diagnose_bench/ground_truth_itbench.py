"""ITBench's own forms of a truth -> a draft: v1 (groups, flat or in ``spec``) and v2 (``spec.entities``).

The files are foreign, so unknown fields are ignored; what is read has strict types. In v2 every entity is a
root cause, and an exact object. ``no_fault`` is no word of ITBench: only a patch can put it there.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from diagnose_bench.entity import entity_of_object
from diagnose_bench.ground_truth_checks import Draft
from diagnose_bench.ground_truth_models import Group, Propagation
from diagnose_bench.ground_truth_refusal import JsonPath, refuse
from diagnose_bench.ground_truth_validation import validate


def _no_null_list(value: Any) -> Any:
    return [] if value is None else value


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, str) else _no_null_list(value)


def _no_null_text(value: Any) -> Any:
    return "" if value is None else value


def _no_null_flag(value: Any) -> Any:
    return False if value is None else value


_Text = Annotated[str, BeforeValidator(_no_null_text)]
_Flag = Annotated[bool, BeforeValidator(_no_null_flag)]
_Texts = Annotated[list[str], BeforeValidator(_one_or_many)]


class _Foreign(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class _Group(_Foreign):
    id: str = Field(min_length=1)
    kind: str = Field(min_length=1)
    namespace: _Text = ""
    name: _Texts = []
    filter: _Texts = []
    root_cause: _Flag = False


class _Propagation(_Foreign):
    source: str
    target: str
    condition: _Text = ""
    effect: _Text = ""


class _Alert(_Foreign):
    group_id: str | None = None


class _FaultEntity(_Foreign):
    group_id: str | None = None


class _Fault(_Foreign):
    entity: _FaultEntity | None = None


class _V1(_Foreign):
    groups: list[_Group]
    no_fault: _Flag = False
    aliases: Annotated[list[_Texts], BeforeValidator(_no_null_list)] = []
    propagations: Annotated[list[_Propagation], BeforeValidator(_no_null_list)] = []
    alerts: Annotated[list[_Alert], BeforeValidator(_no_null_list)] = []
    fault: Annotated[list[_Fault], BeforeValidator(_no_null_list)] = []


class _Metadata(_Foreign):
    name: str = Field(min_length=1)
    namespace: _Text = ""


class _Entity(_Foreign):
    apiVersion: str = Field(min_length=1)
    kind: str = Field(min_length=1)
    metadata: _Metadata


class _V2(_Foreign):
    no_fault: _Flag = False
    entities: Annotated[list[_Entity], BeforeValidator(_no_null_list)]


def scenario_number(text: str) -> int | None:
    """The number at the end, by which ITBench knows a scenario: 38 of ``38`` and ``Scenario-038``."""
    found = re.search(r"(?<![0-9])0*([0-9]{1,9})$", text.strip())
    return int(found.group(1)) if found else None


def itbench_scenario_id(value: Any) -> str | None:
    """The scenario id that a document names, as ``scenario-038``; None where it names none."""
    metadata = value.get("metadata")
    name = value.get("id")
    if name is None and isinstance(metadata, dict):
        name = metadata.get("name")
    if not isinstance(name, (str, int)) or isinstance(name, bool):
        return None
    number = scenario_number(str(name))
    return str(name) if number is None else f"scenario-{number:03d}"


def draft_of_v1(value: Any, scenario_id: str) -> Draft:
    """Read the form with groups.

    Raises
    ------
    Refusal
        A field is missing or of another type, or a group can match nothing.
    """
    body, base = _body(value)
    file = validate(_V1, body, base)
    draft = Draft("itbench-v1", scenario_id, no_fault=file.no_fault, root_path=base)
    for index, group in enumerate(file.groups):
        where: JsonPath = (*base, "groups", index)
        if not group.name and not group.filter:
            raise refuse(where, "the group has neither a name nor a filter")
        read = Group(
            id=group.id,
            root_cause=group.root_cause,
            kind=group.kind,
            namespace=group.namespace or None,
            names=tuple(group.name),
            filters=tuple(group.filter),
        )
        draft.groups.append((where, read))
    draft.aliases = [
        ((*base, "aliases", index), tuple(members)) for index, members in enumerate(file.aliases)
    ]
    draft.propagation = [
        ((*base, "propagations", index), Propagation(step.source, step.target, step.effect, step.condition))
        for index, step in enumerate(file.propagations)
    ]
    for index, fault in enumerate(file.fault):
        if fault.entity is not None and fault.entity.group_id is not None:
            draft.references.append(((*base, "fault", index, "entity", "group_id"), fault.entity.group_id))
    for index, alert in enumerate(file.alerts):
        if alert.group_id is not None:
            draft.references.append(((*base, "alerts", index, "group_id"), alert.group_id))
    actions = body.get("recommended_actions", body.get("recommendedActions"))
    draft.rest = {"remediation": {"recommended_actions": actions} if actions else None}
    return draft


def draft_of_v2(value: Any, scenario_id: str) -> Draft:
    """Read the form with exact objects, each of them a root cause; a group's id is its entity.

    Raises
    ------
    Refusal
        A field is missing or of another type.
    """
    body, base = _body(value)
    file = validate(_V2, body, base)
    draft = Draft("itbench-v2", scenario_id, no_fault=file.no_fault, root_path=base)
    for index, item in enumerate(file.entities):
        where: JsonPath = (*base, "entities", index)
        entity = entity_of_object(item.model_dump())
        if entity is None:
            raise refuse(where, "the entry names no Kubernetes object")
        draft.groups.append((where, Group(id=str(entity), entities=(str(entity),), root_cause=True)))
    solutions = body.get("solutions")
    draft.rest = {"remediation": {"solutions": solutions} if solutions else None}
    return draft


def _body(value: Any) -> tuple[dict[str, Any], JsonPath]:
    """The part with the content, and where it stands: ``spec`` of a wrapped file, else the file."""
    spec = value.get("spec")
    return (spec, ("spec",)) if isinstance(spec, dict) else (value, ())
