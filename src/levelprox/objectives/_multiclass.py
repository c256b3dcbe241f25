"""Linear models with one margin for each of K classes: what they share.

    z = XB + o,      B of shape (d, K),      o of shape (n, K)

x is B row by row: feature j has the K coordinates j·K … j·K + K − 1, and counts once.

A ridge adds Σ_j r_j Σ_k B_jk² to ψ.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levelprox._typing import Matrix, Vector
from levelprox._validation import as_array, finite, real_array
from levelprox.designs import (
    Design,
    InterceptDesign,
    as_design,
    precise_matvec,
    scaled_by,
    standardised,
    units_of,
    unstandardised,
)
from levelprox.exceptions import InvalidInputError
from levelprox.losses import check_weights
from levelprox.objectives._base import Model
from levelprox.objectives.feature_scale import FeatureScale
from levelprox.objectives.linear_model import LinearModel
from levelprox.objectives.ridge import Ridge

_EPS = float(np.finfo(np.float64).eps)


class ByClass(Model):
    """ψ of the margins XB + o; the subclasses say which, and describe the parameters.

    Attributes
    ----------
    design : Design
        X, with the intercept's column where there is one.
    target : ndarray of int64 of shape (n,)
        The place of each sample's class in `classes_`.
    """

    #: In which order margins are in memory: "F" has those of a class side by side, "C" those of a sample.
    margin_order: ClassVar[Literal["C", "F"]] = "C"
    #: What is computed from X once, and not pickled.
    derived: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        X: object,
        labels: ArrayLike,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        fit_intercept: bool = False,
        classes: ArrayLike | None = None,
        ridge: ArrayLike = 0.0,
    ) -> None:
        design = as_design(X)
        self.design: Design = InterceptDesign(design) if fit_intercept else design
        n = self.design.shape[0]
        self.classes_, self.target = _classes(labels, n, classes)
        self.width = self.classes_.size
        self.sample_weight: Vector | None = None
        if sample_weight is not None:
            weight = check_weights(sample_weight, n)
            # As in a linear model: a power of two keeps sums and products in range without rounding.
            self.sample_weight = np.ldexp(weight, -int(np.frexp(weight.max())[1]))
        self.offset = None if offset is None else _check_offset(offset, (n, self.width))
        self.ridge = Ridge.of(ridge, self.design.shape[1], self.design.ones)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name not in (*self.derived, "feature_scale")}

    @property
    def dimension(self) -> int:
        return self.design.shape[1] * self.width

    @property
    def infimum(self) -> float:
        return 0.0

    @cached_property
    def feature_scale(self) -> FeatureScale:
        return self.of_one_class.feature_scale

    @property
    @abstractmethod
    def of_one_class(self) -> LinearModel:
        """A model over the same X and with the same weights, which knows what does not depend on the classes."""

    @property
    def n_margins(self) -> int:
        return self.design.shape[0] * self.width

    def margins(self, x: Vector) -> Matrix:
        """z = XB + o, of shape (n, K); with a ridge, B below them."""
        z = self._products(x)
        return self.with_tail(z if self.offset is None else z + self.offset, x)

    def refined_value(self, x: Vector, psi: float, enough: float) -> float:
        by_class = self._columns_of(x)
        features = np.flatnonzero(np.any(by_class, axis=0))
        if not features.size:
            return psi
        design = self.design.view(features)
        size = sum(design.row_magnitudes(column[features]) for column in by_class)
        if not _EPS * float(np.sum(self._share * size)) > enough:  # slopes are about 1, or less
            return psi
        offsets = [None] * self.width if self.offset is None else [*np.ascontiguousarray(self.offset.T)]
        margins = [precise_matvec(design, b[features], o) for b, o in zip(by_class, offsets, strict=True)]
        return self.value_of(self.with_tail(np.asarray(np.stack(margins).T, order=self.margin_order), x))

    def moved(self, dx: Vector) -> Matrix:
        return self.with_tail(self._products(dx), dx)

    def _products(self, dx: Vector) -> Matrix:
        """X times the coefficients of each class."""
        by_class = [self.design.matvec(column) for column in self._columns_of(dx)]
        return np.asarray(np.stack(by_class).T, order=self.margin_order)

    def column_magnitudes(self) -> Vector:
        return np.repeat(self.design.column_magnitudes(), self.width)

    def restrict(self, W: NDArray[np.intp]) -> Self:
        """ψ as a function of the features in W, of K coefficients each, the others held at zero."""
        part = self._with_design(self.design.view(W), None if self.ridge is None else self.ridge.restrict(W))
        if "feature_scale" in self.__dict__:  # in units of a typical column of the whole
            part.__dict__["feature_scale"] = self.feature_scale.restrict(W)
        return part

    def scaled(self, scale: Vector) -> Self:
        return self._with_design(scaled_by(self.design, scale), self.ridge and self.ridge.scaled(1 / scale))

    def over(self, X: Matrix) -> Self:
        """The same samples with other columns, those of X; the ridge is that of the features."""
        return self._with_design(as_design(X), self.ridge)

    def ridged(self, ridge: ArrayLike) -> Self:
        """Return the same model with another ridge: a number, or one for each feature."""
        return self._with_design(self.design, Ridge.of(ridge, self.design.shape[1], self.design.ones))

    def standardised(self) -> Self | None:
        """Return the model over centred and scaled columns; None unless their means or units would cost digits."""
        design = standardised(self.design, self.sample_weight)
        if design is None:
            return None
        return self._with_design(design, self.ridge and self.ridge.scaled(units_of(design)))

    def unstandardised(self, x: Vector) -> Vector:
        """Return the coefficients for the data themselves, of coefficients for what `standardised` returned."""
        return unstandardised(self.design, x.reshape(-1, self.width)).ravel()

    def _with_design(self, design: Design, ridge: Ridge | None) -> Self:
        """The same samples with other features: all but X is shared, and was checked."""
        other = copy.copy(self)  # without what is derived
        other.design, other.ridge = design, ridge
        return other

    def _point(self, x: Vector) -> Vector:
        point = np.ascontiguousarray(x, np.float64)
        if point.shape != (self.dimension,):
            raise InvalidInputError(f"x must have shape ({self.dimension},), got {point.shape}")
        return point

    def _columns_of(self, x: Vector) -> Matrix:
        """B', of shape (K, d): the coefficients of each class."""
        return np.reshape(x, (-1, self.width)).T

    def _pulled_back(self, r: Matrix) -> Vector:
        """X'r of every class, as a flat gradient."""
        return np.stack([self.design.rmatvec(column) for column in r.T], axis=1).ravel()

    @property
    def origin(self) -> Matrix:
        """The margins at zero."""
        origin = np.zeros((self.design.shape[0], self.width)) if self.offset is None else self.offset
        return self.with_tail(origin, np.zeros(self.dimension))

    def _steepest_ridge(self) -> float:
        return 0.0 if self.ridge is None else float(np.max(self.ridge.curvatures(), initial=0.0))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.design!r}, {self.width} classes)"


