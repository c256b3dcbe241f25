"""The absolute loss, whose fit is a median; the one loss here with a kink.

ℓ = |r|,      ℓ' = -sign r,      ∂ℓ = [-1, 1] at r = 0,      r = b - z
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from numpy.typing import ArrayLike

from levelprox.losses.base import Loss, Vector


@dataclass(frozen=True)
class Absolute(Loss):
    """ℓ(z, b) = |b - z|; no parameter; 1-Lipschitz, convex, not smooth.

    `derivative` gives 0 at the kink z = b, an element of the subdifferential; `curvature` is refused.
    """

    name = "absolute"
    kind = "regression"
    smoothness = math.inf
    weak_convexity = 0.0
    smooth = False

    def subdifferential(self, z: ArrayLike, b: ArrayLike) -> tuple[Vector, Vector]:
        """Bounds of ∂ℓ for each sample: -1 and 1 at z = b, the derivative twice elsewhere."""
        z, b, _ = self._arguments(z, b, None)
        low, high = super().subdifferential(z, b)
        kink = z == b
        low[kink], high[kink] = -1.0, 1.0
        return low, high
