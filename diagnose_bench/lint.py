"""Holds a suite to the rules for a fair one: runs all checks, scenario by scenario, then over the suite.

Every check gives a finding, also one that cannot be applied (a foreign suite has no such telemetry, a machine
has no sandbox). Changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from diagnose_bench.errors import DiagnoseBenchError
from diagnose_bench.ground_truth import GroundTruth, load_truths
from diagnose_bench.lint_cluster import check_cluster
from diagnose_bench.lint_files import SnapshotFiles
from diagnose_bench.lint_finding import SUITE, LintFinding
from diagnose_bench.lint_lines import check_lines
from diagnose_bench.lint_loudness import check_baselines, check_loudness, judge_loudness
from diagnose_bench.lint_signals import check_signals
from diagnose_bench.lint_structure import check_structure
from diagnose_bench.lint_truth import check_truth
from diagnose_bench.suite import Scenario, Suite

__all__ = ["LintFinding", "lint_suite"]


def lint_suite(suite: Suite, truth_folder: Path, *, baselines: bool = True) -> list[LintFinding]:
    """Check a suite and its truths.

    Parameters
    ----------
    suite : Suite
        A loaded suite.
    truth_folder : Path
        ``ground_truth/<suite>``.
    baselines : bool
        Whether to run the baseline agents, which takes most of the time.

    Returns
    -------
    list of LintFinding
        In the order of the scenarios, those about the whole suite last.

    Raises
    ------
    GroundTruthError
        The truths' folder or its patch file cannot be read.
    """
    truths = load_truths(truth_folder, [scenario.id for scenario in suite.scenarios])
    findings: list[LintFinding] = []
    for scenario in suite.scenarios:
        reason = truths.refused.get(scenario.id)
        findings.append(LintFinding(scenario.id, "truth", reason is None, reason or "loads"))
        loaded = truths.truths.get(scenario.id)
        findings += _scenario(scenario, loaded.truth if loaded else None)
    findings.append(_canaries({key: loaded.truth for key, loaded in truths.truths.items()}))
    findings.append(judge_loudness(findings))
    if baselines and all(scenario.snapshot for scenario in suite.scenarios):
        findings += check_baselines(suite, truth_folder)
    else:
        findings.append(LintFinding(SUITE, "baselines", None, "not asked for, or a scenario has no snapshot"))
    return findings


def _scenario(scenario: Scenario, truth: GroundTruth | None) -> list[LintFinding]:
    if scenario.snapshot is None:
        return [LintFinding(scenario.id, "snapshot", None, "the suite is of truths alone")]
    files = SnapshotFiles(scenario.snapshot)
    checks: list[tuple[str, Callable[[], list[LintFinding]]]] = [
        ("structure", lambda: check_structure(scenario, files)),
        ("cluster", lambda: check_cluster(scenario.id, files)),
        ("lines", lambda: check_lines(scenario.id, files)),
        ("signals", lambda: check_signals(scenario.id, files)),
    ]
    if truth is not None:
        checks.append(("truth", lambda: check_truth(scenario.id, truth, files)))
        checks.append(("loudest", lambda: [check_loudness(scenario.id, truth, files)]))
    findings: list[LintFinding] = []
    for name, check in checks:
        try:
            findings += check()
        except DiagnoseBenchError as error:
            findings.append(LintFinding(scenario.id, name, False, str(error)))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # Records come from outside: a field of another type than the native layout has is a finding.
            detail = f"a record is not of the native layout: {type(error).__name__}: {error}"
            findings.append(LintFinding(scenario.id, name, False, detail))
    return findings


def _canaries(truths: dict[str, GroundTruth]) -> LintFinding:
    natives = {key: truth.canary for key, truth in truths.items() if truth.format == "native"}
    if not natives:
        return LintFinding(SUITE, "canaries", None, "no truth of the native form")
    missing = [key for key, canary in natives.items() if not canary]
    if missing:
        return LintFinding(SUITE, "canaries", False, f"no canary: {', '.join(missing)}")
    unique = len(set(natives.values())) == len(natives)
    return LintFinding(
        SUITE, "canaries", unique, "each truth has its own" if unique else "two truths share one"
    )
