"""Shape, type and range checks at the door, so that the bodies behind it need none."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.errors import ScoringError

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


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


def booleans(value: Any, name: str, shape: tuple[int, ...] | None = None) -> BoolArray:
    """Read-only boolean vector; 0 and 1 are refused, so that codes cannot be passed by mistake."""
    array = np.asarray(value)
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype(np.bool_)
    if array.dtype.kind != "b":
        raise ScoringError(f"{name} must hold booleans, not {array.dtype}.")
    return _frozen(_vector(array, name, shape), value)


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
