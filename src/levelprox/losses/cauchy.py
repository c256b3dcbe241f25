"""The Cauchy loss, minus the log-likelihood of Cauchy noise: outliers hardly pull at all. Not convex.

    ℓ = (c²/2) log(1 + q²),    ℓ' = -r / (1 + q²),    ℓ'' = (1 - q²) / (1 + q²)²,    q = r/c,  r = b - z

ℓ'' is largest, 1, at r = 0 and least, -1/8, at |r| = √3 c, whatever c is;
|ℓ'| is largest, c/2, at |r| = c.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from levelprox._validation import positive
from levelprox.losses._base import Loss
from levelprox.losses.huber import Huber

_ALONE = 2.0**27  # beyond, the 1 of 1 + q² is below the last digit


@dataclass(frozen=True)
class Cauchy(Loss):
    """ℓ(z, b) = (c²/2) log(1 + (r/c)²), r = b - z; smoothness 1, weakly convex with 1/8, c/2-Lipschitz.

    Parameters
    ----------
    c : float, default 1.0
        The scale, in the units of the targets: ℓ is close to r²/2 for |r| much below c, and ℓ' falls again
        beyond |r| = c.
    """

    c: float = 1.0

    name = "cauchy"
    kind = "regression"
    smoothness = 1.0
    weak_convexity = 0.125

    def __post_init__(self) -> None:
        positive("c", self.c)

    @property
    def lipschitz(self) -> float:
        return self.parameter / 2

    @property
    def convex_start(self) -> Huber:
        """Huber's with δ = c: ℓ'/L' = 1/(1 + q²) as far as it is a parabola, |q|/(1 + q²) beyond, falls as L grows."""
        return Huber(self.c)

    @property
    def parameter(self) -> float:
        """The scale c."""
        return float(self.c)

    def pointwise(self, xp: Any, z: Any, b: Any) -> tuple[Any, Any, Any]:
        c, r = self.parameter, b - z
        size = xp.abs(r)
        q = size / c
        far = q > 1.0  # there in p = c/r, so that neither square overflows
        s = q * q
        near = xp.where(s > 0, xp.log1p(s) / s, 1.0)
        square = xp.where(q < _ALONE, xp.log1p(s), 2.0 * xp.where(xp.isinf(q), xp.log(size) - math.log(c), xp.log(q)))
        value = xp.where(far, c * (0.5 * c * square), size * (0.5 * size * near))
        p = c / r
        slope = xp.where(far, -c * p / (1.0 + p * p), -r / (1.0 + s))
        # The sign change of ℓ'' at |r| = c is taken from c − |r|, which is exact there.
        p = xp.abs(p)
        beyond = xp.where(p < 0.5, 1.0 - p, (size - c) / size)
        outer = -(p * p) * beyond * (1.0 + p) / ((1.0 + p * p) * (1.0 + p * p))
        return value, slope, xp.where(far, outer, (c - size) / c * (1.0 + q) / ((1.0 + s) * (1.0 + s)))
