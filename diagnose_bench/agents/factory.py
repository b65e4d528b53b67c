"""From the text after ``--agent`` to an agent. Each kind is imported only when it is asked for."""

from __future__ import annotations

import re
from pathlib import Path

from diagnose_bench.agents.base import Agent
from diagnose_bench.agents.command import CommandAgent, parse_command_line
from diagnose_bench.agents.options import KINDS, NO_OPTIONS, OF_HOSTED, OF_MODELS, AgentOptions
from diagnose_bench.agents.replay import ReplayAgent
from diagnose_bench.errors import UsageError


def make_agent(spec: str, *, name: str | None = None, options: AgentOptions = NO_OPTIONS) -> Agent:
    """Make the agent that a text names.

    Parameters
    ----------
    spec : str
        ``baseline:NAME``, ``replay:DIR``, ``openai:MODEL``, ``mcp-client: COMMAND``, the URL of a hosted
        agent, ``human``, or a command line.
    name : str, optional
        What the agent is called in results; by default what ``spec`` says.
    options : AgentOptions
        What else can be chosen about it.

    Raises
    ------
    UsageError
        It names nothing that can be started.

    Examples
    --------
    >>> make_agent("baseline:empty").kind
    'builtin'
    """
    prefix, colon, rest = spec.partition(":")
    is_hosted = re.match("https?://", spec, re.IGNORECASE) is not None
    allowed = OF_MODELS if colon and prefix == "openai" else OF_HOSTED if is_hosted else ()
    options.require_only(allowed, spec)
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
    if spec == "human":
        from diagnose_bench.agents.human import make_human_agent

        return make_human_agent(name, options)
    if colon and prefix == "openai":
        from diagnose_bench.agents.openai_agent import make_openai_agent

        return make_openai_agent(rest, name, options)
    if colon and prefix == "mcp-client":
        from diagnose_bench.agents.mcp_client import make_mcp_client_agent

        return make_mcp_client_agent(rest, name)
    if is_hosted:
        from diagnose_bench.agents.hosted import make_hosted_agent

        return make_hosted_agent(spec, name, options)
    if colon and re.fullmatch("[a-z]+", prefix) and not Path(spec.split()[0]).exists():
        raise UsageError(f"--agent {spec!r}: there is no kind of agent {prefix!r}. {KINDS}")
    return CommandAgent(parse_command_line(spec), name=name or spec)
