"""Claims about the import of ITBench's folders and truths, on scenarios written here with their odd sides."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonpatch
import pytest
from unit.itbench_source import (
    LOG_COLUMNS,
    SPAN_COLUMNS,
    TRUTH,
    alert,
    lines,
    manifest,
    observed,
    table,
    write_scenario,
)

from diagnose_bench.entity import parse_canonical
from diagnose_bench.errors import SuiteError
from diagnose_bench.importers.itbench import import_itbench
from diagnose_bench.importers.itbench_truths import read_truths
from diagnose_bench.suite import load_suite, verify_scenario


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a Lite-like folder with Scenario-2."""
    write_scenario(tmp_path / "lite" / "snapshots" / "sre" / "v0.2" / "Scenario-2")
    return tmp_path / "lite"


def test_scenario_becomes_a_suite_that_verifies(source: Path, tmp_path: Path) -> None:
    report = import_itbench(source, "lite", None, tmp_path)
    assert (report.suite_path, report.truths_path) == (
        tmp_path / "snapshots" / "lite",
        tmp_path / "ground_truth" / "lite",
    )
    loaded = load_suite(str(report.suite_path))
    assert (loaded.name, loaded.digest, loaded.splits) == ("lite", report.digest, None)
    told: list[str] = []
    manifest_ = verify_scenario(loaded.scenario("2"), told.append)
    assert told == []
    kinds = {entry.path: (entry.kind, entry.n_rows) for entry in manifest_.files}
    assert {name: found for name, found in kinds.items() if "alerts_at" not in name} == {
        "changes.jsonl": ("changes", 1),
        "objects.jsonl": ("objects", 9),
        "topology.json": ("topology", 1),
        "raw/k8s_events_raw.tsv": ("events", 2),
        "raw/k8s_objects_raw.tsv": ("objects", 19),
        "raw/metrics/service_cart_raw.tsv": ("metrics", 2),
        "raw/otel_logs_raw.tsv": ("logs", 1),
        "raw/otel_traces_raw.tsv": ("traces", 3),
        "raw/status.json": ("raw", 1),
    }
    json.dumps(report.as_dict())


def test_telemetry_is_kept_byte_for_byte_and_the_truth_moves_out(source: Path, tmp_path: Path) -> None:
    report = import_itbench(source, "lite", None, tmp_path)
    original = source / "snapshots" / "sre" / "v0.2" / "Scenario-2"
    raw = report.suite_path / "scenario-002" / "raw"
    kept = {path.relative_to(original): path.read_bytes() for path in original.rglob("*") if path.is_file()}
    truth = kept.pop(Path("ground_truth.yaml"))
    assert {path.relative_to(raw): path.read_bytes() for path in raw.rglob("*") if path.is_file()} == kept
    assert (report.truths_path / "scenario-002.yaml").read_bytes() == truth
    everything = b"".join(path.read_bytes() for path in report.suite_path.rglob("*") if path.is_file())
    assert b"Scenario-2" not in everything, "nothing tells an agent which scenario this is"


def test_objects_are_the_last_observation_without_managed_fields_and_secrets(
    source: Path, tmp_path: Path
) -> None:
    report = import_itbench(source, "lite", None, tmp_path)
    text = (report.suite_path / "scenario-002" / "objects.jsonl").read_text()
    objects = {
        (value["kind"], value["metadata"]["name"]): value for value in map(json.loads, text.splitlines())
    }
    assert sorted(objects) == [
        ("ConfigMap", "cart-config"),
        ("Deployment", "cart"),
        ("HorizontalPodAutoscaler", "cart"),
        ("Node", "node-1"),
        ("Pod", "cart-5d8f7c9b6d-x2v5z"),
        ("ReplicaSet", "cart-5d8f7c9b6d"),
        ("Secret", "cart-key"),
        ("Service", "all"),
        ("Service", "cart"),
    ]
    assert objects["Deployment", "cart"]["metadata"]["resourceVersion"] == "12", "17:38 is the last"
    assert objects["Deployment", "cart"]["status"] == {"availableReplicas": 0}
    assert objects["ConfigMap", "cart-config"]["data"] == {"text": "tab\there\nnewline"}
    assert objects["Secret", "cart-key"]["data"] == {"key": "REDACTED"}
    assert objects["ReplicaSet", "cart-5d8f7c9b6d"]["metadata"]["ownerReferences"] == [
        {"name": "cart", "apiVersion": "apps/v1", "kind": "Deployment"}
    ]
    assert "managedFields" not in text
    assert "aHVudGVyMg" not in text


