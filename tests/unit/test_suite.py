"""Claims about suites: what is found, what is refused, and how bytes are held against digests."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from diagnose_bench import snapshot_truth, suite
from diagnose_bench.errors import DigestMismatchError, SuiteError
from diagnose_bench.suite import Scenario, Suite, load_suite, suite_schema, verify_scenario
from diagnose_bench.suite_digest import digest_suite, list_suites, suite_summary

WINDOW = {
    "start": "2025-01-01T00:00:00Z",
    "detected_at": "2025-01-01T00:30:00Z",
    "end": "2025-01-01T00:45:00Z",
}
IDS = ("scenario-001", "scenario-002")


def write_suite(root: Path, **changes: Any) -> Path:
    """Write a suite of two small snapshots, digests entered."""
    folder = root / "snapshots" / "small"
    for number, scenario_id in enumerate(IDS):
        snapshot = folder / scenario_id
        snapshot.mkdir(parents=True)
        (snapshot / "events.jsonl").write_text(f'{{"reason": "Killing", "n": {number}}}\n')
        (snapshot / "topology.json").write_text('{"nodes": [], "edges": []}')
        manifest = {"format_version": 1, "window": WINDOW, "files": [], "sources": []}
        (snapshot / "snapshot.json").write_text(json.dumps(manifest))
    document = suite_document(**changes)
    (folder / "suite.json").write_text(json.dumps(document))
    digest_suite(str(folder), write=True)
    return folder


def suite_document(**changes: Any) -> dict[str, Any]:
    """Return a valid suite.json without digests."""
    return {
        "format_version": 1,
        "name": "small",
        "version": "1.0",
        "pass_score": 1.0,
        "scenarios": [{"id": scenario_id, "digest": None} for scenario_id in IDS],
        **changes,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a small suite."""
    return write_suite(tmp_path)


def test_suite_loads_and_verifies(folder: Path) -> None:
    loaded = load_suite(str(folder))
    assert (loaded.name, loaded.version, loaded.pass_score, loaded.splits) == ("small", "1.0", 1.0, None)
    assert [scenario.id for scenario in loaded.scenarios] == list(IDS)
    assert loaded.path == folder
    for scenario in loaded.scenarios:
        assert [entry.path for entry in verify_scenario(scenario).files] == ["events.jsonl", "topology.json"]


def test_digests_are_the_formula(folder: Path) -> None:
    def digest(value: Any) -> str:
        text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    loaded = load_suite(str(folder))
    scenarios = [
        {
            "id": scenario_id,
            "digest": digest(json.loads((folder / scenario_id / "snapshot.json").read_text())),
        }
        for scenario_id in IDS
    ]
    assert [scenario.digest for scenario in loaded.scenarios] == [entry["digest"] for entry in scenarios]
    whole = {"name": "small", "version": "1.0", "pass_score": 1.0, "splits": None, "scenarios": scenarios}
    assert loaded.digest == digest(whole)


@pytest.mark.parametrize(
    "given", ["scenario-002", "2", "002", "Scenario-2", "SCENARIO-02", "scenario_2", " 2 "]
)
def test_scenario_is_found_by_id_or_number(folder: Path, given: str) -> None:
    assert load_suite(str(folder)).scenario(given).id == "scenario-002"


@pytest.mark.parametrize("given", ["3", "scenario-20", "", "two", "-2", "2.0", "9" * 10_000, "²"])
def test_unknown_scenario_is_refused(folder: Path, given: str) -> None:
    with pytest.raises(SuiteError, match="has no scenario"):
        load_suite(str(folder)).scenario(given)


def test_unknown_scenario_names_the_close_ones(folder: Path) -> None:
    with pytest.raises(SuiteError, match=r"Did you mean scenario-00[12]"):
        load_suite(str(folder)).scenario("scenaro-002")


