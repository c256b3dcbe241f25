"""Base class of linear models with one margin for each of K classes.

    z = XB + o,      B of shape (d, K),      o of shape (n, K)

x is B row by row: feature j has the K coordinates j·K … j·K + K − 1, and counts once.

A ridge adds Σ_j r_j Σ_k B_jk² to ψ.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levelprox._typing import Matrix, Vector
from levelprox._validation import as_array, finite, real_array
from levelprox.designs import InterceptDesign, as_design, precise_matvec
from levelprox.exceptions import InvalidInputError
from levelprox.losses import relative_weights
from levelprox.objectives.feature_scale import FeatureScale
from levelprox.objectives.linear_model import LinearModel
from levelprox.objectives.model import Model, Ridge

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

    #: The loss of a class is nowhere negative.
    infimum = 0.0
    #: In which order margins are in memory: "F" has those of a class side by side, "C" those of a sample.
    margin_order: ClassVar[Literal["C", "F"]] = "C"

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
        self.design = InterceptDesign(design) if fit_intercept else design
        n = self.design.shape[0]
        self.classes_, self.target = _classes(labels, n, classes)
        self.n_outputs = self.classes_.size
        self.sample_weight = relative_weights(sample_weight, n)
        self.offset = None if offset is None else _check_offset(offset, (n, self.n_outputs))
        self.ridge = Ridge.of(ridge, self.design.shape[1], self.design.ones, self.loss)

    @property
    @abstractmethod
    def one_class(self) -> LinearModel:
        """A model over the same X and with the same weights, which shares what does not depend on the classes."""

    @cached_property
    def feature_scale(self) -> FeatureScale:
        """Scales of the features, the same for all classes."""
        return self.one_class.feature_scale

    def advice(self) -> str:
        """Return a sentence on what makes ψ hard to minimise, for those whose run did not converge; may be empty."""
        return self.one_class.advice()

    def refined_value(self, x: Vector, psi: float, enough: float) -> float:
        """Return ψ(x) from margins in extended precision, where rounding may change it by more than `enough`."""
        by_class = self._columns_of(x)
        features = np.flatnonzero(np.any(by_class, axis=0))
        if not features.size:
            return psi
        design = self.design.view(features)
        size = sum(design.row_magnitudes(column[features]) for column in by_class)
        if not _EPS * float(np.sum(self.share * size)) > enough:  # slopes are about 1, or less
            return psi
        offsets = [None] * self.n_outputs if self.offset is None else [*np.ascontiguousarray(self.offset.T)]
        margins = [precise_matvec(design, b[features], o) for b, o in zip(by_class, offsets, strict=True)]
        return self.value_of(self.with_tail(np.asarray(np.stack(margins).T, order=self.margin_order), x))

    def _products(self, dx: Vector) -> Matrix:
        """X times the coefficients of each class."""
        by_class = [self.design.matvec(column) for column in self._columns_of(dx)]
        return np.asarray(np.stack(by_class).T, order=self.margin_order)

    def _columns_of(self, x: Vector) -> Matrix:
        """B', of shape (K, d): the coefficients of each class."""
        return np.reshape(x, (-1, self.n_outputs)).T

    def _pulled_back(self, r: Matrix) -> Vector:
        """X'r of every class, as a flat gradient."""
        return np.stack([self.design.rmatvec(column) for column in r.T], axis=1).ravel()

    @property
    def origin(self) -> Matrix:
        """The margins at zero."""
        origin = np.zeros((self.design.shape[0], self.n_outputs)) if self.offset is None else self.offset
        return self.with_tail(origin, np.zeros(self.dimension))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.design!r}, {self.n_outputs} classes)"


def _classes(labels: ArrayLike, n: int, known: ArrayLike | None) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the classes, sorted, and the place of each label among them; by default the different labels."""
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
        raise InvalidInputError(f"{name} must all be of one type that can be sorted") from None
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
    """Offsets, one for each sample and class, in a new array."""
    o = np.array(real_array("offset", offset), dtype=np.float64, order="C")
    if o.shape != shape:
        raise InvalidInputError(f"offset must have shape {shape}, a number for each sample and class, got {o.shape}")
    finite("offset", o)
    return o
