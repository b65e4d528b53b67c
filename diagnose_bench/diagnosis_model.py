"""Diagnosis: the model of what an agent submits, and its JSON Schema. Knows no other shape and no repair."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    GetJsonSchemaHandler,
    StrictFloat,
    StrictInt,
    StrictStr,
)
from pydantic_core import CoreSchema

MAX_ENTITIES = 10_000
_MAX_LINE = 2**53 - 1  # the largest integer that every JSON reader keeps exact


class _NullIsAbsent:
    """Metadata: the JSON Schema of a field whose ``null`` means that it is absent."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [handler(core), {"type": "null"}]}


def _list(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise ValueError("must be a list")
    return value


def _list_or_absent(value: Any) -> Any:
    return [] if value is None else _list(value)


def _object_or_absent(value: Any) -> Any:
    return {} if value is None else value


def _whole_number(value: Any) -> Any:
    # JSON has one kind of number: 42.0 is the integer 42.
    return int(value) if isinstance(value, float) and value.is_integer() else value


_ListOrNull = BeforeValidator(_list_or_absent)
_ObjectOrNull = BeforeValidator(_object_or_absent)


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)


class Evidence(_Model):
    """Where the agent saw it."""

    file: StrictStr | None = None
    """Path of a file of the snapshot."""
    line: Annotated[StrictInt, Field(ge=1, le=_MAX_LINE), BeforeValidator(_whole_number)] | None = None
    """Line of that file, from 1."""
    quote: StrictStr | None = None
    """What stands there."""


class RootCause(_Model):
    """One submitted entity."""

    entity: StrictStr
    """The entity: [namespace/]Kind[.group]/name."""
    reasoning: StrictStr | None = None
    """Why it is a root cause."""
    confidence: Annotated[StrictFloat, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    """Between 0 and 1; it never reorders the list."""
    evidence: Annotated[tuple[Evidence, ...], FailFast(), _ListOrNull, _NullIsAbsent()] = ()
    """What supports it."""


class Propagation(_Model):
    """One step on which the fault travelled."""

    source: StrictStr | None = None
    """The entity it came from."""
    target: StrictStr | None = None
    """The entity it went to."""
    effect: StrictStr | None = None
    """What happened there."""


class Diagnosis(_Model):
    """The root causes of an incident, most confident first; the empty list says that nothing is wrong."""

    root_causes: Annotated[tuple[RootCause, ...], Field(max_length=MAX_ENTITIES), BeforeValidator(_list)]
    """The root causes, most confident first."""
    propagation: Annotated[tuple[Propagation, ...], FailFast(), _ListOrNull, _NullIsAbsent()] = ()
    """How the fault travelled; not scored."""
    remediation: Annotated[dict[str, Any], _ObjectOrNull, _NullIsAbsent()] = Field(default_factory=dict)
    """What to do about it."""

    def entities(self) -> tuple[str, ...]:
        """The submitted entities as they were written, in the order of submission."""
        return tuple(cause.entity for cause in self.root_causes)


def diagnosis_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of the native shape."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Diagnosis.model_json_schema()}
