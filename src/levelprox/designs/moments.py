"""Means and standard deviations of the columns of X, weighted, in two passes.

    m = Σ s_i X_ij / Σ s,      sd² = [Σ s_i (X_ij − m)² − (Σ s_i (X_ij − m))² / Σ s] / Σ s

The second sum of the second pass takes back what rounding m did (Chan, Golub, LeVeque 1983). Columns are measured
in a power of two of their spread, so that neither 1e200 overflows nor 1e-200 vanishes, and a column times a power of
two has exactly the mean and the standard deviation times it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from levelprox import _kernels
from levelprox._typing import Vector
from levelprox.designs._base import Design

_ROUNDING = 4 * float(np.finfo(np.float64).eps)


class Moments(NamedTuple):
    """Of every column of X: its mean, its standard deviation, its least and its largest entry that has a weight."""

    mean: Vector
    deviation: Vector
    low: Vector
    high: Vector

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Whether all entries are equal, up to rounding."""
        # Halves, for the difference of two numbers in range may be out of it.
        largest = np.maximum(np.abs(self.low), np.abs(self.high))
        equal: NDArray[np.bool_] = self.high / 2 - self.low / 2 <= _ROUNDING / 2 * largest
        return equal

    @property
    def scale(self) -> Vector:
        """The standard deviation; where all entries are equal up to rounding, 1."""
        return np.where(self.constant | (self.deviation == 0), 1.0, self.deviation)

    @property
    def magnitude(self) -> Vector:
        """√(Σ s_i X_ij² / Σ s), the deviation about zero; where the column is zero, 1."""
        size = np.hypot(self.mean, self.deviation)
        return np.where(size == 0, 1.0, size)


def means_and_scales(design: Design, weight: Vector | None) -> tuple[Vector, Vector]:
    """Mean and standard deviation of every column; where all its entries are equal up to rounding, the latter is 1.

    Parameters
    ----------
    design : Design
        With a kernel.
    weight : ndarray of shape (n,), optional
        s, at most 1.
    """
    moments = moments_of(design, weight)
    return moments.mean, moments.scale


def moments_of(design: Design, weight: Vector | None) -> Moments:
    """The same in parts, with the least and the largest entries."""
    n, d = design.shape
    total = float(n) if weight is None else float(weight.sum())
    mean, low, high = _means(design, weight, total)
    # Rounding must not move the mean of equal numbers away from them.
    mean = np.clip(mean, low, high)
    half = np.maximum(high / 2 - mean / 2, mean / 2 - low / 2)
    unit = np.ldexp(1.0, np.clip(np.frexp(half)[1] + 1, -1021, 1023))
    first, second = np.empty(d), np.empty(d)
    weights = np.ones(n) if weight is None else weight
    _kernels.column_moments(design.kernel, mean, unit, weights, first, second)
    deviation = unit * np.sqrt(np.maximum(second - first * (first / total), 0) / total)
    return Moments(mean, deviation, low, high)


def _means(design: Design, weight: Vector | None, total: float) -> tuple[Vector, Vector, Vector]:
    """Means, and the least and the largest entries."""
    d = design.shape[1]
    sums, low, high = np.empty(d), np.empty(d), np.empty(d)
    _kernels.column_sums(design.kernel, weight, 1.0, sums, low, high)
    means = sums / total
    if not np.all(np.isfinite(means)):  # the sum is out of range, though the mean is not
        unit = float(np.ldexp(1.0, -int(np.frexp(total)[1])))
        _kernels.column_sums(design.kernel, weight, unit, sums, low, high)
        means = np.where(np.isfinite(means), means, sums / (total * unit))
    return means, low, high
