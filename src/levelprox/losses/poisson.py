"""The Poisson loss of counts with a log link, minus the log-likelihood without log b!, which depends on b alone.

ℓ = exp(z) - bz,    ℓ' = exp(z) - b,    ℓ'' = exp(z),    exp(z) the expected count

An exposure e, such as a time at risk, is the offset log e. At b = 0 there is no minimiser: ℓ falls to 0 as
z → -∞, so a group of samples that counts nothing has an infinitely negative coefficient for its best.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import Vector
from levelprox.losses.log_link import LogLink

_E10 = math.exp(10.0)


@dataclass(frozen=True)
class Poisson(LogLink):
    """ℓ(z, b) = exp(z) - bz, b ≥ 0; no parameter; convex; neither smoothness nor steepness has a bound."""

    name = "poisson"
    kind = "count"
    attained = False

    def falls_for_ever(self, direction: Vector, b: Vector) -> NDArray[np.bool_]:
        return np.asarray((b == 0) & (direction < 0), dtype=np.bool_)

    def infimum(self, b: Vector) -> Vector:
        return np.asarray(b - b * np.log(np.where(b > 0, b, 1.0)))

    def pointwise(self, xp: Any, z: Any, b: Any) -> tuple[Any, Any, Any]:
        e = xp.exp(z)
        part = xp.exp(z - 10.0)  # exp(z) may be out of range where its difference to bz is not

        def minus(product: Any, small: Any) -> Any:
            within = xp.isfinite(e) & xp.isfinite(product)
            return xp.where(within, e - product, xp.where(z > 720.0, e, _E10 * (part - small)))

        bz = xp.where(b == 0, xp.where(xp.isnan(z), z, 0.0), b * z)
        small = xp.where(b == 0, xp.where(xp.isnan(z), z, 0.0), b * (z / _E10))
        return minus(bz, small), minus(b, b / _E10), e
