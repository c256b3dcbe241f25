"""The Cauchy loss, minus the log-likelihood of Cauchy noise: outliers hardly pull at all. Not convex.

    ℓ = (c²/2) log(1 + q²),    ℓ' = -r / (1 + q²),    ℓ'' = (1 - q²) / (1 + q²)²,    q = r/c,  r = b - z

ℓ'' is largest, 1, at r = 0 and least, -1/8, at |r| = √3 c, whatever c is;
|ℓ'| is largest, c/2, at |r| = c.
"""

from __future__ import annotations

from dataclasses import dataclass

from levelprox.losses.base import Loss
from levelprox.losses.huber import Huber
from levelprox.validation import positive


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
