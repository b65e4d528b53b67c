"""Claims about manifests and about what a snapshot's folder may hold."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from diagnose_bench import snapshot_rows
from diagnose_bench.errors import SuiteError
from diagnose_bench.snapshot import (
    SnapshotManifest,
    Window,
    build_manifest,
    check_tree,
    load_manifest,
    manifest_digest,
    snapshot_schema,
)

WINDOW = {
    "start": "2025-12-15T17:00:00Z",
    "detected_at": "2025-12-15T17:30:49.329092Z",
    "end": "2025-12-15T18:00:00Z",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a small native snapshot."""
    folder = tmp_path / "snapshot"
    (folder / "logs").mkdir(parents=True)
    (folder / "metrics").mkdir()
    (folder / "alerts.jsonl").write_text('{"a": 1}\n\n{"a": 2}\n')
    (folder / "logs" / "shop_cart.log").write_text("2025-12-15T17:00:00Z one\n2025-12-15T17:00:01Z two")
    (folder / "metrics" / "up.csv").write_text('timestamp,value,note\n1,2,"two\nlines"\n2,3,plain\n')
    (folder / "topology.json").write_text('{"nodes": [], "edges": []}')
    (folder / "notes.bin").write_bytes(b"\0\1\n\2")
    return folder


def test_manifest_lists_every_file_with_kind_format_rows_bytes_and_digest(folder: Path) -> None:
    manifest = build_manifest(folder, WINDOW, ["a recorder"])
    found = {entry.path: (entry.kind, entry.format, entry.n_rows, entry.n_bytes) for entry in manifest.files}
    assert found == {
        "alerts.jsonl": ("alerts", "jsonl", 2, 19),  # 8 + 1 + 1 + 8 + 1 bytes, one line of them blank
        "logs/shop_cart.log": ("logs", "log", 2, 49),  # 24 + 1 + 24: the last line has no newline
        "metrics/up.csv": ("metrics", "csv", 2, 47),  # 21 + 16 + 10 bytes; one field holds a newline
        "notes.bin": ("raw", "bin", 1, 4),
        "topology.json": ("topology", "json", 1, 26),
    }
    digest = hashlib.sha256(b"\0\1\n\2").hexdigest()
    assert next(entry.sha256 for entry in manifest.files if entry.path == "notes.bin") == digest
    assert manifest.sources == ("a recorder",)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("raw/alerts/alerts_at_2025-12-15T17-30-49.329092.json", "alerts"),
        ("raw/alerts_in_alerting_state_2025-12-15T175223.904312Z.json", "alerts"),
        ("raw/k8s_events_raw.tsv", "events"),
        ("raw/k8s_objects_raw.tsv", "objects"),
        ("raw/k8s_objects_otel-demo_chaos-mesh.tsv", "objects"),
        ("raw/otel_logs_raw.tsv", "logs"),
        ("raw/otel_traces_raw.tsv", "traces"),
        ("raw/metrics/pod_cart-755465879b-rh5r4_raw.tsv", "metrics"),
        ("raw/status.json", "raw"),
        ("raw/alerts/deeper/alerts.json", "raw"),
        ("alerts/alerts_at_x.json", "raw"),
        ("events.jsonl", "events"),
        ("deeper/events.jsonl", "raw"),
        ("logs.jsonl", "logs"),
        ("metrics.parquet", "metrics"),
        ("changes.jsonl", "changes"),
    ],
)
def test_kind_follows_from_the_path(name: str, kind: str) -> None:
    assert snapshot_rows.classify(Path(name))[0] == kind


@pytest.mark.parametrize(
    ("text", "n_rows"),
    [("", 0), ("\n\n", 0), ("a", 1), ("a\n", 1), ("a\n\nb\n  \n", 2), ("\na", 1)],
)
def test_blank_lines_are_no_records(tmp_path: Path, text: str, n_rows: int) -> None:
    (tmp_path / "x.jsonl").write_text(text)
    assert snapshot_rows.count_rows(tmp_path / "x.jsonl", "jsonl") == n_rows


def test_lines_are_counted_right_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_rows, "_CHUNK", 3)
    (tmp_path / "x.log").write_text("abcdef\n\n \ng\nhijklmnop")
    assert snapshot_rows.count_rows(tmp_path / "x.log", "log") == 3


