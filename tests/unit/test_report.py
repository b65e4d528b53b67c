from __future__ import annotations

import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from unit.report_samples import CALM, CART, hostile_report
from unit.sample_runs import Trial, truth_of, write_run, write_suite

from diagnose_bench.errors import RunError, UsageError
from diagnose_bench.grading import score_run
from diagnose_bench.outcome import Outcome
from diagnose_bench.records import SandboxInfo
from diagnose_bench.report import (
    Report,
    interval_text,
    load_report,
    methods,
    number_or_bounds,
    percent,
    points,
    report_json,
)
from diagnose_bench.report_commands import MAX_COMMANDS
from diagnose_bench.report_html import MAX_ENTITIES, report_html
from diagnose_bench.report_markdown import code, escape, report_markdown
from diagnose_bench.report_terminal import print_report

ONE = "scenario-001"
# C0 but for line breaks, DEL, C1, and the characters that turn the direction of text around.
NEVER_SENT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return hostile_report(tmp_path_factory.mktemp("hostile"))


def terminal_text(report: Report, width: int = 200) -> str:
    stream = io.StringIO()
    print_report(report, stream, width=width)
    return stream.getvalue()


def simple_run(root: Path, name: str = "run", **changes: object) -> Path:
    suite = root / "snapshots" / "small"
    if not suite.exists():
        write_suite(root, {ONE: truth_of(ONE, ["cart"], ["frontend"])})
    run = write_run(root / name, suite, {(ONE, 1): Trial(["shop/Deployment/cart"])}, **changes)  # type: ignore[arg-type]
    score_run(run)
    return run


@pytest.mark.parametrize("width", [40, 80, 200])
def test_terminal_report_sends_no_control_character(report: Report, width: int) -> None:
    text = terminal_text(report, width)
    assert NEVER_SENT.search(text) is None
    assert "[red]x[/red]" in "".join(terminal_text(report, 4000).split("\n"))


def test_terminal_report_always_has_the_signature_on_one_line(report: Report) -> None:
    lines = terminal_text(report, 40).splitlines()
    for agent in report.agents:
        assert any(line.endswith(agent.scorecard.signature) for line in lines)


def test_terminal_report_shows_headline_basis_and_baselines(tmp_path: Path) -> None:
    run = simple_run(tmp_path)
    text = terminal_text(load_report([run]))
    assert "Average precision at full recall, in %" in text
    # One scenario of one: the interval of Jeffreys is the middle of Beta(3/2, 1/2), .1468 to .9997.
    assert re.search(
        r"sample +100\.0 +14\.7-100\.0 +1 x 1 +100\.0 +100\.0 +100\.0 +100\.0 +\+100\.0\n",
        text,
    )
    assert re.search(r"constant name +0\.0 +1\n", text)
    assert re.search(r"always empty +0\.0 +1\n", text)
    assert re.search(r"scenario-001 +100\.0 ✓\n", text)
    assert "diagnosed 1" in text
    assert "safe_pass 1" in text


def test_the_report_of_the_usual_agents_fits_80_columns_uncut(tmp_path: Path) -> None:
    names = ["baseline:alerting", "baseline:loudest", "baseline:upstream", "baseline:recent-change", "mine"]
    runs = [simple_run(tmp_path, f"run-{index}", agent=name) for index, name in enumerate(names)]
    tables, _, rest = terminal_text(load_report(runs), 80).partition("How the trials ended")
    for line in tables.splitlines():
        assert len(line) <= 80
        assert line == line.rstrip()
    for name in names:
        assert re.search(rf"^{name} +100\.0 14\.7-100\.0 1 x 1 ", tables, re.MULTILINE), name
    assert not re.search("[a-z0-9]…", tables)
    assert rest.count("|resolver:") == 1


