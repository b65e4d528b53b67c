"""Every public ITBench truth is loaded, or refused with file, path and reason (the tables: tests/golden)."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from diagnose_bench.errors import GroundTruthError
from diagnose_bench.ground_truth import LoadedTruth, load_ground_truth, load_ground_truths, load_truths
from diagnose_bench.ground_truth_document import parse_document

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden"
SETS = {
    "itbench_main v1": ("itbench_main", "groundtruth_v1.yaml"),
    "itbench_main v2": ("itbench_main", "groundtruth.yaml"),
    "itbench_scenarios_archive v1": ("itbench_scenarios_archive", "groundtruth_v1.yaml"),
    "itbench_scenarios_archive v2": ("itbench_scenarios_archive", "groundtruth.yaml"),
}
EVALUATIONS = "ground_truths_evaluations"


@pytest.fixture(scope="module")
def truth_folder(shared_data: Path) -> Path:
    return shared_data / "itbench" / "ground_truth"


def files_of(truth_folder: Path, name: str) -> dict[str, Path]:
    folder, file_name = SETS[name]
    return {
        f"scenario-{int(path.parent.name.removeprefix('scenario_')):03d}": path
        for path in sorted((truth_folder / folder).glob(f"scenario_*/{file_name}"))
    }


@pytest.fixture(scope="module")
def loaded(truth_folder: Path) -> dict[tuple[str, str], LoadedTruth | GroundTruthError]:
    """What became of each truth, by (set, scenario)."""
    found: dict[tuple[str, str], LoadedTruth | GroundTruthError] = {}
    for name in SETS:
        for scenario_id, path in files_of(truth_folder, name).items():
            try:
                found[name, scenario_id] = load_ground_truth(path, scenario_id=scenario_id)
            except GroundTruthError as error:
                found[name, scenario_id] = error
    for scenario_id, result in load_ground_truths(truth_folder / f"{EVALUATIONS}.json").items():
        found[EVALUATIONS, scenario_id] = result
    return found


def golden(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((GOLDEN / name).read_text())["rows"]
    return rows


def test_number_of_truths_is_the_published_one(loaded: dict[tuple[str, str], Any]) -> None:
    # Counted beforehand: 61 v1 and 51 + 12 + 2 + 1 + 1 = 67 v2 files on main (by their number of entities),
    # 27 of each in the archive, 44 entries in the list.
    counts = {name: sum(1 for key in loaded if key[0] == name) for name in [*SETS, EVALUATIONS]}
    assert counts == {
        "itbench_main v1": 61,
        "itbench_main v2": 67,
        "itbench_scenarios_archive v1": 27,
        "itbench_scenarios_archive v2": 27,
        EVALUATIONS: 44,
    }


def test_refused_truths_are_exactly_those_of_the_table(
    loaded: dict[tuple[str, str], LoadedTruth | GroundTruthError],
) -> None:
    rows = []
    for (name, scenario_id), result in loaded.items():
        if isinstance(result, GroundTruthError):
            for line in str(result).splitlines():
                _, path, reason = line.split(": ", 2)
                rows.append((name, scenario_id, path, re.sub(r" \(line \d+\)$", "", reason)))
    expected = [
        (row["set"], row["scenario_id"], row["path"], row["reason"])
        for row in golden("itbench_refusals.json")
    ]
    assert sorted(rows) == sorted(expected)


def test_every_refusal_names_its_file(loaded: dict[tuple[str, str], Any], truth_folder: Path) -> None:
    for result in loaded.values():
        if isinstance(result, GroundTruthError):
            assert all(line.startswith(f"{truth_folder}/") for line in str(result).splitlines())


def test_warnings_are_exactly_those_of_the_table(
    loaded: dict[tuple[str, str], LoadedTruth | GroundTruthError],
) -> None:
    rows = [
        (name, scenario_id, *warning.split(": dropped: ", 1))
        for (name, scenario_id), result in loaded.items()
        if isinstance(result, LoadedTruth)
        for warning in result.warnings
    ]
    expected = [
        (row["set"], row["scenario_id"], row["path"], row["dropped"])
        for row in golden("itbench_warnings.json")
    ]
    assert sorted(rows) == sorted(expected)


def test_dangling_ids_are_those_that_plain_counting_finds(
    loaded: dict[tuple[str, str], LoadedTruth | GroundTruthError], truth_folder: Path
) -> None:
    for name in ("itbench_main v1", "itbench_scenarios_archive v1"):
        for scenario_id, path in files_of(truth_folder, name).items():
            result = loaded[name, scenario_id]
            if isinstance(result, GroundTruthError):
                continue
            document = yaml.safe_load(path.read_text())
            body = document.get("spec", document)
            ids = {group["id"] for group in body["groups"]}
            mentioned = [step[end] for step in body["propagations"] for end in ("source", "target")]
            mentioned += [alert["group_id"] for alert in body["alerts"] if "group_id" in alert]
            mentioned += [
                fault["entity"].get("group_id") for fault in body["fault"] if "group_id" in fault["entity"]
            ]
            dangling = sorted(group_id for group_id in mentioned if group_id not in ids)
            found = [re.search(r'unknown group "([^"]*)"', warning) for warning in result.warnings]
            assert sorted(match.group(1) for match in found if match) == dangling


def test_loaded_truths_keep_every_root_and_every_group(
    loaded: dict[tuple[str, str], LoadedTruth | GroundTruthError], truth_folder: Path
) -> None:
    # The oracle is PyYAML and a dozen lines of counting, without our reader.
    for name in ("itbench_main v1", "itbench_scenarios_archive v1"):
        for scenario_id, path in files_of(truth_folder, name).items():
            result = loaded[name, scenario_id]
            if isinstance(result, GroundTruthError):
                continue
            document = yaml.safe_load(path.read_text())
            groups = document.get("spec", document)["groups"]
            ids = list(dict.fromkeys(group["id"] for group in groups))
            roots = list(dict.fromkeys(group["id"] for group in groups if group.get("root_cause")))
            assert [group.id for group in result.truth.groups] == ids
            assert [group.id for group in result.truth.root_groups] == roots


def test_roots_of_a_scenario_number_what_the_facts_say(
    loaded: dict[tuple[str, str], LoadedTruth | GroundTruthError],
) -> None:
    # Evaluations: 43 scenarios with one root and one (38, refused here) with three.
    counts = [
        len(result.truth.root_groups)
        for (name, _), result in loaded.items()
        if name == EVALUATIONS and isinstance(result, LoadedTruth)
    ]
    assert counts == [1] * 43


def test_our_reader_and_pyyaml_agree_on_every_real_file(truth_folder: Path) -> None:
    paths = sorted(truth_folder.glob("itbench_*/scenario_*/*.yaml"))
    assert len(paths) == 61 + 67 + 27 + 27
    for path in paths:
        assert parse_document(path.read_bytes()).value == yaml.safe_load(path.read_text())


@pytest.mark.parametrize("name", SETS)
def test_patch_file_mends_every_refused_truth_and_is_listed(
    name: str, truth_folder: Path, tmp_path: Path
) -> None:
    files = files_of(truth_folder, name)
    for scenario_id, path in files.items():
        shutil.copyfile(path, tmp_path / f"{scenario_id}.yaml")
    refused = {row["scenario_id"] for row in golden("itbench_refusals.json") if row["set"] == name}
    assert set(load_truths(tmp_path, list(files)).refused) == refused
    shutil.copyfile(HERE / "itbench_patches" / f"{name.replace(' ', '_')}.yaml", tmp_path / "patches.yaml")
    mended = load_truths(tmp_path, list(files))
    assert mended.refused == {}
    assert {patch.scenario_id for patch in mended.patches} == refused
    assert all(patch.who and patch.why.endswith(".") for patch in mended.patches)
    for patch in mended.patches:
        assert mended.truths[patch.scenario_id].patches == (patch,)


def test_mended_scenario_37_has_no_fault_and_38_has_its_autoscalers(
    truth_folder: Path, tmp_path: Path
) -> None:
    for name, scenario_id in (
        ("itbench_main v2", "scenario-037"),
        ("itbench_scenarios_archive v1", "scenario-038"),
    ):
        folder = tmp_path / scenario_id
        folder.mkdir()
        shutil.copyfile(files_of(truth_folder, name)[scenario_id], folder / f"{scenario_id}.yaml")
        patches = yaml.safe_load((HERE / "itbench_patches" / f"{name.replace(' ', '_')}.yaml").read_text())
        patches["patches"] = [row for row in patches["patches"] if row["scenario_id"] == scenario_id]
        (folder / "patches.yaml").write_text(yaml.safe_dump(patches))
        truth = load_truths(folder, [scenario_id]).truths[scenario_id].truth
        if scenario_id == "scenario-037":
            assert (truth.no_fault, truth.root_groups) == (True, ())
        else:
            filters = [group.filters for group in truth.root_groups]
            assert filters == [("fraud-detection",), ("frontend",), ("image-provider",)]
