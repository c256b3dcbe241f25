"""A cache of columns of A, and results shared by searches of the same data for different k.

Sets of features that differ in one feature share all other columns. Null fit, columns, models and paths do not depend
on k: they are kept with the design and are freed with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, cast

import numpy as np

import levelprox._kernels as _kernels
from levelprox._typing import Features, Index, Matrix, Vector
from levelprox.certificate.null_model import NullFit
from levelprox.designs import DenseDesign, SparseDesign
from levelprox.objectives import LinearModel, Model
from levelprox.objectives.multiclass import ByClass
from levelprox.problem import FeatureProblem

_KEPT_NUMBERS = 2**25  # of all columns that are kept, at most, or
_STORED_DIVISOR, _LEAST_KEPT_NUMBERS = 5, 2**23  # the numbers stored of A by this divisor, but at least so many
_FEW_NUMBERS = 2**21  # of columns that need not make room
_KEPT_HESSIAN_NUMBERS = 2**25  # of columns of the Hessian
_PREFETCHED_COLUMNS, _PREFETCHED_SHARE = 50, 1 / 4  # at most, and of the room for columns
_LONG_PASS = 2**22  # entries of X, from which on columns are read several at a time
_MOST_COLUMNS = 1024  # of a fit: more take long, and their Hessians much memory
_SPARSE_SHARE = 1 / 8  # of the samples: columns with fewer entries are kept as such
_ATTRIBUTE, _OBJECTIVES_PER_DESIGN = "_shared_by_searches", 8  # where a design keeps what searches share


@dataclass(frozen=True, eq=False)
class Column:
    """One column of A: how margins change with a coordinate.

    Attributes
    ----------
    values : ndarray
        Of shape (n,), or (n, n_outputs) where a feature has several coefficients; or those entries that are not zero.
    rows : ndarray of int64, optional
        Where these are.
    """

    values: Vector
    rows: Index | None = None

    @classmethod
    def of(cls, move: Vector) -> Column:
        """Return a column as it is, or only the entries that are not zero where these are few."""
        rows = np.flatnonzero(move) if move.ndim == 1 else np.arange(move.shape[0])
        return cls(move[rows], rows.astype(np.int64)) if rows.size < _SPARSE_SHARE * move.shape[0] else cls(move)

    def dense(self, n: int) -> Vector:
        """Return the column with all of its n entries."""
        if self.rows is None:
            return self.values
        move = np.zeros(n)
        move[self.rows] = self.values
        return move


class Columns:
    """A cache of columns of A.

    Parameters
    ----------
    objective : Model
        ψ(x) = F(Ax + o).
    """

    def __init__(self, objective: Model) -> None:
        self.objective = objective
        self.known: dict[int, list[Column]] = {}
        self.kept = 0  # numbers now
        self._size = objective.n_margins * objective.n_outputs  # numbers at most for a feature
        self._most = min(_KEPT_NUMBERS, max(_LEAST_KEPT_NUMBERS, objective.design.stored // _STORED_DIVISOR))

    def __call__(self, features: Features) -> list[Column]:
        """Return A·e for each coordinate of these features, in their order."""
        wanted = features.tolist()
        missing = [j for j in wanted if j not in self.known]
        for j in wanted:
            if j in self.known:  # the last ones used are the last ones to go
                self.known[j] = self.known.pop(j)
        if missing:
            places, n_outputs = np.array(missing, np.intp), self.objective.n_outputs
            self._make_room(set(wanted), self._numbers(places))
            moves = _products(self.objective, places)
            for j in missing:
                self.known[j] = list(map(Column.of, islice(moves, n_outputs)))
                self.kept += sum(column.values.size for column in self.known[j])
        return [column for j in wanted for column in self.known[j]]

    def arrays(self, features: Features) -> tuple[list[Vector], list[Index | None]]:
        """Return the same as the kernels take them: values, and where these are."""
        columns = self(features)
        return [column.values for column in columns], [column.rows for column in columns]

    def prefetch(self, features: Features) -> None:
        """Where the first of these columns has to be read, read the others, too: a pass over X serves all of them."""
        if features.size and int(features[0]) not in self.known and self.objective.design.stored >= _LONG_PASS:
            wanted = np.array(list(dict.fromkeys(features.tolist()))[:_PREFETCHED_COLUMNS], np.intp)
            while self._numbers(wanted) > _PREFETCHED_SHARE * self._most:
                wanted = wanted[: wanted.size // 2]
            self(wanted)

    def forget(self) -> None:
        """Remove all columns from the cache: with many samples they take much memory, and can be computed again."""
        self.known.clear()
        self.kept = 0

    def forget_many(self) -> None:
        """Remove all columns where they take more memory than a fit does besides."""
        if self.kept > _FEW_NUMBERS:
            self.forget()

    def moves(self, features: Features) -> Iterator[Vector]:
        """Yield the same as changes of the margins, one at a time: all at once may be more than there is room for."""
        n, n_outputs, moves = self.objective.n_margins, self.objective.n_outputs, _products(self.objective, features)
        if self.fit_in(features):
            moves = (column.dense(n) for column in self(features))
        part = self.objective.restrict(features)
        for move, unit in zip(moves, _units(features.size * n_outputs), strict=True):
            yield part.with_tail(move, unit)

    def fit_in(self, features: Features) -> bool:
        """Return whether these are few features, whose columns can be kept."""
        return features.size <= _MOST_COLUMNS and self._numbers(features) <= self._most

    def _numbers(self, features: Features) -> int:
        """Return how many numbers the columns of these features have at most, places of stored entries included."""
        dense = features.size * self._size
        if not isinstance(self.objective, LinearModel):
            return dense
        sparse = 2 * self.objective.design.stored_in(features) + int(_SPARSE_SHARE * dense)
        return min(dense, sparse)

    def _make_room(self, wanted: set[int], numbers: int) -> None:
        """Remove the least recently used columns, until there is room."""
        if self.kept + numbers <= self._most:
            return
        for j in [j for j in self.known if j not in wanted]:
            if self.kept + numbers <= self._most:
                return
            self.kept -= sum(column.values.size for column in self.known.pop(j))


class HessianColumns:
    """A cache of columns of ∇²ψ, each with the curvatures of the samples that it was computed for."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Vector, Vector]] = {}

    def __call__(
        self, features: Features, dimension: int, bend: Vector, change: float, compute: Callable[[Features], Matrix]
    ) -> Matrix:
        """Return the columns of some features, of shape (dimension, features.size).

        Those that are not known for these curvatures, or for some that differ by a share of at most `change`, are
        computed.
        """
        known = self._known
        if sum(column.size for _, column in known.values()) > _KEPT_HESSIAN_NUMBERS:
            known.clear()
        near = {id(old): is_near(old, bend, change) for old, _ in known.values()}
        missing = [j for j in features.tolist() if j not in known or not near[id(known[j][0])]]
        if missing:
            new = compute(np.array(missing, np.intp))
            known.update((j, (bend, column)) for j, column in zip(missing, new.T, strict=True))
        columns = np.array([known[j][1] for j in features.tolist()]).reshape(features.size, dimension).T
        if change > 0:  # columns of several fits
            columns[features] = (columns[features] + columns[features].T) / 2
        return columns


