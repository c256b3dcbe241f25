"""X whose rows are few different ones, as those of a few columns of categories are.

Products are those of the different rows, and the sums of equal samples: a Gram matrix over 20 binary columns of 32,561
samples takes the work of a few hundred.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from levelprox._kernels import DesignKernel
from levelprox._typing import Index, Vector
from levelprox.designs._base import Design, vector
from levelprox.designs.intercept import InterceptDesign
from levelprox.designs.scaled import ScaledDesign
from levelprox.designs.sparse import SparseDesign

_LEAST_ROWS = 1000  # among which equal ones are worth looking for
_LEAST_REPEATS = 4  # of each row on average


class RepeatedRows(Design):
    """X = D[group], by the different rows D.

    Parameters
    ----------
    distinct : Design
        D.
    group : ndarray of int64 of shape (n,)
        Which row of D each row of X is.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox.designs import RepeatedRows, as_design
    >>> X = RepeatedRows(as_design(np.eye(2)), np.array([0, 1, 0]))
    >>> X.matvec([1.0, 2.0]).tolist(), X.gram().tolist()
    ([1.0, 2.0, 1.0], [[2.0, 0.0], [0.0, 1.0]])
    """

    def __init__(self, distinct: Design, group: Index) -> None:
        self.distinct, self.group = distinct, group
        self.shape = (group.size, distinct.shape[1])
        self.dtype = distinct.dtype
        self.nbytes = distinct.nbytes + group.nbytes

    def __reduce__(self) -> tuple[type[RepeatedRows], tuple[Design, Index]]:
        return RepeatedRows, (self.distinct, self.group)

    @cached_property
    def kernel(self) -> DesignKernel:  # type: ignore[override]
        """The kernel of X with all of its rows, which are copied."""
        return self.distinct.rows(self.group).kernel

    @property
    def stored(self) -> int:
        """How many entries are stored."""
        return self.distinct.stored

    def stored_in(self, chosen: Index) -> int:
        """Return how many entries of these columns are stored, repeats included."""
        return self.distinct.stored_in(chosen)

    def _sums(self, weight: Vector) -> Vector:
        """Return the sum over the samples of each row of D."""
        return np.asarray(np.bincount(self.group, weight, self.distinct.shape[0]), np.float64)

    def matvec(self, x: ArrayLike) -> Vector:
        """Return Xx, of shape (n,)."""
        return self.distinct.matvec(x)[self.group]

    def rmatvec(self, r: ArrayLike) -> Vector:
        """Return X'r, of shape (d,)."""
        return self.distinct.rmatvec(self._sums(vector("r", r, self.shape[0])))

    def column_squares(self, weight: ArrayLike | None = None) -> Vector:
        """Return Σ_i s_i X_ij² for every feature j, with s = `weight` or 1; of shape (d,)."""
        return self.distinct.column_squares(self._sums(self._weight("weight", weight)))

    def row_squares(self) -> Vector:
        """Return Σ_j X_ij² for every sample i; of shape (n,)."""
        return self.distinct.row_squares()[self.group]

    def row_magnitudes(self, x: ArrayLike) -> Vector:
        """Return Σ_j |X_ij x_j|, to which the rounding of Xx is proportional; of shape (n,)."""
        return self.distinct.row_magnitudes(x)[self.group]

    def column_magnitudes(self) -> Vector:
        """Return max_i |X_ij| of every feature j, or more; of shape (d,)."""
        return self.distinct.column_magnitudes()

    def row_major(self) -> Design:
        """Return X stored row after row, with all of its rows."""
        return self.distinct.rows(self.group).row_major()

    def _gram(self, weight: Vector | None, known: int) -> Vector:
        return self.distinct._gram(self._sums(np.ones(self.shape[0]) if weight is None else weight), known)

    def _columns(self, chosen: Index) -> Design:
        return RepeatedRows(self.distinct._columns(chosen), self.group)

    def _rows(self, chosen: Index) -> Design:
        return self.distinct.rows(self.group[chosen])


def by_distinct_rows(design: Design) -> Design:
    """Return X by its different rows, where it is stored as CSR and these are few; else X itself.

    Products with it take less time, and differ in their last digits.
    """
    if isinstance(design, InterceptDesign | ScaledDesign):
        base = by_distinct_rows(design.base)
        return design if base is design.base else design._around(base, np.arange(design.shape[1]))
    n = design.shape[0]
    if not (isinstance(design, SparseDesign) and design.by_rows and n >= _LEAST_ROWS):
        return design
    group, first = np.empty(n, np.int64), np.empty(n // _LEAST_REPEATS, np.int64)
    count = design.kernel.equal_slices(group, first)
    return design if count < 0 else RepeatedRows(design.rows(first[:count]), group)
