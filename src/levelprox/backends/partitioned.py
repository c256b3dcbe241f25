"""ψ of samples in parts: every partition answers for its own, and the answers are added.

    ψ(x) = Σ_c (S_c/S) ψ_c(x),      S_c = Σ s_i over partition c

Each ψ_c is a model as any other, evaluated by the same kernels; see `asked.py` for what is asked when.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import Features, Vector
from levelprox.backends._base import AHEAD, DataSource, PartialSums, Query, RemoteObjective, SharedState, Traffic
from levelprox.backends.partition import Form, Partition, ScaleWeights, SelectFold, SetForm, T, Transform, Work
from levelprox.backends.statistics import ComputeSpread, ComputeStatistics, Statistics, median
from levelprox.exceptions import InvalidInputError
from levelprox.losses import Loss
from levelprox.objectives._multiclass import ByClass
from levelprox.objectives.leave_one_out import Point, left_out_fall
from levelprox.objectives.linear_model import FARTHER, LinearModel, keeps_decreasing


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A query put to every partition."""

    query: Query

    def __call__(self, partition: Partition) -> PartialSums:
        return evaluated_on(partition, self.query).times(partition.total)


def evaluated_on(partition: Partition, asked: Query) -> PartialSums:
    """The means over one partition."""
    part = partition.part(asked.features)
    moves = [part.margins(x) for x in asked.points]
    if asked.step is not None:
        step = part.moved(asked.step)
        moves += [moves[0] + t * step for t in AHEAD]
    values = np.array([part.value_of(z) for z in moves])
    gradient, z = None, moves[0]
    if not np.all(np.isfinite(values[:1])):  # so far out that ψ is no number, and nothing else is, either
        moves = []
    if asked.gradient == "here":
        gradient = part.gradient_of(z) if moves else np.full(part.dimension, np.nan)
    elif asked.gradient:
        gradient = partition.model.gradient_of(z) if moves else np.full(partition.model.dimension, np.nan)
    hessian = diagonal = product = None
    if asked.hessian:
        size = part.dimension
        hessian = part.hessian_of(z, asked.hessian == "convex") if moves else np.full((size, size), np.nan)
    if asked.product is not None:
        product = part.hessian_product_of(z, asked.diagonal != "exact")(asked.product)
    elif asked.diagonal:
        diagonal = part.hessian_diagonal_of(z, asked.diagonal == "convex")
    return PartialSums(values, gradient, hessian, diagonal, product)


@dataclass(frozen=True, eq=False)
class Summary:
    """What is known of samples before the first fit: sums over them.

    Attributes
    ----------
    total : float
        Σ s.
    count : int
        Samples.
    squares : ndarray of shape (d,)
        Σ s_i a_ij².
    sums : ndarray of shape (d,)
        Σ s_i a_ij.
    bend : float
        A typical ℓ'' where ψ begins, times Σ s.
    middle : float
        A middle of the targets, times Σ s.
    """

    total: float
    count: int
    squares: Vector
    sums: Vector
    bend: float
    middle: float

    def __add__(self, other: Summary) -> Summary:
        return Summary(
            self.total + other.total,
            self.count + other.count,
            self.squares + other.squares,
            self.sums + other.sums,
            self.bend + other.bend,
            self.middle + other.middle,
        )


class ComputeSummary:
    """The summary of a partition."""

    def __call__(self, partition: Partition) -> Summary:
        model, S = partition.model, partition.total
        weight = np.ones(model.design.shape[0]) if partition.weight is None else partition.weight
        bend, middle = 1.0, 0.0
        if isinstance(model, LinearModel):
            bend = model.loss.typical_curvature(model.origin, model.target, model.sample_weight)
            guess = model.first_guess()
            middle = float(guess[model.exempt[0]]) if model.exempt.size else 0.0
        design = model.design
        squares, sums = design.column_squares(weight), design.weighted_sums(weight)
        return Summary(S, design.shape[0], squares, sums, S * bend, S * middle)


@dataclass(frozen=True, eq=False)
class RayTrend:
    """Which way losses go along a ray: whether some fall for ever, and none rises."""

    falls: bool
    rises: bool

    def __add__(self, other: RayTrend) -> RayTrend:
        return RayTrend(self.falls or other.falls, self.rises or other.rises)


@dataclass(frozen=True, eq=False)
class ComputeRayTrend:
    """The ray_trend of a partition along x over some features."""

    features: Features
    x: Vector

    def __call__(self, partition: Partition) -> RayTrend:
        falls, rises = partition.part(self.features).ray_trend(self.x)
        return RayTrend(falls, rises)


@dataclass(frozen=True, eq=False)
class CountCorrect:
    """The weight of the samples of a partition whose class is predicted by x over some features."""

    features: Features
    x: Vector

    def __call__(self, partition: Partition) -> float:
        assert partition.form is not None and partition.form.classes is not None
        z = partition.part(self.features).margins(self.x)
        chosen = (z > 0).astype(np.intp) if z.ndim == 1 else np.argmax(z, axis=1)
        right = partition.form.classes[chosen] == partition.y
        return float(np.sum(right if partition.weight is None else partition.weight[right]))


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """What a partition contributes to `left_out_fall`."""

    features: Features
    before: Point
    after: Point
    unit: float
    total: float

    def __call__(self, partition: Partition) -> Vector:
        part = partition.part(self.features)
        assert isinstance(part, LinearModel | ByClass)
        return left_out_fall(part, self.before, self.after, self.unit, partition.total / self.total)


