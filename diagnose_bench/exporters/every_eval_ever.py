"""Every Eval Ever 0.3: one aggregate file and one line per trial, in the folders that its datastore has.

References stay empty: the truth of a suite must not be published beside the answers to it.
"""

from __future__ import annotations

import hashlib
import re
import time
import uuid
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from diagnose_bench import __version__
from diagnose_bench.errors import IncompleteRunError, RunError, UsageError
from diagnose_bench.exporters.atif_files import take_folder, trajectory_document
from diagnose_bench.exporters.scored import HEADLINE, ScoredRun, ScoredTrial
from diagnose_bench.files import canonical_json, pretty_json, sha256_of_bytes, write_atomic
from diagnose_bench.scorecard_statistics import Statistic

SCHEMA_VERSION = "0.3.0"
RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._:-]*")
_NO_ORGANISATION = frozenset({"unknown", "data", "none", "null", "n-a"})
_MAX_CONTENT = 20_000
_DESCRIPTIONS = {
    HEADLINE: "Share of right names in answers that name every root cause; any other answer is 0.",
    "full_recall_rate": "Share of answers that name every root cause.",
    "exact_rate": "Share of answers that name every root cause and nothing else.",
    "precision": "Share of right names.",
    "recall": "Share of the root causes that are named.",
    "f1": "Harmonic mean of precision and recall.",
    "ranked_precision_at_full_recall": "Precision at the rank of each root cause, 0 without full recall.",
    "strict": "The first measure with exact objects in place of workloads.",
}


@dataclass(frozen=True)
class Publisher:
    """What the format wants to know and a run does not say.

    Attributes
    ----------
    model : str or None
        ``DEVELOPER/MODEL``; None takes the one that the agent states.
    organization : str
        Who provides the results.
    relationship : str
        One of `RELATIONSHIPS`: the evaluator's to the model.
    """

    model: str | None = None
    organization: str = "unknown"
    relationship: str = "other"


def export_every_eval_ever(run: ScoredRun, out: Path, publisher: Publisher) -> tuple[Path, Path]:
    """Write the aggregate and the samples below ``out/data``.

    Returns
    -------
    aggregate, samples : Path
        The two files.

    Raises
    ------
    IncompleteRunError
        The run has no final number.
    UsageError
        The model or the relationship is no such thing, or the folder holds something already.
    RunError
        The run has no trials with a number.
    """
    scorecard = run.scorecard
    if scorecard.number is None:
        raise IncompleteRunError(
            f"{run.store.path}: some trials are unscored, so there is no number to publish. Finish the run "
            "with --resume and score it again."
        )
    model = _model_of(run, publisher)
    if publisher.relationship not in RELATIONSHIPS:
        raise UsageError(f"--relationship {publisher.relationship}: give one of {', '.join(RELATIONSHIPS)}.")
    take_folder(out)
    developer, _, name = model.partition("/")
    collection = re.sub(r"[^A-Za-z0-9._-]+", "-", f"diagnose-bench-{scorecard.suite.name}").strip(".-")
    identity = _uuid4_of(f"{scorecard.run_id}|{scorecard.signature}")
    folder = Path("data") / collection / developer / name.replace(":", "_")
    aggregate, samples = folder / f"{identity}.json", folder / f"{identity}_samples.jsonl"
    evaluation = f"{collection}/{model}/{_epoch(run.store.manifest.started_at)}"
    rows = [_row(run, trial, evaluation, model) for trial in run.trials()]
    rows = [row for row in rows if row is not None]
    if not rows:
        raise RunError(f"{run.store.path}: no trial has a number. Score the run again.")
    lines = b"".join(canonical_json(row) + b"\n" for row in rows)
    document = _aggregate(run, evaluation, model, publisher)
    document["detailed_evaluation_results"] = {
        "format": "jsonl",
        "file_path": samples.as_posix(),
        "hash_algorithm": "sha256",
        "checksum": sha256_of_bytes(lines),
        "total_rows": len(rows),
    }
    (out / folder).mkdir(parents=True)
    write_atomic(out / samples, lines)
    write_atomic(out / aggregate, pretty_json(document))
    return out / aggregate, out / samples


def _model_of(run: ScoredRun, publisher: Publisher) -> str:
    stated = publisher.model or run.scorecard.agent.model
    if stated is None or not _MODEL.fullmatch(stated) or stated.split("/")[0].lower() in _NO_ORGANISATION:
        found = "the run names no model" if stated is None else f"{stated!r} is none"
        raise UsageError(
            f"--model: the format files results under DEVELOPER/MODEL, and {found}. "
            "Give it, for example --model my-company/my-agent."
        )
    return stated


def _aggregate(run: ScoredRun, evaluation: str, model: str, publisher: Publisher) -> dict[str, Any]:
    scorecard, manifest = run.scorecard, run.store.manifest
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": evaluation,
        "evaluation_timestamp": manifest.started_at,
        "retrieved_timestamp": str(int(time.time())),
        "source_metadata": {
            "source_name": f"diagnose-bench, suite {scorecard.suite.name}",
            "source_type": "evaluation_run",
            "source_organization_name": publisher.organization,
            "evaluator_relationship": publisher.relationship,
        },
        "eval_library": {
            "name": "diagnose-bench",
            "version": __version__,
            "additional_details": {"signature": scorecard.signature},
        },
        "model_info": {
            "name": scorecard.agent.model or scorecard.agent.name,
            "id": model,
            "additional_details": {
                "deployment_type": "unknown",
                "model_availability": "unknown",
                "agent_name": scorecard.agent.name,
                "agent_version": scorecard.agent.version or "unknown",
            },
        },
        "evaluation_results": _results(run),
    }


