"""Shape, type and range checks at the door, so that the bodies behind it need none."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.errors import ScoringError

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
CodeArray = NDArray[np.int64] | NDArray[np.int32]
"""Half the width halves what has to be read; both are taken as they are."""

MAX_CODE = 2**31 - 1
"""Codes are small by construction; the bound lets them be held in half the width."""


def integers(value: Any, name: str, shape: tuple[int, ...] | None = None) -> IntArray:
    """Read-only int64 vector; floats and booleans are refused, never rounded."""
    array = np.asarray(value)
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise ScoringError(f"{name} must hold integers, not {array.dtype}.")
    if array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise ScoringError(f"{name} holds a value beyond int64.")
    return _frozen(_vector(array, name, shape).astype(np.int64, copy=False), value)


def codes(value: Any, name: str) -> CodeArray:
    """Read-only vector of codes: int32 as it is, every other integer as int64."""
    if isinstance(value, np.ndarray) and value.dtype == np.int32:
        return _frozen(_vector(value, name, None), value)
    return integers(value, name)


def booleans(value: Any, name: str, shape: tuple[int, ...] | None = None) -> BoolArray:
    """Read-only boolean vector; 0 and 1 are refused, so that codes cannot be passed by mistake."""
    array = np.asarray(value)
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype(np.bool_)
    if array.dtype.kind != "b":
        raise ScoringError(f"{name} must hold booleans, not {array.dtype}.")
    return _frozen(_vector(array, name, shape), value)


def trials(
    n_codes: int, offsets: Any, n_root_causes: Any, has_diagnosis: Any
) -> tuple[IntArray, IntArray, BoolArray]:
    """What every batch of trials has beside its codes: offsets, numbers of root causes, diagnosis flags."""
    offsets = integers(offsets, "offsets")
    if offsets.size == 0:
        raise ScoringError("offsets must have n_trials + 1 entries, so at least one.")
    shape = (offsets.size - 1,)
    n_root_causes = integers(n_root_causes, "n_root_causes", shape)
    has_diagnosis = booleans(has_diagnosis, "has_diagnosis", shape)
    if offsets[0] != 0 or offsets[-1] != n_codes:
        raise ScoringError(
            f"offsets must run from 0 to the number of codes ({n_codes}), "
            f"not from {offsets[0]} to {offsets[-1]}."
        )
    lengths = np.diff(offsets)
    if bool(np.any(lengths < 0)):
        raise ScoringError(f"offsets go back after trial {int(np.argmax(lengths < 0))}.")
    if n_root_causes.size and (int(n_root_causes.min()) < 0 or int(n_root_causes.max()) > MAX_CODE):
        raise ScoringError(f"n_root_causes must lie in 0 .. {MAX_CODE}.")
    mute = (lengths > 0) & ~has_diagnosis
    if bool(np.any(mute)):
        raise ScoringError(f"trial {int(np.argmax(mute))} has codes but no diagnosis.")
    return offsets, n_root_causes, has_diagnosis


def fractions(value: Any, name: str, n_axes: int) -> FloatArray:
    """Float64 array of numbers in [0, 1] with a given number of axes, none of them empty."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ScoringError(f"{name} must hold numbers: {error}.") from error
    if array.ndim != n_axes:
        raise ScoringError(f"{name} must have {n_axes} axes, not {array.ndim}.")
    if 0 in array.shape:
        raise ScoringError(f"{name} is empty: its shape is {array.shape}.")
    if not bool(np.all((array >= 0.0) & (array <= 1.0))):
        raise ScoringError(f"{name} must lie in [0, 1]; NaN is not a score.")
    return array


def _vector(array: NDArray[Any], name: str, shape: tuple[int, ...] | None) -> NDArray[Any]:
    if array.ndim != 1:
        raise ScoringError(f"{name} must have one axis, not {array.ndim}.")
    if shape is not None and array.shape != shape:
        raise ScoringError(f"{name} must have shape {shape}, not {array.shape}.")
    return array


def _frozen(array: NDArray[Any], source: Any) -> NDArray[Any]:
    # A view when the caller's array has the right type: a million trials are not copied only to be checked.
    frozen = array.view() if array is source else array
    frozen.flags.writeable = False
    return frozen
