"""The squared loss, without a factor 1/2 (as in the paper's least squares).

    ℓ = r²,      ℓ' = -2r,      ℓ'' = 2,      r = b - z

It exceeds the float64 range, and is infinite, for |r| > 1.3e154.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from levelprox.losses._base import Loss


@dataclass(frozen=True)
class Squared(Loss):
    """ℓ(z, b) = (b - z)²; no parameter; smoothness 2, convex, not Lipschitz.

    Examples
    --------
    >>> from levelprox.losses import Squared
    >>> Squared().value([0.0, 1.0], [1.0, 3.0])
    2.5
    """

    name = "squared"
    kind = "regression"
    smoothness = 2.0
    weak_convexity = 0.0
    lipschitz = math.inf
    constant_curvature = True

    def pointwise(self, xp: Any, z: Any, b: Any) -> tuple[Any, Any, Any]:
        """Return ℓ, ℓ' and ℓ'' of every sample; see `Loss.pointwise`."""
        r = b - z
        return r * r, -2.0 * r, xp.where(xp.isnan(r), r, 2.0)
