"""What model calls cost, and the cap on what a run may spend. Shared by the trials of a run."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Hashable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from diagnose_bench.agents.model.reply import TokenCounts
from diagnose_bench.errors import DiagnoseBenchError, SpendCapError, UsageError
from diagnose_bench.files import read_bytes

_MAX_BYTES = 1 << 20
_PER = 1_000_000
_NAMES = ("input", "cached_input", "output")
_SHAPE = "models: {MODEL: {input: 1.25, cached_input: 0.125, output: 10.0}}"


@dataclass(frozen=True)
class Prices:
    """US dollars per million tokens; reasoning tokens are output tokens."""

    input: float
    cached_input: float
    output: float

    def cost_usd(self, tokens: TokenCounts) -> float | None:
        """What a call cost; None where the server does not say how many tokens it took."""
        if tokens.input_tokens is None or tokens.output_tokens is None:
            return None
        cached = tokens.cached_tokens or 0
        fresh = tokens.input_tokens - cached
        return (fresh * self.input + cached * self.cached_input + tokens.output_tokens * self.output) / _PER

    def as_dict(self) -> dict[str, float]:
        """For run.json."""
        return asdict(self)


def read_prices(path: Path, model: str) -> Prices | None:
    """The prices of one model in a file of prices, JSON or YAML; None if it has none of this model.

    Raises
    ------
    UsageError
        The file cannot be read, or is not of the form; the message has the place.
    """
    try:
        text = read_bytes(path, "file of prices", _MAX_BYTES).decode("utf-8")
        if path.suffix == ".json":
            value = json.loads(text, object_pairs_hook=_without_doubles)
        else:
            value = yaml.load(text, Loader=_Loader)
    except DiagnoseBenchError as error:
        raise UsageError(f"--prices: {error}") from error
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(f"--prices {path}: cannot be read: {reason}. Its form: {_SHAPE}") from error
    models = value.get("models") if isinstance(value, dict) else None
    if not isinstance(models, dict):
        raise UsageError(f"--prices {path}: $.models is missing or no object. Its form: {_SHAPE}")
    found = models.get(model)
    return None if found is None else _prices(found, f"--prices {path}: $.models[{json.dumps(model)}]")


def _prices(value: Any, where: str) -> Prices:
    if not isinstance(value, dict):
        raise UsageError(f"{where}: must be an object. The form: {_SHAPE}")
    for name, price in value.items():
        if name not in _NAMES:
            raise UsageError(f"{where}: unknown {name!r}. Known are {', '.join(_NAMES)}.")
        is_number = isinstance(price, int | float) and not isinstance(price, bool)
        if not is_number or not math.isfinite(price) or price < 0:
            raise UsageError(f"{where}.{name}: give US dollars per million tokens, a number from 0.")
    for name in ("input", "output"):
        if name not in value:
            raise UsageError(f"{where}.{name}: is missing. The form: {_SHAPE}")
    cached = value["cached_input"] if "cached_input" in value else value["input"]
    return Prices(float(value["input"]), float(cached), float(value["output"]))


class Budget:
    """What a run has spent and may spend; its calls may come from several threads.

    Parameters
    ----------
    prices : Prices or None
        Of the model.
    cap_usd : float or None
        No call is begun once so much is spent.
    spent_usd : float
        Spent before, by the run that goes on.
    """

    def __init__(self, prices: Prices | None, cap_usd: float | None, spent_usd: float = 0.0) -> None:
        self._prices = prices
        self._cap_usd = cap_usd
        self._spent_usd = spent_usd
        self._lock = threading.Lock()

    def check(self) -> None:
        """Look before a call.

        Raises
        ------
        SpendCapError
            The cap is reached.
        """
        spent = self.spent_usd
        if self._cap_usd is not None and spent >= self._cap_usd:
            raise SpendCapError(
                f"--max-cost {self._cap_usd:g} is reached: {spent:.4f} US dollars are spent, and no further "
                "model call was made."
            )

    def add(self, tokens: TokenCounts) -> float | None:
        """Take a call into account; what it cost, None where that is not known."""
        cost = None if self._prices is None else self._prices.cost_usd(tokens)
        if cost is not None:
            with self._lock:
                self._spent_usd += cost
        return cost

    @property
    def spent_usd(self) -> float:
        """What is spent by now."""
        with self._lock:
            return self._spent_usd

    @property
    def needs_usage(self) -> bool:
        """Whether a server that counts no tokens cannot be used."""
        return self._cap_usd is not None


def check_cap(cap_usd: float | None, prices: Prices | None, path: Path | None, model: str) -> None:
    """Refuse a cap that could not be held.

    Raises
    ------
    UsageError
        It is no amount, or the model has no price.
    """
    if cap_usd is None:
        return
    if not (math.isfinite(cap_usd) and cap_usd > 0):
        raise UsageError(f"--max-cost {cap_usd}: give US dollars above 0.")
    if path is None:
        raise UsageError(f"--max-cost needs --prices FILE with the prices of {model!r}: {_SHAPE}")
    if prices is None:
        raise UsageError(f"--prices {path}: has no price for {model!r}, which --max-cost needs: {_SHAPE}")


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice: which of the prices holds would be a guess."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = repr(self.construct_object(key_node, deep=True))
            if key in seen:
                raise ValueError(f"{key} stands twice")
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice")
    return found
