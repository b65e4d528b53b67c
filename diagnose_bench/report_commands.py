"""The recorded commands of a trial for the HTML report, cut to what one file holds. Renders nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from diagnose_bench.records import CommandRecord, PlannedTrial
from diagnose_bench.report import ReportAgent
from diagnose_bench.scorecard import TrialScore

MAX_COMMANDS = 40
MAX_COMMAND_TEXT = 2_000
MAX_OUTPUT_TEXT = 3_000
MAX_TRIAL_TEXT = 40_000
MAX_REPORT_TEXT = 12_000_000


@dataclass
class Budget:
    """How much recorded text the whole file may still take."""

    left: int = MAX_REPORT_TEXT


def commands_of(
    agent: ReportAgent, planned: PlannedTrial, trial: TrialScore, budget: Budget
) -> dict[str, Any]:
    """The first commands of a trial with the beginning of their output, and how many were left out."""
    shown: list[dict[str, Any]] = []
    n_left, room = 0, MAX_TRIAL_TEXT
    for record in agent.store.commands(planned):
        if len(shown) >= MAX_COMMANDS or room <= 0 or budget.left <= 0:
            n_left += 1
            continue
        entry = _command(record, min(room, MAX_OUTPUT_TEXT))
        used = len(entry["command"]) + len(entry["output"])
        room -= used
        budget.left -= used
        shown.append(entry)
    return {"commands": shown, "n_commands": trial.n_commands, "n_commands_left": n_left}


def _command(record: CommandRecord, room: int) -> dict[str, Any]:
    command, command_cut = cut(record.command, MAX_COMMAND_TEXT)
    output, output_cut = cut(record.output, room)
    return {
        "n": record.n,
        "command": command,
        "output": output,
        "exit_code": record.exit_code,
        "seconds": f"{record.seconds:.1f}",
        "n_bytes": record.n_bytes,
        "is_cut": command_cut or output_cut,
        "limit_hit": record.limit_hit,
    }


def cut(text: str, room: int) -> tuple[str, bool]:
    """The beginning of a text, and whether something is missing."""
    return (text, False) if len(text) <= room else (text[:room] + "…", True)
