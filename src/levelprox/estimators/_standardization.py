"""The standardization between X, coef_, intercept_ and A, x: the only place where coefficients change their units.

    A = (X − 1c') diag(1/s),      scale_ = s,      x = (s ∘ coef, intercept + ⟨c, coef⟩)

The constraint, its feasibility and every certificate speak of x, that is of scale_ · coef_.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox._runtime.rounding import products_above
from levelprox._typing import FloatArray, Names, Vector
from levelprox.designs import Design, RunningMoments, ScaledDesign, as_design
from levelprox.designs._base import column_name
from levelprox.designs.moments import moments_of
from levelprox.exceptions import InvalidInputError, NumericalError

_SMALLEST = 2.0**-1022  # of a deviation: the inverse is a number, too
_LARGEST = 2.0**1000  # of a deviation: sums over the column are numbers, too
_SQUARES = 2.0**-960  # of a sum of squares: its products with weights and tolerances are numbers, too


class Standardization:
    """X as the solver sees it, and the way back.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
    center, scale : ndarray of shape (d,), optional
        c and s; None leaves X as it is.
    fit_intercept : bool
        Whether x ends with an intercept.
    width : int
        How many coefficients a feature has.
    names : sequence of str, optional
        What errors call the columns.
    """

    def __init__(
        self,
        X: object,
        center: Vector | None,
        scale: Vector | None,
        fit_intercept: bool,
        width: int = 1,
        names: Names | None = None,
    ) -> None:
        self.base = base = as_design(X)
        self.names = names
        if scale is None:
            _check_range(base, names)
        self.design: Design = base if center is None and scale is None else ScaledDesign(base, center, scale)
        self.dtype = base.dtype
        self.center, self.fit_intercept, self.width = center, fit_intercept, width
        self.scale = np.ones(base.shape[1]) if scale is None else np.asarray(scale, np.float64)

    @classmethod
    def standardized(
        cls, X: object, weight: Vector | None, fit_intercept: bool, width: int = 1, names: Names | None = None
    ) -> Standardization:
        """Columns of standard deviation 1 about their mean; about zero, where there is no intercept to take it up."""
        base = as_design(X)
        with np.errstate(over="ignore", invalid="ignore"):
            moments = moments_of(base, None if weight is None else weight / weight.max())
            center, scale = (moments.mean, moments.scale) if fit_intercept else (None, moments.magnitude)
        return cls(base, center, _usable(scale, names), fit_intercept, width, names)

    def deviations(self, weight: Vector | None) -> Vector:
        """Standard deviations of the columns of X, about zero where there is no intercept; 1 for those without any."""
        moments = moments_of(self.base, weight)
        return moments.scale if self.fit_intercept else moments.magnitude

    @classmethod
    def of_moments(
        cls,
        dtype: np.dtype[Any],
        d: int,
        moments: RunningMoments | None,
        fit_intercept: bool,
        width: int = 1,
        names: Names | None = None,
    ) -> Standardization:
        """Return the same for remote X, by the moments of its columns; without these X is left as it is."""
        standardization = cls.__new__(cls)
        standardization.dtype, standardization.fit_intercept, standardization.width, standardization.names = (
            dtype,
            fit_intercept,
            width,
            names,
        )
        standardization.center, standardization.scale = None, np.ones(d)
        if moments is not None:
            standardization.center = moments.mean if fit_intercept else None
            standardization.scale = _usable(moments.scale if fit_intercept else moments.magnitude, names)
        return standardization

    def inside(self, coef: FloatArray, intercept: FloatArray) -> Vector:
        """Return x of coefficients of shape (width, d) or (d,) and intercepts of shape (width,) or ()."""
        coef64: Vector = np.atleast_2d(coef).astype(np.float64)
        last: Vector = np.atleast_1d(intercept).astype(np.float64)
        rows = (coef64 * self.scale).T
        if not self.fit_intercept:
            return np.ascontiguousarray(rows).ravel()
        if self.center is not None:
            last = last + coef64 @ self.center
        return np.vstack([rows, last]).ravel()

    def outside(self, x: Vector, dtype: np.dtype[Any] | None = None) -> tuple[FloatArray, FloatArray]:
        """Coefficients of shape (width, d), in the precision of X or another, and intercepts of shape (width,).

        |scale_ · coef_| ≤ |x| holds in exact arithmetic, so that what x obeys is obeyed by them.
        """
        dtype = self.dtype if dtype is None else dtype
        rows = x.reshape(-1, self.width)
        inner = rows[: self.scale.size].T
        with np.errstate(over="ignore", under="ignore"):
            coef = (inner / self.scale).astype(dtype)
        self._check_coefficients(coef)
        used = np.nonzero(coef)
        found, scale, largest = coef[used], self.scale[used[1]], np.abs(inner[used])
        for _ in range(3):  # divisions, products and float32 round by at most an ulp each
            beyond = products_above(np.abs(found).astype(np.float64), scale) > largest
            found[beyond] = np.nextafter(found[beyond], np.zeros(1, dtype))
        coef[used] = found
        coef += 0.0  # no −0.0
        return coef, self._intercepts(rows, coef)

    def _check_coefficients(self, coef: FloatArray) -> None:
        if not np.all(np.isfinite(coef)):
            j = int(np.argmax(~np.isfinite(coef).all(axis=0)))
            raise NumericalError(
                f"the coefficient of {column_name(j, self.names)} of X is beyond the range of {coef.dtype}: the column "
                f"varies by {self.scale[j]:.3g} only; multiply it by a larger unit"
            )

    def _intercepts(self, rows: Vector, coef: NDArray[Any]) -> FloatArray:
        if not self.fit_intercept:
            return np.zeros(self.width, coef.dtype)
        last = rows[-1]
        if self.center is not None:
            used = np.flatnonzero(np.any(coef, axis=0))
            last = last - np.asarray(coef[:, used], np.float64) @ self.center[used]
        return np.asarray(last, coef.dtype) + np.zeros(1, coef.dtype)


def _usable(scale: Vector, names: Names | None = None) -> Vector:
    """Deviations that columns can be divided by: 1 for those that vary too little to have a coefficient."""
    if not np.all(scale < _LARGEST):
        j = int(np.argmax(~(scale < _LARGEST)))
        raise InvalidInputError(
            f"the deviation of {column_name(j, names)} of X overflows; divide the column by a larger unit"
        )
    small = np.flatnonzero(scale < _SMALLEST)
    if small.size:
        j = int(small[0])
        columns = "1 such column" if small.size == 1 else f"{small.size} such columns"
        warnings.warn(
            f"{column_name(j, names)} of X varies by {scale[j]:.3g} only ({columns} in total), and float64 has no "
            "coefficients for that: it is taken as constant. Multiply it by a larger unit",
            UserWarning,
            stacklevel=2,
        )
    return np.where(scale < _SMALLEST, 1.0, scale)


def _check_range(design: Design, names: Names | None = None) -> None:
    """Raise where the sum of the squares of a column that is not zero is beyond float64."""
    squares = design.column_squares()
    if not np.all(np.isfinite(squares)):
        j = int(np.argmax(~np.isfinite(squares)))
        raise InvalidInputError(
            f"the norm of {column_name(j, names)} of X overflows; scale the columns, or set standardize=True"
        )
    small = np.flatnonzero(squares < _SQUARES)
    size = design.columns(small).column_magnitudes() if small.size else squares[:0]
    if np.any(size > 0):
        j = int(np.argmax(size > 0))
        raise InvalidInputError(
            f"{column_name(int(small[j]), names)} of X has entries of at most {size[j]:.3g}, whose squares vanish; "
            "scale the columns, or set standardize=True"
        )
