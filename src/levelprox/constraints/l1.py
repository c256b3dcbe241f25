"""L1, the ordinary ℓ1 norm: the convex constraint.

    φ(t) = λt,      t = |x|

Its slope is constant, so large coefficients are shrunk as much as small ones. With h = 0 the
level-constrained method solves one convex problem.
The case h = 0 of Assumption 1 of the paper; Tibshirani (1996), Journal of the Royal Statistical
Society B 58(1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from levelprox.constraints._base import CompiledConstraint, Double
from levelprox.projection import products_above


@dataclass(frozen=True)
class L1(CompiledConstraint):
    """The ℓ1 norm, whose cost is proportional to the size of a coefficient.

    φ(t) = lam * t, unbounded, with h = 0: the convex case of Assumption 1 of the paper. R. Tibshirani
    (1996), "Regression shrinkage and selection via the lasso", Journal of the Royal Statistical
    Society B 58(1), 267-288.

    Parameters
    ----------
    lam : float in (0, inf), default 1
        The slope.

    Examples
    --------
    >>> from levelprox.constraints import L1
    >>> L1().value([0.0, 2.0, -0.5])
    2.5
    """

    kernel_name: ClassVar[str] = "l1"

    lam: float = 1.0

    def __post_init__(self) -> None:
        self._check_parameters(lam=(0, np.inf))

    @property
    def lipschitz(self) -> float:
        """0, as h = 0."""
        return 0.0

    def kernel_parameters(self) -> tuple[float, ...]:
        """Return the parameters of the formula."""
        return (self.lam,)

    def _phi_above(self, t: Double) -> Double:
        return t if self.lam == 1 else products_above(np.full_like(t, self.lam), t)
