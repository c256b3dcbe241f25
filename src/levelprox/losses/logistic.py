"""The logistic loss of a margin bz, minus the log-likelihood of a Bernoulli target.

ℓ = log(1 + exp(-m)),    ℓ' = -b / (1 + exp(m)),    ℓ'' = p(1 - p),    m = bz,  p = 1 / (1 + exp(-m))
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from levelprox.errors import InvalidInputError
from levelprox.losses.base import Loss, Vector


@dataclass(frozen=True)
class Logistic(Loss):
    """ℓ(z, b) = log(1 + exp(-bz)), b = ±1; no parameter; smoothness 1/4 (at z = 0), convex."""

    name = "logistic"
    kind = "margin"
    smoothness = 0.25
    weak_convexity = 0.0

    def check_targets(self, b: ArrayLike) -> Vector:
        """`b` as a float64 vector, or an `InvalidInputError` that names an entry other than -1 and +1."""
        b = super().check_targets(b)
        bad = np.flatnonzero(np.abs(b) != 1)
        if bad.size:
            raise InvalidInputError(
                f"targets must be -1 or +1, got {float(b[bad[0]])} at index {bad[0]}; for 0/1 labels use 2*y - 1"
            )
        return b
