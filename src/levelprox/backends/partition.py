"""Some of the samples: rows of X with their targets and weights, and the model that they are.

A `Partition` is some rows of X with their targets and weights, in memory. All of them together are a
`PartitionedSource` (`partitioned.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import Features, Vector
from levelprox.designs import Design, ScaledDesign
from levelprox.losses import Loss
from levelprox.objectives.linear_model import LinearModel
from levelprox.objectives.model import Model
from levelprox.objectives.multinomial import MultinomialModel
from levelprox.objectives.one_vs_rest import OneVsRestModel


class Summand(Protocol):
    """What can be added up."""

    def __add__(self, other: Any) -> Any: ...


T = TypeVar("T", bound=Summand)
T_co = TypeVar("T_co", covariant=True, bound=Summand)


class Work(Protocol[T_co]):
    """What is done with every partition that has samples of weight; a round is the sum over all of them.

    It travels: an instance of a class at the top of a module, with little data in it.
    """

    def __call__(self, partition: Partition) -> T_co: ...


class Transform(Protocol):
    """What makes one partition of another; it travels as work does."""

    def __call__(self, partition: Partition) -> Partition: ...


@dataclass(frozen=True, eq=False)
class SetForm:
    """Rows as a model of some form."""

    form: Form

    def __call__(self, partition: Partition) -> Partition:
        return partition.formed(self.form)


@dataclass(frozen=True, eq=False)
class ScaleWeights:
    """Rows whose weights are multiplied by a factor for their class."""

    classes: NDArray[Any]
    factors: Vector

    def __call__(self, partition: Partition) -> Partition:
        assert partition.y is not None
        own = self.factors[np.searchsorted(self.classes, partition.y)]
        return partition.weighing(own if partition.weight is None else own * partition.weight)


@dataclass(frozen=True)
class SelectFold:
    """The rows of a fold, or all others; of each partition about as many are in every fold."""

    fold: int
    folds: int
    seed: int
    held_out: bool

    def __call__(self, partition: Partition) -> Partition:
        order = np.random.default_rng([self.seed, partition.index]).permutation(partition.design.shape[0])
        order += partition.index  # else rows of chunks with fewer rows than folds would all be in the first ones
        counts = (order % self.folds == self.fold) == self.held_out
        own = np.ones(order.size) if partition.weight is None else partition.weight
        return partition.weighing(np.where(counts, own, 0.0))


@dataclass(frozen=True, eq=False)
class Form:
    """How samples become a model, the same for all source.

    Attributes
    ----------
    loss : Loss
    fit_intercept : bool
    center, scale : ndarray of shape (d,), optional
        A = (X − 1c') diag(1/s).
    classes : ndarray, optional
        Of targets that are labels. Two classes have one margin, the second is +1; more have one each.
    softmax : bool
        Whether more than two classes share one likelihood; otherwise each class is fitted against the others with
        `loss`.
    """

    loss: Loss
    fit_intercept: bool = False
    center: Vector | None = None
    scale: Vector | None = None
    classes: NDArray[Any] | None = None
    softmax: bool = False

    @property
    def width(self) -> int:
        """Coefficients of a feature."""
        return 1 if self.classes is None or self.classes.size == 2 else self.classes.size

    @property
    def standardized(self) -> bool:
        """Whether columns are taken to have mean square 1, with mean 0 where there is an intercept."""
        return self.scale is not None and (self.center is not None or not self.fit_intercept)

    def model(self, design: Design, y: NDArray[Any], weight: Vector | None, offset: Vector | None) -> Model:
        """ψ of some of the samples; X was checked."""
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
        Which of the source this is: what errors call it.
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
        self.index, self.design, self.y, self.offset, self.form = index, design, y, offset, form
        self.weight = weight
        self.total = float(design.shape[0] if self.weight is None else self.weight.sum())
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

    def part(self, features: Features) -> Model:
        """The same over few features; the columns of the last ones are kept."""
        key, kept = features.tobytes(), self._part
        if kept is None or kept[0] != key:
            kept = key, self.model.restrict(features)
            self._part = kept
        return kept[1]

    def formed(self, form: Form) -> Partition:
        """The same rows as another model."""
        return Partition(self.index, self.design, self.y, self.weight, self.offset, form)

    def weighing(self, weight: Vector) -> Partition:
        """The same rows with other weights."""
        return Partition(self.index, self.design, self.y, weight, self.offset, self.form)
