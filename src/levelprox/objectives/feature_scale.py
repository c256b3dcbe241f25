"""The size of the columns of X: in which units the gradient of ψ is measured, feature by feature.

    (ψ'_j − m_j ψ'_0) / u_j

u_j is the root mean square of column j. Where there is an intercept, m_j is the mean of the column, ψ'_0 the derivative
with respect to the intercept, and u_j the standard deviation: that is the derivative along column j once the intercept
has taken up its mean. Multiplying a column by a constant, or adding one beside an intercept, changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from levelprox.designs import Design

Vector = NDArray[np.float64]

# The variance is a difference of two sums; below this part of the mean square it is rounding.
_LEAST_VARIANCE = 1e-12
_WIDE_SPREAD = 100.0  # ratio of column sizes from which on methods of first order work in scaled coordinates


@dataclass(frozen=True, eq=False)
class FeatureScale:
    """Sizes of columns, relative to that of a typical one.

    Attributes
    ----------
    size : ndarray of shape (n_features,)
        u, about the mean where there is an intercept. Divided by the root mean square of all columns together, so that
        columns of equal size have u = 1. A column of zeros has u = inf: its gradient is rounding.
    magnitude : ndarray of shape (n_features,)
        The same about zero; 1 for a column of zeros.
    mean : ndarray of shape (n_features,), optional
        m; None without an intercept.
    intercept : int, optional
        Where the intercept is.
    typical : float
        The root mean square of all columns together.
    """

    size: Vector
    magnitude: Vector
    mean: Vector | None = None
    intercept: int | None = None
    typical: float = 1.0

    @classmethod
    def of_design(cls, design: Design, share: Vector) -> FeatureScale:
        """Sizes of the columns of a design, with weights of the samples that add up to 1."""
        squares, ones = design.column_squares(share), design.ones
        return cls.of_moments(squares, design.weighted_sums(share) if ones.size else None, ones)

    @classmethod
    def of_moments(cls, squares: Vector, means: Vector | None, ones: NDArray[np.integer]) -> FeatureScale:
        """Sizes from mean squares and means; `ones` is where the intercept is, `means` None where all are 0."""
        variance = squares
        if ones.size and means is not None:
            means = means.copy()
            means[ones] = 0.0
            variance = np.maximum(squares - means**2, _LEAST_VARIANCE * squares)
        typical = float(np.mean(squares[squares > 0])) if np.any(squares > 0) else 1.0
        zero = squares <= 0
        with np.errstate(over="ignore", invalid="ignore"):  # a norm that overflows is told of where it is used
            size = np.sqrt(np.where(zero, np.inf, variance / typical))
            magnitude = np.sqrt(np.where(zero, 1.0, squares / typical))
        root = float(np.sqrt(typical))
        if not ones.size:
            return cls(size, magnitude, typical=root)
        return cls(size, magnitude, np.zeros_like(squares) if means is None else means, int(ones[0]), root)

    def restrict(self, W: NDArray[np.intp]) -> FeatureScale:
        """The same for some features, in units of the same typical column."""
        place = np.empty(0) if self.intercept is None else np.flatnonzero(np.equal(W, self.intercept))
        if self.mean is None or not place.size:
            return FeatureScale(self.size[W], self.magnitude[W], typical=self.typical)
        return FeatureScale(self.size[W], self.magnitude[W], self.mean[W], int(place[0]), self.typical)

    def measured(self, gradient: Vector, width: int = 1, centred: bool = True) -> Vector:
        """∇ψ in these units, as a new array; `centred`: whether the intercept may take up the means."""
        rows = gradient.reshape(-1, width)
        if centred and self.mean is not None and self.intercept is not None:
            rows = rows - self.mean[:, None] * rows[self.intercept]
        return np.asarray((rows / self.size[:, None]).ravel(), np.float64)

    @property
    def squares(self) -> Vector:
        """Mean squares of the columns."""
        return np.where(np.isinf(self.size), 0.0, np.square(self.typical * self.magnitude))

    @property
    def largest(self) -> float:
        """By how much a gradient is at most larger than in these units."""
        sizes = self.size[np.isfinite(self.size)]
        shift = 0.0 if self.mean is None else float(np.max(np.abs(self.mean), initial=0.0))
        return max(float(np.max(sizes, initial=0.0)) + shift, 1.0)

    def pulled_back(self, v: Vector, centred: bool = True) -> Vector:
        """The adjoint of `measured`, for features of one coefficient each."""
        out = v / self.size
        if centred and self.mean is not None and self.intercept is not None:
            out[self.intercept] -= float(np.sum(self.mean * (v / self.size)))
        return np.asarray(out, np.float64)

    @cached_property
    def spread(self) -> float:
        """The ratio of the largest magnitude to the smallest; 1 without columns."""
        return float(self.magnitude.max() / self.magnitude.min()) if self.magnitude.size else 1.0

    @cached_property
    def working_units(self) -> Vector | None:
        """Powers of two near the magnitudes, in which a method of first order works; None where these hardly differ."""
        if self.spread <= _WIDE_SPREAD:
            return None
        return np.asarray(np.exp2(np.rint(np.log2(self.magnitude))), np.float64)
