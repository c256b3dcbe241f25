"""Multinomial (softmax) regression: a linear model with one margin for each of K classes.

    ψ(x) = Σ_i s_i [log Σ_k exp(z_ik) − z_{i,y_i}] / Σ_i s_i,      z = XB + o,      B of shape (d, K)

x is B row by row: feature j has the K coordinates j·K … j·K + K − 1, and counts once. There is no reference class:
adding a constant to a row of B changes nothing, and of all such rows the constraint chooses the shortest, whose
entries add up to 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Self

import numpy as np

import levelprox._kernels as _kernels
from levelprox._runtime import one_blas_thread
from levelprox._typing import Features, Matrix, Vector
from levelprox.designs import Design
from levelprox.exceptions import InvalidInputError
from levelprox.losses import Multinomial
from levelprox.objectives.linear_model import LinearModel
from levelprox.objectives.model import Ridge
from levelprox.objectives.multiclass import ByClass

_MANY_CLASSES = 16  # from which on pairs of classes are not taken one by one
_SMALL = 2**22  # entries of an array that may be made for a product
_KEPT = 2**18  # entries of X, of which a copy is kept
_DENSE = 0.25  # share of entries from which on products of sparse columns take longer


class MultinomialModel(ByClass):
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
    classes : array-like of shape (K,), optional
        The classes, where some may have no sample among `labels`. By default the different labels.
    ridge : float or array-like of shape (d,), default=0
        r ≥ 0: Σ_j r_j Σ_k B_jk² is added to ψ; the intercepts are free of it.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The classes, sorted; column k of B belongs to `classes_[k]`.
    n_outputs : int
        K.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import MultinomialModel
    >>> psi = MultinomialModel(np.eye(3), ["a", "b", "c"])
    >>> psi.dimension, round(psi.value_and_gradient(np.zeros(9))[0], 6)
    (9, 1.098612)
    """

    smooth = curved = True
    only_contrasts = bounded_curvature = True
    weak_convexity = 0.0
    derived = ("kernel", "one_class", "array", "class_fits", "feature_scale", "_kept_columns")
    loss = Multinomial
    #: X as an array in Fortran order, where it is a few columns at hand: products are then those of BLAS.
    array: Matrix | None = None

    @property
    def compiled(self) -> object:
        """The kernel that evaluates ψ; with a ridge, `value_and_gradient`."""
        return self.kernel if self.ridge is None else self.value_and_gradient

    @cached_property
    def kernel(self) -> object:
        """The kernel that evaluates ψ without its ridge; where X is not read by kernels, its products."""
        try:
            kernel = self.design.kernel
        except InvalidInputError:  # such as of a design that is made of another
            return self._by_products
        return _kernels.MultinomialModel(kernel, self.n_outputs, self.target, self.sample_weight, self.offset)

    @cached_property
    def class_fits(self) -> _kernels.ClassFits:
        """The kernel of fits and derivatives over a few columns; it does not depend on X."""
        return _kernels.ClassFits(self.n_outputs, self.target, self.sample_weight, self.offset)

    def _with_design(self, design: Design, ridge: Ridge | None) -> Self:
        other = super()._with_design(design, ridge)
        if "class_fits" in self.__dict__:
            other.__dict__["class_fits"] = self.class_fits
        return other

    def value_and_gradient(self, x: Vector) -> tuple[float, Vector]:
        """Return ψ(x) and ∇ψ(x) (a subgradient where ψ has a kink)."""
        point, kernel = self._point(x), self.kernel
        if not isinstance(kernel, _kernels.MultinomialModel):
            return self._by_products(point)
        gradient = np.empty(self.dimension)
        psi = kernel.value_and_gradient(point, gradient)
        return self._and_ridge(psi, gradient, point)

    def _by_products(self, x: Vector) -> tuple[float, Vector]:
        z = self.margins(x)
        return self.value_of(z), self.gradient_of(z)

    # --- what is known of ψ, through the model of one class against the others, whose ℓ'' is at most 1/4 and whose
    # |ℓ'| is at most 1

    @cached_property
    def one_class(self) -> LinearModel:
        """The model of one class against the others, over the same X."""
        return LinearModel(self.design, np.ones(self.design.shape[0]), "logistic", self.sample_weight)

    @property
    def smoothness(self) -> float:
        """L = 1/2 · λ_max(Xᵀ diag(s) X / Σ s)."""
        return Multinomial.smoothness / 0.25 * self.one_class.smoothness + self._steepest_ridge()

    @property
    def noise(self) -> float:
        """σ = √2 · √(Σ s_i ‖a_i‖² / Σ s) for a sample drawn with probability s_i / Σ s."""
        return Multinomial.lipschitz * self.one_class.noise

    @property
    def curvature(self) -> float:
        """(K−1)/K², p(1 − p) where all classes are alike, times the mean of Σ s_i X_ij² / Σ s over nonzero columns."""
        curvature = (self.n_outputs - 1) / self.n_outputs**2 / 0.25 * self.one_class.curvature
        return curvature if self.ridge is None else curvature + float(np.mean(self.ridge.curvatures()))

    def ray_trend(self, x: Vector) -> tuple[bool, bool]:
        """Return whether, far out along x, the loss of some sample falls forever, and whether that of one rises."""
        direction = self._products(x)
        if self.sample_weight is not None:
            direction = direction[self.sample_weight > 0]
        label = self.target if self.sample_weight is None else self.target[self.sample_weight > 0]
        own = np.take_along_axis(direction, label[:, None], axis=1)
        held = self.ridge is not None and self.ridge.holds(x)
        return bool(np.any(direction < own)), held or bool(np.any(direction > own))

    # --- second order

    def value_of(self, z: Matrix) -> float:
        """Return F(z)."""
        psi = Multinomial.value(self.of_samples(z), self.target, self.sample_weight)
        return psi if self.ridge is None else psi + self.ridge.value(self.tail(z))

    def slope_of(self, z: Matrix) -> Matrix:
        """Return s_i ∂ℓ_i / Σ s of every sample, of shape (n, K)."""
        return Multinomial.derivative(self.of_samples(z), self.target, self.sample_weight)

    def bend_of(self, z: Matrix, convex: bool = True) -> Matrix:
        """Return s_i ∂²ℓ_i/∂z_k² / Σ s of every sample and class, of shape (n, K)."""
        p, share = Multinomial.probabilities(self.of_samples(z)), self.share
        return np.stack([share * Multinomial.bend(p, a, a) for a in range(self.n_outputs)]).T

    def _bent(self, z: Matrix, convex: bool) -> Callable[[Matrix], Matrix]:
        p, share = Multinomial.probabilities(self.of_samples(z)), self.share[:, None]
        return lambda v: share * Multinomial.product(p, v)

    def hessian_of(self, z: Matrix, convex: bool = True) -> Matrix:
        """X'D_abX for every pair of classes, D_ab = s p_a([a = b] − p_b)/Σ s; of shape (dK, dK), ordered as x is."""
        d, K, z = self.design.shape[1], self.n_outputs, self.of_samples(z)
        if self.array is not None or K > _MANY_CLASSES or self._is_small_and_dense():
            return self.bent_by_ridge(self.class_fits.hessian(self._columns(), np.ascontiguousarray(z)))
        p, share = Multinomial.probabilities(z), self.share
        hessian = np.empty((d, K, d, K))
        for a in range(K):
            for b in range(a, K):
                hessian[:, a, :, b] = self.design.gram(share * Multinomial.bend(p, a, b))
                hessian[:, b, :, a] = hessian[:, a, :, b]  # a Gram matrix is symmetric itself
        return self.bent_by_ridge(hessian.reshape(d * K, d * K))

    def derivatives_over(self, z: Matrix, columns: list[Vector], features: Features) -> tuple[Vector, Matrix, Matrix]:
        """Return ∇ψ, the columns of ∇²ψ that belong to some features, and its diagonal blocks, in one pass.

        `columns` are those of X.
        """
        gradient, cross, own = self.class_fits.derivatives(columns, features.tolist(), self.of_samples(z))
        if self.ridge is not None:
            held, K, m = self.ridge.curvatures()[:, None, None] * np.eye(self.n_outputs), self.n_outputs, features.size
            own += held
            cross.reshape(len(columns), K, m, K)[features, :, np.arange(m)] += held[features]
            gradient = gradient + self.ridge.gradient(self.tail(z)).reshape(gradient.shape)
        return gradient.ravel(), cross, own

    def _is_small_and_dense(self) -> bool:
        n, d = self.design.shape
        return n * d <= _SMALL and self.design.stored >= _DENSE * n * d

    # --- products with columns at hand: a call for each class would take far longer than the products

    def _columns(self) -> list[Vector]:
        """Return the columns of X; those of small data are kept."""
        if self.array is not None:
            return list(self.array.T)
        n, d = self.design.shape
        return self._kept_columns if n * d <= _KEPT else [self.design.matvec(unit) for unit in np.eye(d)]

    @cached_property
    def _kept_columns(self) -> list[Vector]:
        return [self.design.matvec(unit) for unit in np.eye(self.design.shape[1])]

    def over(self, X: Matrix) -> Self:
        """Return the same samples with other columns, those of X, which are few; the ridge is that of the features."""
        model = super().over(X)
        model.array = np.asarray(X, np.float64, order="F")
        return model

    def _products(self, dx: Vector) -> Matrix:
        if self.array is None:
            return super()._products(dx)
        with np.errstate(over="ignore", invalid="ignore"), one_blas_thread():
            return np.asarray(self.array @ np.reshape(dx, (-1, self.n_outputs)), order="C")

    def _pulled_back(self, r: Matrix) -> Vector:
        if self.array is None:
            return super()._pulled_back(r)
        with np.errstate(over="ignore", invalid="ignore"), one_blas_thread():
            return np.asarray(self.array.T @ r, order="C").ravel()

    def feature_hessians_of(self, z: Matrix) -> Matrix:
        """Return the diagonal blocks of A'∇²F(z)A, one per feature; of shape (n_features, n_outputs, n_outputs)."""
        blocks = self._feature_hessians_of_samples(z)
        return (
            blocks if self.ridge is None else blocks + self.ridge.curvatures()[:, None, None] * np.eye(self.n_outputs)
        )

    def _feature_hessians_of_samples(self, z: Matrix) -> Matrix:
        (n, d), K = self.design.shape, self.n_outputs
        if n * d <= _SMALL and (K > _MANY_CLASSES or self._is_small_and_dense()):
            return self.class_fits.derivatives(self._columns(), [], np.ascontiguousarray(self.of_samples(z)))[2]
        p, share = Multinomial.probabilities(self.of_samples(z)), self.share
        blocks = np.empty((self.design.shape[1], K, K))
        for a in range(K):
            for b in range(a, K):
                bend = share * Multinomial.bend(p, a, b)  # of one sign
                blocks[:, a, b] = blocks[:, b, a] = (1 if a == b else -1) * self.design.column_squares(np.abs(bend))
        return blocks
