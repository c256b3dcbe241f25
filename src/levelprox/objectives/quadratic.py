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
    width : int, default=1
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

    def __init__(
        self,
        center: Vector,
        value: float,
        gradient: Vector,
        hessian: Matrix,
        width: int = 1,
        feature_scale: FeatureScale | None = None,
    ) -> None:
        self.center = center
        self.value = value
        self.gradient = gradient
        self.hessian = hessian
        self.width = width
        self._feature_scale = feature_scale

    @property
    def feature_scale(self) -> FeatureScale | None:
        return self._feature_scale

    @property
    def dimension(self) -> int:
        return self.center.size

    def value_and_gradient(self, x: Vector) -> tuple[float, Vector]:
        move = x - self.center
        with np.errstate(over="ignore", invalid="ignore"):  # a step along which Q hardly bends; who made it sees inf
            bent = self.hessian @ move
            return self.value + float(np.sum(move * (self.gradient + bent / 2))), self.gradient + bent

    def restrict(self, W: NDArray[np.intp]) -> Quadratic:
        coordinates = (np.asarray(W)[:, None] * self.width + np.arange(self.width)).ravel()
        at_zero = np.where(np.isin(np.arange(self.dimension), coordinates), self.center, 0.0)
        value, gradient = self.value_and_gradient(at_zero)  # the others are held at zero
        return Quadratic(
            self.center[coordinates],
            value,
            gradient[coordinates],
            self.hessian[np.ix_(coordinates, coordinates)],
            self.width,
            None if self._feature_scale is None else self._feature_scale.restrict(W),
        )

    @property
    def weak_convexity(self) -> float:
        return 0.0

    @cached_property
    def curvature(self) -> float:
        """The mean of the diagonal of H where that is not zero."""
        diagonal = np.diagonal(self.hessian)
        return float(diagonal[diagonal > 0].mean()) if np.any(diagonal > 0) else 1.0

    @cached_property
    def smoothness(self) -> float:
        """L, at most the largest sum of a row of |H|."""
        return float(np.abs(self.hessian).sum(axis=1).max(initial=0.0))

    @property
    def n_margins(self) -> int:
        return self.dimension

    def margins(self, x: Vector) -> Vector:
        return x

    def moved(self, dx: Vector) -> Vector:
        return dx

    def value_of(self, z: Vector) -> float:
        return self.value_and_gradient(z)[0]

    def gradient_of(self, z: Vector) -> Vector:
        return self.value_and_gradient(z)[1]

    def hessian_of(self, z: Vector, convex: bool) -> Matrix:
        return self.hessian

    def hessian_product_of(self, z: Vector, convex: bool) -> Callable[[Vector], Vector]:
        return lambda v: self.hessian @ v

    def hessian_diagonal_of(self, z: Vector, convex: bool) -> Vector:
        return np.ascontiguousarray(np.diagonal(self.hessian))
