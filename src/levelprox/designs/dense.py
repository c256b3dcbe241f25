"""X as a NumPy array, read where it lies.

C and Fortran order are used in place, read-only arrays and memory maps included. Any other layout
(strided or reversed views, unaligned memory) is copied once, to C order.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse

from levelprox import _kernels
from levelprox.designs.base import Design, Index, Vector, check_finite, check_shape, real_values
from levelprox.designs.sparse import SparseDesign
from levelprox.validation import Array

_BLOCK = 2**22  # entries copied between two chances for Ctrl-C


class DenseDesign(Design):
    """A contiguous float32 or float64 array.

    Parameters
    ----------
    array : ndarray of shape (n, d)
        In C or Fortran order. It is not copied and must not change while the design is in use.

    See Also
    --------
    levelprox.designs.as_design : Accepts and checks everything a user may bring.
    """

    def __init__(self, array: Array) -> None:
        self.array = array
        self.kernel = _kernels.Dense(array)
        self.shape = self.kernel.shape
        self.dtype = array.dtype
        self.nbytes = array.nbytes

    def __reduce__(self) -> tuple[type[DenseDesign], tuple[Array]]:
        return DenseDesign, (self.array,)

    @classmethod
    def from_array(cls, X: object) -> DenseDesign:
        """Check `X`, an array or what NumPy makes one of, and convert it where it cannot be used in place."""
        array = real_values(X)
        check_shape(array.shape)
        if not (array.flags.aligned and (array.flags.c_contiguous or array.flags.f_contiguous)):
            array = np.array(array, order="C")
        design = cls(array)
        check_finite(design.kernel)
        return design

    @property
    def stored(self) -> int:
        return int(self.array.size)

    def row_major(self) -> Design:
        if self.kernel.by_rows:
            return self
        if self.shape[1] == 1:  # to the kernels one column is one long slice, in whatever order
            return SparseDesign.from_scipy(scipy.sparse.csr_array(self.array))
        return DenseDesign(np.ascontiguousarray(self.array))

    def _columns(self, chosen: Index) -> DenseDesign:
        return DenseDesign(_take(self.array, chosen, axis=1))

    def _rows(self, chosen: Index) -> DenseDesign:
        return DenseDesign(_take(self.array, chosen, axis=0))

    def _gram(self, weight: Vector | None) -> Vector:
        # S'S - R'R, where the rows of S and R are those of X with D > 0 and D < 0, times sqrt|D|. Both
        # products are symmetric, so BLAS computes half of each, in its own order of summation.
        gram = np.zeros((self.shape[1], self.shape[1]))
        with np.errstate(over="ignore", invalid="ignore"):
            for sign, rows in self._blocks(weight):
                block = self.array[rows].astype(np.float64, copy=False)
                if weight is not None:
                    block = block * np.sqrt(sign * weight[rows])[:, None]
                gram += sign * (block.T @ block)
        return gram

    def _blocks(self, weight: Vector | None) -> Iterator[tuple[float, slice | Index]]:
        """Rows of one sign of the weight, as many as BLAS wants and Ctrl-C allows."""
        n, d = self.shape
        step = max(1, min(_BLOCK // max(d, 1), max(128, 2**33 // max(d, 1) ** 2)))
        if weight is None:
            yield from ((1.0, slice(start, start + step)) for start in range(0, n, step))
            return
        for sign in (1.0, -1.0):
            rows = np.flatnonzero(sign * weight > 0)
            yield from ((sign, rows[start : start + step]) for start in range(0, rows.size, step))


def _take(array: Array, chosen: Index, axis: int) -> Array:
    """`array` along `axis` at the chosen places, in the order of storage of `array`."""
    if not array.flags.c_contiguous:
        return _take(array.T, chosen, 1 - axis).T
    n, d = (chosen.size, array.shape[1]) if axis == 0 else (array.shape[0], chosen.size)
    out = np.empty((n, d), dtype=array.dtype)
    step = max(1, _BLOCK // max(d, 1))
    for start in range(0, n, step):
        rows = slice(start, start + step)
        # The places are in range; "clip" only spares NumPy a buffer that "raise" would need.
        if axis == 0:
            np.take(array, chosen[rows], axis=0, out=out[rows], mode="clip")
        else:
            np.take(array[rows], chosen, axis=1, out=out[rows], mode="clip")
    return out
