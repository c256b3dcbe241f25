"""Rows of X that are read when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from levelprox._kernels import DesignKernel
from levelprox._typing import Index, Vector
from levelprox.designs._base import Design
from levelprox.designs.dense import DenseDesign


class DeferredDesign(Design):
    """X, known by its size until somebody needs its entries.

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
    """

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
        return self._read()

    @property
    def kernel(self) -> DesignKernel:  # type: ignore[override]
        return self.at_hand.kernel

    @property
    def stored(self) -> int:
        return self.at_hand.stored

    def column_magnitudes(self) -> Vector:
        return self.at_hand.column_magnitudes()

    def row_major(self) -> Design:
        return self.at_hand.row_major()

    def row_blocks(self) -> Iterator[tuple[slice, Design]]:
        return self.at_hand.row_blocks()

    def stored_in(self, chosen: Index) -> int:
        return self.at_hand.stored_in(chosen)

    def _gram(self, weight: Vector | None) -> Vector:
        return self.at_hand._gram(weight)

    def _gram_beyond(self, weight: Vector | None, known: int) -> Vector:
        return self.at_hand._gram_beyond(weight, known)

    def _view(self, chosen: Index) -> Design:
        if chosen.size == self.shape[1] and np.array_equal(chosen, np.arange(chosen.size)):
            return self
        return self._columns(chosen)

    def _piece(self, chosen: Index, begin: int, end: int) -> Design:
        return self.at_hand._piece(chosen, begin, end)

    def _columns(self, chosen: Index) -> Design:
        if not chosen.size:
            return DenseDesign(np.empty((self.shape[0], 0), self.dtype))
        return self._few(chosen, lambda: self.at_hand)

    def _rows(self, chosen: Index) -> Design:
        return self.at_hand._rows(chosen)
