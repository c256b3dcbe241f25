"""X and an intercept: one more column, of ones, which is never stored.

    A = [X, 1],      Ax = Xv + x_0 1,      A'r = (X'r, Σ r),      A'DA = [[X'DX, X'D1], [1'DX, Σ D]]

The column is last; a selection of columns may put it anywhere, repeat it, or leave it out.

Also here, as functions of X with or without an intercept: `scaled_by`; `standardised`, which centres and scales columns
whose means or units would cost digits; and `precise_matvec`, Xx in twice the precision for values that are reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import levelprox._kernels as _kernels
from levelprox._kernels import DesignKernel
from levelprox._typing import Index, Mask, Vector
from levelprox.designs._base import Design, vector
from levelprox.designs.dense import DenseDesign
from levelprox.designs.moments import moments_of
from levelprox.designs.scaled import ScaledDesign
from levelprox.designs.sparse import SparseDesign
from levelprox.exceptions import InvalidInputError
from levelprox.projection import product_tail


class InterceptDesign(Design):
    """[X, 1].

    Parameters
    ----------
    base : Design
        X, perhaps centred and scaled (`ScaledDesign`), without an intercept.
    ones : ndarray of int64, optional
        Where among the columns the columns of ones are, in ascending order. By default there is one, at the end.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox.designs import InterceptDesign, as_design
    >>> A = InterceptDesign(as_design(np.array([[1.0], [2.0]])))
    >>> A.shape, A.ones.tolist(), A.matvec([1.0, 10.0]).tolist()
    ((2, 2), [1], [11.0, 12.0])
    """

    has_rows = False
    base: Design

    def __init__(self, base: Design, ones: Index | None = None) -> None:
        if base.ones.size:
            raise InvalidInputError("X has an intercept already")
        n, d = base.shape
        self.base = base
        self._ones: Index = np.array([d], np.int64) if ones is None else np.array(ones, np.int64)
        self._ones.flags.writeable = False
        self.shape = (n, d + self._ones.size)
        inside = np.all((self._ones >= 0) & (self._ones < self.shape[1]))
        if not (inside and np.all(np.diff(self._ones) > 0)):
            raise InvalidInputError(f"ones must ascend within 0..{self.shape[1] - 1}, got {self._ones.tolist()}")
        self._others = np.delete(np.arange(self.shape[1]), self._ones)
        self.dtype = base.dtype
        self.nbytes = base.nbytes

    @property
    def kernel(self) -> DesignKernel:  # type: ignore[override]  # there is none to read
        """Not available: kernels read single rows, which this design does not have."""
        raise InvalidInputError("X with an intercept has no rows that the kernels could read one by one")

    @property
    def ones(self) -> Index:
        """The columns that are an intercept: features that never count, in ascending order."""
        return self._ones

    @property
    def stored(self) -> int:
        """How many entries are stored."""
        return self.base.stored

    def stored_in(self, chosen: Index) -> int:
        """Return how many entries of these columns are stored, repeats included; those of ones have n."""
        inside = self._in_base(chosen)
        return self.base.stored_in(inside) + self.shape[0] * (chosen.size - inside.size)

    def matvec(self, x: ArrayLike) -> Vector:
        """Return xx, of shape (n,); without a pass over X where x is 0."""
        v = vector("x", x, self.shape[1])
        return self.base.matvec(v[self._others]) + float(v[self._ones].sum())

    def rmatvec(self, r: ArrayLike) -> Vector:
        """Return X'r, of shape (d,)."""
        residual = vector("r", r, self.shape[0])
        return self._merged(self.base.rmatvec(residual), residual.sum())

    def column_squares(self, weight: ArrayLike | None = None) -> Vector:
        """Return Σ_i s_i X_ij² for every feature j, with s = `weight` or 1; of shape (d,)."""
        s = self._weight("weight", weight)
        return self._merged(self.base.column_squares(s), s.sum())

    def row_squares(self) -> Vector:
        """Return Σ_j X_ij² for every sample i; of shape (n,)."""
        return self.base.row_squares() + self._ones.size

    def row_magnitudes(self, x: ArrayLike) -> Vector:
        """Return Σ_j |X_ij x_j|, to which the rounding of Xx is proportional; of shape (n,)."""
        v = vector("x", x, self.shape[1])
        return self.base.row_magnitudes(v[self._others]) + float(np.sum(np.abs(v[self._ones])))

    def column_magnitudes(self) -> Vector:
        """Return max_i |X_ij| of every feature j, or more; of shape (d,). Here ‖X_j‖."""
        return self._merged(self.base.column_magnitudes(), 1.0)

    def column_noise(self) -> Vector | None:
        """Return that of the base, and 0 for the intercept."""
        noise = self.base.column_noise()
        return None if noise is None else self._merged(noise, 0.0)

    def row_major(self) -> Design:
        """Return X stored row after row: itself where it is, else a copy."""
        return InterceptDesign(self.base.row_major(), self._ones)

    def linear_model(
        self,
        loss: tuple[str, float, float],
        target: Vector,
        weight: Vector | None,
        offset: Vector | None,
        ones: Index | None = None,
    ) -> _kernels.Objective:
        """Return the kernel of Σ s_i ℓ(⟨a_i, x⟩ + o_i, b_i) / Σ s_i, in passes over X as it is stored."""
        if ones is not None:
            raise InvalidInputError("X has an intercept already")
        return self.base.linear_model(loss, target, weight, offset, self._ones)

    def _merged(self, others: Vector, one: float | np.floating[Any]) -> Vector:
        """Return a vector with an entry for every column: of the base's columns, and for all of those of ones."""
        out = np.empty(self.shape[1])
        out[self._others] = others
        out[self._ones] = one
        return out

    def _is_one(self, chosen: Index) -> Mask:
        """Return which of these columns are columns of ones."""
        return chosen == self._ones[0] if self._ones.size == 1 else np.isin(chosen, self._ones)

    def _in_base(self, chosen: Index) -> Index:
        kept = chosen[~self._is_one(chosen)]
        return kept - np.searchsorted(self._ones, kept)

    def _around(self, part: Design, chosen: Index) -> Design:
        ones = np.flatnonzero(self._is_one(chosen)).astype(np.int64, copy=False)
        return InterceptDesign(part, ones) if ones.size else part

    def _gram(self, weight: Vector | None, known: int) -> Vector:
        s = self._weight("D", weight)
        gram = np.empty((self.shape[1], self.shape[1]))
        old = int(np.count_nonzero(self._others < known))  # of the base's columns
        gram[np.ix_(self._others, self._others)] = self.base._gram(weight, old)
        border = self._merged(self.base.weighted_sums(s), s.sum())
        gram[self._ones, :] = border
        gram[:, self._ones] = border[:, None]
        return gram

    def _rows(self, chosen: Index) -> Design:
        return InterceptDesign(self.base.rows(chosen), self._ones)