class PartitionedSource(DataSource):
    """All samples, in parts; the subclasses say where these are."""

    @abstractmethod
    def total(self, work: Work[T]) -> T:
        """The sum of `work` over all source with rows that have a weight.

        Added in an order that depends on nothing but their number: the same bits, whoever did the work.
        """

    @abstractmethod
    def transformed(self, change: Transform) -> Self:
        """The same samples with every partition changed, there where it is."""

    def statistics(self, loss: Loss, labels: bool, with_moments: bool) -> Statistics:
        return self.total(ComputeStatistics(loss, labels, with_moments))

    def spread(self, total: float) -> float:
        return self.total(ComputeSpread(median(self, total))).total / total

    def model(self, form: Form) -> PartitionedModel:
        return PartitionedModel(self, form)

    def weighted(self, classes: NDArray[Any], factors: Vector) -> Self:
        return self.transformed(ScaleWeights(classes, factors))

    def part(self, fold: int, folds: int, seed: int, held_out: bool) -> Self:
        return self.transformed(SelectFold(fold, folds, seed, held_out))


class PartitionedModel(RemoteObjective):
    """ψ of samples in parts.

    Parameters
    ----------
    source : PartitionedSource
        The samples.
    form : Form
        How they become a model. Its loss must be smooth.
    """

    def __init__(self, source: PartitionedSource, form: Form) -> None:
        if not form.loss.smooth:
            raise InvalidInputError(
                f"the loss {form.loss.name!r} has kinks, and is for data in memory only; data in parts take squared, "
                "huber, logistic, squared_hinge, cauchy, sigmoid, poisson and gamma"
            )
        self.form, self.loss, self.width = form, form.loss, form.width
        self.source = source.transformed(SetForm(form))
        self.only_contrasts = form.softmax and form.width > 1
        self.n_all = source.n_features + form.fit_intercept
        self.features = np.arange(self.n_all)
        self.shared = SharedState()
        self._summary: Summary | None = None
        self._convex: list[PartitionedModel] = []  # shared by all restrictions

    @property
    def summary(self) -> Summary:
        """One round, the first time it is asked for."""
        if self._summary is None:
            self._summary = self.source.total(ComputeSummary())
        return self._summary

    @property
    def traffic(self) -> Traffic:
        return sum((convex.traffic for convex in self._convex), self.shared.traffic)

    def partial_sums(self, query: Query) -> PartialSums:
        return self.source.total(Evaluation(query)).times(1 / self.summary.total)

    def accuracy(self, x: Vector) -> float:
        rows = np.asarray(x, np.float64).reshape(-1, self.width)
        used = np.flatnonzero(np.any(rows, axis=1))
        used = used if used.size else np.arange(1)  # x = 0: margins that are 0, of any feature
        right = self.source.total(CountCorrect(self.features[used], rows[used].ravel()))
        return right / self.summary.total

    def left_out_fall(self, before: Point, after: Point, unit: float) -> Vector:
        return self.source.total(LeaveOneOut(self.features, before, after, unit, self.summary.total))

    @property
    def n_margins(self) -> int:
        return self.summary.count * self.width

    @property
    def column_squares(self) -> Vector:
        return self.summary.squares[self.features] / self.summary.total

    @property
    def column_means(self) -> Vector:
        return self.summary.sums[self.features] / self.summary.total

    @property
    def curvature(self) -> float:
        squares = self.column_squares
        squares = squares[squares > 0]
        if not squares.size:
            return 1.0
        bend = self.summary.bend / self.summary.total
        if self.width > 1 and self.form.softmax:
            bend = (self.width - 1) / self.width**2
        return float(bend * squares.mean())

    @property
    def weak_convexity(self) -> float:
        """μ_ℓ times the trace of A'diag(s)A / Σ s, no less than its largest eigenvalue."""
        if self.width > 1 and self.form.softmax:
            return 0.0
        return self.loss.weak_convexity * float(self.column_squares.sum())

    @property
    def smoothness(self) -> float:
        """sup |ℓ''| times that trace; inf where ℓ'' has no bound."""
        if math.isinf(self.loss.smoothness):
            return math.inf
        return self.loss.smoothness * float(self.column_squares.sum()) + self.steepest_ridge()

    @property
    def convex_start(self) -> PartitionedModel | None:
        """The same samples with the loss's own convex start for its loss."""
        if self.loss.convex_start is None:
            return None
        if not self._convex:
            self._convex.append(PartitionedModel(self.source, replace(self.form, loss=self.loss.convex_start)))
        convex = copy.copy(self._convex[0])
        convex.features, convex.strength = self.features, self.strength
        return convex

    def first_guess(self) -> Vector:
        x = np.zeros(self.dimension)
        if self.exempt.size and self.width == 1:
            x[self.exempt[0]] = self.summary.middle / self.summary.total
        return x

    def is_separated(self, x: Vector) -> bool:
        if self.loss.attained or self.is_held(x):
            return False
        rows = np.asarray(x, np.float64).reshape(-1, self.width)
        used = np.flatnonzero(np.any(rows, axis=1))
        features, point = self.features[used], rows[used].ravel()
        if self.weak_convexity > 0:
            return keeps_decreasing(self.evaluate(Query(features, tuple(t * point for t in FARTHER))).values.tolist())
        ray_trend = self.source.total(ComputeRayTrend(features, point))
        return ray_trend.falls and not ray_trend.rises

    def advice(self) -> str:
        squares = self.column_squares
        squares = squares[squares > 0]
        spread = math.sqrt(float(squares.max() / squares.min())) if squares.size else 1.0
        return f"The columns of X differ in scale by a factor of {spread:.0e}: scale them." if spread > 100 else ""

    def __repr__(self) -> str:
        return f"PartitionedModel({self.source!r}, loss={self.loss!r})"
