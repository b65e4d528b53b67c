"""Each rule of a fair suite is broken on purpose, on a copy of a bundled scenario, and must be noticed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_suite import write_small_suite

from diagnose_bench.ground_truth import GroundTruth, load_ground_truth
from diagnose_bench.ground_truth_models import Decoy, Evidence
from diagnose_bench.layout import snapshots_root, truth_folder_of
from diagnose_bench.lint import lint_suite
from diagnose_bench.lint_files import SnapshotFiles
from diagnose_bench.lint_finding import SUITE, LintFinding, judge
from diagnose_bench.lint_loudness import check_loudness, count_errors, judge_loudness
from diagnose_bench.lint_signals import check_signals
from diagnose_bench.lint_structure import check_structure
from diagnose_bench.lint_truth import check_truth
from diagnose_bench.suite import Scenario, load_suite
from diagnose_bench.suite_digest import digest_suite

BUNDLED = "postmortems"
SCENARIO = "scenario-005"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A snapshot that may be damaged."""
    target = tmp_path / "snapshots" / "copy" / SCENARIO
    shutil.copytree(snapshots_root() / BUNDLED / SCENARIO, target)
    return target


@pytest.fixture(scope="module")
def truth() -> GroundTruth:
    return load_ground_truth(truth_folder_of(snapshots_root() / BUNDLED) / f"{SCENARIO}.yaml").truth


def rewrite(path: Path, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    """Pass every record of a JSON-lines file through a function; None drops it."""
    records = [change(json.loads(line)) for line in path.read_text().splitlines()]
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records if record is not None))


def signal(folder: Path, check: str) -> LintFinding:
    return next(one for one in check_signals(SCENARIO, SnapshotFiles(folder)) if one.check == check)


def about_truth(folder: Path, truth: GroundTruth, check: str) -> LintFinding:
    return next(one for one in check_truth(SCENARIO, truth, SnapshotFiles(folder)) if one.check == check)


def test_untouched_scenario_has_no_broken_finding(folder: Path, truth: GroundTruth) -> None:
    files = SnapshotFiles(folder)
    findings = [*check_signals(SCENARIO, files), *check_truth(SCENARIO, truth, files)]
    assert [one for one in findings if one.ok is not True] == []


# signals


def test_error_spans_that_the_metric_does_not_know_are_noticed(folder: Path) -> None:
    def fail(span: dict[str, Any]) -> dict[str, Any]:
        if span["service"] == "stock" and span["kind"] == "SERVER" and span["spanId"][0] in "0123":
            span["statusCode"] = "ERROR"
        return span

    rewrite(folder / "traces.jsonl", fail)
    finding = signal(folder, "error shares")
    assert finding.ok is False
    assert "store/stock" in finding.detail


def test_restart_without_event_is_noticed(folder: Path) -> None:
    def forget(event: dict[str, Any]) -> dict[str, Any] | None:
        return None if event["involvedObject"]["name"].startswith("coredns-") else event

    rewrite(folder / "events.jsonl", forget)
    finding = signal(folder, "restarts")
    assert finding.ok is False
    assert "kube-system/coredns-" in finding.detail


def test_alert_that_no_metric_gives_is_noticed(folder: Path) -> None:
    def rename(alert: dict[str, Any]) -> dict[str, Any]:
        if alert["labels"]["alertname"] == "KubeJobFailed":
            alert["labels"]["job_name"] = "another"
        return alert

    rewrite(folder / "alerts.jsonl", rename)
    finding = signal(folder, "alerts")
    assert finding.ok is False
    assert "'job_name': 'another'" in finding.detail


def test_alert_that_started_before_its_wait_was_over_is_noticed(folder: Path) -> None:
    def early(alert: dict[str, Any]) -> dict[str, Any]:
        if alert["labels"]["alertname"] == "ServiceHighErrorRatio":
            alert["startsAt"] = "2025-01-14T16:50:00.000Z"
        return alert

    rewrite(folder / "alerts.jsonl", early)
    finding = signal(folder, "alerts")
    assert finding.ok is False
    assert "ServiceHighErrorRatio" in finding.detail


def test_alert_that_is_older_than_it_says_is_noticed(folder: Path) -> None:
    def young(alert: dict[str, Any]) -> dict[str, Any]:
        if alert["labels"]["alertname"] == "CPUThrottlingHigh":
            alert["startsAt"] = "2025-01-14T17:01:30.000Z"
        return alert

    rewrite(folder / "alerts.jsonl", young)
    finding = signal(folder, "alerts")
    assert finding.ok is False
    assert "held from the start, but is said to begin 2025-01-14T17:01:30.000Z" in finding.detail


def test_alert_without_rule_is_noticed(folder: Path) -> None:
    def other(alert: dict[str, Any]) -> dict[str, Any]:
        if alert["labels"]["alertname"] == "Watchdog":
            alert["labels"]["alertname"] = "Watchcat"
        return alert

    rewrite(folder / "alerts.jsonl", other)
    assert "Watchcat: no rule" in signal(folder, "alerts").detail


