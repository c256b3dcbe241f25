"""The losses of a margin m = bz, for targets b = ±1.

`Logistic`, the negative log-likelihood of a label:

    ℓ = log(1 + exp(-m)),    ℓ' = -b / (1 + exp(m)),    ℓ'' = p(1 - p),    p = 1 / (1 + exp(-m))

`Hinge`, of support vector machines, 0 from m = 1 on:

    ℓ = max(0, 1 - m),    ℓ' = -b for m < 1, 0 for m > 1,    ∂ℓ = -b·[0, 1] at the kink m = 1, or z = b

`SquaredHinge`, its square:

    m < 1:   ℓ = (1 - m)²,    ℓ' = -2b(1 - m),    ℓ'' = 2
    m ≥ 1:   ℓ = 0,           ℓ' = 0,             ℓ'' = 0

`Sigmoid`, a smooth count of errors, at most 1 per sample. Not convex. The maximum of |ℓ''| is 1/(6√3), at
ℓ = (1 ± 1/√3)/2, that is m = ∓log(2 + √3), with both signs.

    ℓ = 1/(1 + exp(m)),    ℓ' = -b ℓ(1 - ℓ),    ℓ'' = ℓ(1 - ℓ)(1 - 2ℓ)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from levelprox._typing import Vector
from levelprox.losses._base import Loss
from levelprox.losses.moreau import Kinked


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


@dataclass(frozen=True)
class Hinge(Kinked):
    """ℓ(z, b) = max(0, 1 - bz), b = ±1; no parameter; 1-Lipschitz, convex, not smooth: ℓ' jumps by 1 at z = b.

    `derivative` is 0 at the kink, an element of the subdifferential; `curvature` raises an error.

    Examples
    --------
    >>> from levelprox.losses import Hinge
    >>> Hinge().value([2.0, 0.0], [1.0, -1.0])
    0.5
    """

    name = "hinge"
    kind = "margin"
    lipschitz = 1.0
    jump = 1.0

    def slopes(self, b: Vector) -> tuple[Vector, Vector]:
        """Return -1 and 0 for b = 1, 0 and 1 for b = -1."""
        return np.minimum(-b, 0.0), np.maximum(-b, 0.0)


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """ℓ(z, b) = max(0, 1 - bz)², b = ±1; no parameter; smoothness 2, convex, not Lipschitz.

    Examples
    --------
    >>> from levelprox.losses import SquaredHinge
    >>> SquaredHinge().value([2.0, 0.0, 1.0], [1.0, 1.0, -1.0])
    1.6666666666666667
    """

    name = "squared_hinge"
    kind = "margin"
    smoothness = 2.0
    weak_convexity = 0.0
    lipschitz = math.inf

    def pointwise(self, xp: Any, z: Any, b: Any) -> tuple[Any, Any, Any]:
        """Return ℓ, ℓ' and ℓ'' of every sample; see `Loss.pointwise`."""
        lack = 1.0 - b * z
        lack = xp.where(lack < 0, 0.0, lack)  # in this order NaN stays NaN
        bend = xp.where(lack > 0, 2.0 * xp.ones_like(lack), xp.zeros_like(lack))
        return lack * lack, -2.0 * b * lack, xp.where(xp.isnan(z), z, bend)


@dataclass(frozen=True)
class Sigmoid(Loss):
    """ℓ(z, b) = 1/(1 + exp(bz)), b = ±1; no parameter; smoothness and weak convexity 1/(6√3), 1/4-Lipschitz.

    Examples
    --------
    >>> from levelprox.losses import Sigmoid
    >>> Sigmoid().value([0.0, 50.0, 50.0], [1.0, 1.0, -1.0])
    0.5
    """

    name = "sigmoid"
    kind = "margin"
    smoothness = math.sqrt(3) / 18
    weak_convexity = math.sqrt(3) / 18
    lipschitz = 0.25
    attained = False
    convex_start = Logistic()  # ℓ = 1 - exp(-L)

    def pointwise(self, xp: Any, z: Any, b: Any) -> tuple[Any, Any, Any]:
        """Return ℓ, ℓ' and ℓ'' of every sample; see `Loss.pointwise`."""
        m = b * z
        e = xp.exp(-xp.abs(m))
        size = e / ((1.0 + e) * (1.0 + e))
        bend = size * -xp.expm1(-xp.abs(m)) / (1.0 + e)
        return xp.where(m > 0, e, 1.0) / (1.0 + e), -b * xp.where(size > 0.25, 0.25, size), xp.copysign(bend, m)
