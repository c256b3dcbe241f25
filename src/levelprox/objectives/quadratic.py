"""A parabola: the second-order model of another ψ about a point c, without its data.

q(x) = ψ(c) + ⟨∇ψ(c), x − c⟩ + ½ (x − c)'H(x − c)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import Matrix, Vector
from levelprox.objectives._base import Curved
from levelprox.objectives.feature_scale import FeatureScale


class Quadratic(Curved):
    """q(x), with H symmetric and positive semidefinite. Its margins are x itself.

    Parameters
    ----------
    center : ndarray of shape (d,)
        c.
    value : float
        q(c).
    gradient : ndarray of shape (d,)
        ∇q(c).
    hessian : ndarray of shape (d, d)
        H.
    n_outputs : int, default=1
        Coefficients per feature.
    feature_scale : FeatureScale, optional
        That of the ψ of which this is a model.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox.objectives import Quadratic
    >>> psi = Quadratic(np.zeros(2), 1.0, np.ones(2), np.eye(2))
    >>> psi.value_and_gradient(np.array([1.0, 0.0]))
    (2.5, array([2., 1.]))
    """

    curved = True
    weak_convexity = 0.0
    dimension: int = 0
    n_margins: int = 0
    feature_scale: FeatureScale | None = None

    def __init__(
        self,
        center: Vector,
        value: float,
        gradient: Vector,
        hessian: Matrix,
        n_outputs: int = 1,
        feature_scale: FeatureScale | None = None,
    ) -> None:
        self.center = center
        self.dimension = self.n_margins = center.size
        self.value = value
        self.gradient = gradient
        self.hessian = hessian
        self.n_outputs = n_outputs
        self.feature_scale = feature_scale

    def value_and_gradient(self, x: Vector) -> tuple[float, Vector]:
        """Return ψ(x) and ∇ψ(x) (a subgradient where ψ has a kink)."""
        move = x - self.center
        with np.errstate(over="ignore", invalid="ignore"):  # a step along which Q hardly bends; who made it sees inf
            bent = self.hessian @ move
            return self.value + float(np.sum(move * (self.gradient + bent / 2))), self.gradient + bent

    def restrict(self, W: NDArray[np.intp]) -> Quadratic:
        """Return ψ as a function of the features in W (coordinates, where n_outputs is 1), the others held at zero."""
        coordinates = (np.asarray(W)[:, None] * self.n_outputs + np.arange(self.n_outputs)).ravel()
        at_zero = np.where(np.isin(np.arange(self.dimension), coordinates), self.center, 0.0)
        value, gradient = self.value_and_gradient(at_zero)  # the others are held at zero
        return Quadratic(
            self.center[coordinates],
            value,
            gradient[coordinates],
            self.hessian[np.ix_(coordinates, coordinates)],
            self.n_outputs,
            None if self.feature_scale is None else self.feature_scale.restrict(W),
        )

    @cached_property
    def curvature(self) -> float:
        """The mean of the diagonal of H where that is not zero."""
        diagonal = np.diagonal(self.hessian)
        return float(diagonal[diagonal > 0].mean()) if np.any(diagonal > 0) else 1.0

    @cached_property
    def smoothness(self) -> float:
        """L, at most the largest sum of a row of |H|."""
        return float(np.abs(self.hessian).sum(axis=1).max(initial=0.0))

    def margins(self, x: Vector) -> Vector:
        """Return z = Ax + o."""
        return x

    def moved(self, dx: Vector) -> Vector:
        """Return A·dx: how the margins change with x."""
        return dx

    def value_of(self, z: Vector) -> float:
        """Return F(z)."""
        return self.value_and_gradient(z)[0]

    def gradient_of(self, z: Vector) -> Vector:
        """Return A'∇F(z)."""
        return self.value_and_gradient(z)[1]

    def hessian_of(self, z: Vector, convex: bool) -> Matrix:
        """Return A'∇²F(z)A, of shape (dimension, dimension); if `convex` with |ℓ''| for ℓ'', so that it is PSD."""
        return self.hessian

    def hessian_product_of(self, z: Vector, convex: bool) -> Callable[[Vector], Vector]:
        """Return v ↦ A'∇²F(z)Av, without forming the matrix."""
        return lambda v: self.hessian @ v

    def hessian_diagonal_of(self, z: Vector, convex: bool) -> Vector:
        """Return the diagonal of that matrix."""
        return np.ascontiguousarray(np.diagonal(self.hessian))
