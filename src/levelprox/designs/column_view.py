"""Columns of X without a copy, and rows of X that are read at the first use.

`SelectedDesign` is X[:, W] for a W of which a copy would be too large: products go over all of X, Gram matrices over a
few rows at a time.

Files hold X row by row: reading a few columns costs as much as reading all. So a pass over the rows of a
`DeferredDesign` for some columns also copies those that are likely to be needed next into a `ColumnCache`, as far as
the given memory goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levelprox._kernels import DesignKernel
from levelprox._typing import Index, Vector
from levelprox.designs._base import Design, positions, vector
from levelprox.designs.dense import DenseDesign
from levelprox.designs.sparse import SparseDesign

_PIECE = 2**25  # bytes of X[:, W] that are copied at a time


class SelectedDesign(Design):
    """X[:, W] as a view of X.

    Parameters
    ----------
    base : Design
        X.
    W : array-like
        A mask of the features of X, or their indices in any order, repeats allowed.

    Notes
    -----
    `kernel`, for compiled loops, needs the copy, and makes it at first use.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox.designs import SelectedDesign, as_design
    >>> SelectedDesign(as_design(np.array([[1.0, 2.0, 3.0]])), [2, 0]).matvec([1.0, 1.0]).tolist()
    [4.0]
    """

    base: Design

    def __init__(self, base: Design, W: ArrayLike) -> None:
        self.base, self.chosen = base, positions("W", W, base.shape[1])
        self.shape = (base.shape[0], self.chosen.size)
        self.dtype = base.dtype
        self.nbytes = base.nbytes

    def __reduce__(self) -> tuple[type[SelectedDesign], tuple[Design, Index]]:
        return SelectedDesign, (self.base, self.chosen)

    @cached_property
    def kernel(self) -> DesignKernel:  # type: ignore[override]
        """The kernel of X in memory."""
        return self.copy().kernel

    def copy(self) -> Design:
        """X[:, W] with new arrays."""
        return self.base.columns(self.chosen)

    @property
    def stored(self) -> int:
        """How many entries are stored."""
        return self.base.stored_in(self.chosen)

    def matvec(self, x: Vector) -> Vector:  # type: ignore[override]
        """Return xx, of shape (n,); without a pass over X where x is 0."""
        spread = np.bincount(self.chosen, vector("x", x, self.shape[1]), self.base.shape[1])
        return self.base.matvec(spread)

    def rmatvec(self, r: Vector) -> Vector:  # type: ignore[override]
        """Return X'r, of shape (d,)."""
        return self.base.rmatvec(r)[self.chosen]

    def column_squares(self, weight: Vector | None = None) -> Vector:  # type: ignore[override]
        """Return Σ_i s_i X_ij² for every feature j, with s = `weight` or 1; of shape (d,)."""
        return self.base.column_squares(weight)[self.chosen]

    def row_squares(self) -> Vector:
        """Return Σ_j X_ij² for every sample i; of shape (n,)."""
        return np.concatenate([np.empty(0), *(piece.row_squares() for _, piece in self._pieces())])

    def column_magnitudes(self) -> Vector:
        """Return max_i |X_ij| of every feature j, or more; of shape (d,). Here ‖X_j‖."""
        return self.base.column_magnitudes()[self.chosen]

    def row_major(self) -> Design:
        """Return X stored row after row: itself where it is, else a copy."""
        return self.copy().row_major()

    def stored_in(self, chosen: Index) -> int:
        """Return how many entries of these columns are stored, repeats included."""
        return self.base.stored_in(self.chosen[chosen])

    def _gram(self, weight: Vector | None, known: int) -> Vector:
        gram = np.zeros((self.shape[1], self.shape[1]))
        for rows, piece in self._pieces():
            gram += piece._gram(None if weight is None else weight[rows], known)
        return gram

    def row_blocks(self) -> Iterator[tuple[slice, Design]]:
        """Return X in blocks of rows that stay in cache between two uses; itself where it has none."""
        return self._pieces()

    def _pieces(self) -> Iterator[tuple[slice, Design]]:
        n = self.shape[0]
        entry = self.base.nbytes / max(self.base.stored, 1)
        step = max(1, int(_PIECE / max(entry * self.stored / max(n, 1), 1.0)))
        for start in range(0, n, step):
            stop = min(n, start + step)
            yield slice(start, stop), self.base._piece(self.chosen, start, stop)

    def _piece(self, chosen: Index, begin: int, end: int) -> Design:
        return self.base._piece(self.chosen[chosen], begin, end)

    def _in_base(self, chosen: Index) -> Index:
        return self.chosen[chosen]

    def _rows(self, chosen: Index) -> Design:
        return self.base._rows(chosen)._columns(self.chosen)