def test_rule_that_is_not_understood_is_named(folder: Path) -> None:
    def break_rule(manifest: dict[str, Any]) -> dict[str, Any]:
        if manifest["kind"] == "PrometheusRule":
            manifest["spec"]["groups"][0]["rules"][0]["expr"] = "predict_linear(up[5m], 60) > 0"
        return manifest

    rewrite(folder / "objects.jsonl", break_rule)
    assert "is not understood" in signal(folder, "alerts").detail


@pytest.mark.parametrize("check", ["error shares", "restarts", "alerts"])
def test_check_without_telemetry_is_not_applied(tmp_path: Path, check: str) -> None:
    (tmp_path / "snapshot.json").write_text(
        json.dumps(
            {
                "format_version": 1,
                "window": {
                    "start": "2025-01-14T16:44:00Z",
                    "detected_at": "2025-01-14T17:14:20Z",
                    "end": "2025-01-14T17:29:00Z",
                },
                "files": [],
                "sources": [],
            }
        )
    )
    assert signal(tmp_path, check).ok is None


# truth


def test_word_of_the_truth_in_the_snapshot_is_noticed_in_any_case(folder: Path, truth: GroundTruth) -> None:
    with (folder / "logs" / "store_stock.log").open("a") as file:
        file.write(f"2025-01-14T17:28:59.000Z {truth.title.upper()}\n")
    finding = about_truth(folder, truth, "leaks")
    assert finding.ok is False
    assert truth.title in finding.detail


def test_canary_in_a_file_name_is_noticed(folder: Path, truth: GroundTruth) -> None:
    assert truth.canary is not None
    (folder / f"{truth.canary}.log").write_text("")
    assert about_truth(folder, truth, "leaks").ok is False


@pytest.mark.parametrize(
    ("file", "query", "message"),
    [
        ("events.jsonl", "no such text", "nothing in events.jsonl matches"),
        ("none.jsonl", "a", "no file 'none.jsonl'"),
        ("events.jsonl", "(", "no regular expression"),
        ("events.jsonl", "", "nothing in events.jsonl matches"),
    ],
)
def test_pointer_that_leads_nowhere_is_noticed(
    folder: Path, truth: GroundTruth, file: str, query: str, message: str
) -> None:
    pointer = Evidence(group="coredns", file=file, query=query)
    finding = about_truth(folder, replace(truth, evidence=(*truth.evidence, pointer)), "evidence")
    assert finding.ok is False
    assert message in finding.detail


def test_one_pointer_given_twice_is_one(folder: Path, truth: GroundTruth) -> None:
    finding = about_truth(folder, replace(truth, evidence=(truth.evidence[0],) * 2), "evidence")
    assert "coredns: 1 matching pointers, fewer than 2" in finding.detail


def test_decoy_that_is_no_object_is_noticed(folder: Path, truth: GroundTruth) -> None:
    decoys = (Decoy("store/Deployment/none"),)
    finding = about_truth(folder, replace(truth, decoys=decoys), "bystanders")
    assert "store/Deployment/none is not in the snapshot" in finding.detail


def test_true_answer_below_one_is_noticed(folder: Path, truth: GroundTruth) -> None:
    second = replace(truth.groups[0], id="second", entities=("none/ConfigMap/none",))
    finding = about_truth(folder, replace(truth, no_fault=True, groups=(*truth.groups, second)), "answers")
    assert finding.ok is False
    assert "the empty answer scores 0, not 1" in finding.detail


def test_decoy_that_counts_as_root_is_noticed(folder: Path, truth: GroundTruth) -> None:
    decoys = (Decoy("kube-system/Deployment/coredns"),)
    finding = about_truth(folder, replace(truth, decoys=decoys), "bystanders")
    assert "counts as a root cause" in finding.detail


def test_truth_without_fault_scores_the_empty_answer(folder: Path, truth: GroundTruth) -> None:
    calm = replace(truth, groups=(), evidence=(), propagation=(), no_fault=True)
    assert about_truth(folder, calm, "answers").ok is True
    assert about_truth(folder, calm, "evidence").ok is None


# structure


def test_changed_byte_is_noticed(folder: Path) -> None:
    digest_of_manifest = json.loads((snapshots_root() / BUNDLED / "suite.json").read_text())
    digest = next(one["digest"] for one in digest_of_manifest["scenarios"] if one["id"] == SCENARIO)
    scenario = Scenario(SCENARIO, folder, digest)
    assert check_structure(scenario, SnapshotFiles(folder))[0].ok is True
    path = folder / "events.jsonl"
    path.write_text(path.read_text().replace("OOMKilling", "OOMkilling", 1))
    assert check_structure(scenario, SnapshotFiles(folder))[0].ok is False


def test_short_window_and_few_records_are_noticed(tmp_path: Path) -> None:
    suite = write_small_suite(tmp_path)
    findings = lint_suite(suite, truth_folder_of(suite.path), baselines=False)
    amounts = next(one for one in findings if one.check == "amounts")
    assert amounts.ok is False
    assert "no traces" in amounts.detail
    assert next(one for one in findings if one.check == "window").ok is True
    assert {one.check for one in findings if one.ok is None} >= {
        "error shares",
        "restarts",
        "alerts",
        "baselines",
    }


