"""Checks on what a user hands in. Each error names the argument, the place and the value."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox.errors import InvalidInputError

Array = NDArray[np.floating[Any]]


def real(name: str, value: object) -> float:
    """`value` as a float; booleans, strings, complex numbers and NaN are refused."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise InvalidInputError(f"{name} must be a real number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        raise InvalidInputError(f"{name} must fit a float64, got {value!r}") from None
    if math.isnan(number):
        raise InvalidInputError(f"{name} must be a number, got NaN")
    return number


def real_array(name: str, value: object) -> Array:
    """`value` as a float32 or float64 array; everything narrower or integer becomes float64."""
    array = np.asarray(value)
    if array.dtype.kind == "O":
        try:
            array = array.astype(np.float64)
        except OverflowError:
            raise InvalidInputError(f"{name} holds a number that float64 cannot") from None
        except (TypeError, ValueError):
            example = repr(array.flat[0])[:60]
            raise InvalidInputError(f"{name} must hold real numbers, got objects such as {example}") from None
    if array.dtype.kind not in "buif":
        raise InvalidInputError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if array.dtype.newbyteorder("=") != np.float32:
        array = array.astype(np.float64, copy=False)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def finite(name: str, array: Array) -> Array:
    """`array`, or an error that names its first entry that is NaN or infinite."""
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        place = ", ".join(str(int(i)) for i in np.unravel_index(bad[0], array.shape))
        raise InvalidInputError(
            f"{name} contains {'NaN' if np.isnan(array.flat[bad[0]]) else 'inf'} at index {place} ({bad.size} in total)"
        )
    return array