def test_rows_of_parquet_come_from_its_footer(tmp_path: Path) -> None:
    import duckdb

    path = tmp_path / "metrics.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT * FROM range(17)) TO '{path}' (FORMAT parquet)")
    assert snapshot_rows.count_rows(path, "parquet") == 17


def test_damaged_parquet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "metrics.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(SuiteError, match="no parquet"):
        snapshot_rows.count_rows(tmp_path / "metrics.parquet", "parquet")


def test_quote_that_is_never_closed_is_refused_before_it_fills_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_rows, "MAX_RECORD_BYTES", 1000)
    (tmp_path / "x.tsv").write_text('a\tb\n1\t"' + "line\n" * 1000)
    with pytest.raises(SuiteError, match="quote left open"):
        snapshot_rows.count_rows(tmp_path / "x.tsv", "tsv")
    (tmp_path / "many.tsv").write_text("a\tb\n" + "1\t2\n" * 1000)
    assert snapshot_rows.count_rows(tmp_path / "many.tsv", "tsv") == 1000


def test_manifest_survives_a_round_trip_and_its_digest_is_the_formula(folder: Path) -> None:
    manifest = build_manifest(folder, WINDOW)
    (folder / "snapshot.json").write_text(manifest.model_dump_json())
    assert load_manifest(folder) == manifest
    document = json.loads(manifest.model_dump_json())
    canonical = json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert manifest_digest(manifest) == hashlib.sha256(canonical.encode()).hexdigest()
    assert build_manifest(folder, WINDOW) == manifest, "the manifest never lists itself"


def test_schema_accepts_what_the_model_writes(folder: Path) -> None:
    document = json.loads(build_manifest(folder, WINDOW).model_dump_json())
    schema = snapshot_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "scenario": "x"}, schema)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format_version": 2}, "newer than this diagnose-bench reads"),
        ({"format_version": 0}, "older than this diagnose-bench reads"),
        ({"format_version": "1"}, r"\$\.format_version is missing or no whole number"),
        ({"format_version": True}, r"\$\.format_version is missing or no whole number"),
        ({"format_version": None}, r"\$\.format_version is missing or no whole number"),
        ({"hint": "the cause"}, r"\$\.hint: Extra inputs"),
        ({"window": {**WINDOW, "end": "2025-12-15T17:00:00Z"}}, "start <= detected_at <= end"),
        ({"window": {**WINDOW, "end": "2025-12-15T18:00:00+01:00"}}, r"\$\.window\.end"),
        ({"window": {**WINDOW, "end": "2025-12-15 18:00:00Z"}}, r"\$\.window\.end"),
        ({"window": {**WINDOW, "end": "2025-13-45T18:00:00Z"}}, r"\$\.window: .*(month|time data)"),
        ({"window": {**WINDOW, "end": "٢٠٢٥-12-15T18:00:00Z"}}, r"\$\.window\.end"),
        ({"files": [{"path": "../x"}]}, r"\$\.files\[0\]\.path"),
    ],
)
def test_wrong_manifest_is_refused_with_its_place(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    document = {"format_version": 1, "window": WINDOW, "files": [], "sources": [], **change}
    (tmp_path / "snapshot.json").write_text(json.dumps(document))
    with pytest.raises(SuiteError, match=reason) as caught:
        load_manifest(tmp_path)
    assert str(tmp_path / "snapshot.json") in str(caught.value)


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../x", "a/../b", "a//b", "./a", "a\nb", "snapshot.json"]
)
def test_manifest_lists_plain_relative_paths_only(path: str) -> None:
    entry = {"path": path, "kind": "raw", "format": "x", "n_rows": 1, "n_bytes": 1, "sha256": "0" * 64}
    with pytest.raises(ValueError, match=r"path|itself"):
        SnapshotManifest.model_validate_json(
            json.dumps({"format_version": 1, "window": WINDOW, "files": [entry]})
        )


def test_manifest_lists_each_file_once() -> None:
    entry = {"path": "a", "kind": "raw", "format": "x", "n_rows": 1, "n_bytes": 1, "sha256": "0" * 64}
    with pytest.raises(ValueError, match="listed twice"):
        SnapshotManifest.model_validate_json(
            json.dumps({"format_version": 1, "window": WINDOW, "files": [entry, entry]})
        )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not JSON"),
        ('{"format_version": 1', "is not JSON"),
        ("[]", "must be a JSON object"),
        ('{"format_version": 1, "format_version": 1}', "stands twice"),
        ("[" * 100_000, "nested too deeply"),
        ('{"format_version": ' + "9" * 5000 + "}", "is not JSON"),
    ],
)
def test_damaged_manifest_is_one_message(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "snapshot.json").write_text(text)
    with pytest.raises(SuiteError, match=reason):
        load_manifest(tmp_path)