_ODD_COUNT = {"type": "Warning", "involvedObject": {"kind": "Node", "name": "n"}, "count": "x"}


@pytest.mark.parametrize(
    ("file", "line", "message"),
    [
        ("objects.jsonl", '{"kind": ', "line 1 is no JSON"),
        ("objects.jsonl", "[1]", "line 1 is no JSON object"),
        ("events.jsonl", json.dumps(_ODD_COUNT), "native layout"),
        ("alerts.jsonl", '{"labels": [1]}', "native layout"),
        ("metrics/up.csv", "timestamp,value\nnever,1", "no timestamp or value"),
        ("traces.jsonl", '{"resource": 5, "kind": "SERVER"}', "native layout"),
    ],
)
def test_damaged_record_is_a_finding_and_no_crash(
    folder: Path, tmp_path: Path, file: str, line: str, message: str
) -> None:
    (folder / file).write_text(line + "\n")
    truths = tmp_path / "ground_truth" / "copy"
    truths.mkdir(parents=True)
    source = truth_folder_of(snapshots_root() / BUNDLED) / f"{SCENARIO}.yaml"
    shutil.copy(source, truths)
    suite_file = {"format_version": 1, "name": "copy", "version": "1", "pass_score": 1.0}
    suite_file["scenarios"] = [{"id": SCENARIO, "digest": None}]
    (folder.parent / "suite.json").write_text(json.dumps(suite_file))
    digest_suite(str(folder.parent), write=True)
    findings = lint_suite(load_suite(str(folder.parent)), truths, baselines=False)
    assert any(one.ok is False and message in one.detail for one in findings)


def test_refused_truth_is_a_finding(tmp_path: Path) -> None:
    suite = write_small_suite(tmp_path)
    truths = truth_folder_of(suite.path)
    (truths / "scenario-001.yaml").write_text(yaml.safe_dump({"format_version": 1, "groups": []}))
    findings = lint_suite(suite, truths, baselines=False)
    finding = next(one for one in findings if one.check == "truth")
    assert finding.ok is False
    assert "scenario-001.yaml" in finding.detail


def test_shared_canary_is_noticed(tmp_path: Path) -> None:
    suite = write_small_suite(tmp_path)
    truths = truth_folder_of(suite.path)
    text = (truths / "scenario-002.yaml").read_text()
    (truths / "scenario-002.yaml").write_text(text.replace("TRUTH-OF-scenario-002", "TRUTH-OF-scenario-001"))
    findings = lint_suite(suite, truths, baselines=False)
    assert next(one for one in findings if one.check == "canaries").ok is False


def test_suite_of_truths_alone_is_not_checked(tmp_path: Path) -> None:
    suite = write_small_suite(tmp_path, snapshots=False)
    findings = lint_suite(suite, truth_folder_of(suite.path))
    assert {one.check: one.ok for one in findings} == {
        "truth": True, "snapshot": None, "canaries": True, "loudest": None, "baselines": None,
    }  # fmt: skip


# loudness


def test_loudness_counts_spans_lines_and_warnings(folder: Path) -> None:
    before = count_errors(SnapshotFiles(folder))
    with (folder / "logs" / "store_stock.log").open("a") as file:
        file.write('2025-01-14T17:28:59.000Z level=error msg="no"\n2025-01-14T17:28:59.000Z level=info\n')
    event = {
        "type": "Warning",
        "count": 5,
        "involvedObject": {"kind": "Deployment", "namespace": "store", "name": "stock"},
    }
    with (folder / "events.jsonl").open("a") as file:
        file.write(json.dumps(event) + "\n")
    after = count_errors(SnapshotFiles(folder))
    assert {str(entity): n - before[entity] for entity, n in after.items() if n != before[entity]} == {
        "store/Deployment/stock": 6
    }


def test_loudest_root_cause_is_named_and_judged_over_the_suite(folder: Path, truth: GroundTruth) -> None:
    quiet = check_loudness(SCENARIO, truth, SnapshotFiles(folder))
    assert quiet.ok is True
    with (folder / "logs" / "kube-system_coredns.log").open("a") as file:
        file.write("2025-01-14T17:28:59.000Z [ERROR] plugin/errors: 2\n" * 2000)
    loud = check_loudness(SCENARIO, truth, SnapshotFiles(folder))
    assert loud.ok is None
    assert judge_loudness([loud, quiet, quiet, quiet, quiet]).ok is True
    assert judge_loudness([loud, quiet, quiet, quiet]).ok is False
    assert judge_loudness([]).ok is None


# findings


def test_finding_prints_one_line_and_its_json() -> None:
    finding = judge("scenario-001", "alerts", ["a", "b", "c", "d"], "fine")
    assert finding.line() == "scenario-001 alerts: BROKEN: a; b; c; and 1 more"
    assert finding.as_dict() == {
        "scenario_id": "scenario-001", "check": "alerts", "ok": False, "detail": "a; b; c; and 1 more",
    }  # fmt: skip
    assert LintFinding(SUITE, "x", None, "y").line() == "* x: not checked: y"
