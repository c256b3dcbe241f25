"""Several classes, each against all others: a linear model for every class, over the same features.

    ψ(x) = Σ_k Σ_i s_i ℓ(z_ik, b_ik) / Σ_i s_i,      z = XB + o,      b_ik = +1 where sample i is of class k, else −1

x is B row by row: feature j has the K coordinates j·K … j·K + K − 1, and counts once for all classes. Nothing but the
constraint ties the classes together: ψ is the sum of K linear models, and its Hessian has a block for each.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from levelprox._typing import Matrix, Vector
from levelprox.designs import Design
from levelprox.exceptions import InvalidInputError
from levelprox.losses import LOSS_TYPES, Loss, loss_by_name
from levelprox.objectives.linear_model import LinearModel
from levelprox.objectives.model import Ridge
from levelprox.objectives.multiclass import ByClass

_NARROW = 2**16  # features up to which a gradient is small relative to its block of rows


class OneVsRestModel(ByClass):
    """ψ = the sum over classes of the loss of one class against the others.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d), or Design
        Used in place, never modified.
    labels : array-like of shape (n,)
        The class of each sample: integers, whole floats, booleans or strings; at least two different ones.
    loss : str or Loss, default="logistic"
        A margin loss: "logistic", "squared_hinge", "sigmoid", "hinge", or `Hinge().smoothed(width)`.
    sample_weight : array-like of shape (n,), optional
        s ≥ 0: a weight of 2 is a repeated sample, a weight of 0 a removed one.
    offset : array-like of shape (n, K), optional
        o: what is known to add to each margin. None is no offset.
    fit_intercept : bool, default=False
        Whether to add a column of ones to X: the last feature is then the intercepts, which never count.
    classes : array-like of shape (K,), optional
        The classes, where some may have no sample among `labels`. By default the different labels.
    ridge : float or array-like of shape (d,), default=0
        r ≥ 0: Σ_j r_j Σ_k B_jk² is added to ψ; the intercepts are free of it. For differentiable losses.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The classes, sorted; column k of B belongs to `classes_[k]`.
    n_outputs : int
        K.
    parts : tuple of LinearModel
        The model of each class, as a function of its column of B; they share X.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import OneVsRestModel
    >>> psi = OneVsRestModel(np.eye(3), ["a", "b", "c"])
    >>> psi.dimension, psi.classes_.tolist()
    (9, ['a', 'b', 'c'])
    """

    margin_order = "F"

    def __init__(
        self,
        X: object,
        labels: ArrayLike,
        loss: str | Loss = "logistic",
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        fit_intercept: bool = False,
        classes: ArrayLike | None = None,
        ridge: ArrayLike = 0.0,
    ) -> None:
        self.loss = _margin_loss(loss)
        super().__init__(X, labels, sample_weight, offset, fit_intercept, classes, ridge)
        self.smooth = self.curved = self.loss.smooth
        self.parts = self._parts()

    def _parts(self) -> tuple[LinearModel, ...]:
        """Return the models of the classes; all except targets and offsets is shared."""
        ridge = 0.0 if self.ridge is None else self.ridge.strength
        pattern = LinearModel(self.design, np.ones(self.design.shape[0]), self.loss, self.sample_weight, ridge=ridge)
        pattern.sample_weight = self.sample_weight
        parts = []
        for k in range(self.n_outputs):
            part = copy.copy(pattern)
            part.target = np.where(self.target == k, 1.0, -1.0)
            part.offset = None if self.offset is None else np.ascontiguousarray(self.offset[:, k])
            parts.append(part)
        return tuple(parts)

    def _with_design(self, design: Design, ridge: Ridge | None) -> Self:
        other = super()._with_design(design, ridge)
        other.parts = tuple(copy.copy(part) for part in self.parts)  # without what is derived from X
        for part in other.parts:
            part.design, part.ridge = design, ridge
        return other

    def value_and_gradient(self, x: Vector) -> tuple[float, Vector]:
        """Return ψ(x) and ∇ψ(x) (a subgradient where ψ has a kink)."""
        point = self._point(x)
        if self.design.shape[1] > _NARROW:
            z = self.margins(point)
            return self.value_of(z), self.gradient_of(z)
        z, gradient, _ = self.evaluated(self.origin, point, False)
        return self.value_of(z), gradient

    @property
    def origin(self) -> Matrix:
        """The margins at x = 0."""
        shape = (self.design.shape[0], self.n_outputs)
        origin = np.zeros(shape, order="F") if self.offset is None else np.array(self.offset, order="F")
        return self.with_tail(origin, np.zeros(self.dimension))

    @property
    def convex_start(self) -> Self | None:
        """The model with the loss's own convex start for its loss."""
        return None if self.loss.convex_start is None else self.with_loss(self.loss.convex_start)

    def with_loss(self, loss: Loss) -> Self:
        """Return the same model with another margin loss."""
        other = copy.copy(self)
        other.loss = _margin_loss(loss)
        other.smooth = other.curved = loss.smooth
        other.parts = tuple(part.with_loss(loss) for part in self.parts)
        return other

    @property
    def one_class(self) -> LinearModel:
        """A model over the same X and with the same weights, for quantities that do not depend on the classes."""
        return self.parts[0]

    # --- what is known of ψ: the classes share X, and with it all that does not depend on their targets

    @property
    def weak_convexity(self) -> float:
        """μ_ℓ · λ_max(Xᵀ diag(s) X / Σ s)."""
        return self.parts[0].weak_convexity

    @property
    def bounded_curvature(self) -> bool:
        """Whether `smoothness` is finite; cheap, where L itself may need passes over the data."""
        return self.parts[0].bounded_curvature

    @property
    def smoothness(self) -> float:
        """L = sup |ℓ''| · λ_max(Xᵀ diag(s) X / Σ s); 0 for piecewise linear losses."""
        return self.parts[0].smoothness

    @property
    def nonsmoothness(self) -> float:
        """M = √K · jump of ℓ' · √λ_max(Xᵀ diag(s) X / Σ s), as Σ_k ‖d_k‖ ≤ √K ‖d‖."""
        return math.sqrt(self.n_outputs) * self.parts[0].nonsmoothness

    @property
    def bounded_jumps(self) -> bool:
        """Whether `nonsmoothness` is finite; cheap, where M itself may need passes over the data."""
        return math.isfinite(self.loss.jump)

    @property
    def noise(self) -> float:
        """σ = √K · sup |ℓ'| · √(Σ s_i ‖a_i‖² / Σ s) for a sample drawn with probability s_i / Σ s."""
        return math.sqrt(self.n_outputs) * self.parts[0].noise

    @property
    def curvature(self) -> float:
        """A typical ℓ'' of the loss times the mean over the nonzero columns of Σ s_i X_ij² / Σ s_i, of one class."""
        return self.parts[0].curvature

    def ray_trend(self, x: Vector) -> tuple[bool, bool]:
        """Return whether, far out along x, the loss of some sample falls forever, and whether that of one rises."""
        each = [part.ray_trend(column) for part, column in zip(self.parts, self._columns_of(x), strict=True)]
        return any(falls for falls, _ in each), any(rises for _, rises in each)

    # --- second order

    def value_of(self, z: Matrix) -> float:
        """Return F(z)."""
        return math.fsum(part.value_of(margins) for part, margins in self._by_class(z))

    def slope_of(self, z: Matrix) -> Matrix:
        """Return s_i ∂ℓ_i / Σ s of every sample, of shape (n, K)."""
        return np.stack([part.slope_of(margins) for part, margins in self._by_class(z)]).T

    def bend_of(self, z: Matrix, convex: bool) -> Matrix:
        """Return s_i ∂²ℓ_i/∂z_k² / Σ s of every sample and class, of shape (n, K); its absolute value if `convex`."""
        return np.stack([part.bend_of(margins, convex) for part, margins in self._by_class(z)]).T

    def evaluated(self, z: Matrix, dx: Vector, with_hessian: bool) -> tuple[Matrix, Vector, Matrix | None]:
        """As of a linear model, in one pass over X for all classes: a block of rows in cache serves them all."""
        z, d, steps = np.array(z, order="F"), self.design.shape[1], self._columns_of(dx)
        gradient = np.zeros((d, self.n_outputs))
        hessian = np.zeros((d, self.n_outputs, d, self.n_outputs)) if with_hessian else None
        for rows, block in self.design.row_blocks():
            for k, part in enumerate(self.parts):
                margins = z[rows, k]
                with np.errstate(over="ignore", invalid="ignore"):
                    margins += block.matvec(steps[k])
                slope = part.slope_of(margins, rows)
                if not np.all(np.isfinite(slope)):
                    return np.full_like(z, np.nan), np.full(self.dimension, np.nan), None
                gradient[:, k] += block.rmatvec(slope)
                if hessian is not None:
                    bend = part.bend_of(margins, True, rows)
                    if not np.all(np.isfinite(bend)):  # so far out that ψ itself is no number
                        return np.full_like(z, np.nan), np.full(self.dimension, np.nan), None
                    hessian[:, k, :, k] += block.gram(bend)
        if self.ridge is not None:
            tail, held = self.tail(z), self.ridge.curvatures()
            tail[self.ridge.places] += np.reshape(dx, (-1, self.n_outputs))
            gradient += self.ridge.gradient(tail).reshape(d, self.n_outputs)
            if hessian is not None:
                for k in range(self.n_outputs):
                    hessian[np.arange(d), k, np.arange(d), k] += held
        flat = None if hessian is None else hessian.reshape(self.dimension, self.dimension)
        return z, gradient.ravel(), flat

    def hessian_of(self, z: Matrix, convex: bool) -> Matrix:
        """X'D_kX for each class, D_k = s ℓ''(z_k, b_k)/Σ s; of shape (dK, dK), ordered as x is, 0 between classes."""
        d, K = self.design.shape[1], self.n_outputs
        hessian = np.zeros((d, K, d, K))
        for k, (part, margins) in enumerate(self._by_class(z)):
            hessian[:, k, :, k] = part.hessian_of(margins, convex)
        return hessian.reshape(d * K, d * K)

    def cross_hessian_of(self, z: Matrix, moves: Iterable[Matrix], count: int, convex: bool) -> Matrix:
        """Return A'∇²F(z)v for each of `count` changes v of the margins; of shape (d, count)."""
        bend = self.bend_of(z, convex)
        cross = np.zeros((self.dimension, count), order="F")
        for j, move in enumerate(moves):
            for k in np.flatnonzero(np.any(move, axis=0)):  # a coordinate moves the margins of one class
                cross[k :: self.n_outputs, j] = self.design.rmatvec(bend[:, k] * self.of_samples(move)[:, k])
                if self.ridge is not None:
                    cross[k :: self.n_outputs, j] += self.ridge.gradient(self.tail(move)[:, k])
        return cross

    def _by_class(self, z: Matrix) -> Iterable[tuple[LinearModel, Vector]]:
        """Return the model of each class with its margins."""
        return zip(self.parts, np.ascontiguousarray(z.T), strict=True)

    def __repr__(self) -> str:
        return f"OneVsRestModel({self.design!r}, {self.n_outputs} classes, loss={self.loss!r})"


def _margin_loss(loss: str | Loss) -> Loss:
    chosen = loss_by_name(loss)
    if chosen.kind != "margin":
        names = ", ".join(kind.name for kind in LOSS_TYPES if kind().kind == "margin")
        raise InvalidInputError(f"a class against the others needs a margin loss, one of {names}; got {chosen.name!r}")
    return chosen
