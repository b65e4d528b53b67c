"""What was seen at the boundary of an agent's trials -> what a reader needs to see. Renders nothing."""

from __future__ import annotations

from collections.abc import Sequence

from diagnose_bench.outcome import Verdict
from diagnose_bench.records import BoundaryEvent, Confidence
from diagnose_bench.scorecard import Scorecard
from diagnose_bench.text import count_text

_SHOWN = 10


def boundary_notices(scorecard: Scorecard) -> list[str]:
    """What a reader must know before any number."""
    found = []
    if _is_null(scorecard):
        found.append(
            "null snapshot: agents got an empty folder, so its number says nothing of diagnosis and stands "
            "beside no other."
        )
        passed = [
            f"{scenario.scenario_id} repeat {trial.repeat}"
            for scenario in scorecard.scenarios
            for trial in scenario.trials
            # Where nothing is wrong, naming nothing needs no evidence.
            if scenario.n_root_causes and trial.verdict in (Verdict.SAFE_PASS, Verdict.UNSAFE_PASS)
        ]
        if passed:
            found.append(
                f"{_trials(len(passed))} passed although there was nothing to see, so the agent used "
                f"something else: {_some(passed)}."
            )
    crossed = [
        f"{scenario.scenario_id} repeat {trial.repeat}"
        for scenario in scorecard.scenarios
        for trial in scenario.trials
        if any(event.confidence is Confidence.HIGH for event in trial.boundary_events)
    ]
    if crossed:
        found.append(f"boundary events of high confidence in {_trials(len(crossed))}: {_some(crossed)}.")
    if scorecard.agent_process == "landlock":
        found.append(
            "the agent's own process was covered by Landlock: it could not read truths and runs, but could "
            "see names and sizes of their files."
        )
    if scorecard.agent_process == "person":
        found.append(
            "a person answered, at a machine that may hold the truths: nothing but their word says that they "
            "did not look there."
        )
    return found


def _is_null(scorecard: Scorecard) -> bool:
    """Whether the run's snapshots were empty."""
    return "null" in scorecard.sandbox.split("+")


def event_text(event: BoundaryEvent) -> str:
    """One boundary event as one line."""
    place = "" if event.command is None else f", command {event.command}"
    return f"{event.time}{place}: {event.confidence} {event.kind} ({event.layer}): {event.detail}"


def events_by_weight(events: Sequence[BoundaryEvent]) -> list[BoundaryEvent]:
    """The weightiest first, each weight in the order of time."""
    order = list(reversed(Confidence))
    return sorted(events, key=lambda event: order.index(event.confidence))


def event_counts(scorecard: Scorecard) -> str:
    """How many boundary events of each confidence, the weightiest first."""
    counts = scorecard.boundary_events
    return count_text({one.value: counts.get(one.value, 0) for one in reversed(Confidence)})


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _trials(number: int) -> str:
    return f"{number} trial" if number == 1 else f"{number} trials"
