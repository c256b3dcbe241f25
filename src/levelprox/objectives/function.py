"""ψ brought by the user as a function x ↦ (ψ(x), ∇ψ(x))."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from levelprox.errors import InvalidInputError
from levelprox.objectives.base import Objective, Vector
from levelprox.validation import real

ValueAndGradient = Callable[[Vector], tuple[float, Vector]]


class Function(Objective):
    """The user's own ψ.

    Parameters
    ----------
    fun : callable
        x ↦ (value, gradient): a real number and an array of shape (d,).
    dimension : int
        d.
    weak_convexity : float, default=0.0
        μ ≥ 0 such that ψ + μ/2 ‖·‖² is convex; 0 says that ψ is convex.
    """

    def __init__(self, fun: ValueAndGradient, dimension: int, weak_convexity: float = 0.0) -> None:
        if not callable(fun):
            raise InvalidInputError(f"fun must be a function x -> (value, gradient), got {type(fun).__name__}")
        if isinstance(dimension, bool) or not isinstance(dimension, int | np.integer) or dimension < 1:
            raise InvalidInputError(f"dimension must be a positive integer, got {dimension!r}")
        mu = real("weak_convexity", weak_convexity)
        if not 0 <= mu < np.inf:
            raise InvalidInputError(f"weak_convexity must be in [0, inf), got {weak_convexity!r}")
        self.fun = fun
        self._dimension = int(dimension)
        self._weak_convexity = mu

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def weak_convexity(self) -> float:
        return self._weak_convexity

    def value_and_gradient(self, x: Vector) -> tuple[float, Vector]:
        """ψ(x) and ∇ψ(x), with their types and shapes checked; NaN and infinities are passed on."""
        answer = self.fun(x)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise InvalidInputError(f"fun must return (value, gradient), got {type(answer).__name__}")
        value, gradient = answer
        slope = np.ascontiguousarray(gradient, dtype=np.float64)
        if slope.shape != (self._dimension,):
            raise InvalidInputError(f"the gradient must have shape ({self._dimension},), got {slope.shape}")
        if np.ndim(value) != 0:
            raise InvalidInputError(f"the value must be a real number, got an array of shape {np.shape(value)}")
        return float(value), slope

    def restrict(self, W: NDArray[np.intp]) -> Function:
        def on_w(x_w: Vector) -> tuple[float, Vector]:
            x = np.zeros(self._dimension)
            x[W] = x_w
            value, gradient = self.value_and_gradient(x)
            return value, gradient[W]

        return Function(on_w, len(W), self._weak_convexity)

    @cached_property
    def curvature(self) -> float:
        """Change of the gradient over a short step along it, from the origin; at least μ."""
        origin = np.zeros(self._dimension)
        _, slope = self.value_and_gradient(origin)
        length = float(np.linalg.norm(slope))
        if not (np.isfinite(length) and length > 0):
            return max(self._weak_convexity, 1.0)
        _, further = self.value_and_gradient(-1e-4 / length * slope)
        estimate = float(np.linalg.norm(further - slope)) / 1e-4
        return max(estimate if np.isfinite(estimate) and estimate > 0 else 1.0, self._weak_convexity)
