"""Whether cited evidence exists: file, line and quote against a snapshot written here."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from diagnose_bench.diagnosis_model import Evidence
from diagnose_bench.evidence import MAX_CITATIONS, EvidenceIndex, Found
from diagnose_bench.snapshot import Window, build_manifest

WINDOW = Window(start="2025-01-01T00:00:00Z", detected_at="2025-01-01T00:30:00Z", end="2025-01-01T00:45:00Z")
MESSAGE = 'killed "cart"\tafter\u00fc 2 tries'
LINES = [
    '{"reason":"Scheduled"}',
    json.dumps({"reason": "OOMKilled", "message": MESSAGE}),
    "plain text  here",
]


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    folder = tmp_path / "snapshot"
    (folder / "logs").mkdir(parents=True)
    (folder / "events.jsonl").write_text("\n".join(LINES))
    (folder / "logs" / "shop_cart.log").write_text("x" * 3_000_000 + "needle" + "y" * 3_000_000)
    (folder / "raw.bin").write_bytes(b"OOMKilled\0")
    manifest = build_manifest(folder, WINDOW)
    (folder / "snapshot.json").write_text(json.dumps(manifest.model_dump(mode="json")))
    return folder


@pytest.mark.parametrize(
    ("file", "line", "quote", "found"),
    [
        ("events.jsonl", 2, "OOMKilled", Found.FOUND),
        ("/snapshot/events.jsonl", 2, " OOMKilled ", Found.FOUND),
        ("./events.jsonl", None, '"OOMKilled", ', Found.FOUND),
        # Twelve characters say something, fewer need the number of a line.
        ("events.jsonl", None, '"OOMKilled",', Found.FOUND),
        ("events.jsonl", None, '"OOMKilled"', None),
        ("events.jsonl", None, "plain text" + " " * 9, None),
        ("events.jsonl", None, "e", None),
        ("events.jsonl", 2, "e", Found.FOUND),
        ("events.jsonl", 1, "OOMKilled", Found.OTHER_LINE),
        ("events.jsonl", 99, "OOMKilled", Found.OTHER_LINE),
        ("events.jsonl", 2, "Evicted", Found.NO_QUOTE),
        ("events.jsonl", None, "oomkilled", Found.NO_QUOTE),
        # As a reader of the JSON would write it, not as it stands in the file.
        ("events.jsonl", 2, MESSAGE, Found.FOUND),
        ("events.jsonl", None, MESSAGE, Found.FOUND),
        ("events.jsonl", 3, "text here", Found.FOUND),
        ("events.jsonl", 3, None, Found.FOUND),
        ("events.jsonl", 4, None, Found.NO_LINE),
        ("events.jsonl", None, None, None),
        ("events.jsonl", None, " ", None),
        ("logs/shop_cart.log", None, "xxxneedleyyy", Found.FOUND),
        ("logs/shop_cart.log", 2, "needle", Found.OTHER_LINE),
        ("snapshot.json", None, '"window": {"start"', Found.FOUND),
        ("nothing.jsonl", 1, "OOMKilled", Found.NO_FILE),
        ("../ground_truth/scenario-001.yaml", None, "root_cause", Found.NO_FILE),
        ("/etc/passwd", None, "root", Found.NO_FILE),
        ("events.jsonl\0", None, "OOMKilled", Found.NO_FILE),
        ("raw.bin", None, "OOMKilled", None),
        (None, 2, "OOMKilled", None),
        ("events.jsonl", None, "q" * 5000, None),
    ],
)
def test_a_citation_is_held_against_the_snapshot(
    snapshot: Path, file: str | None, line: int | None, quote: str | None, found: Found | None
) -> None:
    cited = Evidence(file=file, line=line, quote=quote)
    assert EvidenceIndex(snapshot).check([cited]) == (found,)


def test_without_a_snapshot_nothing_can_be_said() -> None:
    assert EvidenceIndex(None).check([Evidence(file="events.jsonl", quote="OOMKilled")]) == (None,)


def test_a_quote_that_lies_across_two_pieces_of_a_file_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "snapshot"
    folder.mkdir()
    # Files are read in pieces of 1 MiB; the quote has its last word 3 bytes before the end of the first.
    (folder / "big.log").write_text("x" * ((1 << 20) - 3) + "needle" + "x" * 100)
    manifest = build_manifest(folder, WINDOW)
    (folder / "snapshot.json").write_text(json.dumps(manifest.model_dump(mode="json")))
    assert EvidenceIndex(folder).check([Evidence(file="big.log", quote="xxxxxxneedle")]) == (Found.FOUND,)


def test_of_very_many_citations_the_first_are_looked_up(snapshot: Path) -> None:
    cited = [Evidence(file="events.jsonl", quote='"reason": "OOMKilled"')] * (MAX_CITATIONS + 5)
    assert EvidenceIndex(snapshot).check(cited) == (*[Found.FOUND] * MAX_CITATIONS, *[None] * 5)


@pytest.mark.parametrize("kind", ["link", "fifo", "gone"])
def test_a_file_that_was_replaced_since_is_not_followed(snapshot: Path, tmp_path: Path, kind: str) -> None:
    (snapshot / "events.jsonl").unlink()
    if kind == "link":
        (tmp_path / "secret").write_text("OOMKilled")
        (snapshot / "events.jsonl").symlink_to(tmp_path / "secret")
    elif kind == "fifo":
        os.mkfifo(snapshot / "events.jsonl")
    assert EvidenceIndex(snapshot).check([Evidence(file="events.jsonl", quote="OOMKilled")]) == (None,)
