"""Multinomial (softmax) regression: a linear model with one margin for each of K classes.

    ψ(x) = Σ_i s_i [log Σ_k exp(z_ik) − z_{i,y_i}] / Σ_i s_i,      z = XB + o,      B of shape (d, K)

x is B row by row: feature j has the K coordinates j·K … j·K + K − 1, and counts once. There is no reference class:
adding a constant to a row of B changes nothing, and of all such rows the constraint chooses the shortest, whose
entries add up to 0.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levelprox import _kernels
from levelprox.designs import Design, InterceptDesign, as_design, scaled_by
from levelprox.errors import InvalidInputError
from levelprox.losses import Multinomial, check_weights
from levelprox.objectives.base import Vector
from levelprox.objectives.curved import Matrix
from levelprox.objectives.linear_model import LinearModel
from levelprox.objectives.model import Model
from levelprox.validation import as_array, finite, real_array


class MultinomialModel(Model):
    """ψ = the multinomial loss of XB + o.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d), or Design
        Used in place, never modified.
    labels : array-like of shape (n,)
        The class of each sample: integers, whole floats, booleans or strings; at least two different ones.
    sample_weight : array-like of shape (n,), optional
        s ≥ 0: a weight of 2 is a repeated sample, a weight of 0 a removed one.
    offset : array-like of shape (n, K), optional
        o: what is known to add to each margin. None is no offset.
    fit_intercept : bool, default=False
        Whether to add a column of ones to X: the last feature is then the intercepts, which never count.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The classes, sorted; column k of B belongs to `classes_[k]`.
    width : int
        K.
    """

    smooth = curved = True
    loss = Multinomial

    def __init__(
        self,
        X: object,
        labels: ArrayLike,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        fit_intercept: bool = False,
    ) -> None:
        design = as_design(X)
        self.design: Design = InterceptDesign(design) if fit_intercept else design
        n = self.design.shape[0]
        self.classes_, self.target = _classes(labels, n)
        self.width = self.classes_.size
        self.sample_weight: Vector | None = None
        if sample_weight is not None:
            weight = check_weights(sample_weight, n)
            # As in a linear model: a power of two keeps sums and products in range without rounding.
            self.sample_weight = np.ldexp(weight, -int(np.frexp(weight.max())[1]))
        self.offset = None if offset is None else _check_offset(offset, (n, self.width))

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name not in ("compiled", "_one_class")}

    @property
    def dimension(self) -> int:
        return self.design.shape[1] * self.width

    @cached_property
    def compiled(self) -> object:
        """The kernel that evaluates ψ in one or two passes over X; where X is not read by kernels, its products."""
        try:
            kernel = self.design.kernel
        except InvalidInputError:  # such as of a design that is made of another
            return self._by_products
        return _kernels.MultinomialModel(kernel, self.width, self.target, self.sample_weight, self.offset)

    def value_and_gradient(self, x: Vector) -> tuple[float, Vector]:
        point, kernel = np.ascontiguousarray(x, np.float64), self.compiled
        if point.shape != (self.dimension,):
            raise InvalidInputError(f"x must have shape ({self.dimension},), got {point.shape}")
        if not isinstance(kernel, _kernels.MultinomialModel):
            return self._by_products(point)
        gradient = np.empty(self.dimension)
        return kernel.value_and_gradient(point, gradient), gradient

    def _by_products(self, x: Vector) -> tuple[float, Vector]:
        z = self.margins(x)
        return self.value_of(z), self.gradient_of(z)

    def restrict(self, W: NDArray[np.intp]) -> MultinomialModel:
        """ψ as a function of the features in W, of K coefficients each, the others held at zero."""
        part = copy.copy(self)
        part.design = self.design.view(W)
        return part

    # --- what is known of ψ, through the model of one class against the others, whose ℓ'' is at most 1/4 and whose
    # |ℓ'| is at most 1

    @cached_property
    def _one_class(self) -> LinearModel:
        return LinearModel(self.design, np.ones(self.design.shape[0]), "logistic", self.sample_weight)

    @property
    def weak_convexity(self) -> float:
        return 0.0

    @property
    def smoothness(self) -> float:
        """L = 1/2 · λ_max(Xᵀ diag(s) X / Σ s)."""
        return Multinomial.smoothness / 0.25 * self._one_class.smoothness

    @property
    def noise(self) -> float:
        """σ = √2 · √(Σ s_i ‖a_i‖² / Σ s) for a sample drawn with probability s_i / Σ s."""
        return Multinomial.lipschitz * self._one_class.noise

    @property
    def curvature(self) -> float:
        """(K−1)/K², p(1 − p) where all classes are alike, times the mean of Σ s_i X_ij² / Σ s over nonzero columns."""
        return (self.width - 1) / self.width**2 / 0.25 * self._one_class.curvature

    def advice(self) -> str:
        return self._one_class.advice()

    def is_separated(self, x: Vector) -> bool:
        """Whether far out along x the class of every sample is among its largest margins, and for some alone."""
        direction = self.moved(x)
        if self.sample_weight is not None:
            direction = direction[self.sample_weight > 0]
        label = self.target if self.sample_weight is None else self.target[self.sample_weight > 0]
        own = np.take_along_axis(direction, label[:, None], axis=1)
        return bool(np.all(direction <= own) and np.any(direction < own))

    # --- second order

    @property
    def exempt(self) -> NDArray[np.intp]:
        return self.design.ones.astype(np.intp, copy=False)

    @property
    def n_margins(self) -> int:
        return self.design.shape[0] * self.width

    def margins(self, x: Vector) -> Matrix:
        """z = XB + o, of shape (n, K)."""
        z = self.moved(x)
        return z if self.offset is None else z + self.offset

    def moved(self, dx: Vector) -> Matrix:
        by_class = np.reshape(dx, (-1, self.width)).T
        return np.ascontiguousarray(np.stack([self.design.matvec(column) for column in by_class], axis=1))

    def value_of(self, z: Matrix) -> float:
        return Multinomial.value(z, self.target, self.sample_weight)

    def gradient_of(self, z: Matrix) -> Vector:
        return self._pulled_back(Multinomial.derivative(z, self.target, self.sample_weight))

    def hessian_of(self, z: Matrix, convex: bool = True) -> Matrix:
        """X'D_abX for every pair of classes, D_ab = s p_a([a = b] − p_b)/Σ s; of shape (dK, dK), ordered as x is."""
        p, share = Multinomial.probabilities(z), self._share
        d, K = self.design.shape[1], self.width
        hessian = np.empty((d, K, d, K))
        for a in range(K):
            for b in range(a, K):
                hessian[:, a, :, b] = self.design.gram(share * Multinomial.bend(p, a, b))
                hessian[:, b, :, a] = hessian[:, a, :, b]  # a Gram matrix is symmetric itself
        return hessian.reshape(d * K, d * K)

    def hessian_product_of(self, z: Matrix, convex: bool = True) -> Callable[[Vector], Vector]:
        p, share = Multinomial.probabilities(z), self._share[:, None]
        return lambda v: self._pulled_back(share * Multinomial.product(p, self.moved(v)))

    def cross_hessian_of(self, z: Matrix, moves: Iterable[Matrix], count: int, convex: bool = True) -> Matrix:
        p, share = Multinomial.probabilities(z), self._share[:, None]
        cross = np.empty((self.dimension, count), order="F")
        for j, move in enumerate(moves):
            cross[:, j] = self._pulled_back(share * Multinomial.product(p, move))
        return cross

    def feature_hessians_of(self, z: Matrix) -> Matrix:
        p, share, K = Multinomial.probabilities(z), self._share, self.width
        blocks = np.empty((self.design.shape[1], K, K))
        for a in range(K):
            for b in range(a, K):
                bend = share * Multinomial.bend(p, a, b)  # of one sign
                blocks[:, a, b] = blocks[:, b, a] = (1 if a == b else -1) * self.design.column_squares(np.abs(bend))
        return blocks

    def column_magnitudes(self) -> Vector:
        return np.repeat(self.design.column_magnitudes(), self.width)

    def scaled(self, scale: Vector) -> MultinomialModel:
        whole = copy.copy(self)
        for name in ("compiled", "_one_class"):
            whole.__dict__.pop(name, None)
        whole.design = scaled_by(self.design, scale)
        return whole

    def hessian_diagonal_of(self, z: Matrix, convex: bool = True) -> Vector:
        p, share = Multinomial.probabilities(z), self._share
        by_class = [self.design.column_squares(share * Multinomial.bend(p, a, a)) for a in range(self.width)]
        return np.stack(by_class, axis=1).ravel()

    def _pulled_back(self, r: Matrix) -> Vector:
        """X'r of every class, as a flat gradient."""
        return np.stack([self.design.rmatvec(column) for column in r.T], axis=1).ravel()

    @cached_property
    def _share(self) -> Vector:
        """s_i / Σ s."""
        n = self.design.shape[0]
        return np.full(n, 1 / n) if self.sample_weight is None else self.sample_weight / self.sample_weight.sum()

    def __repr__(self) -> str:
        return f"MultinomialModel({self.design!r}, {self.width} classes)"


