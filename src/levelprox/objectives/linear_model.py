"""A loss of linear predictions, averaged over samples.

ψ(x) = Σ_i s_i ℓ(⟨a_i, x⟩ + o_i, b_i) / Σ_i s_i + Σ_j r_j x_j²
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

import levelprox._kernels as _kernels
from levelprox._runtime import TimeLimitError, interruptible, seconds_left
from levelprox._typing import Matrix, Vector
from levelprox._validation import finite
from levelprox.designs import Design, InterceptDesign, as_design, precise_matvec
from levelprox.exceptions import InvalidInputError
from levelprox.losses import Loss, loss_by_name, relative_weights, vector
from levelprox.objectives._base import Subgradients
from levelprox.objectives.feature_scale import ColumnSquares, FeatureScale, largest_eigenvalue
from levelprox.objectives.model import Model, Ridge

# Margins this close to a kink, relative to the terms that they are summed from, count as at it.
_KINK = 1e-12
_EPS = float(np.finfo(np.float64).eps)
_ALL_ROWS = slice(None)


class LinearModel(Model):
    """ψ = loss ∘ design.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d), or Design
        Used in place, never modified.
    b : array-like of shape (n,)
        Targets; −1 and +1 for margin losses such as logistic, b ≥ 0 for poisson, b > 0 for gamma.
    loss : str or Loss, default="squared"
        One of "squared", "logistic", "huber", "absolute", "quantile", "hinge", "squared_hinge", "cauchy",
        "sigmoid", "poisson", "gamma".
    sample_weight : array-like of shape (n,), optional
        s ≥ 0: a weight of 2 is a repeated sample, a weight of 0 a removed one.
    offset : array-like of shape (n,), optional
        o: what is known to add to each margin, such as another model's prediction, or the log of an
        exposure. None is no offset.
    fit_intercept : bool, default=False
        Whether to add a column of ones to X: the last coordinate is then the intercept, which never counts.
    ridge : float or array-like of shape (d,), default=0
        r ≥ 0: Σ_j r_j x_j² is added to ψ; the intercept is free of it. For differentiable losses.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import LinearModel
    >>> psi = LinearModel(np.array([[1.0, 0.0], [0.0, 1.0]]), [1.0, -1.0], "logistic")
    >>> psi.value_and_gradient(np.zeros(2))
    (0.6931471805599453, array([-0.25,  0.25]))
    """

    _of_columns = ("_column_squares", "_eigenvalue", "_squares", "_triangle")
    derived = ("kernel", "by_rows", "row_squares", "curvature", "feature_scale", *_of_columns)
    loss: Loss
    target: Vector
    _eigenvalue: float  # once it is known
    _triangle: Matrix  # the same (reduced.py)

    def __init__(
        self,
        X: object,
        b: ArrayLike,
        loss: str | Loss = "squared",
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        fit_intercept: bool = False,
        ridge: ArrayLike = 0.0,
    ) -> None:
        design = as_design(X)
        self.design: Design = InterceptDesign(design) if fit_intercept else design
        self.loss = loss_by_name(loss)
        self.target = np.array(self.loss.check_targets(b))  # a copy
        n = self.design.shape[0]
        if self.target.shape != (n,):
            raise InvalidInputError(f"X has {n} samples, but b has {self.target.shape[0]}")
        self.sample_weight = relative_weights(sample_weight, n)
        self.offset = None if offset is None else _check_offset(offset, n)
        self.smooth = self.curved = self.loss.smooth
        self.ridge = Ridge.of(ridge, self.design.shape[1], self.design.ones, self.loss)

    @property
    def has_rows(self) -> bool:
        """Whether single samples can be had: not with a ridge, nor where X is centred, scaled or has an intercept."""
        return self.design.has_rows and self.ridge is None

    @property
    def compiled(self) -> object:
        """The kernel that evaluates ψ in one or two passes over X; with a ridge, `value_and_gradient`."""
        return self.kernel if self.ridge is None else self.value_and_gradient

    @cached_property
    def kernel(self) -> _kernels.Objective:
        """The kernel that evaluates ψ without its ridge in one or two passes over X."""
        return self.design.linear_model(self.loss.kernel, self.target, self.sample_weight, self.offset)

    @cached_property
    def by_rows(self) -> _kernels.LinearModel:
        """The same kernel over rows, for single samples; column storage is copied once."""
        design = self.design.row_major()
        if design is self.design and isinstance(self.kernel, _kernels.LinearModel):
            return self.kernel
        return _kernels.LinearModel(design.kernel, *self.loss.kernel, self.target, self.sample_weight, self.offset)

    @cached_property
    def row_squares(self) -> Vector:
        """‖a_i‖² of every sample."""
        return self.design.row_squares()

    def value_and_gradient(self, x: Vector) -> tuple[float, Vector]:
        """Return ψ(x) and ∇ψ(x) (a subgradient where ψ has a kink)."""
        gradient, point = np.empty(self.dimension), self._point(x)
        psi = self.kernel.value_and_gradient(point, gradient)
        return self._and_ridge(psi, gradient, point)

    def _products(self, dx: Vector) -> Vector:
        return self.design.matvec(dx)

    def _pulled_back(self, r: Vector) -> Vector:
        return self.design.rmatvec(r)

    @property
    def origin(self) -> Vector:
        """The margins at x = 0."""
        origin = np.zeros(self.n_margins) if self.offset is None else self.offset.copy()
        return self.with_tail(origin, np.zeros(self.dimension))

    def value_of(self, z: Vector) -> float:
        """Return F(z)."""
        psi = _kernels.loss_value(*self.loss.kernel, self.of_samples(z), self.target, self.sample_weight)
        return psi if self.ridge is None else psi + self.ridge.value(self.tail(z))

    def evaluated(self, z: Vector, dx: Vector, with_hessian: bool) -> tuple[Vector, Vector, Matrix | None]:
        """Return margins, gradient and, if requested, the convex Hessian after a step dx, in few passes."""
        z, gradient = z.copy(), np.zeros(self.dimension)
        hessian = np.zeros((self.dimension, self.dimension)) if with_hessian else None
        for rows, block in self.design.row_blocks():
            z[rows] += block.matvec(dx)
            slope, bend = self.slope_of(z[rows], rows), self.bend_of(z[rows], True, rows)
            if not (np.all(np.isfinite(slope)) and np.all(np.isfinite(bend))):  # so far out that ψ itself is no number
                return np.full_like(z, np.nan), np.full_like(gradient, np.nan), None
            gradient += block.rmatvec(slope)
            if hessian is not None:
                hessian += block.gram(bend)
        if self.ridge is not None:
            self.tail(z)[self.ridge.places] += dx
            gradient += self.ridge.gradient(self.tail(z))
            if hessian is not None:
                hessian = self.bent_by_ridge(hessian)
        return z, gradient, hessian

    def hessian_of(self, z: Vector, convex: bool) -> Matrix:
        """Return A'∇²F(z)A, of shape (dimension, dimension); if `convex` with |ℓ''| for ℓ'', so that it is PSD."""
        return self.bent_by_ridge(self.design.gram(self.bend_of(z, convex)))

    def cross_hessian_over(
        self, z: Vector, columns: Iterable[Vector], features: NDArray[np.intp], convex: bool
    ) -> Matrix:
        """Return the columns of the Hessian that belong to some features, whose columns of X are given."""
        bend = self.bend_of(z, convex)
        cross = np.empty((self.dimension, features.size), order="F")
        for j, column in enumerate(columns):
            cross[:, j] = self.design.rmatvec(bend * column)
        if self.ridge is not None:
            cross[features, np.arange(features.size)] += self.ridge.curvatures()[features]
        return cross

    def slope_of(self, z: Vector, rows: slice = _ALL_ROWS) -> Vector:
        """s_i ℓ'(z_i, b_i) / Σ s of these samples."""
        return self._weighted(_kernels.loss_derivative, z, rows)

    def bend_of(self, z: Vector, convex: bool, rows: slice = _ALL_ROWS) -> Vector:
        """s_i ℓ''(z_i, b_i) / Σ s of these samples; its absolute value where it must not be negative."""
        bend = self._weighted(_kernels.loss_curvature, z, rows)
        return np.abs(bend) if convex and self.loss.weak_convexity else bend

    def _weighted(self, kernel: Callable[..., None], z: Vector, rows: slice) -> Vector:
        """ℓ' or ℓ'' of some samples, as they enter the mean over all; the kernels take the mean of what they see."""
        share = self.share[rows]
        z = z[: share.size]  # below are coefficients, with a ridge
        out = np.empty_like(z)
        kernel(*self.loss.kernel, z, self.target[rows], None, out)
        with np.errstate(invalid="ignore"):
            out *= z.size * share
        out[share == 0] = 0.0  # a sample without weight has no effect
        return out

    def refined_value(self, x: Vector, psi: float, enough: float) -> float:
        """Return ψ(x) as it is reported, where `psi` was computed for it."""
        features = np.flatnonzero(x)
        if not features.size:
            return psi
        part, coefficients = self.restrict(features), x[features]
        change = _EPS * part.margin_magnitudes(coefficients)
        z = self.of_samples(part.margins(coefficients))
        with np.errstate(over="ignore", invalid="ignore"):  # a kink may be between these margins
            slopes = np.max([np.abs(self.slope_of(at)) for at in (z, z - change, z + change)], axis=0)
        if not float(np.sum(slopes * change)) > enough:
            return psi
        return part.value_of(part.with_tail(precise_matvec(part.design, coefficients, self.offset), coefficients))

    @cached_property
    def curvature(self) -> float:
        """A typical ℓ'' of the loss times the mean over the nonzero columns of Σ s_i X_ij² / Σ s_i."""
        squares = self._column_squares
        curvature = float(self._typical_bend * (squares.total / squares.nonzero)) if squares.total > 0 else 1.0
        return curvature if self.ridge is None else curvature + float(np.mean(self.ridge.curvatures()))

    @cached_property
    def feature_scale(self) -> FeatureScale:
        """In which units ∇ψ is measured, feature by feature; None where nothing is known of the features."""
        assert self._column_squares  # a norm that overflows is an error
        means = self.design.weighted_sums(self.share) if self.design.ones.size else None
        return FeatureScale.of_moments(self._squares, means, self.design.ones)

    @property
    def weak_convexity(self) -> float:
        """μ_ℓ · λ_max(Xᵀ diag(s) X / Σ s): how far ψ can be from convex."""
        return self.loss.weak_convexity * self._largest_eigenvalue() if self.loss.weak_convexity else 0.0

    @property
    def smoothness(self) -> float:
        """L = sup |ℓ''| · λ_max(Xᵀ diag(s) X / Σ s); 0 for piecewise linear losses, inf where ℓ'' has no bound."""
        if not self.bounded_curvature:
            return math.inf
        return self.loss.smoothness * self._largest_eigenvalue() + self._steepest_ridge() if self.smooth else 0.0

    @property
    def bounded_curvature(self) -> bool:
        """Whether `smoothness` is finite; cheap, where L itself may need passes over the data."""
        return not self.smooth or math.isfinite(self.loss.smoothness)

    @property
    def nonsmoothness(self) -> float:
        """M = jump of ℓ' · √λ_max(Xᵀ diag(s) X / Σ s), as Σ s_i |⟨a_i, d⟩| / Σ s ≤ √λ_max ‖d‖."""
        return self.loss.jump * math.sqrt(self._largest_eigenvalue()) if self.loss.jump else 0.0

    @property
    def noise(self) -> float:
        """σ = sup |ℓ'| · √(Σ s_i ‖a_i‖² / Σ s) for a sample drawn with probability s_i / Σ s."""
        total = self._column_squares.total
        return self.loss.lipschitz * math.sqrt(total) if total > 0 else 0.0

    @property
    def infimum(self) -> float:
        """The mean of what each sample would have if it were fitted perfectly."""
        return float(np.sum(self.share * self.loss.infimum(self.target)))

    @property
    def convex_start(self) -> LinearModel | None:
        """The model with the loss's own convex start for its loss."""
        return None if self.loss.convex_start is None else self.with_loss(self.loss.convex_start)

    def with_loss(self, loss: Loss) -> LinearModel:
        """Return the same model with another loss, for the same kind of targets."""
        other = copy.copy(self)
        other.loss = loss
        other.smooth = other.curved = loss.smooth
        for name in ("feature_scale", "_squares", "_eigenvalue"):  # of X and the weights alone
            if name in self.__dict__:
                other.__dict__[name] = self.__dict__[name]
        return other

    def first_guess(self) -> Vector:
        """Return the origin; the intercept of a loss of residuals that is not quadratic starts at the median.

        Far from its targets such a loss is a line or flatter, and says nothing of how far they are.
        """
        x, ones = np.zeros(self.dimension), self.unpenalized
        if self.loss.kind != "regression" or self.loss.constant_curvature or not ones.size:
            return x
        left = self.target - self.of_samples(self.origin)
        order = np.argsort(left, kind="stable")
        half = np.searchsorted(np.cumsum(self.share[order]), 0.5)
        x[ones[0]] = left[order[min(int(half), left.size - 1)]]
        return x

    def ray_trend(self, x: Vector) -> tuple[bool, bool]:
        """Return whether, far out along x, the loss of some sample falls forever, and whether that of one rises."""
        direction = self.design.matvec(x)  # far out, offsets do not matter
        falls, counts = self.loss.decreases_forever(direction, self.target), self.share > 0
        rises = bool(np.any(~falls & (direction != 0) & counts))
        return bool(np.any(falls & counts)), rises or (self.ridge is not None and self.ridge.holds(x))

    @property
    def bounded_by_zero(self) -> bool:
        """Whether ψ ≥ 0 everywhere."""
        return self.loss.kind in ("regression", "margin")

    def relative_column_noise(self) -> Vector | None:
        """Return the same relative to the root mean square of each column: the relative error of its products."""
        noise = self.design.column_noise()
        if noise is None:
            return None
        size = np.sqrt(self._squares)
        return np.where(size > 0, noise / np.where(size > 0, size, 1.0), 0.0)

    def typical_curvatures(self) -> Vector:
        """Return a typical ℓ'' of the loss times Σ s_i X_ij² / Σ s_i, one number for each coordinate."""
        held = 0.0 if self.ridge is None else self.ridge.curvatures()
        return np.asarray(self._typical_bend * self._squares + held, np.float64)

    @property
    def _typical_bend(self) -> float:
        """A typical ℓ'' where no feature is used."""
        margins = np.zeros_like(self.target) if self.offset is None else self.offset
        return self.loss.typical_curvature(margins, self.target, self.sample_weight)

    def slopes(self, x: Vector) -> Vector:
        """ℓ'(z_i, b_i) for each sample, neither weighted nor averaged."""
        return self.loss.subdifferential(self.of_samples(self.margins(x)), self.target)[0]

    def near_a_kink(self, x: Vector) -> Vector:
        """How close to its kink a margin counts as at it: some of the last digits that it can have at x."""
        return _KINK * self.margin_magnitudes(x)

    def margin_magnitudes(self, x: Vector) -> Vector:
        """Σ_j |a_ij x_j| + |o_i| + |b_i|: the terms of z_i − b_i, to which its rounding is proportional."""
        size = np.abs(self.target) + self.design.row_magnitudes(x)
        return size if self.offset is None else size + np.abs(self.offset)

    def counted(self, values: Vector) -> Vector:
        """Those of the samples that have a weight."""
        return values if self.sample_weight is None else values[self.sample_weight > 0]

    def with_envelope(self, width: float, slopes: Vector) -> LinearModel:
        """Return the model with its loss smoothed over `width`, and margins shifted by width · slopes."""
        shift = width * slopes if self.offset is None else self.offset + width * slopes
        return LinearModel(self.design, self.target, self.loss.smoothed(width), self.sample_weight, shift)

    def subgradients(self, x: Vector, hint: Vector | None = None) -> Subgradients | None:
        """Return the set of subgradients at x where it is more than one; None where ψ is differentiable."""
        if self.smooth:
            return None
        z, near, share = self.margins(x), self.near_a_kink(x), self.share
        low, _ = self.loss.subdifferential(z - near, self.target)
        _, high = self.loss.subdifferential(z + near, self.target)
        kinks = np.flatnonzero((low < high) & (share > 0))
        if not kinks.size:
            return None
        middle, radius = (low + high) / 2, (share * (high - low) / 2)[kinks]
        guess = np.zeros(kinks.size) if hint is None else (share * (hint - middle))[kinks]
        center = self.design.rmatvec(share * middle)
        guess = np.clip(guess, -radius, radius)
        return Subgradients(center, self.design.rows(kinks), radius, guess, middle, kinks, share[kinks])

    @cached_property
    def _squares(self) -> Vector:
        """Σ s_i X_ij² / Σ s_i of every column; without a pass where another model has given `feature_scale`."""
        known = self.__dict__.get("feature_scale")
        return self.design.column_squares(self.share) if known is None else known.squares

    @cached_property
    def _column_squares(self) -> ColumnSquares:
        squares = self._squares
        if not np.all(np.isfinite(squares)):
            j = int(np.argmax(~np.isfinite(squares)))
            raise InvalidInputError(f"the norm of column {j} of X overflows; scale the columns")
        return ColumnSquares.of(squares)

    def advice(self) -> str:
        """Return a sentence on what makes ψ hard to minimise, for those whose run did not converge; may be empty."""
        return self._column_squares.advice()

    def __repr__(self) -> str:
        ridge = "" if self.ridge is None else ", with a ridge"
        return f"LinearModel({self.design!r}, loss={self.loss!r}{ridge})"

    def _largest_eigenvalue(self) -> float:
        """λ_max(Xᵀ diag(s) X / Σ s), or the trace, which is no less, where the time limit leaves no time to find it."""
        if "_eigenvalue" not in self.__dict__:
            if seconds_left() <= 0:
                return self._column_squares.total
            try:
                with interruptible():
                    self._eigenvalue = largest_eigenvalue(self.design, self.share, self._column_squares.total)
            except TimeLimitError:
                return self._column_squares.total
        return self._eigenvalue


def _check_offset(offset: ArrayLike, n: int) -> Vector:
    """Offsets of n samples, in a new array."""
    o = np.array(vector("offsets", offset))
    if o.size != n:
        raise InvalidInputError(f"X has {n} samples, but offset has {o.size}")
    finite("offset", o)
    return o
