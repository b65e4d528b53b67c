"""A run as an evaluation log of Inspect, for its viewer and its data frames. Needs the extra ``inspect``.

Targets stay empty: the truth of a suite must not travel in the logs of its runs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diagnose_bench import __version__
from diagnose_bench.errors import DiagnoseBenchError, UsageError
from diagnose_bench.exporters.atif_files import trajectory_document
from diagnose_bench.exporters.scored import HEADLINE, ScoredRun, ScoredTrial
from diagnose_bench.files import remedy_of
from diagnose_bench.outcome import Limit
from diagnose_bench.records import Usage
from diagnose_bench.timeline import later

if TYPE_CHECKING:
    from inspect_ai.log import EvalSample
    from inspect_ai.model import ChatMessage, ModelUsage

SCORER = "precision_at_full_recall"
EXTRA = f"Inspect is not installed. Install it: {sys.executable} -m pip install 'inspect-ai>=0.3.285'."


def require_inspect() -> None:
    """Say what to install where Inspect is missing.

    Raises
    ------
    UsageError
        It is.
    """
    try:
        import inspect_ai  # noqa: F401
    except ImportError as error:
        raise UsageError(EXTRA) from error


def export_inspect(run: ScoredRun, out: Path) -> Path:
    """Write the log; a name that ends in ``.json`` gives text, ``.eval`` Inspect's own container.

    Raises
    ------
    UsageError
        Inspect is missing, the file exists, or its name says no format.
    """
    require_inspect()
    from inspect_ai.log import EvalConfig as Config
    from inspect_ai.log import EvalDataset, EvalLog, EvalStats, write_eval_log
    from inspect_ai.log import EvalSpec as Spec

    if out.suffix not in (".eval", ".json"):
        raise UsageError(f"--out {out}: give a name that ends in .eval or .json.")
    if out.exists():
        raise UsageError(f"{out}: is there already. Choose another --out, so that nothing is written over.")
    scorecard, manifest = run.scorecard, run.store.manifest
    samples = [sample for trial in run.trials() if (sample := _sample(run, trial)) is not None]
    ids = [scenario.scenario_id for scenario in scorecard.scenarios]
    log = EvalLog(
        version=2,
        status="success" if scorecard.complete else "cancelled",
        eval=Spec(
            created=manifest.started_at,
            eval_id=manifest.run_id,
            run_id=manifest.run_id,
            task=f"diagnose_bench/{scorecard.suite.name}",
            task_id=manifest.run_id,
            task_version=scorecard.suite.version,
            dataset=EvalDataset(name=scorecard.suite.name, samples=len(ids), sample_ids=ids),
            model=scorecard.agent.model or f"diagnose-bench/{scorecard.agent.name}",
            config=Config(
                epochs=scorecard.headline.n_repeats,
                epochs_reducer=["mean"],
                time_limit=_whole(manifest.policy.time_limit_s),
            ),
            packages={"diagnose_bench": __version__},
            metadata={"signature": scorecard.signature, "agent": scorecard.agent.name},
        ),
        results=_results(run, len(samples)),
        stats=EvalStats(started_at=manifest.started_at, completed_at=_end(samples, manifest.started_at)),
        samples=samples,
    )
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_eval_log(log, str(out))
    except OSError as error:
        out.unlink(missing_ok=True)
        raise DiagnoseBenchError(f"{out}: cannot write: {error.strerror}. {remedy_of(error)}") from error
    return out


def _results(run: ScoredRun, n_samples: int) -> Any:
    from inspect_ai.log import EvalMetric, EvalResults, EvalScore

    scorecard = run.scorecard
    about = {"averaged_over": run.averaged_over, "method": scorecard.method}
    numbers: dict[str, float | None] = {HEADLINE: scorecard.number, **scorecard.metrics}
    metrics = {
        name: EvalMetric(name=name, value=value, metadata=about)
        for name, value in numbers.items()
        if value is not None
    }
    score = EvalScore(name=SCORER, scorer=SCORER, reducer="mean", metrics=metrics, metadata=about)
    n_planned = sum(len(scenario.trials) for scenario in scorecard.scenarios)
    return EvalResults(total_samples=n_planned, completed_samples=n_samples, scores=[score])


def _sample(run: ScoredRun, trial: ScoredTrial) -> EvalSample | None:
    """One trial that has run."""
    from inspect_ai.log import EvalError, EvalSample, EvalSampleLimit
    from inspect_ai.model import ModelOutput
    from inspect_ai.scorer import Score

    record, score = trial.record, trial.score
    if record is None:
        return None
    document = trajectory_document(run.store, trial.planned, record)
    messages = _messages(document)
    task = str(document["steps"][0]["message"]) if document["steps"][0]["source"] == "user" else ""
    names = "\n".join(entity.raw for entity in score.entities)
    model = run.scorecard.agent.model or f"diagnose-bench/{run.scorecard.agent.name}"
    scores = None
    if score.precision_at_full_recall is not None:
        about = {
            "outcome": score.outcome.value,
            "verdict": score.verdict,
            "n_correct": score.n_correct,
            "n_wrong": score.n_wrong,
            "classes": [entity.class_ for entity in score.entities],
        }
        scores = {
            SCORER: Score(
                value=score.precision_at_full_recall, answer=names, explanation=score.reason, metadata=about
            )
        }
    usage = _usage(record.usage)
    error = None
    if not record.outcome.is_scored:
        error = EvalError(message=record.reason, traceback="", traceback_ansi="")
    limit = None
    if record.limit_hit is not None:
        policy = run.store.manifest.policy
        if record.limit_hit is Limit.TIME:
            limit = EvalSampleLimit(type="time", limit=policy.time_limit_s or 0.0)
        else:
            limit = EvalSampleLimit(type="turn", limit=policy.max_turns or 0)
    return EvalSample(
        id=trial.scenario.scenario_id,
        epoch=score.repeat,
        input=task,
        target="",
        messages=messages,
        output=ModelOutput.from_content(model, names),
        scores=scores,
        metadata={"outcome": record.outcome.value, "n_commands": record.n_commands},
        model_usage={} if usage is None else {model: usage},
        total_time=record.seconds,
        started_at=record.started_at or None,
        completed_at=later(record.started_at, record.seconds) or None,
        error=error,
        limit=limit,
        turn_count=record.n_turns,
    )


def _messages(document: dict[str, Any]) -> list[ChatMessage]:
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageTool, ChatMessageUser
    from inspect_ai.tool import ToolCall

    found: list[ChatMessage] = []
    for step in document["steps"]:
        text = str(step["message"])
        if step["source"] == "user":
            found.append(ChatMessageUser(content=text))
        elif step["source"] == "system":
            found.append(ChatMessageSystem(content=text))
        else:
            calls = [
                ToolCall(id=call["tool_call_id"], function=call["function_name"], arguments=call["arguments"])
                for call in step.get("tool_calls", ())
            ]
            found.append(ChatMessageAssistant(content=text, tool_calls=calls or None))
        names = {call["tool_call_id"]: call["function_name"] for call in step.get("tool_calls", ())}
        for result in step.get("observation", {}).get("results", ()):
            call_id = result.get("source_call_id")
            found.append(
                ChatMessageTool(
                    content=str(result.get("content") or ""),
                    tool_call_id=call_id,
                    function=names.get(call_id),
                )
            )
    return found


def _usage(usage: Usage) -> ModelUsage | None:
    """Tokens as Inspect counts them: cached ones are not among the input tokens."""
    from inspect_ai.model import ModelUsage

    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    cached = usage.cached_tokens or 0
    return ModelUsage(
        input_tokens=max(usage.input_tokens - cached, 0),
        output_tokens=usage.output_tokens,
        total_tokens=usage.input_tokens + usage.output_tokens,
        input_tokens_cache_read=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        total_cost=usage.cost_usd,
    )


def _end(samples: list[EvalSample], start: str) -> str:
    return max((str(sample.completed_at) for sample in samples if sample.completed_at), default=start)


def _whole(seconds: float | None) -> int | None:
    return None if seconds is None else max(1, round(seconds))