def test_changes_are_patches_of_more_than_the_status(source: Path, tmp_path: Path) -> None:
    report = import_itbench(source, "lite", None, tmp_path)
    (change,) = lines(report.suite_path / "scenario-002" / "changes.jsonl")
    assert change == {
        "time": "2025-12-15T17:38:25Z",
        "entity": "shop/Deployment/cart",
        "patch": [{"op": "replace", "path": "/spec/replicas", "value": 0}],
        "who": None,
    }
    assert report.scenarios[0].n_changes == 1
    before = {"spec": {"replicas": 1}}
    assert jsonpatch.apply_patch(before, change["patch"]) == {"spec": {"replicas": 0}}


def test_rows_without_an_object_are_counted(source: Path, tmp_path: Path) -> None:
    (scenario,) = import_itbench(source, "lite", None, tmp_path).scenarios
    # broken, NaN, a name with a space, 1e999, twice too deep, no time; the Event is evidence and no object
    assert any(warning.startswith("7 rows of objects hold no object") for warning in scenario.warnings)


def test_topology_has_owners_uses_selections_and_calls(source: Path, tmp_path: Path) -> None:
    report = import_itbench(source, "lite", None, tmp_path)
    topology = json.loads((report.suite_path / "scenario-002" / "topology.json").read_text())
    assert len(topology["nodes"]) == 9
    for node in topology["nodes"]:
        entity = parse_canonical(node["id"])
        assert (entity.kind, entity.namespace, entity.name) == (node["kind"], node["namespace"], node["name"])
    pod, replicas, cart = (
        "shop/Pod/cart-5d8f7c9b6d-x2v5z",
        "shop/ReplicaSet/cart-5d8f7c9b6d",
        "shop/Deployment/cart",
    )
    assert {(edge["source"], edge["relation"], edge["target"]) for edge in topology["edges"]} == {
        (replicas, "owns", pod),
        (cart, "owns", replicas),
        (cart, "uses", "shop/ConfigMap/cart-config"),
        (cart, "uses", "shop/Secret/cart-key"),
        (pod, "runs_on", "Node/node-1"),
        ("shop/HorizontalPodAutoscaler/cart", "scales", cart),
        ("shop/Service/cart", "selects", pod),
        ("shop/Service/cart", "selects", cart),
    }, "frontend was never observed, so nobody calls it"


def test_window_and_detection_follow_the_recorder_and_not_the_logs(source: Path, tmp_path: Path) -> None:
    (scenario,) = import_itbench(source, "lite", None, tmp_path).scenarios
    assert scenario.window == {
        "start": "2025-12-15T17:24:44.327494932Z",  # first event row; a log line says 1970, a span 17:17
        "detected_at": "2025-12-15T17:32:49.323223Z",  # before: noise, a pending one, one of kube-system
        "end": "2025-12-15T17:45:02.949Z",  # metric sample
    }


def test_file_of_the_alerting_state_says_when_the_incident_was_detected(source: Path, tmp_path: Path) -> None:
    folder = source / "snapshots" / "sre" / "v0.2" / "Scenario-2"
    document = {"data": {"alerts": [alert("Any")]}, "status": "success", "timestamp": "2025-12-15T17:40:23Z"}
    name = "alerts_in_alerting_state_2025-12-15T174023.904312Z.json"
    (folder / "alerts" / name).write_text(json.dumps(document))
    (scenario,) = import_itbench(source, "lite", None, tmp_path).scenarios
    assert scenario.window is not None
    assert scenario.window["detected_at"] == "2025-12-15T17:40:23Z"


def test_scenario_without_alerts_is_detected_at_its_end(source: Path, tmp_path: Path) -> None:
    folder = source / "snapshots" / "sre" / "v0.2" / "Scenario-2"
    shutil.rmtree(folder / "alerts")
    (scenario,) = import_itbench(source, "lite", None, tmp_path).scenarios
    assert scenario.window is not None
    assert scenario.window["detected_at"] == scenario.window["end"] == "2025-12-15T17:45:02.949Z"
    assert "there are no alerts" in scenario.warnings