def test_number_that_two_scenarios_have_is_refused(tmp_path: Path) -> None:
    scenarios = (Scenario("scenario-2", None, None), Scenario("scenario-002", None, None))
    found = Suite("s", "1", 1.0, None, scenarios, "", tmp_path)
    assert found.scenario("scenario-2") is scenarios[0], "an exact id wins"
    with pytest.raises(SuiteError, match="Several have that number: scenario-2, scenario-002"):
        found.scenario("2")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format_version": 7}, "format_version 7 is newer"),
        ({"name": "../x"}, r"\$\.name"),
        ({"version": 1}, r"\$\.version"),
        ({"pass_score": 0}, r"\$\.pass_score"),
        ({"pass_score": 1.5}, r"\$\.pass_score"),
        ({"pass_score": "1"}, r"\$\.pass_score"),
        ({"title": "x"}, r"\$\.title: Extra inputs"),
        ({"scenarios": []}, r"\$\.scenarios"),
        ({"scenarios": [{"id": "../x", "digest": None}]}, r"\$\.scenarios\[0\]\.id"),
        ({"scenarios": [{"id": "..", "digest": None}]}, r"\$\.scenarios\[0\]\.id"),
        ({"scenarios": [{"id": "a/b", "digest": None}]}, r"\$\.scenarios\[0\]\.id"),
        ({"scenarios": [{"id": "A", "digest": None}]}, r"\$\.scenarios\[0\]\.id"),
        ({"scenarios": [{"id": "a\n", "digest": None}]}, r"\$\.scenarios\[0\]\.id"),
        ({"scenarios": [{"id": "a", "digest": "12"}]}, r"\$\.scenarios\[0\]\.digest"),
        ({"scenarios": [{"id": "a", "digest": None}] * 2}, '"a" is listed twice'),
        ({"splits": {"public": ["scenario-001"]}}, '"scenario-002" is in none'),
        ({"splits": {"a": list(IDS), "b": ["scenario-001"]}}, '"scenario-001" is in them twice'),
        ({"splits": {"a": [*IDS, "scenario-009"]}}, '"scenario-009", which is no scenario'),
        ({"splits": {"a": list(IDS), "b": []}}, 'split "b" is empty'),
    ],
)
def test_wrong_suite_file_is_refused_with_its_place(
    folder: Path, changes: dict[str, Any], reason: str
) -> None:
    (folder / "suite.json").write_text(json.dumps(suite_document(**changes)))
    with pytest.raises(SuiteError, match=reason) as caught:
        load_suite(str(folder))
    assert str(folder / "suite.json") in str(caught.value)


def test_splits_that_are_disjoint_and_cover_are_read(tmp_path: Path) -> None:
    splits = {"public": ["scenario-002"], "private": ["scenario-001"]}
    folder = write_suite(tmp_path, splits=splits)
    assert load_suite(str(folder)).splits == {"public": ("scenario-002",), "private": ("scenario-001",)}


def test_schema_accepts_what_is_written(folder: Path) -> None:
    schema = suite_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads((folder / "suite.json").read_text()), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(suite_document(name="../x"), schema)


def test_schema_and_reader_agree_on_what_may_be_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "snapshots" / "small"
    folder.mkdir(parents=True)
    whole = suite_document(scenarios=[{"id": "scenario-001", "digest": None}], splits=None)
    for left_out in whole:
        document = {key: value for key, value in whole.items() if key != left_out}
        (folder / "suite.json").write_text(json.dumps(document))
        if jsonschema.Draft202012Validator(suite_schema()).is_valid(document):
            load_suite(str(folder))
        else:
            with pytest.raises(SuiteError, match=left_out):
                load_suite(str(folder))


def test_a_digest_may_be_left_out_until_it_is_entered(folder: Path) -> None:
    document = suite_document(scenarios=[{"id": scenario_id} for scenario_id in IDS])
    jsonschema.validate(document, suite_schema())
    (folder / "suite.json").write_text(json.dumps(document))
    with pytest.raises(SuiteError, match="has a snapshot but no digest"):
        load_suite(str(folder))
    assert digest_suite(str(folder), write=True).written
    verify_scenario(scenario_of(folder))


def test_a_wrong_member_of_a_list_is_one_fault_and_an_empty_list_is_told_plainly(folder: Path) -> None:
    (folder / "suite.json").write_text(json.dumps(suite_document(scenarios=[{"id": "A"}])))
    with pytest.raises(SuiteError) as caught:
        load_suite(str(folder))
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()[1:]] == ["  $.scenarios[0].id"]
    (folder / "suite.json").write_text(json.dumps(suite_document(scenarios=[])))
    with pytest.raises(SuiteError, match=r"\$\.scenarios: must have at least 1, and has 0"):
        load_suite(str(folder))


def test_unknown_suite_names_the_bundled_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_suite(tmp_path)
    monkeypatch.setattr(suite, "snapshots_root", lambda: tmp_path / "snapshots")
    assert load_suite("small").path == tmp_path / "snapshots" / "small"
    assert [entry["name"] for entry in list_suites()] == ["small"]
    with pytest.raises(SuiteError, match=r"Did you mean small\? Bundled: small"):
        load_suite("smal")
    with pytest.raises(SuiteError, match="neither a bundled suite nor a folder"):
        load_suite("../no/such/folder")
    for odd in ("", "a\0b", "x" * 5000):
        with pytest.raises(SuiteError, match="neither a bundled suite nor a folder"):
            load_suite(odd)


