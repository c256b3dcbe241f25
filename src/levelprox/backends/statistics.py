"""What must be known of samples before they are a model: how many, how X is spread, which targets there are.

Sums over partitions. X is checked on the way: an error names the partition, and the row and column in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import Vector
from levelprox._validation import finite
from levelprox.backends.partition import Partition
from levelprox.designs._base import check_finite
from levelprox.designs.moments import RunningMoments
from levelprox.exceptions import InvalidInputError
from levelprox.losses import Loss

_DIGITS = 12  # bits of a number that are processed in one round
_MOST_CLASSES = 10_000


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
    """The statistics of a partition.

    Attributes
    ----------
    loss : Loss
        Says which targets are allowed.
    labels : bool
        Whether targets are labels.
    with_moments : bool
        Whether the columns of X are measured; otherwise they are only checked.
    """

    loss: Loss
    labels: bool
    with_moments: bool = True

    def __call__(self, partition: Partition) -> Statistics:
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
        weight = np.ones(y.size) if partition.weight is None else partition.weight
        if self.with_moments:
            moments.update(design, partition.weight)
        classes, class_weights, largest = np.empty(0), np.empty(0), 0.0
        if self.labels:
            classes, places = np.unique(y[weight > 0], return_inverse=True)
            check_few(classes)
            class_weights = _sums(places, weight[weight > 0], classes.size)
        else:
            of_y.update(_column(numbers), partition.weight)
            largest = float(np.max(np.abs(numbers[weight > 0]), initial=0.0))
        return Statistics(design.shape[0], partition.total, moments, classes, class_weights, of_y, largest)


@dataclass(frozen=True, eq=False)
class Counts:
    """Σ s of the targets by some bits of theirs."""

    weights: Vector

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.weights + other.weights)


@dataclass(frozen=True)
class Counting:
    """Σ s of the targets that begin with the bits `prefix`, by the bits that follow."""

    prefix: int
    known: int

    def __call__(self, partition: Partition) -> Counts:
        assert partition.y is not None
        keys = ordered_bits(partition.y)
        weight = np.ones(keys.size) if partition.weight is None else partition.weight
        if self.known:
            chosen = keys >> np.uint64(64 - self.known) == np.uint64(self.prefix)
            keys, weight = keys[chosen], weight[chosen]
        digits = (keys << np.uint64(self.known)) >> np.uint64(64 - _digits(self.known))
        return Counts(_sums(digits.astype(np.intp), weight, 2 ** _digits(self.known)))


@dataclass(frozen=True)
class Spread:
    """Σ s |y − middle|."""

    total: float

    def __add__(self, other: Spread) -> Spread:
        return Spread(self.total + other.total)


@dataclass(frozen=True)
class ComputeSpread:
    """The spread of the targets of a partition about a number."""

    middle: float

    def __call__(self, partition: Partition) -> Spread:
        assert partition.y is not None
        far = np.abs(np.asarray(partition.y, np.float64) - self.middle)
        return Spread(float(np.sum(far if partition.weight is None else far * partition.weight)))


def median(source: Any, total: float) -> float:
    """The weighted median of the targets, exactly: a dozen of its bits in each round."""
    prefix, known, below = 0, 0, 0.0
    while known < 64:
        counts = source.total(Counting(prefix, known)).weights
        reached = np.cumsum(counts) + below
        digit = min(int(np.searchsorted(reached, 0.5 * total)), counts.size - 1)
        below = float(reached[digit] - counts[digit])
        prefix, known = (prefix << _digits(known)) | digit, known + _digits(known)
    return number_of(prefix)


def ordered_bits(y: NDArray[Any]) -> NDArray[np.uint64]:
    """Whole numbers in the order of these."""
    bits = np.ascontiguousarray(y, np.float64).view(np.uint64)
    negative = bits >> np.uint64(63) == 1
    return np.where(negative, ~bits, bits | np.uint64(1 << 63))


def number_of(bits: int) -> float:
    """The number that has these bits in `ordered_bits`."""
    positive = bits >> 63 == 1
    own = np.uint64(bits ^ (1 << 63)) if positive else ~np.uint64(bits)
    return float(np.array([own], np.uint64).view(np.float64)[0])


def _sums(places: NDArray[np.intp], weight: Vector, size: int) -> Vector:
    """Σ of the weights at each place."""
    return np.asarray(np.bincount(places, weight, size), np.float64)


def _digits(known: int) -> int:
    return min(_DIGITS, 64 - known)


def _column(y: Vector) -> Any:
    from levelprox.designs import as_design

    return as_design(np.ascontiguousarray(y)[:, None])


def check_few(classes: NDArray[Any]) -> None:
    """Raise where there are so many classes that targets must be numbers."""
    if classes.size > _MOST_CLASSES:
        raise InvalidInputError(
            f"y has more than {_MOST_CLASSES} classes; targets that are numbers are for regression: SparseRegressor"
        )


def check_labels(y: NDArray[Any]) -> None:
    """Raise an error unless the labels can be compared and sorted."""
    if y.dtype.kind == "f":
        finite("y", y)
        between = np.flatnonzero(y != np.floor(y))
        if between.size:
            i = int(between[0])
            raise InvalidInputError(
                f"Unknown label type: continuous, y is {y[i]:g} at index {i}; numbers are for regression: "
                "SparseRegressor"
            )
    if y.dtype.kind != "O":
        return
    missing = np.array([is_missing(label) for label in y])
    if np.any(missing):
        i = int(np.argmax(missing))
        raise InvalidInputError(f"Input y contains NaN: {y[i]!r} at index {i} ({np.count_nonzero(missing)} in total)")
    kinds = sorted({type(label).__name__ for label in y})
    if len(kinds) > 1 and "str" in kinds:
        raise InvalidInputError(f"y must hold classes of one type, got {' and '.join(kinds)}")


def is_missing(label: Any) -> bool:
    """Whether this is no label: None, NaN, or another word for it."""
    try:
        return label is None or bool(label != label)
    except (TypeError, ValueError):  # pandas.NA is neither equal to itself nor not
        return True
