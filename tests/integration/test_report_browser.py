"""The HTML report in a real browser: it renders, complains of nothing, and asks nobody for anything."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from browser_helpers import browse, console_lines, find_chromium
from unit.report_samples import hostile_report

from diagnose_bench.report_html import report_html


@pytest.fixture(scope="module")
def chromium() -> str:
    """Debian's browser."""
    return find_chromium()


@contextmanager
def counting_server() -> Iterator[tuple[int, list[str]]]:
    """A server on a free port, and the paths that were asked of it."""
    hits: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hits.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1], hits
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_server_counts_a_page_that_does_ask(chromium: str, tmp_path: Path) -> None:
    with counting_server() as (port, hits):
        page = tmp_path / "asking.html"
        page.write_text(
            f"<!doctype html><img src=http://127.0.0.1:{port}/x><script>console.error('seen')</script>"
        )
        done = browse(chromium, tmp_path / "profile", page, "--dump-dom")
    assert hits == ["/x"]
    assert console_lines(done)


def test_report_renders_without_an_error_and_without_a_request(chromium: str, tmp_path: Path) -> None:
    with counting_server() as (port, hits):
        page = tmp_path / "report.html"
        page.write_text(report_html(hostile_report(tmp_path / "data", port)), encoding="utf-8")
        log = tmp_path / "net-log.json"
        done = browse(chromium, tmp_path / "profile", page, f"--log-net-log={log}", "--dump-dom")
    assert hits == []
    assert console_lines(done) == []
    assert "Signature" in done.stdout
    assert "&lt;script&gt;fetch(" in done.stdout
    assert "<script" not in done.stdout
    assert f"127.0.0.1:{port}" not in "".join(requested_urls(log))


def requested_urls(log: Path) -> list[str]:
    events = json.loads(log.read_text())["events"]
    return [
        url for event in events if (url := str(event.get("params", {}).get("url", ""))).startswith("http")
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_report_can_be_drawn_in_both_colour_schemes(chromium: str, tmp_path: Path, scheme: str) -> None:
    page, picture = tmp_path / "report.html", tmp_path / "report.png"
    page.write_text(report_html(hostile_report(tmp_path / "data")), encoding="utf-8")
    option = f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}"
    browse(chromium, tmp_path / "profile", page, option, "--window-size=1280,1600", f"--screenshot={picture}")
    header = picture.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", header[16:24]) == (1280, 1600)
    # A blank page of that size is a few kilobytes.
    assert picture.stat().st_size > 30_000
