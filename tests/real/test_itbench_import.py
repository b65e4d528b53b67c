"""The partial real snapshot of ITBench's Scenario-2 and all real truths become suites."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from diagnose_bench.entity import parse_canonical
from diagnose_bench.errors import SuiteError
from diagnose_bench.importers.itbench import ImportReport, import_itbench
from diagnose_bench.suite import load_suite, verify_scenario
from diagnose_bench.suite_digest import digest_suite, suite_summary

# SOURCES.md: "81 real objects (24 observations of four objects over time, else one each)"; in the file itself
# four more objects are there twice, so 81 = 4 * 6 + 4 * 2 + 49 rows make 4 + 4 + 49 = 57 objects.
N_ROWS = 81
N_OBJECTS = 57


@pytest.fixture(scope="module")
def source(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return Scenario-2 with the reconstructed objects under their real name."""
    folder = tmp_path_factory.mktemp("real") / "Scenario-2"
    shutil.copytree(
        shared_data / "itbench" / "snapshots" / "Scenario-2", folder, copy_function=shutil.copyfile
    )
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    (folder / "k8s_objects_raw.reconstructed.tsv").rename(folder / "k8s_objects_raw.tsv")
    return folder


@pytest.fixture(scope="module")
def report(source: Path, shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> ImportReport:
    """Return what the import wrote."""
    truths = shared_data / "itbench" / "ground_truth" / "ground_truths_evaluations.json"
    return import_itbench(source, "real", truths, tmp_path_factory.mktemp("suite"))


@pytest.fixture(scope="module")
def snapshot(report: ImportReport) -> Path:
    """Return the imported snapshot's folder."""
    return report.suite_path / "scenario-002"


def observations(source: Path) -> list[tuple[str, str]]:
    """Return (time, JSON) of every row without a CSV reader: one row a line, one quoted field a row."""
    text = (source / "k8s_objects_raw.tsv").read_text()
    rows = [re.match(r'([^\t]+)\t.*?\t"(\{.*\})"\t', line) for line in text.splitlines()[1:]]
    return [(row[1], row[2].replace('""', '"')) for row in rows if row is not None]


def test_suite_loads_verifies_and_digests_to_itself(report: ImportReport) -> None:
    loaded = load_suite(str(report.suite_path))
    told: list[str] = []
    assert (
        verify_scenario(loaded.scenario("Scenario-2"), told.append).window.detected_at
        == "2025-12-15T17:52:23Z"
    )
    assert told == []
    assert digest_suite(str(report.suite_path)).matches, "counting again gives what the import counted"
    assert suite_summary(loaded)["n_scenarios"] == 1


def test_every_byte_is_kept(source: Path, snapshot: Path) -> None:
    original = {path.relative_to(source): path.read_bytes() for path in source.rglob("*") if path.is_file()}
    raw = snapshot / "raw"
    assert {path.relative_to(raw): path.read_bytes() for path in raw.rglob("*") if path.is_file()} == original


def test_objects_are_the_last_of_each_observed_one(source: Path, snapshot: Path) -> None:
    seen = observations(source)
    assert len(seen) == N_ROWS
    last: dict[tuple[str, str, str], tuple[str, dict[str, object]]] = {}
    counts: Counter[tuple[str, str, str]] = Counter()
    for time, text in seen:
        value = json.loads(text)
        key = (value["kind"], value["metadata"].get("namespace", ""), value["metadata"]["name"])
        counts[key] += 1
        if key not in last or time >= last[key][0]:
            last[key] = (time, value)
    assert Counter(counts.values()) == {6: 4, 2: 4, 1: 49}
    objects = [json.loads(line) for line in (snapshot / "objects.jsonl").read_text().splitlines()]
    assert len(objects) == len(last) == N_OBJECTS
    for value in objects:
        metadata = value["metadata"]
        _, original = last[value["kind"], metadata.get("namespace", ""), metadata["name"]]
        original_metadata = original["metadata"]
        assert isinstance(original_metadata, dict)
        assert {**value, "metadata": None} == {**original, "metadata": None}
        for field in original_metadata.keys() - {"managedFields", "ownerReferences"}:
            assert metadata[field] == original_metadata[field]
        assert "managedFields" not in metadata


def test_topology_has_every_object_and_only_edges_between_them(snapshot: Path) -> None:
    topology = json.loads((snapshot / "topology.json").read_text())
    ids = [node["id"] for node in topology["nodes"]]
    assert len(set(ids)) == len(ids) == N_OBJECTS
    assert all(str(parse_canonical(id_)) == id_ for id_ in ids)
    edges = {(edge["source"], edge["relation"], edge["target"]) for edge in topology["edges"]}
    assert all(source in ids and target in ids for source, _, target in edges)
    assert {
        ("otel-demo/ReplicaSet/cart-84889c965d", "owns", "otel-demo/Pod/cart-84889c965d-tkxdz"),
        ("otel-demo/Deployment/cart", "owns", "otel-demo/ReplicaSet/cart-84889c965d"),
        ("otel-demo/Deployment/cart", "owns", "otel-demo/ReplicaSet/cart-755465879b"),
        ("otel-demo/Deployment/flagd", "uses", "otel-demo/ConfigMap/flagd-config"),
        ("kube-system/Service/topology-monitor", "selects", "kube-system/Pod/topology-monitor-0"),
    } <= edges


def test_changes_are_the_two_that_the_fault_made(snapshot: Path) -> None:
    changes = [json.loads(line) for line in (snapshot / "changes.jsonl").read_text().splitlines()]
    # fault at 17:46:18, restart of cart at 17:46:23; the poll after that was at 17:48
    assert [(change["time"][:16], change["entity"]) for change in changes] == [
        ("2025-12-15T17:48", "otel-demo/ConfigMap/flagd-config"),
        ("2025-12-15T17:48", "otel-demo/Deployment/cart"),
    ]
    flag = json.loads(changes[0]["patch"][0]["value"])["flags"]["cartFailure"]
    assert flag["defaultVariant"] == "on"


def test_rows_of_the_tables_are_records_and_not_lines(source: Path, snapshot: Path) -> None:
    manifest = json.loads((snapshot / "snapshot.json").read_text())
    rows = {entry["path"]: (entry["kind"], entry["n_rows"]) for entry in manifest["files"]}
    assert rows["raw/k8s_objects_raw.tsv"] == ("objects", N_ROWS)
    assert rows["raw/k8s_events_raw.tsv"] == ("events", 16)
    assert rows["raw/metrics/service_frontend-proxy_raw.tsv"] == ("metrics", 11)
    # a header and one record of several lines
    assert rows["raw/otel_traces_raw.head.tsv"] == ("raw", 1)
    assert (source / "otel_traces_raw.head.tsv").read_text().count("\n") > 2
    assert sum(kind == "alerts" for kind, _ in rows.values()) == 2


def test_window_is_that_of_the_recorder(report: ImportReport) -> None:
    assert report.scenarios[0].window == {
        "start": "2025-12-15T17:24:44.327494932Z",  # first event row
        "detected_at": "2025-12-15T17:52:23Z",  # "timestamp" of the file of the alerting state
        "end": "2025-12-15T17:53:26Z",  # last object poll
    }


def test_truth_of_the_scenario_and_no_other_is_stored(report: ImportReport, shared_data: Path) -> None:
    assert os.listdir(report.truths_path) == ["scenario-002.yaml"]
    stored = json.loads((report.truths_path / "scenario-002.yaml").read_text())
    every = json.loads(
        (shared_data / "itbench" / "ground_truth" / "ground_truths_evaluations.json").read_text()
    )
    assert stored == next(entry for entry in every if entry["id"] == "2")
    assert report.scenarios[0].truth_refused is None
    assert report.warnings[0].startswith("43 truths belong to no scenario there")


def test_evaluation_truths_alone_become_a_suite_of_44(shared_data: Path, tmp_path: Path) -> None:
    truths = shared_data / "itbench" / "ground_truth" / "ground_truths_evaluations.json"
    report = import_itbench(truths, "evaluations", None, tmp_path)
    assert len(load_suite(str(report.suite_path)).scenarios) == len(os.listdir(report.truths_path)) == 44


@pytest.mark.parametrize(("folder", "n_scenarios"), [("itbench_main", 67), ("itbench_scenarios_archive", 27)])
def test_folders_of_truths_become_suites_of_the_v1_form(
    shared_data: Path, tmp_path: Path, folder: str, n_scenarios: int
) -> None:
    source = shared_data / "itbench" / "ground_truth" / folder
    report = import_itbench(source, "truths", None, tmp_path)
    assert len(report.scenarios) == n_scenarios
    for path in source.glob("*/groundtruth_v1.yaml"):
        number = int(path.parent.name.removeprefix("scenario_"))
        assert (report.truths_path / f"scenario-{number:03d}.yaml").read_bytes() == path.read_bytes()


def test_truths_in_two_places_are_refused(shared_data: Path, tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="two truths for scenario-"):
        import_itbench(shared_data / "itbench" / "ground_truth", "truths", None, tmp_path)
