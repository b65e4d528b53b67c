"""Is the cause hidden behind louder victims, and do simple agents fail: loudness counts and baseline runs."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from pathlib import Path

from diagnose_bench.entity import WORKLOAD_KINDS, Entity, entity_of
from diagnose_bench.errors import DiagnoseBenchError, SandboxUnavailableError
from diagnose_bench.grading import score_run
from diagnose_bench.ground_truth import GroundTruth
from diagnose_bench.lint_files import SnapshotFiles
from diagnose_bench.lint_finding import SUITE, LintFinding
from diagnose_bench.outcome import Profile
from diagnose_bench.resolver import EntityClass, Resolver
from diagnose_bench.suite import Suite

MAX_SHARE_LOUDEST = 0.2
"""Share of the scenarios with a fault in which a root cause may be the loudest entity."""
MAX_BASELINE = 0.35
_IS_ROOT, _IS_NO_ROOT = "a root cause, which the suite may have seldom", "no root cause"
BASELINES = ("loudest", "alerting")
_ERROR_LINE = re.compile(
    r"level=error|\[error\]|\bERROR\b|\"level\":50|\"severity\":\"ERROR\"|\bFATAL\b|\bpanic\b|^\S+ E\d{4} ",
    re.IGNORECASE,
)


def check_loudness(scenario_id: str, truth: GroundTruth, files: SnapshotFiles) -> LintFinding:
    """Name the loudest entity; whether it may be a root cause is decided over the suite."""
    loudness = count_errors(files)
    if not loudness:
        return LintFinding(scenario_id, "loudest", None, "no error spans, error lines or warning events")
    top = max(loudness, key=lambda entity: (loudness[entity], str(entity)))
    detail = f"{top} with {loudness[top]} errors and warnings"
    if truth.no_fault:
        return LintFinding(scenario_id, "loudest", True, f"{detail}; nothing is wrong")
    resolved = Resolver(truth, files.inventory).resolve([str(top)], Profile.ITBENCH_AA).entities[0]
    if resolved.class_ is EntityClass.ROOT_CAUSE:
        return LintFinding(scenario_id, "loudest", None, f"{detail}; {_IS_ROOT}")
    return LintFinding(scenario_id, "loudest", True, f"{detail}; {_IS_NO_ROOT}")


def judge_loudness(findings: list[LintFinding]) -> LintFinding:
    """Whether causes are loudest too often."""
    mine = [finding for finding in findings if finding.check == "loudest"]
    hits = [finding.scenario_id for finding in mine if finding.detail.endswith(_IS_ROOT)]
    n_faulty = len(hits) + sum(finding.detail.endswith(_IS_NO_ROOT) for finding in mine)
    if not n_faulty:
        return LintFinding(SUITE, "loudest", None, "no scenario with a fault shows errors")
    named = f": {', '.join(hits)}" if hits else ""
    detail = f"a root cause is the loudest entity in {len(hits)} of {n_faulty} scenarios{named}"
    return LintFinding(SUITE, "loudest", len(hits) <= MAX_SHARE_LOUDEST * n_faulty, detail)


def count_errors(files: SnapshotFiles) -> Counter[Entity]:
    """Error spans, error lines and warning events of each workload (other objects count for themselves)."""
    found: Counter[Entity] = Counter()
    by_name = {
        (entity.namespace, entity.name): files.inventory.workload(entity)
        for entity in sorted(files.inventory.entities)
        if entity.kind in WORKLOAD_KINDS
    }
    for span in files.records("traces.jsonl"):
        if str(span.get("statusCode")).upper().endswith("ERROR"):
            key = (str(span.get("resource", {}).get("k8s.namespace.name", "")), str(span.get("service")))
            if key in by_name:
                found[by_name[key]] += 1
    for entry in files.manifest.files_of("logs"):
        namespace, _, name = Path(entry.path).stem.partition("_")
        if (namespace, name) in by_name:
            lines = files.lines(entry.path)
            found[by_name[namespace, name]] += sum(bool(_ERROR_LINE.search(line)) for line in lines)
    for event in files.records("events.jsonl"):
        about = event.get("involvedObject") or {}
        if event.get("type") == "Warning" and about.get("kind") and about.get("name"):
            key = (str(about.get("namespace", "")), str(about["name"]))
            entity = by_name.get(key) or entity_of(None, str(about["kind"]), key[0], key[1])
            found[entity] += int(event.get("count") or 1)
    return Counter({entity: count for entity, count in found.items() if count})


def check_baselines(suite: Suite, truth_folder: Path) -> list[LintFinding]:
    """Run the simple agents in the real sandbox and see that they fail."""
    from diagnose_bench.agents.factory import make_agent
    from diagnose_bench.run import RunOptions, run_suite

    findings = []
    options = RunOptions(repeats=1, hide=(truth_folder,))
    with tempfile.TemporaryDirectory(prefix="lint-") as folder:
        for name in BASELINES:
            check = f"baseline:{name}"
            out = Path(folder) / name
            try:
                run_suite(suite, make_agent(check), options, out)
                headline = score_run(out, suite=str(suite.path), truth=truth_folder).headline
            except SandboxUnavailableError as error:
                findings.append(LintFinding(SUITE, check, None, f"no sandbox on this machine: {error}"))
                continue
            except DiagnoseBenchError as error:
                findings.append(LintFinding(SUITE, check, False, f"the run failed: {error}"))
                continue
            score = headline.average_precision_at_full_recall
            if score is None:
                findings.append(
                    LintFinding(SUITE, check, None, "the run has no headline: a truth is refused")
                )
            else:
                detail = f"scores {score:.3f}, at most {MAX_BASELINE} is allowed"
                findings.append(LintFinding(SUITE, check, score <= MAX_BASELINE, detail))
    return findings
