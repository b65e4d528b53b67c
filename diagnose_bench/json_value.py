"""Frozen results -> JSON values: names kept, NaN and infinities null. Knows none of the results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel


def json_value(value: Any) -> Any:
    """Turn dataclasses, models, enums, mappings and sequences into what `json` writes.

    Notes
    -----
    NaN is null: there is no number. A trailing underscore, which only Python needs, is dropped.
    """
    if isinstance(value, BaseModel):
        return json_value(value.model_dump(mode="json", by_alias=True))
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name.rstrip("_"): json_value(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): json_value(one) for key, one in value.items()}
    if isinstance(value, Sequence):
        return [json_value(one) for one in value]
    return value
