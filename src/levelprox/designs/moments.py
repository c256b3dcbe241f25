"""Weighted means and standard deviations of the columns of X: in two passes, or of rows that arrive in batches.

    m = Σ s_i X_ij / Σ s,      sd² = [Σ s_i (X_ij − m)² − (Σ s_i (X_ij − m))² / Σ s] / Σ s

The second sum of the second pass corrects the rounding of m (Chan, Golub, LeVeque 1983). Columns are measured in a
power of two of their spread, so that neither 1e200 overflows nor 1e-200 vanishes, and a column times a power of two
has exactly the mean and the standard deviation times it.

Two parts of the data with weights s and s', means m and m' and deviations σ and σ' have together, with p = s/(s + s')
and p' = 1 − p, the mean and the deviation

    m + p'(m' − m),      √(pσ² + p'σ'² + pp'(m' − m)²).

The root is taken by `hypot`, for the same range. Each part is measured about its own mean: sparse rows stay sparse.
"""

from __future__ import annotations

import copy
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

import levelprox._kernels as _kernels
from levelprox._typing import Vector
from levelprox._validation import finite, whole
from levelprox.designs._base import Design, vector
from levelprox.exceptions import InvalidInputError

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
    """Return the same in parts, with the least and the largest entries."""
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


class RunningMoments:
    """Weighted mean and standard deviation of every column of all rows seen so far.

    Equal to `means_and_scales` of all rows together up to rounding: 1e-12 relative to the deviations, for means
    up to a thousand of them; beyond that, as many digits are lost as the mean has more than the deviation.

    Parameters
    ----------
    n_features : int
        Columns of every batch.

    Attributes
    ----------
    total : float
        Σ s of all rows.
    mean : ndarray of shape (n_features,)
        0 before the first row.
    scale : ndarray of shape (n_features,)
        The standard deviation; 1 where all entries were equal, up to rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox.designs import RunningMoments, as_design
    >>> moments = RunningMoments(1)
    >>> for batch in ([[1.0]], [[3.0], [5.0]]):
    ...     moments.update(as_design(np.array(batch)))
    >>> moments.total, moments.mean.tolist(), (moments.scale**2).round(9).tolist()
    (3.0, [3.0], [2.666666667])
    """

    def __init__(self, n_features: int) -> None:
        d = whole("n_features", n_features, 1)
        self.total = 0.0
        self._moments = Moments(np.zeros(d), np.zeros(d), np.full(d, math.inf), np.full(d, -math.inf))

    @property
    def mean(self) -> Vector:
        """The mean of every column; 0 before the first row."""
        return self._moments.mean

    @property
    def scale(self) -> Vector:
        """The standard deviation of every column; 1 where all entries are equal, up to rounding."""
        return self._moments.scale if self.total else np.ones_like(self.mean)

    @property
    def deviation(self) -> Vector:
        """The standard deviation; 0 where all entries were equal."""
        return self._moments.deviation

    @property
    def magnitude(self) -> Vector:
        """The deviation about zero; 1 where all entries were zero."""
        return self._moments.magnitude if self.total else np.ones_like(self.mean)

    def update(self, design: Design, sample_weight: ArrayLike | None = None) -> None:
        """Add a batch of rows.

        Parameters
        ----------
        design : Design of shape (n, n_features)
            The rows as they are, neither scaled nor with an intercept.
        sample_weight : array-like of shape (n,), optional
            s ≥ 0, in one unit for all batches: a weight of 2 is a repeated row, a weight of 0 a removed one.
        """
        n, d = design.shape
        if d != self.mean.size:
            raise InvalidInputError(f"the batch has {d} features, those before it had {self.mean.size}")
        if sample_weight is None:
            self._merge(float(n), moments_of(design, None))
            return
        weight = finite("sample_weight", vector("sample_weight", sample_weight, n)).astype(np.float64, copy=False)
        if np.any(weight < 0):
            raise InvalidInputError("sample_weight must not be negative")
        if np.any(weight > 0):
            exponent = int(np.frexp(weight.max())[1])
            small = np.ldexp(weight, -exponent)  # at most 1
            with np.errstate(over="ignore"):
                total = float(np.ldexp(small.sum(), exponent))
            self._merge(total, moments_of(design, small))

    @classmethod
    def of(cls, total: float, moments: Moments) -> RunningMoments:
        """Add the moments of other rows, with Σ s = `total`."""
        own = cls(moments.mean.size)
        own._merge(total, moments)
        return own

    def __add__(self, other: RunningMoments) -> RunningMoments:
        """Of the rows of both."""
        both = copy.copy(self)
        if other.total > 0:
            both._merge(other.total, other._moments)
        return both

    def _merge(self, added: float, new: Moments) -> None:
        total = self.total + added
        if not math.isfinite(total):
            raise InvalidInputError("the sum of all sample weights overflows; divide them by their largest")
        old = self._moments
        if self.total == 0:
            self.total, self._moments = total, new
            return
        was, now = self.total / total, added / total
        half = new.mean / 2 - old.mean / 2  # the difference of two numbers in range may be out of it
        low, high = np.minimum(old.low, new.low), np.maximum(old.high, new.high)
        mean = np.clip(2 * (old.mean / 2 + now * half), low, high)
        within = np.hypot(math.sqrt(was) * old.deviation, math.sqrt(now) * new.deviation)
        between = 2 * (math.sqrt(was * now) * np.abs(half))
        self.total, self._moments = total, Moments(mean, np.hypot(within, between), low, high)


def middle_and_unit(xp: Any, mean: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """Means between the least and the largest entries, and powers of two no less than the distance to those."""
    mean = xp.minimum(xp.maximum(mean, low), high)
    half = xp.maximum(high / 2 - mean / 2, mean / 2 - low / 2)
    unit = xp.exp2(xp.ceil(xp.log2(xp.where(half > 0, half, 1.0))) + 1)
    return mean, unit


def deviation(xp: Any, first: Any, second: Any, total: Any, unit: Any) -> Any:
    """Return deviations from sums of weighted distances to the means and of their squares, both in units."""
    spread = second - first * (first / total)
    return unit * xp.sqrt(xp.where(spread > 0, spread, 0.0) / total)
