"""The sizes of the columns of X, the units in which the gradient of ψ is measured.

    (ψ'_j − m_j ψ'_0) / u_j

u_j is the root mean square of column j. Where there is an intercept, m_j is the mean of the column, ψ'_0 the derivative
with respect to the intercept, and u_j the standard deviation: that is the derivative along column j once the intercept
has taken up its mean. Multiplying a column by a constant, or adding one if there is an intercept, changes nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from levelprox._runtime import TimeLimitError, seconds_left
from levelprox._typing import Vector
from levelprox.designs import Design

# The variance is a difference of two sums; below this part of the mean square it is rounding.
_LEAST_VARIANCE = 1e-12
# From which on methods of first order work in other coordinates: ratio of column sizes, and means in deviations.
_WIDE_SPREAD, _FAR_MEAN = 100.0, 10.0


class ColumnSquares(NamedTuple):
    """Figures of Σ s_i X_ij² / Σ s_i over the columns that are not zero."""

    nonzero: float
    total: float
    smallest: float
    largest: float

    @classmethod
    def of(cls, squares: Vector) -> ColumnSquares:
        """Return the figures of these squares."""
        squares = squares[squares > 0]
        if not squares.size:
            return cls(0.0, 0.0, 1.0, 1.0)
        return cls(float(squares.size), float(squares.sum()), float(squares.min()), float(squares.max()))

    def advice(self) -> str:
        """Return a sentence where columns differ much in scale."""
        spread = math.sqrt(self.largest / self.smallest) if self.nonzero else 1.0
        return f"The columns of X differ in scale by a factor of {spread:.0e}: scale them." if spread > 100 else ""


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Coordinates in which columns have about the same size and, with an intercept, mean 0.

        w_j = u_j x_j,      w_0 = u_0 (x_0 + Σ_j m_j x_j)  for the intercept.

    Attributes
    ----------
    units : ndarray of shape (d,)
        u, powers of two, one for each coordinate.
    means : ndarray of shape (n_features,), optional
        m, 0 for the intercept; None leaves columns as they are.
    intercept : int, optional
        Where the intercept is, among the features.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox.objectives import Coordinates
    >>> scaled = Coordinates(np.array([2.0, 4.0]))
    >>> scaled.of(np.array([1.0, 1.0])).tolist(), scaled.back(np.array([2.0, 4.0])).tolist()
    ([2.0, 4.0], [1.0, 1.0])
    """

    units: Vector
    means: Vector | None = None
    intercept: int | None = None

    def of(self, x: Vector) -> Vector:
        """W of x, or of a step in x."""
        return np.asarray(self._shifted(x, 1.0) * self.units, np.float64)

    def back(self, w: Vector) -> Vector:
        """Return the x of w."""
        return self._shifted(w / self.units, -1.0)

    def gradient(self, gradient: Vector) -> Vector:
        """Return the gradient with respect to w, of that with respect to x."""
        return np.asarray(self._centred(gradient, -1.0) / self.units, np.float64)

    def gradient_back(self, gradient: Vector) -> Vector:
        """Return the gradient with respect to x, of that with respect to w."""
        return self._centred(gradient * self.units, 1.0)

    def _shifted(self, x: Vector, sign: float) -> Vector:
        """x with sign · Σ m_j x_j added to the intercept."""
        if self.means is None or self.intercept is None:
            return x
        rows = x.reshape(self.means.size, -1).copy()
        rows[self.intercept] += sign * np.sum(self.means[:, None] * rows, axis=0)
        return np.asarray(rows.ravel(), np.float64)

    def _centred(self, gradient: Vector, sign: float) -> Vector:
        """∇ψ with sign · m_j ψ'_0 added to entry j."""
        if self.means is None or self.intercept is None:
            return gradient
        rows = gradient.reshape(self.means.size, -1)
        return np.asarray((rows + sign * self.means[:, None] * rows[self.intercept]).ravel(), np.float64)


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
    def of_moments(cls, squares: Vector, means: Vector | None, ones: NDArray[np.integer]) -> FeatureScale:
        """Sizes from mean squares and means; `ones` is where the intercept is, `means` None where all are 0."""
        variance = squares
        if ones.size and means is not None:
            means = means.copy()
            means[ones] = 0.0
            variance = np.maximum(squares - means**2, _LEAST_VARIANCE * squares)
        typical = float(np.mean(squares[squares > 0])) if np.any(squares > 0) else 1.0
        zero = squares <= 0
        with np.errstate(over="ignore", invalid="ignore"):  # an overflowing norm is reported where it is used
            size = np.sqrt(np.where(zero, np.inf, variance / typical))
            magnitude = np.sqrt(np.where(zero, 1.0, squares / typical))
        root = float(np.sqrt(typical))
        if not ones.size:
            return cls(size, magnitude, typical=root)
        return cls(size, magnitude, np.zeros_like(squares) if means is None else means, int(ones[0]), root)

    def restrict(self, W: NDArray[np.intp]) -> FeatureScale:
        """Return the same for some features, in units of the same typical column."""
        place = np.empty(0) if self.intercept is None else np.flatnonzero(np.equal(W, self.intercept))
        if self.mean is None or not place.size:
            return FeatureScale(self.size[W], self.magnitude[W], typical=self.typical)
        return FeatureScale(self.size[W], self.magnitude[W], self.mean[W], int(place[0]), self.typical)

    def measured(self, gradient: Vector, n_outputs: int = 1, centred: bool = True) -> Vector:
        """∇ψ in these units, as a new array; `centred`: whether the intercept may take up the means."""
        rows = gradient.reshape(-1, n_outputs)
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
        """Return the adjoint of `measured`, for features of one coefficient each."""
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
        """Powers of two near the magnitudes, in which lengths are measured; None where these hardly differ."""
        if self.spread <= _WIDE_SPREAD:
            return None
        return np.asarray(np.exp2(np.rint(np.log2(self.magnitude))), np.float64)

    def coordinates(self, n_outputs: int = 1, centred: bool = True) -> Coordinates | None:
        """In which a method of first order works; None where x itself will do.

        Parameters
        ----------
        n_outputs : int
            Coefficients of a feature.
        centred : bool
            Whether the intercept, where there is one, may take up the means.
        """
        if not centred or self.mean is None or self.intercept is None:
            units = self.working_units
            return None if units is None else Coordinates(np.repeat(units, n_outputs))
        # A constant column has no size.
        varies = np.isfinite(self.size) & (self.size**2 > 2 * _LEAST_VARIANCE * self.magnitude**2)
        sizes = np.where(varies, self.size, self.magnitude)
        far = np.abs(self.mean) > _FAR_MEAN * self.typical * sizes
        if sizes.max() <= _WIDE_SPREAD * sizes.min() and not np.any(far & varies):
            return None
        units = np.exp2(np.rint(np.log2(sizes)))
        return Coordinates(np.repeat(units, n_outputs), np.where(varies, self.mean, 0.0), self.intercept)


def largest_eigenvalue(design: Design, share: Vector, trace: float) -> float:
    """Return λ_max(X' diag(share) X) with the residual of Lanczos' method added; at most the trace.

    Raises `TimeLimitError` where the time limit is reached first.
    """
    from scipy.sparse.linalg import (  # slow to import, and only nonconvex losses need it
        ArpackError,
        LinearOperator,
        eigsh,
    )

    n, d = design.shape
    if min(n, d) < 3 or trace == 0:
        return trace
    root = np.sqrt(share)
    wide = d > n

    def multiply(p: Vector) -> Vector:
        if seconds_left() <= 0:
            raise TimeLimitError
        if wide:
            return root * design.matvec(design.rmatvec(root * p.ravel()))
        return design.rmatvec(share * design.matvec(p.ravel()))

    side = min(n, d)
    operator = LinearOperator((side, side), matvec=multiply, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(side)
    try:
        values, vectors = eigsh(operator, k=1, tol=1e-3, v0=start)
    except ArpackError:
        return trace
    residual = float(np.linalg.norm(multiply(vectors[:, 0]) - values[0] * vectors[:, 0]))
    return min(trace, float(values[0]) + 2 * residual)
