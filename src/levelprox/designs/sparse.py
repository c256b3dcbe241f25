"""X as the three arrays of a CSR or CSC matrix, read in place.

Slice s (a row of CSR, a column of CSC) holds data[p] at indices[p] for indptr[s] ≤ p < indptr[s+1],
in any order. Data and indices, int32 or int64, are used in place; so is indptr, if it is int64. Other
formats are converted to CSR. An entry stored in several parts means their sum, which is formed in a
copy: the user's matrix is never touched.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

import levelprox._kernels as _kernels
from levelprox._typing import FloatArray, Index, Names, Vector
from levelprox._validation import real_values
from levelprox.designs._base import Design, check_finite, check_shape
from levelprox.exceptions import InvalidInputError

_PIECE = 2**23  # entries of a CSC matrix that are turned into CSR at a time
_BLOCK = 2**18  # entries that are checked at a time
_PANEL = 16  # columns of a dense tile
_DENSE = 0.25  # rows with this share of entries are cheaper as dense tiles than pair by pair


class SparseDesign(Design):
    """A CSR or CSC matrix without repeated entries.

    Parameters
    ----------
    data, indices, indptr : ndarray
        float32 or float64, int32 or int64, and int64. They are not copied and must not change
        while the design is in use.
    shape : (int, int)
        Samples n and features d.
    by_rows : bool
        CSR if true, CSC if not.

    Raises
    ------
    InvalidInputError
        If the arrays contradict each other or the shape.

    See Also
    --------
    levelprox.designs.as_design : Accepts and checks everything a user may bring.

    Examples
    --------
    >>> import scipy.sparse
    >>> from levelprox.designs import as_design
    >>> X = as_design(scipy.sparse.csr_array([[0.0, 2.0], [1.0, 0.0]]))
    >>> X.stored, X.matvec([1.0, 1.0]).tolist()
    (2, [2.0, 1.0])
    """

    def __init__(
        self,
        data: FloatArray,
        indices: NDArray[np.signedinteger[Any]],
        indptr: NDArray[np.int64],
        shape: tuple[int, int],
        by_rows: bool,
    ) -> None:
        self.data, self.indices, self.indptr = data, indices, indptr
        self.by_rows = by_rows
        self.shape = shape
        self.dtype = data.dtype
        self.nbytes = data.nbytes + indices.nbytes + indptr.nbytes
        try:
            self.kernel: _kernels.Sparse = _kernels.Sparse(data, indices, indptr, *shape, by_rows)
        except ValueError as error:
            raise InvalidInputError(f"X is not a valid {'CSR' if by_rows else 'CSC'} matrix: {error}") from None

    def __reduce__(self) -> tuple[type[SparseDesign], tuple[Any, ...]]:
        return SparseDesign, (self.data, self.indices, self.indptr, self.shape, self.by_rows)

    @classmethod
    def from_scipy(cls, X: Any, names: Names | None = None) -> SparseDesign:
        """Check `X`, sparse in any format of SciPy's, and convert it where it cannot be used in place."""
        check_shape(X.shape)
        by_rows = X.format != "csc"
        if X.format not in ("csr", "csc"):
            X = _to_csr(X)
        data = np.ascontiguousarray(real_values(X.data))
        indices, indptr = _integers("indices", X.indices), _integers("indptr", X.indptr).astype(np.int64, copy=False)
        design = cls(data, indices, indptr, X.shape, by_rows)
        if design.kernel.has_duplicates():
            design = design._summed()
        check_finite(design.kernel, names)
        return design

    @property
    def stored(self) -> int:
        """How many entries are stored."""
        return int(self.indptr[-1])

    def column_magnitudes(self) -> Vector:
        """Return max_i |X_ij| of every feature j, or more; of shape (d,). Here ‖X_j‖."""
        largest = np.zeros(self.shape[1])
        for begin in range(0, self.stored, _BLOCK):  # a copy of all entries would be one of X
            part = slice(begin, min(begin + _BLOCK, self.stored))
            values = np.abs(self.data[part]).astype(np.float64, copy=False)
            if self.by_rows:
                columns = self.indices[part]
            else:
                columns = np.searchsorted(self.indptr, np.arange(part.start, part.stop), side="right") - 1
            np.maximum.at(largest, columns, values)
        return largest

    def _absolute_matvec(self, sizes: Vector) -> Vector:
        return SparseDesign(np.abs(self.data), self.indices, self.indptr, self.shape, self.by_rows).matvec(sizes)

    def each_column(self) -> Iterator[Vector]:
        """Yield the columns, of shape (n,), one after another; rows are read once for all of them."""
        by_columns = self._by_columns()
        for first, last in pairwise(by_columns.indptr.tolist()):
            column = np.zeros(self.shape[0])
            column[by_columns.indices[first:last]] = by_columns.data[first:last]
            yield column

    def _by_columns(self) -> Any:
        return self._scipy().tocsc()

    def row_major(self) -> SparseDesign:
        """Return X stored row after row: itself where it is, else a copy."""
        return self if self.by_rows else self._piece(np.arange(self.shape[1]), 0, self.shape[0])

    def stored_in(self, chosen: Index) -> int:
        """Return how many entries of these columns are stored, repeats included."""
        return int(self._column_counts[chosen].sum())

    def stored_shares(self) -> Vector:
        """Return the share of the entries of each column that is stored; of shape (d,)."""
        return self._column_counts / self.shape[0]

    @cached_property
    def _column_counts(self) -> NDArray[np.integer[Any]]:
        """Stored entries of every column."""
        if not self.by_rows:
            return np.diff(self.indptr)
        counts = np.empty(self.shape[1])
        self.kernel.column_counts(counts)
        return counts.astype(np.uint32 if self.shape[0] < 2**32 else np.int64)  # kept: small, where d is large

    @cached_property
    def _is_sorted(self) -> bool:
        """Whether indices ascend in every slice."""
        return self.kernel.is_sorted()

    def row_blocks(self) -> Iterator[tuple[slice, Design]]:
        """Return X in blocks of rows that stay in cache between two uses; itself where it has none."""
        return iter(self._row_blocks)

    @cached_property
    def _row_blocks(self) -> list[tuple[slice, Design]]:
        n, step = self.shape[0], self._cached_rows()
        if not self.by_rows or step >= n:
            return list(super().row_blocks())
        blocks: list[tuple[slice, Design]] = []
        for begin in range(0, n, step):
            rows = slice(begin, min(n, begin + step))
            first, last = self.indptr[rows.start], self.indptr[rows.stop]
            indptr, shape = self.indptr[begin : rows.stop + 1] - first, (rows.stop - begin, self.shape[1])
            blocks.append((rows, SparseDesign(self.data[first:last], self.indices[first:last], indptr, shape, True)))
        return blocks

    def _columns(self, chosen: Index) -> SparseDesign:
        arrays = self.kernel.select_columns(chosen)
        return SparseDesign(*arrays, (self.shape[0], chosen.size), self.by_rows)

    def _rows(self, chosen: Index) -> SparseDesign:
        arrays = self.kernel.select_rows(chosen)
        return SparseDesign(*arrays, (chosen.size, self.shape[1]), self.by_rows)

    def _piece(self, chosen: Index, begin: int, end: int) -> SparseDesign:
        arrays = self.kernel.select_piece(chosen, begin, end, not self.by_rows and self._is_sorted)
        return SparseDesign(*arrays, (end - begin, chosen.size), True)

    def _gram(self, weight: Vector | None, known: int) -> Vector:
        n, d = self.shape
        weight = np.ones(n) if weight is None else weight
        if not self.by_rows:
            return self._gram_of_pieces(weight, known)
        per_row = np.diff(self.indptr)
        width = float(-(-d // _PANEL) * _PANEL)
        dense = float(np.sum(np.square(per_row, out=per_row))) >= _DENSE**2 * n * width**2
        gram = np.zeros((d, d))
        self.kernel.gram(weight, known, dense, gram)
        return gram

    def _gram_of_pieces(self, weight: Vector, known: int) -> Vector:
        """Return the Gram matrix of a CSC matrix, some rows at a time turned into CSR."""
        n, d = self.shape
        step = max(1, n if self.stored <= _PIECE else int(n * (_PIECE / self.stored)))
        gram = np.zeros((d, d))
        for start in range(0, n, step):
            stop = min(n, start + step)
            gram += self._piece(np.arange(d), start, stop)._gram(weight[start:stop], known)
        return gram

    def _summed(self) -> SparseDesign:
        copy = self._scipy().copy()
        copy.sum_duplicates()
        return SparseDesign._of(copy, self.by_rows)

    def _scipy(self) -> Any:
        build = scipy.sparse.csr_array if self.by_rows else scipy.sparse.csc_array
        return build((self.data, self.indices, self.indptr), shape=self.shape)

    @classmethod
    def _of(cls, X: Any, by_rows: bool) -> SparseDesign:
        return cls(X.data, X.indices, X.indptr.astype(np.int64), X.shape, by_rows)


def _integers(name: str, value: ArrayLike) -> NDArray[np.signedinteger[Any]]:
    array = np.ascontiguousarray(value)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise InvalidInputError(
            f"X.{name} must be a 1-D array of integers, got dtype {array.dtype} and shape {array.shape}"
        )
    return array if array.dtype in (np.int32, np.int64) else array.astype(np.int64)


def _to_csr(X: Any) -> Any:
    """COO, DIA, BSR, LIL or DOK as CSR.

    The values become floats first, so that repeated entries of a narrow integer type add up without
    overflow, and a new matrix around them checks the indices, which SciPy would otherwise trust.
    """
    values = X if X.format in ("lil", "dok") else real_values(X.data)
    try:
        if X.format == "coo":
            X = scipy.sparse.coo_array((values, (X.row, X.col)), shape=X.shape)
        elif X.format == "dia":
            X = scipy.sparse.dia_array((values, X.offsets), shape=X.shape)
        elif X.format == "bsr":
            X = scipy.sparse.bsr_array((values, X.indices, X.indptr), shape=X.shape)
            X.check_format(full_check=True)
        return X.tocsr()
    except ValueError as error:
        raise InvalidInputError(f"X is not a valid {X.format.upper()} matrix: {error}") from None
