"""What a caller of a comparison chooses: margin, level, power, seed. Checked once, at the door."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from diagnose_bench.errors import UsageError

if TYPE_CHECKING:
    import numpy as np


def fewest_units(level: float) -> int:
    """Fewest scenarios (or families) whose signs can give a p-value of at most 1 - level.

    Notes
    -----
    The smallest two-sided p-value of n signs is 2^(1-n): six for .95.
    """
    alpha = 1.0 - level
    n = 1
    while 2.0 ** (1 - n) > alpha * (1.0 + 1e-9):
        n += 1
    return n


@dataclass(frozen=True)
class Settings:
    """What the caller chooses.

    Parameters
    ----------
    margin : float
        Largest loss that would not matter.
    level : float
        Confidence of intervals; a difference is called at p <= 1 - level.
    power : float
        For the minimum detectable difference.
    seed : int
        Of the random sign patterns, where not all can be enumerated.
    n_resamples : int
        How many of them.
    """

    margin: float = 0.05
    level: float = 0.95
    power: float = 0.8
    seed: int = 0
    n_resamples: int = 10_000

    def __post_init__(self) -> None:
        if not 0.0 < self.margin < 1.0:
            raise UsageError(f"--margin: must lie between 0 and 1 (0.05 is five points), not {self.margin}.")
        if not 0.5 <= self.level < 1.0:
            raise UsageError(f"--level: must be at least 0.5 and less than 1, not {self.level}.")
        if not 0.5 <= self.power < 1.0:
            raise UsageError(f"--power: must be at least 0.5 and less than 1, not {self.power}.")
        if self.seed < 0:
            raise UsageError(f"--seed: must be 0 or more, not {self.seed}.")

    def rng(self) -> np.random.Generator:
        """A fresh generator for each test: no result depends on which others are asked for."""
        import numpy as np

        return np.random.default_rng(self.seed)
