"""ψ = F(Ax + o) of data outside the memory of this process: on a cluster, on disk, on a device.

A `Query` names features, points and the quantities to compute there; `PartialSums` are the sums over samples that come
back. Each evaluation is one round: it sends x over a few features, and receives ψ, X_W'r, X_W'DX_W or, for a full
gradient pass, X'r. Margins are never transferred; they are computed from x next to the data.

A round is a function of the query and the data alone. Results that are lost with a worker between two rounds are
computed again, and no sample is counted twice.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levelprox._typing import Features, Matrix, Vector
from levelprox.backends.partition import Form
from levelprox.backends.statistics import Statistics
from levelprox.exceptions import warn
from levelprox.losses import Loss
from levelprox.objectives._base import Curved
from levelprox.objectives.feature_scale import FeatureScale
from levelprox.objectives.leave_one_out import Point
from levelprox.objectives.linear_model import LinearModel
from levelprox.objectives.ridge import Ridge

_AT_ONCE = 8  # coordinates: a Hessian as small as this is worth no round of its own
_NOTHING = 1e-13  # of the largest eigenvalue: what rounding leaves of a direction without curvature
#: Times a step: how much further a search along it may go.
AHEAD = 2.0 ** np.arange(1, 7) - 1


@dataclass(frozen=True, eq=False)
class Query:
    """What is asked of the data in one round.

    Attributes
    ----------
    features : ndarray of int
        W: the features that are not zero at any of the points.
    points : tuple of ndarray
        Coordinates of these features. ψ is wanted at each, everything else at the first.
    gradient : {"", "here", "everywhere"}
        Whether ∇ψ is wanted: over W, or over all features.
    hessian : {"", "convex", "exact"}
        Whether ∇²ψ over W is wanted; where "convex" with |ℓ''| for ℓ''.
    diagonal : {"", "convex", "exact"}
        The same of its diagonal alone.
    step : ndarray, optional
        dx, where ψ is wanted at points[0] + t·dx, too, for the lengths t of `AHEAD`: all a search along a step may try.
    product : ndarray, optional
        v, where ∇²ψ v over W is wanted; with |ℓ''| where `diagonal` is not "exact".
    """

    features: Features
    points: tuple[Vector, ...]
    gradient: Literal["", "here", "everywhere"] = ""
    hessian: Literal["", "convex", "exact"] = ""
    diagonal: Literal["", "convex", "exact"] = ""
    step: Vector | None = None
    product: Vector | None = None

    @property
    def nbytes(self) -> int:
        """What goes out."""
        sent = (*self.points, self.features, self.step, self.product)
        return sum(array.nbytes for array in sent if array is not None)


@dataclass(frozen=True, eq=False)
class PartialSums:
    """Sums over samples, each weighted by s_i.

    Attributes
    ----------
    values : ndarray of shape (number of points + lengths along a step,)
        Σ s_i ℓ_i.
    gradient, hessian, diagonal, product : ndarray, optional
        As they were asked for.
    """

    values: Vector
    gradient: Vector | None = None
    hessian: Matrix | None = None
    diagonal: Vector | None = None
    product: Vector | None = None

    def __add__(self, other: PartialSums) -> PartialSums:
        values, *others = map(_sum, self.parts, other.parts)
        return PartialSums(cast(Vector, values), *others)

    def with_ridge(self, query: Query, strength: Vector) -> PartialSums:
        """The same means with Σ_j r_j x_j² added to ψ; `strength` is r of all features."""
        width = query.points[0].size // max(query.features.size, 1) if query.features.size else 1
        held = np.repeat(strength[query.features], width)
        first = query.points[0]
        points = [*query.points, *(first + t * query.step for t in AHEAD if query.step is not None)]
        values = self.values + [float(np.sum(held * point**2)) for point in points]
        gradient, hessian, diagonal, product = self.gradient, self.hessian, self.diagonal, self.product
        if gradient is not None and gradient.size == first.size:
            gradient = gradient + 2 * held * first
        elif gradient is not None:
            gradient = gradient.copy()
            gradient.reshape(strength.size, -1)[query.features] += (2 * held * first).reshape(-1, width)
        if hessian is not None:
            hessian = hessian + np.diag(2 * held)
        if diagonal is not None:
            diagonal = diagonal + 2 * held
        if product is not None and query.product is not None:
            product = product + 2 * held * query.product
        return PartialSums(values, gradient, hessian, diagonal, product)

    def times(self, factor: float) -> PartialSums:
        """The same sums in another unit."""
        values, *others = (None if one is None else factor * one for one in self.parts)
        return PartialSums(cast(Vector, values), *others)

    @property
    def parts(self) -> tuple[Vector | None, ...]:
        return tuple(getattr(self, one.name) for one in fields(self))

    @property
    def nbytes(self) -> int:
        """What comes back."""
        return sum(one.nbytes for one in self.parts if one is not None)


@dataclass(frozen=True)
class Traffic:
    """Communication with the data so far.

    Attributes
    ----------
    rounds : int
        Queries.
    full_gradients : int
        Those for the gradient over all features.
    bytes_out, bytes_back : int
        Of queries, and of sums.
    """

    rounds: int = 0
    full_gradients: int = 0
    bytes_out: int = 0
    bytes_back: int = 0

    @property
    def looks(self) -> int:
        """Deprecated name of `full_gradients`."""
        warn("traffic.looks is deprecated: its name is full_gradients", DeprecationWarning)
        return self.full_gradients

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def and_round(self, query: Query, answer: PartialSums) -> Traffic:
        full = self.full_gradients + (query.gradient == "everywhere")
        return Traffic(self.rounds + 1, full, self.bytes_out + query.nbytes, self.bytes_back + answer.nbytes)


class SharedState:
    """What a model and all its restrictions share: what has been asked, and where last; the size of all columns."""

    def __init__(self) -> None:
        self.traffic = Traffic()
        self.place: Place | None = None
        self.feature_scale: FeatureScale | None = None  # of all features


class Place:
    """Stands for the margins of a point: that point itself, over some features, and what has been asked there."""

    def __init__(self, features: Features, x: Vector) -> None:
        self.features, self.x = features, x
        self.known: PartialSums | None = None

    def __add__(self, other: Place) -> Place:
        return Place(self.features, self.x + other.x)

    def __sub__(self, other: Place) -> Place:
        return Place(self.features, self.x - other.x)

    def __rmul__(self, factor: float) -> Place:
        return Place(self.features, factor * self.x)

    def is_at(self, features: Features, x: Vector) -> bool:
        """Whether this is the same point over the same features."""
        return np.array_equal(features, self.features) and np.array_equal(x, self.x)

    def over(self, features: Features, width: int) -> Vector:
        """The same point over fewer features, those left out being zero."""
        if features is self.features:
            return self.x
        places = np.searchsorted(self.features, features)
        return self.x.reshape(-1, width)[places].ravel()


class RemoteObjective(Curved):
    """ψ over data that answer questions; the subclasses say where they are.

    Attributes
    ----------
    features : ndarray of int
        Those of all features that this is a function of: a restriction shares data, and asks of fewer.
    """

    smooth = curved = expensive = True
    loss: Loss
    form: Form
    features: Features
    n_all: int
    shared: SharedState
    #: r of all features, where Σ_j r_j ‖x_j‖² is part of ψ.
    strength: Vector | None = None

    @abstractmethod
    def partial_sums(self, query: Query) -> PartialSums:
        """Means over all samples, Σ s_i … / Σ s."""

    @property
    @abstractmethod
    def column_squares(self) -> Vector:
        """Σ s_i a_ij² / Σ s of every feature that this is a function of."""

    @abstractmethod
    def accuracy(self, x: Vector) -> float:
        """The share of the samples, by weight, whose class has the largest margin at x; of labels only."""

    @abstractmethod
    def left_out_fall(self, before: Point, after: Point, unit: float) -> Vector:
        """By how much losses of samples under fits without them fall, as in `left_out.py`; a round."""

    @property
    @abstractmethod
    def column_means(self) -> Vector:
        """Σ s_i a_ij / Σ s of every feature that this is a function of."""

    @property
    def feature_scale(self) -> FeatureScale:
        if self.shared.feature_scale is None:
            whole = copy.copy(self)
            whole.features = np.arange(self.n_all)
            means = whole.column_means if self.form.fit_intercept and self.form.center is None else None
            squares = np.ones(self.n_all) if self.form.standardized else whole.column_squares
            self.shared.feature_scale = FeatureScale.of_moments(squares, means, whole.exempt)
        return self.shared.feature_scale.restrict(self.features)

    @property
    def traffic(self) -> Traffic:
        """Rounds and bytes so far, of this model and all its restrictions."""
        return self.shared.traffic

    def evaluate(self, query: Query) -> PartialSums:
        """One round."""
        answer = self.partial_sums(query)
        self.shared.traffic = self.shared.traffic.and_round(query, answer)
        return answer if self.strength is None else answer.with_ridge(query, self.strength)

    def ridged(self, ridge: ArrayLike) -> Self:
        """Return the same model with a ridge: a number, or one for each feature; the intercept is free of it."""
        checked = Ridge.of(ridge, self.n_all, self.exempt)
        other = copy.copy(self)
        other.strength = None if checked is None else checked.strength
        other.shared = SharedState()  # what is known at a point is not the same
        other.shared.traffic, other.shared.feature_scale = self.shared.traffic, self.shared.feature_scale
        return other

    def is_held(self, x: Vector | None = None) -> bool:
        """Return whether the ridge holds all features but the intercept; or whether it rises along x."""
        if self.strength is None:
            return False
        own = self.strength[self.features]
        if x is None:
            return bool(np.all(np.delete(own, self.exempt) > 0))
        return bool(np.any(own[:, None] * np.abs(np.reshape(x, (-1, self.width))) > 0))

    def steepest_ridge(self) -> float:
        """Return the largest 2 r_j."""
        return 0.0 if self.strength is None else 2 * float(np.max(self.strength))

    @property
    def dimension(self) -> int:
        return self.features.size * self.width

    @property
    def exempt(self) -> NDArray[np.intp]:
        last = np.flatnonzero(self.features == self.n_all - 1)
        return last if self.form.fit_intercept else last[:0]

    @property
    def infimum(self) -> float:
        return 0.0 if self.loss.kind in ("regression", "margin") else -np.inf

    @property
    def attained(self) -> bool:
        return self.loss.attained or self.is_held()

    def restrict(self, W: NDArray[np.intp]) -> Self:
        part = copy.copy(self)
        part.features = self.features[W]
        return part

    def value_and_gradient(self, x: Vector) -> tuple[float, Vector]:
        if self.features.size < self.n_all:
            # Whoever asks this of few features wants a model of ψ there next: `margins` finds the answer again.
            place = self.margins(x)
            self.shared.place, known = _place(place), self._known(place, "hessian")
            return float(known.values[0]), cast(Vector, known.gradient)
        rows = np.asarray(x, np.float64).reshape(-1, self.width)
        used = np.flatnonzero(np.any(rows, axis=1))
        answer = self.evaluate(Query(self.features[used], (rows[used].ravel(),), gradient="everywhere"))
        return float(answer.values[0]), cast(Vector, answer.gradient)

    # Margins are points here, and everything about them is a round at most.

    def margins(self, x: Vector) -> Vector:
        last = self.shared.place
        if last is not None and last.is_at(self.features, np.asarray(x, np.float64)):
            return cast(Vector, last)
        return self._at(x)

    def moved(self, dx: Vector) -> Vector:
        return self._at(dx)

    def value_of(self, z: Vector) -> float:
        return float(self._known(z, "values").values[0])

    def gradient_of(self, z: Vector) -> Vector:
        return cast(Vector, self._known(z, "gradient").gradient)

    def hessian_of(self, z: Vector, convex: bool) -> Matrix:
        if not convex and self.weak_convexity > 0:
            return cast(Matrix, self.evaluate(self._query(z, hessian="exact")).hessian)
        return cast(Matrix, self._known(z, "hessian").hessian)

    def evaluated(self, z: Vector, dx: Vector, with_hessian: bool) -> tuple[Vector, Vector, Matrix | None]:
        new = self.moved(dx) + z
        wanted = "hessian" if with_hessian else "gradient"
        known = _place(new).known = self._asked_for(new, wanted, np.asarray(dx, np.float64))
        return new, cast(Vector, known.gradient), known.hessian if with_hessian else None

    def along(self, before: Vector, after: Vector) -> Callable[[float], float]:
        start, end = _place(before), _place(after)
        step, known = end.x - start.x, end.known
        if known is None or known.values.size == 1:
            known = self.evaluate(Query(self.features, (end.x,), step=step))
        values = dict(zip((1 + AHEAD).tolist(), known.values[1:].tolist(), strict=True))
        return lambda t: values[t] if t in values else self.value_of(self._at(start.x + t * step))

    def hessian_product_of(self, z: Vector, convex: bool) -> Callable[[Vector], Vector]:
        kind: Any = "convex" if convex else "exact"
        return lambda v: cast(Vector, self.evaluate(self._query(z, diagonal=kind, product=v)).product)

    def hessian_diagonal_of(self, z: Vector, convex: bool) -> Vector:
        kind: Any = "convex" if convex else "exact"
        return cast(Vector, self.evaluate(self._query(z, diagonal=kind)).diagonal)

    def second_order(self, x: Vector, gradient: Vector) -> LinearModel:
        """The second-order model of ψ at x as a least-squares problem with as many samples as it bends in directions.

        ⟨∇ψ, u − x⟩ + ½ (u − x)'∇²ψ(u − x)  =  ½ ‖Ru − (Rx − R⁻ᵀ∇ψ)‖² + const,      ∇²ψ = R'R
        """
        values, vectors = np.linalg.eigh(self.hessian_of(self.margins(x), True))
        kept = values > _NOTHING * max(float(values[-1]), np.finfo(np.float64).tiny)
        # ψ of the squared loss is the mean of r², not half their sum.
        size, along = np.sqrt(values[kept] * max(np.count_nonzero(kept), 1) / 2), vectors[:, kept].T
        root = size[:, None] * along
        target = root @ x - size * ((along @ gradient) / values[kept])
        if not target.size:  # ψ is flat
            root, target = np.zeros((1, x.size)), np.zeros(1)
        return LinearModel(np.asfortranarray(root), target, "squared")

    def _known(self, z: Vector, wanted: str) -> PartialSums:
        """What is known at a point, asked for where it is not; ψ and ∇ψ come together."""
        place = _place(z)
        if place.known is None or getattr(place.known, wanted) is None:
            place.known = self._asked_for(z, wanted)
        return place.known

    def _asked_for(self, z: Vector, wanted: str, step: Vector | None = None) -> PartialSums:
        """ψ and ∇ψ, with the Hessian where that is wanted or of few coordinates."""
        with_hessian = wanted == "hessian" or self.dimension <= _AT_ONCE
        return self.evaluate(self._query(z, gradient="here", hessian="convex" if with_hessian else "", step=step))

    def _query(self, z: Vector, **wanted: Any) -> Query:
        return Query(self.features, (_place(z).over(self.features, self.width),), **wanted)

    def _at(self, x: Vector) -> Vector:
        return cast(Vector, Place(self.features, np.asarray(x, np.float64)))


def _place(z: Vector) -> Place:
    return cast(Place, z)


def _sum(one: Vector | None, other: Vector | None) -> Vector | None:
    return None if one is None or other is None else one + other


class DataSource(ABC):
    """X, targets and weights, wherever they are.

    Attributes
    ----------
    n_features : int
    dtype : dtype
        Of X.
    names : list of str or None
        Of the columns, where X has some.
    """

    n_features: int
    dtype: np.dtype[Any]
    names: list[str] | None = None

    @abstractmethod
    def statistics(self, loss: Loss, labels: bool, with_moments: bool) -> Statistics:
        """What must be known before there is a model; X and y are checked on the way."""

    @abstractmethod
    def spread(self, total: float) -> float:
        """Σ s |y − median| / Σ s."""

    @abstractmethod
    def model(self, form: Form) -> RemoteObjective:
        """ψ of these samples."""

    @abstractmethod
    def weighted(self, classes: NDArray[Any], factors: Vector) -> Self:
        """The same samples, their weights multiplied by a factor for their class."""

    @abstractmethod
    def part(self, fold: int, folds: int, seed: int, held_out: bool) -> Self:
        """The samples of one fold, or all others: those of a weight of 0 do not count.

        Which fold a sample is in depends on the seed, its chunk and its place there alone.
        """
