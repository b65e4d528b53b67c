"""Random draws that give the same values on every machine: one PCG64 stream per purpose, uniforms only.

Everything else (normal, exponential, names) is derived from the uniforms here, so that a change in another
library's sampling methods cannot change a snapshot. Holds no knowledge of what the draws are for.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")

KUBE_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Kubernetes' own alphabet for generated names."""

_BLOCK = 2048


class Draws:
    """A stream of random values that depends on the seed and the names given, and on nothing else."""

    def __init__(self, seed: int, *names: str) -> None:
        key = hashlib.sha256("\x00".join((str(seed), *names)).encode()).digest()
        self._generator = np.random.Generator(np.random.PCG64(int.from_bytes(key[:16], "big")))
        self._block: list[float] = []

    def random(self) -> float:
        """Uniform in [0, 1)."""
        if not self._block:
            self._block = self._generator.random(_BLOCK).tolist()
            self._block.reverse()
        return self._block.pop()

    def uniform(self, low: float, high: float) -> float:
        """Uniform in [low, high)."""
        return low + (high - low) * self.random()

    def integer(self, low: int, high: int) -> int:
        """Uniform integer, both ends included."""
        return low + int(self.random() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self.random() < probability

    def choice(self, values: Sequence[T]) -> T:
        """One of the values."""
        return values[int(self.random() * len(values))]

    def normal(self) -> float:
        """Standard normal (Box and Muller)."""
        return math.sqrt(-2.0 * math.log(1.0 - self.random())) * math.cos(2.0 * math.pi * self.random())

    def lognormal(self, median: float, sigma: float) -> float:
        """Log-normal with the given median."""
        return median * math.exp(sigma * self.normal())

    def exponential(self, mean: float) -> float:
        """Exponential with the given mean."""
        return -mean * math.log(1.0 - self.random())

    def count(self, expected: float) -> int:
        """An integer whose mean is `expected`: the whole part, and one more with the rest as probability."""
        whole = int(expected)
        return whole + (1 if self.random() < expected - whole else 0)

    def arrivals(self, expected: float) -> int:
        """A Poisson count: by inversion where it is small, by its normal limit where it is not."""
        if expected >= 30:
            return max(0, round(expected + math.sqrt(expected) * self.normal()))
        level, number, reached = self.random(), 0, math.exp(-expected)
        term = reached
        while level > reached and number < 200:
            number += 1
            term *= expected / number
            reached += term
        return number

    def text(self, length: int, alphabet: str) -> str:
        """Random characters of an alphabet."""
        return "".join(alphabet[int(self.random() * len(alphabet))] for _ in range(length))

    def hex(self, length: int) -> str:
        """Random hexadecimal digits."""
        return self.text(length, "0123456789abcdef")

    def uuid(self) -> str:
        """A random (version 4) UUID."""
        digits = self.hex(32)
        return (
            f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-"
            f"{'89ab'[int(digits[16], 16) % 4]}{digits[17:20]}-{digits[20:]}"
        )

    def pod_suffix(self) -> str:
        """The five characters that end a generated Pod name."""
        return self.text(5, KUBE_ALPHABET)

    def template_hash(self) -> str:
        """A pod-template-hash: a 32-bit number in Kubernetes' safe encoding (ten characters occur)."""
        return safe_encode(str(int(self.random() * 4294967296)))


def safe_encode(text: str) -> str:
    """Kubernetes' encoding of generated numbers: each character is taken modulo the alphabet's length."""
    return "".join(KUBE_ALPHABET[ord(character) % len(KUBE_ALPHABET)] for character in text)
