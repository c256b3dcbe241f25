"""The losses with a log link, where exp(z) is the mean of the target: `Poisson` for counts, `Gamma` for amounts.

Poisson, the negative log-likelihood up to log b!, which depends on b alone:

    ℓ = exp(z) - bz,    ℓ' = exp(z) - b,    ℓ'' = exp(z)

An exposure e, such as a time at risk, is the offset log e. At b = 0 there is no minimiser: ℓ falls to 0 as
z → -∞, so the optimal coefficient of a group of samples with all counts 0 is minus infinity.

Gamma, the negative log-likelihood at shape 1, up to terms in b:

    ℓ = z + b exp(-z),    ℓ' = 1 - b exp(-z),    ℓ'' = b exp(-z)

Errors are relative to the mean: another unit of the targets shifts z and ℓ, and changes nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import Vector
from levelprox.losses._base import Loss

_E10 = math.exp(10.0)


@dataclass(frozen=True)
class LogLink(Loss):
    """Base class of smooth convex losses with a log link: z is the log of the mean, and the minimum is at z = log b.

    ℓ'' grows with exp(±z): neither ℓ' nor ℓ'' is bounded.

    Examples
    --------
    >>> from levelprox.losses import LogLink, Poisson
    >>> issubclass(Poisson, LogLink), Poisson().smoothness
    (True, inf)
    """

    smoothness = math.inf
    weak_convexity = 0.0
    lipschitz = math.inf
    self_concordance = 1.0  # ℓ″ is an exponential

    def typical_curvature(self, z: Vector, b: Vector, weight: Vector | None = None) -> float:
        """Return the smaller of the means of ℓ'' at z and at the minimiser log b; the other one if it is 0.

        The curvature of a fit lies between them. Either alone may be wrong by a large factor if the data are badly
        centred. Too small a value costs a few halvings of the first step; too large a value shortens every step.
        """
        with np.errstate(divide="ignore"):
            best = np.log(b)
        means = [float(np.sum(self.curvature(at, b, weight))) for at in (z, best)]
        return min((mean for mean in means if 0 < mean < math.inf), default=1.0)


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