def _classes(labels: ArrayLike, n: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The different labels, sorted, and the place of each label among them."""
    given = as_array("labels", labels)
    if given.shape != (n,):
        raise InvalidInputError(f"labels must have shape ({n},), one for each sample, got {given.shape}")
    if given.dtype.kind == "f":
        finite("labels", given)
        broken = np.flatnonzero(given != np.rint(given))
        if broken.size:
            raise InvalidInputError(
                f"labels must be classes, got {given[broken[0]]!r} at index {broken[0]}; a target that is no whole "
                "number is for regression, with a LinearModel"
            )
    elif given.dtype.kind not in "biuUSO":
        raise InvalidInputError(f"labels must be integers, whole floats, booleans or strings, got dtype {given.dtype}")
    try:
        classes, places = np.unique(given, return_inverse=True)
    except TypeError:
        raise InvalidInputError("labels must all be of one kind, which can be sorted") from None
    if classes.size < 2:
        raise InvalidInputError(f"labels must be of at least two classes, got only {classes[0]!r}")
    return classes, places.astype(np.int64)


def _check_offset(offset: ArrayLike, shape: tuple[int, int]) -> Matrix:
    """Offsets, one for each sample and class, in an array of our own."""
    o = np.array(real_array("offset", offset), dtype=np.float64, order="C")
    if o.shape != shape:
        raise InvalidInputError(f"offset must have shape {shape}, a number for each sample and class, got {o.shape}")
    finite("offset", o)
    return o
