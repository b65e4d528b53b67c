"""Recognises a truth that lies where an agent would see it, by its form; what it says is never used."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from diagnose_bench.errors import SuiteError

_NAME = re.compile(r"ground[-_ ]?truth", re.IGNORECASE)
DOCUMENT_SUFFIXES = frozenset({".json", ".yaml", ".yml"})
_CHUNK = 1 << 20
_MAX_PARSED = 8 << 20
# Every form of a truth holds one of these pairs; a file without them is never parsed.
_MARKS = ((b"groups", b"root_cause"), (b"GroundTruth", b"spec"))


def is_truth_name(name: str) -> bool:
    """Whether a file's path says that it is a truth (``ground_truth.yaml``, ``groundtruth_v1.yaml``)."""
    return any(_NAME.match(part) for part in name.split("/"))


def require_no_truth(folder: Path, name: str) -> None:
    """Refuse a file of a snapshot that is a truth, by its name or by its form.

    Raises
    ------
    SuiteError
        The file is a truth, or cannot be told from one.
    """
    path = folder / name
    if is_truth_name(name):
        raise SuiteError(f"{path}: a truth lies inside the snapshot. Move it to ground_truth/.")
    if path.suffix.lower() in DOCUMENT_SUFFIXES and holds_truth(path):
        raise SuiteError(
            f"{path}: has the form of a truth (groups with a root_cause) but lies inside the snapshot. "
            "Move it to ground_truth/."
        )


def holds_truth(path: Path) -> bool:
    """Whether a JSON or YAML file has the form of a truth; one with its words that cannot be parsed counts.

    Raises
    ------
    SuiteError
        The file cannot be read.
    """
    try:
        if not _has_marks(path):
            return False
        if path.stat().st_size > _MAX_PARSED:
            return True
        data = path.read_bytes()
    except OSError as error:
        raise SuiteError(f"{path}: cannot read the file: {error.strerror}.") from error
    try:
        documents = [json.loads(data)] if path.suffix.lower() == ".json" else list(_yaml_documents(data))
    except (ValueError, RecursionError, yaml.YAMLError):
        return True
    return any(_is_truth(document) for document in documents)


def _yaml_documents(data: bytes) -> Any:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load_all(data, Loader=loader)


def _has_marks(path: Path) -> bool:
    """Search for the words, block by block, with an overlap for one that two blocks share."""
    wanted = {word for pair in _MARKS for word in pair}
    overlap = max(map(len, wanted)) - 1
    seen: set[bytes] = set()
    tail = b""
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            block = tail + chunk
            seen |= {word for word in wanted - seen if word in block}
            if any(seen.issuperset(pair) for pair in _MARKS):
                return True
            tail = block[-overlap:]
    return False


def _is_truth(value: Any) -> bool:
    candidates = value if isinstance(value, list) else [value]
    return any(_is_one_truth(candidate) for candidate in candidates)


def _is_one_truth(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if value.get("kind") == "GroundTruth":
        return True
    if isinstance(spec := value.get("spec"), dict) and _is_one_truth(spec):
        return True
    groups = value.get("groups")
    return isinstance(groups, list) and any(
        isinstance(group, dict) and "root_cause" in group for group in groups
    )
