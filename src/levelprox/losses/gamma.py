"""The loss of gamma-distributed targets with a log link, minus the log-likelihood at shape 1 without terms in b alone.

ℓ = z + b exp(-z),    ℓ' = 1 - b exp(-z),    ℓ'' = b exp(-z),    exp(z) the expected target

Errors count relative to the mean: targets in another unit shift z and ℓ, and change nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from levelprox._typing import Vector
from levelprox.losses.log_link import LogLink


@dataclass(frozen=True)
class Gamma(LogLink):
    """ℓ(z, b) = z + b exp(-z), b > 0; no parameter; convex; neither smoothness nor steepness has a bound."""

    name = "gamma"
    kind = "positive"

    def infimum(self, b: Vector) -> Vector:
        return np.asarray(1 + np.log(b))

    def pointwise(self, xp: Any, z: Any, b: Any) -> tuple[Any, Any, Any]:
        root = xp.exp(-0.5 * z)  # exp(-z) alone may leave the range where the product with b does not
        ratio = b * root * root
        return xp.where(xp.isinf(ratio), ratio, z + ratio), 1.0 - ratio, ratio
