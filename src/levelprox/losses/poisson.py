"""The Poisson loss of counts with a log link: the negative log-likelihood up to log b!, which depends on b alone.

ℓ = exp(z) - bz,    ℓ' = exp(z) - b,    ℓ'' = exp(z),    exp(z) the expected count

An exposure e, such as a time at risk, is the offset log e. At b = 0 there is no minimiser: ℓ falls to 0 as
z → -∞, so the optimal coefficient of a group of samples with all counts 0 is minus infinity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import Vector
from levelprox.losses._base import LogLink

_E10 = math.exp(10.0)


@dataclass(frozen=True)
class Poisson(LogLink):
    """ℓ(z, b) = exp(z) - bz, b ≥ 0; no parameter; convex; ℓ' and ℓ'' are unbounded.

    Examples
    --------
    >>> from levelprox.losses import Poisson
    >>> Poisson().value([0.0, 0.0], [0.0, 3.0])
    1.0
    """

    name = "poisson"
    kind = "count"
    attained = False

    def decreases_forever(self, direction: Vector, b: Vector) -> NDArray[np.bool_]:
        """Return, for each sample, whether ℓ(z + t·direction, b) decreases for all t: b = 0 and direction < 0."""
        return np.asarray((b == 0) & (direction < 0), dtype=np.bool_)

    def infimum(self, b: Vector) -> Vector:
        """Return b − b log b, the loss at z = log b; 0 where b = 0."""
        return np.asarray(b - b * np.log(np.where(b > 0, b, 1.0)))

    def pointwise(self, xp: Any, z: Any, b: Any) -> tuple[Any, Any, Any]:
        """Return ℓ, ℓ' and ℓ'' of every sample; see `Loss.pointwise`."""
        e = xp.exp(z)
        part = xp.exp(z - 10.0)  # exp(z) may overflow where exp(z) - bz does not

        def minus(product: Any, small: Any) -> Any:
            within = xp.isfinite(e) & xp.isfinite(product)
            return xp.where(within, e - product, xp.where(z > 720.0, e, _E10 * (part - small)))

        bz = xp.where(b == 0, xp.where(xp.isnan(z), z, 0.0), b * z)
        small = xp.where(b == 0, xp.where(xp.isnan(z), z, 0.0), b * (z / _E10))
        return minus(bz, small), minus(b, b / _E10), e
