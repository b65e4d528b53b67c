"""What is sent with every model call, and what of it is put on record. Holds no key."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from diagnose_bench.errors import DiagnoseBenchError, UsageError
from diagnose_bench.files import read_bytes, sha256_of_bytes

_TEMPLATE = Path(__file__).parents[2] / "templates" / "model_prompt.md"
_MAX_PROMPT = 256 << 10
_OWN_HOSTS = (".openai.com", ".azure.com")
_MAX_SEED = 2**63 - 1
TOKEN_FIELDS = ("max_tokens", "max_completion_tokens")
"""The older and the newer name of the most tokens of an answer."""


@dataclass(frozen=True)
class ModelSettings:
    """Settings of the model calls; checked at once.

    Attributes
    ----------
    model : str
        As the server knows it.
    temperature, seed, max_output_tokens, reasoning_effort
        Sent where not None.
    prompt : str
        The system prompt.
    prompt_digest : str
        Hex SHA-256 of its file.
    """

    model: str
    prompt: str
    prompt_digest: str
    temperature: float | None = None
    seed: int | None = None
    max_output_tokens: int | None = None
    reasoning_effort: str | None = None

    def __post_init__(self) -> None:
        if not self.model.strip() or len(self.model) > 200 or not self.model.isprintable():
            raise UsageError("openai: needs the name of a model: openai:MODEL.")
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise UsageError(f"--temperature {self.temperature}: give a number from 0 to 2.")
        if self.seed is not None and not 0 <= self.seed <= _MAX_SEED - 10_000:
            raise UsageError(f"--seed {self.seed}: give a whole number from 0.")
        if self.max_output_tokens is not None and self.max_output_tokens < 1:
            raise UsageError(f"--max-output-tokens {self.max_output_tokens}: give a number from 1.")
        effort = self.reasoning_effort
        if effort is not None and not (effort.isascii() and effort.isalnum() and len(effort) <= 20):
            raise UsageError(f"--reasoning-effort {effort!r}: give one word, such as low, medium or high.")

    def parameters(self, repeat: int, token_field: str) -> dict[str, object]:
        """What one call of a trial sends beside its messages and tools.

        Notes
        -----
        Repeat k sends the seed plus k - 1: with one seed for all, repeats would be copies of one another and
        say nothing about how the model varies.
        """
        found: dict[str, object] = {"model": self.model}
        if self.temperature is not None:
            found["temperature"] = self.temperature
        if self.seed is not None:
            found["seed"] = self.seed + repeat - 1
        if self.reasoning_effort is not None:
            found["reasoning_effort"] = self.reasoning_effort
        if self.max_output_tokens is not None:
            found[token_field] = self.max_output_tokens
        return found


def read_prompt(path: Path | None) -> tuple[str, str]:
    """The system prompt, ours or a file's, and its digest.

    Raises
    ------
    UsageError
        The file cannot be read, is blank, too large, or no UTF-8.
    """
    try:
        data = read_bytes(path or _TEMPLATE, "prompt", _MAX_PROMPT)
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"--prompt {path}: not UTF-8 at byte {error.start}. Save it as UTF-8.") from None
    except DiagnoseBenchError as error:
        raise UsageError(f"--prompt: {error}") from error
    if not text.strip():
        raise UsageError(f"--prompt {path}: the file is blank. Write the instructions for the model into it.")
    return text, sha256_of_bytes(data)


def check_base_url(text: str) -> str:
    """A server's address, which may hold no credentials; returns it.

    Raises
    ------
    UsageError
        It is no http or https address, or carries something that could be a key.
    """
    try:
        parts = urlsplit(text)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or any(character.isspace() or not character.isprintable() for character in text):
        raise UsageError(
            "--base-url (or OPENAI_BASE_URL) is no address. Give one such as http://localhost:8000/v1."
        )
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise UsageError(
            f"--base-url {parts.scheme}://{parts.hostname}…: an address with a user, a password or a query "
            "is not taken, as it would stand in the run's files. Give the key in OPENAI_API_KEY."
        )
    return text


def first_token_field(base_url: str) -> str:
    """How a server most likely calls the most tokens of an answer; if it objects, the other name is tried."""
    host = urlsplit(base_url).hostname or ""
    return TOKEN_FIELDS[host.endswith(_OWN_HOSTS)]


def finite(value: float | None, name: str) -> None:
    """Refuse NaN and infinities, which no JSON can hold.

    Raises
    ------
    UsageError
        It is one.
    """
    if value is not None and not math.isfinite(value):
        raise UsageError(f"{name} {value}: give a finite number.")
