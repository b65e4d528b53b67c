"""JUnit XML: a test case for each planned trial, so that any build server shows a run. Decides nothing.

A safe pass passes; a pass that is not safe, and a score below the suite's bar, are failures; what ended
without a score is an error, and what has not run is skipped.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

from diagnose_bench.exporters.scored import ScoredRun, ScoredTrial
from diagnose_bench.outcome import Outcome, Verdict
from diagnose_bench.text import visible

# What XML 1.0 cannot hold and `visible` lets pass.
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MAX_TEXT = 4_000


def junit_xml(run: ScoredRun) -> bytes:
    """The document, UTF-8."""
    scorecard = run.scorecard
    root = ElementTree.Element("testsuites", {"name": _text(f"diagnose-bench {scorecard.agent.name}")})
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    seconds = 0.0
    suites: dict[str, ElementTree.Element] = {}
    for trial in run.trials():
        suite = suites.get(trial.scenario.scenario_id)
        if suite is None:
            name = f"{scorecard.suite.name}.{trial.scenario.scenario_id}"
            suite = suites[trial.scenario.scenario_id] = ElementTree.SubElement(
                root, "testsuite", {"name": _text(name), **_zeros()}
            )
            _properties(suite, run)
        how = _case(suite, trial, scorecard.suite.name)
        for counted in filter(None, ("tests", how)):
            counts[counted] += 1
            suite.set(counted, str(int(suite.get(counted, "0")) + 1))
        seconds += trial.score.seconds
        suite.set("time", f"{float(suite.get('time', '0')) + trial.score.seconds:.3f}")
    for name, count in counts.items():
        if name != "skipped":
            root.set(name, str(count))
    root.set("time", f"{seconds:.3f}")
    ElementTree.indent(root)
    data: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return data + b"\n"


def _zeros() -> dict[str, str]:
    return {"tests": "0", "failures": "0", "errors": "0", "skipped": "0", "time": "0.000"}


def _properties(suite: ElementTree.Element, run: ScoredRun) -> None:
    """The run's number, with what it was averaged over, on every suite: some readers show nothing else."""
    scorecard = run.scorecard
    number = "n/a" if scorecard.number is None else repr(scorecard.number)
    values = {
        "agent": scorecard.agent.name,
        run.label: f"{number} ({run.averaged_over})",
        "signature": scorecard.signature,
    }
    if scorecard.interval is not None:
        values["interval_95"] = f"{scorecard.interval[0]!r} to {scorecard.interval[1]!r} ({scorecard.method})"
    if scorecard.bounds is not None:
        values["bounds"] = (
            f"{scorecard.bounds[0]!r} to {scorecard.bounds[1]!r} (unscored trials as 0 and as 1)"
        )
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in values.items():
        ElementTree.SubElement(properties, "property", {"name": _text(name), "value": _text(value)})


def _case(suite: ElementTree.Element, trial: ScoredTrial, suite_name: str) -> str:
    score = trial.score
    case = ElementTree.SubElement(
        suite,
        "testcase",
        {
            "classname": _text(f"{suite_name}.{trial.scenario.scenario_id}"),
            "name": f"repeat {score.repeat}",
            "time": f"{score.seconds:.3f}",
        },
    )
    if score.outcome is Outcome.PENDING or score.verdict is None:
        ElementTree.SubElement(case, "skipped", {"message": _text(_why_unscored(trial))})
        return "skipped"
    if score.verdict is Verdict.SAFE_PASS:
        return ""
    tag = "error" if score.verdict is Verdict.RUNTIME_ERROR else "failure"
    kind = score.outcome.value if tag == "error" else score.verdict.value
    found = ElementTree.SubElement(case, tag, {"type": kind, "message": _text(_message(trial))})
    found.text = _text("\n".join(_detail(trial)))
    return f"{tag}s"


def _why_unscored(trial: ScoredTrial) -> str:
    return trial.scenario.truth_refused or trial.score.reason or "This trial has not run yet."


def _message(trial: ScoredTrial) -> str:
    score = trial.score
    if score.verdict is Verdict.RUNTIME_ERROR:
        return f"{score.outcome.value}: {score.reason}"
    number = "n/a" if score.precision_at_full_recall is None else repr(score.precision_at_full_recall)
    reasons = f" ({', '.join(score.unsafe_reasons)})" if score.unsafe_reasons else ""
    return f"{score.verdict}{reasons}: precision at full recall {number} of this one trial"


def _detail(trial: ScoredTrial) -> list[str]:
    lines = [f"outcome: {trial.score.outcome.value}: {trial.score.reason}"]
    lines += [f"{entity.class_}: {entity.raw}" for entity in trial.score.entities[:50]]
    left = len(trial.score.entities) - 50
    return [*lines, f"and {left} more"] if left > 0 else lines


def _text(text: str) -> str:
    cut = text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…"
    return _NO_XML.sub("\ufffd", visible(cut))
