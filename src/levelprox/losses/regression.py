"""The losses of residuals r = b - z, for targets that are any real numbers.

`Squared`, without a factor 1/2 (as in the paper's least squares); infinite for |r| > 1.3e154, beyond the float64 range:

    ℓ = r²,      ℓ' = -2r,      ℓ'' = 2

`Huber`: quadratic near 0 and linear beyond, so that the influence of outliers is bounded. Unlike `Squared` it includes
the factor 1/2. Huber (1964), Annals of Mathematical Statistics 35(1).

    |r| ≤ δ:   ℓ = r²/2,             ℓ' = -r,           ℓ'' = 1
    |r| > δ:   ℓ = δ(|r| - δ/2),     ℓ' = -δ sign r,    ℓ'' = 0

`Cauchy`, the negative log-likelihood of Cauchy noise, robust against outliers. Not convex. For every c, the maximum of
ℓ'' is 1, at r = 0, and its minimum -1/8, at |r| = √3 c; the maximum of |ℓ'| is c/2, at |r| = c.

    ℓ = (c²/2) log(1 + q²),    ℓ' = -r / (1 + q²),    ℓ'' = (1 - q²) / (1 + q²)²,    q = r/c

`Quantile`, the pinball loss; a fraction q of the targets is below the fit. Koenker and Bassett (1978), Econometrica
46(1).

    ℓ = max(qr, (q - 1)r),      ℓ' = -q for r > 0, 1 - q for r < 0,      ∂ℓ = [-q, 1 - q] at r = 0

`Absolute`, twice that of q = 1/2, for the median:

    ℓ = |r|,      ℓ' = -sign r,      ∂ℓ = [-1, 1] at r = 0
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from levelprox._typing import Vector
from levelprox._validation import positive, real
from levelprox.exceptions import InvalidInputError
from levelprox.losses._base import Loss
from levelprox.losses.moreau import Kinked

_ALONE = 2.0**27  # for larger q, 1 + q² is q² in float64


@dataclass(frozen=True)
class Squared(Loss):
    """ℓ(z, b) = (b - z)²; no parameter; smoothness 2, convex, not Lipschitz.

    Examples
    --------
    >>> from levelprox.losses import Squared
    >>> Squared().value([0.0, 1.0], [1.0, 3.0])
    2.5
    """

    name = "squared"
    kind = "regression"
    smoothness = 2.0
    weak_convexity = 0.0
    lipschitz = math.inf
    constant_curvature = True

    def pointwise(self, xp: Any, z: Any, b: Any) -> tuple[Any, Any, Any]:
        """Return ℓ, ℓ' and ℓ'' of every sample; see `Loss.pointwise`."""
        r = b - z
        return r * r, -2.0 * r, xp.where(xp.isnan(r), r, 2.0)


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


@dataclass(frozen=True)
class Cauchy(Loss):
    """ℓ(z, b) = (c²/2) log(1 + (r/c)²), r = b - z; smoothness 1, weakly convex with 1/8, c/2-Lipschitz.

    Parameters
    ----------
    c : float, default 1.0
        The scale, in the units of the targets: ℓ is close to r²/2 for |r| much below c, and |ℓ'| decreases
        beyond |r| = c.

    Examples
    --------
    >>> from levelprox.losses import Cauchy
    >>> Cauchy(c=1.0).derivative([0.0, 0.0], [1.0, 7.0]).round(6).tolist()  # the outlier has less influence
    [-0.25, -0.07]
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
        """c/2."""
        return self.parameter / 2

    @property
    def convex_start(self) -> Huber:
        """Huber's loss with δ = c: ℓ'/L' is 1/(1 + q²) for |q| ≤ 1, |q|/(1 + q²) beyond, and decreases as L grows."""
        return Huber(self.c)

    @property
    def parameter(self) -> float:
        """The scale c."""
        return float(self.c)

    def pointwise(self, xp: Any, z: Any, b: Any) -> tuple[Any, Any, Any]:
        """Return ℓ, ℓ' and ℓ'' of every sample; see `Loss.pointwise`."""
        c, r = self.parameter, b - z
        size = xp.abs(r)
        q = size / c
        far = q > 1.0  # computed from p = c/r, so that neither square overflows
        s = q * q
        near = xp.where(s > 0, xp.log1p(s) / s, 1.0)
        square = xp.where(q < _ALONE, xp.log1p(s), 2.0 * xp.where(xp.isinf(q), xp.log(size) - math.log(c), xp.log(q)))
        value = xp.where(far, c * (0.5 * c * square), size * (0.5 * size * near))
        p = c / r
        slope = xp.where(far, -c * p / (1.0 + p * p), -r / (1.0 + s))
        # The sign of ℓ'' changes at |r| = c and is that of c − |r|, which is exact there.
        p = xp.abs(p)
        beyond = xp.where(p < 0.5, 1.0 - p, (size - c) / size)
        outer = -(p * p) * beyond * (1.0 + p) / ((1.0 + p * p) * (1.0 + p * p))
        return value, slope, xp.where(far, outer, (c - size) / c * (1.0 + q) / ((1.0 + s) * (1.0 + s)))


@dataclass(frozen=True)
class Quantile(Kinked):
    """ℓ(z, b) = max(qr, (q - 1)r), r = b - z; max(q, 1 - q)-Lipschitz, convex, not smooth: ℓ' jumps by 1 at z = b.

    `derivative` is 0 at the kink, an element of the subdifferential; `curvature` raises an error.

    Parameters
    ----------
    q : float, default 0.5
        The quantile, in (0, 1): a target above the fit costs q per unit, one below it 1 - q.

    Examples
    --------
    >>> from levelprox.losses import Quantile
    >>> Quantile(q=0.75).value([0.0, 0.0], [2.0, -2.0])
    1.0
    """

    q: float = 0.5

    name = "quantile"
    kind = "regression"
    jump = 1.0

    def __post_init__(self) -> None:
        if not 0 < real("q", self.q) < 1:
            raise InvalidInputError(f"q must be in (0, 1), got {self.q!r}")

    @property
    def lipschitz(self) -> float:
        """max(q, 1 - q)."""
        return max(self.parameter, 1 - self.parameter)

    @property
    def parameter(self) -> float:
        """The fraction q."""
        return float(self.q)

    def slopes(self, b: Vector) -> tuple[Vector, Vector]:
        """Return -q and 1 - q."""
        return np.full_like(b, -self.parameter), np.full_like(b, 1 - self.parameter)


@dataclass(frozen=True)
class Absolute(Kinked):
    """ℓ(z, b) = |b - z|; no parameter; 1-Lipschitz, convex, not smooth: ℓ' jumps by 2 at z = b.

    `derivative` is 0 at the kink, an element of the subdifferential; `curvature` raises an error.

    Examples
    --------
    >>> from levelprox.losses import Absolute
    >>> Absolute().value([0.0, 3.0], [1.0, 1.0])
    1.5
    """

    name = "absolute"
    kind = "regression"
    lipschitz = 1.0
    jump = 2.0

    def slopes(self, b: Vector) -> tuple[Vector, Vector]:
        """Return -1 and 1."""
        return np.full_like(b, -1.0), np.full_like(b, 1.0)