def test_folder_near_a_suite_is_refused_with_the_right_one(folder: Path) -> None:
    for near in (folder.parent, folder.parent.parent):
        with pytest.raises(SuiteError, match=f"Did you mean {folder}"):
            load_suite(str(near))
    with pytest.raises(SuiteError, match=f"It is a scenario of the suite {folder}"):
        load_suite(str(folder / "scenario-001"))


def test_suite_outside_a_snapshots_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "elsewhere")
    with pytest.raises(SuiteError, match="must lie in a folder called snapshots"):
        load_suite(str(tmp_path / "elsewhere"))


def test_missing_snapshot_is_refused(folder: Path) -> None:
    shutil.rmtree(folder / "scenario-002")
    with pytest.raises(SuiteError, match="scenario-002: the snapshot of this scenario is missing"):
        load_suite(str(folder))


def test_snapshot_behind_a_link_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "scenario-002").rename(tmp_path / "elsewhere")
    (folder / "scenario-002").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SuiteError, match="or no folder"):
        load_suite(str(folder))


def test_snapshot_without_a_digest_on_record_is_refused(folder: Path) -> None:
    (folder / "suite.json").write_text(json.dumps(suite_document()))
    with pytest.raises(SuiteError, match="suite digest SUITE --write"):
        load_suite(str(folder))


def test_suite_of_truths_alone_loads_and_has_nothing_to_verify(tmp_path: Path) -> None:
    folder = tmp_path / "snapshots" / "truths"
    folder.mkdir(parents=True)
    (folder / "suite.json").write_text(json.dumps(suite_document(name="truths")))
    scenario = load_suite(str(folder)).scenario("1")
    assert (scenario.snapshot, scenario.digest) == (None, None)
    with pytest.raises(SuiteError, match="truths alone"):
        verify_scenario(scenario)
    assert suite_summary(load_suite(str(folder)))["n_files"] == 0
    assert digest_suite(str(folder)).matches


def scenario_of(folder: Path) -> Scenario:
    return load_suite(str(folder)).scenario("1")


def test_changed_byte_is_found(folder: Path) -> None:
    path = folder / "scenario-001" / "events.jsonl"
    path.write_text(path.read_text().replace("Killing", "Killinh"))
    with pytest.raises(DigestMismatchError, match=r"events\.jsonl: has digest"):
        verify_scenario(scenario_of(folder))


def test_changed_size_is_found(folder: Path) -> None:
    with (folder / "scenario-001" / "events.jsonl").open("a") as file:
        file.write("\n")
    with pytest.raises(DigestMismatchError, match=r"events\.jsonl: has \d+ bytes"):
        verify_scenario(scenario_of(folder))


def test_missing_and_extra_files_are_found(folder: Path) -> None:
    (folder / "scenario-001" / "more.txt").write_text("")
    with pytest.raises(DigestMismatchError, match=r"more\.txt there but not in the manifest"):
        verify_scenario(scenario_of(folder))
    (folder / "scenario-001" / "more.txt").unlink()
    (folder / "scenario-001" / "topology.json").unlink()
    with pytest.raises(DigestMismatchError, match=r"topology\.json in the manifest but not there"):
        verify_scenario(scenario_of(folder))


def test_changed_manifest_is_found(folder: Path) -> None:
    path = folder / "scenario-001" / "snapshot.json"
    path.write_text(path.read_text().replace("00:45:00", "00:46:00"))
    with pytest.raises(DigestMismatchError, match=r"snapshot\.json: has digest"):
        verify_scenario(scenario_of(folder))


def test_link_out_of_a_snapshot_fails_verification(folder: Path) -> None:
    (folder / "scenario-001" / "events.jsonl").unlink()
    (folder / "scenario-001" / "events.jsonl").symlink_to("../scenario-002/events.jsonl")
    with pytest.raises(SuiteError, match="leaves the snapshot"):
        verify_scenario(scenario_of(folder))


def test_hard_link_is_told(folder: Path, tmp_path: Path) -> None:
    os.link(folder / "scenario-001" / "events.jsonl", tmp_path / "elsewhere")
    told: list[str] = []
    verify_scenario(scenario_of(folder), told.append)
    assert len(told) == 1
    assert "hard links" in told[0]


