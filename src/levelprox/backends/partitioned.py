"""ψ of samples in partitions: a round evaluates every partition, and adds the results.

    ψ(x) = Σ_c (S_c/S) ψ_c(x),      S_c = Σ s_i over partition c

Each ψ_c is a model as any other, evaluated by the same kernels; `query.py` has what a round evaluates.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import Features, Matrix, Vector
from levelprox.backends._base import RemoteObjective
from levelprox.backends.partition import (
    ComputeStatistics,
    DataSource,
    Form,
    Partition,
    ScaleWeights,
    SelectFold,
    SetForm,
    Statistics,
    T,
    Transform,
    Work,
    median,
    spread_about,
)
from levelprox.backends.query import AHEAD, PartialSums, Query
from levelprox.losses import Loss
from levelprox.objectives.feature_scale import ColumnSquares
from levelprox.objectives.leave_one_out import Point
from levelprox.objectives.linear_model import LinearModel


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Evaluate a query on every partition."""

    query: Query

    def __call__(self, partition: Partition) -> PartialSums:
        """Return the sums over one partition."""
        query, part = self.query, partition.part(self.query.features)
        moves = [part.margins(x) for x in query.points]
        if query.step is not None:
            step = part.moved(query.step)
            with np.errstate(over="ignore", invalid="ignore"):  # a step may lead beyond the largest number
                moves += [moves[0] + t * step for t in AHEAD]
        values, z = np.array([part.value_of(z) for z in moves]), moves[0]
        is_number = bool(np.isfinite(values[0]))  # else x is so far out that nothing is
        gradient = hessian = diagonal = product = None
        if query.gradient:
            model = part if query.gradient == "here" else partition.model
            gradient = model.gradient_of(z) if is_number else np.full(model.dimension, np.nan)
        if query.hessian:
            size = part.dimension
            hessian = part.hessian_of(z, query.hessian == "convex") if is_number else np.full((size, size), np.nan)
        if query.product is not None:
            product = part.hessian_product_of(z, query.diagonal != "exact")(query.product)
        elif query.diagonal:
            diagonal = part.hessian_diagonal_of(z, query.diagonal == "convex")
        return PartialSums(values, gradient, hessian, diagonal, product).times(partition.total)


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
    curvature : float
        A typical ℓ'' at the first point, times Σ s.
    middle : float
        A middle of the targets, times Σ s.
    """

    total: float
    count: int
    squares: Vector
    sums: Vector
    curvature: float
    middle: float

    def __add__(self, other: Summary) -> Summary:
        return Summary(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))


def _summary(partition: Partition) -> Summary:
    model, design, S = partition.model, partition.model.design, partition.total
    curvature, middle = 1.0, 0.0
    if isinstance(model, LinearModel):
        curvature = model.loss.typical_curvature(model.origin, model.target, model.sample_weight)
        guess = model.first_guess()
        middle = float(guess[model.unpenalized[0]]) if model.unpenalized.size else 0.0
    squares, sums = design.column_squares(partition.weights), design.weighted_sums(partition.weights)
    return Summary(S, design.shape[0], squares, sums, S * curvature, S * middle)


def _ray_trend(partition: Partition, features: Features, x: Vector) -> NDArray[np.int64]:
    """Return 1 for a loss that falls forever along x, and 1 for a loss that rises."""
    return np.array(partition.part(features).ray_trend(x), np.int64)


def _correct(partition: Partition, features: Features, x: Vector) -> float:
    """Return the weight of the samples whose class is predicted by x over some features."""
    assert partition.form is not None and partition.form.classes is not None
    z = partition.part(features).margins(x)
    chosen = (z > 0).astype(np.intp) if z.ndim == 1 else np.argmax(z, axis=1)
    right = partition.form.classes[chosen] == partition.y
    return float(np.sum(right if partition.weight is None else partition.weight[right]))


def _left_out_fall(
    partition: Partition, features: Features, fits: tuple[Point, Point], unit: float, total: float
) -> Vector:
    return partition.part(features).left_out_fall(*fits, unit, partition.total / total)


class PartitionedSource(DataSource):
    """All samples, in partitions; the subclasses say where these are."""

    @abstractmethod
    def total(self, work: Work[T]) -> T:
        """Return the sum of `work` over all partitions with rows that have a weight.

        The order of the sum depends only on the number of partitions: the same bits for any assignment of work.
        """

    @abstractmethod
    def transformed(self, change: Transform) -> Self:
        """Return the same samples with every partition transformed where it is."""

    def statistics(self, loss: Loss, labels: bool, with_moments: bool) -> Statistics:
        """Return what must be known before there is a model; X and y are checked on the way."""
        return self.total(ComputeStatistics(loss, labels, with_moments))

    def spread(self, total: float) -> float:
        """Return Σ s |y − median| / Σ s."""
        return self.total(partial(spread_about, middle=median(self, total))) / total

    def model(self, form: Form) -> PartitionedModel:
        """Return ψ of these samples."""
        return PartitionedModel(self, form)

    def weighted(self, classes: NDArray[Any], factors: Vector) -> Self:
        """Return the same samples, their weights multiplied by a factor for their class."""
        return self.transformed(ScaleWeights(classes, factors))

    def part(self, fold: int, folds: int, seed: int, held_out: bool) -> Self:
        """Return the samples of one fold, or all others: those of a weight of 0 do not count."""
        return self.transformed(SelectFold(fold, folds, seed, held_out))


class PartitionedModel(RemoteObjective):
    """ψ of samples in partitions.

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

    @cached_property
    def summary(self) -> Summary:
        """Sums over all samples; one round, at the first use."""
        return self.source.total(_summary)

    def partial_sums(self, query: Query) -> PartialSums:
        """Return means over all samples, Σ s_i … / Σ s."""
        return self.source.total(Evaluation(query)).times(1 / self.summary.total)

    def _accuracy(self, features: Features, x: Matrix) -> float:
        return self.source.total(partial(_correct, features=features, x=x.ravel())) / self.summary.total

    def _ray_trend(self, features: Features, x: Matrix) -> tuple[bool, bool]:
        falls, rises = self.source.total(partial(_ray_trend, features=features, x=x.ravel())) > 0
        return bool(falls), bool(rises)

    def _middle(self) -> float:
        return self.summary.middle / self.summary.total

    @property
    def square_sums(self) -> ColumnSquares:
        """Sums over those entries of `column_squares` that are positive."""
        return ColumnSquares.of(self.column_squares)

    def left_out_fall(self, before: Point, after: Point, unit: float) -> Vector:
        """Return the decrease of leave-one-out losses between two fits, as `Model.left_out_fall`; one round."""
        fits, total = (before, after), self.summary.total
        return self.source.total(partial(_left_out_fall, features=self.features, fits=fits, unit=unit, total=total))

    @property
    def n_margins(self) -> int:
        """How many margins there are: the Hessian has at most this rank."""
        return self.summary.count * self.n_outputs

    @property
    def column_squares(self) -> Vector:
        """Σ s_i a_ij² / Σ s of every feature that this is a function of."""
        return self.summary.squares[self.features] / self.summary.total

    @property
    def column_means(self) -> Vector:
        """Σ s_i a_ij / Σ s of every feature that this is a function of."""
        return self.summary.sums[self.features] / self.summary.total

    @property
    def curvature(self) -> float:
        """A typical size of the second derivative of ψ along one coordinate; it sets the scale of γ."""
        squares = self.square_sums
        if not squares.nonzero:
            return 1.0
        curvature = self.summary.curvature / self.summary.total
        if self.only_contrasts:
            curvature = (self.n_outputs - 1) / self.n_outputs**2
        return curvature * (squares.total / squares.nonzero)

    def with_loss(self, loss: Loss) -> Self:
        """Return the same samples with another loss, over all features."""
        return type(self)(self.source, replace(self.form, loss=loss))

    def __repr__(self) -> str:
        return f"PartitionedModel({self.source!r}, loss={self.loss!r})"