def test_loose_alert_file_and_spans_alone_are_enough(tmp_path: Path) -> None:
    folder = tmp_path / "Scenario-7"
    folder.mkdir()
    (folder / "alerts.json").write_text(json.dumps(alert("One", namespace="shop")))
    (first,) = import_itbench(folder, "one", None, tmp_path).scenarios
    time = "2025-12-15T17:00:00.5Z"
    assert first.window == {"start": time, "detected_at": time, "end": time}
    (folder / "alerts.json").unlink()
    (folder / "otel_traces_raw.tsv").write_text(table(SPAN_COLUMNS, [["2025-12-15 17:17:08", *[""] * 6]]))
    (second,) = import_itbench(folder, "two", None, tmp_path).scenarios
    assert second.window == dict.fromkeys(("start", "detected_at", "end"), "2025-12-15T17:17:08Z")


def test_scenario_without_any_time_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "Scenario-7"
    folder.mkdir()
    (folder / "alerts.json").write_text("[]")
    with pytest.raises(SuiteError, match="scenario-007: no file has a time"):
        import_itbench(folder, "one", None, tmp_path / "out")
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file() or "one" in path.name] == []


def test_watched_objects_are_unwrapped_and_a_deletion_is_a_change(tmp_path: Path) -> None:
    folder = tmp_path / "Scenario-17"
    folder.mkdir()
    chaos = {
        "apiVersion": "chaos-mesh.org/v1alpha1",
        "kind": "NetworkChaos",
        "metadata": {"name": "delay-5czjs", "namespace": "chaos-mesh"},
    }
    rows = [
        observed("2025-12-15 17:00:00", {"object": chaos, "type": "ADDED"}),
        observed("2025-12-15 17:10:00", {"object": chaos, "type": "DELETED"}),
        observed(
            "2025-12-15 17:10:00", {"apiVersion": "v1", "kind": "PodList", "items": [manifest("Pod", "a")]}
        ),
    ]
    (folder / "k8s_objects_otel-demo_chaos-mesh.tsv").write_text(table(LOG_COLUMNS, rows))
    report = import_itbench(folder, "s", None, tmp_path)
    snapshot = report.suite_path / "scenario-017"
    assert [value["metadata"]["name"] for value in lines(snapshot / "objects.jsonl")] == ["delay-5czjs", "a"]
    (change,) = lines(snapshot / "changes.jsonl")
    assert (change["time"], change["entity"]) == (
        "2025-12-15T17:10:00Z",
        "chaos-mesh/NetworkChaos/delay-5czjs",
    )
    assert change["patch"] == [{"op": "remove", "path": ""}]


