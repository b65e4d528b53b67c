from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from diagnose_bench.errors import GroundTruthError
from diagnose_bench.ground_truth import AppliedPatch, load_ground_truth, load_patches, load_truths

TRUTH: dict[str, Any] = {
    "id": "38",
    "groups": [
        {
            "id": "hpa",
            "kind": "HorizontalPodAutoscaler",
            "namespace": "shop",
            "filter": ["*.*"],
            "root_cause": True,
        }
    ],
}
REPAIR = {"op": "replace", "path": "/groups/0/filter/0", "value": "cart"}


def entry(**changes: Any) -> dict[str, Any]:
    base = {
        "scenario_id": "scenario-038",
        "who": "suite maintainer",
        "why": "The id names it.",
        "patch": [REPAIR],
    }
    return {**base, **changes}


def prepare(folder: Path, *patches: dict[str, Any], **top: Any) -> Path:
    (folder / "scenario-038.yaml").write_text(json.dumps(TRUTH))
    path = folder / "patches.yaml"
    path.write_text(json.dumps({"format_version": 1, "patches": list(patches), **top}))
    return path


def test_patched_truth_loads_and_the_patch_is_listed(tmp_path: Path) -> None:
    path = prepare(tmp_path, entry())
    found = load_truths(tmp_path, ["scenario-038"])
    assert found.refused == {}
    assert found.truths["scenario-038"].truth.groups[0].filters == ("cart",)
    expected = AppliedPatch(
        "scenario-038", "suite maintainer", "The id names it.", ("replace /groups/0/filter/0",)
    )
    assert found.patches == (expected,)
    assert found.patches_digest == hashlib.sha256(path.read_bytes()).hexdigest()
    # The digest is of the file as it is, not of what the patch makes of it.
    assert found.truths["scenario-038"].digest == hashlib.sha256(json.dumps(TRUTH).encode()).hexdigest()


def test_without_the_patch_the_truth_is_refused(tmp_path: Path) -> None:
    prepare(tmp_path, entry()).unlink()
    found = load_truths(tmp_path, ["scenario-038"])
    assert "no regular expression" in found.refused["scenario-038"]


def test_patches_of_one_scenario_apply_in_order_and_can_be_applied_again(tmp_path: Path) -> None:
    whole = {"op": "replace", "path": "/groups/0/filter", "value": ["a"]}
    more = {"op": "add", "path": "/groups/0/filter/-", "value": "b"}
    patches = load_patches(prepare(tmp_path, entry(patch=[whole]), entry(patch=[more])))
    for _ in range(2):
        loaded = load_ground_truth(tmp_path / "scenario-038.yaml", patches=patches)
        assert loaded.truth.groups[0].filters == ("a", "b")
        assert len(loaded.patches) == 2


def test_patch_may_say_that_nothing_is_wrong(tmp_path: Path) -> None:
    operations = [
        {"op": "replace", "path": "/groups", "value": []},
        {"op": "add", "path": "/no_fault", "value": True},
    ]
    prepare(tmp_path, entry(patch=operations))
    assert load_truths(tmp_path, ["scenario-038"]).truths["scenario-038"].truth.no_fault


def test_truth_that_stays_wrong_after_its_patch_is_refused(tmp_path: Path) -> None:
    prepare(tmp_path, entry(patch=[{**REPAIR, "value": "("}]))
    assert "no regular expression" in load_truths(tmp_path, ["scenario-038"]).refused["scenario-038"]


def test_scenario_outside_of_the_selection_may_be_patched(tmp_path: Path) -> None:
    prepare(tmp_path, entry())
    (tmp_path / "scenario-001.yaml").write_text(json.dumps({**TRUTH, "id": "1"}))
    found = load_truths(tmp_path, ["scenario-001"])
    assert found.patches == ()
    assert list(found.refused) == ["scenario-001"]


@pytest.mark.parametrize(
    ("operation", "place"),
    [
        ({"op": "remove", "path": "/groups/7"}, "patch[0]"),
        ({"op": "replace", "path": "/groups/0/names", "value": "x"}, "patch[0]"),
        ({"op": "test", "path": "/groups/0/filter/0", "value": "other"}, "patch[0]"),
        ({"op": "add", "path": "/groups/x/id", "value": "x"}, "patch[0]"),
        ({"op": "add", "path": "groups", "value": "x"}, "patch[0]"),
        ({"op": "add", "path": "/id/x", "value": "x"}, "patch[0]"),
        ({"op": "replace", "path": "/id"}, "patch[0]"),
        ({"op": "move", "path": "/id"}, "patch[0]"),
        ({"op": "move", "from": "/nothing", "path": "/id"}, "patch[0]"),
        ({"op": "remove", "path": "/id/~2"}, "patch[0]"),
    ],
)
def test_operation_that_does_not_apply_is_refused(
    tmp_path: Path, operation: dict[str, Any], place: str
) -> None:
    path = prepare(tmp_path, entry(patch=[operation]))
    with pytest.raises(GroundTruthError) as caught:
        load_truths(tmp_path, ["scenario-038"])
    assert str(caught.value).startswith(
        f"{path}: $.patches[0].{place}: {operation['op']} {operation['path']} does not"
    )


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        (entry(scenario_id="scenario-083"), '$.patches[0].scenario_id: unknown scenario "scenario-083".'),
        (entry(who=""), "$.patches[0].who: "),
        (entry(why=None), "$.patches[0].why: "),
        (entry(patch=[]), "$.patches[0].patch: "),
        (entry(patch=[{"op": "merge", "path": "/id"}]), "$.patches[0].patch[0].op: "),
        (entry(patch=[{"op": "remove"}]), '$.patches[0].patch[0]: the field "path" is missing'),
        (
            entry(patch=[{"op": "remove", "path": "/id", "form": "/x"}]),
            "$.patches[0].patch[0].form: unknown field",
        ),
        (entry(patch=[{"op": "remove", "path": "/id"}] * 1001), "$.patches[0].patch: "),
        (entry(reason="x"), '$.patches[0].reason: unknown field "reason".'),
    ],
)
def test_malformed_patch_file_is_refused_for_the_whole_suite(
    tmp_path: Path, patch: dict[str, Any], expected: str
) -> None:
    path = prepare(tmp_path, patch)
    with pytest.raises(GroundTruthError) as caught:
        load_truths(tmp_path, ["scenario-038"])
    assert str(caught.value).startswith(f"{path}: {expected}")


@pytest.mark.parametrize(
    "content", ["", "[]", "patches: []", "format_version: 2\npatches: []", "a: [", "a: 1\na: 2"]
)
def test_file_that_is_no_patch_file_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "patches.yaml"
    path.write_text(content)
    with pytest.raises(GroundTruthError, match=r"patches\.yaml: "):
        load_patches(path)


def test_patch_file_that_is_a_broken_link_is_not_overlooked(tmp_path: Path) -> None:
    (tmp_path / "patches.yaml").symlink_to(tmp_path / "nowhere")
    with pytest.raises(GroundTruthError, match="does not exist"):
        load_truths(tmp_path, [])


def test_copies_cannot_grow_without_bound(tmp_path: Path) -> None:
    # Each copy puts the whole list into itself: 2^60 values if nothing stopped it.
    operations = [{"op": "copy", "from": "/groups", "path": "/groups/-"}] * 60
    prepare(tmp_path, entry(patch=operations))
    with pytest.raises(GroundTruthError, match="has more than"):
        load_truths(tmp_path, ["scenario-038"])
