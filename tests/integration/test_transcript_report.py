"""A trial that really ran: its time line on the terminal, and in the report as a browser shows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from browser_helpers import browse, console_lines, find_chromium
from cli_helpers import call, script, small_suite

AGENT = r"""
"$DIAGNOSE_BENCH_SHELL" -c 'ls /snapshot'
"$DIAGNOSE_BENCH_SHELL" -c 'echo "<script>alert(1)</script>"; cat /snapshot/events.jsonl; exit 3'
echo '{"root_causes": [{"entity": "shop/Deployment/cart"}]}' | "$DIAGNOSE_BENCH_SUBMIT"
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("transcript")
    agent = script(root / "agent", AGENT)
    done = call(
        *("run", "--agent", agent, "--suite", small_suite(root), "--scenario", "scenario-001"),
        *("--repeats", "1", "--no-baselines", "--out", root / "run"),
    )
    assert done.code == 0, done.err
    assert call("score", root / "run").code == 0
    return root / "run"


def test_the_terminal_shows_when_the_cause_was_seen_and_named(run: Path) -> None:
    done = call("transcript", run, "scenario-001", "1")
    assert done.code == 0, done.err
    text = re.sub(r"\d+:\d\d\.\d", "T", done.out)
    assert "T   1. ls /snapshot" in text
    assert "exit 3, " in text
    assert "first seen here: shop/Deployment/cart" in text
    assert "ROOT CAUSE culprit in sight" in text
    assert "T      answer: accepted, counts" in text
    assert "1. shop/Deployment/cart: root cause, group culprit" in text
    assert "root cause culprit: its name is in the output of command 2 (T); submitted (T)" in text


def test_json_has_the_same(run: Path) -> None:
    value = call("transcript", run, "1", "1", "--format", "json").json()
    assert [command["exit_code"] for command in value["commands"]] == [0, 3]
    assert value["root_causes"][0]["commands"] == [2]
    assert value["submissions"][0]["entities"][0]["class_"] == "root_cause"


def test_a_browser_shows_the_time_line_and_its_links_lead_somewhere(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert call("report", run, "--html", page).code == 0
    done = browse(find_chromium(), tmp_path / "profile", page, "--dump-dom")
    assert console_lines(done) == []
    assert 'id="a0-scenario-001-r1-timeline"' in done.stdout
    assert "Root cause culprit: its name is in the output of command 2" in done.stdout
    assert "<script" not in done.stdout
    links = re.findall(r'href="#([^"]+)"', done.stdout)
    assert "a0-scenario-001-r1-c2" in links
    assert [link for link in links if f'id="{link}"' not in done.stdout] == []


def test_a_run_that_was_never_made_is_refused(tmp_path: Path) -> None:
    assert "is not a run" in call("transcript", tmp_path / "nothing", "1", "1").refused()
