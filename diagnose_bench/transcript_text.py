"""A transcript for a terminal. Renders, and decides nothing; untrusted characters are made visible."""

from __future__ import annotations

from diagnose_bench.text import visible
from diagnose_bench.timeline import Revealed, TimelineCommand
from diagnose_bench.transcript import RootCauseSeen, TimelineSubmission, Transcript

MOST_REVEALED = 8
MOST_ENTITIES = 50
_LONGEST = 300
_INDENT = " " * 14


def transcript_text(transcript: Transcript) -> str:
    """The time line, then each root cause with when it was seen and named."""
    lines = [
        f"{transcript.scenario_id}, repeat {transcript.repeat}, agent {_line(transcript.agent)}",
        f"outcome: {transcript.outcome}{f' ({_line(transcript.reason)})' if transcript.reason else ''}",
        f"{_count(transcript.n_turns, 'turn')}, {_count(len(transcript.commands), 'command')}, "
        f"{clock(transcript.seconds)} from the task to the end",
        *(f"Note: {_line(sentence)}" for sentence in transcript.missing),
        "",
    ]
    lines += [line for command in transcript.commands for line in _command_lines(command)]
    if not transcript.commands:
        lines.append("no command was run" if transcript.observed else "no command is on record")
    lines += [line for one in transcript.submissions for line in _submission_lines(one)]
    if not transcript.submissions:
        lines.append("nothing was handed in")
    if transcript.root_causes is not None:
        lines += ["", *map(cause_sentence, transcript.root_causes)]
        if not transcript.root_causes:
            lines.append("nothing is wrong in this scenario: there is no root cause to see")
    return visible("\n".join(lines)) + "\n"


def cause_sentence(cause: RootCauseSeen) -> str:
    """When one root cause came into sight and when it was named, as a sentence."""
    if not cause.commands:
        seen = "its name is in no recorded output"
    else:
        n_more = len(cause.commands) - 1
        more = f" and of {n_more} more" if n_more else ""
        seen = f"its name is in the output of command {cause.commands[0]} ({clock(cause.seen_at_s)}){more}"
    named = f"submitted ({clock(cause.submitted_at_s)})" if cause.was_submitted else "not submitted"
    return f"root cause {_line(cause.group)}: {seen}; {named}"


def clock(seconds: float | None) -> str:
    """Seconds of a trial as minutes and seconds: ``2:07.4``."""
    if seconds is None:
        return "-:--"
    sign, tenths = ("-" if seconds < 0 else ""), round(abs(seconds) * 10)
    return f"{sign}{tenths // 600}:{tenths % 600 / 10:04.1f}"


def revealed_words(revealed: tuple[Revealed, ...], most: int = MOST_REVEALED) -> str:
    """The first of the objects, and how many more."""
    shown = [_line(one.entity) for one in revealed[:most]]
    left = len(revealed) - len(shown)
    return ", ".join(shown) + (f" and {left} more" if left else "")


def _command_lines(command: TimelineCommand) -> list[str]:
    limit = f", limit {command.limit_hit}" if command.limit_hit else ""
    size = "1 byte" if command.n_bytes == 1 else f"{command.n_bytes} bytes"
    lines = [
        f"{clock(command.at_s):>9} {command.n:>3}. {_line(command.command)}",
        f"{_INDENT}exit {command.exit_code}, {size}, {command.seconds:.1f} s{limit}",
    ]
    if command.revealed:
        lines.append(f"{_INDENT}first seen here: {revealed_words(command.revealed)}")
    return lines + [f"{_INDENT}ROOT CAUSE {_line(group)} in sight" for group in command.root_causes]


def _submission_lines(one: TimelineSubmission) -> list[str]:
    counts = ", counts" if one.counts else ""
    lines = [f"{clock(one.at_s):>9}      answer: {one.how}{counts}"]
    if one.how == "not accepted":
        lines.append(f"{_INDENT}{_line(one.message)}")
    if one.entities is None:
        return lines
    for number, entity in enumerate(one.entities[:MOST_ENTITIES], start=1):
        group = f", group {_line(entity.group)}" if entity.group else ""
        judged = f": {entity.class_.replace('_', ' ')}{group}" if entity.class_ else ""
        lines.append(f"{_INDENT}{number}. {_line(entity.raw)}{judged}")
    left = len(one.entities) - MOST_ENTITIES
    if left > 0:
        lines.append(f"{_INDENT}and {left} more")
    return lines if one.entities else [*lines, f"{_INDENT}names nothing"]


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _line(text: str) -> str:
    return visible(text if len(text) <= _LONGEST else text[:_LONGEST] + "…", keep_lines=False)
