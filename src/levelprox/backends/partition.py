"""A partition of the samples, its model, and the statistics of all samples that the model needs.

A `Partition` is some rows of X with their targets and weights, in memory. All of them together are a
`PartitionedSource` (`partitioned.py`). `Statistics` are sums over partitions; X is checked on the way, and an error
names the partition, and the row and column in it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import Features, Vector
from levelprox._validation import check_labels
from levelprox.designs import Design, RunningMoments, ScaledDesign, check_finite
from levelprox.designs.dense import DenseDesign
from levelprox.exceptions import InvalidInputError
from levelprox.losses import Loss
from levelprox.objectives.linear_model import LinearModel
from levelprox.objectives.model import Model
from levelprox.objectives.multinomial import MultinomialModel
from levelprox.objectives.one_vs_rest import OneVsRestModel

if TYPE_CHECKING:
    from levelprox.backends._base import RemoteObjective

_BITS_PER_ROUND = 12  # of the median
_MAX_CLASSES = 10_000


class Summand(Protocol):
    """Results that can be added up."""

    def __add__(self, other: Any) -> Any: ...


T = TypeVar("T", bound=Summand)
#: Applied to every partition that has samples of weight; a round is the sum over all of them. It is sent to workers: a
#: function at the top of a module, perhaps a `partial` of it, or an instance of a class there, with little data.
Work = Callable[["Partition"], T]
#: Makes one partition of another; sent as work is.
Transform = Callable[["Partition"], "Partition"]


@dataclass(frozen=True, eq=False)
class SetForm:
    """Set the form of the model that rows become."""

    form: Form

    def __call__(self, partition: Partition) -> Partition:
        """Return the result for one partition."""
        return Partition(partition.index, partition.design, partition.y, partition.weight, partition.offset, self.form)


@dataclass(frozen=True, eq=False)
class ScaleWeights:
    """Multiply the weights of rows by a factor for their class."""

    classes: NDArray[Any]
    factors: Vector

    def __call__(self, partition: Partition) -> Partition:
        """Return the result for one partition."""
        assert partition.y is not None
        return partition.weighing(self.factors[np.searchsorted(self.classes, partition.y)] * partition.weights)


@dataclass(frozen=True)
class SelectFold:
    """Select the rows of a fold, or all others; of each partition about as many are in every fold."""

    fold: int
    folds: int
    seed: int
    held_out: bool

    def __call__(self, partition: Partition) -> Partition:
        """Return the result for one partition."""
        order = np.random.default_rng([self.seed, partition.index]).permutation(partition.design.shape[0])
        order += partition.index  # else rows of chunks with fewer rows than folds would all be in the first ones
        counts = (order % self.folds == self.fold) == self.held_out
        return partition.weighing(np.where(counts, partition.weights, 0.0))


@dataclass(frozen=True, eq=False)
class Form:
    """How samples become a model, the same for all partitions.

    Attributes
    ----------
    loss : Loss
    fit_intercept : bool
    center, scale : ndarray of shape (d,), optional
        A = (X − 1c') diag(1/s).
    classes : ndarray, optional
        Of targets that are labels. Two have one margin, the second of them being +1; more have one each.
    softmax : bool
        Whether more than two classes share one likelihood; else `loss` separates each from the others.
    """

    loss: Loss
    fit_intercept: bool = False
    center: Vector | None = None
    scale: Vector | None = None
    classes: NDArray[Any] | None = None
    softmax: bool = False

    @property
    def n_outputs(self) -> int:
        """Coefficients of a feature."""
        return 1 if self.classes is None or self.classes.size == 2 else self.classes.size

    @property
    def standardized(self) -> bool:
        """Whether columns are taken to have mean square 1, with mean 0 where there is an intercept."""
        return self.scale is not None and (self.center is not None or not self.fit_intercept)

    def model(self, design: Design, y: NDArray[Any], weight: Vector | None, offset: Vector | None) -> Model:
        """Return ψ of some of the samples; X was checked."""
        if self.center is not None or self.scale is not None:
            design = ScaledDesign(design, self.center, self.scale)
        if self.classes is None:
            return LinearModel(design, y, self.loss, weight, offset, self.fit_intercept)
        if self.classes.size == 2:
            b = np.where(y == self.classes[1], 1.0, -1.0)
            return LinearModel(design, b, self.loss, weight, offset, self.fit_intercept)
        if self.softmax:
            return MultinomialModel(design, y, weight, offset, self.fit_intercept, self.classes)
        return OneVsRestModel(design, y, self.loss, weight, offset, self.fit_intercept, self.classes)


class Partition:
    """Some rows, in memory.

    Parameters
    ----------
    index : int
        Its number among all partitions, which errors name.
    design : Design
        X of these rows.
    y : ndarray of shape (n,), optional
    weight, offset : ndarray of shape (n,), optional
    form : Form, optional
        How they become a model.
    """

    def __init__(
        self,
        index: int,
        design: Design,
        y: NDArray[Any] | None,
        weight: Vector | None = None,
        offset: Vector | None = None,
        form: Form | None = None,
    ) -> None:
        self.index, self.design, self.y, self.weight, self.offset, self.form = index, design, y, weight, offset, form
        self.total = float(design.shape[0] if weight is None else weight.sum())
        self._model: Model | None = None
        self._part: tuple[bytes, Model] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_model": None, "_part": None}

    @property
    def model(self) -> Model:
        """ψ of these rows: a mean over them, of weight `total`."""
        if self._model is None:
            assert self.form is not None and self.y is not None
            self._model = self.form.model(self.design, self.y, self.weight, self.offset)
        return self._model

    @property
    def weights(self) -> Vector:
        """s, also where none are given."""
        return np.ones(self.design.shape[0]) if self.weight is None else self.weight

    def part(self, features: Features) -> Model:
        """Return the same over few features; the columns of the last ones are cached."""
        key, kept = features.tobytes(), self._part
        if kept is None or kept[0] != key:
            kept = key, self.model.restrict(features)
            self._part = kept
        return kept[1]

    def weighing(self, weight: Vector) -> Partition:
        """Return the same rows with other weights."""
        return Partition(self.index, self.design, self.y, weight, self.offset, self.form)


@dataclass(frozen=True, eq=False)
class Statistics:
    """Of samples that have a weight.

    Attributes
    ----------
    count : int
        Samples, those without a weight included.
    total : float
        Σ s.
    moments : RunningMoments
        Of the columns of X, where these were measured.
    classes : ndarray
        The different targets, sorted, where they are labels.
    class_weights : ndarray
        Σ s of each.
    y_moments : RunningMoments
        Of the targets, where they are numbers.
    largest : float
        max |y| of those.
    """

    count: int
    total: float
    moments: RunningMoments
    classes: NDArray[Any]
    class_weights: Vector
    y_moments: RunningMoments
    largest: float

    def __add__(self, other: Statistics) -> Statistics:
        both = np.concatenate([self.classes, other.classes])
        check_labels(both)
        classes, places = np.unique(both, return_inverse=True)
        check_few(classes)
        weights = _sums(places, np.concatenate([self.class_weights, other.class_weights]), classes.size)
        return Statistics(
            self.count + other.count,
            self.total + other.total,
            self.moments + other.moments,
            classes,
            weights,
            self.y_moments + other.y_moments,
            max(self.largest, other.largest),
        )


@dataclass(frozen=True, eq=False)
class ComputeStatistics:
    """Compute the statistics of a partition.

    Attributes
    ----------
    loss : Loss
        Says which targets are allowed.
    labels : bool
        Whether targets are labels.
    with_moments : bool
        Whether the columns of X are measured; else they are only checked.
    """

    loss: Loss
    labels: bool
    with_moments: bool = True

    def __call__(self, partition: Partition) -> Statistics:
        """Return the result for one partition."""
        design, y = partition.design, partition.y
        assert y is not None
        numbers = np.zeros(1)
        try:
            check_finite(design.kernel)
            if self.labels:
                check_labels(y)
            else:
                numbers = self.loss.check_targets(y, "y")
        except InvalidInputError as error:
            raise InvalidInputError(f"chunk {partition.index}: {error}") from None
        moments, of_y = RunningMoments(design.shape[1]), RunningMoments(1)
        weight = partition.weights
        if self.with_moments:
            moments.update(design, partition.weight)
        classes, class_weights, largest = np.empty(0), np.empty(0), 0.0
        if self.labels:
            classes, places = np.unique(y[weight > 0], return_inverse=True)
            check_few(classes)
            class_weights = _sums(places, weight[weight > 0], classes.size)
        else:
            of_y.update(DenseDesign(np.ascontiguousarray(numbers)[:, None]), partition.weight)
            largest = float(np.max(np.abs(numbers[weight > 0]), initial=0.0))
        return Statistics(design.shape[0], partition.total, moments, classes, class_weights, of_y, largest)


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
        """Return what must be known before there is a model; X and y are checked on the way."""

    @abstractmethod
    def spread(self, total: float) -> float:
        """Σ s |y − median| / Σ s."""

    @abstractmethod
    def model(self, form: Form) -> RemoteObjective:
        """ψ of these samples."""

    @abstractmethod
    def weighted(self, classes: NDArray[Any], factors: Vector) -> Self:
        """Return the same samples, their weights multiplied by a factor for their class."""

    @abstractmethod
    def part(self, fold: int, folds: int, seed: int, held_out: bool) -> Self:
        """Return the samples of one fold, or all others: those of a weight of 0 do not count.

        Which fold a sample is in depends on the seed, its chunk and its place there alone.
        """


def median(source: Any, total: float) -> float:
    """Return the weighted median of the targets, exactly: some of its bits in each round."""
    prefix, known, below = 0, 0, 0.0
    while known < 64:
        bits = min(_BITS_PER_ROUND, 64 - known)
        counts = source.total(partial(_weights_by_bits, prefix=prefix, known=known, bits=bits))
        reached = np.cumsum(counts) + below
        digit = min(int(np.searchsorted(reached, 0.5 * total)), counts.size - 1)
        below = float(reached[digit] - counts[digit])
        prefix, known = (prefix << bits) | digit, known + bits
    return number_of(prefix)


def _weights_by_bits(partition: Partition, prefix: int, known: int, bits: int) -> Vector:
    """Return Σ s of the targets that begin with the bits `prefix`, by the bits that follow."""
    assert partition.y is not None
    keys, weight = ordered_bits(partition.y), partition.weights
    if known:
        chosen = keys >> np.uint64(64 - known) == np.uint64(prefix)
        keys, weight = keys[chosen], weight[chosen]
    digits = (keys << np.uint64(known)) >> np.uint64(64 - bits)
    return _sums(digits.astype(np.intp), weight, 2**bits)


def spread_about(partition: Partition, middle: float) -> float:
    """Return Σ s |y − middle|."""
    assert partition.y is not None
    far = np.abs(np.asarray(partition.y, np.float64) - middle)
    return float(np.sum(far if partition.weight is None else far * partition.weight))


def ordered_bits(y: NDArray[Any]) -> NDArray[np.uint64]:
    """Return whole numbers in the order of these."""
    bits = np.ascontiguousarray(y, np.float64).view(np.uint64)
    negative = bits >> np.uint64(63) == 1
    return np.where(negative, ~bits, bits | np.uint64(1 << 63))


def number_of(bits: int) -> float:
    """Return the number that has these bits in `ordered_bits`."""
    positive = bits >> 63 == 1
    own = np.uint64(bits ^ (1 << 63)) if positive else ~np.uint64(bits)
    return float(np.array([own], np.uint64).view(np.float64)[0])


def _sums(places: NDArray[np.intp], weight: Vector, size: int) -> Vector:
    """Return the sum of the weights at each place."""
    return np.asarray(np.bincount(places, weight, size), np.float64)


def check_few(classes: NDArray[Any]) -> None:
    """Raise if there are so many classes that targets must be numbers."""
    if classes.size > _MAX_CLASSES:
        raise InvalidInputError(
            f"y has more than {_MAX_CLASSES} classes; targets that are numbers are for regression: SparseRegressor"
        )
