"""The Cauchy loss, the negative log-likelihood of Cauchy noise, robust against outliers. Not convex.

    ℓ = (c²/2) log(1 + q²),    ℓ' = -r / (1 + q²),    ℓ'' = (1 - q²) / (1 + q²)²,    q = r/c,  r = b - z

For every c, the maximum of ℓ'' is 1, at r = 0, and its minimum -1/8, at |r| = √3 c;
the maximum of |ℓ'| is c/2, at |r| = c.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from levelprox._validation import positive
from levelprox.losses._base import Loss
from levelprox.losses.huber import Huber

_ALONE = 2.0**27  # for larger q, 1 + q² is q² in float64


@dataclass(frozen=True)
class Cauchy(Loss):
    """ℓ(z, b) = (c²/2) log(1 + (r/c)²), r = b - z; smoothness 1, weakly convex with 1/8, c/2-Lipschitz.

    Parameters
    ----------
    c : float, default 1.0
        The scale, in the units of the targets: ℓ is close to r²/2 for |r| much below c, and |ℓ'| decreases
        beyond |r| = c.

    Examples
    --------
    >>> from levelprox.losses import Cauchy
    >>> Cauchy(c=1.0).derivative([0.0, 0.0], [1.0, 7.0]).round(6).tolist()  # the outlier has less influence
    [-0.25, -0.07]
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
        """c/2."""
        return self.parameter / 2

    @property
    def convex_start(self) -> Huber:
        """Huber's loss with δ = c: ℓ'/L' is 1/(1 + q²) for |q| ≤ 1, |q|/(1 + q²) beyond, and decreases as L grows."""
        return Huber(self.c)

    @property
    def parameter(self) -> float:
        """The scale c."""
        return float(self.c)

    def pointwise(self, xp: Any, z: Any, b: Any) -> tuple[Any, Any, Any]:
        """Return ℓ, ℓ' and ℓ'' of every sample; see `Loss.pointwise`."""
        c, r = self.parameter, b - z
        size = xp.abs(r)
        q = size / c
        far = q > 1.0  # computed from p = c/r, so that neither square overflows
        s = q * q
        near = xp.where(s > 0, xp.log1p(s) / s, 1.0)
        square = xp.where(q < _ALONE, xp.log1p(s), 2.0 * xp.where(xp.isinf(q), xp.log(size) - math.log(c), xp.log(q)))
        value = xp.where(far, c * (0.5 * c * square), size * (0.5 * size * near))
        p = c / r
        slope = xp.where(far, -c * p / (1.0 + p * p), -r / (1.0 + s))
        # The sign of ℓ'' changes at |r| = c and is that of c − |r|, which is exact there.
        p = xp.abs(p)
        beyond = xp.where(p < 0.5, 1.0 - p, (size - c) / size)
        outer = -(p * p) * beyond * (1.0 + p) / ((1.0 + p * p) * (1.0 + p * p))
        return value, slope, xp.where(far, outer, (c - size) / c * (1.0 + q) / ((1.0 + s) * (1.0 + s)))
