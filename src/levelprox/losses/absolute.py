"""The absolute loss, whose fit is a conditional median.

ℓ = |r|,      ℓ' = -sign r,      ∂ℓ = [-1, 1] at r = 0,      r = b - z
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from levelprox._typing import Vector
from levelprox.losses.moreau import Kinked


@dataclass(frozen=True)
class Absolute(Kinked):
    """ℓ(z, b) = |b - z|; no parameter; 1-Lipschitz, convex, not smooth: ℓ' jumps by 2 at z = b.

    `derivative` is 0 at the kink, an element of the subdifferential; `curvature` raises an error.

    Examples
    --------
    >>> from levelprox.losses import Absolute
    >>> Absolute().value([0.0, 3.0], [1.0, 1.0])
    1.5
    """

    name = "absolute"
    kind = "regression"
    lipschitz = 1.0
    jump = 2.0

    def slopes(self, b: Vector) -> tuple[Vector, Vector]:
        """Return -1 and 1."""
        return np.full_like(b, -1.0), np.full_like(b, 1.0)
