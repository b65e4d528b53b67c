"""Scenarios gathered into independent units (scenarios or declared families) of each split. No inference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scoring import _checks
from scoring._checks import FloatArray, IntArray
from scoring.errors import ScoringError

SAME = 1e-12
"""Scores closer than this are equal: means of the same trials differ by rounding, never by so much."""


@dataclass(frozen=True, eq=False)
class UnitSample:
    """Units of one split."""

    values: FloatArray
    """Shape (n_units,): mean over the scenarios of each unit."""
    sizes: FloatArray
    """Shape (n_units,): number of scenarios of each unit, over their mean."""

    @property
    def n(self) -> int:
        """Number of units."""
        return self.values.size

    @property
    def mean(self) -> float:
        """Mean over the scenarios of the split."""
        return float(self.values @ self.sizes) / self.n

    @property
    def is_level(self) -> bool:
        """Whether every unit has the same value, so that the sample says nothing about spread."""
        return float(np.ptp(self.values)) <= SAME

    @property
    def influence(self) -> FloatArray:
        """Shape (n_units,): what each unit adds to the error of the mean, times n; sums to 0."""
        return np.asarray(self.sizes * (self.values - self.mean))

    @property
    def squared_error(self) -> float:
        """Estimated variance of the mean; needs two units."""
        return float((self.influence**2).sum()) / (self.n * (self.n - 1))


@dataclass(frozen=True, eq=False)
class Design:
    """Which scenario belongs to which split and unit.

    Parameters
    ----------
    n_scenarios : int
        Number of scenarios.
    split_of : ndarray, int64, shape (n_scenarios,), or None
        Labels 0 .. n_splits - 1.
    family_of : ndarray, int64, shape (n_scenarios,), or None
        Labels 0 .. n_families - 1; families are the independent units then.
    """

    n_scenarios: int
    split_of: IntArray | None
    family_of: IntArray | None

    @property
    def unit(self) -> str:
        """What is independent: scenario or family."""
        return "scenario" if self.family_of is None else "family"

    @property
    def n_splits(self) -> int:
        """Number of splits, 1 without any."""
        return 1 if self.split_of is None else int(self.split_of.max()) + 1

    @property
    def n_units(self) -> int:
        """Number of independent units."""
        return self.n_scenarios if self.family_of is None else int(self.family_of.max()) + 1

    @property
    def is_crossed(self) -> bool:
        """Whether a family has scenarios in several splits, so that the splits depend on each other."""
        if self.split_of is None or self.family_of is None:
            return False
        pairs = np.unique(np.stack([self.family_of, self.split_of]), axis=1)
        return bool(pairs.shape[1] > self.n_units)

    @property
    def shares(self) -> FloatArray:
        """Shape (n_scenarios,): weight of each scenario in the headline; sums to 1."""
        if self.split_of is None:
            return np.full(self.n_scenarios, 1.0 / self.n_scenarios)
        sizes = np.bincount(self.split_of)
        return np.asarray(1.0 / (sizes.size * sizes[self.split_of]))

    def samples(self, values: FloatArray) -> tuple[UnitSample, ...]:
        """Units of each split, from one value per scenario."""
        if self.split_of is None:
            return (self._sample(values, self.family_of),)
        chosen = [self.split_of == label for label in range(self.n_splits)]
        family_of = self.family_of
        if family_of is None:
            return tuple(self._sample(values[mask], None) for mask in chosen)
        return tuple(self._sample(values[mask], family_of[mask]) for mask in chosen)

    def by_unit(self, values: FloatArray) -> FloatArray:
        """Sum of a value per scenario over the scenarios of each unit; shape (n_units,)."""
        if self.family_of is None:
            return values
        return np.asarray(np.bincount(self.family_of, weights=values), dtype=np.float64)

    @staticmethod
    def _sample(values: FloatArray, family_of: IntArray | None) -> UnitSample:
        if family_of is None:
            return UnitSample(values=values, sizes=np.ones(values.size))
        _, label = np.unique(family_of, return_inverse=True)
        sizes = np.bincount(label)
        # Distances from the first scenario keep equal scores equal, whatever the rounding of their sum.
        shift = float(values[0])
        means = shift + np.bincount(label, weights=values - shift) / sizes
        return UnitSample(values=means, sizes=sizes / sizes.mean())


def design(n_scenarios: int, split_of: Any = None, family_of: Any = None) -> Design:
    """Check labels of splits and families at the door."""
    return Design(
        n_scenarios=n_scenarios,
        split_of=None if split_of is None else labels(split_of, "split_of", n_scenarios),
        family_of=None if family_of is None else labels(family_of, "family_of", n_scenarios),
    )


def labels(value: Any, name: str, n_scenarios: int) -> IntArray:
    """Labels 0 .. n - 1, each of them used."""
    array = _checks.integers(value, name, (n_scenarios,))
    if int(array.min()) < 0:
        raise ScoringError(f"{name} must not be negative.")
    if np.unique(array).size != int(array.max()) + 1:
        raise ScoringError(
            f"{name} must use every label from 0 to its largest one: an empty one has no mean."
        )
    return array


def check_level(level: float) -> float:
    """Confidence level, strictly between 0 and 1."""
    if not 0.0 < level < 1.0:
        raise ScoringError(f"level must lie between 0 and 1, not {level}.")
    return level
