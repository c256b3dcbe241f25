"""The squared hinge loss of a margin bz: the hinge loss without its kink, and without a factor 1/2.

bz < 1:   ℓ = (1 - bz)²,    ℓ' = -2b(1 - bz),    ℓ'' = 2
bz ≥ 1:   ℓ = 0,            ℓ' = 0,              ℓ'' = 0
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from levelprox.losses._base import Loss


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
