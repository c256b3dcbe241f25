"""X and an intercept: one more column, of ones, which is never stored.

    A = [X, 1],      Ax = Xv + x_0 1,      A'r = (X'r, Σ r),      A'DA = [[X'DX, X'D1], [1'DX, Σ D]]

The column is last; a selection of columns may put it anywhere, repeat it, or leave it out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from levelprox import _kernels
from levelprox._kernels import DesignKernel
from levelprox._typing import Index, Vector
from levelprox.designs._base import Design, vector
from levelprox.designs.scaled import ScaledDesign
from levelprox.exceptions import InvalidInputError


class InterceptDesign(Design):
    """[X, 1].

    Parameters
    ----------
    base : Design
        X, perhaps centred and scaled (`ScaledDesign`), without an intercept of its own.
    ones : ndarray of int64, optional
        Where among the columns the columns of ones are, in ascending order. By default there is one, at the end.
    """

    has_rows = False

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
        raise InvalidInputError("X with an intercept has no rows that the kernels could read one by one")

    @property
    def ones(self) -> Index:
        return self._ones

    @property
    def stored(self) -> int:
        return self.base.stored

    def matvec(self, x: ArrayLike) -> Vector:
        v = vector("x", x, self.shape[1])
        return self.base.matvec(v[self._others]) + float(v[self._ones].sum())

    def rmatvec(self, r: ArrayLike) -> Vector:
        residual = vector("r", r, self.shape[0])
        return self._merged(self.base.rmatvec(residual), residual.sum())

    def column_squares(self, weight: ArrayLike | None = None) -> Vector:
        s = self._weight("weight", weight)
        return self._merged(self.base.column_squares(s), s.sum())

    def row_squares(self) -> Vector:
        return self.base.row_squares() + self._ones.size

    def row_magnitudes(self, x: ArrayLike) -> Vector:
        v = vector("x", x, self.shape[1])
        return self.base.row_magnitudes(v[self._others]) + float(np.sum(np.abs(v[self._ones])))

    def column_magnitudes(self) -> Vector:
        return self._merged(self.base.column_magnitudes(), 1.0)

    def row_major(self) -> Design:
        return InterceptDesign(self.base.row_major(), self._ones)

    def linear_model(
        self,
        loss: tuple[str, float, float],
        target: Vector,
        weight: Vector | None,
        offset: Vector | None,
        ones: Index | None = None,
    ) -> _kernels.Objective:
        if ones is not None:
            raise InvalidInputError("X has an intercept already")
        return self.base.linear_model(loss, target, weight, offset, self._ones)

    def _merged(self, others: Vector, one: float | np.floating[Any]) -> Vector:
        """A vector with an entry for every column: of the base's columns, and for all of those of ones."""
        out = np.empty(self.shape[1])
        out[self._others] = others
        out[self._ones] = one
        return out

    def _in_base(self, chosen: Index) -> Index:
        """Where the chosen columns are in the base, but for those of ones."""
        kept = chosen[~np.isin(chosen, self._ones)]
        return kept - np.searchsorted(self._ones, kept)

    def _selected(self, chosen: Index, base: Design) -> Design:
        ones = np.flatnonzero(np.isin(chosen, self._ones)).astype(np.int64, copy=False)
        return InterceptDesign(base, ones) if ones.size else base

    def _gram(self, weight: Vector | None) -> Vector:
        return self._gram_beyond(weight, 0)

    def _gram_beyond(self, weight: Vector | None, known: int) -> Vector:
        s = self._weight("D", weight)
        gram = np.empty((self.shape[1], self.shape[1]))
        old = int(np.count_nonzero(self._others < known))  # of the base's columns
        gram[np.ix_(self._others, self._others)] = self.base._gram_beyond(weight, old)
        border = self._merged(self.base.weighted_sums(s), s.sum())
        gram[self._ones, :] = border
        gram[:, self._ones] = border[:, None]
        return gram

    def _view(self, chosen: Index) -> Design:
        if np.array_equal(chosen, np.arange(self.shape[1])):
            return self
        return self._selected(chosen, self.base._view(self._in_base(chosen)))

    def _columns(self, chosen: Index) -> Design:
        return self._selected(chosen, self.base.columns(self._in_base(chosen)))

    def _rows(self, chosen: Index) -> Design:
        return InterceptDesign(self.base.rows(chosen), self._ones)


def scaled_by(design: Design, scale: Vector) -> Design:
    """X diag(1/scale), where X may be scaled already and have an intercept."""
    if isinstance(design, InterceptDesign):
        return InterceptDesign(scaled_by(design.base, np.delete(scale, design.ones)), design.ones)
    if isinstance(design, ScaledDesign):
        return ScaledDesign(design.base, design.center_, scale if design.scale_ is None else design.scale_ * scale)
    return ScaledDesign(design, None, scale)
