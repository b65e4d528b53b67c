"""From the text after ``--agent`` to an agent."""

from __future__ import annotations

import re
from pathlib import Path

from diagnose_bench.agents.base import Agent
from diagnose_bench.agents.command import CommandAgent, parse_command_line
from diagnose_bench.agents.replay import ReplayAgent
from diagnose_bench.errors import UsageError


def make_agent(spec: str, *, name: str | None = None) -> Agent:
    """Make the agent that a text names.

    Parameters
    ----------
    spec : str
        ``baseline:NAME``, ``replay:DIR``, ``human``, or a command line.
    name : str, optional
        What a program is called in results; the command line by default.

    Raises
    ------
    UsageError
        It names nothing that can be started.

    Examples
    --------
    >>> make_agent("baseline:empty").kind
    'builtin'
    """
    if spec == "human":
        from diagnose_bench.agents.human import make_human_agent

        return make_human_agent(name)
    prefix, colon, rest = spec.partition(":")
    if spec == "baseline:constant":
        raise UsageError(
            "baseline:constant cannot be run: it is computed by score, since it needs the truth. "
            "Every scorecard has it beside the headline."
        )
    if colon and prefix == "baseline":
        from diagnose_bench.agents.baselines import make_baseline

        return make_baseline(rest)
    if colon and prefix == "replay":
        if not rest:
            raise UsageError("replay: needs the folder of the recorded answers: replay:DIR.")
        return ReplayAgent(Path(rest))
    if colon and re.fullmatch("[a-z]+", prefix) and not Path(spec.split()[0]).exists():
        raise UsageError(
            f"--agent {spec!r}: there is no kind of agent {prefix!r}. "
            "Give baseline:NAME, replay:DIR, or the command line of a program."
        )
    return CommandAgent(parse_command_line(spec), name=name or spec)
