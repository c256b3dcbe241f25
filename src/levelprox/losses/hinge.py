"""The hinge loss of a margin bz, as in support vector machines: 0 from bz = 1 on.

    ℓ = max(0, 1 - m),      ℓ' = -b for m < 1, 0 for m > 1,      ∂ℓ = -b·[0, 1] at m = 1,      m = bz

The kink bz = 1 is z = b, because b = ±1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from levelprox._typing import Vector
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