def _classes(labels: ArrayLike, n: int, known: ArrayLike | None) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The classes, sorted, and the place of each label among them; where none are known, the different labels."""
    given = _check_kind("labels", labels)
    if given.shape != (n,):
        raise InvalidInputError(f"labels must have shape ({n},), one for each sample, got {given.shape}")
    name, wanted = ("labels", given) if known is None else ("classes", _check_kind("classes", known))
    if wanted.ndim != 1:
        raise InvalidInputError(f"classes must be one-dimensional, got shape {wanted.shape}")
    try:
        classes, places = np.unique(wanted, return_inverse=True)
        if classes.size < 2:
            only = f"got only {classes[0]!r}" if classes.size else "got none"
            raise InvalidInputError(f"{name} must be of at least two classes, {only}")
        if known is not None:
            places = _places(given, classes)
    except TypeError:
        raise InvalidInputError(f"{name} must all be of one kind, which can be sorted") from None
    return classes, places.astype(np.int64)


def _check_kind(name: str, labels: ArrayLike) -> NDArray[Any]:
    given = as_array(name, labels)
    if given.dtype.kind == "f":
        finite(name, given)
        broken = np.flatnonzero(given != np.rint(given))
        if broken.size:
            raise InvalidInputError(
                f"{name} must be classes, got {given[broken[0]]!r} at index {broken[0]}; a target that is no whole "
                "number is for regression, with a LinearModel"
            )
    elif given.dtype.kind not in "biuUSO":
        raise InvalidInputError(f"{name} must be integers, whole floats, booleans or strings, got dtype {given.dtype}")
    return given


def _places(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """Where each label is among the classes; an error where one is not."""
    numbers = labels.dtype.kind in "biuf" and classes.dtype.kind in "biuf"
    if labels.dtype.kind != classes.dtype.kind and not numbers:  # compared one by one: "1" is not 1
        labels, classes = labels.astype(object), classes.astype(object)
    places = np.minimum(np.searchsorted(classes, labels), classes.size - 1)
    outside = np.flatnonzero(classes[places] != labels)
    if outside.size:
        raise InvalidInputError(
            f"labels must be among the {classes.size} classes, got {labels[outside[0]]!r} at index {outside[0]}"
        )
    return places


def _check_offset(offset: ArrayLike, shape: tuple[int, int]) -> Matrix:
    """Offsets, one for each sample and class, in an array of our own."""
    o = np.array(real_array("offset", offset), dtype=np.float64, order="C")
    if o.shape != shape:
        raise InvalidInputError(f"offset must have shape {shape}, a number for each sample and class, got {o.shape}")
    finite("offset", o)
    return o
