"""The base class of losses with a kink: two lines that meet at z = b, where ℓ has its minimum 0.

ℓ = max(lo·s, hi·s),      ∂ℓ = lo for s < 0,  [lo, hi] at s = 0,  hi for s > 0,      s = z - b,  lo ≤ 0 ≤ hi
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from levelprox._typing import Vector
from levelprox.losses._base import Loss
from levelprox.losses.moreau import Smoothed


@dataclass(frozen=True)
class Kinked(Loss):
    """A convex loss with one kink, at z = b.

    `derivative` is 0 at the kink, an element of the subdifferential; `curvature` raises an error.
    """

    smoothness = math.inf
    weak_convexity = 0.0

    @property
    @abstractmethod
    def jump(self) -> float:
        """hi - lo."""

    @abstractmethod
    def slopes(self, b: Vector) -> tuple[Vector, Vector]:
        """Return the slopes lo and hi before and after the kink, for each target."""

    def typical_curvature(self, z: Vector, b: Vector, weight: Vector | None = None) -> float:
        """Return sup |ℓ'| divided by the mean of |z − b|: the jump of ℓ' spread over the residuals."""
        return self.lipschitz / (float(np.average(np.abs(z - b), weights=weight)) or 1.0)

    def subdifferential(self, z: ArrayLike, b: ArrayLike) -> tuple[Vector, Vector]:
        """Return the bounds of ∂ℓ for each sample: the two slopes at z = b, the derivative twice at other points."""
        z, b, _ = self._arguments(z, b, None)
        low, high = super().subdifferential(z, b)
        before, after = self.slopes(b)
        return np.where(z == b, before, low), np.where(z == b, after, high)

    def smoothed(self, width: float) -> Smoothed:
        """Return the Moreau envelope min_w ℓ(w, b) + (z - w)²/(2 width), see `Smoothed`."""
        return Smoothed(self, width)
