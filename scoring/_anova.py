"""One-way analysis of variance of scenarios x repeats: mean squares, and what each scenario does to them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from scoring._checks import FloatArray
from scoring._special import f_quantile, t_quantile
from scoring._units import SAME


@dataclass(frozen=True, eq=False)
class Parts:
    """Sufficient statistics of the analysis of variance, each of shape (n_scenarios,)."""

    counts: FloatArray
    means: FloatArray
    squares: FloatArray
    """Sum of squares within each scenario."""

    @property
    def n(self) -> int:
        return self.counts.size

    @property
    def df_within(self) -> float:
        return float(self.counts.sum()) - self.n

    @property
    def typical_count(self) -> float:
        if self.n == 1:
            return float(self.counts[0])
        total = float(self.counts.sum())
        return (total - float((self.counts**2).sum()) / total) / (self.n - 1)

    @property
    def within(self) -> float:
        return float(self.squares.sum()) / self.df_within if self.df_within else math.nan

    @property
    def mean_square_between(self) -> float:
        if self.n == 1:
            return math.nan
        if float(np.ptp(self.means)) <= SAME:
            return 0.0
        centre = float(self.counts @ self.means) / float(self.counts.sum())
        return float(self.counts @ (self.means - centre) ** 2) / (self.n - 1)

    @property
    def between(self) -> float:
        return (self.mean_square_between - self.within) / self.typical_count


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Mean squares with each scenario left out in turn; each array has shape (n_scenarios,)."""

    mean_squares: FloatArray
    within: FloatArray
    counts: FloatArray
    """n0 of what is left."""

    @classmethod
    def of(cls, parts: Parts) -> LeftOut | None:
        """Closed form; None where leaving one out leaves fewer than two scenarios, or no repeat."""
        counts = parts.counts
        if parts.n < 3 or bool(np.any(parts.df_within - counts + 1.0 == 0.0)):
            return None
        n = parts.n - 1
        total = counts.sum() - counts
        # Around the common mean, so that the differences of squares keep their digits.
        shifted = parts.means - float(counts @ parts.means) / float(counts.sum())
        sums = float(counts @ shifted) - counts * shifted
        squares = float(counts @ shifted**2) - counts * shifted**2
        return cls(
            mean_squares=_no_dust((squares - sums**2 / total) / (n - 1)),
            within=_no_dust((parts.squares.sum() - parts.squares) / (total - n)),
            counts=(total - ((counts**2).sum() - counts**2) / total) / (n - 1),
        )


def _no_dust(values: FloatArray) -> FloatArray:
    """Variances with rounding errors of 0 set to 0."""
    return np.where(values > SAME, values, 0.0)


def jackknife_error(left_out: FloatArray) -> float:
    n = left_out.size
    return math.sqrt((n - 1) / n * float(((left_out - left_out.mean()) ** 2).sum()))


def log_jackknife(value: float, left_out: FloatArray, level: float) -> tuple[float, float]:
    """Ends for a positive number by the jackknife of its logarithm.

    Notes
    -----
    Where all of it rests on one scenario, its logarithm without that one has no end, and neither has it.
    """
    if not bool(np.all(left_out > 0.0)):
        return 0.0, math.inf
    reach = t_quantile(0.5 + 0.5 * level, left_out.size - 1) * jackknife_error(np.log(left_out))
    return value * math.exp(-reach), value * math.exp(reach)


def f_ends(ratio: float, df_between: float, df_within: float, level: float) -> tuple[float, float]:
    """Ends for the true ratio of expected mean squares, from the observed one, by the F law."""
    tail = 0.5 * (1.0 - level)
    return (
        ratio / f_quantile(1.0 - tail, df_between, df_within),
        ratio / f_quantile(tail, df_between, df_within),
    )
