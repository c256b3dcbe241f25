"""ψ = F(Ax + o) of data outside the memory of this process: on a cluster, on disk, on a device.

A `Query` names features, points and the quantities to compute there; `PartialSums` are the sums over samples that come
back. Each evaluation is one round: it sends x over a few features, and receives ψ, X_W'r, X_W'DX_W or, for a full
gradient pass, X'r. Margins are never transferred; they are computed from x next to the data.

A round is a function of the query and the data alone. Results that are lost with a worker between two rounds are
computed again, and no sample is counted twice.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levelprox._typing import Features, Matrix, Vector
from levelprox.backends.partition import Form
from levelprox.backends.query import AHEAD, PartialSums, Query, Traffic
from levelprox.exceptions import InvalidInputError
from levelprox.losses import Loss
from levelprox.objectives import Curved
from levelprox.objectives.feature_scale import ColumnSquares, FeatureScale
from levelprox.objectives.leave_one_out import Point
from levelprox.objectives.linear_model import LinearModel
from levelprox.objectives.model import RAY_LENGTHS, Ridge, keeps_decreasing

_SMALL_HESSIAN = 8  # coordinates: a Hessian as small as this comes with every gradient
_FLAT_EIGENVALUE = 1e-13  # of the largest eigenvalue: rounding of a direction without curvature


class SharedState:
    """State that a model and all its restrictions share: traffic, the last point, and the scale of all columns."""

    def __init__(self) -> None:
        self.traffic = Traffic()
        self.point: RemotePoint | None = None
        self.feature_scale: FeatureScale | None = None  # of all features


class RemotePoint:
    """The margins of a point, by reference: the point over some features, and the sums that are known there."""

    def __init__(self, features: Features, x: Vector) -> None:
        self.features, self.x = features, x
        self.known: PartialSums | None = None

    def __add__(self, other: RemotePoint) -> RemotePoint:
        return RemotePoint(self.features, self.x + other.x)

    def __sub__(self, other: RemotePoint) -> RemotePoint:
        return RemotePoint(self.features, self.x - other.x)

    def __rmul__(self, factor: float) -> RemotePoint:
        return RemotePoint(self.features, factor * self.x)

    def is_at(self, features: Features, x: Vector) -> bool:
        """Whether this is the same point over the same features."""
        return np.array_equal(features, self.features) and np.array_equal(x, self.x)

    def over(self, features: Features, n_outputs: int) -> Vector:
        """Return the same point over fewer features, those left out being zero."""
        if features is self.features:
            return self.x
        places = np.searchsorted(self.features, features)
        return self.x.reshape(-1, n_outputs)[places].ravel()


class RemoteObjective(Curved):
    """ψ of remote data, evaluated in rounds; the subclasses say where the data are.

    Parameters
    ----------
    form : Form
        How samples become a model. Its loss must be smooth.
    n_all : int
        Features of the data, with the intercept.

    Attributes
    ----------
    features : ndarray of int
        The features that this is a function of: a restriction shares data, and sends queries about fewer features.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from levelprox import linear_model
    >>> psi = linear_model(da.from_array(np.eye(4), chunks=(2, 4)), np.ones(4))
    >>> psi.value_and_gradient(np.zeros(4))[0], psi.traffic.rounds
    (1.0, 1)
    """

    smooth = curved = expensive = True
    #: r of all features, where Σ_j r_j ‖x_j‖² is part of ψ.
    strength: Vector | None = None

    def __init__(self, form: Form, n_all: int) -> None:
        if not form.loss.smooth:
            raise InvalidInputError(
                f"the loss {form.loss.name!r} has kinks, and is for data in memory only; {self.where} take squared, "
                "huber, logistic, squared_hinge, cauchy, sigmoid, poisson and gamma"
            )
        self.form, self.loss, self.n_outputs, self.n_all = form, form.loss, form.n_outputs, n_all
        self.only_contrasts = form.softmax and form.n_outputs > 1
        self.features: Features = np.arange(n_all)
        self.shared = SharedState()
        self._convex: list[Self] = []  # `convex_start` over all features, once it is there; shared by all restrictions

    #: Where the data are, in messages.
    where: ClassVar[str]

    @abstractmethod
    def partial_sums(self, query: Query) -> PartialSums:
        """Return means over all samples, Σ s_i … / Σ s."""

    @property
    @abstractmethod
    def column_squares(self) -> Vector:
        """Σ s_i a_ij² / Σ s of every feature that this is a function of."""

    @property
    @abstractmethod
    def column_means(self) -> Vector:
        """Σ s_i a_ij / Σ s of every feature that this is a function of."""

    @property
    @abstractmethod
    def square_sums(self) -> ColumnSquares:
        """Sums over those entries of `column_squares` that are positive."""

    @abstractmethod
    def left_out_fall(self, before: Point, after: Point, unit: float) -> Vector:
        """Return the decrease of leave-one-out losses between two fits, as `Model.left_out_fall`; one round."""

    @abstractmethod
    def _accuracy(self, features: Features, x: Matrix) -> float: ...

    @abstractmethod
    def _ray_trend(self, features: Features, x: Matrix) -> tuple[bool, bool]:
        """Whether the loss of some sample decreases without bound along x, and whether that of one increases."""

    @abstractmethod
    def _middle(self) -> float:
        """Return a middle of the targets, where the intercept begins."""

    @abstractmethod
    def with_loss(self, loss: Loss) -> Self:
        """Return the same samples with another loss, over all features."""

    @property
    def convex_start(self) -> Self | None:
        """The same samples with the loss's own convex start for its loss."""
        if self.loss.convex_start is None:
            return None
        if not self._convex:
            self._convex.append(self.with_loss(self.loss.convex_start))
        convex = self._convex[0].over(self.features)
        convex.strength = self.strength
        return convex

    def accuracy(self, x: Vector) -> float:
        """Return the share of the samples, by weight, whose class has the largest margin at x; of labels only."""
        features, rows = self._used(x)
        if not features.size:  # margins that are 0, of any feature
            features, rows = self.features[:1], np.zeros((1, self.n_outputs))
        return self._accuracy(features, rows)

    @property
    def weak_convexity(self) -> float:
        """μ_ℓ times the trace of A'diag(s)A / Σ s, which is at least its largest eigenvalue."""
        if self.only_contrasts or self.loss.weak_convexity == 0:
            return 0.0
        return self.loss.weak_convexity * self.square_sums.total

    @property
    def smoothness(self) -> float:
        """sup |ℓ''| times that trace; inf where ℓ'' has no bound."""
        if math.isinf(self.loss.smoothness):
            return math.inf
        return self.loss.smoothness * self.square_sums.total + self.steepest_ridge()

    def first_guess(self) -> Vector:
        x = np.zeros(self.dimension)
        if self.unpenalized.size and self.n_outputs == 1:
            x[self.unpenalized[0]] = self._middle()
        return x

    def is_separated(self, x: Vector) -> bool:
        if self.loss.attained or self.is_held(x):
            return False
        features, rows = self._used(x)
        if self.weak_convexity > 0:
            far = Query(features, tuple((t * rows).ravel() for t in RAY_LENGTHS))
            return keeps_decreasing(self.evaluate(far).values.tolist())
        falls, rises = self._ray_trend(features, rows)
        return falls and not rises

    def advice(self) -> str:
        return self.square_sums.advice()

    def _used(self, x: Vector) -> tuple[Features, Matrix]:
        """Return the features that are not zero in x, and their coefficients, one feature a row."""
        rows = np.asarray(x, np.float64).reshape(-1, self.n_outputs)
        used = np.flatnonzero(np.any(rows, axis=1))
        return self.features[used], rows[used]

    @property
    def feature_scale(self) -> FeatureScale:
        if self.shared.feature_scale is None:
            whole = self.over(np.arange(self.n_all))
            means = whole.column_means if self.form.fit_intercept and self.form.center is None else None
            squares = np.ones(self.n_all) if self.form.standardized else whole.column_squares
            self.shared.feature_scale = FeatureScale.of_moments(squares, means, whole.unpenalized)
        return self.shared.feature_scale.restrict(self.features)

    @property
    def traffic(self) -> Traffic:
        """Rounds and bytes so far, of this model and all its restrictions."""
        return sum((convex.traffic for convex in self._convex), self.shared.traffic)

    def evaluate(self, query: Query) -> PartialSums:
        """One round."""
        answer = self.partial_sums(query)
        self.shared.traffic = self.shared.traffic.and_round(query, answer)
        return answer if self.strength is None else answer.with_ridge(query, self.strength)

    def ridged(self, ridge: ArrayLike) -> Self:
        """Return the same model with a ridge: a number, or one for each feature; the intercept is free of it."""
        checked = Ridge.of(ridge, self.n_all, self.unpenalized, self.loss)
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
            return bool(np.all(np.delete(own, self.unpenalized) > 0))
        return bool(np.any(own[:, None] * np.abs(np.reshape(x, (-1, self.n_outputs))) > 0))

    def steepest_ridge(self) -> float:
        """Return the largest 2 r_j."""
        return 0.0 if self.strength is None else 2 * float(np.max(self.strength))

    @property
    def dimension(self) -> int:
        return self.features.size * self.n_outputs

    @property
    def unpenalized(self) -> NDArray[np.intp]:
        last = np.flatnonzero(self.features == self.n_all - 1)
        return last if self.form.fit_intercept else last[:0]

    @property
    def infimum(self) -> float:
        return 0.0 if self.loss.kind in ("regression", "margin") else -np.inf

    @property
    def attained(self) -> bool:
        return self.loss.attained or self.is_held()

    def restrict(self, W: NDArray[np.intp]) -> Self:
        return self.over(self.features[W])

    def over(self, features: Features) -> Self:
        """Return ψ as a function of these features of the data."""
        part = copy.copy(self)
        part.features = features
        return part

    def value_and_gradient(self, x: Vector) -> tuple[float, Vector]:
        if self.features.size < self.n_all:
            # A caller with few features needs a model of ψ there next: `margins` finds the sums again.
            point = self.shared.point = self.margins(x)
            known = self._known(point, "hessian")
            return float(known.values[0]), _there(known.gradient)
        features, rows = self._used(x)
        sums = self.evaluate(Query(features, (rows.ravel(),), gradient="everywhere"))
        return float(sums.values[0]), _there(sums.gradient)

    def values(self, points: Iterable[Vector]) -> Vector:
        """Return ψ at some points, inf where it is no number; one round."""
        rows = np.array([*points]).reshape(-1, self.features.size, self.n_outputs)
        used = np.flatnonzero(np.any(rows, axis=(0, 2)))
        values = self.evaluate(Query(self.features[used], tuple(row[used].ravel() for row in rows))).values
        return np.where(np.isnan(values), np.inf, values)

    # Margins are remote points here: each quantity at them costs one round at most.

    def margins(self, x: Vector) -> RemotePoint:
        last = self.shared.point
        if last is not None and last.is_at(self.features, np.asarray(x, np.float64)):
            return last
        return self.moved(x)

    def moved(self, dx: Vector) -> RemotePoint:
        return RemotePoint(self.features, np.asarray(dx, np.float64))

    def value_of(self, z: RemotePoint) -> float:
        return float(self._known(z, "values").values[0])

    def gradient_of(self, z: RemotePoint) -> Vector:
        return _there(self._known(z, "gradient").gradient)

    def hessian_of(self, z: RemotePoint, convex: bool) -> Matrix:
        if not convex and self.weak_convexity > 0:
            return _there(self.evaluate(self._query(z, hessian="exact")).hessian)
        return _there(self._known(z, "hessian").hessian)

    def evaluated(self, z: RemotePoint, dx: Vector, with_hessian: bool) -> tuple[RemotePoint, Vector, Matrix | None]:
        new = self.moved(dx) + z
        wanted = "hessian" if with_hessian else "gradient"
        known = self._known(new, wanted, np.asarray(dx, np.float64))
        return new, _there(known.gradient), known.hessian if with_hessian else None

    def along(self, before: RemotePoint, after: RemotePoint) -> Callable[[float], float]:
        step, known = after.x - before.x, after.known
        if known is None or known.values.size == 1:
            known = self.evaluate(Query(self.features, (after.x,), step=step))
        values = dict(zip((1 + AHEAD).tolist(), known.values[1:].tolist(), strict=True))
        return lambda t: values[t] if t in values else self.value_of(self.moved(before.x + t * step))

    def hessian_product_of(self, z: RemotePoint, convex: bool) -> Callable[[Vector], Vector]:
        kind: Any = "convex" if convex else "exact"
        return lambda v: _there(self.evaluate(self._query(z, diagonal=kind, product=v)).product)

    def hessian_diagonal_of(self, z: RemotePoint, convex: bool) -> Vector:
        kind: Any = "convex" if convex else "exact"
        return _there(self.evaluate(self._query(z, diagonal=kind)).diagonal)

    def second_order(self, x: Vector, gradient: Vector, hessian: Matrix | None = None) -> LinearModel:
        """Return the second-order model of ψ at x as a least-squares problem, a sample for each curved direction.

        ⟨∇ψ, u − x⟩ + ½ (u − x)'∇²ψ(u − x)  =  ½ ‖Ru − (Rx − R⁻ᵀ∇ψ)‖² + const,      ∇²ψ = R'R
        """
        values, vectors = np.linalg.eigh(self.hessian_of(self.margins(x), True) if hessian is None else hessian)
        kept = values > _FLAT_EIGENVALUE * max(float(values[-1]), np.finfo(np.float64).tiny)
        # ψ of the squared loss is the mean of r², not half their sum.
        size, along = np.sqrt(values[kept] * max(np.count_nonzero(kept), 1) / 2), vectors[:, kept].T
        root = size[:, None] * along
        target = root @ x - size * ((along @ gradient) / values[kept])
        if not target.size:  # ψ is flat
            root, target = np.zeros((1, x.size)), np.zeros(1)
        return LinearModel(np.asfortranarray(root), target, "squared")

    def _known(self, z: RemotePoint, wanted: str, step: Vector | None = None) -> PartialSums:
        """Return the sums at a point, evaluated unless they are known; ψ and ∇ψ come together."""
        if z.known is None or getattr(z.known, wanted) is None:
            # With the Hessian if requested or small.
            with_hessian = wanted == "hessian" or self.dimension <= _SMALL_HESSIAN
            kind: Any = "convex" if with_hessian else ""
            z.known = self.evaluate(self._query(z, gradient="here", hessian=kind, step=step))
        return z.known

    def _query(self, z: RemotePoint, **wanted: Any) -> Query:
        return Query(self.features, (z.over(self.features, self.n_outputs),), **wanted)


def _there(part: Vector | None) -> Vector:
    """Return a part of the sums of the query."""
    assert part is not None
    return part
