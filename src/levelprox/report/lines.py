"""Which coefficients are drawn as lines with a name, and from where to where."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def largest(row: Vector, most: int) -> list[int]:
    """Where the largest values are, the largest first; zeros are none."""
    order = np.argsort(-np.abs(row), kind="stable")[:most]
    return [int(i) for i in order if row[i]]


def where_used(values: Vector) -> Vector:
    """The same with nan where a feature is not used, but for the last zero before it is and the first one after."""
    used = values != 0
    near = used.copy()
    near[:-1] |= used[1:]
    near[1:] |= used[:-1]
    return np.where(near, values, np.nan)
