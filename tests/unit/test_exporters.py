"""A run in the formats of other tools, held to those tools' own rules."""

from __future__ import annotations

import hashlib
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import atif
import jsonschema
import pytest
from cli_helpers import call, tree
from unit.sample_runs import Trial, truth_of, write_run, write_suite
from unit.scored_runs import scored, suite_of

from diagnose_bench.exporters.github import MAX_BYTES
from diagnose_bench.grading import score_run
from diagnose_bench.outcome import Outcome

SCHEMAS = Path(__file__).parent.parent / "data" / "every_eval_ever-0.3.0"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Three scenarios, two repeats: (1 + 0.5)/2, (0 + 0)/2, (1 + 1)/2; mean 7/12."""
    suite = suite_of(tmp_path, 3)
    return scored(tmp_path / "run", suite, [[1.0, 0.5], [0.0, 0.0], [1.0, 1.0]])


@pytest.fixture
def open_run(tmp_path: Path) -> Path:
    """A run with a trial that failed through the harness."""
    return scored(tmp_path / "open", suite_of(tmp_path, 2), [[1.0], [None]])


# JUnit, as the schema that build servers share has it: attributes and children of each element.
ELEMENTS: dict[str, tuple[set[str], set[str]]] = {
    "testsuites": ({"name", "time", "tests", "failures", "disabled", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "time", "disabled", "skipped", "timestamp", "hostname", "id"},
        {"properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set(), {"property"}),
    "property": ({"name", "value"}, set()),
    "testcase": ({"name", "assertions", "time", "classname", "status"}, {"skipped", "error", "failure"}),
    "skipped": ({"message"}, set()),
    "error": ({"type", "message"}, set()),
    "failure": ({"type", "message"}, set()),
}


def junit(data: str) -> ElementTree.Element:
    root = ElementTree.fromstring(data.encode())
    for element in root.iter():
        attributes, children = ELEMENTS[element.tag]
        assert set(element.attrib) <= attributes
        assert {child.tag for child in element} <= children
        for name in ("tests", "failures", "errors", "skipped"):
            assert element.get(name, "0").isdigit()
        if "time" in element.attrib:
            assert float(element.attrib["time"]) >= 0
    for suite in root:
        assert suite.get("tests") == str(len(suite.findall("testcase")))
    return root


def test_junit_has_a_test_case_for_each_trial(run: Path) -> None:
    root = junit(call("export", "junit", run).out)
    # Of six trials three score 1 and pass; 0.5, 0 and 0 fail.
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("6", "3", "0")
    assert [case.get("classname") for case in root.iter("testcase")][::2] == [
        "small.scenario-001",
        "small.scenario-002",
        "small.scenario-003",
    ]
    assert [case.get("name") for case in root.iter("testcase")][:2] == ["repeat 1", "repeat 2"]
    failed = [case.find("failure") for case in root.iter("testcase")]
    assert [None if one is None else one.get("type") for one in failed] == [
        None,
        "fail",
        "fail",
        "fail",
        None,
        None,
    ]
    (value,) = {
        one.get("value")
        for one in root.iter("property")
        if one.get("name") == "average_precision_at_full_recall"
    }
    assert value is not None
    number, _, over = value.partition(" ")
    assert float(number) == pytest.approx(7 / 12)
    assert over == "(mean over 3 scenarios, each the mean over 2 planned repeats)"


def test_junit_of_an_open_run_has_an_error_a_skip_and_bounds(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, 3)
    trials = {
        ("scenario-001", 1): Trial(["shop/Deployment/cart"]),
        ("scenario-002", 1): Trial(None, Outcome.HARNESS_ERROR, changes={"reason": "no\x00 sandbox \ud800"}),
    }
    out = write_run(tmp_path / "run", suite, trials)
    score_run(out)
    done = call("export", "junit", out)
    assert done.code == 3
    root = junit(done.out)
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "0", "1")
    error = root.find(".//error")
    assert error is not None
    assert (error.get("type"), error.get("message")) == (
        "harness_error",
        "harness_error: no\\x00 sandbox \\ud800",
    )
    assert root.find(".//skipped") is not None
    bounds = {one.get("value") for one in root.iter("property") if one.get("name") == "bounds"}
    (words,) = bounds
    # One of three is right, two are open: from 1/3 to 1.
    assert str(words).startswith(f"{1 / 3!r} to 1.0 ")


def test_the_github_summary_has_the_number_and_what_it_is_over(run: Path) -> None:
    done = call("export", "github", run)
    assert done.code == 0
    assert "**Average precision at full recall: 58.3 %**" in done.out
    assert "(mean over 3 scenarios, each the mean over 2 planned repeats)" in done.out
    assert [line.split("`")[1] for line in done.out.splitlines() if line.startswith("| `")] == [
        "scenario-002",
        "scenario-001",
        "scenario-003",
    ]


def test_the_github_summary_of_an_open_run_gives_bounds(open_run: Path) -> None:
    done = call("export", "github", open_run)
    assert done.code == 3
    assert "not final** between 50.0-100.0" in done.out.replace("not final**,", "not final**")


def test_the_github_summary_of_a_huge_run_stays_below_its_bound(tmp_path: Path) -> None:
    run = scored(tmp_path / "run", suite_of(tmp_path, 3), [[1.0] * 40] * 3, agent="`<b>|" * 5_000)
    card = json.loads((run / "scorecard.json").read_text())
    template = card["scenarios"][0]
    card["scenarios"] = [template | {"scenario_id": f"scenario-{n:05d}"} for n in range(5_000)]
    (run / "scorecard.json").write_text(json.dumps(card))
    done = call("export", "github", run)
    assert len(done.out.encode()) <= MAX_BYTES <= 64_000
    assert "more scenarios, all in scorecard.json." in done.out
    assert done.out.count("| `scenario-") > 100
    assert "<b>" not in done.out
    assert done.out.rstrip().endswith("`")


def test_trajectories_are_what_their_models_accept(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert call("export", "atif", run, "--out", out).code == 0
    names = [f"scenario-{n:03d}.{k}.trajectory.json" for n in (1, 2, 3) for k in (1, 2)]
    assert sorted(tree(out)) == names
    for data in tree(out).values():
        read = atif.Trajectory.model_validate_json(data)
        assert read.session_id == "run-1"
        assert [step.source for step in read.steps] == ["agent", "agent"]


def test_a_damaged_trajectory_is_named_and_not_passed_on(run: Path, tmp_path: Path) -> None:
    path = run / "trials/scenario-001/1/trajectory.json"
    head = '{"schema_version": "ATIF-v1.7", "agent": {"name": "a", "version": "1"}, "steps": '
    steps = ("[]", "7", "[7]", '[{"step_id": 1, "source": "user"}]', '[{"step_id": 2, "source": "user"}]')
    call_less = '[{"step_id": 1, "source": "agent", "message": "", "tool_calls": [{"tool_call_id": "a"}]}]'
    broken = ('{"schema_version": "ATIF-v1.7"}', "[]", "{", '{"schema_version": NaN}', "[" * 100_000)
    for text in (*broken, *(f"{head}{one}}}" for one in (*steps, call_less))):
        path.write_text(text)
        message = call("export", "atif", run, "--out", tmp_path / "out").refused()
        assert f"{path}: is no trajectory" in message
        for file in (tmp_path / "out").iterdir():
            file.unlink()


def test_nothing_is_written_over(run: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    assert "is not empty" in call("export", "atif", run, "--out", tmp_path / "out").refused()
    assert tree(tmp_path / "out") == {"mine": b"mine"}
    (tmp_path / "a.eval").write_text("mine")
    assert "is there already" in call("export", "inspect", run, "--out", tmp_path / "a.eval").refused()


def export_eee(run: Path, out: Path, *more: str) -> tuple[Path, Any, list[Any]]:
    done = call("export", "every-eval-ever", run, "--out", out, "--model", "acme/agent-1", *more)
    assert done.code == 0, done.err
    (aggregate,) = out.rglob("*.json")
    (samples,) = out.rglob("*.jsonl")
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    return aggregate, json.loads(aggregate.read_text()), rows


def test_every_eval_ever_files_are_what_its_schemas_accept(run: Path, tmp_path: Path) -> None:
    aggregate, document, rows = export_eee(run, tmp_path / "out", "--organization", "Acme")
    whole = json.loads((SCHEMAS / "eval.schema.json").read_text())
    instance = json.loads((SCHEMAS / "instance_level_eval.schema.json").read_text())
    assert (whole["version"], document["schema_version"]) == ("0.3.0", "0.3.0")
    jsonschema.Draft7Validator(whole).validate(document)
    for row in rows:
        jsonschema.Draft7Validator(instance).validate(row)
    assert aggregate.relative_to(tmp_path / "out").parts[:-1] == (
        "data",
        "diagnose-bench-small",
        "acme",
        "agent-1",
    )
    assert re.fullmatch(
        r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", aggregate.stem
    )
    detail = document["detailed_evaluation_results"]
    samples = (tmp_path / "out" / detail["file_path"]).read_bytes()
    assert detail["checksum"] == hashlib.sha256(samples).hexdigest()
    assert detail["total_rows"] == len(rows) == 6


def test_every_eval_ever_has_the_number_its_interval_and_what_it_is_over(run: Path, tmp_path: Path) -> None:
    _, document, rows = export_eee(run, tmp_path / "out")
    (headline,) = [
        one
        for one in document["evaluation_results"]
        if one["evaluation_result_id"] == "average_precision_at_full_recall"
    ]
    details = headline["score_details"]
    assert details["score"] == pytest.approx(7 / 12)
    assert (
        details["details"]["averaged_over"] == "mean over 3 scenarios, each the mean over 2 planned repeats"
    )
    interval = details["uncertainty"]["confidence_interval"]
    assert interval["lower"] < 7 / 12 < interval["upper"]
    assert interval["confidence_level"] == 0.95
    assert [row["evaluation"]["score"] for row in rows] == [1.0, 0.5, 0.0, 0.0, 1.0, 1.0]
    assert [row["evaluation"]["is_correct"] for row in rows] == [True, False, False, False, True, True]


@pytest.mark.parametrize("target", ["every-eval-ever", "atif", "inspect", "github"])
def test_no_export_has_the_truth(tmp_path: Path, target: str) -> None:
    truth = truth_of("scenario-001", ["cart"]) | {
        "canary": "canary-0123456789abcdef",
        "title": "Secret title",
    }
    suite = write_suite(tmp_path, {"scenario-001": truth})
    run = write_run(
        tmp_path / "run", suite, {("scenario-001", 1): Trial(["shop/Service/valkey"], outputs=("x",))}
    )
    score_run(run)
    out = tmp_path / "out"
    place = {"inspect": out / "log.json", "github": tmp_path / "summary.md"}.get(target, out)
    model = ["--model", "a/b"] if target == "every-eval-ever" else []
    done = call("export", target, run, "--out", place, *model)
    assert done.code == 0, done.err
    files = tree(out) if target != "github" else {"summary": place.read_bytes()}
    assert files
    for data in files.values():
        for secret in (b"canary-0123", b"Secret title", b"Deployment/cart"):
            assert secret not in data


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "the run names no model"),
        (["--model", "nameless"], "'nameless' is none"),
        (["--model", "unknown/agent"], "'unknown/agent' is none"),
        (["--model", "../../etc/passwd"], "is none"),
        (["--model", "a/b", "--relationship", "friend"], "--relationship friend: give one of first_party"),
    ],
)
def test_every_eval_ever_needs_a_model_to_file_under(
    run: Path, tmp_path: Path, more: list[str], message: str
) -> None:
    done = call("export", "every-eval-ever", run, "--out", tmp_path / "out", *more)
    assert message in done.refused()
    assert not (tmp_path / "out").exists()


def test_an_open_run_is_not_published(open_run: Path, tmp_path: Path) -> None:
    done = call("export", "every-eval-ever", open_run, "--out", tmp_path / "out", "--model", "a/b")
    assert "there is no number to publish" in done.refused(3)


def test_a_run_without_a_score_is_told_to_be_scored(tmp_path: Path) -> None:
    out = write_run(tmp_path / "run", suite_of(tmp_path, 1), {})
    assert "Score it first: diagnose-bench score" in call("export", "junit", out).refused()


def test_an_option_of_another_format_is_refused(run: Path) -> None:
    assert (
        "--model: has a meaning only for every-eval-ever"
        in call("export", "junit", run, "--model", "a/b").refused()
    )
