"""What can be chosen about an agent beside its name; each kind of agent reads the fields that concern it.

Holds values only: whoever uses a field checks it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from diagnose_bench.errors import UsageError

KINDS = (
    "Give baseline:NAME, replay:DIR, openai:MODEL, mcp-client: COMMAND, http(s)://…, human, "
    "or the command line of a program."
)
"""What can stand after ``--agent``."""

OF_MODELS = {
    "base_url": "--base-url",
    "temperature": "--temperature",
    "seed": "--seed",
    "max_cost_usd": "--max-cost",
    "prices": "--prices",
    "prompt": "--prompt",
    "max_output_tokens": "--max-output-tokens",
    "reasoning_effort": "--reasoning-effort",
}
OF_HOSTED = {
    "ca_file": "--ca-file",
    "headers": "--header",
    "redact": "--redact",
    "listen": "--listen",
    "public_url": "--public-url",
}


@dataclass(frozen=True)
class AgentOptions:
    """Options of agents; None is "not asked for".

    Attributes
    ----------
    base_url, temperature, seed, max_cost_usd, prices, prompt, max_output_tokens, reasoning_effort
        Of ``openai:MODEL``: the server, what is sent to the model, the cap on what it may cost.
    spent_in : Path or None
        Of ``openai:MODEL``: the run that goes on, whose recorded cost counts against ``max_cost_usd``.
    ca_file : Path or None
        Of ``https://…``: certificates to trust in place of the system's.
    headers : tuple of str
        Of ``http(s)://…``: ``NAME: VALUE``, where ``$VARIABLE`` is taken from the environment.
    redact : Path or None
        Of ``http(s)://…``: a file of strings that are cut out of every text before it leaves.
    listen : str or None
        Of ``http(s)://…``: ``HOST:PORT`` on which the agent's calls are taken.
    public_url : str or None
        Of ``http(s)://…``: the address by which the agent reaches ``listen``.
    """

    base_url: str | None = None
    temperature: float | None = None
    seed: int | None = None
    max_cost_usd: float | None = None
    prices: Path | None = None
    prompt: Path | None = None
    max_output_tokens: int | None = None
    reasoning_effort: str | None = None
    spent_in: Path | None = None
    ca_file: Path | None = None
    headers: tuple[str, ...] = ()
    redact: Path | None = None
    listen: str | None = None
    public_url: str | None = None

    def require_only(self, allowed: Collection[str], spec: str) -> None:
        """Refuse what means nothing for an agent.

        Raises
        ------
        UsageError
            A field outside of ``allowed`` was asked for.
        """
        for kind, fields in (("openai:MODEL", OF_MODELS), ("http:// and https:// agents", OF_HOSTED)):
            for name, option in fields.items():
                if name not in allowed and getattr(self, name) not in (None, ()):
                    raise UsageError(
                        f"{option} means nothing for --agent {spec!r}: it goes with {kind}. Leave it out."
                    )


NO_OPTIONS = AgentOptions()
"""All defaults."""
