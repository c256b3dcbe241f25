"""Huber's loss: quadratic near 0 and linear beyond, so that the influence of outliers is bounded.

    |r| ≤ δ:   ℓ = r²/2,             ℓ' = -r,           ℓ'' = 1           r = b - z
    |r| > δ:   ℓ = δ(|r| - δ/2),     ℓ' = -δ sign r,    ℓ'' = 0

Huber (1964), Annals of Mathematical Statistics 35(1). Unlike `Squared` it includes the factor 1/2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from levelprox._validation import positive
from levelprox.losses._base import Loss


@dataclass(frozen=True)
class Huber(Loss):
    """ℓ(z, b) = r²/2 for |r| ≤ δ, δ(|r| - δ/2) beyond, r = b - z; smoothness 1, convex, δ-Lipschitz.

    Parameters
    ----------
    delta : float, default 1.35
        The end of the quadratic part, in the units of the targets. For normal noise of unit variance, 1.35
        has 95 % of the efficiency of least squares.

    Examples
    --------
    >>> from levelprox.losses import Huber
    >>> Huber(delta=1.0).value([0.0, 0.0], [1.0, 10.0])
    5.0
    """

    delta: float = 1.35

    name = "huber"
    kind = "regression"
    smoothness = 1.0
    weak_convexity = 0.0

    def __post_init__(self) -> None:
        positive("delta", self.delta)

    @property
    def lipschitz(self) -> float:
        """δ."""
        return self.parameter

    @property
    def parameter(self) -> float:
        """δ."""
        return float(self.delta)

    def pointwise(self, xp: Any, z: Any, b: Any) -> tuple[Any, Any, Any]:
        """Return ℓ, ℓ' and ℓ'' of every sample; see `Loss.pointwise`."""
        delta, r = self.parameter, b - z
        size = xp.abs(r)
        far = size > delta
        value = xp.where(far, delta * (size - 0.5 * delta), size * (0.5 * size))
        bend = xp.where(far, xp.zeros_like(r), xp.ones_like(r))
        return value, xp.where(far, -delta * xp.sign(r), -r), xp.where(xp.isnan(r), r, bend)
