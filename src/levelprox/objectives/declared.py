"""ψ brought by the user, who vouches for its constants: μ, L and M of base.py."""

from __future__ import annotations

import math

import numpy as np

from levelprox._typing import Vector
from levelprox._validation import real, real_array, whole
from levelprox.exceptions import InvalidInputError
from levelprox.objectives._base import Objective


class Declared(Objective):
    """What is known of a user's ψ.

    Parameters
    ----------
    dimension : int
        d.
    weak_convexity, nonsmoothness : float
        μ and M, in [0, inf).
    smoothness : float
        L in [0, inf]; inf is unknown.
    """

    def __init__(self, dimension: int, weak_convexity: float, smoothness: float, nonsmoothness: float) -> None:
        self._dimension = whole("the number of coordinates", dimension, 1)
        self._weak_convexity = constant("weak_convexity", weak_convexity)
        self._smoothness = math.inf if smoothness == math.inf else constant("smoothness", smoothness)
        self._nonsmoothness = constant("nonsmoothness", nonsmoothness)
        self.smooth = self._nonsmoothness == 0

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def weak_convexity(self) -> float:
        return self._weak_convexity

    @property
    def smoothness(self) -> float:
        return self._smoothness

    @property
    def nonsmoothness(self) -> float:
        return self._nonsmoothness

    @property
    def constants(self) -> tuple[float, float, float]:
        """μ, L and M."""
        return self._weak_convexity, self._smoothness, self._nonsmoothness

    def _spread_over_values(self) -> float:
        """M²/|ψ(0)|, what stands for a second derivative where ψ has kinks."""
        value = abs(self.value_and_gradient(np.zeros(self._dimension))[0])
        return max(self._weak_convexity, self._nonsmoothness**2 / value if 0 < value < np.inf else 1.0)

    def checked_gradient(self, gradient: object) -> Vector:
        """A copy of the user's gradient in float64, of the right shape; NaN and infinities are passed on."""
        slope = np.array(real_array("the gradient", gradient), dtype=np.float64)
        if slope.shape != (self._dimension,):
            raise InvalidInputError(f"the gradient must have shape ({self._dimension},), got {slope.shape}")
        return slope

    @staticmethod
    def checked_value(value: object) -> float:
        """The user's value as a float; NaN and infinities are passed on."""
        number = real_array("the value", value)
        if number.ndim != 0:
            raise InvalidInputError(f"the value must be a real number, got an array of shape {number.shape}")
        return float(number)


def constant(name: str, value: object) -> float:
    """One of the constants μ, L, M, σ that the user declares, as a float in [0, inf)."""
    number = real(name, value)
    if not 0 <= number < np.inf:
        raise InvalidInputError(f"{name} must be in [0, inf), got {value!r}")
    return number
