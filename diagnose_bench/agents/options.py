"""What can be chosen about an agent beside its name: options that only some kinds of agent have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from diagnose_bench.errors import UsageError

MODEL_OPTIONS = {
    "base_url": "--base-url",
    "temperature": "--temperature",
    "seed": "--seed",
    "max_cost_usd": "--max-cost",
    "prices": "--prices",
    "prompt": "--prompt",
    "max_output_tokens": "--max-output-tokens",
    "reasoning_effort": "--reasoning-effort",
}
"""Fields that mean something for ``openai:MODEL`` alone, with their names on the command line."""


@dataclass(frozen=True)
class AgentOptions:
    """Options of an agent; None is the default of whoever reads it.

    Attributes
    ----------
    base_url : str or None
        Where the model's server is.
    temperature, seed, max_output_tokens, reasoning_effort
        Sent to the model's server; what is None is not sent.
    max_cost_usd : float or None
        What the model calls of a whole run may cost.
    prices : Path or None
        File of prices per million tokens.
    prompt : Path or None
        File of the system prompt.
    spent_in : Path or None
        A run folder whose recorded cost counts against ``max_cost_usd``: the run that goes on.
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

    def refuse(self, names: Sequence[str], agent: str) -> None:
        """Refuse options that mean nothing for an agent.

        Raises
        ------
        UsageError
            One of them was given.
        """
        for name in names:
            if getattr(self, name) is not None:
                raise UsageError(
                    f"{MODEL_OPTIONS[name]}: means something only with --agent openai:MODEL, not with "
                    f"{agent!r}. Leave it out."
                )


NO_OPTIONS = AgentOptions()
"""All defaults."""
