"""ψ of samples in parts: every partition answers for its own, and the answers are added.

    ψ(x) = Σ_c (S_c/S) ψ_c(x),      S_c = Σ s_i over partition c

Each ψ_c is a model as any other, evaluated by the same kernels; see `query.py` for the queries.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import Features, Matrix, Vector
from levelprox.backends._base import DataSource, RemoteObjective, SquareSums
from levelprox.backends.partition import Form, Partition, ScaleWeights, SelectFold, SetForm, T, Transform, Work
from levelprox.backends.query import AHEAD, PartialSums, Query, Traffic
from levelprox.backends.statistics import ComputeSpread, ComputeStatistics, Statistics, median
from levelprox.losses import Loss
from levelprox.objectives.linear_model import LinearModel
from levelprox.objectives.model import Point


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
            middle = float(guess[model.unpenalized[0]]) if model.unpenalized.size else 0.0
        design = model.design
        squares, sums = design.column_squares(weight), design.weighted_sums(weight)
        return Summary(S, design.shape[0], squares, sums, S * bend, S * middle)


@dataclass(frozen=True, eq=False)
class RayTrend:
    """Behaviour of losses along a ray: whether some decrease without bound, and none increases."""

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
        return part.left_out_fall(self.before, self.after, self.unit, partition.total / self.total)


class PartitionedSource(DataSource):
    """All samples, in parts; the subclasses say where these are."""

    @abstractmethod
    def total(self, work: Work[T]) -> T:
        """The sum of `work` over all source with rows that have a weight.

        Added in an order that depends on nothing but their number: the same bits for any assignment of work.
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

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from levelprox import linear_model
    >>> psi = linear_model(da.from_array(np.eye(4), chunks=(2, 4)), np.ones(4))
    >>> type(psi).__name__, psi.column_squares.tolist()
    ('PartitionedModel', [0.25, 0.25, 0.25, 0.25])
    """

    where = "data in parts"

    def __init__(self, source: PartitionedSource, form: Form) -> None:
        super().__init__(form, source.n_features + form.fit_intercept)
        self.source = source.transformed(SetForm(form))
        self._summary: Summary | None = None
        self._convex: list[PartitionedModel] = []  # shared by all restrictions

    @property
    def summary(self) -> Summary:
        """One round, at first use."""
        if self._summary is None:
            self._summary = self.source.total(ComputeSummary())
        return self._summary

    @property
    def traffic(self) -> Traffic:
        return sum((convex.traffic for convex in self._convex), self.shared.traffic)

    def partial_sums(self, query: Query) -> PartialSums:
        return self.source.total(Evaluation(query)).times(1 / self.summary.total)

    def _accuracy(self, features: Features, x: Matrix) -> float:
        return self.source.total(CountCorrect(features, x.ravel())) / self.summary.total

    def _ray_trend(self, features: Features, x: Matrix) -> tuple[bool, bool]:
        trend = self.source.total(ComputeRayTrend(features, x.ravel()))
        return trend.falls, trend.rises

    def _middle(self) -> float:
        return self.summary.middle / self.summary.total

    @property
    def square_sums(self) -> SquareSums:
        squares = self.column_squares
        positive = squares[squares > 0]
        low, high = (float(positive.min()), float(positive.max())) if positive.size else (1.0, 1.0)
        return SquareSums(float(positive.size), float(squares.sum()), low, high)

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
        if self.only_contrasts:
            bend = (self.width - 1) / self.width**2
        return float(bend * squares.mean())

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

    def __repr__(self) -> str:
        return f"PartitionedModel({self.source!r}, loss={self.loss!r})"
