"""The logistic loss of a margin bz, the negative log-likelihood of a Bernoulli target.

ℓ = log(1 + exp(-m)),    ℓ' = -b / (1 + exp(m)),    ℓ'' = p(1 - p),    m = bz,  p = 1 / (1 + exp(-m))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from levelprox.losses._base import Loss


@dataclass(frozen=True)
class Logistic(Loss):
    """ℓ(z, b) = log(1 + exp(-bz)), b = ±1; no parameter; smoothness 1/4 (at z = 0), convex, 1-Lipschitz.

    Examples
    --------
    >>> from levelprox.losses import Logistic
    >>> round(Logistic().value([0.0, 2.0], [1.0, -1.0]), 6)
    1.410038
    """

    name = "logistic"
    kind = "margin"
    smoothness = 0.25
    weak_convexity = 0.0
    lipschitz = 1.0
    attained = False
    self_concordance = 1.0  # |ℓ‴| = p(1 - p)|1 - 2p|

    def heights(self, xp: Any, z: Any, b: Any) -> Any:
        """Return ℓ of every sample, as `pointwise` does."""
        m = b * z
        return xp.log1p(xp.exp(-xp.abs(m))) + xp.where(m < 0, -m, 0.0)

    def pointwise(self, xp: Any, z: Any, b: Any) -> tuple[Any, Any, Any]:
        """Return ℓ, ℓ' and ℓ'' of every sample; see `Loss.pointwise`."""
        m = b * z
        e = xp.exp(-xp.abs(m))  # at most 1 for every margin
        value = xp.log1p(e) + xp.where(m < 0, -m, 0.0)
        return value, -b * xp.where(m > 0, e, 1.0) / (1.0 + e), e / ((1.0 + e) * (1.0 + e))
