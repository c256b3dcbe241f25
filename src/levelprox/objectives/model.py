"""ψ of samples: a loss of the margins Ax + o, with the features of a data matrix in A, and a ridge.

    ψ(x) = F(Ax + o) + Σ_j r_j x_j²

The ridge is treated as additional margins. The margins of the samples are followed by the coefficients, of all
features of the data:

    z = (Ax + o, x),      F(z, x) = F(z) + Σ_j r_j x_j²

so that ψ(x) stays a simple function of margins that are linear in x, and all methods for such functions apply.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levelprox._typing import Features, Margins, Matrix, Vector
from levelprox._validation import finite, real_array
from levelprox.designs import Design, as_design, scaled_by, standardised, units_of, unstandardised
from levelprox.exceptions import InvalidInputError
from levelprox.objectives._base import Curved
from levelprox.objectives.leave_one_out import Point, left_out_fall

#: Times x: where to test whether a bounded loss still decreases.
RAY_LENGTHS = 2.0 ** np.arange(8)
_LARGEST_SQUARE = 1e200  # squares beyond it count as this


def keeps_decreasing(values: list[float]) -> bool:
    """Return whether a bounded loss only falls, ever farther out on a ray; 0 is reached only by rounding."""
    return (values[-1] < values[0] or values[0] == 0) and bool(np.all(np.diff(values) <= 0))


@dataclass(frozen=True, eq=False)
class Ridge:
    """Σ_j r_j x_j² over the features of a model; of several classes the sum over their coefficients.

    Attributes
    ----------
    strength : ndarray of shape (n_all,)
        r ≥ 0 of all features of the data, 0 for the intercept.
    places : ndarray of int of shape (n_features,)
        Where the features of the model are among them.
    """

    strength: Vector
    places: Features

    @classmethod
    def of(cls, ridge: ArrayLike, n_features: int, ones: NDArray[np.integer], loss: Any) -> Ridge | None:
        """Check the user's ridge for a loss: a number, or one for each feature, with or without the intercept's.

        None where it is 0 everywhere.
        """
        given = np.asarray(real_array("ridge", ridge), np.float64)
        counted = n_features - ones.size
        if given.shape not in ((), (counted,), (n_features,)):
            raise InvalidInputError(f"ridge must be a number, or one for each of {counted} features, got {given.shape}")
        finite("ridge", given)
        if np.any(given < 0):
            raise InvalidInputError(f"ridge must not be negative, got {given.min():g}")
        if not np.any(given):
            return None
        if not loss.smooth:
            others = "'squared_hinge' or 'logistic'" if loss.kind == "margin" else "'huber' or 'squared'"
            raise InvalidInputError(f"ridge is for differentiable losses, not for {loss.name!r}; use {others}")
        strength = np.zeros(n_features)
        features = np.delete(np.arange(n_features), ones)
        strength[features] = given[features] if given.shape == (n_features,) and ones.size else given
        return cls(strength, np.arange(n_features))

    @property
    def own(self) -> Vector:
        """r_j of the features of the model."""
        return np.asarray(self.strength[self.places], np.float64)

    def below(self, z: Vector, x: Vector) -> Vector:
        """Return the margins z of the samples, and below them the coefficients x."""
        tail = np.zeros((self.strength.size, *z.shape[1:]))
        tail[self.places] = x.reshape(-1, *z.shape[1:])
        whole = np.concatenate([z, tail])
        by_columns = z.ndim > 1 and z.flags.f_contiguous and not z.flags.c_contiguous
        return np.asfortranarray(whole) if by_columns else np.ascontiguousarray(whole)

    def value(self, tail: Vector) -> float:
        """Return Σ r_j x_j², with the coefficients as they stand below margins."""
        return float(np.sum(self.strength.reshape(-1, *[1] * (tail.ndim - 1)) * tail**2))

    def gradient(self, tail: Vector) -> Vector:
        """Return 2 r_j x_j of the features of the model, flat."""
        own = self.own.reshape(-1, *[1] * (tail.ndim - 1))
        return np.asarray((2 * own * tail[self.places]).ravel(), np.float64)

    def curvatures(self, n_outputs: int = 1) -> Vector:
        """Return 2 r_j, one for each coordinate of the model."""
        return np.asarray(np.repeat(2 * self.own, n_outputs), np.float64)

    def restrict(self, W: Features) -> Ridge:
        """Return the ridge of some of the features."""
        return replace(self, places=self.places[W])

    def scaled(self, factor: Vector) -> Ridge:
        """Return the ridge of coefficients w with x_j = factor_j w_j."""
        strength = self.strength.copy()
        strength[self.places] *= factor**2
        return replace(self, strength=strength)

    def holds(self, x: Vector) -> bool:
        """Return whether it rises along x."""
        if not self.places.size:
            return False
        return bool(np.any(self.own[:, None] * np.abs(x.reshape(self.places.size, -1)) > 0))


class Model(Curved):
    """ψ(x) = F(Ax + o) with the features of a data matrix in A.

    Attributes
    ----------
    design : Design
        The data matrix, whose columns are features, with one of ones where there is an intercept.
    loss : Loss, or Multinomial
    target : ndarray of shape (n,)
    sample_weight : ndarray of shape (n,) or None
        s, at most 1.
    offset : ndarray of shape (n,) or (n, K), or None
        o.
    ridge : Ridge or None

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox.objectives import LinearModel
    >>> psi = LinearModel(np.array([[1.0, 0.0], [1.0, 2.0]]), [1.0, 3.0])
    >>> psi.column_magnitudes().tolist(), psi.bounded_by_zero
    ([1.0, 2.0], True)
    """

    design: Design
    loss: Any
    target: NDArray[Any]
    sample_weight: Vector | None
    offset: Vector | None
    ridge: Ridge | None
    #: Attributes that are computed from X once: neither copied nor pickled.
    derived: ClassVar[tuple[str, ...]] = ("feature_scale",)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name not in self.derived}

    @property
    def dimension(self) -> int:
        """Number of coordinates d."""
        return self.design.shape[1] * self.n_outputs

    @property
    def n_margins(self) -> int:
        """How many margins there are: the Hessian has at most this rank."""
        return self.design.shape[0] * self.n_outputs

    @property
    def unpenalized(self) -> NDArray[np.intp]:
        """Features that are never penalized, for any weight: the intercept, if there is one."""
        return self.design.ones.astype(np.intp, copy=False)

    @property
    def convex(self) -> bool:
        """Whether ψ is known to be convex; cheap, where `weak_convexity` may need passes over the data."""
        return bool(self.loss.weak_convexity == 0)

    @property
    def attained(self) -> bool:
        """Whether ψ is known to have a minimiser, as far as its loss decides that."""
        held = self.ridge is not None and bool(np.all(np.delete(self.ridge.own, self.unpenalized) > 0))
        return bool(self.loss.attained) or held

    @property
    def self_concordance(self) -> float:
        """sup |ℓ‴|/ℓ″ of the loss; inf where that has no bound, or is not known."""
        return float(self.loss.self_concordance)

    @property
    def bounded_by_zero(self) -> bool:
        """Whether ψ ≥ 0 everywhere."""
        return True

    @property
    def convex_start(self) -> Self | None:
        """For ψ that is not convex, a convex one whose minimisers lead to good minima of it, where one is known."""
        return None

    @cached_property
    def share(self) -> Vector:
        """s_i / Σ s."""
        n = self.design.shape[0]
        return np.full(n, 1 / n) if self.sample_weight is None else self.sample_weight / self.sample_weight.sum()

    def column_magnitudes(self) -> Vector:
        """Return by how much a coordinate of 1 can change a margin; of shape (dimension,)."""
        return np.repeat(self.design.column_magnitudes(), self.n_outputs)

    # --- the same samples, with other columns or another ridge

    def _with_design(self, design: Design, ridge: Ridge | None) -> Self:
        """Return a model with another X and ridge, which were checked; all else is shared."""
        other = copy.copy(self)  # without what is derived
        other.design, other.ridge = design, ridge
        return other

    def restrict(self, W: NDArray[np.intp]) -> Self:
        """Return ψ as a function of the features in W, the others held at zero."""
        part = self._with_design(self.design.view(W), None if self.ridge is None else self.ridge.restrict(W))
        scale = self.__dict__.get("feature_scale")
        if scale is not None:  # in units of a typical column of the whole
            part.__dict__["feature_scale"] = scale.restrict(W)
        return part

    def scaled(self, scale: Vector) -> Self:
        """Return ψ(x/scale): as if the columns of the data were divided by `scale`, one number for each feature."""
        return self._with_design(scaled_by(self.design, scale), self.ridge and self.ridge.scaled(1 / scale))

    def over(self, X: Any) -> Self:
        """Return the same samples with other columns, those of X; the ridge is that of the features."""
        return self._with_design(as_design(X), self.ridge)

    def ridged(self, ridge: ArrayLike) -> Self:
        """Return the same model with another ridge: a number, or one for each feature."""
        return self._with_design(self.design, Ridge.of(ridge, self.design.shape[1], self.design.ones, self.loss))

    def standardised(self) -> Self | None:
        """Return the model over centred and scaled columns; None unless their means or units would cost digits."""
        design = standardised(self.design, self.sample_weight)
        if design is None:
            return None
        return self._with_design(design, self.ridge and self.ridge.scaled(units_of(design)))

    def unstandardised(self, x: Vector) -> Vector:
        """Return the coefficients for the data themselves, of coefficients for what `standardised` returned."""
        return unstandardised(self.design, x.reshape(-1, self.n_outputs)).ravel()

    # --- margins and the ridge below them

    @abstractmethod
    def _products(self, dx: Vector) -> Margins:
        """Return X·dx, of shape (n,) or (n, n_outputs)."""

    @abstractmethod
    def _pulled_back(self, r: Margins) -> Vector:
        """Return X'r, flat."""

    def margins(self, x: Vector) -> Margins:
        """z = Ax + o; with a ridge, x below them."""
        z = self._products(x)
        return self.with_tail(z if self.offset is None else z + self.offset, x)

    def moved(self, dx: Vector) -> Margins:
        """Return A·dx: how the margins change with x."""
        return self.with_tail(self._products(dx), dx)

    def with_tail(self, z: Vector, x: Vector) -> Vector:
        """Return margins of the samples with what the ridge needs below them."""
        return z if self.ridge is None else self.ridge.below(z, x)

    def of_samples(self, z: Vector) -> Vector:
        """Return the margins of the samples, without what the ridge has below them."""
        return z if self.ridge is None else z[: self.design.shape[0]]

    def tail(self, z: Vector) -> Vector:
        """Return what the ridge has below the margins of the samples."""
        return z[self.design.shape[0] :]

    def bent_by_ridge(self, hessian: Matrix) -> Matrix:
        """Return the Hessian of the samples with that of the ridge."""
        return hessian if self.ridge is None else hessian + np.diag(self.ridge.curvatures(self.n_outputs))

    def _steepest_ridge(self) -> float:
        return 0.0 if self.ridge is None else float(np.max(self.ridge.curvatures(), initial=0.0))

    def _point(self, x: Vector) -> Vector:
        """Return x as a contiguous array of the right shape, or raise."""
        point = np.ascontiguousarray(x, np.float64)
        if point.shape != (self.dimension,):
            raise InvalidInputError(f"x must have shape ({self.dimension},), got {point.shape}")
        return point

    def _and_ridge(self, psi: float, gradient: Vector, x: Vector) -> tuple[float, Vector]:
        """Return ψ and ∇ψ of the samples with those of the ridge."""
        if self.ridge is None:
            return psi, gradient
        held = self.ridge.curvatures(self.n_outputs)
        return psi + float(np.sum(held / 2 * x**2)), gradient + held * x

    # --- far out, and without a sample

    def is_separated(self, x: Vector) -> bool:
        """Return whether ψ decreases without bound along the ray through x: no minimiser exists without a level."""
        if self.loss.attained or (self.ridge is not None and self.ridge.holds(x)):
            return False
        if self.convex:
            falls, rises = self.ray_trend(x)
            return falls and not rises
        # A bounded loss need not separate all samples to gain from longer x: test whether it does.
        moved = self.moved(x)
        return keeps_decreasing([self.value_of(t * moved) for t in RAY_LENGTHS])

    def dense_columns(self) -> Matrix:
        """Return all columns as an array of shape (n, n_features)."""
        return np.stack([self.design.matvec(one) for one in np.eye(self.design.shape[1])], axis=1)

    def left_out_fall(self, before: Point, after: Point, unit: float, part: float = 1.0) -> Vector:
        """Return by how much losses of samples under fits without them fall: see leave_one_out.py."""
        return left_out_fall(self, before, after, unit, part)

    @abstractmethod
    def ray_trend(self, x: Vector) -> tuple[bool, bool]:
        """Return whether, far out along x, the loss of some sample falls forever, and whether that of one rises.

        For convex losses; the samples are those that have a weight.
        """

    # --- derivatives: those of F, and what follows from them for ψ

    @abstractmethod
    def slope_of(self, z: Margins) -> Margins:
        """Return s_i ∂ℓ_i / Σ s of every sample."""

    @abstractmethod
    def bend_of(self, z: Margins, convex: bool) -> Margins:
        """Return s_i ∂²ℓ_i/∂z_k² / Σ s of every margin of a sample; its absolute value if `convex`."""

    def _bent(self, z: Margins, convex: bool) -> Callable[[Margins], Margins]:
        """Return v ↦ ∇²F(z)v for changes v of the margins; here no margin affects the slope of another."""
        bend = self.bend_of(z, convex)
        return lambda v: bend * v

    def _column_squares_by(self, weight: Margins) -> Vector:
        """Return Σ_i s_i X_ij² for weights s of every margin of a sample, flat."""
        if weight.ndim == 1:
            return self.design.column_squares(weight)
        return np.stack([self.design.column_squares(column) for column in weight.T], axis=1).ravel()

    def gradient_of(self, z: Margins) -> Vector:
        """Return A'∇F(z)."""
        gradient = self._pulled_back(self.slope_of(z))
        return gradient if self.ridge is None else gradient + self.ridge.gradient(self.tail(z))

    def gradient_squares_of(self, z: Margins) -> Vector:
        """Return the mean over the samples, by weight, of the squares of their own gradients; of shape (d,)."""
        slope = self.slope_of(z)
        share = self.share if slope.ndim == 1 else self.share[:, None]
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            squares = np.where(share > 0, slope**2 / share, 0.0)
        return self._column_squares_by(np.minimum(squares, _LARGEST_SQUARE))  # of an outlier they may overflow

    def hessian_product_of(self, z: Margins, convex: bool = True) -> Callable[[Vector], Vector]:
        """Return v ↦ A'∇²F(z)Av, without forming the matrix."""
        bent = self._bent(z, convex)
        if self.ridge is None:
            return lambda v: self._pulled_back(bent(self._products(v)))
        held = self.ridge.curvatures(self.n_outputs)
        return lambda v: self._pulled_back(bent(self._products(v))) + held * v

    def hessian_diagonal_of(self, z: Margins, convex: bool) -> Vector:
        """Return the diagonal of that matrix."""
        squares = self._column_squares_by(self.bend_of(z, convex))
        return squares if self.ridge is None else squares + self.ridge.curvatures(self.n_outputs)

    def feature_hessians_of(self, z: Margins) -> Matrix:
        """Return the diagonal blocks of A'∇²F(z)A, one per feature; of shape (n_features, n_outputs, n_outputs)."""
        diagonal = self.hessian_diagonal_of(z, True).reshape(-1, self.n_outputs)
        return np.asarray(diagonal[:, :, None] * np.eye(self.n_outputs))

    def cross_hessian_of(self, z: Margins, moves: Iterable[Margins], count: int, convex: bool) -> Matrix:
        """Return A'∇²F(z)v for each of `count` changes v of the margins; of shape (d, count).

        With columns of A for v these are columns of A'∇²F(z)A.
        """
        bent = self._bent(z, convex)
        cross = np.empty((self.dimension, count), order="F")
        for j, move in enumerate(moves):
            cross[:, j] = self._pulled_back(bent(self.of_samples(move)))
            if self.ridge is not None:
                cross[:, j] += self.ridge.gradient(self.tail(move))
        return cross
