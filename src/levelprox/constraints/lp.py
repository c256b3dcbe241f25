"""Lp, the bridge function with 0 < p < 1: the ℓp quasi-norm to the power p, made differentiable at 0.

    φ(t) = (t + ε)^p − ε^p,      λ = pε^{p−1},      t = |x|

The shift ε makes the slope at 0 finite, as h ∈ C¹ requires. Subtracting ε^p makes φ(0) = 0. The paper's
function (t + ε)^{1/θ}, p = 1/θ, is not 0 there: the origin costs dε^p. Only the level differs.
Table 2 of the paper; Fu (1998), Journal of Computational and Graphical Statistics 7(3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from levelprox.constraints._base import CompiledConstraint


@dataclass(frozen=True)
class Lp(CompiledConstraint):
    """The bridge function with 0 < p < 1, concave but unbounded.

    φ(t) = (t + epsilon)**p - epsilon**p; the slope at 0 is lam = p * epsilon**(p - 1). Row "ℓp, 0<p<1"
    of Table 2 of the paper, with p = 1/θ. W. J. Fu (1998), "Penalized regressions: the bridge versus the
    lasso", Journal of Computational and Graphical Statistics 7(3), 397-416.

    The paper's function does not subtract epsilon**p, so there d coefficients that are all 0 cost
    d * epsilon**p. Here the origin costs nothing; a level eta of the paper is the level
    eta - d * epsilon**p here (with weights, d is their sum).

    Parameters
    ----------
    p : float in (0, 1)
        The power.
    epsilon : float in (0, inf)
        The shift; the smaller it is, the steeper φ is at 0 and the closer to |x|**p.

    Examples
    --------
    >>> from levelprox.constraints import Lp
    >>> constraint = Lp(p=0.5, epsilon=0.25)
    >>> constraint.lam, constraint.value([0.0, 2.0, -6.0])
    (1.0, 3.0)
    """

    kernel_name: ClassVar[str] = "lp"

    p: float
    epsilon: float

    def __post_init__(self) -> None:
        self._check_parameters(p=(0, 1), epsilon=(0, np.inf))
        self._check_range("lam", "lipschitz")

    @property
    def lam(self) -> float:
        """pε^{p−1}, the slope at 0."""
        return self.p * (self._at_zero / self.epsilon)  # not ε^(p−1): rounding of p − 1 loses log ε digits

    @property
    def _at_zero(self) -> float:
        return math.pow(self.epsilon, self.p)

    @property
    def lipschitz(self) -> float:
        """p(1−p)ε^{p−2}, the curvature at 0."""
        return (1 - self.p) * self.lam / self.epsilon

    def kernel_parameters(self) -> tuple[float, ...]:
        """Return the parameters of the formula."""
        return (self.p, self.epsilon, self.lam)
