"""Recorded observations of Kubernetes objects -> ``objects.jsonl`` and ``changes.jsonl``.

The observations go through a file on disk, so that memory holds their places only, not their bytes.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import jsonpatch

from diagnose_bench.entity import Entity, entity_of_object, parse_canonical
from diagnose_bench.files import sha256_of_bytes
from diagnose_bench.importers.itbench_tables import Span, read_time, shown_time, table_columns, time_column

_REDACTED = "REDACTED"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# An Event is evidence and no object of the inventory.
_NO_OBJECTS = frozenset({"Event"})
_MAX_DEPTH = 100


class Spool:
    """Byte strings in a file, found again by their place."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._end = 0

    def put(self, data: bytes) -> tuple[int, int]:
        """Store a string; the answer is its place."""
        place = (self._end, len(data))
        self._file.seek(self._end)
        self._file.write(data)
        self._end += len(data)
        return place

    def get(self, place: tuple[int, int]) -> bytes:
        """Return a string by its place."""
        self._file.seek(place[0])
        return self._file.read(place[1])


class _Observation(NamedTuple):
    time: str
    place: tuple[int, int] | None
    """None where the object was seen to be deleted."""


@dataclass(frozen=True)
class ObjectCounts:
    """How many lines were written."""

    n_objects: int
    n_changes: int


class ObjectHistory:
    """Collects observations in any order; writes the last of each object and what changed between them."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._seen: dict[Entity, list[_Observation]] = {}
        self._latest: dict[Entity, tuple[str, tuple[int, int]]] = {}
        self.span = Span()
        self.n_rows: dict[Path, int] = {}
        self.n_unreadable = 0

    def read_table(self, path: Path) -> None:
        """Read a table of observations; rows that hold no object are counted and passed over."""
        columns, rows = table_columns(path)
        time_index, body_index = time_column(columns), columns.get("Body")
        n_rows = 0
        for row in rows:
            n_rows += 1
            time = read_time(row[time_index]) if time_index is not None else None
            if time is None or body_index is None or not self._observe(time, row[body_index]):
                self.n_unreadable += 1
                continue
            self.span.see(time)
        self.n_rows[path] = n_rows

    def write(
        self, objects: Path, changes: Path, each: Callable[[Entity, Mapping[str, Any]], None]
    ) -> ObjectCounts:
        """Write both files, objects in the order of their entities and changes in that of time.

        Parameters
        ----------
        objects, changes : Path
            The files; ``changes`` is not made if there is none.
        each : callable
            Told of every object that is written.
        """
        found: list[tuple[str, str, tuple[int, int]]] = []
        n_objects = 0
        with objects.open("wb") as file:
            for entity in sorted(self._seen):
                observations = sorted(self._seen[entity], key=lambda observation: observation.time)
                found.extend(
                    (
                        time,
                        str(entity),
                        self._spool.put(_line({"time": shown_time(time), "entity": str(entity), **change})),
                    )
                    for time, change in self._changes(observations)
                )
                last = [observation.place for observation in observations if observation.place is not None]
                if last:
                    data = self._spool.get(last[-1])
                    file.write(data)
                    n_objects += 1
                    each(entity, json.loads(data))
        if found:
            with changes.open("wb") as file:
                for _, _, place in sorted(found):
                    file.write(self._spool.get(place))
        return ObjectCounts(n_objects, len(found))

    def _observe(self, time: str, body: str) -> bool:
        try:
            value = json.loads(body, parse_constant=_finite, parse_float=_finite)
        except (ValueError, RecursionError):
            return False
        manifests = list(_manifests(value))
        if not manifests or _is_too_deep(value):
            return False
        for manifest, deleted in manifests:
            entity = entity_of_object(manifest)
            if entity is None or not _is_canonical(entity):
                return False
            if manifest.get("kind") in _NO_OBJECTS:
                continue
            observations = self._seen.setdefault(entity, [])
            observations.append(_Observation(time, self._store(entity, _clean(manifest))))
            if deleted:
                observations.append(_Observation(time, None))
        return True

    def _store(self, entity: Entity, manifest: Mapping[str, Any]) -> tuple[int, int]:
        data = _line(manifest)
        digest = sha256_of_bytes(data)
        latest = self._latest.get(entity)
        if latest is None or latest[0] != digest:
            latest = (digest, self._spool.put(data))
            self._latest[entity] = latest
        return latest[1]

    def _changes(self, observations: list[_Observation]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield time and patch wherever two observations in a row differ in more than their status."""
        for before, after in itertools.pairwise(observations):
            if before.place == after.place:
                continue
            old = _comparable(self._spool.get(before.place)) if before.place is not None else None
            new = _comparable(self._spool.get(after.place)) if after.place is not None else None
            if old != new:
                yield after.time, {"patch": _patch(old, new), "who": None}


def _is_canonical(entity: Entity) -> bool:
    """Whether the entity can be read back from what will be written of it."""
    try:
        return parse_canonical(str(entity)) == entity
    except ValueError:
        return False


def _is_too_deep(value: Any) -> bool:
    """Whether later steps could run out of stack; the deepest real objects have some 30 levels."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return False
    return True


def _patch(old: Any, new: Any) -> list[dict[str, Any]]:
    if old is None:
        return [{"op": "add", "path": "", "value": new}]
    if new is None:
        return [{"op": "remove", "path": ""}]
    patch: list[dict[str, Any]] = jsonpatch.make_patch(old, new).patch
    return patch


def _manifests(value: Any) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield the objects of a body (bare, wrapped by a watch, or a list), each with whether it is gone."""
    if not isinstance(value, dict):
        return
    deleted = False
    if isinstance(value.get("object"), dict) and isinstance(value.get("type"), str):
        deleted = value["type"] == "DELETED"
        value = value["object"]
    if str(value.get("kind", "")).endswith("List") and isinstance(value.get("items"), list):
        yield from ((item, deleted) for item in value["items"] if isinstance(item, dict))
        return
    yield value, deleted


def _clean(manifest: dict[str, Any]) -> dict[str, Any]:
    """Drop managedFields, redact a Secret, and give owner references the form of the API."""
    cleaned = dict(manifest)
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "managedFields"}
    owners = metadata.get("ownerReferences")
    if isinstance(owners, dict):  # keyed by name, as tools that compare lists rewrite them
        metadata["ownerReferences"] = [
            {"name": name, **owner} for name, owner in owners.items() if isinstance(owner, dict)
        ]
    if manifest.get("kind") == "Secret":
        for field in ("data", "stringData"):
            if isinstance(manifest.get(field), dict):
                cleaned[field] = dict.fromkeys(manifest[field], _REDACTED)
            elif field in manifest:
                cleaned[field] = _REDACTED
        annotations = metadata.get("annotations")
        if isinstance(annotations, dict) and _LAST_APPLIED in annotations:
            metadata["annotations"] = {**annotations, _LAST_APPLIED: _REDACTED}
    cleaned["metadata"] = metadata
    return cleaned


def _comparable(data: bytes) -> dict[str, Any]:
    """Return an object without what changes by itself: its status and the counters of its versions."""
    value: dict[str, Any] = json.loads(data)
    value.pop("status", None)
    for counter in ("resourceVersion", "generation"):
        value["metadata"].pop(counter, None)
    return value


def _line(value: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can hold
        text = json.dumps(value, separators=(",", ":")).encode()
    return text + b"\n"


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no number of JSON")
    return value
