"""ψ of samples in parts: every shard answers for its own, and the answers are added.

    ψ(x) = Σ_c (S_c/S) ψ_c(x),      S_c = Σ s_i over shard c

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
from levelprox.backends._base import AHEAD, Answer, Asked, Ledger, Question, Traffic
from levelprox.backends.data_source import Source
from levelprox.backends.partition import Change, Folding, Form, Forming, Shard, T, Weighting, Work
from levelprox.backends.statistics import Spreading, Survey, Surveying, median
from levelprox.exceptions import InvalidInputError
from levelprox.losses import Loss
from levelprox.objectives._multiclass import ByClass
from levelprox.objectives.leave_one_out import Point, left_out_fall
from levelprox.objectives.linear_model import FARTHER, LinearModel, gains_for_ever


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A question put to every shard."""

    question: Question

    def __call__(self, shard: Shard) -> Answer:
        return answered(shard, self.question).times(shard.total)


def answered(shard: Shard, asked: Question) -> Answer:
    """The means over one shard."""
    part = shard.part(asked.features)
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
        gradient = shard.model.gradient_of(z) if moves else np.full(shard.model.dimension, np.nan)
    hessian = diagonal = product = None
    if asked.hessian:
        size = part.dimension
        hessian = part.hessian_of(z, asked.hessian == "convex") if moves else np.full((size, size), np.nan)
    if asked.product is not None:
        product = part.hessian_product_of(z, asked.diagonal != "exact")(asked.product)
    elif asked.diagonal:
        diagonal = part.hessian_diagonal_of(z, asked.diagonal == "convex")
    return Answer(values, gradient, hessian, diagonal, product)


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


class Summarising:
    """The summary of a shard."""

    def __call__(self, shard: Shard) -> Summary:
        model, S = shard.model, shard.total
        weight = np.ones(model.design.shape[0]) if shard.weight is None else shard.weight
        bend, middle = 1.0, 0.0
        if isinstance(model, LinearModel):
            bend = model.loss.typical_curvature(model.origin, model.target, model.sample_weight)
            guess = model.first_guess()
            middle = float(guess[model.exempt[0]]) if model.exempt.size else 0.0
        design = model.design
        squares, sums = design.column_squares(weight), design.weighted_sums(weight)
        return Summary(S, design.shape[0], squares, sums, S * bend, S * middle)


@dataclass(frozen=True, eq=False)
class Outlook:
    """Which way losses go along a ray: whether some fall for ever, and none rises."""

    falls: bool
    rises: bool

    def __add__(self, other: Outlook) -> Outlook:
        return Outlook(self.falls or other.falls, self.rises or other.rises)


@dataclass(frozen=True, eq=False)
class LookingAlong:
    """The outlook of a shard along x over some features."""

    features: Features
    x: Vector

    def __call__(self, shard: Shard) -> Outlook:
        falls, rises = shard.part(self.features).outlook(self.x)
        return Outlook(falls, rises)


@dataclass(frozen=True, eq=False)
class CountingRight:
    """The weight of the samples of a shard whose class is predicted by x over some features."""

    features: Features
    x: Vector

    def __call__(self, shard: Shard) -> float:
        assert shard.form is not None and shard.form.classes is not None
        z = shard.part(self.features).margins(self.x)
        chosen = (z > 0).astype(np.intp) if z.ndim == 1 else np.argmax(z, axis=1)
        right = shard.form.classes[chosen] == shard.y
        return float(np.sum(right if shard.weight is None else shard.weight[right]))


@dataclass(frozen=True, eq=False)
class LeavingOut:
    """What a shard contributes to `left_out_fall`."""

    features: Features
    before: Point
    after: Point
    unit: float
    total: float

    def __call__(self, shard: Shard) -> Vector:
        part = shard.part(self.features)
        assert isinstance(part, LinearModel | ByClass)
        return left_out_fall(part, self.before, self.after, self.unit, shard.total / self.total)


