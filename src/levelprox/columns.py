"""Columns of A, kept from one use to the next: sets of features that differ in one share all others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from levelprox.objectives import Model

Vector = NDArray[np.float64]
Features = NDArray[np.intp]

_KEPT = 2**25  # numbers
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
    """How margins change with each coordinate of a feature.

    Parameters
    ----------
    objective : Model
        ψ(x) = F(Ax + o).
    """

    def __init__(self, objective: Model) -> None:
        self.objective = objective
        self.known: dict[int, list[Column]] = {}
        self.kept, self._size = 0, objective.n_margins * objective.width  # of numbers: now, and at most for a feature

    def __call__(self, features: Features) -> list[Column]:
        """A·e for each coordinate of these features, in their order."""
        wanted = features.tolist()
        missing = [j for j in wanted if j not in self.known]
        if missing and self.kept + len(missing) * self._size > _KEPT:
            self.known.clear()
            self.kept, missing = 0, wanted
        if missing:
            self._look_up(missing)
        return [column for j in wanted for column in self.known[j]]

    def moves(self, features: Features) -> list[Vector]:
        """The same, as changes of the margins."""
        n = self.objective.n_margins
        return [column.dense(n) for column in self(features)]

    def fit_in(self, features: Features) -> bool:
        """Whether the columns of so many features can be kept at all."""
        return features.size * self._size <= _KEPT

    def _look_up(self, missing: list[int]) -> None:
        part, width = self.objective.restrict(np.array(missing, np.intp)), self.objective.width
        units = np.eye(part.dimension)
        for place, j in enumerate(missing):
            mine = units[place * width : (place + 1) * width]
            self.known[j] = [Column.of(part.moved(unit)) for unit in mine]
            self.kept += sum(column.values.size for column in self.known[j])