def scaled_by(design: Design, scale: Vector) -> Design:
    """Return X diag(1/scale), where X may be scaled already and have an intercept.

    Parameters
    ----------
    design : Design
    scale : ndarray of shape (d,)

    Returns
    -------
    Design

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox.designs import as_design, scaled_by
    >>> scaled_by(as_design(np.array([[2.0, 4.0]])), np.array([2.0, 4.0])).matvec([1.0, 1.0]).tolist()
    [2.0]
    """
    if isinstance(design, InterceptDesign):
        return InterceptDesign(scaled_by(design.base, np.delete(scale, design.ones)), design.ones)
    if isinstance(design, ScaledDesign):
        return ScaledDesign(design.base, design.center_, scale if design.scale_ is None else design.scale_ * scale)
    return ScaledDesign(design, None, scale)


# Deviations from zero of a mean, and ratio of units, from which on columns are better standardised.
_FAR_MEAN, _FAR_UNITS = 100.0, 1000.0


def standardised(design: Design, sample_weight: Vector | None) -> Design | None:
    """Return the design with centred and scaled columns; None unless their means or units would cost digits.

    Dense columns are centred where there is an intercept, and divided by a power of two near their standard deviation.
    Of a sparse X only columns with a large mean are centred: these are stored in full, the others stay sparse.

    Parameters
    ----------
    design : Design
    sample_weight : ndarray of shape (n,) or None

    Returns
    -------
    Design or None

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox.designs import as_design, standardised
    >>> standardised(as_design(np.array([[1.0, 1e6], [2.0, -1e6], [3.0, 1e6]])), None)
    ScaledDesign(shape=(3, 2), dtype=float64)
    >>> standardised(as_design(np.array([[1.0], [2.0], [3.0]])), None) is None
    True
    """
    base = design.base if isinstance(design, InterceptDesign) else design
    if not isinstance(base, DenseDesign | SparseDesign) or (
        design is not base and design.ones.tolist() != [base.shape[1]]
    ):
        return None
    moments = moments_of(base, sample_weight)
    intercept = design is not base
    far = (np.abs(moments.mean) > _FAR_MEAN * moments.deviation) & ~moments.constant & intercept
    centred = ~moments.constant & intercept if isinstance(base, DenseDesign) else far
    size = np.where(centred, moments.scale, moments.magnitude)
    varies = ~moments.constant if intercept else np.hypot(moments.mean, moments.deviation) > 0
    if not np.any(varies) or not (np.any(far) or size[varies].max() > _FAR_UNITS * size[varies].min()):
        return None
    scale = np.where(varies, np.ldexp(1.0, np.frexp(size)[1] - 1), 1.0)
    scaled = ScaledDesign(base, np.where(centred, moments.mean, 0.0) if np.any(centred) else None, scale)
    return InterceptDesign(scaled) if intercept else scaled


