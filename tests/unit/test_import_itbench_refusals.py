"""Claims about what an import of ITBench folders refuses, survives and reads in every form."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from unit.itbench_source import (
    SPAN_COLUMNS,
    alert,
    manifest,
    table,
    write_scenario,
)

from diagnose_bench.entity import parse_canonical
from diagnose_bench.errors import SuiteError, UsageError
from diagnose_bench.importers import itbench, itbench_scenario
from diagnose_bench.importers.itbench import import_itbench
from diagnose_bench.importers.itbench_alerts import alerts_of, capture_time
from diagnose_bench.importers.itbench_tables import Span, read_dict, read_time
from diagnose_bench.importers.itbench_topology import Topology
from diagnose_bench.suite import load_suite


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a Lite-like folder with Scenario-2."""
    write_scenario(tmp_path / "lite" / "snapshots" / "sre" / "v0.2" / "Scenario-2")
    return tmp_path / "lite"


@pytest.mark.parametrize("name", ["", "A", "../x", "a/b", ".x", "x" * 101, "a b"])
def test_name_that_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="no name for a suite"):
        import_itbench(tmp_path, name, None, tmp_path)


def test_existing_suite_is_never_touched(source: Path, tmp_path: Path) -> None:
    import_itbench(source, "lite", None, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(UsageError, match="is there already"):
        import_itbench(source, "lite", None, tmp_path)
    shutil.rmtree(tmp_path / "snapshots")
    with pytest.raises(UsageError, match="ground_truth/lite: is there already"):
        import_itbench(source, "lite", None, tmp_path)
    assert all(path.read_bytes() == data for path, data in before.items() if path.exists())


def test_empty_folders_are_no_obstacle(source: Path, tmp_path: Path) -> None:
    (tmp_path / "snapshots" / "lite").mkdir(parents=True)
    (tmp_path / "ground_truth" / "lite").mkdir(parents=True)
    import_itbench(source, "lite", None, tmp_path)
    assert load_suite(str(tmp_path / "snapshots" / "lite")).scenarios


def test_file_in_the_way_is_refused(source: Path, tmp_path: Path) -> None:
    (tmp_path / "snapshots").mkdir()
    (tmp_path / "snapshots" / "lite").write_text("")
    with pytest.raises(UsageError, match="is in the way"):
        import_itbench(source, "lite", None, tmp_path)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_interruption_leaves_nothing(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    write_scenario(source / "Scenario-3")
    original = itbench.import_scenario

    def interrupted(folder: Path, root: Path, target: Path) -> itbench_scenario.ImportedSnapshot:
        if target.name == "scenario-003":
            raise error
        return original(folder, root, target)

    monkeypatch.setattr(itbench, "import_scenario", interrupted)
    with pytest.raises(KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else SuiteError):
        import_itbench(source, "lite", None, tmp_path / "out")
    left = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*")}
    assert left == {"snapshots", "ground_truth"}


def test_folder_given_twice_over_is_refused(tmp_path: Path) -> None:
    for version in ("v1", "v2"):
        write_scenario(tmp_path / "lite" / version / "Scenario-2")
    with pytest.raises(SuiteError, match="are both scenario-002"):
        import_itbench(tmp_path / "lite", "lite", None, tmp_path)


def test_scenario_folder_without_evidence_is_told(source: Path, tmp_path: Path) -> None:
    (source / "Scenario-5").mkdir()
    report = import_itbench(source, "lite", None, tmp_path)
    assert [scenario.id for scenario in report.scenarios] == ["scenario-002"]
    assert report.warnings == (f"{source / 'Scenario-5'}: holds no evidence and is left out",)


def test_evidence_in_a_folder_without_a_number_is_refused(source: Path, tmp_path: Path) -> None:
    (source / "snapshots" / "sre" / "v0.2" / "Scenario-2").rename(tmp_path / "copy")
    with pytest.raises(SuiteError, match="Call the folder Scenario-N"):
        import_itbench(tmp_path / "copy", "lite", None, tmp_path / "out")


def test_source_that_is_nothing_of_itbench_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        import_itbench(tmp_path / "nowhere", "s", None, tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SuiteError, match="no ground truth was found") as caught:
        import_itbench(tmp_path / "empty", "s", None, tmp_path)
    for name in ("Scenario-N", "ground_truth", "scenario-N.yaml", "data.jsonl", "--truths"):
        assert name in str(caught.value)


def test_links_of_a_download_cache_are_followed(tmp_path: Path) -> None:
    cache = tmp_path / "datasets--ibm-research--ITBench-Lite"
    folder = write_scenario(cache / "snapshots" / "d0916b08" / "Scenario-2")
    (cache / "blobs").mkdir()
    (folder / "otel_logs_raw.tsv").rename(cache / "blobs" / "abc")
    (folder / "otel_logs_raw.tsv").symlink_to("../../../blobs/abc")
    report = import_itbench(cache / "snapshots" / "d0916b08", "s", None, tmp_path)
    copy = report.suite_path / "scenario-002" / "raw" / "otel_logs_raw.tsv"
    assert not copy.is_symlink()
    assert copy.read_bytes() == (cache / "blobs" / "abc").read_bytes()


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside", "nowhere"])
def test_links_elsewhere_are_refused(tmp_path: Path, target: str) -> None:
    folder = write_scenario(tmp_path / "given" / "Scenario-2")
    (tmp_path / "outside").write_text("secret")
    (folder / "otel_logs_raw.tsv").unlink()
    (folder / "otel_logs_raw.tsv").symlink_to(target)
    with pytest.raises(SuiteError, match="is a link"):
        import_itbench(tmp_path / "given", "s", None, tmp_path / "out")


def test_pipes_and_linked_folders_in_the_source_are_refused(tmp_path: Path) -> None:
    folder = write_scenario(tmp_path / "Scenario-2")
    (folder / "again").symlink_to(".")
    with pytest.raises(SuiteError, match="link to a folder"):
        import_itbench(folder, "s", None, tmp_path / "out")
    (folder / "again").unlink()
    os.mkfifo(folder / "pipe")
    with pytest.raises(SuiteError, match="no regular file"):
        import_itbench(folder, "s", None, tmp_path / "out")


def test_caller_is_found_through_the_parent_span_in_the_same_trace(tmp_path: Path) -> None:
    topology = Topology()
    for name in ("cart", "frontend"):
        topology.add(parse_canonical(f"shop/Deployment/{name}"), manifest("Deployment", name))
    attributes = {
        name: f"{{'k8s.deployment.name': '{name}', 'k8s.namespace.name': 'shop'}}"
        for name in ("cart", "frontend")
    }
    rows = [
        ["2025-12-15 17:17:08", "t", "a", "", "", attributes["frontend"], ""],
        ["2025-12-15 17:17:08", "t", "b", "a", "", attributes["cart"], ""],
        ["2025-12-15 17:17:08", "t", "c", "b", "", attributes["cart"], ""],
        ["2025-12-15 17:17:08", "u", "d", "b", "", attributes["frontend"], ""],
        ["2025-12-15 17:17:08", "t", "e", "b", "", "{'k8s.deployment.name': 'unknown'}", ""],
    ]
    path = tmp_path / "otel_traces_raw.tsv"
    path.write_text(table(SPAN_COLUMNS, rows))
    assert topology.read_spans(path)[0] == 5
    topology.write(tmp_path / "topology.json")
    assert json.loads((tmp_path / "topology.json").read_text())["edges"] == [
        {"source": "shop/Deployment/frontend", "target": "shop/Deployment/cart", "relation": "calls"}
    ]


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2025-12-15 17:24:44.327494932", "2025-12-15T17:24:44.327494932Z"),
        ("2025-12-15 17:25:02.949", "2025-12-15T17:25:02.949000000Z"),
        ("2025-12-15T17:52:23Z", "2025-12-15T17:52:23.000000000Z"),
        ("alerts_at_2025-12-15T17-30-49.329092.json", "2025-12-15T17:30:49.329092000Z"),
        ("alerts_in_alerting_state_2025-12-15T175223.904312Z.json", "2025-12-15T17:52:23.904312000Z"),
        ("2025-12-15T17:30:49.json", "2025-12-15T17:30:49.000000000Z"),
        ("2025-13-15 17:24:44", None),
        ("2025-12-15 25:24:44", None),
        ("", None),
        ("yesterday", None),
    ],
)
def test_times_are_read_in_every_form_of_the_recorder(text: str, time: str | None) -> None:
    assert read_time(text) == time