def test_layout_of_aa_takes_truths_and_splits_out_of_its_rows(tmp_path: Path) -> None:
    for number in (1, 2):
        write_scenario(tmp_path / "aa" / "sre" / f"Scenario-{number}", truth=None)
    rows = [
        {
            "scenario_id": f"Scenario-{number}",
            "source_split": split,
            "ground_truth_yaml": f"# {number}\n" + TRUTH,
        }
        for number, split in ((1, "public"), (2, "private"), (3, "private"))
    ]
    (tmp_path / "aa" / "sre" / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
    report = import_itbench(tmp_path / "aa", "aa", None, tmp_path)
    assert (report.truths_path / "scenario-002.yaml").read_text() == "# 2\n" + TRUTH
    assert sorted(path.name for path in report.truths_path.iterdir()) == [
        "scenario-001.yaml",
        "scenario-002.yaml",
    ]
    assert load_suite(str(report.suite_path)).splits == {
        "public": ("scenario-001",),
        "private": ("scenario-002",),
    }


def test_given_truths_go_before_those_beside_the_evidence(source: Path, tmp_path: Path) -> None:
    truths = tmp_path / "truths"
    truths.mkdir()
    (truths / "scenario-2.yaml").write_text(TRUTH + "# given\n")
    (truths / "9.yaml").write_text(TRUTH.replace("id: 2", "id: 9"))
    (truths / "patches.yaml").write_text("format_version: 1\npatches: []\n")
    report = import_itbench(source, "lite", truths, tmp_path)
    assert (report.truths_path / "scenario-002.yaml").read_text() == TRUTH + "# given\n"
    assert (report.truths_path / "patches.yaml").read_bytes() == (truths / "patches.yaml").read_bytes()
    assert report.warnings == ("1 truths belong to no scenario there: scenario-009",)


def test_scenario_without_a_truth_is_imported_and_told(tmp_path: Path) -> None:
    report = import_itbench(write_scenario(tmp_path / "Scenario-2", truth=None), "s", None, tmp_path)
    assert report.warnings == ("scenario-002: there is no truth, so it will stay unscored",)
    assert report.scenarios[0].truth is None


def test_truth_that_is_refused_is_told_with_its_final_place(tmp_path: Path) -> None:
    folder = write_scenario(tmp_path / "Scenario-2", truth="id: 2\ngroups: []\n")
    report = import_itbench(folder, "s", None, tmp_path)
    (scenario,) = report.scenarios
    assert scenario.truth_refused is not None
    assert str(tmp_path / "ground_truth" / "s" / "scenario-002.yaml") in scenario.truth_refused
    assert any("its truth is refused" in note for note in report.notes())


def test_truths_alone_become_a_suite_without_snapshots(tmp_path: Path) -> None:
    entries = [
        {"id": "12", "groups": [{"id": "a", "kind": "Pod", "name": "é", "root_cause": True}]},
        {"id": 102},
    ]
    (tmp_path / "truths.json").write_text(json.dumps(entries))
    report = import_itbench(tmp_path / "truths.json", "truths", None, tmp_path)
    loaded = load_suite(str(report.suite_path))
    assert [(scenario.id, scenario.snapshot, scenario.digest) for scenario in loaded.scenarios] == [
        ("scenario-012", None, None),
        ("scenario-102", None, None),
    ]
    assert json.loads((report.truths_path / "scenario-012.yaml").read_text()) == entries[0]
    assert [scenario.truth_refused is None for scenario in report.scenarios] == [True, False]


def test_of_two_forms_in_a_folder_the_one_with_root_causes_is_taken(tmp_path: Path) -> None:
    folder = tmp_path / "truths" / "scenario_2"
    folder.mkdir(parents=True)
    (folder / "groundtruth.yaml").write_text("apiVersion: itbench.io/v2\nkind: GroundTruth\n")
    (folder / "groundtruth_v1.yaml").write_text(TRUTH)
    report = import_itbench(tmp_path / "truths", "truths", None, tmp_path)
    assert (report.truths_path / "scenario-002.yaml").read_text() == TRUTH
    origin = report.scenarios[0].truth
    assert origin is not None
    assert origin.endswith("groundtruth_v1.yaml (left out: groundtruth.yaml)")


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("x.json", "[{}]", r"\$\[0\]: names no scenario"),
        ("x.json", '[{"id": 1}, {"id": "Scenario-1"}]', "two truths for scenario-001"),
        ("x.json", "[]", "no ground truth was found"),
        ("x.json", "{", r"x\.json"),
        ("x.yaml", "a: [", r"x\.yaml"),
        ("data.jsonl", "{broken", "line 1: is no JSON"),
        ("data.jsonl", '{"ground_truth_yaml": "a"}', "line 1: names no scenario"),
        ("data.jsonl", '{"other": 1}\n\n[]', "no ground truth was found"),
        ("data.jsonl", "[" * 100_000, "line 1: is no JSON"),
    ],
)
def test_file_without_usable_truths_is_refused(tmp_path: Path, name: str, text: str, reason: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SuiteError, match=reason):
        read_truths(tmp_path / name)


def test_evidence_that_has_the_form_of_a_truth_is_left_out(tmp_path: Path) -> None:
    folder = write_scenario(tmp_path / "Scenario-2")
    (folder / "assertion.json").write_text('{"groups": [{"id": "cart", "root_cause": true}]}')
    (folder / "old").mkdir()
    (folder / "old" / "groundtruth_v1.yaml").write_text(TRUTH)
    report = import_itbench(folder, "s", None, tmp_path)
    raw = report.suite_path / "scenario-002" / "raw"
    assert not (raw / "assertion.json").exists()
    assert not (raw / "old").exists()
    assert "assertion.json: has the form of a truth and is left out" in report.scenarios[0].warnings
    assert any(
        warning.startswith("status.json: the recorder's own notes")
        for warning in report.scenarios[0].warnings
    )