TRUTH = "groups:\n- {id: a, kind: Pod, root_cause: true}\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ground_truth.yaml", "{}"),
        ("GroundTruth_v1.yaml", "{}"),
        ("raw/ground-truth/x.txt", ""),
        ("raw/assertion.yaml", TRUTH),
        ("raw/wrapped.yml", "apiVersion: itbench.io/v1\nspec:\n  groups: [{root_cause: true}]\n"),
        ("raw/second.yaml", "a: 1\n---\n" + TRUTH),
        ("raw/v2.yaml", "kind: GroundTruth\nspec: {entities: []}\n"),
        ("raw/list.json", '[{"groups": [{"root_cause": true}]}]'),
        ("raw/broken.yaml", TRUTH + "\t}"),
        ("raw/deep.json", '{"groups": "root_cause", "x": ' + "[" * 100_000),
    ],
)
def test_truth_inside_a_snapshot_is_refused(folder: Path, name: str, text: str) -> None:
    path = folder / "scenario-001" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    with pytest.raises(SuiteError, match="truth"):
        digest_suite(str(folder), write=True)


def test_truth_listed_in_the_manifest_is_refused_by_verification(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "scenario-001" / "hint.yaml").write_text(TRUTH)
    with monkeypatch.context() as patch:
        patch.setattr("diagnose_bench.suite_digest.require_no_truth", lambda *_: None)
        digest_suite(str(folder), write=True)
    with pytest.raises(SuiteError, match="form of a truth"):
        verify_scenario(scenario_of(folder))


def test_words_of_a_truth_in_another_form_are_no_truth(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"items": [{"groups": ["root_cause"]}], "groups": [{"name": "root_cause"}]}')
    assert not snapshot_truth.holds_truth(path)


def test_words_are_found_across_blocks_and_large_files_are_not_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_truth, "_CHUNK", 7)
    monkeypatch.setattr(snapshot_truth, "_MAX_PARSED", 10)
    path = tmp_path / "x.json"
    path.write_text('{"........groups": "root_cause"}')
    assert snapshot_truth.holds_truth(path)
    path.write_text('{"........group": "root_causes"}')
    assert not snapshot_truth.holds_truth(path)


def test_digest_without_write_changes_nothing_and_names_what_changed(folder: Path) -> None:
    assert digest_suite(str(folder)).matches
    (folder / "scenario-002" / "events.jsonl").write_text("{}\n")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    found = digest_suite(str(folder))
    assert not found.matches
    assert not found.written
    assert [scenario.changed for scenario in found.scenarios] == [(), ("events.jsonl",)]
    assert found.as_dict()["scenarios"][1]["changed"] == ["events.jsonl"]
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_digest_with_write_makes_the_suite_whole_again_and_is_idempotent(folder: Path) -> None:
    (folder / "scenario-002" / "events.jsonl").write_text("{}\n{}\n")
    old = load_suite(str(folder)).digest
    report = digest_suite(str(folder), write=True)
    assert (report.on_record, report.written) == (old, True)
    assert report.found == load_suite(str(folder)).digest != old
    manifest = verify_scenario(load_suite(str(folder)).scenario("2"))
    assert [entry.n_rows for entry in manifest.files] == [2, 1]
    assert digest_suite(str(folder), write=True).matches


def test_failure_in_the_last_scenario_writes_nothing(folder: Path) -> None:
    (folder / "scenario-001" / "events.jsonl").write_text("{}\n")
    os.mkfifo(folder / "scenario-002" / "pipe")
    before = (folder / "scenario-001" / "snapshot.json").read_bytes()
    with pytest.raises(SuiteError, match="FIFO"):
        digest_suite(str(folder), write=True)
    assert (folder / "scenario-001" / "snapshot.json").read_bytes() == before


def test_folder_that_the_suite_does_not_list_is_refused(folder: Path) -> None:
    (folder / "scenario-003").mkdir()
    with pytest.raises(SuiteError, match=r"scenario-003: is no scenario of suite\.json"):
        digest_suite(str(folder))


def test_summary_adds_up(folder: Path) -> None:
    summary = suite_summary(load_suite(str(folder)))
    # two scenarios of one event line (30 bytes) and one document (26 bytes)
    assert (summary["n_scenarios"], summary["n_files"], summary["n_bytes"]) == (2, 4, 112)
    first = summary["scenarios"][0]
    assert first["kinds"]["events"] == {"n_files": 1, "n_rows": 1, "n_bytes": 30}
    assert first["window"] == WINDOW
    json.dumps(summary)
