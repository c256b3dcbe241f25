"""X as a NumPy array, read in place.

C and Fortran order are used in place, read-only arrays and memory maps included. Any other layout
(strided or reversed views, unaligned memory) is copied once, to C order.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse

import levelprox._kernels as _kernels
from levelprox._typing import FloatArray, Index, Names, Vector
from levelprox._validation import real_values
from levelprox.designs._base import Design, check_finite, check_shape, is_dask, library_of
from levelprox.designs.sparse import SparseDesign
from levelprox.exceptions import InvalidInputError


class DenseDesign(Design):
    """A contiguous float32 or float64 array.

    Parameters
    ----------
    array : ndarray of shape (n, d)
        In C or Fortran order. It is not copied and must not change while the design is in use.

    See Also
    --------
    levelprox.designs.as_design : Accepts and checks everything a user may bring.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox.designs import DenseDesign
    >>> DenseDesign(np.eye(3, dtype=np.float32)).column_squares().tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(self, array: FloatArray) -> None:
        self.array = array
        self.kernel: _kernels.Dense = _kernels.Dense(array)
        self.shape = self.kernel.shape
        self.dtype = array.dtype
        self.nbytes = array.nbytes

    def __reduce__(self) -> tuple[type[DenseDesign], tuple[FloatArray]]:
        return DenseDesign, (self.array,)

    @classmethod
    def from_array(cls, X: object, names: Names | None = None) -> DenseDesign:
        """Check `X`, an array or what NumPy makes one of, and convert it where it cannot be used in place."""
        array = real_values(X)
        check_shape(array.shape)
        if not (array.flags.aligned and (array.flags.c_contiguous or array.flags.f_contiguous)):
            array = np.array(array, order="C")
        design = cls(array)
        check_finite(design.kernel, names)
        return design

    @property
    def stored(self) -> int:
        """How many entries are stored."""
        return int(self.array.size)

    def column_magnitudes(self) -> Vector:
        """Return max_i |X_ij| of every feature j, or more; of shape (d,). Here ‖X_j‖."""
        low, high = np.min(self.array, axis=0), np.max(self.array, axis=0)
        return np.asarray(np.maximum(-low, high), np.float64)

    def _absolute_matvec(self, sizes: Vector) -> Vector:
        return np.asarray(np.sum(np.abs(self.array) * sizes, axis=1), np.float64)

    def row_major(self) -> Design:
        """Return X stored row after row: itself where it is, else a copy."""
        if self.kernel.by_rows:
            return self
        if self.shape[1] == 1:  # to the kernels one column is one long slice, in any order
            return SparseDesign.from_scipy(scipy.sparse.csr_array(self.array))
        return DenseDesign(np.ascontiguousarray(self.array))

    def each_column(self) -> Iterator[Vector]:
        """Yield the columns, of shape (n,), one after another."""
        return (column.astype(np.float64) for column in self.array.T)

    def row_blocks(self) -> Iterator[tuple[slice, Design]]:
        """Return X in blocks of rows that stay in cache between two uses; itself where it has none."""
        step = self._cached_rows()
        if not self.kernel.by_rows or step >= self.shape[0]:
            yield from super().row_blocks()
            return
        for begin in range(0, self.shape[0], step):
            rows = slice(begin, min(self.shape[0], begin + step))
            yield rows, DenseDesign(self.array[rows])

    def _columns(self, chosen: Index) -> DenseDesign:
        return DenseDesign(self._taken(chosen, axis=1))

    def _rows(self, chosen: Index) -> DenseDesign:
        return DenseDesign(self._taken(chosen, axis=0))

    def stored_in(self, chosen: Index) -> int:
        """Return how many entries of these columns are stored, repeats included."""
        return self.shape[0] * chosen.size

    def _piece(self, chosen: Index, begin: int, end: int) -> DenseDesign:
        if self.kernel.by_rows:
            out = np.empty((end - begin, chosen.size), dtype=self.dtype)
            self.kernel.take_within(chosen, begin, out)
            return DenseDesign(out)
        return DenseDesign(np.asfortranarray(self.array[begin:end][:, chosen]))

    def _gram(self, weight: Vector | None, known: int) -> Vector:
        gram = np.zeros((self.shape[1], self.shape[1]))
        self.kernel.gram(np.ones(self.shape[0]) if weight is None else weight, known, gram)
        return gram

    def _taken(self, chosen: Index, axis: int) -> FloatArray:
        """X along `axis` at the chosen places, in the order of storage of X."""
        by_rows = self.kernel.by_rows
        along = (axis == 0) == by_rows
        count, length = self.shape if by_rows else self.shape[::-1]
        out = np.empty((chosen.size, length) if along else (count, chosen.size), dtype=self.dtype)
        if along:
            self.kernel.take_slices(chosen, out)
        else:
            self.kernel.take_within(chosen, 0, out)
        return out if by_rows else out.T


def as_design(X: object, names: Names | None = None) -> Design:
    """Turn `X` into a design, in place wherever its layout allows.

    Parameters
    ----------
    X : Design, array-like or SciPy sparse matrix or array
        The samples in rows, the features in columns. A design is returned as it is.
    names : sequence of str, optional
        What an error calls the columns, besides their number.

    Returns
    -------
    Design

    Raises
    ------
    InvalidInputError
        If `X` is not a non-empty, two-dimensional, finite matrix of real numbers, or if it is a
        sparse matrix whose arrays contradict each other.

    Examples
    --------
    >>> import scipy.sparse
    >>> from levelprox.designs import as_design
    >>> as_design([[1, 2], [3, 4]]), as_design(scipy.sparse.eye_array(2, format="csr"))
    (DenseDesign(shape=(2, 2), dtype=float64), SparseDesign(shape=(2, 2), dtype=float64))
    """
    if isinstance(X, Design):
        return X
    if is_dask(X) or library_of(X) in ("cupy", "cupyx"):
        raise InvalidInputError(
            f"X is {type(X).__module__}.{type(X).__name__}, and would have to be copied into memory as a whole: "
            "linear_model(X, b, …) makes a model of it where it is, and estimators take it as it is"
        )
    if scipy.sparse.issparse(X):
        return SparseDesign.from_scipy(X, names)
    return DenseDesign.from_array(X, names)
