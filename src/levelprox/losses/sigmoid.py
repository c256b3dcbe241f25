"""The sigmoid loss of a margin bz, a smooth count of errors, at most 1 per sample. Not convex.

    ℓ = 1/(1 + exp(m)),    ℓ' = -b ℓ(1 - ℓ),    ℓ'' = ℓ(1 - ℓ)(1 - 2ℓ),    m = bz

The maximum of |ℓ''| is 1/(6√3), at ℓ = (1 ± 1/√3)/2, that is m = ∓log(2 + √3), with both signs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from levelprox.losses._base import Loss
from levelprox.losses.logistic import Logistic


@dataclass(frozen=True)
class Sigmoid(Loss):
    """ℓ(z, b) = 1/(1 + exp(bz)), b = ±1; no parameter; smoothness and weak convexity 1/(6√3), 1/4-Lipschitz.

    Examples
    --------
    >>> from levelprox.losses import Sigmoid
    >>> Sigmoid().value([0.0, 50.0, 50.0], [1.0, 1.0, -1.0])
    0.5
    """

    name = "sigmoid"
    kind = "margin"
    smoothness = math.sqrt(3) / 18
    weak_convexity = math.sqrt(3) / 18
    lipschitz = 0.25
    attained = False
    convex_start = Logistic()  # ℓ = 1 - exp(-L)

    def pointwise(self, xp: Any, z: Any, b: Any) -> tuple[Any, Any, Any]:
        """Return ℓ, ℓ' and ℓ'' of every sample; see `Loss.pointwise`."""
        m = b * z
        e = xp.exp(-xp.abs(m))
        size = e / ((1.0 + e) * (1.0 + e))
        bend = size * -xp.expm1(-xp.abs(m)) / (1.0 + e)
        return xp.where(m > 0, e, 1.0) / (1.0 + e), -b * xp.where(size > 0.25, 0.25, size), xp.copysign(bend, m)