def unstandardised(design: Design, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the coefficients for the data themselves, of coefficients for what `standardised` returned.

    `x` has a row for each feature, the last one for the intercept where there is one.

    Parameters
    ----------
    design : Design
    x : ndarray of shape (d, K)

    Returns
    -------
    ndarray of shape (d, K)

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox.designs import ScaledDesign, as_design, unstandardised
    >>> A = ScaledDesign(as_design(np.array([[1.0], [3.0]])), None, [2.0])
    >>> unstandardised(A, np.array([[4.0]])).tolist()
    [[2.0]]
    """
    scaled = design.base if isinstance(design, InterceptDesign) else design
    assert isinstance(scaled, ScaledDesign)
    d = scaled.shape[1]
    both = [scaled.unscaled(column[:d]) for column in x.T]
    return np.stack(
        [np.concatenate([own, column[d:] + shift]) for (own, shift), column in zip(both, x.T, strict=True)]
    ).T


def units_of(design: Design) -> Vector:
    """Return factors from coefficients for what `standardised` returned to those for the data; 1 for the intercept.

    Parameters
    ----------
    design : Design

    Returns
    -------
    ndarray of shape (d,)

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox.designs import ScaledDesign, as_design, units_of
    >>> units_of(ScaledDesign(as_design(np.array([[1.0], [3.0]])), None, [2.0])).tolist()
    [0.5]
    """
    scaled = design.base if isinstance(design, InterceptDesign) else design
    assert isinstance(scaled, ScaledDesign)
    factors = scaled.unscaled(np.ones(scaled.shape[1]))[0]
    return factors if design is scaled else np.append(factors, 1.0)


def precise_matvec(design: Design, x: Vector, offset: Vector | None = None) -> Vector:
    """Return Xx + offset, summed in double-double arithmetic; one pass over the columns with x_j ≠ 0.

    Entries of centred columns are centred before they are multiplied, and have a relative error of an ulp or two.

    Parameters
    ----------
    design : Design
    x : ndarray of shape (d,)
    offset : ndarray of shape (n,), optional

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox.designs import as_design, precise_matvec
    >>> precise_matvec(as_design(np.array([[1e16, 1.0, -1e16]])), np.ones(3)).tolist()
    [1.0]
    """
    total = np.zeros(design.shape[0]) if offset is None else offset.astype(np.float64)
    rest = np.zeros(design.shape[0])
    for column, factor in _terms(design, x):
        product = column * factor
        tail = product_tail(column, np.full_like(column, factor), product)
        new = total + product
        of_total = new - product
        rest += (total - of_total) + (product - (new - of_total)) + np.where(np.isnan(tail), 0.0, tail)
        total = new
    return np.asarray(total + rest, np.float64)


def _terms(design: Design, x: Vector) -> Iterator[tuple[Vector, float]]:
    """Columns with what they are multiplied by; that of ones first."""
    if isinstance(design, InterceptDesign):
        yield from ((np.ones(design.shape[0]), float(x[j])) for j in design.ones if x[j] != 0)
        yield from _terms(design.base, np.delete(x, design.ones))
        return
    center, scale, base = None, None, design
    if isinstance(design, ScaledDesign):
        center, scale, base = design.center_, design.scale_, design.base
    for j in np.flatnonzero(x):
        column = base.columns([j]).matvec([1.0])
        column = column if center is None else column - center[j]
        yield column, float(x[j] if scale is None else x[j] / scale[j])
