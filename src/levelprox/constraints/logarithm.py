"""Log, the logarithmic constraint, whose cost grows ever more slowly.

    φ(t) = log(1 + θt)/log(1 + θ),      λ = θ/log(1 + θ),      t = |x|

Scaled so that φ(1) = 1. It grows without bound, hence every level set is bounded and no level but 0
is degenerate; θ → 0 is the ℓ1 norm, θ → ∞ the count of nonzeros.
Table 2 of the paper; Weston, Elisseeff, Schölkopf and Tipping (2003), JMLR 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from levelprox.constraints._base import CompiledConstraint


@dataclass(frozen=True)
class Log(CompiledConstraint):
    """The logarithm, concave but unbounded, with φ(1) = 1.

    φ(t) = log(1 + theta * t) / log(1 + theta); the slope at 0 is lam = theta / log(1 + theta). Row "Log"
    of Table 2 of the paper. J. Weston, A. Elisseeff, B. Schölkopf and M. Tipping (2003), "Use of the
    zero-norm with linear models and kernel methods", Journal of Machine Learning Research 3, 1439-1461.

    Parameters
    ----------
    theta : float in (0, inf)
        Where φ bends: the slope is halved at t = 1/theta.

    Examples
    --------
    >>> from levelprox.constraints import Log
    >>> constraint = Log(theta=9.0)
    >>> constraint.phi([0.0, 1.0, 11.0]).tolist()
    [0.0, 1.0, 2.0]
    """

    kernel_name: ClassVar[str] = "logarithm"

    theta: float

    def __post_init__(self) -> None:
        self._check_parameters(theta=(0, np.inf))
        self._check_range("lam", "lipschitz")

    @property
    def lam(self) -> float:
        """θ/log(1 + θ), the slope at 0."""
        return self.theta / math.log1p(self.theta)

    @property
    def lipschitz(self) -> float:
        """θ²/log(1 + θ), the curvature at 0."""
        return self.theta * self.lam

    def kernel_parameters(self) -> tuple[float, ...]:
        """Return the parameters of the formula."""
        return (self.theta, self.lam)