class DeferredDesign(Design):
    """X whose size is known, and whose entries are read at first use.

    Parameters
    ----------
    shape : (int, int)
    dtype : dtype
    nbytes : int
        What it will be.
    read : callable
        X itself; called once.
    columns : callable
        Some of its columns: called with their indices and a callable that gives X, which it need not read where it has
        them at hand.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox.designs import DeferredDesign, as_design
    >>> X = as_design(np.eye(2))
    >>> later = DeferredDesign((2, 2), X.dtype, X.nbytes, lambda: X, lambda chosen, read: read().columns(chosen))
    >>> later.matvec([1.0, 2.0]).tolist()
    [1.0, 2.0]
    """

    copies_columns = True

    def __init__(
        self,
        shape: tuple[int, int],
        dtype: np.dtype[Any],
        nbytes: int,
        read: Callable[[], Design],
        columns: Callable[[Index, Callable[[], Design]], Design],
    ) -> None:
        self.shape, self.dtype, self.nbytes = shape, dtype, nbytes
        self._read, self._few = read, columns

    @cached_property
    def at_hand(self) -> Design:
        """X in memory: itself, unless it is yet to be read."""
        return self._read()

    @property
    def kernel(self) -> DesignKernel:  # type: ignore[override]
        """The kernel of X in memory."""
        return self.at_hand.kernel

    @property
    def stored(self) -> int:
        """How many entries are stored."""
        return self.at_hand.stored

    def column_magnitudes(self) -> Vector:
        """Return max_i |X_ij| of every feature j, or more; of shape (d,). Here ‖X_j‖."""
        return self.at_hand.column_magnitudes()

    def row_major(self) -> Design:
        """Return X stored row after row: itself where it is, else a copy."""
        return self.at_hand.row_major()

    def row_blocks(self) -> Iterator[tuple[slice, Design]]:
        """Return X in blocks of rows that stay in cache between two uses; itself where it has none."""
        return self.at_hand.row_blocks()

    def stored_in(self, chosen: Index) -> int:
        """Return how many entries of these columns are stored, repeats included."""
        return self.at_hand.stored_in(chosen)

    def _gram(self, weight: Vector | None, known: int) -> Vector:
        return self.at_hand._gram(weight, known)

    def _piece(self, chosen: Index, begin: int, end: int) -> Design:
        return self.at_hand._piece(chosen, begin, end)

    def _columns(self, chosen: Index) -> Design:
        if not chosen.size:
            return DenseDesign(np.empty((self.shape[0], 0), self.dtype))
        return self._few(chosen, lambda: self.at_hand)

    def _rows(self, chosen: Index) -> Design:
        return self.at_hand._rows(chosen)


