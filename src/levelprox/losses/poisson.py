"""The Poisson loss of counts with a log link, minus the log-likelihood without log b!, which depends on b alone.

ℓ = exp(z) - bz,    ℓ' = exp(z) - b,    ℓ'' = exp(z),    exp(z) the expected count

An exposure e, such as a time at risk, is the offset log e. At b = 0 there is no minimiser: ℓ falls to 0 as
z → -∞, so a group of samples that counts nothing has an infinitely negative coefficient for its best.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from levelprox.losses.base import Vector
from levelprox.losses.log_link import LogLink


@dataclass(frozen=True)
class Poisson(LogLink):
    """ℓ(z, b) = exp(z) - bz, b ≥ 0; no parameter; convex; neither smoothness nor steepness has a bound."""

    name = "poisson"
    kind = "count"
    attained = False

    def falls_for_ever(self, direction: Vector, b: Vector) -> NDArray[np.bool_]:
        return np.asarray((b == 0) & (direction < 0), dtype=np.bool_)