def test_missing_manifest_is_a_suite_error(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="does not exist"):
        load_manifest(tmp_path)


def test_window_is_exact_to_the_nanosecond() -> None:
    times = {"start": "2025-12-15T17:00:00.000000002Z", "end": "2025-12-15T17:00:01Z"}
    Window(detected_at="2025-12-15T17:00:00.000000002Z", **times)
    with pytest.raises(ValueError, match="does not hold"):
        Window(detected_at="2025-12-15T17:00:00.000000001Z", **times)


def test_links_inside_the_snapshot_are_fine(folder: Path) -> None:
    (folder / "same.log").symlink_to("logs/shop_cart.log")
    (folder / "logs" / "up.json").symlink_to("../topology.json")
    (folder / "all-logs").symlink_to("logs")
    assert check_tree(folder) == ()


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("/etc/passwd", "absolute path"),
        ("../outside", "leaves the snapshot"),
        ("../snapshot/topology.json", "leaves the snapshot"),
        ("logs/../../outside", "leaves the snapshot"),
        ("nowhere", "link to nothing"),
        ("itself", "link to nothing"),
    ],
)
def test_links_out_of_the_snapshot_are_refused(folder: Path, target: str, reason: str) -> None:
    (folder.parent / "outside").write_text("secret")
    (folder / "itself").symlink_to(target)
    with pytest.raises(SuiteError, match=reason):
        check_tree(folder)


def test_link_that_leaves_through_another_link_is_refused(folder: Path) -> None:
    (folder / "deep").mkdir()
    (folder / "deep" / "up").symlink_to("..")
    (folder / "out").symlink_to("deep/up/../outside")
    (folder.parent / "outside").write_text("secret")
    with pytest.raises(SuiteError, match="leaves the snapshot"):
        check_tree(folder)


def test_devices_fifos_sockets_and_setuid_files_are_refused(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(SuiteError, match="FIFO"):
        check_tree(folder)
    (folder / "pipe").unlink()

    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(folder)  # the path of a socket is at most 108 bytes long
        try:
            server.bind("sock")
        finally:
            os.chdir(here)
        with pytest.raises(SuiteError, match="socket"):
            check_tree(folder)
    (folder / "sock").unlink()

    (folder / "notes.bin").chmod(0o4755)
    with pytest.raises(SuiteError, match="setuid"):
        check_tree(folder)


def test_names_that_cannot_be_listed_are_refused(folder: Path) -> None:
    (folder / "a\nb").write_text("x")
    with pytest.raises(SuiteError, match="control characters"):
        check_tree(folder)
    (folder / "a\nb").unlink()
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff")).write_text("x")
    with pytest.raises(SuiteError, match="not UTF-8"):
        check_tree(folder)


def test_further_hard_links_are_a_warning(folder: Path) -> None:
    os.link(folder / "notes.bin", folder.parent / "elsewhere")
    (warning,) = check_tree(folder)
    assert "2 hard links" in warning


def test_folders_nested_too_deeply_are_refused(folder: Path) -> None:
    (folder / Path(*["d"] * 70)).mkdir(parents=True)
    with pytest.raises(SuiteError, match="nested"):
        check_tree(folder)


def test_link_to_a_folder_cannot_be_listed(folder: Path) -> None:
    (folder / "all-logs").symlink_to("logs")
    with pytest.raises(SuiteError, match="link to a folder"):
        build_manifest(folder, WINDOW)


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="does not exist"):
        check_tree(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(SuiteError, match="is not a folder"):
        build_manifest(tmp_path / "file", WINDOW)


def test_window_that_is_none_is_refused_as_a_suite_error(folder: Path) -> None:
    with pytest.raises(SuiteError, match="no manifest can be made"):
        build_manifest(folder, {"start": "now"})


def test_a_missing_manifest_is_told_with_one_to_begin_with(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match=r"does not exist\. .* write one") as caught:
        load_manifest(tmp_path)
    text = str(caught.value)
    document = json.loads(text[text.index("{") : text.rindex("}") + 1])
    jsonschema.validate(document, snapshot_schema())
    (tmp_path / "snapshot.json").write_text(json.dumps(document))
    assert load_manifest(tmp_path).files == ()