def test_report_says_how_sure_its_number_is_in_every_format(tmp_path: Path) -> None:
    truths = {f"scenario-{k:03d}": truth_of(f"scenario-{k:03d}", ["cart"], ["frontend"]) for k in range(1, 7)}
    for k, truth in enumerate(truths.values()):
        truth["family"] = ("disk", "dns", "rollout")[k % 3]
    suite = write_suite(tmp_path, truths, with_snapshots=False)
    right, wrong = Trial(["shop/Deployment/cart"]), Trial(["shop/Deployment/frontend"])
    trials = {
        (name, repeat): right if k % 3 == 0 or (k == 1 and repeat == 1) else wrong
        for k, name in enumerate(truths)
        for repeat in (1, 2)
    }
    run = write_run(tmp_path / "run", suite, trials, repeats=2, agent="mine")
    score_run(run)
    report = load_report([run])
    # Families disk (1, 1), dns (1/2, 0), rollout (0, 0): mean 5/12; one scenario in six flips; at least one
    # of two trials is right in 3 of 6 scenarios, both in 2 of 6.
    low, high = report.rows[0].interval or (1.0, 0.0)
    shown = f"{100 * low:.1f}-{100 * high:.1f}"
    text = terminal_text(report, 80)
    assert all(len(line) <= 80 for line in text.splitlines() if "|resolver:" not in line)
    assert re.search(rf"^mine +41\.7 +{shown} 6 x 2 ", text, re.MULTILINE)
    assert re.search(r"^mine +-58\.3 +\d+\.\d +8\.3 +16\.7 +50\.0 +33\.3$", text, re.MULTILINE)
    assert re.search(r"^disk \(2\) +100\.0$", text, re.MULTILINE)
    plain = " ".join(text.split())
    assert "mine: Another group like these 3 (n = 6 scenarios): mean expected in 0.0-100.0 %." in plain
    assert "Generalise: standard error of the score for other scenarios like these." in plain
    assert "unit: family, n = 3." in plain
    markdown = report_markdown(report)
    # Rerun: the one scenario that differs has the variance 1/2; sqrt(1/2 / 2 / 36) = 1/12.
    assert "for these very scenarios run again (rerun) it is 8.3 points." in markdown
    assert f"| mine | 41.7 % | {shown} | 6 scenarios x 2 repeats |" in markdown
    assert re.search(r"\| dns \| 2 \| 25\.0 % \| \d+\.\d-\d+\.\d \|", markdown)
    assert re.search(r"\| every root cause named \| 2 \| 50\.0 % \(.*\) \| 33\.3 % \(.*\) \|", markdown)
    page = report_html(report)
    assert f'<u style="left:{100 * low:.2f}%;width:{100 * (high - low):.2f}%"></u>' in page
    assert f"95 % interval {shown}" in page
    assert "<caption>Another group like these 3" in page
    assert "standard error for these very scenarios run again" in page
    for shape in (text, markdown, page):
        assert "not computed yet" not in shape
        assert "nan" not in shape.lower()


def test_what_the_number_is_about_is_said_once_for_runs_alike(tmp_path: Path) -> None:
    report = load_report([simple_run(tmp_path, "one"), simple_run(tmp_path, "two")])
    assert len(methods(report)) == 1
    assert terminal_text(report, 4000).count("exact quadrature") == 1
    other = simple_run(tmp_path, "three")
    score_run(other, interval="t")
    assert len(methods(load_report([tmp_path / "one", other]))) == 2


@pytest.mark.parametrize(
    ("ends", "signed", "shown"),
    [
        (None, False, "n/a"),
        ((0.194, 0.8204), False, "19.4-82.0"),
        ((-0.1, 0.25), False, "-10.0 to +25.0"),
        ((0.1, 0.25), True, "+10.0 to +25.0"),
    ],
)
def test_interval_text(ends: tuple[float, float] | None, signed: bool, shown: str) -> None:
    assert interval_text(ends, signed=signed) == shown


def test_incomplete_run_shows_bounds_and_says_why(report: Report) -> None:
    # One of six trials is scored, with 1: as 0 it is (1/2 + 0 + 0)/3 = 1/6, as 1 it is 1.
    row = next(row for row in report.rows if row.name == "second")
    assert number_or_bounds(row.number, row.bounds) == "n/a (16.7 to 100.0 %)"
    assert any("5 trials without a score" in notice for notice in report.notices)


def test_json_report_is_the_scorecards(report: Report) -> None:
    value = json.loads(json.dumps(report_json(report), allow_nan=False))
    assert [card["agent"]["name"] for card in value["scorecards"]][1] == "second"
    assert value["scorecards"][0] == report.agents[0].scorecard.to_dict()


