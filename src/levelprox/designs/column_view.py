"""Some columns of X, read in place.

X[:, W] without a copy of the data, for when the copy would be too large: products go over all of X, Gram matrices
over a few rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from levelprox._kernels import DesignKernel
from levelprox._typing import Index, Vector
from levelprox.designs._base import Design, positions, vector

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

    def __init__(self, base: Design, W: ArrayLike) -> None:
        self.base, self.chosen = base, positions("W", W, base.shape[1])
        self.shape = (base.shape[0], self.chosen.size)
        self.dtype = base.dtype
        self.nbytes = base.nbytes

    def __reduce__(self) -> tuple[type[SelectedDesign], tuple[Design, Index]]:
        return SelectedDesign, (self.base, self.chosen)

    @cached_property
    def kernel(self) -> DesignKernel:  # type: ignore[override]
        return self.copy().kernel

    def copy(self) -> Design:
        """X[:, W] with arrays of its own."""
        return self.base.columns(self.chosen)

    @property
    def stored(self) -> int:
        return self.base.stored_in(self.chosen)

    def matvec(self, x: Vector) -> Vector:  # type: ignore[override]
        spread = np.bincount(self.chosen, vector("x", x, self.shape[1]), self.base.shape[1])
        return self.base.matvec(spread)

    def rmatvec(self, r: Vector) -> Vector:  # type: ignore[override]
        return self.base.rmatvec(r)[self.chosen]

    def column_squares(self, weight: Vector | None = None) -> Vector:  # type: ignore[override]
        return self.base.column_squares(weight)[self.chosen]

    def row_squares(self) -> Vector:
        return np.concatenate([np.empty(0), *(piece.row_squares() for _, piece in self._pieces())])

    def column_magnitudes(self) -> Vector:
        return self.base.column_magnitudes()[self.chosen]

    def row_major(self) -> Design:
        return self.copy().row_major()

    def stored_in(self, chosen: Index) -> int:
        return self.base.stored_in(self.chosen[chosen])

    def _gram(self, weight: Vector | None) -> Vector:
        return self._gram_beyond(weight, 0)

    def _gram_beyond(self, weight: Vector | None, known: int) -> Vector:
        gram = np.zeros((self.shape[1], self.shape[1]))
        for rows, piece in self._pieces():
            gram += piece._gram_beyond(None if weight is None else weight[rows], known)
        return gram

    def row_blocks(self) -> Iterator[tuple[slice, Design]]:
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

    def _columns(self, chosen: Index) -> Design:
        return self.base._columns(self.chosen[chosen])

    def _view(self, chosen: Index) -> Design:
        return self.base._view(self.chosen[chosen])

    def _rows(self, chosen: Index) -> Design:
        return self.base._rows(chosen)._columns(self.chosen)