def is_near(old: Vector, new: Vector, change: float) -> bool:
    """Return whether curvatures of the samples differ by at most a share of their sum."""
    if change == 0:
        return old is new or np.array_equal(old, new)
    return float(np.sum(np.abs(new - old))) <= change * float(np.sum(old))


def _products(objective: Model, features: Features) -> Iterator[Vector]:
    """Yield how margins of the samples move with each coordinate; one product serves all coordinates of a feature."""
    part, units = objective.design.view(features), _units(features.size)
    columns = part.each_column() if isinstance(part, SparseDesign | DenseDesign) else map(part.matvec, units)
    for column in columns:
        if not isinstance(objective, ByClass):
            yield column
            continue
        for k in range(objective.n_outputs):
            move = np.zeros((column.size, objective.n_outputs), order=objective.margin_order)
            move[:, k] = column
            yield move


def _units(dimension: int) -> Iterator[Vector]:
    """Yield the unit vectors, one after another; each is gone when the next one comes."""
    unit = np.zeros(dimension)
    for i in range(dimension):
        unit[i] = 1.0
        yield unit
        unit[i] = 0.0


@dataclass(eq=False)
class Shared:
    """What searches of the same data share.

    Attributes
    ----------
    objective : LinearModel
        ψ.
    key : bytes
        The features that never count, and the ridge.
    columns : Columns
    null : NullFit or None
        Once it is known.
    models : list of GramSearch or None
        Second-order models at points that do not depend on k (`starts.py`).
    gram : GramSearch or None
        Of a squared loss (`starts.py`).
    entries : ndarray of shape (n, d) or None
        The columns, where X is small.
    n_grad : int
        Passes over all features that the models have taken.
    narrowed : dict of int to (ndarray of int, Problem)
        Some of the features, and the problem over these (`starts.py`).
    path : ClassPath or None
        Of a softmax model (`multiclass_path.py`).
    lock : RLock
        Of those who change any of it: searches may run in several threads.
    """

    objective: LinearModel
    key: bytes
    columns: Columns
    null: NullFit | None = None
    models: list[_kernels.GramSearch] | None = None
    gram: _kernels.GramSearch | None = None
    entries: Matrix | None = None
    n_grad: int = 0
    narrowed: dict[int, tuple[Features, FeatureProblem]] = field(default_factory=dict)
    path: Any = None
    lock: threading.RLock = field(default_factory=threading.RLock)

    def is_of(self, objective: LinearModel, key: bytes) -> bool:
        """Return whether this is about the same ψ over the same design."""
        own, other = self.objective, objective
        same = own.target is other.target and own.sample_weight is other.sample_weight and own.offset is other.offset
        return same and own.loss == other.loss and self.key == key


class _Kept(list[Shared]):
    """What is kept with a design; a copy in another process has none of it."""

    def __reduce__(self) -> tuple[type[_Kept], tuple[()]]:
        return _Kept, ()


def forget(objective: object) -> None:
    """Drop what searches of an objective share: it holds the design, which is else kept until garbage is collected."""
    getattr(getattr(objective, "design", None), "__dict__", {}).pop(_ATTRIBUTE, None)


def shared(problem: FeatureProblem) -> Shared:
    """Return what searches of a problem share; ψ is a loss of linear predictions."""
    objective = cast(LinearModel, problem.objective)
    ridge = b"" if objective.ridge is None else objective.ridge.own.tobytes()
    key = problem.unpenalized.tobytes() + b"|" + ridge
    kept: _Kept = objective.design.__dict__.setdefault(_ATTRIBUTE, _Kept())
    for one in kept:
        if one.is_of(objective, key):
            return one
    new = Shared(objective, key, Columns(objective))
    new.entries = next((one.entries for one in kept if one.entries is not None), None)  # of X alone
    kept[:] = [*kept[1 - _OBJECTIVES_PER_DESIGN :], new]
    return new