def test_span_passes_over_days_of_no_calendar() -> None:
    span = Span()
    for text in (
        "2025-99-99 00:00:00",
        "2025-12-15 17:00:00.5",
        "0000-00-00 00:00:00",
        "2025-12-15 17:00:00",
    ):
        span.see(text)
    assert (span.first, span.last) == ("2025-12-15T17:00:00.000000000Z", "2025-12-15T17:00:00.500000000Z")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'k8s.namespace.name': 'otel-demo', 'n': 1}", {"k8s.namespace.name": "otel-demo", "n": 1}),
        ('{"a": null}', {"a": None}),
        ("{'a': \"it's\"}", {"a": "it's"}),
        (r"{'a': '\d'}", {"a": "\\d"}),
        ("{}", {}),
        ("", {}),
        ("['a']", {}),
        ("__import__('os').system('true')", {}),
        ("{'a': 1", {}),
        ("{" * 50_000, {}),
        ("{[]: 1}", {}),
        ("{'a': " + "9" * 5000 + "}", {}),
        ("{'a': '" + "x" * 70_000 + "'}", {}),
    ],
)
def test_attributes_are_python_or_json_and_never_run(text: str, value: dict[str, Any]) -> None:
    assert read_dict(text) == value


@pytest.mark.parametrize(
    ("document", "n_alerts"),
    [
        ([alert("a"), alert("b")], 2),
        ({"data": {"alerts": [alert("a")]}, "timestamp": "x"}, 1),
        ({"alerts": [alert("a"), 7]}, 1),
        (alert("a"), 1),
        ({"data": {"alerts": None}}, 0),
        ({}, 0),
        ("text", 0),
        (None, 0),
    ],
)
def test_alerts_are_read_in_every_shape(document: Any, n_alerts: int) -> None:
    assert len(list(alerts_of(document))) == n_alerts


def test_time_of_a_capture_is_its_own_before_that_of_its_name() -> None:
    document = {"timestamp": "2025-12-15T17:52:23Z", "data": {"alerts": []}}
    assert capture_time("alerts_2025-01-01T00-00-00.json", document) == "2025-12-15T17:52:23.000000000Z"
    assert capture_time("alerts_2025-01-01T00-00-00.json", []) == "2025-01-01T00:00:00.000000000Z"
    assert capture_time("alerts.json", [alert("a")]) == "2025-12-15T17:00:00.500000000Z"
    assert capture_time("alerts.json", []) is None