class ColumnCache:
    """Columns of every chunk, within a number of bytes.

    Parameters
    ----------
    memory : int
        How many bytes may be kept.
    shares : ndarray of shape (n_chunks,)
        Which part of all data each chunk is.

    Attributes
    ----------
    likely : ndarray of int
        Features that may be needed next, most likely first.
    nbytes : int
        What is kept now, never more than `memory`.
    """

    def __init__(self, memory: int, shares: Vector) -> None:
        self.memory, self._shares = memory, shares
        self.likely: Index = np.empty(0, np.int64)
        self.nbytes = 0
        self._stock: dict[int, tuple[Index, Design]] = {}  # features in ascending order, and their columns
        self._current: dict[int, tuple[bytes, Design]] = {}  # those of the last request, if not all

    def columns(self, i: int, chosen: Index, read: Callable[[], Design], keep: bool) -> Design:
        """Columns of chunk i.

        Parameters
        ----------
        i : int
        chosen : ndarray of int64
            In any order.
        read : callable
            The whole chunk: only called where they are not kept.
        keep : bool
            Whether they will be needed again.
        """
        key, current = chosen.tobytes(), self._current.get(i)
        if current is not None and current[0] == key:
            return current[1]
        if not self.has(i, chosen):
            whole = read()
            if not (keep and self._take(i, chosen, whole)):
                return whole.view(chosen)
        if keep:
            self._trim(i, chosen)
        features, stock = self._stock[i]
        if np.array_equal(features, chosen):
            return stock
        part = stock.columns(np.searchsorted(features, chosen))
        if keep:
            self._drop_current(i)
            if self.nbytes + part.nbytes <= self.memory:
                self._current[i] = key, part
                self.nbytes += part.nbytes
        return part

    def has(self, i: int, chosen: Index) -> bool:
        """Whether these columns of chunk i are kept."""
        return i in self._stock and bool(np.all(np.isin(chosen, self._stock[i][0])))

    def _take(self, i: int, chosen: Index, whole: Design) -> bool:
        """Keep columns of chunk i, and likely ones besides; False where there is no room."""
        self._drop_current(i)
        if i in self._stock:
            self.nbytes -= self._stock.pop(i)[1].nbytes
        cost = _column_bytes(whole)
        wanted = np.unique(chosen)
        fixed = _fixed_bytes(whole)
        if self.nbytes + fixed + int(cost[wanted].sum()) > self.memory:
            return False
        # requested columns are cached twice if more is cached: once among all, once by themselves
        room = self.memory * float(self._shares[i]) - 2 * (fixed + float(cost[wanted].sum()))
        others = self.likely[~np.isin(self.likely, wanted)]
        others = others[: int(np.searchsorted(np.cumsum(cost[others]), room, side="right"))]
        features = np.union1d(wanted, others)
        if self.nbytes + fixed + int(cost[features].sum()) > self.memory:
            features = wanted
        columns = whole.columns(features)
        self._stock[i] = features, columns
        self.nbytes += columns.nbytes
        return True

    def _trim(self, i: int, chosen: Index) -> None:
        """If chunk i has more cached than its share, from an earlier request, make room for the others."""
        features, stock = self._stock[i]
        wanted = np.unique(chosen)
        if stock.nbytes > self.memory * float(self._shares[i]) and wanted.size < features.size:
            self._drop_current(i)
            fewer = stock.columns(np.searchsorted(features, wanted))
            self._stock[i] = wanted, fewer
            self.nbytes += fewer.nbytes - stock.nbytes

    def _drop_current(self, i: int) -> None:
        if i in self._current:
            self.nbytes -= self._current.pop(i)[1].nbytes


def _column_bytes(design: Design) -> NDArray[np.int64]:
    """Return what a copy of each column takes."""
    if isinstance(design, SparseDesign):
        counts = design._column_counts.astype(np.int64)
        return counts * (design.dtype.itemsize + design.indices.dtype.itemsize)
    return np.full(design.shape[1], design.shape[0] * design.dtype.itemsize, np.int64)


def _fixed_bytes(design: Design) -> int:
    """Return what a copy takes besides, however few columns it has."""
    return design.indptr.nbytes if isinstance(design, SparseDesign) else 0
