"""Columns of chunks that are kept in memory, so that files are not read again for a few features.

Files hold X row after row: reading a few columns costs as much as reading all. So while rows pass by for the columns
that are asked for, those that may be asked for next are taken along, as far as the memory goes that was granted.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import Index, Vector
from levelprox.designs._base import Design
from levelprox.designs.sparse import SparseDesign


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
        Features that may be asked for next, most likely first.
    nbytes : int
        What is kept now, never more than `memory`.
    """

    def __init__(self, memory: int, shares: Vector) -> None:
        self.memory, self._shares = memory, shares
        self.likely: Index = np.empty(0, np.int64)
        self.nbytes = 0
        self._stock: dict[int, tuple[Index, Design]] = {}  # features in ascending order, and their columns
        self._current: dict[int, tuple[bytes, Design]] = {}  # those that were asked for last, where they are not all

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
            Whether they will be asked for again.
        """
        key, current = chosen.tobytes(), self._current.get(i)
        if current is not None and current[0] == key:
            return current[1]
        if not self.has(i, chosen):
            whole = read()
            if not (keep and self._take(i, chosen, whole)):
                return whole._view(chosen)
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
        # what is asked for is kept twice where more is kept: once among all, once by itself
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
        """Where more is kept of chunk i than its share, from when more was asked for, leave room for the others."""
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
    """What a copy of each column takes."""
    if isinstance(design, SparseDesign):
        counts = design._column_counts.astype(np.int64)
        return counts * (design.dtype.itemsize + design.indices.dtype.itemsize)
    return np.full(design.shape[1], design.shape[0] * design.dtype.itemsize, np.int64)


def _fixed_bytes(design: Design) -> int:
    """What a copy takes besides, however few columns it has."""
    return design.indptr.nbytes if isinstance(design, SparseDesign) else 0