def _results(run: ScoredRun) -> list[dict[str, Any]]:
    scorecard = run.scorecard
    numbers: list[tuple[str, float | None, Statistic | None]] = [(HEADLINE, scorecard.number, None)]
    numbers += [
        (name, value, scorecard.metric_intervals.get(name)) for name, value in scorecard.metrics.items()
    ]
    strict = scorecard.profile_intervals.get("strict")
    numbers.append(("strict", scorecard.profiles.get("strict"), strict))
    return [_result(run, name, value, statistic) for name, value, statistic in numbers if value is not None]


def _result(run: ScoredRun, name: str, value: float, statistic: Statistic | None) -> dict[str, Any]:
    scorecard, manifest = run.scorecard, run.store.manifest
    interval, level, method = scorecard.interval, scorecard.headline.level, scorecard.method
    if scorecard.subset is not None:
        level = scorecard.subset.level
    if name != HEADLINE:
        interval = None if statistic is None else statistic.interval
        level = None if statistic is None else statistic.level
        method = "" if statistic is None else statistic.method
    details: dict[str, Any] = {"score": value, "details": {"averaged_over": run.averaged_over}}
    if interval is not None and level is not None:
        ends = {"lower": interval[0], "upper": interval[1], "confidence_level": level, "method": method}
        details["uncertainty"] = {
            "confidence_interval": ends,
            "num_samples": scorecard.headline.n_scenarios,
        }
    # Ids and times of the suite itself, never where it lies on somebody's machine.
    source = {
        "suite_version": scorecard.suite.version,
        "suite_digest": scorecard.suite.digest,
        "subset": str(scorecard.subset is not None).lower(),
    }
    policy = {
        "repeats": str(manifest.policy.repeats),
        "max_turns": str(manifest.policy.max_turns),
        "sandbox": str(manifest.sandbox.backend),
    }
    limit_s = manifest.policy.time_limit_s
    arguments = {} if limit_s is None else {"eval_limits": {"time_limit": max(1, round(limit_s))}}
    return {
        "evaluation_result_id": name,
        "evaluation_name": scorecard.suite.name,
        "source_data": {
            "dataset_name": scorecard.suite.name,
            "source_type": "other",
            "additional_details": source,
        },
        "metric_config": {
            "evaluation_description": _DESCRIPTIONS.get(name, name.replace("_", " ")),
            "metric_id": f"diagnose-bench.{name}",
            "metric_name": name.replace("_", " "),
            "metric_unit": "proportion",
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": 0.0,
            "max_score": 1.0,
        },
        "score_details": details,
        "generation_config": {"generation_args": arguments, "additional_details": policy},
    }


def _row(run: ScoredRun, trial: ScoredTrial, evaluation: str, model: str) -> dict[str, Any] | None:
    """One trial, or None where it has no number."""
    score, record = trial.score.precision_at_full_recall, trial.record
    if score is None or record is None:
        return None
    document = trajectory_document(run.store, trial.planned, record)
    messages = _messages(document)
    names = "; ".join(entity.raw for entity in trial.score.entities)
    row: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": evaluation,
        "model_id": model,
        "evaluation_name": run.scorecard.suite.name,
        "evaluation_result_id": HEADLINE,
        "sample_id": f"{trial.scenario.scenario_id}#{trial.score.repeat}",
        "interaction_type": "agentic",
        "input": {"raw": messages[0]["content"] if messages[0]["role"] == "user" else "", "reference": []},
        "output": None,
        "messages": messages,
        "answer_attribution": [
            {
                "turn_idx": len(messages) - 1,
                "source": f"messages[{len(messages) - 1}]",
                "extracted_value": _cut(names),
                "extraction_method": "diagnosis reader",
                "is_terminal": True,
            }
        ],
        "evaluation": {
            "score": score,
            "is_correct": score >= run.scorecard.pass_score,
            "num_turns": max(1, record.n_turns),
            "tool_calls_count": record.n_commands,
        },
        "performance": {"latency_ms": record.seconds * 1000.0},
        "metadata": {
            "outcome": record.outcome.value,
            "verdict": str(trial.score.verdict),
            "repeat": str(trial.score.repeat),
        },
    }
    usage = record.usage
    if usage.input_tokens is not None and usage.output_tokens is not None:
        row["token_usage"] = {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens + usage.output_tokens,
            "input_tokens_cache_read": usage.cached_tokens,
            "reasoning_tokens": usage.reasoning_tokens,
        }
    return row


def _messages(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps of a trajectory as messages, long texts cut."""
    found: list[dict[str, Any]] = []

    def add(role: str, content: str, **more: Any) -> None:
        found.append({"turn_idx": len(found), "role": role, "content": _cut(content), **more})

    for step in document["steps"]:
        calls = [
            {
                "id": call["tool_call_id"],
                "name": call["function_name"],
                "arguments": {
                    name: _cut(value if isinstance(value, str) else canonical_json(value).decode())
                    for name, value in call["arguments"].items()
                },
            }
            for call in step.get("tool_calls", ())
        ]
        role = "assistant" if step["source"] == "agent" else step["source"]
        add(role, str(step["message"]), tool_calls=calls or None)
        for result in step.get("observation", {}).get("results", ()):
            call_id = result.get("source_call_id")
            identity = None if call_id is None else [call_id]
            add("tool", str(result.get("content") or ""), tool_call_id=identity)
    return found


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CONTENT else text[:_MAX_CONTENT] + "…"


def _uuid4_of(text: str) -> str:
    """The same UUID of version 4 for the same run and scoring, so that an export twice is one record."""
    return str(uuid.UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4))


def _epoch(moment: str) -> int:
    try:
        return int(datetime.fromisoformat(moment).timestamp())
    except (ValueError, OverflowError, OSError):
        return 0
