"""The time line of each trial, for the HTML report: the view of the command ``transcript`` as plain values.

Renders nothing itself. What cannot be shown leaves its reason, never an error: a report is of a run that may
have lost its suite.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diagnose_bench.errors import DiagnoseBenchError
from diagnose_bench.records import PlannedTrial
from diagnose_bench.report import ReportAgent
from diagnose_bench.scorecard import ScenarioScore, TrialScore
from diagnose_bench.timeline import TimelineCommand
from diagnose_bench.transcript import Background, TimelineSubmission, find_background, trial_transcript
from diagnose_bench.transcript_text import cause_sentence, clock, revealed_words

MAX_LINES = 60
MAX_TIMELINES = 2_000
"""In one report; each reads its trial's commands once more."""
_MAX_TEXT = 300


class Timelines:
    """Makes the time lines of one report; what the runs share is found once."""

    def __init__(self) -> None:
        self._backgrounds: dict[Path, Background] = {}
        self._left = MAX_TIMELINES

    def of(self, agent: ReportAgent, scenario: ScenarioScore, trial: TrialScore) -> dict[str, Any] | None:
        """The time line of one trial, or None where no command is on record."""
        if not trial.n_commands or self._left <= 0:
            return None
        self._left -= 1
        store = agent.store
        planned = PlannedTrial(scenario_id=scenario.scenario_id, repeat=trial.repeat)
        try:
            if store.path not in self._backgrounds:
                self._backgrounds[store.path] = find_background(store.path, store)
            transcript = trial_transcript(store, planned, self._backgrounds[store.path])
        except DiagnoseBenchError as error:
            return {"lines": [], "n_left": 0, "causes": [], "missing": [f"It cannot be made: {error}"]}
        shown = transcript.commands[:MAX_LINES]
        return {
            "lines": [*map(_command, shown), *map(_submission, transcript.submissions[:MAX_LINES])],
            "n_left": len(transcript.commands) - len(shown),
            "causes": [_capital(cause_sentence(cause)) for cause in transcript.root_causes or ()],
            "missing": transcript.missing,
        }


def _command(command: TimelineCommand) -> dict[str, Any]:
    return {
        "at": clock(command.at_s),
        "n": command.n,
        "what": _cut(command.command),
        "exit_code": command.exit_code,
        "n_bytes": command.n_bytes,
        "root_causes": command.root_causes,
        "revealed": revealed_words(command.revealed),
    }


def _submission(one: TimelineSubmission) -> dict[str, Any]:
    names = ", ".join(entity.raw for entity in (one.entities or ())[:10]) or "names nothing"
    what = f"answer {one.how}{', counts' if one.counts else ''}"
    return {
        "at": clock(one.at_s),
        "n": None,
        "what": _cut(what if one.entities is None else f"{what}: {names}"),
        "exit_code": "",
        "n_bytes": one.n_bytes,
        "root_causes": (),
        "revealed": "",
    }


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…"
