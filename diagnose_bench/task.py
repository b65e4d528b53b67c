"""The task text: one for every agent, fixed per version, with a scenario's times and the limits filled in.

It moves every score, so its digest (of the template) is part of the policy. It says nothing of the scenario.
"""

from __future__ import annotations

import re
from pathlib import Path

from diagnose_bench.files import sha256_of_bytes

_TEMPLATE = Path(__file__).parent / "templates" / "task.md"
_PLACE = re.compile(r"\{\{(\w+)\}\}")


def task_template() -> str:
    """The text with its places still open."""
    return _TEMPLATE.read_text(encoding="utf-8")


def task_digest() -> str:
    """Hex SHA-256 of the template."""
    return sha256_of_bytes(_TEMPLATE.read_bytes())


def render_task(
    *,
    detected_at: str,
    window_start: str,
    window_end: str,
    max_turns: int,
    time_limit_s: float,
    command_s: float,
    max_command_s: float,
) -> str:
    """Fill in one scenario's times and the run's limits.

    Parameters
    ----------
    detected_at, window_start, window_end : str
        RFC 3339, UTC.
    max_turns, time_limit_s, command_s, max_command_s
        The limits of the trial and of one command.
    """
    values = {
        "detected_at": detected_at,
        "window_start": window_start,
        "window_end": window_end,
        "max_turns": str(max_turns),
        "time_limit_s": _number(time_limit_s),
        "command_s": _number(command_s),
        "max_command_s": _number(max_command_s),
    }
    return _PLACE.sub(lambda match: values[match.group(1)], task_template())


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)