class Elements(HTMLParser):
    """Collects what a browser would see as elements, attributes and text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_html_report_has_no_element_or_attribute_of_hostile_text(report: Report) -> None:
    page = Elements()
    page.feed(report_html(report))
    assert not page.tags & {"script", "img", "svg", "iframe", "link", "object", "b <b>"}
    names = {name for name, _ in page.attributes}
    assert not {name for name in names if name.startswith("on") or name in ("src", "srcset", "action")}
    assert all(value.startswith("#") for name, value in page.attributes if name == "href")
    text = "".join(page.text)
    assert "<script>fetch(" in text
    assert "{{ 7 * 7 }}" in text
    assert "odd <b>|group" in text
    assert NEVER_SENT.search(text) is None


def test_html_report_forbids_every_request(report: Report) -> None:
    page = Elements()
    page.feed(report_html(report))
    policy = next(value for name, value in page.attributes if name == "content" and "default-src" in value)
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")


def test_html_report_is_bounded_and_counts_what_it_leaves_out(report: Report) -> None:
    page = report_html(report)
    assert f"and {80 - MAX_ENTITIES} more" in page
    assert f"{60 - MAX_COMMANDS} more are in the run folder" in page
    assert "x" * 10_000 not in page


def test_html_report_tells_verdicts_without_colour(report: Report) -> None:
    text = Elements()
    text.feed(report_html(report))
    for word in ("safe pass", "unsafe pass", "fail", "runtime error"):
        assert any(word in part for part in text.text)


def test_html_report_shows_who_was_blamed_and_how_far_from_the_root(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, {ONE: truth_of(ONE, ["cart"], ["frontend"])})
    run = write_run(tmp_path / "run", suite, {(ONE, 1): Trial(["shop/Deployment/frontend"])})
    score_run(run)
    page = report_html(load_report([run]))
    assert '<td class="k-victim">victim</td><td>exact</td><td>frontend</td><td class="n">1</td>' in page
    assert "mean over 1 scenario, each over 1 planned trial" in page
    assert "cat file-1" in page
    assert "cart checkout frontend valkey" in page


def test_markdown_report_as_a_renderer_reads_it_has_no_link_image_or_html(report: Report) -> None:
    tokens = MarkdownIt("commonmark").enable("table").parse(report_markdown(report))
    inner = [token for outer in tokens for token in (outer, *(outer.children or ()))]
    kinds = {token.type for token in inner}
    assert not kinds & {"html_block", "html_inline", "image", "link_open", "fence", "code_block"}
    assert [token.tag for token in tokens if token.type == "heading_open"].count("h1") == 1
    # Every row of a table has as many cells as its head.
    for index, token in enumerate(tokens):
        if token.type == "tr_open":
            cells = [one.type for one in tokens[index : index + 40]]
            cells = cells[: cells.index("tr_close")]
            assert len([one for one in cells if one in ("th_open", "td_open")]) in (10, 5, 4)


def test_markdown_report_contains_no_live_markup(report: Report) -> None:
    text = report_markdown(report)
    assert NEVER_SENT.search(text) is None
    outside = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", text)
    assert "<" not in outside
    assert "](" not in outside
    assert "://" not in outside
    assert "www." not in outside
    columns = {line.count("|") for line in text.splitlines() if line.startswith("| Agent")}
    assert {line.count("|") for line in text.splitlines() if line.startswith("|")} >= columns
    assert not [line for line in text.splitlines() if line.startswith("# ") and "Incident" not in line]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "`plain`"),
        ("a`b", "``a`b``"),
        ("`", "`` ` ``"),
        ("a``b`c", "```a``b`c```"),
        ("", "`   `"),
        ("a\nb", r"`a\nb`"),
    ],
)
def test_code_span_cannot_be_left(text: str, expected: str) -> None:
    assert code(text) == expected


def test_escaped_text_keeps_names_readable() -> None:
    assert escape("scenario-001") == "scenario-001"
    assert escape("a|b <i> *x*") == "a&#124;b &#60;i&#62; &#42;x&#42;"


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "n/a"), (0.0, "0.0 %"), (4 / 9, "44.4 %"), (1.0, "100.0 %")]
)
def test_percent(value: float | None, shown: str) -> None:
    assert percent(value) == shown


def test_difference_has_its_sign() -> None:
    assert (points(0.125), points(-0.5), points(None)) == ("+12.5", "-50.0", "n/a")


def test_runs_on_different_terms_are_called_not_comparable(tmp_path: Path) -> None:
    first, second = simple_run(tmp_path, "one"), simple_run(tmp_path, "two", repeats=2)
    report = load_report([first, second])
    assert any("signatures differ in repeats" in notice for notice in report.notices)
    assert len({agent.label for agent in report.agents}) == 2


def test_scorecard_older_than_the_run_is_refused(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, {ONE: truth_of(ONE, ["cart"])})
    run = write_run(tmp_path / "run", suite, {(ONE, 1): Trial(None, Outcome.AGENT_ERROR)})
    score_run(run)
    file = run / "trials" / ONE / "1" / "trial.json"
    file.write_text(file.read_text().replace("agent_error", "harness_error"))
    with pytest.raises(RunError, match="changed since it was scored"):
        load_report([run])


def test_scorecard_of_another_run_is_refused(tmp_path: Path) -> None:
    run = simple_run(tmp_path)
    file = run / "scorecard.json"
    file.write_text(file.read_text().replace("run-1", "run-2"))
    with pytest.raises(RunError, match="changed since it was scored"):
        load_report([run])


def test_run_that_is_missing_unscored_or_given_twice_is_refused(tmp_path: Path) -> None:
    run = simple_run(tmp_path)
    with pytest.raises(UsageError, match="given twice"):
        load_report([run, run])
    with pytest.raises(UsageError, match="at least one"):
        load_report([])
    with pytest.raises(RunError, match="not a run"):
        load_report([tmp_path / "nowhere"])
    (run / "scorecard.json").unlink()
    with pytest.raises(RunError, match="diagnose-bench score"):
        load_report([run])


def test_whatever_weakens_a_number_is_said_beside_it(tmp_path: Path) -> None:
    two = "scenario-002"
    truth = truth_of(ONE, ["cart"])
    truth["propagation"] = [{"source": "cart", "target": "nobody", "effect": "errors"}]
    suite = write_suite(
        tmp_path, {ONE: truth, two: {**truth_of(two, []), "no_fault": False}}, with_snapshots=False
    )
    (tmp_path / "ground_truth" / "small" / "patches.yaml").write_text(
        "format_version: 1\npatches:\n- scenario_id: scenario-001\n  who: a reviewer\n"
        "  why: a better <title>\n  patch:\n  - {op: replace, path: /title, value: Better}\n"
    )
    run = write_run(
        tmp_path / "run",
        suite,
        {(ONE, 1): Trial([])},
        sandbox=SandboxInfo(backend="bwrap", agent_process="unconfined"),
    )
    score_run(run)
    notices = " ".join(load_report([run]).notices)
    assert "truth refused" in notices
    assert "inventory: none" in notices
    assert "weaker isolation (sandbox bwrap+unconfined)" in notices
    assert "truths mended by patches: scenario-001" in notices
    page = report_html(load_report([run]))
    assert "patched by a reviewer: a better &lt;title&gt; (replace /title)" in page
    assert "nobody" in page
    score_run(run, exclude=[two])
    assert "taken out by hand: scenario-002." in " ".join(load_report([run]).notices)


def test_subset_is_called_a_subset_everywhere(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, {one: truth_of(one, ["cart"]) for one in (ONE, "scenario-002")})
    run = write_run(tmp_path / "run", suite, {(ONE, 1): Trial(["shop/Deployment/cart"])}, plan=[ONE])
    score_run(run)
    report = load_report([run])
    assert "subset: 1 x 1" in terminal_text(report)
    assert "a subset of the suite (scenario-001): its number is no headline." in " ".join(report.notices)
    assert "Average precision at full recall, subset" in report_html(report)


def test_one_signature_is_printed_once_for_several_runs(tmp_path: Path) -> None:
    report = load_report([simple_run(tmp_path, "one"), simple_run(tmp_path, "two")])
    assert terminal_text(report).count("|resolver:") == 1
    assert report_html(report).count("|resolver:") == 1
    assert report_markdown(report).count("|resolver:") == 1


def test_boundary_events_stand_in_every_format_the_weightiest_first(report: Report) -> None:
    html, markdown, terminal = report_html(report), report_markdown(report), terminal_text(report)
    for text in (html, markdown):
        assert text.index("event-70") < text.index("event-0")
        assert "event-69" not in text
    assert "and 21 more, all in scorecard.json" in html
    assert "and 51 more boundary events, all in scorecard.json" in markdown
    assert "high 1, low 70" in " ".join(terminal.split())
    assert "boundary events of high confidence in 1 trial: scenario-001 repeat 2" in " ".join(report.notices)
    assert report.agents[0].scorecard.unsafe_reasons["boundary"] == 1


def test_a_pass_without_evidence_is_named_unless_nothing_was_wrong(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, {ONE: truth_of(ONE, ["cart"]), CALM: truth_of(CALM, [])})
    sandbox = SandboxInfo(backend="bwrap", agent_process="confined", null_snapshot=True)
    trials = {(ONE, 1): Trial([CART], outputs=()), (CALM, 1): Trial([], outputs=())}
    run = write_run(tmp_path / "run", suite, trials, sandbox=sandbox)
    assert "|sandbox:bwrap+null|" in score_run(run).signature
    notices = " ".join(load_report([run]).notices)
    assert "null snapshot: agents got an empty folder" in notices
    assert "1 trial passed although there was nothing to see, so the agent used something else: " in notices
    assert "scenario-001 repeat 1." in notices
