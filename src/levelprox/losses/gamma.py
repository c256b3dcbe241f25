"""The loss of gamma-distributed targets with a log link: the negative log-likelihood at shape 1, up to terms in b.

ℓ = z + b exp(-z),    ℓ' = 1 - b exp(-z),    ℓ'' = b exp(-z),    exp(z) the expected target

Errors are relative to the mean: another unit of the targets shifts z and ℓ, and changes nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from levelprox._typing import Vector
from levelprox.losses._base import LogLink


@dataclass(frozen=True)
class Gamma(LogLink):
    """ℓ(z, b) = z + b exp(-z), b > 0; no parameter; convex; ℓ' and ℓ'' are unbounded.

    Examples
    --------
    >>> from levelprox.losses import Gamma
    >>> Gamma().derivative([0.0, 0.0], [1.0, 3.0]).tolist()
    [0.0, -1.0]
    """

    name = "gamma"
    kind = "positive"

    def infimum(self, b: Vector) -> Vector:
        """Return 1 + log b, the loss at z = log b."""
        return np.asarray(1 + np.log(b))

    def pointwise(self, xp: Any, z: Any, b: Any) -> tuple[Any, Any, Any]:
        """Return ℓ, ℓ' and ℓ'' of every sample; see `Loss.pointwise`."""
        root = xp.exp(-0.5 * z)  # exp(-z) may overflow or underflow where b exp(-z) does not
        ratio = b * root * root
        return xp.where(xp.isinf(ratio), ratio, z + ratio), 1.0 - ratio, ratio
