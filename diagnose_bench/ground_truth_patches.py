"""The patch file beside the truths: mends known defects of truths that others published, in the open.

``patches.yaml`` holds a list of patches: the scenario, who decided it, why, and a JSON patch (RFC 6902).
Whatever does not apply is refused: a patch that silently does nothing would change scores.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jsonpatch
import jsonpointer
from pydantic import BaseModel, ConfigDict, Field

from diagnose_bench.documents import VersionOne
from diagnose_bench.errors import DiagnoseBenchError, GroundTruthError
from diagnose_bench.files import read_bytes, sha256_of_bytes
from diagnose_bench.ground_truth_document import MAX_TRUTH_BYTES, count_values, parse_document
from diagnose_bench.ground_truth_refusal import JsonPath, Problem, Refusal, did_you_mean, message_of, quoted
from diagnose_bench.ground_truth_validation import validate
from diagnose_bench.ground_truth_yaml import MAX_TRUTH_VALUES, Document

PATCH_FILE_NAME = "patches.yaml"
MAX_OPERATIONS = 1000


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class _Operation(_Part):
    op: Literal["add", "remove", "replace", "move", "copy", "test"]
    path: str
    value: Any = None
    from_: str | None = Field(default=None, alias="from")


class _Patch(_Part):
    scenario_id: str = Field(min_length=1)
    who: str = Field(min_length=1)
    why: str = Field(min_length=1)
    patch: list[_Operation] = Field(min_length=1, max_length=MAX_OPERATIONS)


class _File(_Part):
    format_version: VersionOne
    patches: list[_Patch]


@dataclass(frozen=True, slots=True)
class AppliedPatch:
    """One patch that was applied: what the scorecard lists."""

    scenario_id: str
    who: str
    why: str
    operations: tuple[str, ...]
    """``<op> <path>`` of each operation."""


@dataclass(frozen=True)
class PatchFile:
    """A patch file that was read; ``digest`` is the SHA-256 of its bytes."""

    path: Path
    digest: str
    document: Document
    content: _File

    @property
    def scenario_ids(self) -> tuple[str, ...]:
        """The scenarios that the file patches, sorted."""
        return tuple(sorted({patch.scenario_id for patch in self.content.patches}))

    def check_scenarios(self, known: Collection[str]) -> None:
        """Refuse the file if it names a scenario that is not known.

        Raises
        ------
        GroundTruthError
            With the name that is unknown.
        """
        for index, patch in enumerate(self.content.patches):
            if patch.scenario_id not in known:
                hint = did_you_mean(patch.scenario_id, sorted(known))
                reason = f"unknown scenario {quoted(patch.scenario_id)}.{hint}"
                raise self._error(("patches", index, "scenario_id"), reason)

    def apply(self, scenario_id: str, value: Any) -> tuple[Any, tuple[AppliedPatch, ...]]:
        """Apply the patches of one scenario to its document; the document itself stays as it is.

        Raises
        ------
        GroundTruthError
            An operation does not apply; the message names the patch file.
        """
        applied = []
        value = copy.deepcopy(value)
        for index, patch in enumerate(self.content.patches):
            if patch.scenario_id != scenario_id:
                continue
            # As written, not as modelled: a missing `value` and `value: null` are two different things. A
            # copy, because an operation's value becomes part of the truth, which later operations change.
            operations = copy.deepcopy(self.document.value["patches"][index]["patch"])
            for place, operation in enumerate(operations):
                value = self._apply_one(operation, value, ("patches", index, "patch", place))
            shown = tuple(_shown(operation) for operation in operations)
            applied.append(AppliedPatch(scenario_id, patch.who, patch.why, shown))
        return value, tuple(applied)

    def _apply_one(self, operation: dict[str, Any], value: Any, where: JsonPath) -> Any:
        try:
            # One at a time, so that the message names the operation.
            patched = jsonpatch.JsonPatch([operation]).apply(value, in_place=True)
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as error:
            raise self._error(where, f"{_shown(operation)} does not apply: {error}") from error
        except (TypeError, KeyError, IndexError, AttributeError, ValueError) as error:
            raise self._error(where, f"{_shown(operation)} does not apply") from error
        # Only a copy can grow a truth beyond the size of its file and the patch file.
        if operation["op"] == "copy" and count_values(patched) > MAX_TRUTH_VALUES:
            raise self._error(where, f"the patched truth has more than {MAX_TRUTH_VALUES} values")
        return patched

    def _error(self, where: JsonPath, reason: str) -> GroundTruthError:
        problem = Problem(where, reason, self.document.line(where))
        return GroundTruthError(message_of(self.path, [problem]))


def _shown(operation: dict[str, Any]) -> str:
    return f"{operation.get('op')} {operation.get('path')}"


def load_patches(path: Path) -> PatchFile:
    """Read a patch file.

    Raises
    ------
    GroundTruthError
        The file cannot be read or is not a patch file; the message has file, JSON path and reason.
    """
    try:
        data = read_bytes(path, "patch file", MAX_TRUTH_BYTES)
    except DiagnoseBenchError as error:
        raise GroundTruthError(str(error)) from error
    document = Document(None)
    try:
        document = parse_document(data)
        content = validate(_File, document.value)
    except Refusal as refusal:
        raise GroundTruthError(message_of(path, refusal.problems, document)) from refusal
    return PatchFile(path, sha256_of_bytes(data), document, content)
