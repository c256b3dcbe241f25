"""The hinge loss of support vector machines and its square: of a margin m = bz with b = ±1, and 0 from m = 1 on.

Hinge:          ℓ = max(0, 1 - m),    ℓ' = -b for m < 1, 0 for m > 1,    ∂ℓ = -b·[0, 1] at the kink m = 1, or z = b

SquaredHinge:   m < 1:   ℓ = (1 - m)²,    ℓ' = -2b(1 - m),    ℓ'' = 2
                m ≥ 1:   ℓ = 0,           ℓ' = 0,             ℓ'' = 0
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from levelprox._typing import Vector
from levelprox.losses._base import Loss
from levelprox.losses.moreau import Kinked


@dataclass(frozen=True)
class Hinge(Kinked):
    """ℓ(z, b) = max(0, 1 - bz), b = ±1; no parameter; 1-Lipschitz, convex, not smooth: ℓ' jumps by 1 at z = b.

    `derivative` is 0 at the kink, an element of the subdifferential; `curvature` raises an error.

    Examples
    --------
    >>> from levelprox.losses import Hinge
    >>> Hinge().value([2.0, 0.0], [1.0, -1.0])
    0.5
    """

    name = "hinge"
    kind = "margin"
    lipschitz = 1.0
    jump = 1.0

    def slopes(self, b: Vector) -> tuple[Vector, Vector]:
        """Return -1 and 0 for b = 1, 0 and 1 for b = -1."""
        return np.minimum(-b, 0.0), np.maximum(-b, 0.0)


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """ℓ(z, b) = max(0, 1 - bz)², b = ±1; no parameter; smoothness 2, convex, not Lipschitz.

    Examples
    --------
    >>> from levelprox.losses import SquaredHinge
    >>> SquaredHinge().value([2.0, 0.0, 1.0], [1.0, 1.0, -1.0])
    1.6666666666666667
    """

    name = "squared_hinge"
    kind = "margin"
    smoothness = 2.0
    weak_convexity = 0.0
    lipschitz = math.inf

    def pointwise(self, xp: Any, z: Any, b: Any) -> tuple[Any, Any, Any]:
        """Return ℓ, ℓ' and ℓ'' of every sample; see `Loss.pointwise`."""
        lack = 1.0 - b * z
        lack = xp.where(lack < 0, 0.0, lack)  # in this order NaN stays NaN
        bend = xp.where(lack > 0, 2.0 * xp.ones_like(lack), xp.zeros_like(lack))
        return lack * lack, -2.0 * b * lack, xp.where(xp.isnan(z), z, bend)