class Shards(Source):
    """All samples, in parts; the subclasses say where these are."""

    @abstractmethod
    def total(self, work: Work[T]) -> T:
        """The sum of `work` over all shards with rows that have a weight.

        Added in an order that depends on nothing but their number: the same bits, whoever did the work.
        """

    @abstractmethod
    def changed(self, change: Change) -> Self:
        """The same samples with every shard changed, there where it is."""

    def survey(self, loss: Loss, labels: bool, with_moments: bool) -> Survey:
        return self.total(Surveying(loss, labels, with_moments))

    def spread(self, total: float) -> float:
        return self.total(Spreading(median(self, total))).total / total

    def model(self, form: Form) -> ShardedModel:
        return ShardedModel(self, form)

    def weighted(self, classes: NDArray[Any], factors: Vector) -> Self:
        return self.changed(Weighting(classes, factors))

    def part(self, fold: int, folds: int, seed: int, held_out: bool) -> Self:
        return self.changed(Folding(fold, folds, seed, held_out))


class ShardedModel(Asked):
    """ψ of samples in parts.

    Parameters
    ----------
    shards : Shards
        The samples.
    form : Form
        How they become a model. Its loss must be smooth.
    """

    def __init__(self, shards: Shards, form: Form) -> None:
        if not form.loss.smooth:
            raise InvalidInputError(
                f"the loss {form.loss.name!r} has kinks, and is for data in memory only; data in parts take squared, "
                "huber, logistic, squared_hinge, cauchy, sigmoid, poisson and gamma"
            )
        self.form, self.loss, self.width = form, form.loss, form.width
        self.shards = shards.changed(Forming(form))
        self.only_contrasts = form.softmax and form.width > 1
        self.n_all = shards.n_features + form.fit_intercept
        self.features = np.arange(self.n_all)
        self.ledger = Ledger()
        self._summary: Summary | None = None
        self._convex: list[ShardedModel] = []  # shared by all restrictions

    @property
    def summary(self) -> Summary:
        """One round, the first time it is asked for."""
        if self._summary is None:
            self._summary = self.shards.total(Summarising())
        return self._summary

    @property
    def traffic(self) -> Traffic:
        return sum((convex.traffic for convex in self._convex), self.ledger.traffic)

    def answer(self, question: Question) -> Answer:
        return self.shards.total(Evaluation(question)).times(1 / self.summary.total)

    def accuracy(self, x: Vector) -> float:
        rows = np.asarray(x, np.float64).reshape(-1, self.width)
        used = np.flatnonzero(np.any(rows, axis=1))
        used = used if used.size else np.arange(1)  # x = 0: margins that are 0, of any feature
        right = self.shards.total(CountingRight(self.features[used], rows[used].ravel()))
        return right / self.summary.total

    def left_out_fall(self, before: Point, after: Point, unit: float) -> Vector:
        return self.shards.total(LeavingOut(self.features, before, after, unit, self.summary.total))

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
    def convex_start(self) -> ShardedModel | None:
        """The same samples with the loss's own convex start for its loss."""
        if self.loss.convex_start is None:
            return None
        if not self._convex:
            self._convex.append(ShardedModel(self.shards, replace(self.form, loss=self.loss.convex_start)))
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
            return gains_for_ever(self.ask(Question(features, tuple(t * point for t in FARTHER))).values.tolist())
        outlook = self.shards.total(LookingAlong(features, point))
        return outlook.falls and not outlook.rises

    def advice(self) -> str:
        squares = self.column_squares
        squares = squares[squares > 0]
        spread = math.sqrt(float(squares.max() / squares.min())) if squares.size else 1.0
        return f"The columns of X differ in scale by a factor of {spread:.0e}: scale them." if spread > 100 else ""

    def __repr__(self) -> str:
        return f"ShardedModel({self.shards!r}, loss={self.loss!r})"
