"""Columns of A, kept from one use to the next: sets of features that differ in one share all others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from levelprox.objectives import LinearModel, Model
from levelprox.objectives._multiclass import ByClass

Vector = NDArray[np.float64]
Features = NDArray[np.intp]

_KEPT = 2**25  # numbers, or
_SHARE, _FEW = 5, 2**23  # the part of those that are stored of A, where that is less but not few
_MANY = 1024  # columns: fits over more of them take long, and their Hessians much memory
_SPARSE = 1 / 8  # of the samples: columns with fewer entries are kept as such


@dataclass(frozen=True, eq=False)
class Column:
    """How margins change with a coordinate.

    Attributes
    ----------
    values : ndarray
        Of shape (n,), or (n, width) where a feature has several coefficients; or those entries that are not zero.
    rows : ndarray of int64, optional
        Where these are.
    """

    values: Vector
    rows: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, move: Vector) -> Column:
        rows = np.flatnonzero(move) if move.ndim == 1 else np.arange(move.shape[0])
        return cls(move[rows], rows.astype(np.int64)) if rows.size < _SPARSE * move.shape[0] else cls(move)

    def dense(self, n: int) -> Vector:
        if self.rows is None:
            return self.values
        move = np.zeros(n)
        move[self.rows] = self.values
        return move


class Columns:
    """How margins of the samples change with each coordinate of a feature.

    Parameters
    ----------
    objective : Model
        ψ(x) = F(Ax + o).
    """

    def __init__(self, objective: Model) -> None:
        self.objective = objective
        self.known: dict[int, list[Column]] = {}
        self.kept, self._size = 0, objective.n_margins * objective.width  # of numbers: now, and at most for a feature
        self._most = min(_KEPT, max(_FEW, objective.design.stored // _SHARE))

    def __call__(self, features: Features) -> list[Column]:
        """A·e for each coordinate of these features, in their order."""
        wanted = features.tolist()
        missing = [j for j in wanted if j not in self.known]
        for j in wanted:
            if j in self.known:  # the last ones used are the last ones to go
                self.known[j] = self.known.pop(j)
        if missing:
            self._make_room(set(wanted), len(missing) * self._size)
            self._look_up(missing)
        return [column for j in wanted for column in self.known[j]]

    def forget(self) -> None:
        """Let go of all columns: of many samples they take much memory, and can be looked up again."""
        self.known.clear()
        self.kept = 0

    def moves(self, features: Features) -> Iterator[Vector]:
        """The same, as changes of the margins: one at a time, for all at once may be more than there is room for."""
        if not self.fit_in(features):
            yield from _moves(self.objective.restrict(features))
            return
        n, width = self.objective.n_margins, self.objective.width
        moves = (column.dense(n) for column in self(features))
        if not isinstance(self.objective, LinearModel | ByClass) or self.objective.ridge is None:
            yield from moves
            return
        part = self.objective.restrict(features)
        for move, unit in zip(moves, _units(features.size * width), strict=True):
            yield part.with_tail(move, unit)

    def fit_in(self, features: Features) -> bool:
        """Whether these are few features, whose columns can be kept."""
        return features.size <= _MANY and features.size * self._size <= self._most

    def _make_room(self, wanted: set[int], numbers: int) -> None:
        """Forget columns that were not used for the longest time, until there is room."""
        if self.kept + numbers <= self._most:
            return
        for j in [j for j in self.known if j not in wanted]:
            if self.kept + numbers <= self._most:
                return
            self.kept -= sum(column.values.size for column in self.known.pop(j))

    def _look_up(self, missing: list[int]) -> None:
        width, moves = self.objective.width, self._moves_of_samples(np.array(missing, np.intp))
        for j in missing:
            self.known[j] = [Column.of(move) for move in islice(moves, width)]
            self.kept += sum(column.values.size for column in self.known[j])

    def _moves_of_samples(self, features: Features) -> Iterator[Vector]:
        """How margins of the samples move with each coordinate of these features."""
        if isinstance(self.objective, LinearModel):
            design = self.objective.design.view(features)
            yield from (design.matvec(unit) for unit in _units(features.size))
            return
        part = self.objective.restrict(features)
        yield from (_of_samples(part, move) for move in _moves(part))


def _of_samples(part: Model, move: Vector) -> Vector:
    return part.of_samples(move) if isinstance(part, LinearModel | ByClass) else move


def _moves(part: Model) -> Iterator[Vector]:
    """How margins move with each coordinate; with several classes one product serves all coordinates of a feature."""
    if not isinstance(part, ByClass):
        yield from (part.moved(unit) for unit in _units(part.dimension))
        return
    n, width = part.design.shape[0], part.width
    classes = np.tile(np.arange(width), part.dimension // width)
    for unit in _units(part.dimension // width):
        column = part.design.matvec(unit)
        for k in range(width):
            move = np.zeros((n, width), order=part.margin_order)
            move[:, k] = column
            yield move if part.ridge is None else part.with_tail(move, np.repeat(unit, width) * (classes == k))


def _units(dimension: int) -> Iterator[Vector]:
    """The unit vectors, one after another; each is gone when the next one comes."""
    unit = np.zeros(dimension)
    for i in range(dimension):
        unit[i] = 1.0
        yield unit
        unit[i] = 0.0
